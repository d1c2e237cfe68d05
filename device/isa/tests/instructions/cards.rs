//! Instructions that are no arithmetic of one lane, checked against reports about cards.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::{Backend, Matrices};
use belfry_isa::wave::{Wave, WaveInit};

use super::common::{APERTURES, Gpu, Random};
use super::lanes;

/// s_endpgm, of gfx11 and gfx12, and of gfx9.
const END: u32 = 0xbfb0_0000;
const END_GFX9: u32 = 0xbf81_0000;

/// ds_bpermute_b32 v2, v0, v1; ds_permute_b32 v3, v0, v1.
const EXCHANGES: [u32; 5] = [0xdacc_0000, 0x0200_0100, 0xdac8_0000, 0x0300_0100, END];
/// Exchanges of gfx9.
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

/// v_sub_f16 v2, v0, v1; v_subrev_f16 v3, v1, v0, of gfx11 and gfx12, and of gfx9.
const DIFFERENCES: [u32; 3] = [0x6604_0300, 0x6806_0101, END];
const DIFFERENCES_GFX9: [u32; 3] = [0x4004_0300, 0x4206_0101, END_GFX9];

fn run(arch: Arch, backend: Backend, words: &[u32], init: &WaveInit<'_>) -> (Gpu, Wave, Stop) {
    let mut gpu = Gpu::of(arch, backend, 1 << 20);
    gpu.lds.reset(1024);
    let pc = gpu.buffer(words);
    let mut wave = Wave::new(&WaveInit { arch, pc, exec: u64::MAX, vgpr_count: 16, ..*init });
    let stop = gpu.step(&mut wave, 1000);
    (gpu, wave, stop)
}

#[test]
fn a_nan_that_is_subtracted_has_the_other_sign() {
    let vgprs = [lanes(|lane| if lane < 8 { 0x3c00 } else { 0x7e02 }), lanes(|_| 0x7e01)];
    for (arch, wave_size, words) in [
        (Arch::Gfx1100, WaveSize::Wave32, &DIFFERENCES),
        (Arch::Gfx1201, WaveSize::Wave32, &DIFFERENCES),
        (Arch::Gfx942, WaveSize::Wave64, &DIFFERENCES_GFX9),
    ] {
        for (backend, mode) in Backend::all().flat_map(|backend| [(backend, 0x1f0), (backend, 0x3f0)]) {
            let init = WaveInit { wave_size, mode, vgprs: &vgprs, ..WaveInit::default() };
            let (_, wave, stop) = run(arch, backend, words, &init);
            assert_eq!(stop, Stop::EndProgram, "{arch:?}");
            let got =
                [(2, 0), (3, 0), (2, 9), (3, 9)].map(|(register, lane)| wave.vgpr(register, lane) & 0xffff);
            // Of two NaNs the first source's is the result.
            assert_eq!(got, [0xfe01, 0xfe01, 0x7e02, 0xfe01], "{arch:?} {backend:?} {mode:x}");
        }
    }
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
        (Arch::Gfx1151, &CYCLES[..], 2_900_000 & 0xf_ffff),
        (Arch::Gfx1201, &CYCLES[..], 2_350_000),
        (Arch::Gfx942, &MEMTIME[..], 2_100_000),
        (Arch::Gfx950, &MEMTIME[..], 2_200_000),
    ] {
        let mut gpu = Gpu::of(arch, Backend::detect(), 1 << 20);
        let pc = gpu.buffer(words);
        let mut wave = Wave::new(&WaveInit { arch, pc, ..WaveInit::default() });
        assert_eq!(gpu.step_at(&mut wave, &clock), Stop::EndProgram);
        assert_eq!(wave.sgpr(0), expected, "{arch:?}");
        if arch.is_gfx9() {
            assert_eq!(wave.sgpr(2), 100_000, "the constant clock");
        }
    }
}

/// v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23]; of gfx12 v[16:23], v[0:3], v[8:11], v[16:23].
const MATRIX: [u32; 3] = [0xcc40_4010, 0x1c42_1100, END];

