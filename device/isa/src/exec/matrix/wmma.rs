//! Matrix instructions: D = A × B + C on 16×16 tiles.
//!
//! Lane *l* of the first sixteen holds row *l* of A, and column *l* of B, in consecutive registers; the other lanes hold
//! copies, which are not looked at. Row *r* of C and D is in register *r* / 2, lanes 0-15 for even rows and 16-31 for odd
//! ones (wave64: register *r* / 4, sixteen lanes each).
//!
//! Every product is exact and added to C in ascending order of k, with one rounding to single precision for each: that is the fast way.
//! The sums of cards are in [`wmma_exact`](super::wmma_exact).

#![expect(
    clippy::needless_range_loop,
    reason = "iterators would put lane operations into closures without the backend"
)]

use super::tile::{self, Pairs};
use super::tile_integer;
use crate::exec::di::{Di, Flow, flag};
use crate::exec::vector::float::{half, single};
use crate::exec::vector::op::per_backend;
use crate::lanes::{BackendKind, Lanes};
use crate::wave::{Chunk, Wave};

const N: usize = 16;

/// Row and chunk index of row `r` of C or D whose first register is `base`, in waves of `halves` halves.
#[inline(always)]
fn place(halves: u32, base: u32, r: u32) -> (u32, usize) {
    if halves == 1 {
        (base + r / 2, (r & 1) as usize)
    } else {
        (base + r / 4 * 2 + (r >> 1 & 1), (r & 1) as usize)
    }
}

/// Row `r` of C: a register, or a constant in all places.
#[inline(always)]
fn c_row<L: Lanes>(w: &Wave, d: &Di, r: u32) -> L::V {
    if d.src[2].kind == crate::exec::di::Kind::Vector {
        let (row, chunk) = place(w.halves, d.src[2].value, r);
        L::load(&w.v.row(row)[chunk])
    } else {
        L::splat(d.src[2].scalar(w))
    }
}

/// Both 16-bit elements of each word as singles: halves, or `bfloat16`.
#[inline(always)]
pub(crate) fn both<L: Lanes, const BRAIN: bool>(word: L::V) -> [L::V; 2] {
    if BRAIN {
        return [L::shl(word, L::splat(16)), L::and(word, L::splat(0xffff_0000))];
    }
    if let Some(both) = L::wide_halves(word) {
        return both;
    }
    let words = L::to_array(word);
    let mut both = [[0; N]; 2];
    for i in 0..N {
        both[0][i] = half::to_single(words[i] as u16);
        both[1][i] = half::to_single((words[i] >> 16) as u16);
    }
    [L::from_array(both[0]), L::from_array(both[1])]
}

/// Singles as 16-bit elements in the low halves of words.
#[inline(always)]
pub(crate) fn narrowed<L: Lanes, const BRAIN: bool>(value: L::V) -> L::V {
    if BRAIN {
        let last = L::and(L::shr(value, L::splat(16)), L::splat(1));
        let rounded = L::add(value, L::add(last, L::splat(0x7fff)));
        let quiet = L::or(value, L::splat(0x40_0000));
        return L::shr(L::select(L::unordered(value, value), quiet, rounded), L::splat(16));
    }
    if let Some(halves) = L::narrow_halves(value) {
        return halves;
    }
    let mut words = L::to_array(value);
    for word in &mut words {
        *word = half::from_single(*word).into();
    }
    L::from_array(words)
}

/// The elements of A (`n` 0) or B as singles: element k of sixteen rows or columns.
#[inline(always)]
fn elements<L: Lanes, const BRAIN: bool>(w: &Wave, d: &Di, n: usize, elements: &mut [Chunk; N]) {
    // `neg` is for the elements in low halves, `neg_hi` for those in high ones.
    let sign = |negate: bool| if negate { single::SIGN } else { 0 };
    let signs = [sign(d.src[n].neg), sign(d.imm >> n & 1 != 0)];
    for k in 0..N / 2 {
        let word = L::load(&w.v.row(d.src[n].value + k as u32 * w.halves)[0]);
        let both = both::<L, BRAIN>(word);
        for part in 0..2 {
            L::store(&mut elements[2 * k + part], L::xor(both[part], L::splat(signs[part])));
        }
    }
}

