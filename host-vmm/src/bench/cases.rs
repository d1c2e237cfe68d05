//! The kernels of the suite: their launches, their inputs, and the results they must give.

mod work;

use belfry_examples::kernels;

/// A source of kernels, and its code objects.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kernels {
    /// `empty.cl`: a kernel that does nothing.
    Empty,
    /// `bench.cl`: each bounds one part of the engine.
    Bench,
    /// `work.cl`: kernels as programs use them.
    Work,
}

impl Kernels {
    pub(super) const ALL: [Kernels; 3] = [Kernels::Empty, Kernels::Bench, Kernels::Work];

    /// Returns the source in OpenCL C.
    pub(super) const fn source(self) -> &'static str {
        match self {
            Kernels::Empty => include_str!("../../../guest-runtime/kernels/empty.cl"),
            Kernels::Bench => include_str!("../../../guest-runtime/kernels/bench.cl"),
            Kernels::Work => include_str!("../../../guest-runtime/kernels/work.cl"),
        }
    }

    /// Returns the code objects compiled from the source.
    pub(super) const fn objects(self) -> &'static kernels::Source {
        match self {
            Kernels::Empty => &kernels::EMPTY,
            Kernels::Bench => &kernels::BENCH,
            Kernels::Work => &kernels::WORK,
        }
    }
}

/// An argument of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Arg {
    /// The output buffer.
    Output,
    /// The first input.
    A,
    /// The second input.
    B,
    /// A number.
    Number(u32),
}

/// One kernel, and how one run launches it.
#[derive(Debug)]
pub(super) struct Case {
    /// Name in the results.
    pub(super) name: &'static str,
    /// Name of the kernel.
    pub(super) kernel: &'static str,
    /// Source and code objects that hold the kernel.
    pub(super) kernels: Kernels,
    /// Work-items of the grid.
    pub(super) grid: [u32; 2],
    /// Work-items of a workgroup.
    pub(super) block: [u32; 2],
    pub(super) args: &'static [Arg],
    /// Launches of one run, one after the other: enough for a run to take some 30 ms and more.
    pub(super) repeats: u32,
    /// Largest allowed error of a result, as a share of the expected value; 0: the result must match to the bit.
    pub(super) tolerance: f32,
    pub(super) data: fn() -> Data,
}

impl Case {
    /// Returns true if its kernel is made of matrix instructions of 16-bit floats.
    pub(super) fn has_matrices(&self) -> bool {
        self.kernel == "gemm_f16"
    }

    /// Returns true if a run is one dispatch; then the dispatch's own time counts.
    pub(super) fn is_single(&self) -> bool {
        self.repeats == 1
    }
}

/// Inputs, and the expected output.
#[derive(Debug, Default)]
pub(super) struct Data {
    pub(super) a: Vec<f32>,
    pub(super) b: Vec<f32>,
    pub(super) expected: Vec<f32>,
}

const VADD: u32 = 1 << 20;
const GEMM: u32 = 256;
const GEMM_TILED: u32 = 512;
const WORKGROUPS: u32 = 1 << 15;
const REDUCE: u32 = 1 << 22;
const REDUCE_GROUPS: u32 = 256;
const ALU_GROUPS: u32 = 256;
const ALU_STEPS: u32 = 2048;

/// Returns all kernels of the suite.
pub(super) fn all() -> impl Iterator<Item = &'static Case> + Clone {
    CASES.iter().chain(&work::CASES)
}

