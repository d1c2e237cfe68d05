//! Conversions with a scale and loads from LDS that transpose, of CDNA4. Places of elements are those of its public tests and compilers
//! (`docs/isa-choices.md`, gfx950).

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;

const END: u32 = 0xbf81_0000;
/// Bytes of memory.
const MEMORY: usize = 1 << 18;

/// Runs a wave of 64 lanes with these registers, the others are 0; the LDS has the bytes 0 to 251 over and over.
fn on_all(words: &[u32], mode: u32, vgprs: &[(usize, [u32; 64])], check: impl Fn(&Wave)) {
    let mut registers = [[0; 64]; 104];
    for (number, lanes) in vgprs {
        registers[*number] = *lanes;
    }
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx950, backend, MEMORY);
        let pc = gpu.buffer(&[words, &[END]].concat());
        gpu.lds.reset(4096);
        let mut wave = Wave::new(&WaveInit {
            arch: Arch::Gfx950,
            pc,
            exec: u64::MAX,
            wave_size: WaveSize::Wave64,
            mode,
            vgprs: &registers,
            vgpr_count: 104,
            accum_offset: 104,
            ..WaveInit::default()
        });
        assert_eq!(gpu.step(&mut wave, 1000), Stop::EndProgram);
        check(&wave);
    }
}

fn all(value: f32) -> [u32; 64] {
    [value.to_bits(); 64]
}

const NEAREST: u32 = 0xf0;
const FP16_OVFL: u32 = 1 << 23;

#[test]
fn numbers_are_divided_by_the_scale_and_multiplied_with_it() {
    // v_cvt_scalef32_pk_fp4_f32 v4, v0, v1, v2 op_sel:[0,0,1,0]; v_cvt_scalef32_pk_f32_fp4 v[6:7], v4, v2 op_sel:[1,0,0]
    // v_cvt_scalef32_pk_fp8_f32 v8, v0, v1, v2 op_sel:[0,0,0,1]; v_cvt_scalef32_f32_fp8 v9, v8, v2 op_sel:[1,1,0]
    // v_cvt_scalef32_f16_fp8 v10, v8, v2 op_sel:[0,1,1]; v_cvt_scalef32_sr_pk_fp4_f32 v11, v[0:1], v3, v2
    let words = [
        0xd23d_2004,
        0x040a_0300,
        0xd23f_0806,
        0x0002_0504,
        0xd235_4008,
        0x040a_0300,
        0xd23b_1809,
        0x0002_0508,
        0xd24a_500a,
        0x0002_0508,
        0xd23e_000b,
        0x040a_0700,
    ];
    // 24 is 6 times 4, -8 is -2 times 4; the digits of the scale do not count.
    let vgprs = [
        (0, all(24.0)),
        (1, all(-8.0)),
        (2, all(7.5)),
        (3, [0xffff_ffff; 64]),
        (4, [0x1234_5678; 64]),
        (8, [0x1234_5678; 64]),
        (10, [0x1234_5678; 64]),
        (11, [0x1234_5678; 64]),
    ];
    on_all(&words, NEAREST, &vgprs, |wave| {
        assert_eq!(wave.vgpr(4, 40), 0x1234_c778, "-2 and 6 in byte 1");
        assert_eq!([6, 7].map(|n| f32::from_bits(wave.vgpr(n, 3))), [24.0, -8.0]);
        assert_eq!(wave.vgpr(8, 0), 0xc04c_5678, "-2 and 6 in the high half");
        assert_eq!(f32::from_bits(wave.vgpr(9, 63)), -8.0, "byte 3");
        assert_eq!(wave.vgpr(10, 17), 0x4e00_5678, "24, which byte 2 is, as a half");
        assert_eq!(wave.vgpr(11, 17), 0x1234_56c7, "exact numbers are the same with any random bits");
    });
}

#[test]
fn too_large_numbers_are_the_largest_of_small_formats_and_go_by_the_mode_in_larger_ones() {
    // v_cvt_scalef32_pk_bf8_f16 v12, v13, v2; v_cvt_scalef32_pk_fp4_f32 v4, v0, v1, v2 op_sel:[0,0,1,0]
    let words = [0xd241_000c, 0x0002_050d, 0xd23d_2004, 0x040a_0300];
    // 65504 and -1 divided by 2^-4.
    let vgprs = [(13, [0xbc00_7bff; 64]), (2, all(0.0625)), (0, all(1e30)), (1, all(f32::NEG_INFINITY))];
    on_all(&words, NEAREST, &vgprs, |wave| {
        assert_eq!(wave.vgpr(12, 0), 0xcc7c, "an infinity and -16");
        assert_eq!(wave.vgpr(4, 0), 0xf700, "6 and -6");
    });
    on_all(&words, NEAREST | FP16_OVFL, &vgprs, |wave| assert_eq!(wave.vgpr(12, 0), 0xcc7b, "57344 and -16"));
    // A scale that is a NaN makes NaNs, where there are some.
    on_all(&words, NEAREST, &[(13, [0x3c00_3c00; 64]), (2, all(f32::NAN))], |wave| {
        assert_eq!([wave.vgpr(12, 0), wave.vgpr(4, 0)], [0x7f7f, 0x7700]);
    });
}