/// Rows of D that are calculated at a time without AVX-512: as many sums as the registers have room for.
pub(crate) const FEW: usize = 4;

/// Rows of D from `first` on, from those of C, of elements of A and B with the same k.
#[inline(always)]
pub(crate) fn sums<L: Lanes, const ROWS: usize>(
    a: &[Chunk; N],
    b: &[Chunk; N],
    first: usize,
    c: [L::V; ROWS],
) -> [L::V; ROWS] {
    let mut sums = c;
    for (a, b) in a.iter().zip(b) {
        let b = L::load(b);
        for r in 0..ROWS {
            sums[r] = L::fma(L::splat(a.0[(first + r) % N]), b, sums[r]);
        }
    }
    let mut nans = 0;
    for r in 0..ROWS {
        nans |= L::unordered(sums[r], sums[r]);
    }
    if nans != 0 {
        for r in 0..ROWS {
            sums[r] = with_nans::<L>(a, b, first + r, c[r]);
        }
    }
    sums
}

/// The first row of block `n` of `rows` rows. Blocks are done from the last on if D begins after C, so that no row of
/// C is overwritten before it is read.
#[inline(always)]
pub(crate) fn first_row(d: &Di, rows: usize, n: usize) -> usize {
    let backwards = d.src[2].kind == crate::exec::di::Kind::Vector && d.dst > d.src[2].value;
    if backwards { N - rows * (n + 1) } else { rows * n }
}

/// A row with NaNs by the policy of the scalar operations.
#[inline(never)]
fn row_with_nans(a: &[Chunk; N], b: &[Chunk; N], row: usize, c: &mut [u32; N]) {
    for (column, sum) in c.iter_mut().enumerate() {
        *sum = a.iter().zip(b).fold(*sum, |sum, (a, b)| single::fma(a.0[row % N], b.0[column], sum));
    }
}

#[inline(always)]
fn with_nans<L: Lanes>(a: &[Chunk; N], b: &[Chunk; N], row: usize, c: L::V) -> L::V {
    let mut words = L::to_array(c);
    row_with_nans(a, b, row, &mut words);
    L::from_array(words)
}

/// C as its modifiers leave it: `neg_hi` is the absolute value, `neg` negates.
#[inline(always)]
fn modified<L: Lanes>(d: &Di, value: L::V) -> L::V {
    let value = if d.imm & 4 != 0 { L::and(value, L::splat(!single::SIGN)) } else { value };
    if d.src[2].neg { L::xor(value, L::splat(single::SIGN)) } else { value }
}

/// With `NARROW`, C and D have 16 bits: in the low halves of their registers, or the high ones with `op_sel[2]`.
#[inline(always)]
fn floats<L: Lanes, const BRAIN: bool, const NARROW: bool>(w: &mut Wave, d: &Di) -> Flow {
    if L::KIND == BackendKind::Avx512 {
        let done = match w.halves {
            1 => at_once::<L, BRAIN, NARROW, 1>(w, d),
            _ => at_once::<L, BRAIN, NARROW, 2>(w, d),
        };
        if done {
            return Flow::NEXT;
        }
    }
    let (mut a, mut b) = ([Chunk([0; N]); N], [Chunk([0; N]); N]);
    elements::<L, BRAIN>(w, d, 0, &mut a);
    elements::<L, BRAIN>(w, d, 1, &mut b);
    // With conversions in the same loop as the sums, these would not stay in registers.
    let mut between = [Chunk([0; N]); N];
    if NARROW {
        for r in 0..N {
            L::store(&mut between[r], source_row::<L, BRAIN, NARROW>(w, d, r));
        }
    }
    for n in 0..N / FEW {
        let first = first_row(d, FEW, n);
        let mut c = [L::splat(0); FEW];
        for r in 0..FEW {
            c[r] = match NARROW {
                true => L::load(&between[(first + r) % N]),
                false => source_row::<L, BRAIN, NARROW>(w, d, first + r),
            };
        }
        let sums = sums::<L, FEW>(&a, &b, first, c);
        for r in 0..FEW {
            match NARROW {
                true => L::store(&mut between[(first + r) % N], sums[r]),
                false => write_row::<L, BRAIN, NARROW>(w, d, first + r, sums[r]),
            }
        }
    }
    if NARROW {
        for r in 0..N {
            write_row::<L, BRAIN, NARROW>(w, d, r, L::load(&between[r]));
        }
    }
    Flow::NEXT
}

