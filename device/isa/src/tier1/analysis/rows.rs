//! Rows of vector registers that elements read and write.

use super::elements::registers;
use super::packed::{Packed, packed};
use super::template::{Template, is_division, is_product, is_wide, template};
use crate::exec::di::{Di, Kind, flag};
use crate::exec::form::Form;

/// Rows an element writes, for the element's form and a wave of `halves`.
pub(crate) fn written(form: Form, d: &Di, halves: u32) -> Vec<u32> {
    let registers = match form {
        Form::Pair(..) => return vec![d.dst, d.dst2],
        Form::Swap => return [d.dst, d.src[0].value].into_iter().flat_map(|row| row..row + halves).collect(),
        Form::Vector(_) if template(form, d).is_some_and(Template::makes_pair) => 2,
        Form::Carry(_) if is_wide(form, d) => 2,
        Form::Vector(_)
        | Form::Carry(_)
        | Form::Select
        | Form::SelectHalf
        | Form::WriteLane
        | Form::Saturating(_)
        | Form::Packed(_)
        | Form::Mixed(_)
        | Form::Keep
        | Form::Part
        | Form::Permute(_)
        | Form::Swizzle
        | Form::PermuteRow { .. }
        | Form::BackwardPermute
        | Form::CountBelow { .. } => 1,
        Form::GlobalLoad(moves) | Form::FlatLoad(moves) | Form::BufferLoad(moves) | Form::LdsLoad(moves) => {
            registers(moves)
        }
        Form::LdsLoadTwo(dwords) => 2 * dwords,
        Form::LdsAtomic(_, bits) | Form::GlobalAtomic(_, bits) if d.flags & flag::RETURN != 0 => bits / 32,
        Form::Compare(_)
        | Form::GlobalStore(_)
        | Form::FlatStore(_)
        | Form::BufferStore(_)
        | Form::LdsStore(_)
        | Form::LdsStoreTwo(_)
        | Form::LdsAtomic(..)
        | Form::GlobalAtomic(..)
        | Form::ReadLane
        | Form::ReadFirstLane
        | Form::Call
        | Form::ExecMask { .. }
        | Form::RestoreExec
        | Form::Scalar(_)
        | Form::ScalarLoad(_)
        | Form::Look
        | Form::Branch(_)
        | Form::Barrier
        | Form::End => 0,
    };
    (0..registers * halves).map(|row| d.dst + row).collect()
}

/// Rows an element reads or writes, for the element's form and a wave of `halves`.
pub(crate) fn rows(form: Form, d: &Di, halves: u32) -> Vec<u32> {
    let mut rows = Vec::new();
    let mut source = |n: usize, registers: u32| {
        if d.src[n].kind == Kind::Vector {
            rows.extend((0..registers * halves).map(|row| d.src[n].value + row));
        }
    };
    match form {
        Form::Vector(_) | Form::Saturating(_) | Form::Part => {
            if let Some(template) = template(form, d) {
                (0..template.arity()).for_each(|n| source(n, if template.takes_pair(n) { 2 } else { 1 }));
            }
        }
        Form::Pair(..) => {
            source(0, 1);
            source(1, 1);
            rows.extend([d.src[2].value, d.imm]);
        }
        Form::Carry(op) => {
            let registers = if is_division(op) && is_wide(form, d) { 2 } else { 1 };
            source(0, registers);
            source(1, registers);
            if is_product(op) {
                source(2, 2);
            } else if is_division(op) {
                source(2, registers);
            }
        }
        Form::Compare(_) => {
            let registers = if is_wide(form, d) { 2 } else { 1 };
            source(0, registers);
            source(1, registers);
        }
        Form::Select | Form::SelectHalf | Form::BackwardPermute => {
            source(0, 1);
            source(1, 1);
        }
        Form::FlatLoad(_) => source(0, 2),
        Form::FlatStore(moves) => {
            source(0, 2);
            source(1, registers(moves));
        }
        Form::GlobalLoad(_) => source(0, if d.dst2 != 2 { 2 } else { 1 }),
        Form::BufferLoad(_) | Form::LdsLoad(_) | Form::LdsLoadTwo(_) => source(0, 1),
        Form::BufferStore(moves) => {
            source(0, 1);
            rows.extend((0..registers(moves) * halves).map(|row| d.dst + row));
        }
        Form::GlobalStore(moves) | Form::LdsStore(moves) => {
            source(0, if matches!(form, Form::GlobalStore(_)) && d.dst2 != 2 { 2 } else { 1 });
            source(1, registers(moves));
        }
        Form::LdsAtomic(function, bits) => {
            source(0, 1);
            (1..=function.operands()).for_each(|n| source(n as usize, bits / 32));
        }
        Form::GlobalAtomic(function, bits) => {
            source(0, if d.dst2 != 2 { 2 } else { 1 });
            source(1, bits / 32 * function.operands());
        }
        Form::LdsStoreTwo(dwords) => {
            source(0, 1);
            source(1, dwords);
            source(2, dwords);
        }
        Form::Packed(_) | Form::Mixed(_) => {
            let sources = match form {
                Form::Packed(op) => packed(op, d).map_or(0, Packed::arity),
                _ => 3,
            };
            (0..sources).for_each(|n| source(n, 1));
        }
        Form::Permute(_) | Form::Swizzle | Form::PermuteRow { .. } | Form::ReadLane | Form::ReadFirstLane => {
            source(0, 1);
        }
        Form::CountBelow { .. } => {
            source(0, 1);
            source(1, 1);
        }
        Form::Keep
        | Form::Swap
        | Form::WriteLane
        | Form::Call
        | Form::ExecMask { .. }
        | Form::RestoreExec
        | Form::Scalar(_)
        | Form::ScalarLoad(_)
        | Form::Look
        | Form::Branch(_)
        | Form::Barrier
        | Form::End => {}
    }
    rows.extend(written(form, d, halves));
    rows
}
