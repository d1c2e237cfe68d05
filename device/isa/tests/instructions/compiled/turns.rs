//! Waves of a workgroup that take turns: rounds of compiled code give what turns one by one give.

use belfry_isa::exec::{FaultCause, Go, Stop, Stopped, TurnEnd, Turns};
use belfry_isa::lanes::{Backend, BackendKind, Tier};
use belfry_isa::wave::{Wave, WaveInit};

use crate::common::Gpu;

/// Each wave adds what its neighbour has stored, and a word of memory, as often as `s0` says; llvm-mc-19 -mcpu=gfx1100.
const PROGRAM: [u32; 14] = [
    // ds_store_b32 v0, v2
    0xd834_0000,
    0x0000_0200,
    // s_barrier
    0xbfbd_0000,
    // ds_load_b32 v1, v3
    0xd8d8_0000,
    0x0100_0003,
    // global_load_b32 v4, v[6:7], off
    0xdc52_0000,
    0x047c_0006,
    // v_add_nc_u32_e32 v2, v2, v1; v_add_nc_u32_e32 v2, v2, v4
    0x4a04_0302,
    0x4a04_0902,
    // s_barrier
    0xbfbd_0000,
    // s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1 to the beginning; s_endpgm
    0x8080_8100,
    0xbf07_8000,
    0xbfa2_fff3,
    0xbfb0_0000,
];
/// As [`PROGRAM`], and each wave stores its sum where its neighbour has loaded from, unless `s1` says that it does
/// not. It stops before that store until all have loaded.
const STORING: [u32; 18] = [
    // ds_store_b32 v0, v2
    0xd834_0000,
    0x0000_0200,
    // s_barrier
    0xbfbd_0000,
    // ds_load_b32 v1, v3
    0xd8d8_0000,
    0x0100_0003,
    // v_add_nc_u32_e32 v2, v2, v1
    0x4a04_0302,
    // s_cmp_lg_u32 s1, 0; s_cbranch_scc1 behind the store
    0xbf07_8001,
    0xbfa2_0002,
    // ds_store_b32 v0, v2
    0xd834_0000,
    0x0000_0200,
    // global_load_b32 v4, v[6:7], off
    0xdc52_0000,
    0x047c_0006,
    // v_add_nc_u32_e32 v2, v2, v4
    0x4a04_0902,
    // s_barrier
    0xbfbd_0000,
    // s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1 to the beginning; s_endpgm
    0x8080_8100,
    0xbf07_8000,
    0xbfa2_ffef,
    0xbfb0_0000,
];
/// As [`STORING`], with a store of bytes, which has no template.
const NARROW: [u32; 18] = {
    let mut program = STORING;
    // ds_store_b8 v0, v2
    program[8] = 0xd878_0000;
    program
};
/// As above, with a load in a run of elements that are done for some lanes after the others: v_lshrrev_b32 v5, 31,
/// v0, which is zero, before the loop; seven times v_mov_b32 from v5, and ds_load_b32 v1, v5.
const IN_RUN: [u32; 26] = {
    let mut program = [0; 26];
    program[0] = 0x320a_009f;
    let mut n = 0;
    while n < 18 {
        program[if n < 3 { n + 1 } else { n + 8 }] = STORING[n];
        n += 1;
    }
    n = 0;
    while n < 7 {
        program[n + 4] = 0x7e12_0305 + ((n as u32) << 17);
        n += 1;
    }
    program[12] = 0x0100_0005;
    program[24] = 0xbfa2_ffe8;
    program
};
const WAVES: usize = 5;

/// Parameters that differ from workgroup to workgroup.
#[derive(Clone, Copy, Debug)]
struct Case {
    program: &'static [u32],
    /// Waves that do not store.
    skips: [u32; WAVES],
    /// Times that each wave goes around.
    rounds: [u32; WAVES],
    /// Instructions of each turn, or of each round.
    budget: u64,
    /// The wave whose addresses lead nowhere.
    faults: Option<usize>,
    /// Times that the barrier opens before the caller wants the worker back.
    opens: u32,
}

