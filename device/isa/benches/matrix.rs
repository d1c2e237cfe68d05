//! Time of each matrix instruction of gfx942, on random numbers near one, for every backend of this host.
//!
//! C is zero, as where a sum begins, or what the last instruction left ("sum"): then it soon is much larger than the products.
//! Arguments select operations and backends: `cargo bench -p belfry-isa --bench matrix -- f16 Avx512`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::Backend;
use belfry_isa::wave::{Wave, WaveInit};
use common::{Gpu, Random};

/// Instructions of a loop, and how often it runs.
const INSTRUCTIONS: u32 = 16;
const ROUNDS: u32 = 400;
/// Repetitions, of which the fastest is printed.
const RUNS: usize = 30;

/// Names, and numbers in VOP3P-MAI.
const OPERATIONS: [(&str, u32); 14] = [
    ("f16 16x16x16", 0x4d),
    ("f16 32x32x8", 0x4c),
    ("f16 16x16x4_4b", 0x49),
    ("f16 4x4x4_16b", 0x4a),
    ("bf16 16x16x16", 0x61),
    ("bf16 32x32x8", 0x60),
    ("xf32 16x16x8", 0x3e),
    ("f32 16x16x4", 0x45),
    ("f32 32x32x2", 0x44),
    ("f64 16x16x4", 0x6e),
    ("i8 16x16x32", 0x57),
    ("fp8 16x16x32", 0x73),
    ("fp8 32x32x16", 0x77),
    ("smfmac f16 16x16x32", 0x62),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted =
        |text: &str, all: &[String]| all.is_empty() || all.iter().any(|word| text.contains(word.as_str()));
    let (backends, names): (Vec<String>, Vec<String>) = arguments
        .into_iter()
        .partition(|word| Backend::all().any(|backend| format!("{:?}", backend.kind()) == *word));
    println!("{:<10} {:<22} {:>10} {:>10}", "backend", "operation", "ns", "ns, sum");
    for backend in Backend::all().filter(|backend| wanted(&format!("{:?}", backend.kind()), &backends)) {
        for (name, number) in OPERATIONS.into_iter().filter(|(name, _)| wanted(name, &names)) {
            let [zero, sum] = [0x80, 0x100].map(|third| measure(backend, number, third));
            println!("{:<10} {name:<22} {zero:>10.0} {sum:>10.0}", format!("{:?}", backend.kind()));
        }
    }
}

/// Nanoseconds of one instruction with A from v0, B from v8 on, D from a0 on.
fn measure(backend: Backend, number: u32, third: u32) -> f64 {
    // The third source of sparse ones is an index, v16.
    let third = if (0x62..=0x6c).contains(&number) { 0x110 } else { third };
    let instruction = [0xd380_8000 | number << 16, 0x100 | 0x108 << 9 | third << 18];
    // s_mov_b32 s0, ROUNDS; then the loop; s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
    let mut code = vec![0xbe80_00ff, ROUNDS];
    code.extend(instruction.repeat(INSTRUCTIONS as usize));
    let back = (2 * INSTRUCTIONS + 3).wrapping_neg() & 0xffff;
    code.extend([0x8080_8100, 0xbf07_8000, 0xbf85_0000 | back, 0xbf81_0000]);
    let mut gpu = Gpu::of(Arch::Gfx942, backend, 1 << 20);
    let pc = gpu.buffer(&code);
    let init = WaveInit {
        arch: Arch::Gfx942,
        pc,
        exec: u64::MAX,
        wave_size: WaveSize::Wave64,
        vgpr_count: 64,
        accum_offset: 32,
        ..WaveInit::default()
    };
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut best = f64::MAX;
    let mut wave = Wave::new(&init);
    for _ in 0..RUNS {
        wave.restart(&init);
        for register in 0..17 {
            for lane in 0..64 {
                // Halves, bytes and singles with exponents near zero, and no NaNs.
                let word = (random.next() >> 32) as u32 & 0xbfff_8fff | 0x3801_3801;
                wave.set_vgpr(register, lane, word);
            }
        }
        let start = Instant::now();
        gpu.run_group(core::slice::from_mut(&mut wave)).unwrap();
        let time = start.elapsed().as_nanos() as f64;
        best = best.min(time / f64::from(INSTRUCTIONS * ROUNDS));
    }
    best
}
