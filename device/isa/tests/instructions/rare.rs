//! Relative moves, sums of differences, dot products, exchanges, and arithmetic in other rounding modes.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::Wave;

use super::{Bench, lanes, program};

// s_mov_b32 m0, 2
// v_movrels_b32 v10, v0
// v_movreld_b32 v10, v0
// v_movrelsd_b32 v11, v1
// s_mov_b32 m0, 0x30001
// v_movrelsd_2_b32 v11, v0
// s_mov_b32 m0, 1
// v_movrels_b32_dpp v16, v0 row_share:3 row_mask:0xf bank_mask:0xf
// s_mov_b32 m0, 0x30001
// v_swaprel_b32 v17, v2
const RELATIVE: &[u32] = &[
    0xbefd_0082,
    0x7e14_8700,
    0x7e14_8500,
    0x7e16_8901,
    0xbefd_00ff,
    0x0003_0001,
    0x7e16_9100,
    0xbefd_0081,
    0x7e20_86fa,
    0xff01_5300,
    0xbefd_00ff,
    0x0003_0001,
    0x7e22_d102,
    0xbfb0_0000,
];

#[test]
fn moves_relative_to_m0() {
    let vgprs: Vec<[u32; 64]> = (0..21).map(|n| lanes(move |l| n * 100 + l)).collect();
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        for backend in Backend::all() {
            let mut bench = Bench::new(backend, RELATIVE);
            let mut wave = bench.wave(size, &vgprs, &[]);
            assert_eq!(bench.run(&mut wave), Stop::EndProgram);
            for lane in 0..wave.lanes() {
                let register = |n: u8| wave.vgpr(n, lane);
                assert_eq!(register(10), 200 + lane, "v2");
                assert_eq!(register(12), lane, "v0");
                assert_eq!(register(13), 300 + lane, "v3");
                assert_eq!(register(14), 100 + lane, "v1, by the two fields");
                assert_eq!(register(16), 100 + (lane & !15) + 3, "lane 3 of v1's rows");
                assert_eq!((register(3), register(20)), (2000 + lane, 300 + lane), "v3 and v20 swapped");
            }
        }
    }
    let mut far = Bench::new(Backend::detect(), &[0x7e14_8700, 0xbfb0_0000]);
    let mut wave = far.wave(WaveSize::Wave32, &vgprs, &[]);
    wave.set_sgpr(125, 32);
    let Stop::Fault(fault) = far.run(&mut wave) else { panic!("v32 of 32") };
    assert!(
        matches!(fault.kind, FaultCause::RegisterOutOfRange { register: 32, allocated: 32, .. }),
        "{fault}"
    );
}

// s_mov_b32 m0, 3
// s_movrels_b32 s10, s0
// s_movrels_b64 s[12:13], s[0:1]
// s_movreld_b32 s14, s1
// s_mov_b32 m0, 0x20001
// s_movrelsd_2_b32 s20, s3
// s_mov_b64 s[24:25], src_shared_limit
// s_mov_b64 s[26:27], src_private_base
// v_mov_b32 v1, 0
// s_mov_b64 s[30:31], exec
// s_subvector_loop_begin s40, 4
// v_add_nc_u32 v1, v1, 1
// s_add_i32 s41, s41, 1
// s_subvector_loop_end s40, -4
const SCALAR: &[u32] = &[
    0xbefd_0083,
    0xbe8a_4000,
    0xbe8c_4100,
    0xbe8e_4201,
    0xbefd_00ff,
    0x0002_0001,
    0xbe94_4403,
    0xbe98_01ec,
    0xbe9a_01ed,
    0x7e02_0280,
    0xbe9e_017e,
    0xbb28_0004,
    0xd525_0001,
    0x0001_0301,
    0x8129_8129,
    0xbba8_fffc,
    0xbfb0_0000,
];