/// Does all rows of D at a time, in waves of `HALVES` halves. Returns true if they are done, which they are not with
/// modifiers of C or a NaN in D.
#[inline(always)]
fn at_once<L: Lanes, const BRAIN: bool, const NARROW: bool, const HALVES: u32>(w: &mut Wave, d: &Di) -> bool {
    if d.src[2].neg || d.imm & 4 != 0 {
        return false;
    }
    let high = usize::from(NARROW && d.flags & flag::DST_HIGH != 0);
    let mut c = [L::splat(0); N];
    if d.src[2].kind == crate::exec::di::Kind::Vector {
        for r in 0..N {
            let (row, chunk) = place(HALVES, d.src[2].value, r as u32);
            c[r] = L::load(&w.v.row(row)[chunk]);
        }
    } else {
        c = [L::splat(d.src[2].scalar(w)); N];
    }
    if NARROW {
        for r in 0..N {
            c[r] = both::<L, BRAIN>(c[r])[high];
        }
    }
    let (mut a, mut b) = ([&w.v.row(0)[0]; N / 2], [&w.v.row(0)[0]; N / 2]);
    for n in 0..N / 2 {
        a[n] = &w.v.row(d.src[0].value + n as u32 * HALVES)[0];
        b[n] = &w.v.row(d.src[1].value + n as u32 * HALVES)[0];
    }
    let (sums, nans) = tile::sums::<L, BRAIN>(d, &Pairs { a, b }, c);
    if nans {
        return false;
    }
    for r in 0..N {
        let (row, chunk) = place(HALVES, d.dst, r as u32);
        write_sum::<L, BRAIN, NARROW>(d, &mut w.v.row_mut(row)[chunk], sums[r]);
    }
    true
}

/// Row `r` of C as singles, with its modifiers.
#[inline(always)]
pub(crate) fn source_row<L: Lanes, const BRAIN: bool, const NARROW: bool>(
    w: &Wave,
    d: &Di,
    r: usize,
) -> L::V {
    let high = d.flags & flag::DST_HIGH != 0;
    let word = c_row::<L>(w, d, r as u32);
    let value = if NARROW { both::<L, BRAIN>(word)[usize::from(high)] } else { word };
    modified::<L>(d, value)
}

#[inline(always)]
pub(crate) fn write_row<L: Lanes, const BRAIN: bool, const NARROW: bool>(
    w: &mut Wave,
    d: &Di,
    r: usize,
    sum: L::V,
) {
    let (row, chunk) = place(w.halves, d.dst, r as u32);
    write_sum::<L, BRAIN, NARROW>(d, &mut w.v.row_mut(row)[chunk], sum);
}

#[inline(always)]
fn write_sum<L: Lanes, const BRAIN: bool, const NARROW: bool>(d: &Di, to: &mut Chunk, sum: L::V) {
    if !NARROW {
        return L::store(to, sum);
    }
    let value = narrowed::<L, BRAIN>(sum);
    let old = L::load(to);
    let value = match d.flags & flag::DST_HIGH != 0 {
        true => L::or(L::and(old, L::splat(0xffff)), L::shl(value, L::splat(16))),
        false => L::or(L::and(old, L::splat(0xffff_0000)), value),
    };
    L::store(to, value);
}

per_backend! {
    /// `v_wmma_f32_16x16x16_f16` and, with `BRAIN`, `_bf16`.
    f32_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| floats::<L, BRAIN, false>(w, d)
}
per_backend! {
    /// `v_wmma_f16_16x16x16_f16`, `v_wmma_bf16_16x16x16_bf16`.
    half_result [const BRAIN: bool] [BRAIN] |w, _m, d, L| floats::<L, BRAIN, true>(w, d)
}

