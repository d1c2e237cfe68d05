//! Compute units of gfx12, which mostly equal those of gfx11.
//!
//! Sizes: LLVM `AMDGPUBaseInfo.cpp`, as for gfx11. Contents of trap temporaries: `SIISelLowering.cpp`
//! (architected SGPRs: `ttmp9` has the workgroup's X, `ttmp7` Y and Z, `ttmp8` 29:25 the wave in its
//! workgroup).

use belfry_isa::wave::Wave;

use crate::chip::{ShaderRules, TmpRing, gfx1100};

/// Rules of gfx11, of which the parts that are named below are the same.
const GFX11: ShaderRules = gfx1100::SHADER_RULES;

pub(super) const RULES: ShaderRules = ShaderRules {
    set_ttmps,
    ttmp_places: [9, 8],
    wave_ttmp,
    workgroup_of,
    tmp_ring,
    alignment_mode: GFX11.alignment_mode,
    stack: GFX11.stack,
    retry_disable: GFX11.retry_disable,
    store_waits: GFX11.store_waits,
    keeps_stores: GFX11.keeps_stores,
    wave_slots: GFX11.wave_slots,
    vgpr_rows: GFX11.vgpr_rows,
    vgpr_granule: GFX11.vgpr_granule,
    row_lanes: GFX11.row_lanes,
    cus: GFX11.cus,
    simds_per_cu: GFX11.simds_per_cu,
    lds: GFX11.lds,
    lds_granule: GFX11.lds_granule,
    groups: GFX11.groups,
    place_ids: GFX11.place_ids,
    queue_ids: GFX11.queue_ids,
    workgroup_info: GFX11.workgroup_info,
    enabled_cus: GFX11.enabled_cus,
    scratch_reclaim: GFX11.scratch_reclaim,
    scratch_parts: GFX11.scratch_parts,
    scratch_granule: GFX11.scratch_granule,
};

const _: () = assert!(RULES.fits_engine());

/// Scalar register of `ttmp0`.
const TTMP0: u8 = 108;
/// Unit of `COMPUTE_TMPRING_SIZE.WAVESIZE` in bytes.
const WAVESIZE_UNIT: u64 = 256;

/// `ttmp7` 15:0 Y and 31:16 Z of the workgroup, `ttmp9` its X; `ttmp8` 29:25 `WaveIdInWG`, 24:0 `DispatchPktIndx`; `ttmp11` 6
/// `NoScratch`.
fn set_ttmps(state: &mut Wave, x: u32, (y, z): (u32, u32), (wave, packet): (u32, u32), scratch: bool) {
    state.set_ttmp(7, y & 0xffff | z << 16);
    state.set_ttmp(8, wave_ttmp((wave, packet), scratch));
    state.set_ttmp(9, x);
    state.set_ttmp(11, u32::from(!scratch) << 6);
}

fn wave_ttmp((wave, packet): (u32, u32), _scratch: bool) -> u32 {
    (wave & 0x1f) << 25 | packet & 0x1ff_ffff
}

/// Reads the identifier from the places that [`set_ttmps`] writes.
fn workgroup_of(wave: &Wave) -> [u32; 3] {
    let yz = wave.sgpr(TTMP0 + 7);
    [wave.sgpr(TTMP0 + 9), yz & 0xffff, yz >> 16]
}

/// `COMPUTE_TMPRING_SIZE`: WAVES 11:0, WAVESIZE 29:12.
fn tmp_ring(bits: u32) -> TmpRing {
    TmpRing { waves: bits & 0xfff, wave_bytes: u64::from(bits >> 12 & 0x3_ffff) * WAVESIZE_UNIT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_of_a_wave_has_three_bits_more_than_on_gfx11() {
        assert_eq!(tmp_ring(0x2000_1000 | 5), TmpRing { waves: 5, wave_bytes: 0x2_0001 * 256 });
        assert_eq!(tmp_ring(0xc000_0000).wave_bytes, 0);
    }
}
