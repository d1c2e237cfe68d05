//! Scalar ALU: SOP1, SOP2, SOPC, SOPK.

use crate::exec::di::{Di, Flow, Handler, Machine, Source};
use crate::inst::Op;
use crate::registers::slot;
use crate::wave::Wave;

/// A scalar operand's width.
trait Scalar: Copy {
    const BITS: u32;
    fn read(source: &Source, w: &Wave) -> Self;
    fn write(self, w: &mut Wave, register: u32);
}

impl Scalar for u32 {
    const BITS: u32 = 32;
    #[inline(always)]
    fn read(source: &Source, w: &Wave) -> u32 {
        source.scalar(w)
    }
    #[inline(always)]
    fn write(self, w: &mut Wave, register: u32) {
        w.s[register as usize & 255] = self;
    }
}

impl Scalar for u64 {
    const BITS: u32 = 64;
    #[inline(always)]
    fn read(source: &Source, w: &Wave) -> u64 {
        source.scalar64(w)
    }
    #[inline(always)]
    fn write(self, w: &mut Wave, register: u32) {
        w.set_pair(register as usize, self);
    }
}

/// No result but SCC.
impl Scalar for () {
    const BITS: u32 = 0;
    fn read(_source: &Source, _w: &Wave) {}
    #[inline(always)]
    fn write(self, _w: &mut Wave, _register: u32) {}
}

/// Handler and operand types of a scalar operation, for lowering.
pub(crate) struct ScalarEntry {
    pub(crate) handler: Handler,
    /// Bits of the sources.
    pub(crate) bits: [u32; 2],
    /// Bits of the destination, 0 for none.
    pub(crate) dst_bits: u32,
    /// True if the destination is a source too, as `src[2]`.
    pub(crate) reads_dst: bool,
}

/// Each line: `NAME: (a: T, b: T, scc) -> T, updates { (result, new SCC) }`, or `keeps { result }`.
/// `old` in place of `scc` is the destination's old value.
macro_rules! scalar_ops {
    ($($op:ident: ($a:ident: $A:ty, $b:ident: $B:ty, $scc:ident, $old:ident) -> $D:ty, $how:ident $body:block)*) => {
        /// The entry of an operation defined here.
        pub(crate) fn entry(op: Op) -> Option<ScalarEntry> {
            Some(match op {
                $(Op::$op => {
                    fn handler(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
                        let $a = <$A as Scalar>::read(&d.src[0], w);
                        let $b = <$B as Scalar>::read(&d.src[1], w);
                        let $scc = w.s[slot::SCC];
                        let $old = <$D as Scalar>::read(&d.src[2], w);
                        let _ = ($a, $b, $scc, $old);
                        scalar_ops!(@$how w, d, $D, $body);
                        Flow::NEXT
                    }
                    ScalarEntry {
                        handler,
                        bits: [<$A>::BITS, <$B>::BITS],
                        dst_bits: <$D as Scalar>::BITS,
                        reads_dst: !stringify!($old).starts_with('_'),
                    }
                })*
                _ => return None,
            })
        }
    };
    (@updates $w:ident, $d:ident, $D:ty, $body:block) => {{
        let (result, scc): ($D, bool) = $body;
        result.write($w, $d.dst);
        $w.s[slot::SCC] = u32::from(scc);
    }};
    (@keeps $w:ident, $d:ident, $D:ty, $body:block) => {{
        let result: $D = $body;
        result.write($w, $d.dst);
    }};
}

#[inline(always)]
fn i(value: u32) -> i32 {
    value.cast_signed()
}

#[inline(always)]
fn u(value: i32) -> u32 {
    value.cast_unsigned()
}

/// A result that sets SCC when it is not zero.
#[inline(always)]
fn nonzero<T: PartialEq + Default>(value: T) -> (T, bool) {
    let scc = value != T::default();
    (value, scc)
}

#[inline(always)]
fn shifted_add(a: u32, b: u32, shift: u32) -> (u32, bool) {
    let sum = (u64::from(a) << shift) + u64::from(b);
    (sum as u32, sum >> 32 != 0)
}

fn bfe_u64(a: u64, b: u32) -> u64 {
    let (offset, width) = (b & 63, (b >> 16 & 127).min(64));
    if width == 0 { 0 } else { a >> offset & u64::MAX >> (64 - width) }
}