#[test]
fn scalar_moves_limits_and_the_loop_over_halves() {
    let sgprs: Vec<u32> = (0..44).map(|n| if n == 41 { 0 } else { n * 10 }).collect();
    // Halves with lanes, and how often the body runs.
    let cases = [(u64::MAX, 2), (0xf0_0000_0000, 1), (0xff, 1), (0, 0)];
    for (exec, passes) in cases {
        let mut bench = Bench::new(Backend::detect(), SCALAR);
        let mut wave = bench.wave(WaveSize::Wave64, &[lanes(|_| 0); 2], &sgprs);
        wave.set_sgpr(126, exec as u32);
        wave.set_sgpr(127, (exec >> 32) as u32);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        let pair = |n: u8| (wave.sgpr(n), wave.sgpr(n + 1));
        assert_eq!(wave.sgpr(10), 30);
        assert_eq!(pair(12), (30, 40));
        assert_eq!(wave.sgpr(17), 10);
        assert_eq!(wave.sgpr(22), 40, "s4 to s20 + 2");
        assert_eq!(pair(24), (u32::MAX, 1 << 16), "the shared window's last byte");
        assert_eq!(pair(26), (0, 2 << 16));
        assert_eq!((wave.sgpr(41), wave.exec()), (passes, exec));
        for lane in 0..64 {
            assert_eq!(wave.vgpr(1, lane), (exec >> lane & 1) as u32);
        }
    }
}

// v_qsad_pk_u16_u8 v[10:11], v[0:1], v2, v[4:5]
// v_mqsad_pk_u16_u8 v[12:13], v[0:1], v2, v[4:5]
// v_mqsad_u32_u8 v[14:17], v[0:1], v2, v[4:7]
// v_dot2_f32_f16 v18, v8, v9, v0 neg_lo:[1,0,1] neg_hi:[0,1,0]
// v_dot2_f32_f16 v19, v8, v9, 0 op_sel:[1,0,0] op_sel_hi:[0,1,0]
// v_dot2_f32_bf16 v20, v21, v22, 1.0
// v_dot2_bf16_bf16 v23, v21, v22, v24
// v_mad_u64_u32 v[26:27], s0, v0, v1, v[0:1] clamp
// v_add_co_u32 v28, s2, v0, v1 clamp
const SUMS: &[u32] = &[
    0xd63a_000a,
    0x0412_0500,
    0xd63b_000c,
    0x0412_0500,
    0xd63d_000e,
    0x0412_0500,
    0xcc13_4212,
    0xbc02_1308,
    0xcc13_0813,
    0x1202_1308,
    0xcc1a_4014,
    0x1bca_2d15,
    0xd667_0017,
    0x0462_2d15,
    0xd6fe_801a,
    0x0402_0300,
    0xd700_821c,
    0x0002_0300,
    0xbfb0_0000,
];

#[test]
fn differences_and_dot_products() {
    let mut vgprs = vec![lanes(|_| 0); 32];
    vgprs[0] = lanes(|_| 0x4030_2010);
    vgprs[1] = lanes(|_| 0xf070_6050);
    vgprs[2] = lanes(|l| 0x1100_2010 + l);
    for n in 4..8_u32 {
        vgprs[n as usize] = lanes(move |l| 0x0100_fffe + n + l);
    }
    // Halves 2.0 and 3.0; 5.0 and 7.0.
    vgprs[8] = lanes(|_| 0x4200_4000);
    vgprs[9] = lanes(|_| 0x4700_4500);
    // The same as bfloat16.
    vgprs[21] = lanes(|_| 0x4040_4000);
    vgprs[22] = lanes(|_| 0x40e0_40a0);
    vgprs[24] = lanes(|_| 0xabcd_4000);
    program(SUMS, &vgprs, &[], |wave, _| {
        for lane in 0..32 {
            let bytes = 0xf070_6050_4030_2010_u64.to_le_bytes();
            let reference = (0x1100_2010_u32 + lane).to_le_bytes();
            let sum = |n: usize, masked: bool| -> u32 {
                (0..4)
                    .filter(|&i| !masked || reference[i] != 0)
                    .map(|i| u32::from(bytes[n + i].abs_diff(reference[i])))
                    .sum()
            };
            for n in 0..4 {
                let old = |shift: usize| {
                    let word = 0x0100_fffe + 4 + (shift / 32) as u32 + lane;
                    (word >> (shift % 32)) as u16
                };
                let got = |first: u8| (wave.vgpr(first + n as u8 / 2, lane) >> (n % 2 * 16)) as u16;
                assert_eq!(got(10), old(n * 16).wrapping_add(sum(n, false) as u16));
                assert_eq!(got(12), old(n * 16).wrapping_add(sum(n, true) as u16));
                let wide = 0x0100_fffe_u32 + 4 + n as u32 + lane;
                assert_eq!(wave.vgpr(14 + n as u8, lane), wide + sum(n, true));
            }
            let float = |n: u8| f32::from_bits(wave.vgpr(n, lane));
            let c = f32::from_bits(0x4030_2010);
            assert_eq!(float(18), -2.0 * 5.0 + 3.0 * -7.0 - c);
            assert_eq!(float(19), 3.0 * 5.0 + 2.0 * 7.0, "first 3 and 5, second 2 and 7");
            assert_eq!(float(20), 2.0 * 5.0 + 3.0 * 7.0 + 1.0);
            assert_eq!(wave.vgpr(23, lane) & 0xffff, 0x4204, "33");
            assert_eq!(wave.vgpr(28, lane), u32::MAX);
            assert_eq!(wave.sgpr(2), u32::MAX, "every lane carried");
            let product = u64::from(0x4030_2010_u32) * u64::from(0xf070_6050_u32);
            let (total, carried) = product.overflowing_add(0xf070_6050_4030_2010);
            let total = if carried { u64::MAX } else { total };
            assert_eq!(u64::from(wave.vgpr(26, lane)) | u64::from(wave.vgpr(27, lane)) << 32, total);
        }
    });
}

