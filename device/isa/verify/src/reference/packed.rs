//! VOP3P without matrices: packed operations, dot products and mixed precision.

use belfry_isa::inst::{Op, Operand};

use super::dot;
use super::lane::{Lane, Out};
use super::number::{B16, F16, F32, Rules, add, convert, extreme, extreme_number, extreme_or_nan, fma, mul};

impl Lane<'_> {
    /// Source `n` of a packed operation as 32 bits: a float constant is one of 16 bits, in the low half.
    pub(crate) fn packed(&self, n: usize, float: bool) -> u32 {
        match self.vector.src[n] {
            Operand::InlineFloat(value) if float && self.vector.op.mnemonic().ends_with("bf16") => {
                u32::from(value.bf16_bits())
            }
            Operand::InlineFloat(value) if float => u32::from(value.f16_bits()),
            _ => self.u32(n),
        }
    }

    /// The 16-bit accumulator of a dot product.
    pub(crate) fn third(&self) -> u16 {
        let select = u32::from(self.vector.mods.op_sel) >> 2 & 1;
        (self.packed(2, true) >> (16 * select)) as u16
    }

    /// Element `high` of source `n`.
    pub(crate) fn element(&self, n: usize, high: bool, float: bool) -> u16 {
        let mods = &self.vector.mods;
        let select = if high { mods.op_sel_hi } else { mods.op_sel };
        let word = self.packed(n, float);
        let value = if select >> n & 1 != 0 { word >> 16 } else { word } as u16;
        let negate = if high { mods.neg_hi } else { mods.neg };
        if float && negate >> n & 1 != 0 { value ^ 0x8000 } else { value }
    }

    /// A mixed-precision source as single precision bits.
    pub(crate) fn mixed(&self, n: usize) -> u64 {
        let mods = &self.vector.mods;
        let (abs, neg) = (mods.abs >> n & 1 != 0, mods.neg >> n & 1 != 0);
        if mods.op_sel_hi >> n & 1 == 0 {
            return self.f32(n);
        }
        let word = self.packed(n, true);
        let value = u64::from(if mods.op_sel >> n & 1 != 0 { word >> 16 } else { word } as u16);
        let value = if abs { value & 0x7fff } else { value };
        let value = if neg { value ^ 0x8000 } else { value };
        convert::<F16, F32>(value, self.wide(), Rules { flush_in: false, flush_out: false, ..self.single() })
    }
}

fn int16(l: &Lane<'_>, high: bool) -> Option<u16> {
    use Op::*;
    let u = |n| l.element(n, high, false);
    let i = |n| u(n) as i16;
    let (wu, wi) = (|n| i128::from(u(n)), |n| i128::from(i(n)));
    let wrap = |value: i128, signed: bool| match l.int(value, 16, signed) {
        Out::B16(value) => value as u16,
        _ => 0,
    };
    Some(match l.vector.op {
        V_PK_ADD_U16 => wrap(wu(0) + wu(1), false),
        V_PK_SUB_U16 => wrap(wu(0) - wu(1), false),
        V_PK_ADD_I16 => wrap(wi(0) + wi(1), true),
        V_PK_SUB_I16 => wrap(wi(0) - wi(1), true),
        V_PK_MAD_U16 => wrap(wu(0) * wu(1) + wu(2), false),
        V_PK_MAD_I16 => wrap(wi(0) * wi(1) + wi(2), true),
        V_PK_MUL_LO_U16 => u(0).wrapping_mul(u(1)),
        V_PK_LSHLREV_B16 => u(1) << (u(0) & 15),
        V_PK_LSHRREV_B16 => u(1) >> (u(0) & 15),
        V_PK_ASHRREV_I16 => (i(1) >> (u(0) & 15)) as u16,
        V_PK_MIN_I16 => i(0).min(i(1)) as u16,
        V_PK_MAX_I16 => i(0).max(i(1)) as u16,
        V_PK_MIN_U16 => u(0).min(u(1)),
        V_PK_MAX_U16 => u(0).max(u(1)),
        _ => return None,
    })
}