/// A row of A and a column of B, C, and what a gfx1201 card gives in waves of 32 and of 64 lanes.
/// Source: ROCm/rocm-systems, `emulation/rocjitsu/tests/fixtures/float_dot/gfx1201_cases.h` (MIT, Copyright (c) 2026 Advanced Micro
/// Devices, Inc.).
type Captured = ([u16; 16], [u16; 16], u32, [u32; 2]);
const CAPTURED: [Captured; 3] = [
    (
        [
            0xc6e1, 0xb1ea, 0xd31d, 0x2d4f, 0x4a45, 0xd1f1, 0x3362, 0xc244, 0x4a75, 0x443e, 0x5623, 0x4ec3,
            0x57c7, 0xb82e, 0xcf34, 0x3660,
        ],
        [
            0xd36c, 0xc886, 0x2f3d, 0x30a3, 0xd070, 0xb2cb, 0x4759, 0xcf27, 0x4ed4, 0x3c97, 0xae37, 0xb63f,
            0x35f0, 0x3a25, 0xb0d8, 0x405a,
        ],
        0xbf6b_a3b9,
        [0x43df_c44b, 0x43df_c44a],
    ),
    (
        [
            0x9844, 0x3f7a, 0x606f, 0xc18c, 0xbe5b, 0x891f, 0xbbfb, 0x93b8, 0xc3c6, 0x32f2, 0xf44e, 0x15cf,
            0x5eeb, 0x2b55, 0x8bef, 0xa075,
        ],
        [
            0x8e88, 0xec18, 0xd3c2, 0xf6ae, 0x0cdb, 0x87c5, 0x4587, 0x5825, 0x6e7d, 0x8ab5, 0x8773, 0x4108,
            0x91c2, 0x3987, 0x62ab, 0xfbad,
        ],
        0x48e2_6837,
        [0x48e6_175e, 0x48e6_175f],
    ),
    (
        [
            0xbd53, 0x36b8, 0x2ae6, 0xb1d2, 0xc7a4, 0x52af, 0xd233, 0x4594, 0x2905, 0x47cd, 0xb74f, 0x56cc,
            0x35d2, 0x3da7, 0xac54, 0xab6a,
        ],
        [
            0xc142, 0x4be3, 0xd466, 0x4f40, 0xaf92, 0xc2ba, 0x5479, 0x414f, 0x3144, 0xa72e, 0xc63b, 0x337d,
            0x4661, 0x26c6, 0x5512, 0xb324,
        ],
        0x3f47_25a9,
        [0xc566_65fb, 0xc566_65fb],
    ),
];

/// Element `k` of a captured line: its number in the lanes that have it, and the first of these. Each lane has elements that follow each
/// other (`Gfx12Dot.WmmaHardwareRoundingOrderAndOverlappingSources`).
fn place(size: WaveSize, k: usize) -> (usize, usize) {
    match size {
        WaveSize::Wave32 => (k % 8, 16 * (k / 8)),
        WaveSize::Wave64 => (k % 4, 16 * (k / 4)),
    }
}

#[test]
fn exact_matrices_have_the_sums_of_a_gfx1201_card() {
    for (n, size) in [WaveSize::Wave32, WaveSize::Wave64].into_iter().enumerate() {
        for (a, b, c, expected) in CAPTURED {
            let mut vgprs = vec![[0_u32; 64]; 24];
            for (first, line) in [(0, a), (8, b)] {
                for (k, bits) in line.into_iter().enumerate() {
                    let (number, lane) = place(size, k);
                    for row in &mut vgprs[first + number / 2][lane..lane + 16] {
                        *row |= u32::from(bits) << (16 * (number % 2));
                    }
                }
            }
            vgprs[16..].fill([c; 64]);
            for backend in Backend::all().map(|backend| backend.with_matrices(Matrices::Exact)) {
                let mut gpu = Gpu::of(Arch::Gfx1201, backend, 1 << 20);
                let pc = gpu.buffer(&MATRIX);
                let mut wave = Wave::new(&WaveInit {
                    arch: Arch::Gfx1201,
                    pc,
                    exec: u64::MAX,
                    vgpr_count: 24,
                    wave_size: size,
                    vgprs: &vgprs,
                    ..WaveInit::default()
                });
                assert_eq!(gpu.step(&mut wave, 1000), Stop::EndProgram);
                let got = [wave.vgpr(16, 0), wave.vgpr(19, 31)];
                assert_eq!(got, [expected[n]; 2], "{size:?} {backend:?}");
            }
        }
    }
}

