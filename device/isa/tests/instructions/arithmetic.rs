//! Arithmetic as compiled code does it, against the interpreter: halves, doubles, carries, conversions, over numbers that are
//! special to one of the formats.

use belfry_isa::exec::Stop;
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::common::{Gpu, Random};
use super::compiled::tiers;

/// An instruction's text, and its words.
type Instruction<'a> = (&'a str, &'a [u32]);

/// llvm-mc-19 -mcpu=gfx1100 -mattr=+wavefrontsize64; in waves of 32 lanes masks are single registers.
const GFX11: [Instruction<'_>; 75] = [
    ("v_add_nc_u32_e64 v8, v4, v5 clamp", &[0xd525_8008, 0x0002_0b04]),
    ("v_sub_nc_u32_e64 v8, v4, v5 clamp", &[0xd526_8008, 0x0002_0b04]),
    ("v_sub_nc_u32_e64 v4, v4, 1 clamp", &[0xd526_8004, 0x0001_0304]),
    ("v_subrev_nc_u32_e64 v4, s4, v4 clamp", &[0xd527_8004, 0x0002_0804]),
    ("v_add_nc_u32_e64 v5, s4, v5 clamp", &[0xd525_8005, 0x0002_0a04]),
    ("v_add_f16_e32 v8, v4, v5", &[0x6410_0b04]),
    ("v_sub_f16_e64 v8, -v4, |v5|", &[0xd533_0208, 0x2002_0b04]),
    ("v_subrev_f16_e32 v8, v4, v5", &[0x6810_0b04]),
    ("v_mul_f16_e32 v8, s4, v5", &[0x6a10_0a04]),
    ("v_mul_f16_e32 v8, 0.5, v4", &[0x6a10_08f0]),
    ("v_fma_f16 v8, v4, v5, v6", &[0xd648_0008, 0x041a_0b04]),
    ("v_fma_f16 v8, -v4, v5, |v8|", &[0xd648_0408, 0x2422_0b04]),
    ("v_fmac_f16_e32 v8, v4, v5", &[0x6c10_0b04]),
    ("v_fmaak_f16 v8, v4, v5, 0x3c01", &[0x7010_0b04, 0x0000_3c01]),
    ("v_fmamk_f16 v8, v4, 0x4001, v5", &[0x6e10_0b04, 0x0000_4001]),
    ("v_cvt_f32_f16_e32 v8, v4", &[0x7e10_1704]),
    ("v_cvt_f32_f16_e64 v8, -|v4|", &[0xd58b_0108, 0x2000_0104]),
    ("v_cvt_f16_f32_e32 v8, v4", &[0x7e10_1504]),
    ("v_cvt_f16_f32_e64 v8, |v4|", &[0xd58a_0108, 0x0000_0104]),
    ("v_cvt_pk_rtz_f16_f32_e32 v8, v4, v5", &[0x5e10_0b04]),
    ("v_cvt_pk_rtz_f16_f32_e64 v8, -v4, |v5|", &[0xd52f_0208, 0x2002_0b04]),
    ("v_pk_add_f16 v8, v4, v5", &[0xcc0f_4008, 0x1802_0b04]),
    (
        "v_pk_add_f16 v8, v4, v5 op_sel:[1,0] op_sel_hi:[0,1] neg_lo:[1,0] neg_hi:[0,1]",
        &[0xcc0f_4a08, 0x3002_0b04],
    ),
    ("v_pk_mul_f16 v8, v8, v5", &[0xcc10_4008, 0x1802_0b08]),
    ("v_pk_fma_f16 v8, v4, v5, v6", &[0xcc0e_4008, 0x1c1a_0b04]),
    ("v_pk_fma_f16 v8, v4, s4, v8 op_sel:[0,1,1] op_sel_hi:[1,0,1]", &[0xcc0e_7008, 0x0c20_0904]),
    ("v_pk_add_u16 v8, v4, v5", &[0xcc0a_4008, 0x1802_0b04]),
    ("v_pk_sub_i16 v8, v4, v5", &[0xcc03_4008, 0x1802_0b04]),
    ("v_pk_mul_lo_u16 v8, v4, v5", &[0xcc01_4008, 0x1802_0b04]),
    ("v_pk_min_i16 v8, v4, v5", &[0xcc08_4008, 0x1802_0b04]),
    ("v_pk_max_u16 v8, v4, v5", &[0xcc0c_4008, 0x1802_0b04]),
    ("v_pk_max_u16 v8, v4, v5 op_sel:[1,0]", &[0xcc0c_4808, 0x1802_0b04]),
    ("v_fma_mix_f32 v8, v4, v5, v6", &[0xcc20_0008, 0x041a_0b04]),
    ("v_fma_mix_f32 v8, v4, v5, v6 op_sel:[1,0,0] op_sel_hi:[1,1,0]", &[0xcc20_0808, 0x1c1a_0b04]),
    ("v_fma_mix_f32 v8, -v4, |v5|, v8 op_sel_hi:[0,1,1]", &[0xcc20_4208, 0x3422_0b04]),
    ("v_fma_mixlo_f16 v8, v4, v5, v6 op_sel_hi:[1,1,1]", &[0xcc21_4008, 0x1c1a_0b04]),
    ("v_fma_mixhi_f16 v8, v4, v5, v6 op_sel:[0,1,0] op_sel_hi:[1,1,0]", &[0xcc22_1008, 0x1c1a_0b04]),
    ("v_add_f64 v[8:9], v[4:5], v[6:7]", &[0xd727_0008, 0x0002_0d04]),
    ("v_add_f64 v[8:9], v[4:5], -|v[6:7]|", &[0xd727_0208, 0x4002_0d04]),
    ("v_mul_f64 v[8:9], v[4:5], s[4:5]", &[0xd728_0008, 0x0000_0904]),
    ("v_mul_f64 v[4:5], v[4:5], 0.5", &[0xd728_0004, 0x0001_e104]),
    ("v_fma_f64 v[8:9], v[4:5], v[6:7], v[10:11]", &[0xd614_0008, 0x042a_0d04]),
    ("v_fma_f64 v[6:7], -v[4:5], v[6:7], 1.0", &[0xd614_0006, 0x23ca_0d04]),
    ("v_fma_f64 v[5:6], s[4:5], v[6:7], v[4:5]", &[0xd614_0005, 0x0412_0c04]),
    ("v_cvt_f32_ubyte0_e32 v8, v4", &[0x7e10_2304]),
    ("v_cvt_f32_ubyte3_e32 v8, v4", &[0x7e10_2904]),
    ("v_cvt_u32_f32_e32 v8, v4", &[0x7e10_0f04]),
    ("v_cvt_i32_f32_e32 v8, v4", &[0x7e10_1104]),
    ("v_cvt_i32_f32_e64 v8, -v4", &[0xd588_0008, 0x2000_0104]),
    ("v_add_co_u32 v8, vcc, v4, v5", &[0xd700_6a08, 0x0002_0b04]),
    ("v_add_co_u32 v8, s[10:11], v4, s4", &[0xd700_0a08, 0x0000_0904]),
    ("v_sub_co_u32 v8, vcc, v4, v5", &[0xd701_6a08, 0x0002_0b04]),
    ("v_subrev_co_u32 v8, s[10:11], v4, v5", &[0xd702_0a08, 0x0002_0b04]),
    ("v_add_co_ci_u32_e32 v8, vcc, v4, v5, vcc", &[0x4010_0b04]),
    ("v_add_co_ci_u32_e64 v8, s[10:11], v4, v5, s[6:7]", &[0xd520_0a08, 0x001a_0b04]),
    ("v_sub_co_ci_u32_e32 v8, vcc, v4, v5, vcc", &[0x4210_0b04]),
    ("v_subrev_co_ci_u32_e64 v8, s[6:7], v4, v5, s[6:7]", &[0xd522_0608, 0x001a_0b04]),
    ("v_mad_u64_u32 v[8:9], s[10:11], v4, v5, v[6:7]", &[0xd6fe_0a08, 0x041a_0b04]),
    ("v_mad_u64_u32 v[6:7], null, v4, s4, v[6:7]", &[0xd6fe_7c06, 0x0418_0904]),
    ("v_mad_u64_u32 v[4:5], vcc, v4, v5, 0", &[0xd6fe_6a04, 0x0202_0b04]),
    ("v_mad_u64_u32 v[8:9], vcc, v4, v5, -1", &[0xd6fe_6a08, 0x0306_0b04]),
    ("v_rcp_f32_e32 v8, v4", &[0x7e10_5504]),
    ("v_rcp_f32_e64 v4, -v4", &[0xd5aa_0004, 0x2000_0104]),
    ("v_rcp_iflag_f32_e32 v8, s4", &[0x7e10_5604]),
    ("v_sqrt_f32_e32 v8, v4", &[0x7e10_6704]),
    ("v_sqrt_f32_e64 v4, |v4|", &[0xd5b3_0104, 0x0000_0104]),
    ("v_rsq_f32_e32 v8, v4", &[0x7e10_5d04]),
    ("v_rsq_f32_e64 v8, |v4|", &[0xd5ae_0108, 0x0000_0104]),
    ("v_rsq_f32_e32 v4, v4", &[0x7e08_5d04]),
    ("v_exp_f32_e32 v8, v4", &[0x7e10_4b04]),
    ("v_exp_f32_e64 v8, -|v4|", &[0xd5a5_0108, 0x2000_0104]),
    ("v_exp_f32_e32 v8, s4", &[0x7e10_4a04]),
    // v_and_b32 and v_or_b32 with constants: numbers from 16 on, from -4 down, and from 1/4 on.
    ("v_exp_f32_e32 v8, v4 of 16 to 32", &[0x3608_08ff, 0x7f_ffff, 0x3808_08ff, 0x4180_0000, 0x7e10_4b04]),
    ("v_exp_f32_e32 v4, v4 of -4 to -8", &[0x3608_08ff, 0x7f_ffff, 0x3808_08ff, 0xc080_0000, 0x7e08_4b04]),
    ("v_exp_f32_e32 v8, v4 of 1/4 to 1/2", &[0x3608_08ff, 0x7f_ffff, 0x3808_08ff, 0x3e80_0000, 0x7e10_4b04]),
];