/// Result of a case: each wave's number, program counter, executed instructions and two registers; LDS; the wave that
/// has stopped, and its stop.
#[derive(Debug, PartialEq)]
struct Outcome {
    waves: Vec<(u64, u64, [u32; 64])>,
    lds: Vec<u8>,
    stopped: Option<(usize, Stop)>,
    executed: u64,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Ready,
    AtBarrier,
    Ended,
}

/// Runs a workgroup, with rounds of all waves or without. Returns how often the caller was asked which wave goes on,
/// and how often the barrier opened meanwhile.
fn run(backend: Backend, case: Case, rounds: bool) -> (Outcome, usize, u64) {
    let mut gpu = Gpu::new(backend, 1 << 20);
    let pc = gpu.buffer(case.program);
    let words = gpu.buffer(&(0..32).map(|word| word * 3 + 1).collect::<Vec<u32>>());
    gpu.lds.reset(WAVES as u32 * 128);
    let mut waves: Vec<Wave> = (0..WAVES)
        .map(|number| {
            let mut wave = Wave::new(&WaveInit {
                pc,
                sgprs: &[case.rounds[number], case.skips[number]],
                ..WaveInit::default()
            });
            wave.take_turns(true);
            let words = if case.faults == Some(number) { 1 << 40 } else { words };
            for lane in 0..32 {
                let at = |wave: usize| (wave * 128) as u32 + lane * 4;
                wave.set_vgpr(0, lane, at(number));
                wave.set_vgpr(2, lane, 1000 * number as u32 + lane);
                wave.set_vgpr(3, lane, at((number + 1) % WAVES));
                let address = words + lane as u64 * 4;
                wave.set_vgpr(6, lane, address as u32);
                wave.set_vgpr(7, lane, (address >> 32) as u32);
            }
            wave
        })
        .collect();
    let mut states = [State::Ready; WAVES];
    let (mut opened, mut repeated, mut calls, mut all_executed) = (0, 0, 0, 0);
    // Compiled code leaves the last opening of the barrier to the caller.
    let more = |opened: u64| u64::from(case.opens).wrapping_sub(opened + 1);
    let first = Go { wave: 0, budget: case.budget, all: rounds, more: more(0) };
    let stopped = gpu.run_in_turns(&mut waves, first, &mut |_, _, turns| {
        let Turns { opened: times, waiting, at, end, executed } = turns;
        (all_executed, calls) = (all_executed + executed, calls + 1);
        (opened, repeated) = (opened + times, repeated + times);
        if let Some(waiting) = waiting {
            states = core::array::from_fn(|wave| match waiting >> wave & 1 {
                0 => State::Ready,
                _ => State::AtBarrier,
            });
        }
        // Blocks are done whole.
        assert!(executed < case.budget + 12, "{executed} instructions in {case:?}");
        states[at] = match end {
            TurnEnd::Barrier => State::AtBarrier,
            TurnEnd::Over => State::Ready,
            TurnEnd::Ended => State::Ended,
        };
        if states.iter().all(|state| *state == State::Ended) {
            return None;
        }
        if !states.contains(&State::Ready) {
            states.iter_mut().filter(|state| **state != State::Ended).for_each(|state| *state = State::Ready);
            opened += 1;
            if opened == u64::from(case.opens) {
                return None;
            }
            let wave = states.iter().position(|state| *state == State::Ready)?;
            let all = rounds && states.iter().all(|state| *state == State::Ready);
            return Some(Go { wave, budget: case.budget, all, more: more(opened) });
        }
        let wave = (1..=WAVES).map(|n| (at + n) % WAVES).find(|wave| states[*wave] == State::Ready)?;
        Some(Go { wave, budget: case.budget, all: false, more: 0 })
    });
    let stopped = stopped.map(|Stopped { opened, at, stop, executed, .. }| {
        repeated += opened;
        all_executed += executed;
        (at, stop)
    });
    let of = |wave: &Wave| {
        let registers = core::array::from_fn(|n| wave.vgpr(1 + n as u8 / 32, n as u32 % 32));
        (wave.pc() - pc, wave.instructions, registers)
    };
    let outcome = Outcome {
        waves: waves.iter().map(of).collect(),
        lds: gpu.lds.bytes().to_vec(),
        stopped,
        executed: all_executed,
    };
    assert_eq!(outcome.executed, waves.iter().map(|wave| wave.instructions).sum::<u64>(), "{case:?}");
    (outcome, calls, repeated)
}