fn float16(l: &Lane<'_>, high: bool) -> Option<u16> {
    use Op::*;
    let r = l.wide();
    let f = |n| u64::from(l.element(n, high, true));
    let value = match l.vector.op {
        V_PK_ADD_F16 => add::<F16>(f(0), f(1), r),
        V_PK_MUL_F16 => mul::<F16>(f(0), f(1), r),
        V_PK_FMA_F16 | V_PK_FMAC_F16 => fma::<F16>(f(0), f(1), f(2), r),
        V_PK_MINIMUM3_F16 => {
            extreme_or_nan::<F16>(extreme_or_nan::<F16>(f(0), f(1), r, false), f(2), r, false)
        }
        V_PK_MAXIMUM3_F16 => extreme_or_nan::<F16>(extreme_or_nan::<F16>(f(0), f(1), r, true), f(2), r, true),
        V_PK_MIN_F16 => extreme::<F16>(f(0), f(1), r, false),
        V_PK_MAX_F16 => extreme::<F16>(f(0), f(1), r, true),
        V_PK_MIN_NUM_F16 => extreme_number::<F16>(f(0), f(1), r, false),
        V_PK_MAX_NUM_F16 => extreme_number::<F16>(f(0), f(1), r, true),
        V_PK_MINIMUM_F16 => extreme_or_nan::<F16>(f(0), f(1), r, false),
        V_PK_MAXIMUM_F16 => extreme_or_nan::<F16>(f(0), f(1), r, true),
        _ => return None,
    };
    let of_three = [V_PK_FMA_F16, V_PK_FMAC_F16, V_PK_MINIMUM3_F16, V_PK_MAXIMUM3_F16];
    let sources = if of_three.contains(&l.vector.op) { 3 } else { 2 };
    let infinite = (0..sources).any(|n| f(n) & 0x7fff == 0x7c00);
    match l.out16(l.limited(value, infinite)) {
        Out::B16(value) => Some(value as u16),
        _ => None,
    }
}

/// Products of the fields of two words, `bits` wide each: low ones are in the half that `op_sel` names, high ones in that of
/// `op_sel_hi`.
fn integers(l: &Lane<'_>, bits: u32, signed: [bool; 2]) -> i128 {
    let word = |n: usize| {
        let chosen = |high: bool| u32::from(l.element(n, high, false));
        if l.state.arch.is_gfx9() { l.u32(n) } else { chosen(false) | chosen(true) << 16 }
    };
    let field = |n: usize, at: u32| {
        let raw = word(n) >> (at * bits) & ((1 << bits) - 1);
        if signed[n] && raw >> (bits - 1) != 0 { i128::from(raw) - (1 << bits) } else { i128::from(raw) }
    };
    (0..32 / bits).map(|at| field(0, at) * field(1, at)).sum()
}

/// The result of a packed operation; `None` when it is none.
pub(crate) fn run(l: &Lane<'_>) -> Option<Out> {
    use Op::*;
    let mods = &l.vector.mods;
    let signed = [mods.neg & 1 != 0, mods.neg & 2 != 0];
    if let Some(out) = super::small::dot(l) {
        return Some(out);
    }
    Some(match l.vector.op {
        V_DOT4_I32_IU8 => l.int(integers(l, 8, signed) + i128::from(l.i32(2)), 32, true),
        V_DOT8_I32_IU4 => l.int(integers(l, 4, signed) + i128::from(l.i32(2)), 32, true),
        V_DOT4_U32_U8 => l.int(integers(l, 8, [false; 2]) + i128::from(l.u32(2)), 32, false),
        V_DOT8_U32_U4 => l.int(integers(l, 4, [false; 2]) + i128::from(l.u32(2)), 32, false),
        V_DOT2_F32_F16 | V_DOT2_F32_BF16 => {
            let pair = |high: bool| [0, 1].map(|n| u64::from(l.element(n, high, true)));
            let pairs = [pair(false), pair(true)];
            // `neg_hi` of the third source negates it, too.
            let third = if mods.neg_hi & 4 != 0 { super::number::neg::<F32>(l.f32(2)) } else { l.f32(2) };
            let sum = match l.vector.op {
                V_DOT2_F32_F16 => dot::single::<F16>(pairs, third, l.state.arch),
                _ => dot::single::<B16>(pairs, third, l.state.arch),
            };
            // Only gfx9 clamps it.
            if l.state.arch.is_gfx9() { l.out32(sum) } else { Out::B32(sum) }
        }
        V_FMA_MIX_F32 => l.out32(fma::<F32>(l.mixed(0), l.mixed(1), l.mixed(2), l.single())),
        V_FMA_MIXLO_F16 | V_FMA_MIXHI_F16 => {
            let sum = fma::<F32>(l.mixed(0), l.mixed(1), l.mixed(2), l.single());
            let from = Rules { flush_in: false, ..l.single() };
            let half = convert::<F32, F16>(sum, from, l.wide());
            let infinite = (0..3).any(|n| l.mixed(n) & 0x7fff_ffff == 0x7f80_0000);
            let Out::B16(value) = l.out16(l.limited(half, infinite)) else { return None };
            let old = u64::from(l.old());
            if l.vector.op == V_FMA_MIXLO_F16 {
                Out::B32(old & 0xffff_0000 | value)
            } else {
                Out::B32(old & 0xffff | value << 16)
            }
        }
        _ => {
            let both = |f: fn(&Lane<'_>, bool) -> Option<u16>| {
                Some(Out::B32(u64::from(f(l, false)?) | u64::from(f(l, true)?) << 16))
            };
            return both(int16).or_else(|| both(float16));
        }
    })
}

/// `v_wmma_*`: A, B and C as matrices of numbers, for [`super::matrix`].
pub(crate) fn is_matrix(op: Op) -> bool {
    ["v_wmma_", "v_swmmac_"].iter().any(|start| op.mnemonic().starts_with(start))
}