// s_round_mode 0xf
// v_add_f32 v10, v0, v1
// v_mul_f32 v11, v0, v1
// v_fma_f32 v12, v0, v1, v2
// v_add_f16 v13, v3, v4
// v_pk_add_f16 v14, v3, v4
// v_cvt_f32_i32 v15, v5
// v_cvt_f16_f32 v16, v0
// v_add_f64 v[18:19], v[6:7], v[8:9]
// v_fma_mix_f32 v20, v0, v1, v2
// s_round_mode 0x5
// v_add_f32 v21, v0, v1
// s_round_mode 0xa
// v_add_f32 v22, v0, v1
const ROUNDED: &[u32] = &[
    0xbf91_000f,
    0x0614_0300,
    0x1016_0300,
    0xd613_000c,
    0x040a_0300,
    0x641a_0903,
    0xcc0f_400e,
    0x1802_0903,
    0x7e1e_0b05,
    0x7e20_1500,
    0xd727_0012,
    0x0002_1106,
    0xcc20_0014,
    0x040a_0300,
    0xbf91_0005,
    0x062a_0300,
    0xbf91_000a,
    0x062c_0300,
    0xbfb0_0000,
];

/// The single nearest to zero on `value`'s side.
fn towards_zero(value: f64) -> f32 {
    let nearest = value as f32;
    if f64::from(nearest).abs() <= value.abs() {
        nearest
    } else if nearest > 0.0 {
        nearest.next_down()
    } else {
        nearest.next_up()
    }
}

#[test]
fn other_rounding_modes() {
    let a = lanes(|l| (if l % 2 == 0 { 1.0 + l as f32 / 3.0 } else { -1.7 * l as f32 }).to_bits());
    let b = lanes(|l| (f32::exp2(-12.0) * (l as f32 + 0.3)).to_bits());
    let c = lanes(|l| (l as f32 * -0.1).to_bits());
    let mut vgprs = vec![a, b, c, lanes(|_| 0x3c01_3c00), lanes(|_| 0x1401_9401), lanes(|l| 0x7fff_ffff - l)];
    let double = 1.0_f64.to_bits();
    vgprs.push(lanes(|_| double as u32));
    vgprs.push(lanes(|_| (double >> 32) as u32));
    let tiny = (-f64::exp2(-80.0)).to_bits();
    vgprs.push(lanes(|_| tiny as u32));
    vgprs.push(lanes(|_| (tiny >> 32) as u32));
    program(ROUNDED, &vgprs, &[], |wave: &Wave, _| {
        for lane in 0..32 {
            let value = |lanes: &[u32; 64]| f64::from(f32::from_bits(lanes[lane as usize]));
            let (x, y) = (value(&a), value(&b));
            let float = |n: u8| f32::from_bits(wave.vgpr(n, lane));
            // These sums and products are exact in double precision.
            assert_eq!(float(10), towards_zero(x + y));
            assert_eq!(float(11), towards_zero(x * y));
            assert_eq!(float(12), float(20));
            let fused = x.mul_add(y, value(&c));
            let step = f64::from(float(12)) - fused;
            assert!(step.abs() <= fused.abs() * f64::exp2(-23.0) && step * fused <= 0.0, "{step} {fused}");
            // 1 + -0.00098 and 1.00098 + 0.00098, each a little more than half a unit.
            assert_eq!(wave.vgpr(13, lane) & 0xffff, 0x3bfd);
            assert_eq!(wave.vgpr(14, lane), 0x3c02_3bfd);
            assert_eq!(float(15), towards_zero(f64::from(0x7fff_ffff - lane)));
            assert_eq!(
                f64::from_bits(u64::from(wave.vgpr(18, lane)) | u64::from(wave.vgpr(19, lane)) << 32),
                1.0_f64.next_down()
            );
            let exact = f64::from(towards_zero(x + y)) == x + y;
            assert!(f64::from(float(22)) <= x + y && x + y <= f64::from(float(21)));
            assert_eq!(if exact { float(22) } else { float(22).next_up() }, float(21));
        }
    });
}

