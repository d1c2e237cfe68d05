//! Compute units of gfx11.
//!
//! Sizes: LLVM `AMDGPUBaseInfo.cpp` (`getTotalNumVGPRs`, `getVGPRAllocGranule`, `getMaxWavesPerEU`,
//! `getAddressableLocalMemorySize`).

use belfry_abi::aql::{TMPRING_WAVESIZE_UNIT, TmpringSize};
use belfry_isa::wave::Wave;

use crate::chip::{CuMask, QueuePlace, ShaderRules, StackForm, TmpRing, WavePlace};

pub(in crate::chip) const RULES: ShaderRules = ShaderRules {
    alignment_mode: 2,
    stack: StackForm::Gfx11,
    retry_disable: 0,
    store_waits: 0,
    keeps_stores: false,
    wave_slots: 16,
    vgpr_rows: 1536,
    vgpr_granule: 24,
    row_lanes: 32,
    cus: 2,
    simds_per_cu: 2,
    lds: 64 << 10,
    // `GRANULATED_LDS_SIZE`.
    lds_granule: 512,
    groups: 32,
    place_ids,
    queue_ids,
    workgroup_info,
    set_ttmps,
    ttmp_places: [8, 11],
    wave_ttmp,
    workgroup_of,
    enabled_cus,
    tmp_ring,
    scratch_reclaim: false,
    scratch_parts: |topology| topology.xccs * topology.shader_engines,
    scratch_granule: TMPRING_WAVESIZE_UNIT,
};

const _: () = assert!(RULES.fits_engine());

/// Scalar register of `ttmp8`.
const TTMP8: u8 = 108 + 8;

/// `HW_ID1`: WAVE_ID 4:0, SIMD_ID 9:8, WGP_ID 13:10, SA_ID 16, SE_ID 20:18. `HW_ID2`: WG_ID 20:16.
fn place_ids(place: WavePlace) -> [u32; 2] {
    let WavePlace { engine, array, processor, simd, slot, group, .. } = place;
    [slot | simd << 8 | processor << 10 | array << 16 | engine << 18, group << 16]
}

/// `HW_ID2`: QUEUE_ID 3:0, PIPE_ID 5:4, ME_ID 9:8, VM_ID 27:24.
fn queue_ids(place: QueuePlace) -> [u32; 2] {
    let field = |value: u8, mask: u32, shift: u32| (u32::from(value) & mask) << shift;
    let QueuePlace { me, pipe, queue, vmid } = place;
    [0, field(queue, 0xf, 0) | field(pipe, 3, 4) | field(me, 3, 8) | field(vmid, 0xf, 24)]
}

/// Bit 31 first wave, bits 24:20 the wave's number, bits 11:6 the same as the ordered-append term, bits 5:0 waves of the
/// workgroup. Mesa reads both numbers on gfx11: `ac_nir_lower_intrinsics_to_args.c`, `load_subgroup_id` and
/// `load_num_subgroups`, and code of ACO for `gl_LocalInvocationIndex` in waves of 64 lanes.
fn workgroup_info(wave: u32, waves: u32) -> u32 {
    u32::from(wave == 0) << 31 | (wave & 0x1f) << 20 | (wave & 0x3f) << 6 | waves & 0x3f
}

/// `ttmp6` 24:0 `DispatchPktIndx`; `ttmp8` to `ttmp10` the workgroup's identifier (ROCdbgapi); `ttmp11` 5:0
/// `WaveIdInWG`, 6 `NoScratch` (ROCr, `trap_handler.s`).
fn set_ttmps(state: &mut Wave, x: u32, (y, z): (u32, u32), (wave, packet): (u32, u32), scratch: bool) {
    state.set_ttmp(6, packet & 0x1ff_ffff);
    for (ttmp, id) in (8..).zip([x, y, z]) {
        state.set_ttmp(ttmp, id);
    }
    state.set_ttmp(11, wave_ttmp((wave, packet), scratch));
}

fn wave_ttmp((wave, _packet): (u32, u32), scratch: bool) -> u32 {
    wave & 0x3f | u32::from(!scratch) << 6
}

/// Reads the identifier from the places that [`set_ttmps`] writes.
fn workgroup_of(wave: &Wave) -> [u32; 3] {
    [0, 1, 2].map(|dimension| wave.sgpr(TTMP8 + dimension))
}

/// `COMPUTE_STATIC_THREAD_MGMT_SE0` and on: SA0_CU_EN 15:0, SA1_CU_EN 31:16; a processor has two compute units.
fn enabled_cus(mask: &CuMask, place: WavePlace) -> u32 {
    let engine = mask.0.get(place.engine as usize).copied().unwrap_or(0);
    engine.checked_shr(place.array * 16 + place.processor * 2).unwrap_or(0) & 3
}

fn tmp_ring(bits: u32) -> TmpRing {
    let size = TmpringSize::from_bits(bits);
    TmpRing { waves: size.waves(), wave_bytes: u64::from(size.wavesize()) * TMPRING_WAVESIZE_UNIT }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_a_wave_are_in_the_fields_of_both_registers() {
        let place = WavePlace { xcc: 0, engine: 5, array: 1, processor: 3, simd: 2, slot: 15, group: 31 };
        assert_eq!(place_ids(place), [5 << 18 | 1 << 16 | 3 << 10 | 2 << 8 | 15, 31 << 16]);
        let queue = QueuePlace { me: 1, pipe: 3, queue: 7, vmid: 15 };
        assert_eq!(queue_ids(queue), [0, 15 << 24 | 1 << 8 | 3 << 4 | 7]);
    }
}
