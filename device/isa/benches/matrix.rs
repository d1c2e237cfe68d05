//! Time of matrix instructions, on random numbers near one, for every backend of this host.
//!
//! C is zero, as where a sum begins, or what the last instruction left ("sum"): then it soon is much larger than the products.
//! A and B are the same for all instructions, or other ones each time ("new"; measured of those that keep converted ones).
//! Arguments select operations and backends: `cargo bench -p belfry-isa --bench matrix -- f16 Avx512`.

#[path = "../tests/common/mod.rs"]
mod common;
mod selection;

use std::time::Instant;

use belfry_isa::inst::{Arch, WaveSize};
use belfry_isa::lanes::{Backend, Matrices};
use belfry_isa::wave::{Wave, WaveInit};
use common::{Gpu, Random};
use selection::Selection;

/// Instructions of a loop, and how often it runs.
const INSTRUCTIONS: u32 = 16;
const ROUNDS: u32 = 40;
/// Repetitions, of which the fastest is printed.
const RUNS: usize = 200;

/// Sources that all instructions of a loop share.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sources {
    /// A and B; C is zero.
    Factors,
    /// A, B and C, which is D.
    All,
    /// C, which is zero.
    Zero,
}

/// Numbers of the operations of which converted matrices are kept: all have two registers of A and of B.
const KEPT: [u32; 4] = [0x4c, 0x4d, 0x60, 0x61];

/// Names, and numbers in VOP3P-MAI of gfx942, or in VOP3P of the others.
const OPERATIONS: [(Arch, &str, u32); 37] = [
    (Arch::Gfx942, "f16 16x16x16", 0x4d),
    (Arch::Gfx942, "f16 32x32x8", 0x4c),
    (Arch::Gfx942, "f16 16x16x4_4b", 0x49),
    (Arch::Gfx942, "f16 4x4x4_16b", 0x4a),
    (Arch::Gfx942, "bf16 16x16x16", 0x61),
    (Arch::Gfx942, "bf16 32x32x8", 0x60),
    (Arch::Gfx942, "xf32 16x16x8", 0x3e),
    (Arch::Gfx942, "f32 16x16x4", 0x45),
    (Arch::Gfx942, "f32 32x32x2", 0x44),
    (Arch::Gfx942, "f64 16x16x4", 0x6e),
    (Arch::Gfx942, "i8 16x16x32", 0x57),
    (Arch::Gfx942, "i8 32x32x16", 0x56),
    (Arch::Gfx942, "i8 32x32x4_2b", 0x50),
    (Arch::Gfx942, "i8 16x16x4_4b", 0x51),
    (Arch::Gfx942, "i8 4x4x4_16b", 0x52),
    (Arch::Gfx942, "smfmac i8 16x16x64", 0x6a),
    (Arch::Gfx942, "fp8 16x16x32", 0x73),
    (Arch::Gfx942, "fp8 32x32x16", 0x77),
    (Arch::Gfx942, "smfmac f16 16x16x32", 0x62),
    (Arch::Gfx950, "fp4 16x16x128", 0x2d),
    (Arch::Gfx950, "fp4 32x32x64", 0x2e),
    (Arch::Gfx950, "fp6 16x16x128", 0x2d),
    (Arch::Gfx950, "fp6 32x32x64", 0x2e),
    (Arch::Gfx1100, "wmma f16", 0x40),
    (Arch::Gfx1100, "wmma bf16", 0x41),
    (Arch::Gfx1100, "wmma f16, f16 sum", 0x42),
    (Arch::Gfx1100, "wmma iu8", 0x44),
    (Arch::Gfx1100, "wmma iu4", 0x45),
    (Arch::Gfx1201, "wmma f16, gfx12", 0x40),
    (Arch::Gfx1201, "wmma bf16, gfx12", 0x41),
    (Arch::Gfx1201, "wmma iu8, gfx12", 0x44),
    (Arch::Gfx1201, "wmma iu4, gfx12", 0x45),
    (Arch::Gfx1201, "wmma iu4 x32, gfx12", 0x4a),
    (Arch::Gfx1201, "swmmac bf16, gfx12", 0x51),
    (Arch::Gfx1201, "swmmac iu8, gfx12", 0x54),
    (Arch::Gfx1201, "swmmac iu4, gfx12", 0x55),
    (Arch::Gfx1201, "swmmac iu4 x64, gfx12", 0x56),
];

