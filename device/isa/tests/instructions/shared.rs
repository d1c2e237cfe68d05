//! Vector registers that both halves of a wave64 share.

use belfry_isa::exec::{FaultCause, Stop};
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::{Bench, lanes};

// s_mov_b64 exec, 0xffffffff
// v_mov_b32 v32, v0
// s_not_b64 exec, exec
// v_mov_b32 v1, v32
// s_mov_b64 exec, -1
// v_add_nc_u32 v33, v0, v33
// v_add_co_u32 v35, vcc, v0, v2
// s_mov_b32 s8, 0x77
// v_writelane_b32 v34, s8, 40
// v_readlane_b32 s9, v34, 8
// v_mov_b32_dpp v36, v0 row_share:3 row_mask:0x6 bank_mask:0xf
// v_cndmask_b32_e64 v38, v0, v2, s[20:21]
// s_mov_b32 m0, 9
// v_movreld_b32 v30, v0
// v_mov_b32 v29, 0x55
// v_swap_b32 v29, v37
// s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 24, 4)
// s_getreg_b32 s11, hwreg(HW_REG_GPR_ALLOC, 12, 8)
// v_lshlrev_b32 v3, 2, v0
// ds_store_b32 v3, v0
// ds_load_b64 v[31:32], v3
const SHARED: &[u32] = &[
    0xbefe_01ff,
    0xffff_ffff,
    0x7e40_0300,
    0xbefe_1f7e,
    0x7e02_0320,
    0xbefe_01c1,
    0x4a42_4300,
    0xd700_6a23,
    0x0002_0500,
    0xbe88_00ff,
    0x0000_0077,
    0xd761_0022,
    0x0001_5008,
    0xd760_0009,
    0x0001_1122,
    0x7e48_02fa,
    0x6f01_5300,
    0xd501_0026,
    0x0052_0500,
    0xbefd_0089,
    0x7e3c_8500,
    0x7e3a_02ff,
    0x0000_0055,
    0x7e3a_cb25,
    0xb88a_1e06,
    0xb88b_3b05,
    0x3006_0082,
    0xd834_0000,
    0x0000_0003,
    0xd9d8_0000,
    0x1f00_0003,
    0xbfb0_0000,
];

// s_subvector_loop_begin s40, 6
// v_mov_b32 v32, v0
// v_mul_lo_u32 v32, v32, v32
// v_add_nc_u32 v1, v32, 1
// s_subvector_loop_end s40, -6
const LOOP: &[u32] =
    &[0xbb28_0006, 0x7e40_0300, 0xd72c_0020, 0x0002_4120, 0xd525_0001, 0x0001_0320, 0xbba8_fffa, 0xbfb0_0000];

// v_mov_b32 v40, 0
const BEYOND: &[u32] = &[0x7e50_0280, 0xbfb0_0000];

// global_load_b32 v32, v[4:5], off
const FAULT: &[u32] = &[0xdc52_0000, 0x207c_0004, 0xbfb0_0000];

/// A wave64 with 32 registers of its own and 8 shared ones.
fn wave(bench: &Bench, vgprs: &[[u32; 64]]) -> Wave {
    Wave::new(&WaveInit {
        pc: bench.pc,
        exec: u64::MAX,
        wave_size: WaveSize::Wave64,
        vgprs,
        sgprs: &[0; 44],
        vgpr_count: 32,
        shared_vgprs: 8,
        ..WaveInit::default()
    })
}

fn assert_shared(wave: &Wave) {
    for register in 32..40 {
        for lane in 0..32 {
            let [low, high] = [lane, lane + 32].map(|lane| wave.vgpr(register, lane));
            assert_eq!(low, high, "v{register} of lane {lane}");
        }
    }
}