// s_mov_b32 m0, 8
// ds_store_addtid_b32 v0 offset:4
// ds_load_addtid_b32 v10 offset:8
// v_mov_b32 v2, 0
// ds_condxchg32_rtn_b64 v[12:13], v1, v[4:5] offset:512
// ds_storexchg_2addr_rtn_b32 v[14:15], v1, v6, v7 offset0:64 offset1:65
// global_store_addtid_b32 v0, s[2:3] offset:16
// global_load_addtid_b32 v16, s[2:3] offset:20
const BY_LANE: &[u32] = &[
    0xbefd_0088,
    0xdac0_0004,
    0x0000_0000,
    0xdac4_0008,
    0x0a00_0000,
    0x7e04_0280,
    0xd9f8_0200,
    0x0c00_0401,
    0xd8b8_4140,
    0x0e07_0601,
    0xdca6_0010,
    0x0002_0000,
    0xdca2_0014,
    0x1002_0000,
    0xbfb0_0000,
];

#[test]
fn accesses_by_lane_and_exchanges() {
    let mut bench = Bench::new(Backend::detect(), BY_LANE);
    let buffer = bench.gpu.buffer(&[9_u32; 64]);
    let mut vgprs = vec![lanes(|_| 0); 16];
    vgprs[0] = lanes(|l| l + 1000);
    vgprs[1] = lanes(|l| l * 8);
    vgprs[4] = lanes(|l| 0x8000_0000 | l);
    vgprs[5] = lanes(|l| l + 1);
    vgprs[6] = lanes(|l| l + 2000);
    vgprs[7] = lanes(|l| l + 3000);
    let mut wave = bench.wave(WaveSize::Wave32, &vgprs, &[0, 0, buffer as u32, (buffer >> 32) as u32]);
    for word in 0..256_u32 {
        bench.gpu.lds.bytes_mut()[word as usize * 4..][..4].copy_from_slice(&(word + 7).to_le_bytes());
    }
    assert_eq!(bench.run(&mut wave), Stop::EndProgram);
    let lds = |at: u32| u32::from_le_bytes(bench.gpu.lds.bytes()[at as usize..][..4].try_into().unwrap());
    for lane in 0..32 {
        assert_eq!(lds(12 + lane * 4), 1000 + lane);
        let next = if lane == 31 { (16 + 31 * 4) / 4 + 7 } else { 1001 + lane };
        assert_eq!(wave.vgpr(10, lane), next, "one word further");
        let word = |n: u32| (512 + lane * 8) / 4 + n + 7;
        assert_eq!((wave.vgpr(12, lane), wave.vgpr(13, lane)), (word(0), word(1)));
        let first = (256 + lane * 8) / 4 + 7;
        assert_eq!((wave.vgpr(14, lane), wave.vgpr(15, lane)), (first, first + 1));
        assert_eq!((lds(256 + lane * 8), lds(260 + lane * 8)), (2000 + lane, 3000 + lane));
        assert_eq!(lds(512 + lane * 8), lane, "bit 31 asked for it and is not stored");
        assert_eq!(lds(516 + lane * 8), word(1), "no bit 31, no exchange");
        assert_eq!(wave.vgpr(16, lane), if lane == 31 { 9 } else { 1001 + lane });
    }
    assert_eq!(bench.gpu.fetch::<u32>(buffer, 36)[4..], (1000..1032).collect::<Vec<u32>>());
}

// v_mul_f32_e64 v2, v0, v1 clamp
// v_pk_mul_f16 v3, v0, v0 clamp
// ds_swizzle_b32 v4, v1 offset:0xe007
// ds_swizzle_b32 v5, v1 offset:0xc478
const CLAMPED: &[u32] = &[
    0xd508_8002,
    0x0002_0300,
    0xcc10_c003,
    0x1802_0100,
    0xd8d4_e007,
    0x0400_0001,
    0xd8d4_c478,
    0x0500_0001,
    0xbfb0_0000,
];