/// Pairs of elements of `BITS` bits of A (`n` 0) or B, the rows or columns in their lanes.
#[inline(always)]
fn integer_pairs<L: Lanes, const BITS: u32>(w: &Wave, d: &Di, n: usize) -> [Chunk; N / 2] {
    let mut pairs = [Chunk([0; N]); N / 2];
    let per = 16 / BITS;
    for at in 0..N as u32 / 2 {
        let word = L::load(&w.v.row(d.src[n].value + at / per * w.halves)[0]);
        L::store(&mut pairs[at as usize], tile_integer::halves::<L>(word, BITS, at % per, d.src[n].neg));
    }
    pairs
}

#[inline(always)]
fn integers<L: Lanes, const BITS: u32>(w: &mut Wave, d: &Di) -> Flow {
    let a = integer_pairs::<L, BITS>(w, d, 0);
    let b = integer_pairs::<L, BITS>(w, d, 1);
    let mut sums = [Chunk([0; N]); N];
    tile_integer::dense::<L, { N / 2 }>(&a, &b, &mut sums);
    let clamp = d.flags & flag::CLAMP != 0;
    for r in 0..N {
        let sum = tile_integer::added::<L>(c_row::<L>(w, d, r as u32), L::load(&sums[r]), clamp);
        L::store(&mut sums[r], sum);
    }
    for r in 0..N {
        let (row, chunk) = place(w.halves, d.dst, r as u32);
        w.v.row_mut(row)[chunk] = sums[r];
    }
    Flow::NEXT
}

