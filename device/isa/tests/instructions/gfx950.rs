//! Operations that CDNA4 has beyond those of CDNA3: tables of truth, rows that change places, matrices of small floats with scales; and a
//! larger LDS.

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::Gpu;

const END: u32 = 0xbf81_0000;
/// Bytes of memory.
const MEMORY: usize = 1 << 18;

fn run(gpu: &mut Gpu, words: &[u32], vgprs: &[[u32; 64]]) -> (Stop, Wave) {
    let pc = gpu.buffer(&[words, &[END]].concat());
    let mut wave = Wave::new(&WaveInit {
        arch: Arch::Gfx950,
        pc,
        exec: u64::MAX,
        wave_size: WaveSize::Wave64,
        vgprs,
        vgpr_count: 32,
        accum_offset: 32,
        ..WaveInit::default()
    });
    (gpu.step(&mut wave, 100), wave)
}

fn on_all(words: &[u32], vgprs: &[[u32; 64]], check: impl Fn(&Wave)) {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx950, backend, MEMORY);
        let (stop, wave) = run(&mut gpu, words, vgprs);
        assert_eq!(stop, Stop::EndProgram);
        check(&wave);
    }
}

#[test]
fn table_of_truth_is_by_the_bits_of_three_words() {
    // v_bitop3_b32 v4, v0, v1, v2 bitop3:0x96; v_prng_b32 v5, v0; v_ashr_pk_i8_i32 v6, v0, v1, v2
    let words = [0xd234_0204, 0xd40a_0300, 0x7e0a_b100, 0xd265_0006, 0x040a_0300];
    let (a, b, c) = (0x8f0f_3311, 0x0000_1234, 4);
    on_all(&words, &[[a; 64], [b; 64], [c; 64]], |wave| {
        assert_eq!(wave.vgpr(4, 9), a ^ b ^ c);
        assert_eq!(wave.vgpr(5, 63), a << 1 ^ 0xc5);
        assert_eq!(wave.vgpr(6, 0) & 0xffff, 0x7f80, "both are too large for a byte");
    });
}

#[test]
fn rows_of_two_registers_change_places() {
    let number = |base: u32| core::array::from_fn(|lane| base + lane as u32);
    // v_permlane32_swap_b32 v0, v1
    on_all(&[0x7e00_b501], &[number(0), number(100)], |wave| {
        assert_eq!([0, 31, 32, 63].map(|lane| wave.vgpr(0, lane)), [0, 31, 100, 131]);
        assert_eq!([0, 31, 32, 63].map(|lane| wave.vgpr(1, lane)), [32, 63, 132, 163]);
    });
    // v_permlane16_swap_b32 v0, v1
    on_all(&[0x7e00_b301], &[number(0), number(100)], |wave| {
        assert_eq!([0, 16, 32, 48].map(|lane| wave.vgpr(0, lane)), [0, 100, 32, 132]);
        assert_eq!([0, 16, 32, 48].map(|lane| wave.vgpr(1, lane)), [16, 116, 48, 148]);
    });
}

/// E2M1: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
const FP4: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

fn fp4(nibble: u32) -> f32 {
    let value = FP4[nibble as usize & 7];
    if nibble & 8 != 0 { -value } else { value }
}