const CASES: &[Case] = &[
    Case {
        name: "vadd",
        kernel: "vadd",
        kernels: Kernels::Bench,
        grid: [VADD, 1],
        block: [256, 1],
        args: &[Arg::Output, Arg::A, Arg::B],
        repeats: 36,
        tolerance: 0.0,
        data: || {
            let a = small_numbers(VADD as usize, 3);
            let b = small_numbers(VADD as usize, 5);
            let expected = a.iter().zip(&b).map(|(a, b)| a + b).collect();
            Data { a, b, expected }
        },
    },
    Case {
        name: "gemm_naive",
        kernel: "gemm_naive",
        kernels: Kernels::Bench,
        grid: [GEMM, GEMM],
        block: [32, 8],
        args: &[Arg::Output, Arg::A, Arg::B, Arg::Number(GEMM)],
        repeats: 9,
        tolerance: 0.0,
        data: || product(GEMM as usize),
    },
    Case {
        name: "gemm_tiled",
        kernel: "gemm_tiled",
        kernels: Kernels::Bench,
        grid: [GEMM_TILED / 64 * 256, GEMM_TILED / 64],
        block: [256, 1],
        args: &[Arg::Output, Arg::A, Arg::B, Arg::Number(GEMM_TILED)],
        repeats: 6,
        tolerance: 0.0,
        data: || product(GEMM_TILED as usize),
    },
    Case {
        name: "reduce",
        kernel: "reduce",
        kernels: Kernels::Bench,
        grid: [REDUCE_GROUPS * 256, 1],
        block: [256, 1],
        args: &[Arg::Output, Arg::A, Arg::Number(REDUCE), Arg::Number(REDUCE_GROUPS)],
        repeats: 20,
        tolerance: 0.0,
        data: || {
            let a = small_numbers(REDUCE as usize, 7);
            let mut expected = vec![0.0; REDUCE_GROUPS as usize];
            for (index, value) in a.iter().enumerate() {
                expected[index / 256 % REDUCE_GROUPS as usize] += value;
            }
            Data { a, b: Vec::new(), expected }
        },
    },
    Case {
        name: "alu",
        kernel: "alu",
        kernels: Kernels::Bench,
        grid: [ALU_GROUPS * 32, 1],
        block: [32, 1],
        args: &[Arg::Output, Arg::Number(ALU_STEPS)],
        repeats: 24,
        tolerance: 0.0,
        data: || {
            let lanes: Vec<f32> = (0..32).map(|lane| alu(lane, ALU_STEPS)).collect();
            Data { expected: lanes.repeat(ALU_GROUPS as usize), ..Data::default() }
        },
    },
    // One instruction in one wave each: the time per wave instruction is the time per workgroup.
    Case {
        name: "workgroups",
        kernel: "empty",
        kernels: Kernels::Empty,
        grid: [WORKGROUPS * 32, 1],
        block: [32, 1],
        args: &[],
        repeats: 64,
        tolerance: 0.0,
        data: Data::default,
    },
    // The time per wave instruction is that of a whole launch, from making its packet to seeing its signal.
    Case {
        name: "dispatch",
        kernel: "empty",
        kernels: Kernels::Empty,
        grid: [32, 1],
        block: [32, 1],
        args: &[],
        repeats: 1,
        tolerance: 0.0,
        data: Data::default,
    },
];

/// Makes whole numbers from -7 to 7: their sums and products are exact in any order.
fn small_numbers(count: usize, step: usize) -> Vec<f32> {
    (0..count).map(|index| ((index * step + index / 64) % 15) as f32 - 7.0).collect()
}

fn product(n: usize) -> Data {
    let (a, b) = (small_numbers(n * n, 3), small_numbers(n * n, 5));
    let mut expected = vec![0.0f32; n * n];
    for row in 0..n {
        for k in 0..n {
            let factor = a[row * n + k];
            for column in 0..n {
                expected[row * n + column] += factor * b[k * n + column];
            }
        }
    }
    Data { a, b, expected }
}

/// Computes the value that the kernel `alu` writes in a lane after `steps` steps. Halving is exact, so fused and
/// separate operations agree.
pub(super) fn alu(lane: u16, steps: u32) -> f32 {
    let x = f32::from(lane);
    let mut y: [f32; 8] = std::array::from_fn(|index| x + index as f32);
    for _ in 0..steps {
        for index in 0..8 {
            y[index] = y[index] * 0.5 + y[(index + 1) % 8];
        }
    }
    y.iter().copied().reduce(|sum, value| sum + value).unwrap_or_default()
}
