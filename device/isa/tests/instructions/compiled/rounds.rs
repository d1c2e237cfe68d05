//! Loops of one block, which compiled code may go through for some lanes after the others: turns end in both tiers at the same
//! instructions, with the same registers.

use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};

use super::tiers;
use crate::{Bench, lanes};

/// The begin of a loop of nine rounds: s_mov_b32 s0, 9.
const BEGIN: u32 = 0xbe80_0089;
/// s_cmp_lg_u32 s0, 0; s_cbranch_scc1 of no distance; s_endpgm.
const END: [u32; 3] = [0xbf07_8000, 0xbfa2_0000, 0xbfb0_0000];
/// s_sub_u32 s0, s0, 1.
const COUNT: u32 = 0x8080_8100;

/// More rows than there are registers for, whole: v_add_nc_u32 vN, s0, vN for each from v4 on, v_cmp_gt_u32 vcc, v4, v5 and
/// v_cndmask_b32 v6, v6, v4, vcc.
const MANY: [u32; 19] = {
    let mut words = [0; 19];
    let mut n = 0;
    while n < 16 {
        let row = n as u32 + 4;
        words[n] = 0x4a00_0000 | row << 17 | row << 9;
        n += 1;
    }
    words[16] = 0x7c98_0b04;
    words[17] = 0x020c_0906;
    words[18] = COUNT;
    words
};

/// Rows of a wave of 64 lanes for which there is room by halves: as above for v4 to v13.
const TEN: [u32; 13] = {
    let mut words = [0; 13];
    let mut n = 0;
    while n < 10 {
        words[n] = MANY[n];
        n += 1;
    }
    while n < 13 {
        words[n] = MANY[n + 6];
        n += 1;
    }
    words
};

/// Bodies of the loops.
const LOOPS: [(&str, &[u32]); 7] = [
    ("many rows", &MANY),
    ("ten rows", &TEN),
    ("v_add_nc_u32 v4, s0, v4; s_sub; v_add_nc_u32 v7, s0, v7", &[0x4a08_0800, COUNT, 0x4a0e_0e00]),
    // A mask from lane to lane: v_cmp_gt_u32 vcc, v4, v5; v_cndmask_b32 v6, v6, v4, vcc.
    ("a mask", &[0x4a08_0800, 0x3a0a_0b04, 0x7c98_0b04, 0x020c_0906, COUNT]),
    // v_cndmask_b32 v6, v6, v4, vcc; s_mov_b32 vcc_lo, s0; v_cndmask_b32 v7, v7, v5, vcc: lanes by what scalars leave.
    ("a scalar as a mask", &[0x020c_0906, 0xbeea_0000, 0x020e_0b07, 0x4a08_0800, COUNT]),
    // v_cmp_gt_u32 vcc, v4, v5; v_mov_b32 v6, vcc_lo: all lanes have what other lanes have found.
    ("a mask in all lanes", &[0x4a08_0800, 0x7c98_0b04, 0x7e0c_026a, COUNT]),
    // v_cmp_gt_u32 vcc, v4, v5; s_xor_b32 s1, s1, vcc_lo: scalars by what lanes have found.
    ("a mask in a scalar", &[0x4a08_0800, 0x7c98_0b04, 0x8d01_6a01, COUNT]),
];

fn program(body: &[u32]) -> Vec<u32> {
    let [compare, branch, end] = END;
    let back = (body.len() as u32 + 2).wrapping_neg() & 0xffff;
    [&[BEGIN][..], body, &[compare, branch | back, end]].concat()
}