/// llvm-mc-19 -mcpu=gfx942.
const GFX9: [Instruction<'_>; 26] = [
    ("v_lshl_add_u64 v[8:9], v[4:5], 3, v[6:7]", &[0xd208_0008, 0x0419_0704]),
    ("v_lshl_add_u64 v[4:5], s[4:5], 0, v[4:5]", &[0xd208_0004, 0x0411_0004]),
    ("v_lshl_add_u64 v[6:7], v[4:5], 4, -1", &[0xd208_0006, 0x0305_0904]),
    ("v_mov_b64_e32 v[8:9], v[4:5]", &[0x7e10_7104]),
    ("v_mov_b64_e32 v[8:9], s[4:5]", &[0x7e10_7004]),
    ("v_add_f16_e32 v8, v4, v5", &[0x3e10_0b04]),
    ("v_mul_f16_e32 v8, s4, v5", &[0x4410_0a04]),
    ("v_fma_f16 v8, v4, v5, v6", &[0xd206_0008, 0x041a_0b04]),
    ("v_cvt_f16_f32_e32 v8, v4", &[0x7e10_1504]),
    ("v_pk_fma_f16 v8, v4, v5, v6", &[0xd38e_4008, 0x1c1a_0b04]),
    ("v_mac_f16_e32 v8, v4, v5", &[0x4610_0b04]),
    ("v_mac_f16_e64 v8, -v4, v5", &[0xd123_0008, 0x2002_0b04]),
    ("v_madak_f16 v8, v4, v5, 0x3c01", &[0x4a10_0b04, 0x3c01]),
    ("v_madmk_f16 v8, v4, 0x3c01, v5", &[0x4810_0b04, 0x3c01]),
    ("v_mad_f16 v8, v4, v5, v6", &[0xd203_0008, 0x041a_0b04]),
    ("v_mad_legacy_f16 v8, v4, v5, v6", &[0xd1ea_0008, 0x041a_0b04]),
    ("v_pk_fma_f32 v[8:9], v[4:5], v[6:7], v[10:11]", &[0xd3b0_4008, 0x1c2a_0d04]),
    ("v_pk_fma_f32 v[4:5], v[4:5], v[6:7], v[4:5] op_sel_hi:[0,1,0]", &[0xd3b0_0004, 0x1412_0d04]),
    ("v_add_co_u32_e32 v8, vcc, v4, v5", &[0x3210_0b04]),
    ("v_addc_co_u32_e32 v8, vcc, v4, v5, vcc", &[0x3810_0b04]),
    ("v_subb_co_u32_e32 v8, vcc, v4, v5, vcc", &[0x3a10_0b04]),
    ("v_mad_u64_u32 v[8:9], s[10:11], v4, v5, v[6:7]", &[0xd1e8_0a08, 0x041a_0b04]),
    ("v_rcp_f32_e32 v4, v4", &[0x7e08_4504]),
    ("v_sqrt_f32_e32 v4, v4", &[0x7e08_4f04]),
    ("v_rsq_f32_e32 v8, v4", &[0x7e10_4904]),
    ("v_exp_f32_e32 v8, v4 of 16 to 32", &[0x2608_08ff, 0x7f_ffff, 0x2808_08ff, 0x4180_0000, 0x7e10_4104]),
];