fn main() {
    let selection = Selection::of_arguments();
    println!(
        "{:<10} {:<5} {:<22} {:>10} {:>10} {:>10}",
        "backend", "tier", "operation", "ns", "ns, sum", "ns, new"
    );
    for backend in selection.backends() {
        for (arch, name, number) in OPERATIONS.into_iter().filter(|(_, name, _)| selection.has(name)) {
            let [zero, sum] =
                [Sources::Factors, Sources::All].map(|common| measure(backend, arch, (name, number), common));
            let is_kept = arch == Arch::Gfx942 && KEPT.contains(&number);
            let new = if is_kept {
                format!("{:.0}", measure(backend, arch, (name, number), Sources::Zero))
            } else {
                String::new()
            };
            let (kind, tier) = (format!("{:?}", backend.kind()), format!("{:?}", backend.tier()));
            println!("{kind:<10} {tier:<5} {name:<22} {zero:>10.0} {sum:>10.0} {new:>10}");
            if name.starts_with("wmma") && name.contains("f16") {
                let backend = backend.with_matrices(Matrices::Exact);
                let [zero, sum] = [Sources::Factors, Sources::All]
                    .map(|common| measure(backend, arch, (name, number), common));
                let name = format!("{name}, exact");
                println!("{kind:<10} {tier:<5} {name:<22} {zero:>10.0} {sum:>10.0}");
            }
        }
    }
}

/// Nanoseconds of one instruction with A from v0, B from v8 on, D from v32 or a0 on, which is C too or C is zero. Where A and B
/// are not common, they are any two of v0 to v15, and of v16 to v31.
fn measure(backend: Backend, arch: Arch, (name, number): (&str, u32), common: Sources) -> f64 {
    let old = matches!(arch, Arch::Gfx942 | Arch::Gfx950);
    let adds = common == Sources::All;
    // The third source of sparse ones is an index, v16.
    let third = match (old, adds) {
        (true, _) if (0x62..=0x6c).contains(&number) => 0x110,
        (false, _) if (0x50..=0x5a).contains(&number) => 0x110,
        (_, false) => 0x80,
        (true, true) => 0x100,
        (false, true) => 0x120,
    };
    // CBSZ and BLGP.
    let format = match (arch, name.starts_with("fp4")) {
        (Arch::Gfx950, true) => 4,
        (Arch::Gfx950, false) => 2,
        _ => 0,
    };
    let instruction = match old {
        true => {
            let first = 0xd380_8000 | number << 16 | format << 8;
            [first, 0x100 | 0x108 << 9 | third << 18 | format << 29]
        }
        false => [0xcc00_4020 | number << 16, 0x1800_0000 | 0x100 | 0x108 << 9 | third << 18],
    };
    let [branch, end] = if old { [0xbf85_0000, 0xbf81_0000] } else { [0xbfa2_0000, 0xbfb0_0000] };
    // s_mov_b32 s0, ROUNDS; then the loop; s_sub_u32 s0, s0, 1; s_cmp_lg_u32 s0, 0; s_cbranch_scc1; s_endpgm.
    let mut code = vec![0xbe80_00ff, ROUNDS];
    for n in 0..INSTRUCTIONS {
        let mut words = instruction;
        if common == Sources::Zero {
            let a = 2 * (n % 8);
            words[1] = 0x100 | a | (0x110 | a) << 9 | third << 18;
        }
        code.extend(words);
    }
    let back = (2 * INSTRUCTIONS + 3).wrapping_neg() & 0xffff;
    code.extend([0x8080_8100, 0xbf07_8000, branch | back, end]);
    let mut gpu = Gpu::of(arch, backend, 1 << 20);
    let pc = gpu.buffer(&code);
    let init = WaveInit {
        arch,
        pc,
        exec: u64::MAX,
        wave_size: if old { WaveSize::Wave64 } else { WaveSize::Wave32 },
        vgpr_count: 64,
        accum_offset: if old { 32 } else { 0 },
        ..WaveInit::default()
    };
    let lanes = if old { 64 } else { 32 };
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut best = f64::MAX;
    let mut wave = Wave::new(&init);
    for _ in 0..RUNS {
        wave.restart(&init);
        for register in 0..32 {
            for lane in 0..lanes {
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
