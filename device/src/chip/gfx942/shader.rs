//! Compute units of gfx942, which has no work group processors.
//!
//! Sizes: LLVM `AMDGPUBaseInfo.cpp`; `HW_ID`: `gc_9_4_3_sh_mask.h`, `SQ_WAVE_HW_ID__*`.

use belfry_abi::aql::{TMPRING_WAVESIZE_UNIT_GFX9, TmpringSizeGfx9};
use belfry_isa::wave::Wave;

use crate::chip::{CuMask, QueuePlace, ShaderRules, StackForm, TmpRing, WavePlace, gfx1100};

pub(in crate::chip) const RULES: ShaderRules = ShaderRules {
    alignment_mode: 3,
    stack: StackForm::Gfx9,
    retry_disable: 1 << 12,
    // vmcnt: bits 3:0 and 15:14.
    store_waits: 0xc00f,
    keeps_stores: true,
    wave_slots: 8,
    vgpr_rows: 512,
    vgpr_granule: 8,
    row_lanes: 64,
    cus: 1,
    simds_per_cu: 4,
    lds: 64 << 10,
    lds_granule: 512,
    groups: 32,
    place_ids,
    queue_ids,
    enabled_cus,
    tmp_ring,
    scratch_reclaim: true,
    scratch_parts: |topology| topology.xccs,
    scratch_granule: TMPRING_WAVESIZE_UNIT_GFX9,
    set_ttmps,
    wave_ttmp,
    workgroup_info,
    // Trap temporaries have the workgroup's identifier where gfx11 has it.
    ttmp_places: gfx1100::SHADER_RULES.ttmp_places,
    workgroup_of: gfx1100::SHADER_RULES.workgroup_of,
};

const _: () = assert!(RULES.fits_engine());

/// Shader engines of an XCC.
const ENGINES: u32 = 4;

/// Bit 31 first wave, bits 11:6 the wave's number, bits 5:0 waves of the workgroup (mesa
/// `ac_nir_lower_intrinsics_to_args.c`, `load_subgroup_id` before gfx10.3).
fn workgroup_info(wave: u32, waves: u32) -> u32 {
    u32::from(wave == 0) << 31 | (wave & 0x3f) << 6 | waves & 0x3f
}

/// `ttmp8` to `ttmp10` the workgroup's identifier; `ttmp11` 5:0 `WaveIdInWG`, 30:6 `DispatchPktIndx` (as
/// ROCdbgapi reads them on gfx942). The program's trap handler sets bit 31 once it has set up the others.
fn set_ttmps(state: &mut Wave, x: u32, (y, z): (u32, u32), (wave, packet): (u32, u32), scratch: bool) {
    for (ttmp, id) in (8..).zip([x, y, z]) {
        state.set_ttmp(ttmp, id);
    }
    state.set_ttmp(11, wave_ttmp((wave, packet), scratch));
}

fn wave_ttmp((wave, packet): (u32, u32), _scratch: bool) -> u32 {
    wave & 0x3f | (packet & 0x1ff_ffff) << 6
}

/// `HW_ID`: WAVE_ID 3:0, SIMD_ID 5:4, CU_ID 11:8, SH_ID 12, SE_ID 15:13, TG_ID 19:16. `XCC_ID`: 3:0.
fn place_ids(place: WavePlace) -> [u32; 2] {
    let WavePlace { xcc, engine, array, processor, simd, slot, group } = place;
    let id = slot | simd << 4 | processor << 8 | array << 12 | engine << 13 | (group & 0xf) << 16;
    [id, xcc & 0xf]
}

/// `HW_ID`: PIPE_ID 7:6, VM_ID 23:20, QUEUE_ID 26:24, ME_ID 31:30.
fn queue_ids(place: QueuePlace) -> [u32; 2] {
    let field = |value: u8, mask: u32, shift: u32| (u32::from(value) & mask) << shift;
    let QueuePlace { me, pipe, queue, vmid } = place;
    [field(pipe, 3, 6) | field(vmid, 0xf, 20) | field(queue, 7, 24) | field(me, 3, 30), 0]
}

/// `COMPUTE_STATIC_THREAD_MGMT_SE0` to `SE3` of each XCC: SH0_CU_EN 15:0.
fn enabled_cus(mask: &CuMask, place: WavePlace) -> u32 {
    let engine = mask.0.get((place.xcc * ENGINES + place.engine) as usize).copied().unwrap_or(0);
    engine.checked_shr(place.array * 16 + place.processor).unwrap_or(0) & 1
}

/// Decodes `COMPUTE_TMPRING_SIZE`; waves are counted for one XCC.
fn tmp_ring(bits: u32) -> TmpRing {
    let size = TmpringSizeGfx9::from_bits(bits);
    TmpRing { waves: size.waves(), wave_bytes: u64::from(size.wavesize()) * TMPRING_WAVESIZE_UNIT_GFX9 }
}

#[cfg(test)]
mod tests {
    use belfry_isa::inst::WaveSize;

    use super::*;
    use crate::chip::Topology;

    #[test]
    fn ids_of_a_wave_are_in_the_fields_of_its_registers() {
        let place = WavePlace { xcc: 7, engine: 3, array: 0, processor: 9, simd: 2, slot: 5, group: 31 };
        assert_eq!(place_ids(place), [15 << 16 | 3 << 13 | 9 << 8 | 2 << 4 | 5, 7]);
        let queue = QueuePlace { me: 1, pipe: 3, queue: 7, vmid: 15 };
        assert_eq!(queue_ids(queue), [1 << 30 | 7 << 24 | 15 << 20 | 3 << 6, 0]);
    }

    #[test]
    fn registers_are_rows_of_64_lanes_in_granules_of_8() {
        let rows = |count| RULES.allocated_vgprs(WaveSize::Wave64, count, 0);
        assert_eq!([1, 8, 9, 128, 512].map(rows), [8, 8, 16, 128, 512]);
    }

    #[test]
    fn masks_are_those_of_each_xcc() {
        let mut mask = CuMask::ALL;
        mask.0[5] = 0b10;
        let at = |xcc, engine, processor| {
            enabled_cus(&mask, WavePlace { xcc, engine, processor, ..WavePlace::default() })
        };
        assert_eq!([at(0, 1, 0), at(1, 1, 0), at(1, 1, 1), at(1, 0, 0)], [1, 0, 1, 1]);
        assert_eq!(tmp_ring(3 << 12 | 64), TmpRing { waves: 64, wave_bytes: 3072 });
        let topology =
            Topology { xccs: 8, shader_engines: 4, arrays_per_engine: 1, wgps_per_array: 10, wgps: 38 };
        assert_eq!((RULES.scratch_parts)(&topology), 8, "waves are those of an XCC");
        assert_eq!(
            (gfx1100::SHADER_RULES.scratch_parts)(&Topology { xccs: 1, ..topology }),
            4,
            "of an engine"
        );
    }
}
