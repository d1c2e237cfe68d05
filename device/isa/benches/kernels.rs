//! Time per wave instruction of `bench.cl`'s kernels, and of a few others, on a flat address space, for every backend of this host.
//!
//! Waits, hints and nops are not instructions; launching is included. Arguments select kernels, backends and chips:
//! `cargo bench -p belfry-isa -- gemm_tiled Avx512 Gfx942`. With `operations` among them, one more run of each counts what it
//! executes. `bench.cl` compiled in another way for gfx1100, as with `-mwavefrontsize64`, is measured as well where its code
//! object is named.

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Duration;

use belfry_isa::exec::Profile;
use belfry_isa::inst::Arch;
use belfry_isa::lanes::Backend;
use common::{Args, Gpu, Random};

const BENCH: [(Arch, &[u8]); 2] = [
    (Arch::Gfx1100, include_bytes!("../../../guest-runtime/kernels/bench.gfx1100.hsaco")),
    (Arch::Gfx942, include_bytes!("../../../guest-runtime/kernels/bench.gfx942.hsaco")),
];
const WORK: [(Arch, &[u8]); 2] = [
    (Arch::Gfx1100, include_bytes!("../../../guest-runtime/kernels/work.gfx1100.hsaco")),
    (Arch::Gfx942, include_bytes!("../../../guest-runtime/kernels/work.gfx942.hsaco")),
];
const HIST: [(Arch, &[u8]); 2] = [
    (Arch::Gfx1100, include_bytes!("../../../guest-runtime/kernels/hist.gfx1100.hsaco")),
    (Arch::Gfx942, include_bytes!("../../../guest-runtime/kernels/hist.gfx942.hsaco")),
];
/// Repetitions, of which the fastest and the median are printed.
const RUNS: usize = 3;
/// Least number of instructions of a repetition: enough that the first launches of a run, which are slower, do not
/// count.
const LEAST: u64 = 5_000_000;

/// Code objects that the command line names, which last as long as this program.
fn named(arguments: &[String]) -> Vec<(Arch, &'static [u8])> {
    let objects = arguments.iter().filter(|word| word.ends_with(".hsaco"));
    let read = |path| std::fs::read(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    objects.map(|path| (Arch::Gfx1100, &*read(path).leak())).collect()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let any = |names: &[&str]| arguments.iter().any(|word| names.contains(&word.as_str()));
    let kernels = ["vadd", "vadd4", "gemm_naive", "gemm_tiled", "reduce", "alu", "gemm_f16", "hist"];
    let some_kernel = any(&kernels);
    let some_backend = Backend::all().any(|backend| any(&[&format!("{:?}", backend.kind())]));
    let some_chip = any(&["Gfx1100", "Gfx942"]);
    println!(
        "{:<10} {:<5} {:<8} {:<12} {:>14} {:>10} {:>10}",
        "backend", "tier", "chip", "kernel", "instructions", "best ns", "median ns"
    );
    for backend in Backend::all() {
        if some_backend && !any(&[&format!("{:?}", backend.kind())]) {
            continue;
        }
        let own = BENCH.into_iter().filter(|(arch, _)| !some_chip || any(&[&format!("{arch:?}")]));
        for (arch, bench) in own.chain(named(&arguments)) {
            for name in kernels.into_iter().filter(|name| !some_kernel || any(&[name])) {
                let others = match name {
                    "gemm_f16" => &WORK[..],
                    "hist" => &HIST,
                    _ => &[],
                };
                let other = others.iter().find(|(of, _)| *of == arch);
                let object = other.map_or(bench, |(_, object)| object);
                measure(backend, (arch, object), name, any(&["operations"]));
            }
        }
    }
}

/// Operations listed of each kernel.
const LISTED: usize = 12;

fn measure(backend: Backend, (arch, object): (Arch, &[u8]), name: &str, count: bool) {
    let mut gpu = Gpu::of(arch, backend, 64 << 20);
    let kernel = gpu.load_object(object, name);
    let n = 1 << 21;
    let buffers: [u64; 3] = core::array::from_fn(|_| gpu.buffer(&vec![1.0_f32; n]));
    let [c, a, b] = buffers;
    // So many instructions that compiling, and what is interpreted before, do not count.
    let side = if name == "gemm_tiled" { 1024_u32 } else { 512 };
    let three = Args::default().push(c).push(a).push(b);
    let (grid, block, args) = match name {
        "vadd" => ([n as u32 / 256, 1, 1], [256, 1, 1], three),
        "vadd4" => ([n as u32 / 1024, 1, 1], [256, 1, 1], three),
        "gemm_naive" => ([side / 32, side / 8, 1], [32, 8, 1], three.push(side)),
        "gemm_tiled" => ([side / 64, side / 64, 1], [256, 1, 1], three.push(side)),
        "gemm_f16" => ([side / 32, side / 16, 1], [64, 1, 1], three.push(side)),
        "hist" => {
            let mut random = Random(5);
            let bytes: Vec<u64> = (0..n / 8).map(|_| random.next()).collect();
            let args = Args::default().push(gpu.buffer(&bytes)).push(c).push(n as u32);
            ([64, 1, 1], [256, 1, 1], args)
        }
        "reduce" => ([64, 1, 1], [256, 1, 1], Args::default().push(c).push(a).push(n as u32).push(64_u32)),
        _ => ([4, 1, 1], [64, 1, 1], Args::default().push(c).push(200_000_u32)),
    };
    let mut times = Vec::new();
    let mut executed = 0;
    for _ in 0..RUNS {
        let start = running();
        executed = 0;
        while executed < LEAST {
            executed += gpu.launch(&kernel, grid, block, &args).unwrap();
        }
        times.push((running() - start).as_secs_f64() * 1e9 / executed as f64);
    }
    times.sort_by(f64::total_cmp);
    let kind = format!("{:?}", backend.kind());
    let (tier, chip) = (format!("{:?}", backend.tier()), format!("{arch:?}"));
    println!(
        "{kind:<10} {tier:<5} {chip:<8} {name:<12} {executed:>14} {:>10.2} {:>10.2}",
        times[0],
        times[RUNS / 2]
    );
    if count {
        gpu.profile = Some(Profile::new());
        gpu.launch(&kernel, grid, block, &args).unwrap();
        let Some(profile) = gpu.profile.take() else { return };
        let all = profile.by_count();
        let called: u64 = all.iter().map(|(op, _)| profile.called(*op)).sum();
        let total: u64 = all.iter().map(|(_, times)| times).sum();
        println!("{:<10} {:<12} {:>13.1}% by handlers", "", "", 100.0 * called as f64 / total.max(1) as f64);
        // The most frequent ones, and all that have no template.
        for (at, (op, times)) in all.into_iter().enumerate() {
            let called = profile.called(op);
            if at < LISTED || called > 0 {
                let note = if called > 0 { format!(" ({called} by its handler)") } else { String::new() };
                println!("{:<10} {:<12} {times:>14} {}{note}", "", "", op.mnemonic());
            }
        }
    }
}

/// The time that this thread has run, so that a busy machine does not count.
fn running() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