#[test]
fn rounds_of_compiled_code_are_as_turns_one_by_one() {
    let kinds = [BackendKind::Avx2, BackendKind::Avx512].into_iter().filter_map(Backend::force);
    for interpreter in kinds {
        let compiler = interpreter.with_tier(Tier::One);
        let (mut most, mut fewest) = ([0; 8], [usize::MAX; 8]);
        let programs = [(&PROGRAM[..], [0; WAVES]), (&STORING, [0; WAVES])];
        let some_skip =
            [[0, 1, 0, 1, 0], [0, 0, 0, 0, 1], [1, 1, 1, 1, 0]].map(|skips| (&STORING[..], skips));
        let narrow = [(&NARROW[..], [0; WAVES]), (&NARROW, [0, 1, 1, 0, 1])];
        let in_run = [(&IN_RUN[..], [0; WAVES])];
        let programs = programs.into_iter().chain(some_skip).chain(narrow).chain(in_run).enumerate();
        let cases = programs.flat_map(|(place, (program, skips))| {
            let rounds = [[6; WAVES], [6, 6, 3, 6, 6], [1, 2, 3, 4, 5], [5, 4, 3, 2, 1]];
            let budgets = [1, 2, 3, 7, 12, 20, 33, 1000];
            // How far others have come by then depends on who had its turn when, if they wait in different places.
            let skipped = skips != [0; WAVES];
            let faults: &[_] = if skipped { &[None] } else { &[None, Some(0), Some(2), Some(WAVES - 1)] };
            let all = rounds.into_iter().flat_map(move |rounds| budgets.map(|budget| (rounds, budget)));
            let all = all
                .flat_map(move |(rounds, budget)| faults.iter().map(move |&faults| (rounds, budget, faults)));
            all.flat_map(move |(rounds, budget, faults)| {
                [0, 1, 2, 5].map(|opens| (place, Case { program, skips, rounds, budget, faults, opens }))
            })
        });
        for (place, case) in cases {
            let (expected, ..) = run(interpreter, case, false);
            let (one_by_one, _, none) = run(compiler, case, false);
            assert_eq!(one_by_one, expected, "{case:?} one by one");
            let (in_rounds, calls, repeated) = run(compiler, case, true);
            assert_eq!(in_rounds, expected, "{case:?} in rounds");
            assert_eq!(none, 0);
            most[place] = repeated.max(most[place]);
            if (case.faults, case.opens) == (None, 0) {
                fewest[place] = calls.min(fewest[place]);
            }
            let is_fault = |(at, stop): &(usize, Stop)| {
                Some(*at) == case.faults
                    && matches!(stop, Stop::Fault(at) if matches!(at.kind, FaultCause::Memory { .. }))
            };
            let faulted = expected.stopped.as_ref().is_some_and(is_fault);
            assert_eq!(faulted, case.faults.is_some() && case.opens != 1, "{case:?}");
        }
        // All twelve barriers open in compiled code, also where some wait before a store and some at the barrier; it is left when a wave ends.
        assert_eq!((most, fewest), ([12; 8], [WAVES; 8]), "{compiler:?}");
    }
}