per_backend! {
    /// `v_wmma_i32_16x16x16_iu8` and `_iu4`, by the bits of an element: A and B signed where their `neg` bit is set.
    integer [const BITS: u32] [BITS] |w, _m, d, L| integers::<L, BITS>(w, d)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::di::{Handler, Kind, Source};
    use crate::exec::tests::call;
    use crate::inst::{Op, WaveSize};
    use crate::lanes::Backend;
    use crate::wave::WaveInit;

    /// First registers of A, B and C.
    const PLACES: [u32; 3] = [0, 16, 40];

    /// A wave of numbers near one; with `odd`, now and then infinities and NaNs.
    fn wave(wave_size: WaveSize, odd: bool) -> Wave {
        let init = WaveInit { wave_size, exec: u64::MAX, vgpr_count: 64, ..WaveInit::default() };
        let mut wave = Wave::new(&init);
        let mut state = 0x1234_5678_9abc_def1_u64;
        for row in 0..64 * wave.halves {
            for lane in 0..32 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let word = (state >> 32) as u32;
                let rare = odd && state >> 20 & 0xff == 0;
                let word = if rare { word | 0x7f80_7c00 } else { word & 0x87ff_87ff | 0x3800_3800 };
                wave.v.set_lane(row, lane, word);
            }
        }
        wave
    }

    fn lowered(handler: Handler, halves: u32, (c, dst): (u32, u32), aux: u8) -> Di {
        let vector = |register: u32| Source { value: register * halves, kind: Kind::Vector, ..Source::ZERO };
        Di {
            dst: dst * halves,
            src: [vector(PLACES[0]), vector(PLACES[1]), vector(c)],
            aux,
            ..Di::new(handler)
        }
    }

    fn run(handler: Handler, before: &Wave, places: (u32, u32), aux: u8) -> Wave {
        let mut wave = before.clone();
        let di = lowered(handler, wave.halves, places, aux);
        call(handler, &mut wave, &di);
        wave
    }

    /// All sources are read before D is written, wherever D is.
    fn check_overlaps(handler: impl Fn(BackendKind) -> Handler, aux: u8) {
        const APART: u32 = 54;
        for (wave_size, odd) in
            [WaveSize::Wave32, WaveSize::Wave64].map(|size| [(size, false), (size, true)]).concat()
        {
            let before = wave(wave_size, odd);
            let halves = before.halves;
            for dst in (0..8).chain(10..24).chain(PLACES[2] - 8..PLACES[2] + 9) {
                let mut clean = before.clone();
                // What is in D before counts too: halves that are not written stay.
                for row in 0..8 * halves {
                    *clean.v.row_mut(APART * halves + row) = *before.v.row(dst * halves + row);
                }
                let expected = run(handler(BackendKind::Portable), &clean, (PLACES[2], APART), aux);
                for backend in Backend::all() {
                    let after = run(handler(backend.kind()), &before, (PLACES[2], dst), aux);
                    for row in 0..8 * halves {
                        let (got, wanted) =
                            (after.v.row(dst * halves + row), expected.v.row(APART * halves + row));
                        for chunk in 0..2 {
                            assert_eq!(
                                got[chunk].0, wanted[chunk].0,
                                "{wave_size:?} odd {odd} D at {dst} row {row} {backend:?}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// All signs that modifiers can give, with C in registers or a constant.
    fn check_modifiers(handler: impl Fn(BackendKind) -> Handler, aux: u8) {
        for (wave_size, modifiers) in [WaveSize::Wave32, WaveSize::Wave64]
            .map(|size| (0..128).map(move |n| (size, n)))
            .into_iter()
            .flatten()
        {
            let before = wave(wave_size, modifiers & 1 != 0);
            let outcome = |backend: BackendKind| {
                let (handler, mut wave) = (handler(backend), before.clone());
                let mut di = lowered(handler, wave.halves, (PLACES[2], PLACES[2]), aux);
                if modifiers & 64 != 0 {
                    di.src[2] = Source { value: 0x4080_3f80, ..Source::ZERO };
                }
                for n in 0..3 {
                    di.src[n].neg = modifiers >> n & 1 != 0;
                }
                di.imm = modifiers >> 3 & 7;
                call(handler, &mut wave, &di);
                (0..8 * wave.halves).map(|row| *wave.v.row(di.dst + row)).collect::<Vec<_>>()
            };
            let expected = outcome(BackendKind::Portable);
            for backend in Backend::all() {
                for (row, (got, wanted)) in outcome(backend.kind()).iter().zip(&expected).enumerate() {
                    let words = |chunks: &[Chunk; 2]| chunks.map(|chunk| chunk.0);
                    assert_eq!(
                        words(got),
                        words(wanted),
                        "{wave_size:?} modifiers {modifiers:#x} row {row} {backend:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn modifiers_are_those_of_one_element_at_a_time() {
        use super::super::wmma_spread::{float, of};
        check_modifiers(f32_result::<false>, 0);
        check_modifiers(f32_result::<true>, 0);
        check_modifiers(half_result::<false>, 0);
        check_modifiers(half_result::<true>, 0);
        check_modifiers(integer::<8>, 0);
        check_modifiers(integer::<4>, 0);
        for op in [
            Op::V_WMMA_F32_16X16X16_F16,
            Op::V_WMMA_F32_16X16X16_BF16,
            Op::V_WMMA_F16_16X16X16_F16,
            Op::V_WMMA_BF16_16X16X16_BF16,
        ] {
            check_modifiers(float, of(op).unwrap().0);
        }
    }

    #[test]
    fn d_may_overlap_what_it_is_made_of() {
        check_overlaps(f32_result::<false>, 0);
        check_overlaps(f32_result::<true>, 0);
        check_overlaps(half_result::<false>, 0);
        check_overlaps(half_result::<true>, 0);
        check_overlaps(integer::<8>, 0);
        check_overlaps(integer::<4>, 0);
    }

    #[test]
    fn d_may_overlap_what_it_is_made_of_on_gfx12() {
        use super::super::wmma_spread::{float, of};
        for op in [
            Op::V_WMMA_F32_16X16X16_F16,
            Op::V_WMMA_F32_16X16X16_BF16,
            Op::V_WMMA_F16_16X16X16_F16,
            Op::V_WMMA_BF16_16X16X16_BF16,
            Op::V_WMMA_F32_16X16X16_FP8_BF8,
        ] {
            check_overlaps(float, of(op).unwrap().0);
        }
    }
}
