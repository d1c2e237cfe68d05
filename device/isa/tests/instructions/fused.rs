//! Fused sums whose product is invalid: a card makes the NaN of an invalid operation, and the number that is added has no effect. So say reports about cards
//! (docs/isa-choices.md), and so must all tiers and back ends.

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::{Gpu, Random};
use super::compiled::tiers;
use super::lanes;

/// s_endpgm, of gfx11 and gfx12, and of gfx9.
const END: u32 = 0xbfb0_0000;
const END_GFX9: u32 = 0xbf81_0000;

/// Fused sums of gfx11 and gfx12: v_fma_f32 v3, v0, v1, v2; v_mov_b32 v4, v2; v_fmac_f32_e32 v4, v0, v1.
const FUSED: [u32; 12] = [
    0xd613_0003,
    0x040a_0300,
    0x7e08_0302,
    0x5608_0300,
    // v_fma_f32 v5, -v1, |v0|, v2.
    0xd613_0205,
    0x240a_0101,
    // v_mov_b32 v6, v0; v_fma_f32 v6, v6, v1, v2; v_mov_b32 v7, v1; v_fma_f32 v7, v0, v7, v2.
    0x7e0c_0300,
    0xd613_0006,
    0x040a_0306,
    0x7e0e_0301,
    0xd613_0007,
    0x040a_0f00,
];
/// The same of gfx9.
const FUSED_GFX9: [u32; 12] = [
    0xd1cb_0003,
    0x040a_0300,
    0x7e08_0302,
    0x7608_0300,
    0xd1cb_0205,
    0x240a_0101,
    0x7e0c_0300,
    0xd1cb_0006,
    0x040a_0306,
    0x7e0e_0301,
    0xd1cb_0007,
    0x040a_0f00,
];

/// v_fma_mix_f32 v3, v0, v1, v2; v_fma_mixlo_f16 v4, v0, v1, v2, all of singles, of gfx11 and gfx12, and of gfx9.
const MIXED: [u32; 4] = [0xcc20_0003, 0x040a_0300, 0xcc21_0004, 0x040a_0300];
const MIXED_GFX9: [u32; 4] = [0xd3a0_0003, 0x040a_0300, 0xd3a1_0004, 0x040a_0300];
/// v_fma_f16 v3, v0, v1, v2; v_pk_fma_f16 v4, v0, v1, v2 of gfx11 and gfx12, and of gfx9.
const HALVES: [u32; 4] = [0xd648_0003, 0x040a_0300, 0xcc0e_4004, 0x1c0a_0300];
const HALVES_GFX9: [u32; 4] = [0xd206_0003, 0x040a_0300, 0xd38e_4004, 0x1c0a_0300];
/// v_fma_f64 v[6:7], v[0:1], v[2:3], v[4:5] of gfx11, of gfx12 and of gfx9.
const DOUBLES: [u32; 2] = [0xd614_0006, 0x0412_0500];
const DOUBLES_GFX9: [u32; 2] = [0xd1cc_0006, 0x0412_0500];

/// The NaN of an invalid operation.
const INVALID: u32 = 0xffc0_0000;

/// Factors and what is added, and what cards make of them.
const SUMS: [[u32; 4]; 10] = [
    [0x7f80_0000, 0, 0x7fc0_0001, 0xffc0_0000],
    [0x8000_0000, 0xff80_0000, 0x7fc0_0001, 0xffc0_0000],
    [0, 0x7f80_0000, 0x7fa0_1234, 0xffc0_0000],
    [0x7f80_0000, 0, 0xffc0_1234, 0xffc0_0000],
    [0x7fc0_0002, 0, 0x7fc0_0001, 0x7fc0_0002],
    [0x7f80_0000, 0x7f80_0005, 0x7fc0_0001, 0x7fc0_0005],
    [0x3f80_0000, 0, 0x7f80_0001, 0x7fc0_0001],
    [0x7f80_0000, 0, 0x3f80_0000, 0xffc0_0000],
    [0x7f80_0000, 0x3f80_0000, 0xff80_0000, 0xffc0_0000],
    [0x4000_0000, 0x4040_0000, 0x3f80_0000, 0x40e0_0000],
];

/// The half that stands for one of these singles.
fn half(single: u32) -> u32 {
    match single {
        0x3f80_0000 => 0x3c00,
        0x4000_0000 => 0x4000,
        0x4040_0000 => 0x4200,
        0x40e0_0000 => 0x4700,
        // Zeros, infinities and NaNs.
        _ => single >> 16 & 0x8000 | single >> 13 & 0x7e00 | single & 0x1ff,
    }
}

