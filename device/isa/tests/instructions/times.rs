//! Compiled code that counts the elements that it executes.

use std::sync::Arc;

use belfry_isa::code_cache::{CodeCache, SharedCode};
use belfry_isa::exec::{CodeTimes, Stop};
use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::{Backend, Tier};

use super::compiled::tiers;
use super::{Bench, lanes};

/// s_mov_b32 s0, 40; then a loop of v_add_nc_u32 v4, v4, v0; v_readlane_b32 s7, v0, s1; s_sub_u32 s0, s0, 1;
/// s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
const LOOP: [u32; 8] =
    [0xbe80_00a8, 0x4a08_0104, 0xd760_0007, 0x0000_0300, 0x8080_8100, 0xbf07_8000, 0xbfa2_fffa, 0xbfb0_0000];
const ROUNDS: u64 = 40;

#[test]
fn calls_of_handlers_and_executions_of_blocks_are_counted() {
    tiers().for_each(counted);
}

fn counted([interpreter, compiler]: [Backend; 2]) {
    let mut results = Vec::new();
    for backend in [interpreter, compiler.counting(), interpreter.counting()] {
        let code = Arc::new(SharedCode::new(Arch::Gfx1100, backend));
        let mut bench = Bench::new(backend, &LOOP);
        bench.gpu.code = CodeCache::sharing(Arc::clone(&code));
        let mut wave = bench.wave(WaveSize::Wave32, &[lanes(|lane| lane + 3)], &[]);
        assert_eq!(bench.run(&mut wave), Stop::EndProgram);
        results.push((wave.vgpr(4, 5), wave.sgpr(7), wave.instructions));
        let mut times = CodeTimes::default();
        code.take_times(&mut times);
        if backend.tier() == Tier::Zero {
            assert_eq!(times, CodeTimes::default());
            continue;
        }
        assert_eq!((times.entries, times.instructions), (1, wave.instructions));
        let calls: Vec<_> = times.calls.iter().map(|(name, (calls, _))| (*name, *calls)).collect();
        assert_eq!(calls, [("v_readlane_b32", ROUNDS)]);
        let (_, in_calls) = times.calls["v_readlane_b32"];
        assert!(in_calls > 0 && in_calls < times.ticks, "{times:?}");
        let mut again = CodeTimes::default();
        code.take_times(&mut again);
        assert_eq!((again.entries, again.instructions, again.ticks), (0, 0, 0));
    }
    assert_eq!(results[0], (40 * 8, 3, 2 + 5 * ROUNDS));
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
}