#[test]
fn matrices_of_four_bits_have_a_scale_for_each_32_elements() {
    let word = |n: usize, lane: usize| ((n * 64 + lane) as u32).wrapping_mul(0x9e37_79b1);
    let mut vgprs = [[0; 64]; 10];
    for (n, lanes) in vgprs.iter_mut().enumerate() {
        for (lane, value) in lanes.iter_mut().enumerate() {
            *value = match n {
                8 => 126 + lane as u32 / 16 % 2,
                9 => 127 + lane as u32 % 3,
                _ => word(n, lane),
            };
        }
    }
    // v_mfma_scale_f32_16x16x128_f8f6f4 v[16:19], v[0:3], v[4:7], 0, v8, v9 op_sel_hi:[0,0,0] cbsz:4 blgp:4
    let words = [0xd3ac_0000, 0x0002_1308, 0xd3ad_0c10, 0x8202_0900];
    on_all(&words, &vgprs, |wave| {
        for (i, j) in (0..16).flat_map(|i| (0..16).map(move |j| (i, j))) {
            let sum: f32 = (0..128)
                .map(|k| {
                    let element = |first: usize, line: usize| {
                        fp4(vgprs[first + k % 32 / 8][line + 16 * (k / 32)] >> (k % 8 * 4))
                    };
                    let lanes = [i, j].map(|line| line + 16 * (k / 32));
                    let power = vgprs[8][lanes[0]] as i32 + vgprs[9][lanes[1]] as i32 - 254;
                    element(0, i) * element(4, j) * 2f32.powi(power)
                })
                .sum();
            let found = f32::from_bits(wave.vgpr(16 + i as u8 % 4, (j + i / 4 * 16) as u32));
            assert_eq!(found, sum, "({i}, {j})");
        }
    });
}

#[test]
fn matrices_of_halves_and_bytes_add_up_twice_as_many_products() {
    // v_mfma_f32_16x16x32_f16 v[16:19], v[0:3], v[4:7], 0; all are 1.
    on_all(&[0xd3d4_0010, 0x0202_0900], &[[0x3c00_3c00; 64]; 8], |wave| {
        assert!((16..20).all(|register| f32::from_bits(wave.vgpr(register, 40)) == 32.0));
    });
    // v_mfma_f32_16x16x128_f8f6f4 v[16:19], v[0:7], v[0:7], 0; all are 1 in E4M3.
    on_all(&[0xd3ad_0010, 0x0202_0100], &[[0x3838_3838; 64]; 8], |wave| {
        assert!((16..20).all(|register| f32::from_bits(wave.vgpr(register, 5)) == 128.0));
    });
    // v_mfma_f32_16x16x32_fp8_fp8 v[16:19], v[0:1], v[2:3], 0: 1 is 0x38, which is 0x40 on gfx942.
    on_all(&[0xd3f3_0010, 0x0202_0500], &[[0x3838_3838; 64]; 4], |wave| {
        assert!((16..20).all(|register| f32::from_bits(wave.vgpr(register, 17)) == 32.0));
    });
}

#[test]
fn formats_that_are_reserved_stop_the_wave_by_name() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx950, backend, MEMORY);
        // The same with CBSZ 5.
        let (stop, _) = run(&mut gpu, &[0xd3ad_0510, 0x0202_0100], &[[0; 64]; 8]);
        let Stop::Fault(fault) = stop else { panic!("{stop:?}") };
        assert!(fault.to_string().contains("v_mfma_f32_16x16x128_f8f6f4"), "{fault}");
    }
}

#[test]
fn workgroup_can_have_160_kib_of_lds() {
    for backend in Backend::all() {
        let mut gpu = Gpu::of(Arch::Gfx950, backend, MEMORY);
        gpu.lds.reset(160 << 10);
        let last = (160 << 10) - 4;
        let places = core::array::from_fn(|lane| last - lane as u32 * 2560);
        let values = core::array::from_fn(|lane| 7 + lane as u32);
        // ds_write_b32 v0, v1; s_waitcnt lgkmcnt(0); ds_read_b32 v2, v0; ds_read_b32 v3, v0 offset:4
        let words = [0xd81a_0000, 0x100, 0xbf8c_c07f, 0xd86c_0000, 0x200_0000, 0xd86c_0004, 0x300_0000];
        let (stop, wave) = run(&mut gpu, &words, &[places, values, [9; 64], [9; 64]]);
        assert_eq!(stop, Stop::EndProgram);
        assert_eq!([0, 20, 63].map(|lane| wave.vgpr(2, lane)), [7, 27, 70]);
        assert_eq!(wave.vgpr(3, 0), 0, "beyond the end");
    }
}