#[test]
fn not_a_number_clamped_and_swizzles() {
    for backend in Backend::all() {
        for (mode, single, half) in
            [(Wave::DEFAULT_MODE, 0, 0), (Wave::DEFAULT_MODE & !0x100, 0x7fe0_7e01, 0x7fe0)]
        {
            let mut bench = Bench::new(backend, CLAMPED);
            // A single NaN whose high half is a NaN too; the low half is one and a bit.
            let vgprs = [lanes(|_| 0x7fe0_7e01), lanes(|l| l + 1)];
            let init = belfry_isa::wave::WaveInit {
                pc: bench.pc,
                exec: u64::MAX,
                vgprs: &vgprs,
                mode,
                ..belfry_isa::wave::WaveInit::default()
            };
            let mut wave = Wave::new(&init);
            assert_eq!(bench.run(&mut wave), Stop::EndProgram);
            for lane in 0..32_u32 {
                assert_eq!(wave.vgpr(2, lane), single);
                assert_eq!(wave.vgpr(3, lane) >> 16, half);
                let reversed = (0..5).fold(0, |bits, n| bits | (lane >> n & 1) << (4 - n));
                assert_eq!(wave.vgpr(4, lane), (reversed >> 3 | lane & 7) + 1);
                // Right by three, bits 3 and 4 of the lane fixed.
                let at = (lane.wrapping_sub(3) & 7 | lane & 24) + 1;
                assert_eq!(wave.vgpr(5, lane), at);
            }
        }
    }
}

// v_wmma_f32_16x16x16_f16 v[16:23], v[0:7], v[8:15], v[16:23] neg_lo:[1,0,1] neg_hi:[0,1,0]
// v_wmma_i32_16x16x16_iu4 v[24:31], v[0:1], v[8:9], v[24:31] neg_lo:[1,0,0]
const MATRICES: &[u32] = &[0xcc40_4210, 0xbc42_1100, 0xcc45_4018, 0x3c62_1100, 0xbfb0_0000];

/// Small integers as halves.
fn half_of(value: i32) -> u32 {
    let bits = (value as f32).to_bits();
    if value == 0 { 0 } else { (bits >> 16 & 0x8000) | ((bits >> 13 & 0x3_ffff) - (112 << 10)) & 0x7fff }
}

#[test]
fn matrices_with_negated_elements() {
    let a = |row: u32, k: u32| ((row * 3 + k * 5) % 7) as i32 - 3;
    let b = |k: u32, column: u32| ((k * 2 + column * 3) % 5) as i32 - 2;
    for size in [WaveSize::Wave32, WaveSize::Wave64] {
        let mut vgprs = vec![lanes(|_| 0); 32];
        for n in 0..8_u32 {
            let pair = |f: &dyn Fn(u32) -> i32| half_of(f(n * 2)) | half_of(f(n * 2 + 1)) << 16;
            vgprs[n as usize] = lanes(|l| pair(&|k| a(l & 15, k)));
            vgprs[8 + n as usize] = lanes(|l| pair(&|k| b(k, l & 15)));
            vgprs[16 + n as usize] = lanes(|_| 10.0_f32.to_bits());
            vgprs[24 + n as usize] = lanes(|l| l);
        }
        let rows_per_register = if size == WaveSize::Wave32 { 2 } else { 4 };
        let mut bench = Bench::new(Backend::detect(), MATRICES);
        let mut wave = bench.wave(size, &vgprs, &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        for row in 0..16_u32 {
            for column in 0..16_u32 {
                let register = (row / rows_per_register) as u8;
                let lane = row % rows_per_register * 16 + column;
                // A negated in even places, B in odd ones, C as a whole.
                let sum: i32 = (0..16).map(|k| -a(row, k) * b(k, column)).sum();
                assert_eq!(
                    f32::from_bits(wave.vgpr(16 + register, lane)),
                    (sum - 10) as f32,
                    "{size:?} {row} {column}"
                );
                let nibble = |words: [u32; 2], k: u32| words[(k / 8) as usize] >> (k % 8 * 4) & 15;
                let left = [vgprs[0][row as usize], vgprs[1][row as usize]];
                let right = [vgprs[8][column as usize], vgprs[9][column as usize]];
                let signed = |nibble: u32| (nibble << 28).cast_signed() >> 28;
                let sum: i32 =
                    (0..16).map(|k| signed(nibble(left, k)) * nibble(right, k).cast_signed()).sum();
                let c = if register < 8 { lane.cast_signed() } else { 0 };
                assert_eq!(wave.vgpr(24 + register, lane).cast_signed(), sum + c);
            }
        }
    }
}
