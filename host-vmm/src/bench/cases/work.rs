//! The kernels of `work.cl`, which look like kernels of real programs: their inputs and expected results.

use half::f16;
use sha2::{Digest as _, Sha256};

use super::{Arg, Case, Data, Kernels, small_numbers};

/// Values of a row of `softmax` and `layer_norm`.
const ROW: usize = 1024;
const ROWS: u32 = 2048;
const GEMM: u32 = 256;
const STENCIL: u32 = 1024;
/// Workgroups of the pass of the sort, and their keys.
const SORT_GROUPS: u32 = 512;
const SORT_KEYS: usize = 1024;
const SORT_SHIFT: u32 = 8;
const MESSAGES: u32 = 1 << 15;

/// Largest relative error that instructions exact to one unit in the last place, and sums in another order, may
/// cause.
const CLOSE: f32 = 1e-5;

pub(super) const CASES: [Case; 6] = [
    Case {
        name: "softmax",
        kernel: "softmax",
        kernels: Kernels::Work,
        grid: [ROWS * 256, 1],
        block: [256, 1],
        args: &[Arg::Output, Arg::A],
        repeats: 4,
        tolerance: CLOSE,
        data: softmax,
    },
    Case {
        name: "layer_norm",
        kernel: "layer_norm",
        kernels: Kernels::Work,
        grid: [ROWS * 256, 1],
        block: [256, 1],
        args: &[Arg::Output, Arg::A, Arg::B],
        repeats: 4,
        tolerance: CLOSE,
        data: layer_norm,
    },
    Case {
        name: "gemm_f16",
        kernel: "gemm_f16",
        kernels: Kernels::Work,
        // A workgroup of 64 for 32 columns.
        grid: [GEMM * 2, GEMM / 16],
        block: [64, 1],
        args: &[Arg::Output, Arg::A, Arg::B, Arg::Number(GEMM)],
        repeats: 16,
        tolerance: 0.0,
        data: || product_f16(GEMM as usize),
    },
    Case {
        name: "stencil",
        kernel: "stencil",
        kernels: Kernels::Work,
        grid: [STENCIL, STENCIL],
        block: [32, 8],
        args: &[Arg::Output, Arg::A, Arg::Number(STENCIL)],
        repeats: 24,
        tolerance: 0.0,
        data: || stencil(STENCIL as usize),
    },
    Case {
        name: "radix_pass",
        kernel: "radix_pass",
        kernels: Kernels::Work,
        grid: [SORT_GROUPS * 256, 1],
        block: [256, 1],
        args: &[Arg::Output, Arg::A, Arg::B, Arg::Number(SORT_SHIFT), Arg::Number(SORT_GROUPS)],
        repeats: 4,
        tolerance: 0.0,
        data: || radix_pass(SORT_GROUPS as usize),
    },
    Case {
        name: "sha256",
        kernel: "sha256",
        kernels: Kernels::Work,
        grid: [MESSAGES, 1],
        block: [64, 1],
        args: &[Arg::Output, Arg::A],
        repeats: 40,
        tolerance: 0.0,
        data: || sha256(MESSAGES as usize),
    },
];

/// Returns the floats with the bits of these words, as the buffers of the suite hold floats.
fn bits(values: impl IntoIterator<Item = u32>) -> Vec<f32> {
    values.into_iter().map(f32::from_bits).collect()
}

/// Makes words without a pattern: xorshift32 (Marsaglia, "Xorshift RNGs", 2003).
fn words(count: usize) -> impl Iterator<Item = u32> {
    let mut word = 0x2545_f491_u32;
    let next = move || {
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        word
    };
    std::iter::repeat_with(next).take(count)
}