fn run(arch: Arch, backend: Backend, words: &[u32], init: &WaveInit<'_>) -> (Wave, Stop) {
    let mut gpu = Gpu::of(arch, backend, 1 << 20);
    gpu.lds.reset(1024);
    let pc = gpu.buffer(words);
    let mut wave = Wave::new(&WaveInit { arch, pc, mode: 0x3f0, vgpr_count: 16, ..*init });
    let stop = gpu.step(&mut wave, 1000);
    (wave, stop)
}

#[test]
fn a_sum_with_an_invalid_product_is_the_nan_of_that_whatever_is_added() {
    let of = |n: usize| lanes(|lane| SUMS[lane as usize % SUMS.len()][n]);
    let halves = |n: usize| of(n).map(|single| half(single) * 0x1_0001);
    for (arch, wave_size, singles, mixed, packed) in [
        (Arch::Gfx1100, WaveSize::Wave32, &FUSED, &MIXED, &HALVES),
        (Arch::Gfx1100, WaveSize::Wave64, &FUSED, &MIXED, &HALVES),
        (Arch::Gfx1201, WaveSize::Wave32, &FUSED, &MIXED, &HALVES),
        (Arch::Gfx942, WaveSize::Wave64, &FUSED_GFX9, &MIXED_GFX9, &HALVES_GFX9),
    ] {
        let end = if arch.is_gfx9() { END_GFX9 } else { END };
        for (backend, exec) in
            Backend::all().flat_map(|backend| [(backend, u64::MAX), (backend, u64::MAX >> 1)])
        {
            let results = |words: &[u32], vgprs: &[[u32; 64]]| {
                let words = [words, &[end]].concat();
                let init = WaveInit { wave_size, vgprs, ..WaveInit::default() };
                let (wave, stop) = run(arch, backend, &words, &WaveInit { exec, ..init });
                assert_eq!(stop, Stop::EndProgram, "{arch:?} {backend:?}");
                wave
            };
            let vgprs = [of(0), of(1), of(2)];
            let (wave, mixed) = (results(singles, &vgprs), results(mixed, &vgprs));
            let packed = results(packed, &[halves(0), halves(1), halves(2)]);
            for lane in 0..30 {
                let name =
                    format!("{arch:?} {wave_size:?} {backend:?} {:x?}", SUMS[lane as usize % SUMS.len()]);
                let expected = of(3)[lane as usize];
                assert_eq!([3, 4, 6, 7].map(|register| wave.vgpr(register, lane)), [expected; 4], "{name}");
                assert_eq!(mixed.vgpr(3, lane), expected, "{name}");
                assert_eq!(mixed.vgpr(4, lane) & 0xfe00, half(expected) & 0xfe00, "{name}");
                let expected = halves(3)[lane as usize];
                assert_eq!(packed.vgpr(3, lane), expected & 0xffff, "{name}");
                assert_eq!(packed.vgpr(4, lane), expected, "{name}");
                // |v0| times -v1: the NaN of an invalid product has its own sign.
                let [a, b, _, sum] = SUMS[lane as usize % SUMS.len()];
                if sum == INVALID && (a << 1 == 0 || b << 1 == 0) {
                    assert_eq!(wave.vgpr(5, lane), INVALID, "{name}");
                }
            }
        }
    }
}

#[test]
fn a_sum_of_doubles_with_an_invalid_product_is_the_nan_of_that() {
    // Low words are zeros but for payloads of NaNs.
    let words = |high: u32, low: u32| (high, low);
    let sums = [
        [words(0x7ff0_0000, 0), words(0, 0), words(0x7ff8_0000, 1), words(0xfff8_0000, 0)],
        [words(0x8000_0000, 0), words(0xfff0_0000, 0), words(0x7ff0_0000, 1), words(0xfff8_0000, 0)],
        [words(0x7ff8_0000, 2), words(0, 0), words(0x7ff8_0000, 1), words(0x7ff8_0000, 2)],
        [words(0x3ff0_0000, 0), words(0, 0), words(0x7ff0_0000, 1), words(0x7ff8_0000, 1)],
    ];
    let all = |n: usize| {
        let of = |lane: u32| sums[lane as usize % sums.len()][n];
        [lanes(|lane| of(lane).1), lanes(|lane| of(lane).0)]
    };
    let vgprs = [all(0), all(1), all(2)].concat();
    for (arch, wave_size, words) in [
        (Arch::Gfx1100, WaveSize::Wave32, &DOUBLES),
        (Arch::Gfx1201, WaveSize::Wave32, &DOUBLES),
        (Arch::Gfx942, WaveSize::Wave64, &DOUBLES_GFX9),
    ] {
        let words = [&words[..], &[if arch.is_gfx9() { END_GFX9 } else { END }]].concat();
        for backend in Backend::all() {
            let init = WaveInit { wave_size, exec: u64::MAX, vgprs: &vgprs, ..WaveInit::default() };
            let (wave, stop) = run(arch, backend, &words, &init);
            assert_eq!(stop, Stop::EndProgram);
            for lane in 0..wave.lanes() {
                let [low, high] = all(3).map(|words| words[lane as usize]);
                assert_eq!([6, 7].map(|n| wave.vgpr(n, lane)), [low, high], "{arch:?} {backend:?} {lane}");
            }
        }
    }
}

