//! Registers that a region's code may leave changed.

use super::template;
use crate::exec::di::Di;
use crate::exec::form::Form;
use crate::registers::slot;
pub(crate) use crate::wave::touched::{LINE, Touched};

/// Returns the places that the elements of a region touch; `None` if a handler, which may touch anything, does one of
/// them.
pub(crate) fn touched(code: &[Di], forms: &[Form], halves: u32) -> Option<Touched> {
    let mut lines = 0;
    let mut rows = Vec::new();
    for (d, &form) in code.iter().zip(forms) {
        if !super::covered::is_covered(form, d, halves) {
            return None;
        }
        rows.extend(template::rows(form, d, halves));
        for (first, count) in scalars(form, d) {
            (first..first + count).for_each(|register| lines |= 1 << ((register as usize & 255) / LINE));
        }
    }
    Some(Touched { lines, rows: ranges(rows) })
}

/// Scalar registers that an element may write which is done without its handler: the first ones, and how many each time.
pub(crate) fn scalars(form: Form, d: &Di) -> [(u32, u32); 3] {
    const NONE: (u32, u32) = (0, 0);
    // Masks and 64-bit results are pairs.
    match form {
        Form::Compare(_) => [(d.dst, 2), NONE, NONE],
        Form::Carry(_) => [(d.dst2, 2), NONE, NONE],
        Form::ReadLane | Form::ReadFirstLane => [(d.dst, 1), NONE, NONE],
        Form::Permute(_) | Form::RestoreExec => [(slot::EXEC as u32, 2), NONE, NONE],
        Form::ScalarLoad(dwords) => [(d.dst, dwords), NONE, NONE],
        Form::Scalar(_) | Form::ExecMask { .. } => {
            [(d.dst, 2), (slot::SCC as u32, 1), (slot::EXEC as u32, 2)]
        }
        _ => [NONE; 3],
    }
}

/// Ascending ranges of rows, the first one and one past the last.
pub(crate) fn ranges(mut rows: Vec<u32>) -> Box<[(u32, u32)]> {
    rows.sort_unstable();
    rows.dedup();
    let ranges = rows.chunk_by(|row, next| row + 1 == *next);
    ranges.filter_map(|range| Some((*range.first()?, range.last()? + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::di::{Flow, Kind, Source};
    use crate::exec::properties::Moves;
    use crate::inst::Op;

    fn element(dst: u32, dst2: u32, rows: [u32; 3]) -> Di {
        let vector = |value| Source { value, kind: Kind::Vector, ..Source::ZERO };
        Di {
            f: |_, _, _| Flow::NEXT,
            dst,
            dst2,
            src: rows.map(vector),
            imm: 0,
            flags: 0,
            omod: 0,
            count: 1,
            aux: 0,
        }
    }

    #[test]
    fn results_of_every_kind_are_touched() {
        let code = [
            element(9, 0, [4, 5, 0]),
            element(12, 106, [4, 5, 0]),
            element(20, 0, [8, 0, 0]),
            element(33, 0, [0; 3]),
        ];
        let forms = [
            Form::Vector(Op::V_ADD_NC_U32),
            Form::Carry(Op::V_ADD_CO_U32),
            Form::GlobalLoad(Moves::Dwords(4)),
            Form::ExecMask { saves: true, wide: false },
        ];
        let touched = touched(&code, &forms, 1).unwrap();
        assert_eq!(*touched.rows, [(4, 6), (8, 10), (12, 13), (20, 24)]);
        let lines = [33, 106, 126, 253].map(|register| 1 << (register / LINE));
        assert_eq!(touched.lines, lines.into_iter().fold(0, |all, line| all | line));
    }

    #[test]
    fn nothing_is_known_of_what_handlers_touch() {
        assert!(touched(&[element(0, 0, [0; 3])], &[Form::Call], 1).is_none());
        let end = touched(&[element(0, 0, [0; 3])], &[Form::End], 1).unwrap();
        assert!(end.lines == 0 && end.rows.is_empty());
    }
}