#[test]
fn exact_matrices_have_the_sums_of_a_gfx1100_card() {
    // Integers whose sums a Radeon Pro W7900 gives a little off (`gfx1100_cases.h`, as above): the first eight elements of D's first row.
    let expected =
        [0xbfff_ffc0_u32, 0xc277_fffe, 0xc1a0_0002, 0xc2c2_0000, 0xc217_ffff, 0x42f6_0000, 0xc2f8_0000];
    let half = |value: i32| -> u32 {
        let magnitude = value.unsigned_abs();
        let Some(top) = magnitude.checked_ilog2() else { return 0 };
        u32::from(value < 0) << 15 | (top + 15) << 10 | (magnitude << (10 - top)) & 0x3ff
    };
    let value = |n: i32, by: i32, modulus: i32, less: i32| n * by % modulus - less;
    let mut vgprs = vec![[0; 64]; 24];
    let mut set = |register: usize, lane: usize, word: u32| vgprs[register][lane] = word;
    for lane in 0..32_usize {
        let index = (lane % 16) as i32;
        for register in 0..8_usize {
            let at = register as i32;
            let a = [0, 1].map(|n| half(value(index * 16 + at * 2 + n, 7, 17, 8)));
            let b = [0, 1].map(|n| half(value((at * 2 + n) * 16 + index, 11, 17, 8)));
            set(register, lane, a[0] | a[1] << 16);
            set(8 + register, lane, b[0] | b[1] << 16);
            let c = value((2 * at + lane as i32 / 16) * 16 + index, 13, 129, 64);
            set(16 + register, lane, (c as f32).to_bits());
        }
    }
    for backend in Backend::all().map(|backend| backend.with_matrices(Matrices::Exact)) {
        let init = WaveInit { vgprs: &vgprs, vgpr_count: 24, ..WaveInit::default() };
        let mut gpu = Gpu::of(Arch::Gfx1100, backend, 1 << 20);
        let pc = gpu.buffer(&MATRIX);
        let mut wave = Wave::new(&WaveInit { pc, exec: u64::MAX, ..init });
        assert_eq!(gpu.step(&mut wave, 1000), Stop::EndProgram);
        let row: Vec<u32> = (0..7).map(|lane| wave.vgpr(16, lane)).collect();
        assert_eq!(row, expected, "{backend:?}");
    }
}

/// `v_sqrt_f32 v1, v0`, `v_exp_f32 v2, v0`, `v_log_f32 v3, v0`, `v_sin_f32 v4, v0`, `v_cos_f32 v5, v0`, of gfx11.
const FUNCTIONS: [u32; 6] = [0x7e02_6700, 0x7e04_4b00, 0x7e06_4f00, 0x7e08_6b00, 0x7e0a_6d00, END];

#[test]
fn functions_of_singles_have_the_same_bits_on_every_backend() {
    let mut gpus: Vec<Gpu> = Backend::all().map(|backend| Gpu::of(Arch::Gfx1100, backend, 1 << 20)).collect();
    let pcs: Vec<u64> = gpus.iter_mut().map(|gpu| gpu.buffer(&FUNCTIONS)).collect();
    // All exponents, and mantissas that lie everywhere; then numbers around one, where powers and logarithms are.
    let everywhere = (0..4096_u32).map(|n| n.wrapping_mul(0x9e37_79b9));
    let around_one = (0..4096_u32).map(|n| 0x3000_0000 + n * 0x1_4001);
    for start in everywhere.chain(around_one) {
        let vgprs = [lanes(|lane| start.wrapping_add(lane * 0x0001_2347) ^ lane << 31)];
        let mut results: Vec<Vec<u32>> = Vec::new();
        for (gpu, &pc) in gpus.iter_mut().zip(&pcs) {
            let init = WaveInit { pc, exec: u64::MAX, vgpr_count: 16, vgprs: &vgprs, ..WaveInit::default() };
            let mut wave = Wave::new(&init);
            assert_eq!(gpu.step(&mut wave, 100), Stop::EndProgram);
            results.push(
                (1..6)
                    .flat_map(|register| (0..32).map(move |lane| (register, lane)))
                    .map(|(r, l)| wave.vgpr(r, l))
                    .collect(),
            );
        }
        for other in &results[1..] {
            assert_eq!(*other, results[0], "from {start:x}");
        }
    }
}

