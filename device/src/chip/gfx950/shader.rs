//! Compute units of gfx950: those of gfx942 with more LDS.
//!
//! Sizes: LLVM `AMDGPU.td` (`FeatureISAVersion9_5_0`: 163840 bytes of LDS) and `AMDGPUBaseInfo.cpp`; the unit of LDS: linux
//! `cwsr_trap_handler_gfx9.asm` (`LDS_RESTORE_GRANULARITY_BYTES`).

use crate::chip::{ShaderRules, gfx942};

const GFX942: ShaderRules = gfx942::SHADER_RULES;

pub(super) const RULES: ShaderRules = ShaderRules {
    alignment_mode: GFX942.alignment_mode,
    stack: GFX942.stack,
    retry_disable: GFX942.retry_disable,
    store_waits: GFX942.store_waits,
    keeps_stores: GFX942.keeps_stores,
    wave_slots: GFX942.wave_slots,
    vgpr_rows: GFX942.vgpr_rows,
    vgpr_granule: GFX942.vgpr_granule,
    row_lanes: GFX942.row_lanes,
    cus: GFX942.cus,
    simds_per_cu: GFX942.simds_per_cu,
    lds: 160 << 10,
    lds_granule: 1280,
    groups: GFX942.groups,
    place_ids: GFX942.place_ids,
    queue_ids: GFX942.queue_ids,
    enabled_cus: GFX942.enabled_cus,
    tmp_ring: GFX942.tmp_ring,
    scratch_reclaim: GFX942.scratch_reclaim,
    scratch_parts: GFX942.scratch_parts,
    scratch_granule: GFX942.scratch_granule,
    set_ttmps: GFX942.set_ttmps,
    wave_ttmp: GFX942.wave_ttmp,
    workgroup_info: GFX942.workgroup_info,
    ttmp_places: GFX942.ttmp_places,
    workgroup_of: GFX942.workgroup_of,
};

const _: () = assert!(RULES.fits_engine() && RULES.lds.is_multiple_of(RULES.lds_granule));
