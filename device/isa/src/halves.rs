//! Halves of registers that VOP3 encodes in `OPSEL` and that the tables have no operand for.
//!
//! The target description (LLVM 22) reads most 16-bit operations of gfx1201's VOP3 as if they always took low halves; that of
//! gfx1100 and the hardware have `OPSEL` there (AMD, "RDNA3 Instruction Set Architecture", VOP3: "OPSEL: operation select for
//! 16-bit math"). Compilers use it: clang 20 and later write `v_mul_lo_u16 v1.l, v1.h, 3` and `v_cvt_f16_f32_e64 v1.h, v2`.
//! `tests/data/true16.txt` has what LLVM 21 says of each operation. The disassembler's text for gfx1201 is that of the target
//! description, without these halves.

use crate::encoding::scatter;
use crate::encoding::{Form, Name, OperandSpec, Tables};
use crate::inst::{Format, Op};

/// Lowest bit of `OPSEL`: three for the sources, then one for the destination, as [`crate::inst::Mods::op_sel`] has them.
const SHIFT: u32 = 11;

/// The bits of a form's encoding that say which halves it takes, where no operand has them.
pub(crate) fn field(tables: &Tables, form: &Form) -> u128 {
    if form.format != Format::Vop3 || !tables.has_halves {
        return 0;
    }
    let halves = u128::from(halves(form.op)) << SHIFT;
    let read = |spec: &OperandSpec| scatter(0, tables.field(*spec), u32::MAX);
    if halves == 0 {
        0
    } else {
        tables.operands_of(form).iter().fold(halves, |left, spec| left & !read(spec))
    }
}

/// `OPSEL` in the bits of an encoding.
pub(crate) fn read(tables: &Tables, form: &Form, bits: u128) -> u8 {
    ((bits & field(tables, form)) >> SHIFT) as u8
}

/// The bits of an encoding with `OPSEL`.
pub(crate) fn write(tables: &Tables, form: &Form, bits: u128, op_sel: u8) -> u128 {
    let field = field(tables, form);
    bits & !field | (u128::from(op_sel) << SHIFT & field)
}