/// The number of rounds of each lane in v4: v_and_b32 v4, 7, v4 and v_add_nc_u32 v4, 1, v4, or v_mov_b32 v4, 5.
const ROUNDS: [&[u32]; 2] = [&[0x3608_0887, 0x4a08_0881], &[0x7e08_0285]];
/// A loop that lanes leave one after the other: v_add_nc_u32 v4, -1, v4; v_add_nc_u32 v7, v4, v7; v_add_nc_u32 v8, v7, v8;
/// v_cmp_eq_u32 s2, 0, v4; s_or_b32 s1, s2, s1; s_and_not1_b32 exec_lo, exec_lo, s1; s_cbranch_execnz back.
const UNTIL_NONE: [u32; 8] =
    [0x4a08_08c1, 0x4a0e_0f04, 0x4a10_1107, 0xd44a_0002, 0x0002_0880, 0x8c01_0102, 0x917e_017e, 0xbfa6_fff8];
/// The same with s_or_b64 s[0:1], s[2:3], s[0:1] and s_and_not1_b64 exec, exec, s[0:1].
const UNTIL_NONE_OF_64: [u32; 8] = {
    let mut words = UNTIL_NONE;
    words[5] = 0x8c80_0002;
    words[6] = 0x91fe_007e;
    words
};

/// Returns the state after each turn of `budget` instructions.
fn turns(backend: Backend, words: &[u32], size: WaveSize, (exec, budget): (u64, u64)) -> Vec<Vec<u64>> {
    let mut bench = Bench::new(backend, words);
    let vgprs: Vec<[u32; 64]> =
        (0..24_u32).map(|n| lanes(|lane| (lane + 3).wrapping_mul(n * 0x0101_0107 + 5))).collect();
    let mut wave = Wave::new(&WaveInit {
        pc: bench.pc,
        exec,
        wave_size: size,
        vgprs: &vgprs,
        sgprs: &[0; 8],
        vgpr_count: 24,
        ..WaveInit::default()
    });
    let mut all = Vec::new();
    for _ in 0..200 {
        let stop = bench.gpu.step(&mut wave, budget);
        let mut left = vec![wave.pc() - bench.pc, wave.instructions];
        left.extend([0, 1, 106, 107, 126, 127].map(|register| u64::from(wave.sgpr(register))));
        left.extend(
            (0..24)
                .flat_map(|n| (0..wave.lanes()).map(move |lane| (n, lane)))
                .map(|(n, lane)| u64::from(wave.vgpr(n, lane))),
        );
        all.push(left);
        if stop == Stop::EndProgram {
            return all;
        }
    }
    panic!("the loop does not end");
}

#[test]
fn turns_end_where_those_of_the_interpreter_end() {
    for [interpreter, compiler] in tiers() {
        for (name, body) in LOOPS {
            let words = program(body);
            for size in [WaveSize::Wave32, WaveSize::Wave64] {
                for exec in [u64::MAX, 0x0f0f_3355_a5a5_00ff, 0] {
                    for budget in [1, 2, 3, 5, 8, 13, 21, 1000] {
                        let [expected, found] = [interpreter, compiler]
                            .map(|backend| turns(backend, &words, size, (exec, budget)));
                        assert!(
                            expected == found,
                            "{compiler:?} {name} {size:?} {exec:#x} turns of {budget}: {} and {}",
                            expected.len(),
                            found.len()
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn lanes_leave_loops_one_after_the_other() {
    for [interpreter, compiler] in tiers() {
        for rounds in ROUNDS {
            for (size, body) in [(WaveSize::Wave32, UNTIL_NONE), (WaveSize::Wave64, UNTIL_NONE_OF_64)] {
                let words = [rounds, &body, &END[2..]].concat();
                for exec in [u64::MAX, 0x0f0f_3355_a5a5_00ff, 1 << 31, 0] {
                    for budget in [1, 2, 3, 5, 8, 13, 21, 1000] {
                        let [expected, found] = [interpreter, compiler]
                            .map(|backend| turns(backend, &words, size, (exec, budget)));
                        assert!(
                            expected == found,
                            "{compiler:?} {rounds:x?} {size:?} {exec:#x} turns of {budget}: {} and {}",
                            expected.len(),
                            found.len()
                        );
                    }
                }
            }
        }
    }
}
