//! Time of atomics of LDS and global memory, for every backend of this host: nanoseconds of one instruction of a wave.
//!
//! Each lane has its own element, or all have one, or any of 256, as in a histogram ("any"), or only one lane is active ("lane").
//! Arguments select operations and backends: `cargo bench -p belfry-isa --bench atomics -- ds_ Avx512`.

#[path = "../tests/common/mod.rs"]
mod common;
mod selection;

use std::time::Duration;

use belfry_isa::inst::WaveSize;
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};
use common::{Gpu, Random};
use selection::Selection;

/// Instructions of a loop, and how often it runs.
const INSTRUCTIONS: u32 = 16;
const ROUNDS: u32 = 100;
/// Repetitions, of which the fastest is printed.
const RUNS: usize = 40;

/// Names and words, with addresses in `v0`, and after it `s[4:5]` if they are global; llvm-mc-19 -mcpu=gfx1100.
const OPERATIONS: [(&str, [u32; 2]); 12] = [
    ("ds_add_u32", [0xd800_0000, 0x0000_0400]),
    ("ds_add_rtn_u32", [0xd880_0000, 0x0800_0400]),
    ("ds_max_u32", [0xd820_0000, 0x0000_0400]),
    ("ds_cmpstore_rtn_b32", [0xd8c0_0000, 0x0806_0400]),
    ("ds_add_f32", [0xd854_0000, 0x0000_0400]),
    ("ds_add_rtn_u64", [0xd980_0000, 0x0800_0400]),
    ("global_atomic_add_u32", [0xdcd6_0000, 0x0004_0400]),
    ("global_atomic_add_u32 glc", [0xdcd6_4000, 0x0804_0400]),
    ("global_atomic_max_u32", [0xdcee_0000, 0x0004_0400]),
    ("global_atomic_cmpswap_b32 glc", [0xdcd2_4000, 0x0804_0400]),
    ("global_atomic_add_f32", [0xdd5a_0000, 0x0004_0400]),
    ("global_atomic_add_u64", [0xdd0e_0000, 0x0004_0400]),
];

fn main() {
    let selection = Selection::of_arguments();
    println!(
        "{:<10} {:<5} {:<6} {:<30} {:>8} {:>8} {:>8} {:>8}",
        "backend", "tier", "lanes", "operation", "own", "one", "any", "lane"
    );
    for backend in selection.backends() {
        for size in [WaveSize::Wave32, WaveSize::Wave64] {
            for (name, words) in OPERATIONS.into_iter().filter(|(name, _)| selection.has(name)) {
                let mut random = Random(9);
                let own = core::array::from_fn(|lane| lane as u32 * 8);
                let any = core::array::from_fn(|_| (random.next() >> 56) as u32 * 8);
                let times = [(own, u64::MAX), ([64; 64], u64::MAX), (any, u64::MAX), (own, 1 << 9)]
                    .map(|(addresses, exec)| measure(backend, size, words, (addresses, exec)));
                let (kind, tier) = (format!("{:?}", backend.kind()), format!("{:?}", backend.tier()));
                let lanes = if size == WaveSize::Wave32 { 32 } else { 64 };
                let [own, one, any, lane] = times;
                println!(
                    "{kind:<10} {tier:<5} {lanes:<6} {name:<30} {own:>8.1} {one:>8.1} {any:>8.1} {lane:>8.1}"
                );
            }
        }
    }
}

/// Nanoseconds of one instruction.
fn measure(backend: Backend, size: WaveSize, words: [u32; 2], (addresses, exec): ([u32; 64], u64)) -> f64 {
    // s_mov_b32 s0, ROUNDS; then the loop; s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
    let mut code = vec![0xbe80_00ff, ROUNDS];
    (0..INSTRUCTIONS).for_each(|_| code.extend(words));
    let back = (2 * INSTRUCTIONS + 3).wrapping_neg() & 0xffff;
    code.extend([0x8080_8100, 0xbf07_8000, 0xbfa2_0000 | back, 0xbfb0_0000]);
    let mut gpu = Gpu::new(backend, 1 << 20);
    let pc = gpu.buffer(&code);
    let memory = gpu.buffer(&[0_u64; 512]);
    gpu.lds.reset(4096);
    let mut vgprs = [[1_u32; 64]; 16];
    vgprs[0] = addresses;
    let sgprs = [0, 0, 0, 0, memory as u32, (memory >> 32) as u32];
    let init = WaveInit {
        pc,
        exec,
        wave_size: size,
        vgprs: &vgprs,
        sgprs: &sgprs,
        vgpr_count: 16,
        ..WaveInit::default()
    };
    let mut wave = Wave::new(&init);
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        wave.restart(&init);
        let start = running();
        assert_eq!(gpu.step(&mut wave, 1 << 20), belfry_isa::exec::Stop::EndProgram);
        best = best.min((running() - start).as_secs_f64());
    }
    best * 1e9 / f64::from(INSTRUCTIONS * ROUNDS)
}

/// The time that this thread has run, so that a busy machine does not count.
fn running() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
