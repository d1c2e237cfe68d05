//! The OpenCL programs of `tests/programs`, compiled for each architecture, against each other.
//!
//! `tests/hosted` compares the results of gfx1100 with those of the same sources compiled for the processor. The
//! programs must give these words for every architecture that they are compiled for, on every backend.

mod common;

use std::path::{Path, PathBuf};

use belfry_isa::inst::Arch;
use belfry_isa::lanes::{Backend, BackendKind};
use common::{Args, Gpu, Random};

const GROUP: u32 = 64;
const GROUPS: u32 = 6;
/// Words of input and of output for each work-item (`oracle.h`).
const WORDS: usize = 8;

/// Words that arithmetic is most often wrong for.
const EXTREMES: [u32; 20] = [
    0,
    1,
    0x80,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x3f80_0000,
    0xbf80_0000,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0x7f80_0000,
    0x7fc0_0000,
    0x4f00_0000,
    0x3ff0_0000,
    0x7ff0_0000,
    0x3c00_7c00,
    0x03ff_fbff,
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/programs")
}

fn input() -> Vec<u32> {
    let mut random = Random(0x0123_4567_89ab_cdef);
    let mut word = move || {
        let word = (random.next() >> 32) as u32;
        match random.next() >> 61 {
            0..=3 => word,
            4 | 5 => EXTREMES[word as usize % EXTREMES.len()],
            6 => (word >> 29).wrapping_sub(4),
            _ => word & 0x8fff_ffff | 0x3800_0000,
        }
    };
    (0..(GROUP * GROUPS) as usize * WORDS).map(|_| word()).collect()
}

/// Returns the output of a program, compiled for an architecture, for some input.
fn output(arch: Arch, backend: Backend, name: &str, input: &[u32]) -> Vec<u32> {
    let mut gpu = Gpu::of(arch, backend, 4 << 20);
    let object = std::fs::read(folder().join(format!("{name}.{}.hsaco", arch.name()))).unwrap();
    let kernel = gpu.load_object(&object, "program");
    let (from, to) = (gpu.buffer(input), gpu.buffer(&vec![0_u32; input.len()]));
    let (grid, block) = ([GROUPS, 1, 1], [GROUP, 1, 1]);
    let args = Args::default().push(to).push(from).hidden(grid, [GROUP as u16, 1, 1]);
    gpu.launch(&kernel, grid, block, &args).unwrap_or_else(|stop| panic!("{name}, {arch:?}: {stop:?}"));
    gpu.fetch(to, input.len())
}

/// Units in the last place between two floats, 0 between NaNs.
fn distance(a: u32, b: u32) -> u64 {
    let order = |bits: u32| {
        let magnitude = i64::from(bits & 0x7fff_ffff);
        if bits >> 31 == 0 { magnitude } else { -magnitude }
    };
    let nan = |bits: u32| f32::from_bits(bits).is_nan();
    match (nan(a), nan(b)) {
        (true, true) => 0,
        (false, false) => order(a).abs_diff(order(b)),
        _ => u64::MAX,
    }
}

#[test]
fn programs_give_the_same_on_every_architecture() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .filter_map(|entry| Some(entry.unwrap().file_name().to_str()?.strip_suffix(".cl")?.to_owned()))
        .collect();
    names.sort();
    assert!(names.len() >= 29, "{names:?}");
    let input = input();
    let backend = |kind: BackendKind| Backend::all().find(|backend| backend.kind() == kind).unwrap();
    for name in &names {
        let expected = output(Arch::Gfx1100, backend(BackendKind::Portable), name, &input);
        assert!(expected.iter().any(|word| *word != 0), "{name} computes nothing");
        // Each may be four units off.
        let limit = if name == "approximate" { 8 } else { 0 };
        for kind in Backend::all().map(|backend| backend.kind()) {
            for arch in [Arch::Gfx942, Arch::Gfx950, Arch::Gfx1151, Arch::Gfx1201] {
                let got = output(arch, backend(kind), name, &input);
                for (at, (got, expected)) in got.iter().zip(&expected).enumerate() {
                    let same = got == expected || (limit > 0 && distance(*got, *expected) <= limit);
                    assert!(
                        same,
                        "{name}, {arch:?}, {kind:?}: word {at} is {got:#010x}, not {expected:#010x}"
                    );
                }
            }
        }
    }
}