/// v_wmma_f32_16x16x16_bf16 v[16:23], v[0:7], v[8:15], v[16:23], of gfx11; of gfx12 with v[0:3], v[8:11].
const BRAINS: [u32; 3] = [0xcc41_4010, 0x1c42_1100, END];

/// D of matrices of random numbers, summed in both ways, and the sum of magnitudes of each element.
fn both_ways(arch: Arch, brains: bool, seed: u64) -> Vec<[f32; 3]> {
    let mut random = Random(seed);
    let mut number = || {
        let bits = random.next();
        // From 1/16 to 16 with any sign and digits.
        let exponent = (bits >> 32) as u16 % 8;
        if brains {
            (bits as u16) & 0x807f | (123 + exponent) << 7
        } else {
            (bits as u16) & 0x83ff | (11 + exponent) << 10
        }
    };
    let value = |bits: u16| match brains {
        true => f32::from_bits(u32::from(bits) << 16),
        false => half::f16::from_bits(bits).to_f32(),
    };
    let [a, b] =
        [(); 2].map(|()| -> [[u16; 16]; 16] { core::array::from_fn(|_| core::array::from_fn(|_| number())) });
    let c: [[f32; 16]; 16] = core::array::from_fn(|_| core::array::from_fn(|_| value(number()) * 8.0));
    let old = arch == Arch::Gfx1100;
    let mut vgprs = vec![[0; 64]; 24];
    let mut set = |register: usize, lane: usize, word: u32| vgprs[register][lane] = word;
    for lane in 0..32_usize {
        let (line, upper) = (lane % 16, lane / 16);
        for register in 0..8_usize {
            // gfx12: quarters of a line take turns in both halves of the wave.
            let k = if old { 2 * register } else { 8 * (register / 2) + 4 * upper + 2 * (register % 2) };
            if k < 16 {
                for (base, lines) in [(0, &a), (8, &b)] {
                    let [low, high] = [lines[line][k], lines[line][k + 1]].map(u32::from);
                    set(base + register, lane, low | high << 16);
                }
            }
            let row = if old { 2 * register + upper } else { 8 * upper + register };
            set(16 + register, lane, c[row][line].to_bits());
        }
    }
    let [fast, exact] = [Matrices::Fast, Matrices::Exact].map(|matrices| {
        let backend = Backend::detect().with_matrices(matrices);
        let mut gpu = Gpu::of(arch, backend, 1 << 20);
        let pc = gpu.buffer(if brains { &BRAINS } else { &MATRIX });
        let init =
            WaveInit { arch, pc, exec: u64::MAX, vgpr_count: 24, vgprs: &vgprs, ..WaveInit::default() };
        let mut wave = Wave::new(&init);
        assert_eq!(gpu.step(&mut wave, 1000), Stop::EndProgram);
        wave
    });
    let all = (0..8_usize).flat_map(|register| (0..32_usize).map(move |lane| (register, lane)));
    all.map(|(register, lane)| {
        let row = if old { 2 * register + lane / 16 } else { 8 * (lane / 16) + register };
        let line = lane % 16;
        let products = (0..16).map(|k| (value(a[row][k]) * value(b[line][k])).abs());
        let [fast, exact] =
            [&fast, &exact].map(|wave| f32::from_bits(wave.vgpr(16 + register as u8, lane as u32)));
        [fast, exact, c[row][line].abs() + products.sum::<f32>()]
    })
    .collect()
}

#[test]
fn fast_matrices_are_off_by_few_units_of_the_sum_of_magnitudes() {
    for arch in [Arch::Gfx1100, Arch::Gfx1201] {
        for brains in [false, true] {
            let (mut differ, mut most) = (0, 0f32);
            for [fast, exact, magnitudes] in (1..200).flat_map(|seed| both_ways(arch, brains, seed)) {
                // Of the sum of magnitudes.
                let unit = f32::from_bits(magnitudes.to_bits() & 0x7f80_0000) / 8_388_608.0;
                differ += u32::from(fast.to_bits() != exact.to_bits());
                most = most.max((fast - exact).abs() / unit);
            }
            println!("{arch:?}, brains {brains}: {differ} differ, by {most} at most");
            assert!(differ > 1000, "{arch:?}: {differ} differ");
            assert!(most <= 24.0, "{arch:?}: {most}");
        }
    }
}
