//! Matrix instructions: D = A × B + C on 16×16 tiles.
//!
//! Lane *l* of the first sixteen holds row *l* of A, and column *l* of B, in consecutive registers; the other lanes hold
//! copies, which are not looked at. Row *r* of C and D is in register *r* / 2, lanes 0-15 for even rows and 16-31 for odd
//! ones (wave64: register *r* / 4, sixteen lanes each).
//!
//! How hardware orders and rounds the sum is not public. Here every product is exact and added to C in ascending order
//! of k, with one rounding to single precision for each.

use super::di::{Di, Flow, Machine, flag};
use super::float::{brain, half, single};
use super::op::per_backend;
use crate::lanes::Lanes;
use crate::wave::{Chunk, Wave};

const N: usize = 16;

/// Row and chunk index of row `r` of C or D whose first register is `base`.
#[inline(always)]
fn place(w: &Wave, base: u32, r: u32) -> (u32, usize) {
    if w.halves == 1 {
        (base + r / 2, (r & 1) as usize)
    } else {
        (base + r / 4 * 2 + (r >> 1 & 1), (r & 1) as usize)
    }
}

/// Row `r` of C: a register, or a constant in all places.
#[inline(always)]
fn c_row(w: &Wave, d: &Di, r: u32) -> [u32; N] {
    if d.src[2].kind == super::di::Kind::Vector {
        let (row, chunk) = place(w, d.src[2].value, r);
        w.v.row(row)[chunk].0
    } else {
        [d.src[2].scalar(w); N]
    }
}

/// Both 16-bit elements of each lane's register `k / 2`, as singles: element `k` of each lane.
#[inline(always)]
fn element(w: &Wave, d: &Di, n: usize, k: u32, convert: impl Fn(u16) -> u32) -> [u32; N] {
    let words = &w.v.row(d.src[n].value + k / 2 * w.halves)[0].0;
    // `neg` is for the elements in low halves, `neg_hi` for those in high ones.
    let negate = if k & 1 == 0 { d.src[n].neg } else { d.imm >> n & 1 != 0 };
    let sign = if negate { single::SIGN } else { 0 };
    words.map(|word| convert((word >> ((k & 1) * 16)) as u16) ^ sign)
}

/// C as its modifiers leave it: `neg_hi` is the absolute value, `neg` negates.
#[inline(always)]
fn modified(d: &Di, value: u32) -> u32 {
    let value = if d.imm & 4 != 0 { value & !single::SIGN } else { value };
    if d.src[2].neg { value ^ single::SIGN } else { value }
}

#[inline(always)]
fn product<L: Lanes>(
    w: &Wave,
    d: &Di,
    convert: fn(u16) -> u32,
    c: impl Fn(&Wave, u32) -> [u32; N],
) -> [[u32; N]; N] {
    let mut a = [[0; N]; N];
    let mut b = [L::splat(0); N];
    for k in 0..N {
        a[k] = element(w, d, 0, k as u32, convert);
        b[k] = L::from_array(element(w, d, 1, k as u32, convert));
    }
    let mut result = [[0; N]; N];
    for r in 0..N {
        let start = c(w, r as u32);
        let mut sum = L::from_array(start);
        for k in 0..N {
            sum = L::fma(L::splat(a[k][r]), b[k], sum);
        }
        result[r] = L::to_array(sum);
        if L::unordered(sum, sum) != 0 {
            // NaNs by the policy of the scalar operations.
            let mut columns = [[0; N]; N];
            for k in 0..N {
                columns[k] = L::to_array(b[k]);
            }
            for (column, value) in result[r].iter_mut().enumerate() {
                *value = (0..N).fold(start[column], |sum, k| single::fma(a[k][r], columns[k][column], sum));
            }
        }
    }
    result
}

#[inline(always)]
fn write(w: &mut Wave, d: &Di, result: &[[u32; N]; N]) {
    for (r, values) in (0u32..).zip(result) {
        let (row, chunk) = place(w, d.dst, r);
        w.v.row_mut(row)[chunk] = Chunk(*values);
    }
}

/// 16-bit results: in the low halves of D's registers, or the high ones with `op_sel[2]`.
#[inline(always)]
fn write_halves(w: &mut Wave, d: &Di, result: &[[u32; N]; N], convert: impl Fn(u32) -> u16) {
    for (r, values) in (0u32..).zip(result) {
        let (row, chunk) = place(w, d.dst, r);
        for (word, value) in w.v.row_mut(row)[chunk].0.iter_mut().zip(values) {
            let value = u32::from(convert(*value));
            *word = if d.flags & flag::DST_HIGH != 0 {
                *word & 0xffff | value << 16
            } else {
                *word & 0xffff_0000 | value
            };
        }
    }
}

#[inline(always)]
fn wide<L: Lanes, const BRAIN: bool>(w: &mut Wave, d: &Di) -> Flow {
    let convert = if BRAIN { brain::to_single } else { half::to_single };
    let result = product::<L>(w, d, convert, |w, r| c_row(w, d, r).map(|word| modified(d, word)));
    write(w, d, &result);
    Flow::NEXT
}

#[inline(always)]
fn narrow<L: Lanes, const BRAIN: bool>(w: &mut Wave, d: &Di) -> Flow {
    let shift = if d.flags & flag::DST_HIGH != 0 { 16 } else { 0 };
    let convert = if BRAIN { brain::to_single } else { half::to_single };
    let result = product::<L>(w, d, convert, |w, r| {
        c_row(w, d, r).map(|word| modified(d, convert((word >> shift) as u16)))
    });
    write_halves(w, d, &result, if BRAIN { brain::from_single } else { half::from_single });
    Flow::NEXT
}

per_backend! {
    /// `v_wmma_f32_16x16x16_f16` and, with `BRAIN`, `_bf16`.
    f32_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| wide::<L, BRAIN>(w, d)
}
per_backend! {
    /// `v_wmma_f16_16x16x16_f16`, `v_wmma_bf16_16x16x16_bf16`.
    half_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| narrow::<L, BRAIN>(w, d)
}

/// `v_wmma_i32_16x16x16_iu8` (`aux` 8) and `_iu4` (`aux` 4): A and B signed where their `neg` bit is set.
pub(crate) fn integer(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let bits = u32::from(d.aux);
    let per_register = 32 / bits;
    let element = |w: &Wave, n: usize, lane: usize, k: u32| {
        let word = w.v.row(d.src[n].value + k / per_register * w.halves)[0].0[lane];
        let shifted = word << (32 - bits - k % per_register * bits);
        if d.src[n].neg {
            i64::from(shifted.cast_signed() >> (32 - bits))
        } else {
            i64::from(shifted >> (32 - bits))
        }
    };
    let mut result = [[0; N]; N];
    for (r, row) in result.iter_mut().enumerate() {
        let start = c_row(w, d, r as u32);
        for (column, value) in row.iter_mut().enumerate() {
            let sum: i64 = (0..16).map(|k| element(w, 0, r, k) * element(w, 1, column, k)).sum();
            let total = sum + i64::from(start[column].cast_signed());
            let clamped = total.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
            *value = if d.flags & flag::CLAMP != 0 { clamped } else { total } as u32;
        }
    }
    write(w, d, &result);
    Flow::NEXT
}
