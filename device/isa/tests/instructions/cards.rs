//! What reports about cards say of instructions that are no arithmetic of one lane.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::{APERTURES, Gpu};
use super::lanes;

/// s_endpgm, of gfx11 and gfx12, and of gfx9.
const END: u32 = 0xbfb0_0000;
const END_GFX9: u32 = 0xbf81_0000;

/// ds_bpermute_b32 v2, v0, v1; ds_permute_b32 v3, v0, v1.
const EXCHANGES: [u32; 5] = [0xdacc_0000, 0x0200_0100, 0xdac8_0000, 0x0300_0100, END];
/// The same of gfx9.
const EXCHANGES_GFX9: [u32; 5] = [0xd87e_0000, 0x0200_0100, 0xd87c_0000, 0x0300_0100, END_GFX9];

/// s_sendmsg_rtn_b32 s0, sendmsg(MSG_RTN_GET_SE_AID_ID).
const SHADER_ENGINE: [u32; 2] = [0xbe80_4c87, END];

/// flat_load_b32 v2, v[0:1] offset:4, of gfx11.
const FLAT_LOAD: [u32; 3] = [0xdc50_0004, 0x027c_0000, END];

/// ds_add_f32 v0, v1, of gfx11.
const ADD: [u32; 3] = [0xd854_0000, 0x0000_0100, END];

/// s_getreg_b32 s0, hwreg(29), which is SHADER_CYCLES and SHADER_CYCLES_LO.
const CYCLES: [u32; 2] = [0xb880_f81d, END];
/// s_memtime s[0:1]; s_memrealtime s[2:3].
const MEMTIME: [u32; 5] = [0xc090_0000, 0, 0xc094_0080, 0, END_GFX9];

fn run(arch: Arch, backend: Backend, words: &[u32], init: &WaveInit<'_>) -> (Gpu, Wave, Stop) {
    let mut gpu = Gpu::of(arch, backend, 1 << 20);
    gpu.lds.reset(1024);
    let pc = gpu.buffer(words);
    let mut wave = Wave::new(&WaveInit { arch, pc, exec: u64::MAX, vgpr_count: 16, ..*init });
    let stop = gpu.step(&mut wave, 1000);
    (gpu, wave, stop)
}

#[test]
fn lanes_of_a_wave_exchange_as_far_as_the_chip_reaches() {
    let vgprs = [lanes(|lane| (lane ^ 32) * 4), lanes(|lane| 1000 + lane)];
    for (arch, wave_size, words, reach) in [
        (Arch::Gfx1100, WaveSize::Wave64, &EXCHANGES, 0),
        (Arch::Gfx1201, WaveSize::Wave64, &EXCHANGES, 32),
        (Arch::Gfx1201, WaveSize::Wave32, &EXCHANGES, 0),
        (Arch::Gfx942, WaveSize::Wave64, &EXCHANGES_GFX9, 32),
    ] {
        for backend in Backend::all() {
            let init = WaveInit { wave_size, vgprs: &vgprs, ..WaveInit::default() };
            let (_, wave, stop) = run(arch, backend, words, &init);
            assert_eq!(stop, Stop::EndProgram, "{arch:?}");
            for lane in 0..wave.lanes() {
                let got = [2, 3].map(|register| wave.vgpr(register, lane));
                assert_eq!(got, [1000 + (lane ^ reach); 2], "{arch:?} {backend:?} {lane}");
            }
        }
    }
}

#[test]
fn the_shader_engine_is_told_on_gfx12_only() {
    for backend in Backend::all() {
        let init = WaveInit { hw_id1: 5 << 18 | 0x3ffff, ..WaveInit::default() };
        let (_, wave, stop) = run(Arch::Gfx1201, backend, &SHADER_ENGINE, &init);
        assert_eq!((stop, wave.sgpr(0)), (Stop::EndProgram, 5));
        let (_, _, stop) = run(Arch::Gfx1100, backend, &SHADER_ENGINE, &init);
        assert!(matches!(stop, Stop::Fault(_)), "{stop:?}");
    }
}

#[test]
fn flat_addresses_are_where_the_register_is() {
    let shared = (APERTURES.shared_base >> 32) as u32;
    for backend in Backend::all() {
        // From below the aperture the offset leads to memory that is not there, not to LDS.
        let vgprs = [lanes(|_| u32::MAX - 3), lanes(|_| shared - 1)];
        let (_, _, stop) =
            run(Arch::Gfx1100, backend, &FLAT_LOAD, &WaveInit { vgprs: &vgprs, ..WaveInit::default() });
        let Stop::Fault(fault) = stop else { panic!("{backend:?}: {stop:?}") };
        assert!(
            matches!(&fault.kind, FaultCause::Memory { fault, .. } if fault.va == APERTURES.shared_base),
            "{backend:?}: {fault}"
        );
        let vgprs = [lanes(|lane| lane * 4), lanes(|_| shared)];
        let (_, wave, stop) =
            run(Arch::Gfx1100, backend, &FLAT_LOAD, &WaveInit { vgprs: &vgprs, ..WaveInit::default() });
        assert_eq!((stop, wave.vgpr(2, 3)), (Stop::EndProgram, 0));
    }
}

#[test]
fn sums_in_local_memory_have_denormals_as_mode_says() {
    let vgprs = [lanes(|_| 0), lanes(|lane| if lane == 0 { 5 } else { 0 })];
    // Denormals kept and flushed; rounding up has no effect.
    for (mode, sum) in [(0x3f0, 5), (0x3f5, 5), (0x3c0, 0), (0x3c5, 0)] {
        for backend in Backend::all() {
            let init = WaveInit { vgprs: &vgprs, mode, ..WaveInit::default() };
            let (gpu, _, stop) = run(Arch::Gfx1100, backend, &ADD, &init);
            assert_eq!(stop, Stop::EndProgram);
            let word: [u8; 4] = gpu.lds.bytes()[..4].try_into().unwrap();
            assert_eq!(u32::from_le_bytes(word), sum, "{mode:x} {backend:?}");
        }
    }
}

#[test]
fn the_shaders_clock_ticks_at_the_rate_that_drivers_state() {
    // A thousandth of a second of the constant clock.
    let clock = || 100_000;
    for (arch, words, expected) in [
        (Arch::Gfx1100, &CYCLES[..], 2_482_000 & 0xf_ffff),
        (Arch::Gfx1201, &CYCLES[..], 2_350_000),
        (Arch::Gfx942, &MEMTIME[..], 2_100_000),
    ] {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let pc = gpu.buffer(words);
        let mut wave = Wave::new(&WaveInit { arch, pc, ..WaveInit::default() });
        assert_eq!(gpu.step_at(&mut wave, &clock), Stop::EndProgram);
        assert_eq!(wave.sgpr(0), expected, "{arch:?}");
        if arch == Arch::Gfx942 {
            assert_eq!(wave.sgpr(2), 100_000, "the constant clock");
        }
    }
}
