//! Compiled code that counts the elements that it executes.

use std::sync::Arc;

use belfry_isa::code_cache::{CodeCache, SharedCode};
use belfry_isa::exec::{CodeTimes, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::{Backend, Tier};

use super::compiled::tiers;
use super::{Bench, lanes};

/// s_mov_b32 s0, 40; then a loop of v_add_nc_u32 v4, v4, v0; v_sin_f32 v7, v0, which its handler does; s_sub_u32 s0, s0, 1;
/// s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
const LOOP: [u32; 7] =
    [0xbe80_00a8, 0x4a08_0104, 0x7e0e_6b00, 0x8080_8100, 0xbf07_8000, 0xbfa2_fffb, 0xbfb0_0000];
/// The same without v_sin_f32: rows stay in registers from round to round.
const HELD: [u32; 6] = [0xbe80_00a8, 0x4a08_0104, 0x8080_8100, 0xbf07_8000, 0xbfa2_fffc, 0xbfb0_0000];
/// v_mov_b32 v5, 40; then a loop that lanes leave: v_add_nc_u32 v4, v4, v0; v_sub_nc_u32 v5, v5, v1; v_cmpx_lt_i32 0, v5; s_cbranch_execnz;
/// s_endpgm.
const LEFT: [u32; 6] = [0x7e0a_02a8, 0x4a08_0104, 0x4c0a_0305, 0x7d82_0a80, 0xbfa6_fffc, 0xbfb0_0000];
const ROUNDS: u64 = 40;

/// Runs a program with and without counts; returns those of the code that counts, and what a wave leaves in all runs.
fn counted([interpreter, compiler]: [Backend; 2], words: &[u32]) -> (CodeTimes, (u32, u64)) {
    let mut results = Vec::new();
    let mut counted = None;
    for backend in [interpreter, compiler.counting(), interpreter.counting()] {
        let code = Arc::new(SharedCode::new(Arch::Gfx1100, backend));
        let mut bench = Bench::new(backend, words);
        bench.gpu.code = CodeCache::sharing(Arc::clone(&code));
        let of_lanes = [lanes(|lane| lane + 3), lanes(|lane| lane % 5 + 1)];
        let mut wave = bench.wave(WaveSize::Wave32, &of_lanes, &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        results.push((wave.vgpr(4, 5), wave.instructions));
        let mut times = CodeTimes::default();
        code.take_times(&mut times);
        if backend.tier() == Tier::Zero {
            assert_eq!(times, CodeTimes::default());
            continue;
        }
        assert_eq!((times.entries, times.instructions), (1, wave.instructions), "{backend:?}");
        let mut again = CodeTimes::default();
        code.take_times(&mut again);
        assert_eq!((again.entries, again.instructions, again.ticks), (0, 0, 0));
        counted = Some(times);
    }
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    (counted.expect("one of them counts"), results[0])
}

#[test]
fn calls_of_handlers_and_executions_of_blocks_are_counted() {
    for tiers in tiers() {
        let (times, left) = counted(tiers, &LOOP);
        assert_eq!(left, (40 * 8, 2 + 5 * ROUNDS));
        let calls: Vec<_> = times.calls.iter().map(|(name, (calls, _))| (*name, *calls)).collect();
        assert_eq!(calls, [("v_sin_f32", ROUNDS)]);
        let (_, in_calls) = times.calls["v_sin_f32"];
        assert!(in_calls > 0 && in_calls < times.ticks, "{times:?}");
    }
}

#[test]
fn rounds_whose_rows_stay_in_registers_are_counted() {
    for tiers in tiers() {
        let (times, left) = counted(tiers, &HELD);
        assert_eq!(left, (40 * 8, 2 + 4 * ROUNDS));
        assert!(times.calls.is_empty());
    }
}

#[test]
fn rounds_that_lanes_leave_are_counted() {
    for tiers in tiers() {
        // Lane 5 takes 1 off each time, as the last lanes to leave do.
        let (times, left) = counted(tiers, &LEFT);
        assert_eq!(left, (40 * 8, 2 + 4 * ROUNDS));
        assert!(times.calls.is_empty());
    }
}