#[test]
fn thirty_two_numbers_are_one_after_the_other_and_of_two_sources_in_turns() {
    // v_cvt_scalef32_2xpk16_fp6_f32 v[64:69], v[0:15], v[16:31], v70; v_cvt_scalef32_pk32_f32_fp6 v[72:103], v[64:69], v70
    let words = [0xd252_0040, 0x051a_2100, 0xd256_0048, 0x0002_8d40];
    // E2M3 has steps of 1/8 below 2: register n is n/16 of 1/8 of lane's sign, times the scale of 4.
    let number = |n: usize, lane: usize| n as f32 / 4.0 * if lane.is_multiple_of(2) { 2.0 } else { -2.0 };
    let mut vgprs: Vec<(usize, [u32; 64])> =
        (0..16).map(|n| (n, core::array::from_fn(|lane| number(n, lane).to_bits()))).collect();
    vgprs.extend((16..32).map(|n| (n, all(0.5))));
    vgprs.push((70, all(4.0)));
    on_all(&words, NEAREST, &vgprs, |wave| {
        for (n, lane) in (0..32u8).flat_map(|n| [0, 1, 63].map(|lane| (n, lane))) {
            let expected = if n % 2 == 0 { number(n as usize / 2, lane) } else { 0.5 };
            assert_eq!(f32::from_bits(wave.vgpr(72 + n, lane as u32)), expected, "{n} of lane {lane}");
        }
    });
    // v_cvt_scalef32_sr_pk32_bf6_f32 v[64:69], v[0:31], v71, v70; v_cvt_scalef32_pk32_f16_bf6 v[72:87], v[64:69], v70
    let words = [0xd255_0040, 0x051a_8f00, 0xd262_0048, 0x0002_8d40];
    let powers = |n: usize| 2f32.powi(n as i32 % 7 - 1);
    let mut vgprs: Vec<(usize, [u32; 64])> = (0..32).map(|n| (n, all(powers(n)))).collect();
    vgprs.extend([(70, all(4.0)), (71, [0xdead_beef; 64])]);
    on_all(&words, NEAREST, &vgprs, |wave| {
        for n in 0..32 {
            let half = wave.vgpr(72 + n as u8 / 2, 33) >> (16 * (n % 2)) & 0xffff;
            // Exponents of halves are biased by 15.
            assert_eq!(half, (n as u32 % 7 + 14) << 10, "{n}");
        }
    });
}

#[test]
fn chance_rounds_up_as_often_as_the_rest_is_large() {
    // v_cvt_scalef32_sr_pk_fp4_f32 v11, v[0:1], v3, v2: 2.25 of 2 and 3, in a quarter of the cases up.
    let random = core::array::from_fn(|lane| (lane as u32) << 26);
    on_all(
        &[0xd23e_000b, 0x040a_0700],
        NEAREST,
        &[(0, all(4.5)), (1, all(2.0)), (2, all(2.0)), (3, random)],
        |wave| {
            let up = (0..64).filter(|lane| wave.vgpr(11, *lane) & 15 == 5).count();
            assert_eq!(up, 16);
            assert!((0..64).all(|lane| wave.vgpr(11, lane) & 0xf0 == 0x20), "1 is exact");
        },
    );
}

#[test]
fn sixteen_lanes_load_rows_of_a_matrix_and_get_columns() {
    // v0: 64 below the place of each lane's eight bytes; v1: that of twelve bytes.
    // v_mov_b32 v20, 0 stays between; ds_write_b64 v11, v[12:13]
    let places = |bytes: u32| core::array::from_fn(|lane| (lane as u32 * bytes).wrapping_sub(64));
    let element = |word: [u32; 2], bits: u32, at: u32| {
        (u64::from(word[0]) | u64::from(word[1]) << 32) >> (bits * at) & ((1 << bits) - 1)
    };
    let data: [[u32; 64]; 2] =
        [0, 1].map(|n: u32| core::array::from_fn(|lane| (lane as u32 * 2 + n).wrapping_mul(0x9e37_79b1)));
    // ds_write_b64 v0, v[12:13] offset:64; ds_read_b64_tr_b16 v[2:3], v0 offset:64; _b8 v[4:5]; _b4 v[6:7]
    let words = [
        0xd89a_0040,
        0x0000_0c00,
        0xd9c6_0040,
        0x0200_0000,
        0xd9c4_0040,
        0x0400_0000,
        0xd9c0_0040,
        0x0600_0000,
    ];
    on_all(&words, NEAREST, &[(0, places(8)), (12, data[0]), (13, data[1])], |wave| {
        for (bits, register) in [(16, 2), (8, 4), (4, 6)] {
            // Elements of a lane, and lanes of a row.
            let (own, across) = (64 / bits, bits / 4);
            for lane in 0..64 {
                let (group, column) = (lane / 16 * 16, lane % 16);
                let found = [register, register + 1].map(|n| wave.vgpr(n, lane));
                for row in 0..own {
                    let from = (group + row * across + column / own) as usize;
                    let expected = element([data[0][from], data[1][from]], bits, column % own);
                    assert_eq!(element(found, bits, row), expected, "{bits} bits, lane {lane}, row {row}");
                }
            }
        }
    });
}

#[test]
fn elements_of_six_bits_change_places_too() {
    // ds_write_b96 v0, v[12:14]; ds_read_b96_tr_b6 v[8:10], v0
    let words = [0xd9bc_0000, 0x0000_0c00, 0xd9c2_0000, 0x0800_0000];
    // Lane n of sixteen has a row of n, so that each lane gets 0 to 15.
    let row = |lane: usize| (0..16).fold(0u128, |row, _| row << 6 | (lane % 16) as u128);
    let data = [0, 1, 2].map(|n| (12 + n, core::array::from_fn(|lane| (row(lane) >> (32 * n)) as u32)));
    let vgprs = [data[0], data[1], data[2], (0, core::array::from_fn(|lane| lane as u32 * 12))];
    on_all(&words, NEAREST, &vgprs, |wave| {
        for lane in 0..64 {
            let found = (0..3).rev().fold(0u128, |row, n| row << 32 | u128::from(wave.vgpr(8 + n, lane)));
            assert!((0..16).all(|n| found >> (6 * n) & 63 == n), "lane {lane}: {found:x}");
        }
    });
}
