//! Halves of registers that VOP3 encodes in `OPSEL` and that the tables have no operand for.
//!
//! The target description reads 16-bit integer operations of VOP3 as if they always took low halves; newer ones and the
//! hardware have `OPSEL` there (AMD, "RDNA3 Instruction Set Architecture", VOP3: "OPSEL: operation select for 16-bit math").
//! Compilers use it: clang 20 and later write `v_mul_lo_u16 v1.l, v1.h, 3`. The disassembler's text is that of the target
//! description, without the halves.

use crate::encoding::{Form, Name, Tables};
use crate::inst::{Format, Op};

/// Lowest bit of `OPSEL`: three for the sources, then one for the destination, as [`crate::inst::Mods::op_sel`] has them.
const SHIFT: u32 = 11;
const MASK: u128 = 0xf << SHIFT;

/// The bits of a form's encoding that say which halves it takes, where no operand has them.
pub(crate) fn field(tables: &Tables, form: &Form) -> u128 {
    let modified = || {
        let names = [Name::Src0Modifiers, Name::Src1Modifiers, Name::Src2Modifiers];
        tables.operands_of(form).iter().any(|spec| names.contains(&spec.0))
    };
    if form.format == Format::Vop3 && takes_halves(form.op) && !modified() { MASK } else { 0 }
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

/// Operations of 16-bit integers, and those with a 16-bit count, whose VOP3 form the target description gives no modifiers.
#[rustfmt::skip]
const fn takes_halves(op: Op) -> bool {
    matches!(
        op,
        Op::V_AND_B16 | Op::V_OR_B16 | Op::V_XOR_B16 | Op::V_NOT_B16
            | Op::V_ASHRREV_I16 | Op::V_LSHLREV_B16 | Op::V_LSHRREV_B16
            | Op::V_ALIGNBIT_B32 | Op::V_ALIGNBYTE_B32
            | Op::V_MUL_LO_U16 | Op::V_MAX_I16 | Op::V_MAX_U16 | Op::V_MIN_I16 | Op::V_MIN_U16
            | Op::V_CVT_F16_I16 | Op::V_CVT_F16_U16 | Op::V_CVT_I32_I16 | Op::V_CVT_U32_U16
            | Op::V_CMP_EQ_I16 | Op::V_CMP_EQ_U16 | Op::V_CMP_GE_I16 | Op::V_CMP_GE_U16
            | Op::V_CMP_GT_I16 | Op::V_CMP_GT_U16 | Op::V_CMP_LE_I16 | Op::V_CMP_LE_U16
            | Op::V_CMP_LT_I16 | Op::V_CMP_LT_U16 | Op::V_CMP_NE_I16 | Op::V_CMP_NE_U16
            | Op::V_CMPX_EQ_I16 | Op::V_CMPX_EQ_U16 | Op::V_CMPX_GE_I16 | Op::V_CMPX_GE_U16
            | Op::V_CMPX_GT_I16 | Op::V_CMPX_GT_U16 | Op::V_CMPX_LE_I16 | Op::V_CMPX_LE_U16
            | Op::V_CMPX_LT_I16 | Op::V_CMPX_LT_U16 | Op::V_CMPX_NE_I16 | Op::V_CMPX_NE_U16
    )
}
