//! Bits and forms that LLVM 22's description has lost, and hardware has not.
//!
//! - `op_sel` and `op_sel_hi` of `v_dot4_*` and `v_dot8_*`: LLVM 100485 took them from the assembler. A gfx1200 card chooses
//!   halves by them (`docs/isa-choices.md`). gfx942 does not look at them (LLVM: `hasDOTOpSelHazard`, "DOTs do not use OPSEL").
//! - `SC1` of atomics of doubles that return to accumulation registers (gfx942): fixed to 0, though the same atomics on vector
//!   registers have it.
//! - `global_atomic_add_f32` and `global_atomic_pk_add_f16` that return to accumulation registers (gfx942): no form at all.
//!   LLVM 19 had it, as all atomics of that encoding.

use super::forms::Form;
use super::records::{Bit, Record};
use super::target::Target;
use super::unused::Draft;

/// Bit of a FLAT encoding that makes data registers accumulation registers.
const ACC: u32 = 55;
/// Bit of a FLAT encoding of gfx942 with the higher half of its scope, and the bit of the cache policy that it is.
const SC1: (usize, u8) = (25, 4);
/// Bits of `OPSEL` of VOP3P by source.
const OP_SEL: [usize; 3] = [11, 12, 13];
/// Bits of `OPSEL_HI` of VOP3P by source.
const OP_SEL_HI: [usize; 3] = [59, 60, 14];

/// The bits of a record as hardware has them, and those of the free ones that assemblers write as 1.
pub(super) fn bits(target: &Target, format: &str, op: &str, record: &Record) -> (Vec<Bit>, u128) {
    let mut bits = record.bits();
    let mut written = 0;
    if format == "Vop3P" && dots_integers(op) {
        for (source, (low, high)) in OP_SEL.into_iter().zip(OP_SEL_HI).enumerate() {
            if target.dots_choose_halves {
                let name = format!("src{source}_modifiers");
                bits[low] = Bit::Of(name.clone(), 2);
                bits[high] = Bit::Of(name, 3);
            } else {
                bits[low] = Bit::Free;
                written |= 1 << high;
            }
        }
    }
    let (scope, index) = SC1;
    let has_scope = bits.iter().any(|bit| matches!(bit, Bit::Of(name, _) if name == "cpol"));
    if target.has_accumulation_registers
        && matches!(format, "Flat" | "Global" | "Scratch")
        && has_scope
        && matches!(bits[scope], Bit::Fixed(false))
    {
        bits[scope] = Bit::Of("cpol".to_owned(), index);
    }
    (bits, written)
}

/// Returns true of dot products of integers of four and eight bits.
fn dots_integers(op: &str) -> bool {
    matches!(
        op,
        "v_dot4_i32_i8"
            | "v_dot4_i32_iu8"
            | "v_dot4_u32_u8"
            | "v_dot8_i32_i4"
            | "v_dot8_i32_iu4"
            | "v_dot8_u32_u4"
    )
}

/// Adds the forms on accumulation registers of atomics that have a form on vector registers alone: as those of an atomic
/// that has both.
pub(super) fn accumulating(target: &Target, drafts: &mut Vec<Draft>) {
    if !target.has_accumulation_registers {
        return;
    }
    let alone: Vec<usize> = (0..drafts.len()).filter(|&at| lacks_partner(drafts, &drafts[at])).collect();
    for at in alone {
        let draft = &drafts[at];
        let like = drafts.iter().find(|other| {
            other.fixed == draft.fixed
                && (other.form.operands, other.form.flags) == (draft.form.operands, draft.form.flags)
                && partner(drafts, other).is_some()
        });
        if let Some(like) = like.and_then(|like| partner(drafts, like)) {
            let form = Form {
                value: draft.form.value | 1 << ACC,
                operands: like.form.operands,
                ..draft.form.clone()
            };
            let added = Draft { form, ..draft.clone() };
            drafts.push(added);
        }
    }
}

/// Returns true of an atomic with a result whose form on accumulation registers is not there.
fn lacks_partner(drafts: &[Draft], draft: &Draft) -> bool {
    let returns = matches!(draft.form.format, "Flat" | "Global") && draft.fixed >> ACC & 1 != 0;
    returns && draft.form.value >> ACC & 1 == 0 && partner(drafts, draft).is_none()
}

/// The form of the same bits on accumulation registers.
fn partner<'a>(drafts: &'a [Draft], draft: &Draft) -> Option<&'a Draft> {
    drafts.iter().find(|other| {
        other.fixed == draft.fixed
            && other.form.op == draft.form.op
            && other.form.value == draft.form.value | 1 << ACC
    })
}
