//! Effects of `MODE`, exceptions that `TRAPSTS` records, and lanes that a fault names.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::mem::Fault;
use belfry_isa::wave::{Wave, WaveInit};

use super::{Bench, common, lanes};

// buffer_load_b64 v[10:11], v0, s[4:7], 0 offen
const BUFFER_LOAD: &[u32] = &[0xe054_0000, 0x8041_0a00, 0xbfb0_0000];

// buffer_atomic_add_u32 v1, v0, s[4:7], 0 offen
const BUFFER_ATOMIC: &[u32] = &[0xe0d4_0000, 0x8041_0100, 0xbfb0_0000];

// buffer_store_b32 v1, v0, s[4:7], 0 offen
const BUFFER_STORE: &[u32] = &[0xe068_0000, 0x8041_0100, 0xbfb0_0000];

// ds_storexchg_2addr_rtn_b32 v[10:11], v0, v1, v2 offset1:1
const EXCHANGE: &[u32] = &[0xd8b8_0100, 0x0a02_0100, 0xbfb0_0000];

// global_load_addtid_b32 v10, s[4:5]
const GLOBAL_ADDTID: &[u32] = &[0xdca2_0000, 0x0a04_0000, 0xbfb0_0000];

// v_fma_mixlo_f16 v10, v0, v1, v2
// v_fma_mixhi_f16 v10, v0, v1, v2
// v_fma_mixlo_f16 v11, v3, v1, v2
// v_dot2_f16_f16 v12, v4, v4, v5
// v_dot2_f16_f16 v13, v6, v4, v5
// v_div_fixup_f16 v14, v7, v8, v7
const HALVES: &[u32] = &[
    0xcc21_000a,
    0x040a_0300,
    0xcc22_000a,
    0x040a_0300,
    0xcc21_000b,
    0x040a_0303,
    0xd666_000c,
    0x0416_0904,
    0xd666_000d,
    0x0416_0906,
    0xd654_000e,
    0x041e_1107,
    0xbfb0_0000,
];

// s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0
// v_fma_mixlo_f16 v10, v0, v1, v2 op_sel_hi:[1,0,0]
// s_getreg_b32 s8, hwreg(HW_REG_TRAPSTS)
// s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0
// v_fma_mix_f32 v10, v0, v1, v2 op_sel_hi:[1,0,0]
// s_getreg_b32 s9, hwreg(HW_REG_TRAPSTS)
// s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS), 0
// v_dot2_f32_f16 v10, v0, v0, v2
// s_getreg_b32 s10, hwreg(HW_REG_TRAPSTS)
const FLAGS: &[u32] = &[
    0xb980_f803,
    0x0000_0000,
    0xcc21_000a,
    0x0c0a_0300,
    0xb888_f803,
    0xb980_f803,
    0x0000_0000,
    0xcc20_000a,
    0x0c0a_0300,
    0xb889_f803,
    0xb980_f803,
    0x0000_0000,
    0xcc13_400a,
    0x1c0a_0100,
    0xb88a_f803,
    0xbfb0_0000,
];

/// End of the memory there is.
const LIMIT: u64 = common::BASE + (1 << 20);
const FP16_OVFL: u32 = 1 << 23;

fn memory_fault(program: &[u32], vgprs: &[[u32; 64]], sgprs: &[u32]) -> (Fault, u64) {
    let mut bench = Bench::new(Backend::detect(), program);
    let mut wave = bench.wave(WaveSize::Wave64, vgprs, sgprs);
    let Stop::Fault(fault) = bench.run(&mut wave) else { panic!("no fault") };
    let FaultCause::Memory { fault, lanes } = fault.kind else { panic!("{fault}") };
    (fault, lanes)
}

