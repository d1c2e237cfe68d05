//! OpenCL programs on the whole path, against the same sources compiled for the processor.
//!
//! Each `tests/programs/*.cl` has a kernel `program` whose work-items turn words of input into words of output. The
//! committed object of each chip runs hosted; clang compiles the same source for x86, where a harness runs it with a
//! thread for each work-item of a group, so that barriers work. The outputs must be equal bit for bit, except for
//! the words a program leaves to the precision of the hardware.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::chip::{self, Model};
use belfry_hosted_tests::compiler;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

/// Work-items of a group, as the harness has them.
const GROUP: u32 = 64;
const GROUPS: u32 = 48;
/// Words of input and of output for each work-item (`oracle.h`).
const WORDS: usize = 8;
/// Mismatches that are printed.
const LISTED: usize = 8;

/// Deviation that a program's output may have.
#[derive(Clone, Copy)]
enum Precision {
    /// Nothing.
    Exact,
    /// Every word is a float that may be this many units in the last place off.
    Ulps(u32),
}

use Precision::{Exact, Ulps};

macro_rules! programs {
    ($($name:ident: $precision:expr;)*) => {
        $(#[test]
        fn $name() {
            compare(stringify!($name), $precision);
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

programs! {
    approximate: Ulps(4);
    atomics_global: Exact;
    bit_fields: Exact;
    bit_tricks: Exact;
    bytes: Exact;
    collatz: Exact;
    compare_select: Exact;
    convert: Exact;
    crc32: Exact;
    divergent: Exact;
    double_ieee: Exact;
    float_ieee: Exact;
    half_ieee: Exact;
    histogram_lds: Exact;
    int64: Exact;
    int_div: Exact;
    int_mix: Exact;
    mandelbrot: Exact;
    matrix_int: Exact;
    mfma: Exact;
    n_body: Exact;
    private_array: Exact;
    round_double: Exact;
    scan_lds: Exact;
    sha256: Exact;
    shifts: Exact;
    small_vectors: Exact;
    structs: Exact;
    transpose_lds: Exact;
    xxhash: Exact;
}

#[test]
fn every_program_is_tested() {
    let mut sources: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cl"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    sources.sort();
    assert_eq!(sources, TESTED);
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../programs")
}

/// Words that arithmetic is most often wrong for: integers, and floats of all widths.
const EXTREMES: &[u32] = &[
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_ffff,
    0x3f80_0000, // 1.0
    0xbf80_0000,
    0x3f00_0000, // 0.5
    0x4020_0000, // 2.5
    0x007f_ffff, // largest denormal
    0x0080_0000, // smallest normal
    0x8000_0fff,
    0x7f7f_ffff, // largest
    0xff7f_ffff,
    0x7f80_0000, // infinity
    0xff80_0000,
    0x7fc0_0000, // NaN
    0x7fa0_0000,
    0x4f00_0000, // 2^31
    0xcf00_0000,
    0x4f7f_ffff,
    0x5f00_0000, // 2^63
    0x4b00_0001,
    0x3ff0_0000, // high half of 1.0
    0xbff0_0000,
    0x7ff0_0000, // high half of infinity
    0x7ff8_0000,
    0x0010_0000, // high half of the smallest normal
    0x000f_ffff,
    0x43e0_0000, // high half of 2^63
    0x3c00_7c00, // halves: 1, infinity
    0x7e00_0400,
    0x03ff_fbff,
    0x8001_7bff,
];

/// Input for all work-items: random words, extremes, and floats of moderate size.
fn input() -> Vec<u32> {
    let mut state = 0x0123_4567_89ab_cdefu64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as u32
    };
    (0..(GROUP * GROUPS) as usize * WORDS)
        .map(|_| match next() >> 29 {
            0..=3 => next(),
            4 | 5 => EXTREMES[next() as usize % EXTREMES.len()],
            6 => (next() >> 29).wrapping_sub(4),
            _ => (next() & 0x8fff_ffff) | 0x3800_0000,
        })
        .collect()
}

fn compare(name: &str, precision: Precision) {
    let input = input();
    let cpu = on_processor(name, &input);
    assert!(cpu.iter().any(|word| *word != 0), "{name} computes nothing");
    for chip in chip::MODELS {
        let gpu = on_belfry(name, chip, &input);
        assert_eq!(cpu.len(), gpu.len());
        assert_close(&format!("{name} on {chip}"), precision, &input, (&cpu, &gpu));
    }
}

/// Both results are the same, as far as the program is precise.
fn assert_close(name: &str, precision: Precision, input: &[u32], (cpu, gpu): (&[u32], &[u32])) {
    let wrong: Vec<usize> = (0..cpu.len()).filter(|at| !close(gpu[*at], cpu[*at], precision)).collect();
    let listed: Vec<String> = wrong
        .iter()
        .take(LISTED)
        .map(|at| {
            let item = at / WORDS;
            let of = &input[item * WORDS..][..WORDS];
            format!(
                "  out[{}] of work-item {item} is {:#010x}, not {:#010x}; in {of:#010x?}",
                at % WORDS,
                gpu[*at],
                cpu[*at]
            )
            .replace(",\n    ", ", ")
            .replace("\n    ", "")
        })
        .collect();
    assert!(wrong.is_empty(), "{name}: {} of {} words differ\n{}", wrong.len(), cpu.len(), listed.join("\n"));
}

fn close(gpu: u32, cpu: u32, precision: Precision) -> bool {
    let Ulps(limit) = precision else { return gpu == cpu };
    // Floats of one sign are ordered as their bits are.
    let order = |bits: u32| {
        let magnitude = i64::from(bits & 0x7fff_ffff);
        if bits >> 31 == 0 { magnitude } else { -magnitude }
    };
    let nan = |bits: u32| f32::from_bits(bits).is_nan();
    nan(gpu) == nan(cpu) && (nan(gpu) || order(gpu).abs_diff(order(cpu)) <= u64::from(limit))
}

/// Runs the committed object hosted.
fn on_belfry(name: &str, chip: &'static Model, input: &[u32]) -> Vec<u32> {
    let object = std::fs::read(folder().join(format!("{name}.{chip}.hsaco"))).unwrap();
    let gpu: Arc<HostedGpu> =
        HostedGpu::new(GpuConfig { chip, vram_size: 64 << 20, ..GpuConfig::default() }).unwrap();
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
    let gpu = runtime.gpu();
    let from = gpu.vram().buffer_from(input).unwrap();
    let to = gpu.vram().buffer_from(&vec![0u32; input.len()]).unwrap();
    let queue = gpu.queue().unwrap();
    let kernel = gpu.load(&object).unwrap().kernel("program").unwrap();
    kernel
        .launch(&queue)
        .grid(GROUP * GROUPS)
        .block(GROUP)
        .args((&to, &from))
        .run()
        .unwrap_or_else(|error| panic!("{name} on {chip}: {error}"));
    to.to_vec()
}

/// Compiles the source for this processor and runs it.
fn on_processor(name: &str, input: &[u32]) -> Vec<u32> {
    let scratch = tempfile::tempdir().unwrap();
    let object = scratch.path().join("program.o");
    let program = scratch.path().join("program");
    // A half is rounded after each operation, as the GPU does it, and nothing is contracted.
    run(Command::new(compiler::clang().unwrap())
        .current_dir(folder())
        .args(["-x", "cl", "-cl-std=CL2.0", "-target", "x86_64-linux-gnu", "-O2", "-ffp-contract=off"])
        .args(["-Xclang", "-ffloat16-excess-precision=none", "-include", "cpu.h", "-c"])
        .arg(format!("{name}.cl"))
        .arg("-o")
        .arg(&object));
    run(Command::new(compiler::clang().unwrap())
        .current_dir(folder())
        .args(["-O2", "-pthread", "cpu.c"])
        .arg(&object)
        .args(["-lm", "-o"])
        .arg(&program));
    let bytes: Vec<u8> = input.iter().flat_map(|word| word.to_le_bytes()).collect();
    let size = bytes.len().to_string();
    let mut child = Command::new(&program)
        .args([&GROUPS.to_string(), &size, &size])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(&bytes).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{name} on the processor: {}", output.status);
    output.stdout.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

/// Runs the compiler; fails with its output.
fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
