//! Time of functions of singles, for every backend of this host, interpreted and compiled.
//!
//! Arguments select operations and backends: `cargo bench -p belfry-isa --bench functions -- sin Avx512`.

#[path = "../tests/common/mod.rs"]
mod common;
mod selection;

use std::time::Instant;

use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};
use common::{Gpu, Random};
use selection::Selection;

/// Instructions of a loop, and how often it runs.
const INSTRUCTIONS: u32 = 16;
const ROUNDS: u32 = 40;
/// Repetitions, of which the fastest is printed.
const RUNS: usize = 400;

/// Names, and first words of gfx1100 without registers: of VOP1, and of a VOP2 that adds to its result.
const OPERATIONS: [(&str, u32); 8] = [
    ("rcp", 0x7e00_5400),
    ("rsq", 0x7e00_5c00),
    ("sqrt", 0x7e00_6600),
    ("exp", 0x7e00_4a00),
    ("log", 0x7e00_4e00),
    ("sin", 0x7e00_6a00),
    ("cos", 0x7e00_6c00),
    ("fmac", 0x5600_6200),
];

fn main() {
    let selection = Selection::of_arguments();
    println!("{:<10} {:<5} {:<10} {:>10}", "backend", "tier", "operation", "ns");
    for backend in selection.backends() {
        for (name, word) in OPERATIONS.into_iter().filter(|(name, _)| selection.has(name)) {
            let (kind, tier) = (format!("{:?}", backend.kind()), format!("{:?}", backend.tier()));
            println!("{kind:<10} {tier:<5} {name:<10} {:>10.2}", measure(backend, word));
        }
    }
}

/// Nanoseconds of one instruction of a wave32, from one of v16 to v31 to one of v0 to v15.
fn measure(backend: Backend, word: u32) -> f64 {
    // s_mov_b32 s0, ROUNDS; then the loop; s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
    let mut code = vec![0xbe80_00ff, ROUNDS];
    code.extend((0..INSTRUCTIONS).map(|n| word | n << 17 | (0x110 + n)));
    let back = (INSTRUCTIONS + 3).wrapping_neg() & 0xffff;
    code.extend([0x8080_8100, 0xbf07_8000, 0xbfa2_0000 | back, 0xbfb0_0000]);
    let mut gpu = Gpu::of(Arch::Gfx1100, backend, 1 << 20);
    let pc = gpu.buffer(&code);
    let init = WaveInit { arch: Arch::Gfx1100, pc, exec: u64::MAX, vgpr_count: 64, ..WaveInit::default() };
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut best = f64::MAX;
    let mut wave = Wave::new(&init);
    for _ in 0..RUNS {
        wave.restart(&init);
        for register in 0..64 {
            for lane in 0..32 {
                // From 2^-3 to 2^4.
                let word = (random.next() >> 32) as u32 & 0x03ff_ffff;
                wave.set_vgpr(register, lane, 0x3e00_0000 + word % 0x0380_0000);
            }
        }
        let start = Instant::now();
        gpu.run_group(core::slice::from_mut(&mut wave)).unwrap();
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(INSTRUCTIONS * ROUNDS));
    }
    best
}
