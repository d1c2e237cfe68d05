//! The table against what encodings and definitions say themselves.

use super::*;
use crate::exec::{carry, cmp, vop_clamp, vop3p};
use crate::inst::{Arch, Format};

fn formats(op: Op) -> impl Iterator<Item = Format> {
    crate::tables::patterns(Arch::Gfx1100)
        .filter(move |pattern| pattern.op == op)
        .map(|pattern| pattern.format)
}

#[test]
fn definitions_are_where_the_rows_say_and_nowhere_else() {
    let backend = BackendKind::Portable;
    for &op in Op::ALL {
        let row = properties(op);
        if let Family::Vector(definitions) = row.family {
            assert!(definitions(op, backend).is_some(), "{op:?}");
        }
        assert!(matches!(row.family, Family::Vector(_)) || !vop_clamp::ALL.contains(&op), "{op:?}");
        let is = |family: fn(Family) -> bool| family(row.family);
        assert_eq!(carry::entry(op, backend).is_some(), is(|f| matches!(f, Family::Carry)), "{op:?}");
        assert_eq!(vop3p::entry(op, false).is_some(), is(|f| matches!(f, Family::Packed)), "{op:?}");
        let comparison = cmp::parse(op.mnemonic(), backend);
        assert_eq!(comparison.is_some(), is(|f| matches!(f, Family::Comparison)), "{op:?}");
        if let Some(comparison) = comparison {
            let raises = comparison.format != crate::exec::op::Format::Bits && !comparison.is_class;
            assert_eq!(row.raises, raises.then_some(Rule::Quiet), "{op:?}");
        }
    }
}

#[test]
fn spaces_are_those_of_the_encodings() {
    for &op in Op::ALL {
        let Some((space, _)) = properties(op).memory else { continue };
        for format in formats(op) {
            let expected = match format {
                Format::Smem => matches!(space, Space::Scalar | Space::ScalarBuffer),
                Format::Ds => space == Space::Lds,
                Format::Flat => space == Space::Flat,
                Format::Global => space == Space::Global,
                Format::Scratch => space == Space::Scratch,
                Format::Mubuf | Format::Mtbuf => matches!(space, Space::Buffer | Space::BufferToLds),
                _ => false,
            };
            assert!(expected, "{op:?} {format:?} {space:?}");
        }
    }
}
