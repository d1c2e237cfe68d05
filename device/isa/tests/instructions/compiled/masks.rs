//! Masks that one instruction writes and the next ones read, which compiled code keeps for them: any row of such instructions, against
//! the interpreter.

use belfry_isa::exec::Stop;
use belfry_isa::inst::WaveSize;
use belfry_isa::wave::{Wave, WaveInit};

use super::super::Bench;
use super::tiers;
use crate::common::Random;

/// v_add_co_u32, v_sub_co_u32 and v_subrev_co_u32, whose mask is one of `MASKS`.
const OUT: [u32; 3] = [0xd700_0000, 0xd701_0000, 0xd702_0000];
/// v_add_co_ci_u32, v_sub_co_ci_u32 and v_subrev_co_ci_u32, which read one as well.
const IN_AND_OUT: [u32; 3] = [0xd520_0000, 0xd521_0000, 0xd522_0000];
/// v_cmp_lt_u32, v_cmp_eq_u32 and v_cmp_gt_f32.
const COMPARISONS: [u32; 3] = [0xd449_0000, 0xd44a_0000, 0xd414_0000];
/// v_cndmask_b32.
const SELECT: u32 = 0xd501_0000;
/// VCC, and s[4:5]: with a choice of few, an instruction often reads what the one before has written.
const MASKS: [u32; 3] = [106, 106, 4];
/// v_mov_b32_e32 v7, v6, which is between some.
const OTHER: u32 = 0x7e0e_0306;
const END: u32 = 0xbfb0_0000;

/// Sixty instructions.
fn program(random: &mut Random) -> Vec<u32> {
    let mut words = Vec::new();
    for _ in 0..60 {
        let mut any = |count: u32| (random.next() >> 33) as u32 % count;
        let (to, a, b) = (any(8), 0x100 + any(8), 0x100 + any(8));
        let [out, read] = [any(3), any(3)].map(|n| MASKS[n as usize]);
        let three = any(3) as usize;
        match any(9) {
            0..=1 => words.extend([OUT[three] | out << 8 | to, b << 9 | a]),
            2..=4 => words.extend([IN_AND_OUT[three] | out << 8 | to, read << 18 | b << 9 | a]),
            5 => words.extend([COMPARISONS[three] | out, b << 9 | a]),
            6..=7 => words.extend([SELECT | to, read << 18 | b << 9 | a]),
            _ => words.push(OTHER),
        }
    }
    words.push(END);
    words
}

#[test]
fn masks_are_those_that_the_instruction_before_has_written() {
    let mut random = Random(0x6d61_736b_7320_7265);
    for round in 0..60 {
        let words = program(&mut random);
        let vgprs: Vec<[u32; 64]> = (0..8)
            .map(|_| {
                // Sums of these often carry, and wrap by a carry.
                core::array::from_fn(|_| match random.next() >> 61 {
                    0..=2 => u32::MAX,
                    3..=4 => 0,
                    _ => (random.next() >> 32) as u32,
                })
            })
            .collect();
        let sgprs: Vec<u32> = (0..8).map(|_| (random.next() >> 32) as u32).collect();
        for (size, exec) in [WaveSize::Wave32, WaveSize::Wave64]
            .into_iter()
            .flat_map(|size| [(size, u64::MAX), (size, random.next())])
        {
            for backends in tiers() {
                let [interpreted, compiled] = backends.map(|backend| {
                    let mut bench = Bench::new(backend, &words);
                    let mut wave = Wave::new(&WaveInit {
                        pc: bench.pc,
                        exec,
                        wave_size: size,
                        vgprs: &vgprs,
                        sgprs: &sgprs,
                        ..WaveInit::default()
                    });
                    assert_eq!(bench.run(&mut wave), Stop::EndProgram, "round {round}");
                    wave.save()
                });
                assert_eq!(compiled, interpreted, "round {round}, {size:?}, EXEC {exec:#x}: {words:x?}");
            }
        }
    }
}