fn bfe_i64(a: u64, b: u32, bits: u32) -> u64 {
    let (offset, width) = (b & (bits - 1), (b >> 16 & 127).min(bits));
    if width == 0 {
        return 0;
    }
    let value = if bits == 32 { i64::from(i(a as u32)) } else { a.cast_signed() };
    (value >> offset << (64 - width) >> (64 - width)).cast_unsigned()
}

/// Count of leading bits equal to the sign, all ones when every bit is.
fn cls(value: i64, bits: u32) -> u32 {
    let same = (value ^ value >> 63).cast_unsigned().leading_zeros();
    if same == 64 { u32::MAX } else { same - (64 - bits) }
}

/// Every group of four bits set where any of them is.
fn wqm(value: u64) -> u64 {
    let any = (value | value >> 1 | value >> 2 | value >> 3) & 0x1111_1111_1111_1111;
    any * 15
}

/// One bit for each group of four.
fn quadmask(value: u64) -> u64 {
    (0..16).fold(0, |mask, n| mask | u64::from(value >> (n * 4) & 15 != 0) << n)
}

scalar_ops! {
    S_MOV_B32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { a }
    S_MOV_B64: (a: u64, _b: u32, _scc, _old) -> u64, keeps { a }
    S_CMOV_B32: (a: u32, _b: u32, scc, old) -> u32, keeps { if scc != 0 { a } else { old } }
    S_CMOV_B64: (a: u64, _b: u32, scc, old) -> u64, keeps { if scc != 0 { a } else { old } }
    S_NOT_B32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(!a) }
    S_NOT_B64: (a: u64, _b: u32, _scc, _old) -> u64, updates { nonzero(!a) }
    S_WQM_B32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(wqm(u64::from(a)) as u32) }
    S_WQM_B64: (a: u64, _b: u32, _scc, _old) -> u64, updates { nonzero(wqm(a)) }
    S_QUADMASK_B32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(quadmask(u64::from(a)) as u32) }
    S_QUADMASK_B64: (a: u64, _b: u32, _scc, _old) -> u64, updates { nonzero(quadmask(a)) }
    S_BREV_B32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { a.reverse_bits() }
    S_BREV_B64: (a: u64, _b: u32, _scc, _old) -> u64, keeps { a.reverse_bits() }
    S_BCNT0_I32_B32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(a.count_zeros()) }
    S_BCNT0_I32_B64: (a: u64, _b: u32, _scc, _old) -> u32, updates { nonzero(a.count_zeros()) }
    S_BCNT1_I32_B32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(a.count_ones()) }
    S_BCNT1_I32_B64: (a: u64, _b: u32, _scc, _old) -> u32, updates { nonzero(a.count_ones()) }
    S_FF0_I32_B32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { if a == u32::MAX { u32::MAX } else { a.trailing_ones() } }
    S_FF0_I32_B64: (a: u64, _b: u32, _scc, _old) -> u32, keeps { if a == u64::MAX { u32::MAX } else { a.trailing_ones() } }
    S_CTZ_I32_B32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { if a == 0 { u32::MAX } else { a.trailing_zeros() } }
    S_CTZ_I32_B64: (a: u64, _b: u32, _scc, _old) -> u32, keeps { if a == 0 { u32::MAX } else { a.trailing_zeros() } }
    S_CLZ_I32_U32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { if a == 0 { u32::MAX } else { a.leading_zeros() } }
    S_CLZ_I32_U64: (a: u64, _b: u32, _scc, _old) -> u32, keeps { if a == 0 { u32::MAX } else { a.leading_zeros() } }
    S_CLS_I32: (a: u32, _b: u32, _scc, _old) -> u32, keeps { cls(i64::from(i(a)), 32) }
    S_CLS_I32_I64: (a: u64, _b: u32, _scc, _old) -> u32, keeps { cls(a.cast_signed(), 64) }
    S_SEXT_I32_I8: (a: u32, _b: u32, _scc, _old) -> u32, keeps { u(i32::from(a as u8 as i8)) }
    S_SEXT_I32_I16: (a: u32, _b: u32, _scc, _old) -> u32, keeps { u(i32::from(a as u16 as i16)) }
    S_BITSET0_B32: (a: u32, _b: u32, _scc, old) -> u32, keeps { old & !(1 << (a & 31)) }
    S_BITSET0_B64: (a: u32, _b: u32, _scc, old) -> u64, keeps { old & !(1 << (a & 63)) }
    S_BITSET1_B32: (a: u32, _b: u32, _scc, old) -> u32, keeps { old | 1 << (a & 31) }
    S_BITSET1_B64: (a: u32, _b: u32, _scc, old) -> u64, keeps { old | 1 << (a & 63) }
    S_BITREPLICATE_B64_B32: (a: u32, _b: u32, _scc, _old) -> u64, keeps {
        (0..32).fold(0_u64, |bits, n| bits | (u64::from(a >> n & 1) * 3) << (n * 2))
    }
    S_ABS_I32: (a: u32, _b: u32, _scc, _old) -> u32, updates { nonzero(u(i(a).wrapping_abs())) }
    S_ADD_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { a.overflowing_add(b) }
    S_SUB_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { a.overflowing_sub(b) }
    S_ADD_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { let (r, o) = i(a).overflowing_add(i(b)); (u(r), o) }
    S_SUB_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { let (r, o) = i(a).overflowing_sub(i(b)); (u(r), o) }
    S_ADDC_U32: (a: u32, b: u32, scc, _old) -> u32, updates {
        let sum = u64::from(a) + u64::from(b) + u64::from(scc);
        (sum as u32, sum >> 32 != 0)
    }
    S_SUBB_U32: (a: u32, b: u32, scc, _old) -> u32, updates {
        (a.wrapping_sub(b).wrapping_sub(scc), u64::from(a) < u64::from(b) + u64::from(scc))
    }
    S_ABSDIFF_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(u(i(a).wrapping_sub(i(b)).wrapping_abs())) }
    S_MIN_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { (u(i(a).min(i(b))), i(a) < i(b)) }
    S_MIN_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { (a.min(b), a < b) }
    S_MAX_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { (u(i(a).max(i(b))), i(a) >= i(b)) }
    S_MAX_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { (a.max(b), a >= b) }
    S_CSELECT_B32: (a: u32, b: u32, scc, _old) -> u32, keeps { if scc != 0 { a } else { b } }
    S_CSELECT_B64: (a: u64, b: u64, scc, _old) -> u64, keeps { if scc != 0 { a } else { b } }
    S_AND_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a & b) }
    S_AND_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(a & b) }
    S_OR_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a | b) }
    S_OR_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(a | b) }
    S_XOR_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a ^ b) }
    S_XOR_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(a ^ b) }
    S_NAND_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(!(a & b)) }
    S_NAND_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(!(a & b)) }
    S_NOR_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(!(a | b)) }
    S_NOR_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(!(a | b)) }
    S_XNOR_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(!(a ^ b)) }
    S_XNOR_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(!(a ^ b)) }
    S_AND_NOT1_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a & !b) }
    S_AND_NOT1_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(a & !b) }
    S_OR_NOT1_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a | !b) }
    S_OR_NOT1_B64: (a: u64, b: u64, _scc, _old) -> u64, updates { nonzero(a | !b) }
    S_LSHL_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a.wrapping_shl(b)) }
    S_LSHL_B64: (a: u64, b: u32, _scc, _old) -> u64, updates { nonzero(a.wrapping_shl(b)) }
    S_LSHR_B32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(a.wrapping_shr(b)) }
    S_LSHR_B64: (a: u64, b: u32, _scc, _old) -> u64, updates { nonzero(a.wrapping_shr(b)) }
    S_ASHR_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(u(i(a).wrapping_shr(b))) }
    S_ASHR_I64: (a: u64, b: u32, _scc, _old) -> u64, updates { nonzero(a.cast_signed().wrapping_shr(b).cast_unsigned()) }
    S_LSHL1_ADD_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { shifted_add(a, b, 1) }
    S_LSHL2_ADD_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { shifted_add(a, b, 2) }
    S_LSHL3_ADD_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { shifted_add(a, b, 3) }
    S_LSHL4_ADD_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { shifted_add(a, b, 4) }
    S_BFE_U32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(bfe_u64(u64::from(a), b & !32) as u32) }
    S_BFE_I32: (a: u32, b: u32, _scc, _old) -> u32, updates { nonzero(bfe_i64(u64::from(a), b, 32) as u32) }
    S_BFE_U64: (a: u64, b: u32, _scc, _old) -> u64, updates { nonzero(bfe_u64(a, b)) }
    S_BFE_I64: (a: u64, b: u32, _scc, _old) -> u64, updates { nonzero(bfe_i64(a, b, 64)) }
    S_BFM_B32: (a: u32, b: u32, _scc, _old) -> u32, keeps { ((1 << (a & 31)) - 1_u32).wrapping_shl(b) }
    S_BFM_B64: (a: u32, b: u32, _scc, _old) -> u64, keeps { ((1 << (a & 63)) - 1_u64).wrapping_shl(b) }
    S_MUL_I32: (a: u32, b: u32, _scc, _old) -> u32, keeps { a.wrapping_mul(b) }
    S_MUL_HI_U32: (a: u32, b: u32, _scc, _old) -> u32, keeps { ((u64::from(a) * u64::from(b)) >> 32) as u32 }
    S_MUL_HI_I32: (a: u32, b: u32, _scc, _old) -> u32, keeps { ((i64::from(i(a)) * i64::from(i(b))) >> 32) as u32 }
    S_MUL_U64: (a: u64, b: u64, _scc, _old) -> u64, keeps { a.wrapping_mul(b) }
    S_ADD_NC_U64: (a: u64, b: u64, _scc, _old) -> u64, keeps { a.wrapping_add(b) }
    S_SUB_NC_U64: (a: u64, b: u64, _scc, _old) -> u64, keeps { a.wrapping_sub(b) }
    S_PACK_LL_B32_B16: (a: u32, b: u32, _scc, _old) -> u32, keeps { a & 0xffff | b << 16 }
    S_PACK_LH_B32_B16: (a: u32, b: u32, _scc, _old) -> u32, keeps { a & 0xffff | b & 0xffff_0000 }
    S_PACK_HH_B32_B16: (a: u32, b: u32, _scc, _old) -> u32, keeps { a >> 16 | b & 0xffff_0000 }
    S_PACK_HL_B32_B16: (a: u32, b: u32, _scc, _old) -> u32, keeps { a >> 16 | b << 16 }
    S_CMP_EQ_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a == b) }
    S_CMP_LG_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a != b) }
    S_CMP_GT_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) > i(b)) }
    S_CMP_GE_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) >= i(b)) }
    S_CMP_LT_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) < i(b)) }
    S_CMP_LE_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) <= i(b)) }
    S_CMP_EQ_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a == b) }
    S_CMP_LG_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a != b) }
    S_CMP_GT_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a > b) }
    S_CMP_GE_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a >= b) }
    S_CMP_LT_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a < b) }
    S_CMP_LE_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a <= b) }
    S_CMP_EQ_U64: (a: u64, b: u64, _scc, _old) -> (), updates { ((), a == b) }
    S_CMP_LG_U64: (a: u64, b: u64, _scc, _old) -> (), updates { ((), a != b) }
    S_BITCMP0_B32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a >> (b & 31) & 1 == 0) }
    S_BITCMP1_B32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a >> (b & 31) & 1 != 0) }
    S_BITCMP0_B64: (a: u64, b: u32, _scc, _old) -> (), updates { ((), a >> (b & 63) & 1 == 0) }
    S_BITCMP1_B64: (a: u64, b: u32, _scc, _old) -> (), updates { ((), a >> (b & 63) & 1 != 0) }
    // SOPK: the constant, sign- or zero-extended by lowering, is `b`.
    S_MOVK_I32: (_a: u32, b: u32, _scc, _old) -> u32, keeps { b }
    S_CMOVK_I32: (_a: u32, b: u32, scc, old) -> u32, keeps { if scc != 0 { b } else { old } }
    S_ADDK_I32: (_a: u32, b: u32, _scc, old) -> u32, updates { let (r, o) = i(old).overflowing_add(i(b)); (u(r), o) }
    S_MULK_I32: (_a: u32, b: u32, _scc, old) -> u32, keeps { old.wrapping_mul(b) }
    S_CMPK_EQ_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a == b) }
    S_CMPK_LG_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a != b) }
    S_CMPK_GT_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) > i(b)) }
    S_CMPK_GE_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) >= i(b)) }
    S_CMPK_LT_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) < i(b)) }
    S_CMPK_LE_I32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), i(a) <= i(b)) }
    S_CMPK_EQ_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a == b) }
    S_CMPK_LG_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a != b) }
    S_CMPK_GT_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a > b) }
    S_CMPK_GE_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a >= b) }
    S_CMPK_LT_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a < b) }
    S_CMPK_LE_U32: (a: u32, b: u32, _scc, _old) -> (), updates { ((), a <= b) }
}