/// Numbers, and what is special to products and sums.
const NUMBERS: [u32; 4] = [0x3f80_0000, 0xc000_0000, 0x3f00_0000, 0x4040_0000];
const SPECIAL: [u32; 9] = [
    0,
    0x8000_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0001,
    0xffc0_1234,
    0x7f80_0001,
    0xffc0_0000,
    0x7fc0_0000,
];

/// v_lshlrev_b32 v1, 4, v0; v_mov_b32 v2, 0; v_lshlrev_b32 v3, 2, v0; s_mov_b32 s0, 3; s_branch of no distance.
const BEGIN: [u32; 5] = [0x3002_0084, 0x7e04_0280, 0x3006_0082, 0xbe80_0083, 0xbfa0_0000];
/// s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1 of no distance.
const AGAIN: [u32; 3] = [0x8080_8100, 0xbf07_8000, 0xbfa2_0000];

const LDS_BYTES: u32 = 2048;

/// Kind of a program's instructions.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// Rows from `v4` on that products are added to, and rows behind those that factors are in.
    sums: u32,
    factors: u32,
    loads: bool,
    /// VOPDs, which waves of 64 lanes do not have.
    pairs: bool,
    /// One instruction of so many does something else with a sum.
    others: u32,
}

fn instruction(random: &mut Random, kind: Kind) -> Vec<u32> {
    let mut below = |limit: u32| (random.next() >> 33) as u32 % limit;
    let behind = 4 + kind.sums;
    let sum = 4 + below(kind.sums);
    let [a, b, c] = [(); 3].map(|()| behind + below(kind.factors));
    let wide = behind + below(kind.factors - 3);
    let fmac = |d: u32, a: u32, b: u32| vec![0x5600_0000 | d << 17 | b << 9 | a];
    let fma = |d: u32, sources: [u32; 3], signs: u32| {
        let [a, b, c] = sources;
        vec![0xd613_0000 | (signs & 3) << 8 | d, a | (0x100 + b) << 9 | c << 18 | (signs >> 2) << 29]
    };
    let offset = below(4) * 8;
    let load = |high: u32, address: u32| vec![high | offset, wide << 24 | address];
    if below(kind.others) == 0 {
        return match below(5) {
            // v_lshrrev_b32 of a sum; v_mov_b32 to one; a sum as a factor, in two ways; v_mul_f32 of a sum.
            0 => vec![0x3200_0089 | a << 17 | sum << 9],
            1 => vec![0x7e00_0300 | sum << 17 | a],
            2 => fmac(sum, 0x100 + sum, b),
            3 => fma(a, [0x100 + b, c, 0x100 + sum], 0),
            _ => vec![0x1000_0100 | a << 17 | b << 9 | sum],
        };
    }
    match below(if kind.loads { 14 } else { 11 }) {
        0..=4 => fmac(sum, 0x100 + a, b),
        // Factors in scalars, and constants: zero, 0.5.
        5 => fmac(sum, 4 + below(4), b),
        6 => fmac(sum, [0x80, 0xf0][below(2) as usize], b),
        7 => fma(sum, [0x100 + a, b, 0x100 + sum], below(16)),
        8 => fma(a, [0x100 + a, b, 0x100 + c], below(32)),
        9 => fma(a, [0x100 + b, c, [0x80, 0xf2][below(2) as usize]], 0),
        // v_dual_fmac_f32 of two, where sources of four banks are among the factors.
        10 if kind.pairs => {
            let bank = |n: u32| (behind..behind + kind.factors).find(|row| row % 4 == n).unwrap_or(behind);
            let (x, y) = (sum & !1, (sum | 1).min(behind - 1));
            let [x0, y0, x1, y1] = [0, 1, 2, 3].map(bank);
            match y & 1 {
                1 => {
                    vec![0xc800_0000 | 0x100 | x0 | x1 << 9, 0x100 | y0 | y1 << 9 | (y >> 1) << 17 | x << 24]
                }
                _ => fmac(sum, 0x100 + a, b),
            }
        }
        10 => fmac(sum, 0x100 + a, a),
        // ds_load_b32, ds_load_b64 and ds_load_b128.
        11 => load(0xd8d8_0000, 2),
        12 => load(0xd9d8_0000, 1),
        _ => load(0xdbfc_0000, 1),
    }
}