/// Returns the operands of an operation that are halves, as bits of `OPSEL`, for operations whose VOP3 form has no
/// modifiers that say so in the target description: operations of 16-bit numbers, conversions of them, and operations
/// with a 16-bit count.
#[rustfmt::skip]
const fn halves(op: Op) -> u8 {
    match op {
        Op::V_AND_B16 | Op::V_OR_B16 | Op::V_XOR_B16 | Op::V_NOT_B16
            | Op::V_ASHRREV_I16 | Op::V_LSHLREV_B16 | Op::V_LSHRREV_B16
            | Op::V_ALIGNBIT_B32 | Op::V_ALIGNBYTE_B32
            | Op::V_MUL_LO_U16 | Op::V_MAX_I16 | Op::V_MAX_U16 | Op::V_MIN_I16 | Op::V_MIN_U16
            | Op::V_CVT_F16_I16 | Op::V_CVT_F16_U16 | Op::V_CVT_I32_I16 | Op::V_CVT_U32_U16
            | Op::V_MAXMIN_F16 | Op::V_MINMAX_F16 | Op::V_MAXMIN_NUM_F16 | Op::V_MINMAX_NUM_F16
            | Op::V_MAXIMUMMINIMUM_F16 | Op::V_MINIMUMMAXIMUM_F16
            | Op::V_CMP_EQ_I16 | Op::V_CMP_EQ_U16 | Op::V_CMP_GE_I16 | Op::V_CMP_GE_U16
            | Op::V_CMP_GT_I16 | Op::V_CMP_GT_U16 | Op::V_CMP_LE_I16 | Op::V_CMP_LE_U16
            | Op::V_CMP_LT_I16 | Op::V_CMP_LT_U16 | Op::V_CMP_NE_I16 | Op::V_CMP_NE_U16
            | Op::V_CMPX_EQ_I16 | Op::V_CMPX_EQ_U16 | Op::V_CMPX_GE_I16 | Op::V_CMPX_GE_U16
            | Op::V_CMPX_GT_I16 | Op::V_CMPX_GT_U16 | Op::V_CMPX_LE_I16 | Op::V_CMPX_LE_U16
            | Op::V_CMPX_LT_I16 | Op::V_CMPX_LT_U16 | Op::V_CMPX_NE_I16 | Op::V_CMPX_NE_U16 => 0b1111,
        Op::V_ADD_F16 | Op::V_SUB_F16 | Op::V_SUBREV_F16 | Op::V_MUL_F16 | Op::V_MAX_F16 | Op::V_MIN_F16
            | Op::V_MAX_NUM_F16 | Op::V_MIN_NUM_F16 | Op::V_MAXIMUM_F16 | Op::V_MINIMUM_F16
            | Op::V_FMAC_F16 | Op::V_LDEXP_F16 | Op::V_CNDMASK_B16 => 0b1011,
        Op::V_CEIL_F16 | Op::V_COS_F16 | Op::V_EXP_F16 | Op::V_FLOOR_F16 | Op::V_FRACT_F16
            | Op::V_FREXP_EXP_I16_F16 | Op::V_FREXP_MANT_F16 | Op::V_LOG_F16 | Op::V_RCP_F16
            | Op::V_RNDNE_F16 | Op::V_RSQ_F16 | Op::V_SIN_F16 | Op::V_SQRT_F16 | Op::V_TRUNC_F16
            | Op::V_CVT_I16_F16 | Op::V_CVT_U16_F16 | Op::V_CVT_NORM_I16_F16 | Op::V_CVT_NORM_U16_F16
            | Op::V_MOV_B16 => 0b1001,
        Op::V_CVT_F16_F32 | Op::V_SAT_PK_U8_I16 => 0b1000,
        Op::V_CVT_F32_F16 => 0b0001,
        Op::V_CMP_CLASS_F16 | Op::V_CMP_EQ_F16 | Op::V_CMP_F_F16 | Op::V_CMP_GE_F16 | Op::V_CMP_GT_F16
            | Op::V_CMP_LE_F16 | Op::V_CMP_LG_F16 | Op::V_CMP_LT_F16 | Op::V_CMP_NEQ_F16 | Op::V_CMP_NGE_F16
            | Op::V_CMP_NGT_F16 | Op::V_CMP_NLE_F16 | Op::V_CMP_NLG_F16 | Op::V_CMP_NLT_F16
            | Op::V_CMP_O_F16 | Op::V_CMP_T_F16 | Op::V_CMP_U_F16
            | Op::V_CMPX_CLASS_F16 | Op::V_CMPX_EQ_F16 | Op::V_CMPX_F_F16 | Op::V_CMPX_GE_F16
            | Op::V_CMPX_GT_F16 | Op::V_CMPX_LE_F16 | Op::V_CMPX_LG_F16 | Op::V_CMPX_LT_F16
            | Op::V_CMPX_NEQ_F16 | Op::V_CMPX_NGE_F16 | Op::V_CMPX_NGT_F16 | Op::V_CMPX_NLE_F16
            | Op::V_CMPX_NLG_F16 | Op::V_CMPX_NLT_F16 | Op::V_CMPX_O_F16 | Op::V_CMPX_T_F16
            | Op::V_CMPX_U_F16 => 0b0011,
        _ => 0,
    }
}

/// The bit of `OPSEL` for an operand, where it is in [`crate::inst::Inst`].
pub(crate) fn bit(op: Op, name: Name) -> u8 {
    match name {
        Name::Src0 => 1,
        // The constant is between the sources.
        Name::Src1 if op == Op::V_FMAMK_F16 => 4,
        Name::Src1 => 2,
        Name::Src2 => 4,
        _ => 8,
    }
}