/// Words of zeros, ones, NaNs, infinities, denormal and extreme numbers in halves, singles and the high words of doubles.
const SPECIAL: [u32; 30] = [
    0,
    1,
    2,
    0xffff_ffff,
    0x8000_0000,
    0x7fff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_1234,
    0xff80_0001,
    0x0080_0000,
    0x007f_ffff,
    0x7f7f_ffff,
    0x4f00_0000,
    0xcf00_0001,
    0x4f80_0000,
    0x3c00_bc00,
    0x7c00_fc00,
    0x7e01_fd03,
    0x0001_8001,
    0x0400_03ff,
    0x7bff_fbff,
    0x7ff0_0000,
    0xfff8_0001,
    0x3ff0_0000,
    0x0010_0000,
    0x477f_efff,
    0x3380_0000,
];

/// Everything that a run leaves.
fn outcome(
    backend: Backend,
    arch: Arch,
    (size, exec): (WaveSize, u64),
    words: &[u32],
    seed: u64,
) -> (Stop, Vec<u32>) {
    let old = arch.is_gfx9();
    // v_xor_b32_e32 v8, v8, v12: a row that memory does not have yet; s_endpgm.
    let code = [
        &[if old { 0x2a10_1908 } else { 0x3a10_1908 }],
        words,
        &[if old { 0xbf81_0000 } else { 0xbfb0_0000 }],
    ]
    .concat();
    let mut gpu = Gpu::of(arch, backend, 1 << 18);
    let pc = gpu.buffer(&code);
    let mut random = Random(seed);
    let mut word = |_| {
        let number = random.next();
        let any = (number >> 8) as u32;
        match number >> 60 {
            0..8 => SPECIAL[any as usize % SPECIAL.len()],
            // Numbers of about one in each format.
            8..10 => any & 0x83ff_83ff | 0x3800_3800,
            10..12 => any & 0x807f_ffff | 0x3f00_0000,
            _ => any,
        }
    };
    let vgprs: Vec<[u32; 64]> = (0..13).map(|_| core::array::from_fn(&mut word)).collect();
    let sgprs: [u32; 16] = core::array::from_fn(&mut word);
    let init = WaveInit {
        arch,
        pc,
        exec,
        wave_size: size,
        vgprs: &vgprs,
        sgprs: &sgprs,
        vgpr_count: 32,
        accum_offset: if old { 16 } else { 0 },
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    for register in [106, 107] {
        wave.set_sgpr(register, word(0));
    }
    let stop = gpu.step(&mut wave, 1000);
    let lanes = wave.lanes();
    let mut left: Vec<u32> = (0..13)
        .flat_map(|n| (0..lanes).map(move |lane| (n, lane)))
        .map(|(n, lane)| wave.vgpr(n, lane))
        .collect();
    left.extend((0..16).chain([106, 107, 126, 127]).map(|register| wave.sgpr(register)));
    (stop, left)
}

/// Runs instructions in both tiers, with every back end.
pub(super) fn compare(arch: Arch, size: WaveSize, instructions: &[Instruction<'_>]) {
    tiers().for_each(|tiers| compare_tiers(tiers, arch, size, instructions));
}

fn compare_tiers(
    [interpreter, compiler]: [Backend; 2],
    arch: Arch,
    size: WaveSize,
    instructions: &[Instruction<'_>],
) {
    for (text, words) in instructions {
        for seed in 1..25 {
            // Code that counts does the same.
            let compiler = if seed % 4 == 3 { compiler.counting() } else { compiler };
            let exec = [u64::MAX, 0x5555_aaaa_f00f_1234, 0][if seed < 14 { 0 } else { seed as usize % 3 }];
            let [expected, found] =
                [interpreter, compiler].map(|backend| outcome(backend, arch, (size, exec), words, seed));
            assert_eq!(expected.0, Stop::EndProgram, "{text}");
            let different = (0..expected.1.len()).find(|&n| expected.1[n] != found.1[n]);
            assert!(
                different.is_none() && found.0 == expected.0,
                "{compiler:?} {text} {size:?} {exec:#x}, seed {seed}: {:x?}",
                different.map(|n| (n / wave(size), n % wave(size), expected.1[n], found.1[n]))
            );
        }
    }
}

fn wave(size: WaveSize) -> usize {
    if size == WaveSize::Wave32 { 32 } else { 64 }
}

#[test]
fn of_gfx1100_in_waves_of_32_lanes() {
    compare(Arch::Gfx1100, WaveSize::Wave32, &GFX11);
}

#[test]
fn of_gfx1100_in_waves_of_64_lanes() {
    compare(Arch::Gfx1100, WaveSize::Wave64, &GFX11);
}

#[test]
fn of_gfx942() {
    compare(Arch::Gfx942, WaveSize::Wave64, &GFX9);
}