/// Registers that a program leaves. One word of `rare` is special.
fn left(
    backend: Backend,
    words: &[u32],
    (size, exec): (WaveSize, u64),
    (rare, seed): (u32, u64),
) -> Vec<u32> {
    let mut random = Random(seed);
    let mut word = || {
        let number = (random.next() >> 33) as u32;
        let of: &[u32] = if number.is_multiple_of(rare) { &SPECIAL } else { &NUMBERS };
        of[(number / rare) as usize % of.len()]
    };
    let mut gpu = Gpu::of(Arch::Gfx1100, backend, 1 << 18);
    gpu.lds.reset(LDS_BYTES);
    for bytes in gpu.lds.bytes_mut().as_chunks_mut::<4>().0 {
        *bytes = word().to_le_bytes();
    }
    let pc = gpu.buffer(words);
    let mut vgprs: Vec<[u32; 64]> = (0..40).map(|_| core::array::from_fn(|_| word())).collect();
    vgprs[0] = lanes(|lane| lane);
    let sgprs: [u32; 8] = core::array::from_fn(|_| word());
    let init = WaveInit {
        pc,
        exec,
        wave_size: size,
        vgprs: &vgprs,
        sgprs: &sgprs,
        vgpr_count: 40,
        mode: 0x3f0,
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    assert_eq!(gpu.step(&mut wave, 10_000), Stop::EndProgram);
    (0..40)
        .flat_map(|n| (0..wave.lanes()).map(move |lane| (n, lane)))
        .map(|(n, lane)| wave.vgpr(n, lane))
        .collect()
}

/// Programs of a kind, straight and in a loop, for waves of both sizes, with special words in several shares.
fn compare(kind: Kind, programs: u32) {
    for [interpreter, compiler] in tiers() {
        let mut random = Random(0x1d87_2b41_ee3a_95c7);
        for program in 0..programs {
            let body: Vec<u32> = (0..8 + program % 60).flat_map(|_| instruction(&mut random, kind)).collect();
            for loops in [false, true] {
                let [count, compare, branch] = AGAIN;
                let back = (body.len() as u32 + 3).wrapping_neg() & 0xffff;
                let end: &[u32] = if loops { &[count, compare, branch | back, END] } else { &[END] };
                let words = [&BEGIN[..], &body, end].concat();
                for (n, rare) in [2, 40, 1000, u32::MAX].into_iter().enumerate() {
                    let wide = !kind.pairs && (n + program as usize) % 2 == 1;
                    let size = if wide { WaveSize::Wave64 } else { WaveSize::Wave32 };
                    let exec = if program % 3 == 0 { 0xffff_0fff_ffff_fff7 } else { u64::MAX };
                    let seed = u64::from(program) * 4 + n as u64 + 1;
                    let [expected, found] = [interpreter, compiler]
                        .map(|backend| left(backend, &words, (size, exec), (rare, seed)));
                    let different = (0..expected.len()).find(|&at| expected[at] != found[at]);
                    assert!(
                        different.is_none(),
                        "{compiler:?} {kind:?} program {program} {size:?} loops {loops} one in {rare}: {:x?} {body:x?}",
                        different.map(|at| (at, expected[at], found[at]))
                    );
                }
            }
        }
    }
}

#[test]
fn sums_of_many_rows_are_those_of_the_interpreter() {
    let kind = Kind { sums: 12, factors: 12, loads: true, pairs: true, others: 60 };
    compare(kind, 60);
    compare(Kind { pairs: false, ..kind }, 60);
    compare(Kind { sums: 16, others: u32::MAX, ..kind }, 60);
    compare(Kind { sums: 20, loads: false, pairs: false, others: 20, ..kind }, 60);
}

#[test]
fn sums_of_few_rows_are_those_of_the_interpreter() {
    let kind = Kind { sums: 4, factors: 4, loads: true, pairs: false, others: 12 };
    compare(kind, 60);
    compare(Kind { loads: false, ..kind }, 60);
    compare(Kind { sums: 4, factors: 8, pairs: true, ..kind }, 60);
}