#[test]
fn buffer_faults_name_every_lane_from_the_first_that_fails() {
    let start = LIMIT - 64;
    // Dwords of lanes 0 to 15 are there, those of lanes 16 to 39 are not, the others are outside the buffer.
    let sgprs = [0, 0, 0, 0, start as u32, (start >> 32) as u32, 160, 3 << 28];
    let vgprs = [lanes(|l| l * 4), lanes(|_| 1)];
    for (program, lanes) in
        [(BUFFER_STORE, 0xff_ffff_0000), (BUFFER_ATOMIC, 0xff_ffff_0000), (BUFFER_LOAD, 0xff_ffff_8000)]
    {
        let (fault, failed) = memory_fault(program, &vgprs, &sgprs);
        assert_eq!((fault.va, failed), (LIMIT, lanes));
    }
    let (fault, failed) = memory_fault(GLOBAL_ADDTID, &vgprs, &sgprs);
    assert_eq!((fault.va, failed), (LIMIT, 0xffff_ffff_ffff_0000));
}

#[test]
fn faults_of_exchanges_in_local_memory_name_every_lane_and_change_nothing() {
    // Lanes 15 and 31 are misaligned, lanes 48 on as well, and far outside.
    let addresses = lanes(|lane| match lane {
        15 | 31 => 1002,
        0..48 => lane * 4,
        _ => 0x8001,
    });
    let mut bench = Bench::new(Backend::detect(), EXCHANGE);
    let mut wave = bench.wave(WaveSize::Wave64, &[addresses, lanes(|_| 7), lanes(|_| 8)], &[]);
    let Stop::Fault(fault) = bench.run(&mut wave) else { panic!("no fault") };
    let expected = FaultCause::LdsMisaligned { address: 1002, bytes: 4, lanes: 0xffff_0000_8000_8000 };
    assert_eq!(fault.kind, expected);
    assert!(bench.gpu.lds.bytes().iter().all(|byte| *byte == 0));
}

#[test]
fn half_precision_overflows_of_mixed_operations_are_limited() {
    let float = |x: f32| lanes(|_| x.to_bits());
    let word = |x: u32| lanes(|_| x);
    // 1e4, 1e4, 0, infinity, then pairs of halves: largest, one, (infinity, 0), 1.0, 0.
    let vgprs = [
        float(1e4),
        float(1e4),
        float(0.0),
        float(f32::INFINITY),
        word(0x7bff_7bff),
        word(0x3c00),
        word(0x0000_7c00),
        word(0x3c00),
        word(0),
    ];
    for (bits, [mix, dot]) in [(0, [0x7c00_7c00, 0x7c00]), (FP16_OVFL, [0x7bff_7bff, 0x7bff])] {
        let mut bench = Bench::new(Backend::detect(), HALVES);
        let mode = Wave::DEFAULT_MODE | bits;
        let mut wave = Wave::new(&WaveInit { pc: bench.pc, vgprs: &vgprs, mode, ..WaveInit::default() });
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        let got = [10, 11, 12, 13, 14].map(|register| wave.vgpr(register, 5));
        assert_eq!(got, [mix, 0x7c00, dot, 0x7c00, 0x7c00], "{bits:#x}");
    }
}

#[test]
fn mixed_operations_raise_exceptions_and_dot_products_do_not() {
    const OVERFLOW: u32 = 1 << 3;
    const INEXACT: u32 = 1 << 5;
    const DENORM: u32 = 1 << 1;
    const INVALID: u32 = 1;
    let float = |x: f32| x.to_bits();
    for (sources, half, single) in [
        // Largest half and 2.0: too large for a half, not for a single.
        ([0x7bff, float(2.0), float(0.0)], OVERFLOW | INEXACT, 0),
        ([1, float(1.0), float(0.0)], DENORM, DENORM),
        ([0x7c01, float(1.0), float(0.0)], INVALID, INVALID),
        ([0x7c00, float(0.0), float(0.0)], INVALID, INVALID),
        ([0x3c00, float(1.0), float(2.0)], 0, 0),
        ([0x3c00, float(1.0), float(1e-30)], INEXACT, INEXACT),
    ] {
        let mut bench = Bench::new(Backend::detect(), FLAGS);
        let vgprs = sources.map(|word| lanes(|_| word));
        let mut wave = bench.wave(WaveSize::Wave32, &vgprs, &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        assert_eq!([8, 9, 10].map(|register| wave.sgpr(register)), [half, single, 0], "{sources:x?}");
    }
}
