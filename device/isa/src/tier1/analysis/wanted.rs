//! Readers of the lane mask that an element writes.
//!
//! A sum of 64 bits is two elements: the first one leaves its carries in a mask, and the second one takes them from
//! there. Most often the next such sum writes the mask anew before anything reads it in its scalar register. Then it
//! need not get there.

use super::EXEC;
use super::runs::{is_of_lanes, mask_of, scalars_of};
use crate::exec::di::Di;
use crate::exec::form::Form;

/// Number of elements after one that are looked at.
const FURTHEST: usize = 16;

/// Place in which a mask that an element writes is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// In its scalar register.
    InMemory,
    /// With the next element, which is the only one that reads it.
    ByNext,
    /// Nowhere: it is written anew before anything can read it.
    ByNobody,
}

/// Returns the place in which the mask that the first of these elements writes is needed; they are those up to the
/// end of the block.
pub(crate) fn wanted(elements: &[(Form, &Di)], halves: u32) -> Wanted {
    let Some((&(form, d), behind)) = elements.split_first() else { return Wanted::InMemory };
    let Some(mask) = mask_of(form, d) else { return Wanted::InMemory };
    let overlaps = |other: u32| other.abs_diff(mask) < halves;
    if overlaps(EXEC) {
        return Wanted::InMemory;
    }
    let mut wanted = Wanted::ByNobody;
    for (n, &(form, d)) in behind.iter().enumerate().take(FURTHEST) {
        // Handlers see every register, and so do the readers of a fault.
        if !is_of_lanes(form, d) {
            break;
        }
        let (splats, masks) = scalars_of(form, d);
        let is_read = masks.contains(&mask);
        if splats.into_iter().chain(masks).any(|register| overlaps(register) && register != mask)
            || scalars_of(form, d).0.contains(&mask)
        {
            break;
        }
        if is_read {
            if n > 0 {
                break;
            }
            wanted = Wanted::ByNext;
        }
        match mask_of(form, d) {
            Some(written) if written == mask => return wanted,
            Some(written) if overlaps(written) => break,
            _ => {}
        }
    }
    Wanted::InMemory
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::di::{Flow, Kind, Source};
    use crate::exec::properties::Moves;
    use crate::inst::Op;

    const VCC: u32 = 106;
    const LOW: Form = Form::Carry(Op::V_ADD_CO_U32);
    const HIGH: Form = Form::Carry(Op::V_ADD_CO_CI_U32);

    fn element() -> Di {
        let vector = Source { value: 4, kind: Kind::Vector, ..Source::ZERO };
        Di {
            f: |_, _, _| Flow::NEXT,
            dst: 2,
            dst2: VCC,
            src: [vector; 3],
            imm: VCC,
            flags: 0,
            omod: 0,
            count: 1,
            aux: 0,
        }
    }

    #[test]
    fn carries_go_to_the_next_element_until_there_are_others() {
        let d = element();
        let with = |forms: &[Form], halves| {
            wanted(&forms.iter().map(|&form| (form, &d)).collect::<Vec<_>>(), halves)
        };
        assert_eq!(with(&[LOW, HIGH, LOW], 1), Wanted::ByNext);
        assert_eq!(with(&[HIGH, LOW], 1), Wanted::ByNobody);
        assert_eq!(with(&[HIGH, LOW], 2), Wanted::ByNobody);
        assert_eq!(with(&[LOW, HIGH, LOW], 2), Wanted::ByNext);
        // The end of the block, and what may have a fault told of.
        assert_eq!(with(&[HIGH], 1), Wanted::InMemory);
        assert_eq!(with(&[HIGH, Form::GlobalLoad(Moves::Dwords(1)), LOW], 1), Wanted::InMemory);
        // Not the next one alone.
        assert_eq!(with(&[LOW, Form::Keep, HIGH], 1), Wanted::InMemory);
    }

    #[test]
    fn a_mask_that_is_read_as_a_number_is_in_memory() {
        let d = element();
        let splat =
            Di { src: [Source { value: VCC, kind: Kind::Scalar, ..Source::ZERO }; 3], imm: 0, ..element() };
        let reads = [(HIGH, &d), (Form::Vector(Op::V_ADD_NC_U32), &splat), (LOW, &d)];
        assert_eq!(wanted(&reads, 1), Wanted::InMemory);
    }
}
