//! Elements that compiled code does without their handlers, and elements that may change EXEC.

use super::classes::asked;
use super::packed::packed;
use super::template::Template;
use super::{EXEC, elements, permuted, template};
use crate::exec::di::{Di, Kind, flag};
use crate::exec::form::Form;
use crate::exec::vector::cmp::Operands;
use crate::inst::Op;
use crate::tier1::scalar as scalars;

/// Returns true if compiled code does an element without its handler.
pub(crate) fn is_covered(form: Form, d: &Di, halves: u32) -> bool {
    let plain = d.flags & (flag::SLOW | flag::CLAMP | flag::DST_HIGH) == 0 && d.omod == 0;
    match form {
        Form::Call => false,
        // A result of 16 bits may be a high half.
        Form::Vector(op) => match template::vector(op, d) {
            Some(template) if matches!(template, Template::Recipe(_)) || template.makes_half() => {
                is_usual(d) && d.flags & flag::CLAMP == 0
            }
            template => plain && template.is_some(),
        },
        Form::Pair(x, y) => {
            let has = |op: Op| matches!(op, Op::V_FMAC_F32 | Op::V_MUL_F32 | Op::V_ADD_F32);
            plain && halves == 1 && has(x) && has(y)
        }
        Form::Carry(op) => {
            plain
                && matches!(
                    op,
                    Op::V_MAD_U64_U32
                        | Op::V_MAD_I64_I32
                        | Op::V_DIV_SCALE_F32
                        | Op::V_DIV_FMAS_F32
                        | Op::V_DIV_SCALE_F64
                        | Op::V_DIV_FMAS_F64
                        | Op::V_ADD_CO_U32
                        | Op::V_SUB_CO_U32
                        | Op::V_SUBREV_CO_U32
                        | Op::V_ADD_CO_CI_U32
                        | Op::V_SUB_CO_CI_U32
                        | Op::V_SUBREV_CO_CI_U32
                )
        }
        Form::Compare(operands) => {
            plain
                && match operands {
                    Operands::ClassF16 | Operands::ClassF32 | Operands::ClassF64 => asked(d).is_some(),
                    _ => true,
                }
        }
        Form::Saturating(_) => is_usual(d) && template::template(form, d).is_some(),
        Form::Select => plain && d.src[2].kind == Kind::Scalar,
        Form::SelectHalf => is_usual(d) && d.src[2].kind == Kind::Scalar,
        Form::Swap => true,
        Form::Scalar(op) => scalars::has(op),
        Form::Packed(op) => is_usual(d) && packed(op, d).is_some(),
        Form::Mixed(_) => d.flags & (flag::SLOW | flag::CLAMP) == 0,
        Form::ScalarLoad(dwords) => elements::has_scalar_load(dwords, d),
        Form::Keep
        | Form::Part
        | Form::Look
        | Form::ExecMask { .. }
        | Form::Branch(_)
        | Form::Barrier
        | Form::End => true,
        form if form.is_memory() => elements::has(form),
        form => plain && permuted::has(form, d, halves),
    }
}

/// Returns true if no mode and no modifier changes the result of an operation on integers.
fn is_usual(d: &Di) -> bool {
    d.flags & flag::SLOW == 0 && d.omod == 0
}

/// Returns true if the handler does a covered element in a block all the same.
pub(crate) fn is_by_handler(form: Form, d: &Di, masked: bool) -> bool {
    permuted::is_by_handler(form, d, masked)
}

/// Returns true if an element may change EXEC.
pub(crate) fn changes_exec(form: Form, d: &Di) -> bool {
    // The scalar destination may be a pair.
    let to_exec = |register: u32| register + 1 >= EXEC && register < EXEC + 2;
    match form {
        Form::Call | Form::ExecMask { .. } => true,
        Form::Compare(_) => to_exec(d.dst),
        Form::Scalar(_) => to_exec(d.dst),
        Form::Carry(_) => to_exec(d.dst2),
        Form::ReadLane | Form::ReadFirstLane => to_exec(d.dst),
        Form::Permute(control) => !control.keeps_exec(d),
        Form::RestoreExec => true,
        _ => false,
    }
}