fn softmax() -> Data {
    let a = small_numbers(ROWS as usize * ROW, 11);
    let rows = a.chunks(ROW).flat_map(|row| {
        let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let powers: Vec<f64> = row.iter().map(|value| f64::from(value - most).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(move |power| (power / sum) as f32)
    });
    let expected = rows.collect();
    Data { a, expected, ..Data::default() }
}

fn layer_norm() -> Data {
    // No value is at the mean. At the mean, the result would be only the difference of sums in one order or another.
    let a: Vec<f32> = small_numbers(ROWS as usize * ROW, 11)
        .into_iter()
        .map(|value| if value < 0.0 { value - 1.0 } else { value + 1.0 })
        .collect();
    let b: Vec<f32> = (0..ROW).map(|column| 1.0 + (column % 8) as f32 / 8.0).collect();
    let rows = a.chunks(ROW).flat_map(|row| {
        let mean = row.iter().copied().map(f64::from).sum::<f64>() / ROW as f64;
        let square = |value: &f32| (f64::from(*value) - mean).powi(2);
        let variance = row.iter().map(square).sum::<f64>() / ROW as f64;
        let scale = (variance + 1e-5).sqrt().recip();
        row.iter()
            .zip(&b)
            .map(move |(&value, &gain)| ((f64::from(value) - mean) * scale * f64::from(gain)) as f32)
    });
    let expected = rows.collect();
    Data { a, b, expected }
}

/// Makes a product of matrices of half precision; the second one is given by its columns.
fn product_f16(n: usize) -> Data {
    let (a, columns) = (small_numbers(n * n, 3), small_numbers(n * n, 5));
    let mut expected = Vec::with_capacity(n * n);
    for row in a.chunks(n) {
        let cells = columns.chunks(n).map(|column| row.iter().zip(column).map(|(a, b)| a * b).sum::<f32>());
        expected.extend(cells);
    }
    let pack = |values: &[f32]| {
        let half = |value: f32| u32::from(f16::from_f32(value).to_bits());
        bits(values.chunks(2).map(|pair| half(pair[0]) | half(pair[1]) << 16))
    };
    Data { a: pack(&a), b: pack(&columns), expected }
}

fn stencil(n: usize) -> Data {
    let a = small_numbers(n * n, 3);
    let mut expected = Vec::with_capacity(n * n);
    for y in 0..n {
        for x in 0..n {
            let at = |x: usize, y: usize| a[y.min(n - 1) * n + x.min(n - 1)];
            let around =
                at(x.saturating_sub(1), y) + at(x + 1, y) + at(x, y.saturating_sub(1)) + at(x, y + 1);
            expected.push(0.5 * at(x, y) + 0.125 * around);
        }
    }
    Data { a, expected, ..Data::default() }
}

fn radix_pass(groups: usize) -> Data {
    let keys: Vec<u32> = words(groups * SORT_KEYS).collect();
    let digit = |key: u32| (key >> SORT_SHIFT & 15) as usize;
    // Number of keys before, by digit, then by workgroup.
    let mut starts = vec![0u32; 16 * groups];
    for (at, &key) in keys.iter().enumerate() {
        starts[digit(key) * groups + at / SORT_KEYS] += 1;
    }
    let mut before = 0;
    for start in &mut starts {
        before += std::mem::replace(start, before);
    }
    let mut sorted = keys.clone();
    sorted.sort_by_key(|&key| digit(key));
    Data { a: bits(keys), b: bits(starts), expected: bits(sorted) }
}

fn sha256(messages: usize) -> Data {
    let words: Vec<u32> = words(messages * 8).collect();
    let digests = words.chunks(8).flat_map(|message| {
        let bytes: Vec<u8> = message.iter().flat_map(|word| word.to_be_bytes()).collect();
        let digest = Sha256::digest(bytes);
        let word =
            |at: usize| u32::from_be_bytes([digest[at], digest[at + 1], digest[at + 2], digest[at + 3]]);
        std::array::from_fn::<u32, 8, _>(|at| word(at * 4))
    });
    let expected = bits(digests);
    Data { a: bits(words), expected, ..Data::default() }
}