#[test]
fn there_is_one_copy_for_both_halves() {
    for backend in Backend::all() {
        let mut bench = Bench::new(backend, SHARED);
        let mut wave = wave(&bench, &[lanes(|l| l + 1), lanes(|_| 0), lanes(|l| 1000 * l)]);
        wave.set_vgpr(33, 3, 7);
        assert_shared(&wave);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        assert_shared(&wave);
        assert_eq!((wave.sgpr(9), wave.vgpr(34, 8), wave.vgpr(34, 9)), (0x77, 0x77, 0));
        assert_eq!((wave.sgpr(10), wave.sgpr(11)), (1, 7), "sizes in units of 8 and of 4, minus one");
        for lane in 0..32 {
            let (low, high) = (lane + 1, lane + 33);
            assert_eq!((wave.vgpr(1, lane), wave.vgpr(1, lane + 32)), (0, low), "over from the low half");
            let before = if lane == 3 { 7 } else { 0 };
            assert_eq!(wave.vgpr(33, lane), high + before, "read before written, the high half last");
            assert_eq!(wave.vgpr(35, lane), high + 1000 * (lane + 32));
            // Rows 1 and 2 only: the upper half of the low lanes, the lower half of the high ones.
            assert_eq!(wave.vgpr(36, lane), if lane < 16 { 32 + 4 } else { 16 + 4 });
            assert_eq!(wave.vgpr(38, lane), high, "no lane chosen");
            assert_eq!(wave.vgpr(39, lane), high, "by M0");
            assert_eq!((wave.vgpr(29, lane), wave.vgpr(37, lane)), (0, 0x55), "swapped");
            assert_eq!(
                (wave.vgpr(31, lane), wave.vgpr(31, lane + 32)),
                (low, high),
                "its own half of the pair"
            );
            assert_eq!(
                wave.vgpr(32, lane),
                if high < 64 { high + 1 } else { 0 },
                "the shared half of the pair"
            );
        }
    }
}

#[test]
fn the_loop_over_halves_has_temporaries_in_them() {
    for (exec, passes) in
        [(u64::MAX, [true, true]), (0xffff_ffff, [true, false]), (0xf0 << 32, [false, true])]
    {
        let mut bench = Bench::new(Backend::detect(), LOOP);
        let mut wave = wave(&bench, &[lanes(|l| l), lanes(|_| 5)]);
        wave.set_sgpr(126, exec as u32);
        wave.set_sgpr(127, (exec >> 32) as u32);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        assert_eq!(wave.exec(), exec);
        assert_eq!(wave.instructions, 2 + 4 * passes.into_iter().map(u64::from).sum::<u64>());
        assert_shared(&wave);
        for lane in 0..64 {
            let expected = if exec >> lane & 1 != 0 { lane * lane + 1 } else { 5 };
            assert_eq!(wave.vgpr(1, lane), expected, "lane {lane}");
        }
    }
}

#[test]
fn registers_beyond_the_shared_ones_stop_the_wave() {
    let mut bench = Bench::new(Backend::detect(), BEYOND);
    let mut wave = wave(&bench, &[]);
    let Stop::Fault(fault) = bench.run(&mut wave) else { panic!("v40 of 40") };
    assert!(
        matches!(fault.kind, FaultCause::RegisterOutOfRange { register: 40, allocated: 40, .. }),
        "{fault}"
    );
    // A wave32 has none to share.
    let mut small =
        Wave::new(&WaveInit { pc: bench.pc, vgpr_count: 32, shared_vgprs: 8, ..WaveInit::default() });
    let Stop::Fault(fault) = bench.run(&mut small) else { panic!("v40 of 32") };
    assert!(matches!(fault.kind, FaultCause::RegisterOutOfRange { allocated: 32, .. }), "{fault}");
}

#[test]
fn a_load_that_fails_half_way_leaves_one_copy() {
    let mut bench = Bench::new(Backend::detect(), FAULT);
    let data = bench.gpu.buffer(&[9u32; 64]);
    let vgprs: Vec<[u32; 64]> = (0..6)
        .map(|n| match n {
            4 => lanes(|l| if l < 40 { data as u32 + l * 4 } else { 0x40 }),
            5 => lanes(|l| if l < 40 { (data >> 32) as u32 } else { 0 }),
            _ => lanes(|_| 0),
        })
        .collect();
    let mut wave = wave(&bench, &vgprs);
    let Stop::Fault(fault) = bench.run(&mut wave) else { panic!("lanes 40 to 63 have no memory") };
    assert!(matches!(fault.kind, FaultCause::Memory { .. }), "{fault}");
    assert_shared(&wave);
}
