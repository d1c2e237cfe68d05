//! Checks of the table against encodings and definitions.

use super::*;
use crate::exec::memory::ds::narrow::Half;
use crate::exec::vector::{carry, cmp, vop_clamp, vop3p};
use crate::inst::{Arch, Format};

fn formats(op: Op) -> impl Iterator<Item = Format> {
    Arch::ALL
        .into_iter()
        .flat_map(crate::tables::patterns)
        .filter(move |pattern| pattern.op == op)
        .map(|pattern| pattern.format)
}

#[test]
fn definitions_are_where_the_rows_say_and_nowhere_else() {
    let backend = BackendKind::Portable;
    for &op in Op::ALL {
        let row = properties(op);
        let op = meaning(op);
        if let Family::Vector(definitions) = row.family {
            assert!(definitions(op, backend).is_some(), "{op:?}");
        }
        assert!(matches!(row.family, Family::Vector(_)) || !vop_clamp::ALL.contains(&op), "{op:?}");
        let is = |family: fn(Family) -> bool| family(row.family);
        assert_eq!(carry::entry(op, backend).is_some(), is(|f| matches!(f, Family::Carry)), "{op:?}");
        assert_eq!(vop3p::entry(op, false).is_some(), is(|f| matches!(f, Family::Packed)), "{op:?}");
        if let Family::Comparison(operands, outcomes) = row.family {
            let comparison = cmp::entry(operands, outcomes, backend);
            let raises = comparison.format != crate::exec::vector::op::Format::Bits && !comparison.is_class;
            assert_eq!(row.raises, raises.then_some(Rule::Quiet), "{op:?}");
        }
    }
}

/// The table is written by hand, and mnemonics are regular: columns that disagree with the name are mistakes.
#[test]
fn columns_of_comparisons_and_memory_operations_are_those_that_mnemonics_name() {
    for &op in Op::ALL {
        // Older names say it in other words.
        let name = meaning(op).mnemonic();
        match properties(op).family {
            Family::Comparison(operands, outcomes) => {
                let (condition, kind) =
                    name.strip_prefix("v_cmp").unwrap().trim_end_matches("_e32").rsplit_once('_').unwrap();
                let condition = condition.trim_start_matches('x').trim_start_matches('_');
                let class = if condition == "class" { "Class" } else { "" };
                assert_eq!(format!("{operands:?}"), format!("{class}{}", kind.to_uppercase()), "{name}");
                let true_for = ["lt", "eq", "gt", "u"].map(|outcome| outcomes >> place(outcome) & 1 != 0);
                assert_eq!(true_for, relation(condition), "{name}");
            }
            Family::Flat(moves)
            | Family::Lds(ds::Operation::Moves(moves))
            | Family::Buffer(mubuf::Operation::Moves(moves)) => {
                let kind = name.split('_').rfind(|part| part.starts_with(['b', 'u', 'i', 'f'])).unwrap();
                let bits: u32 = kind.trim_start_matches(char::is_alphabetic).parse().unwrap();
                let bits = if name.contains("_pk_") { bits * 2 } else { bits };
                let half = match (name.contains("d16_hi"), name.contains("d16")) {
                    (true, _) => Some(Half::High),
                    (false, true) => Some(Half::Low),
                    (false, false) => None,
                };
                match moves {
                    Moves::Dwords(dwords) => assert_eq!((dwords * 32, half), (bits, None), "{name}"),
                    Moves::Part(part) => {
                        let signed = kind.starts_with('i');
                        assert_eq!((part.bytes * 8, part.signed, part.half), (bits, signed, half), "{name}");
                    }
                    Moves::Atomic(_, of) => assert_eq!(of, bits, "{name}"),
                }
            }
            Family::NarrowScalarMemory(part) => {
                let (kind, bits) = name.rsplit_once('_').unwrap().1.split_at(1);
                let expected = (bits.parse::<u32>().unwrap(), kind == "i", None);
                assert_eq!((part.bytes * 8, part.signed, part.half), expected, "{name}");
            }
            Family::ScalarComparison(operands, outcomes) => {
                let (condition, kind) = name.strip_prefix("s_cmp_").unwrap().rsplit_once('_').unwrap();
                assert_eq!(format!("{operands:?}"), kind.to_uppercase(), "{name}");
                let true_for = ["lt", "eq", "gt", "u"].map(|outcome| outcomes >> place(outcome) & 1 != 0);
                assert_eq!(true_for, relation(condition), "{name}");
            }
            Family::ScalarFloat(op, definitions) => {
                assert!(definitions(op, BackendKind::Portable).is_some(), "{name}");
                let own = name.trim_start_matches("v_").trim_start_matches("s_").replace("cvt_hi", "cvt");
                assert_eq!(op.mnemonic(), format!("v_{own}"));
            }
            Family::ScalarMemory(dwords) | Family::ScalarStore(dwords) if name.contains("_scratch_") => {
                let of = if dwords == 1 { "_dword".to_owned() } else { format!("_dwordx{dwords}") };
                assert!(name.ends_with(&of), "{name}");
            }
            Family::ScalarMemory(dwords) => assert!(name.ends_with(&format!("_b{}", dwords * 32)), "{name}"),
            Family::ExecMask(_, _, bits) => assert!(name.ends_with(&format!("_b{bits}")), "{name}"),
            _ => {}
        }
    }
}

/// Bit of an outcome.
fn place(outcome: &str) -> u32 {
    match outcome {
        "lt" => cmp::LESS,
        "eq" => cmp::EQUAL,
        "gt" => cmp::GREATER,
        _ => cmp::UNORDERED,
    }
    .trailing_zeros()
}

/// Returns for which of less, equal, greater and unordered a condition is true.
fn relation(condition: &str) -> [bool; 4] {
    let not = |[less, equal, greater, unordered]: [bool; 4]| [!less, !equal, !greater, !unordered];
    match condition {
        "f" | "class" => [false; 4],
        "lt" => [true, false, false, false],
        "eq" => [false, true, false, false],
        "le" => [true, true, false, false],
        "gt" => [false, false, true, false],
        "lg" | "ne" => [true, false, true, false],
        "ge" => [false, true, true, false],
        "o" => [true, true, true, false],
        "t" => [true; 4],
        "u" => not(relation("o")),
        "neq" => not(relation("eq")),
        other => not(relation(&other[1..])),
    }
}

#[test]
fn spaces_are_those_of_the_encodings() {
    for &op in Op::ALL {
        let Some((space, _)) = properties(op).memory else { continue };
        for format in formats(op) {
            let expected = match format {
                Format::Smem => {
                    matches!(space, Space::Scalar | Space::ScalarBuffer | Space::ScalarScratch)
                }
                Format::Ds => space == Space::Lds,
                Format::Flat => space == Space::Flat,
                Format::Global => space == Space::Global,
                Format::Scratch => space == Space::Scratch,
                Format::Mubuf | Format::Mtbuf => space == Space::Buffer,
                Format::Mimg | Format::Vimage | Format::Vsample => space == Space::Image,
                _ => false,
            };
            assert!(expected, "{op:?} {format:?} {space:?}");
        }
    }
}

#[test]
fn images_are_a_family_of_their_own_and_nothing_else_is_in_it() {
    for &op in Op::ALL {
        let is_image = matches!(properties(op).family, Family::Image(_));
        assert_eq!(is_image, op.mnemonic().starts_with("image_"), "{op:?}");
    }
}

/// The addresses of samples are those that LLVM's tables say.
#[test]
fn samples_have_the_addresses_of_their_tables() {
    use crate::encoding::Image;
    use crate::exec::image::Operation;
    use crate::exec::image::form::{Addresses, Form};

    let mut seen = 0;
    for tables in [&crate::tables::gfx11::GFX11, &crate::tables::gfx12::GFX12] {
        for image in tables.images {
            let op = tables.forms[usize::from(image.form)].op;
            let Family::Image(Operation::Sample(form)) = properties(op).family else { continue };
            seen += 1;
            let is = |flag| image.is(flag);
            assert_eq!(is(Image::GATHER4), form.is(Form::GATHERS), "{op:?}");
            assert_eq!(is(Image::GRADIENTS), form.is(Form::GRADIENTS), "{op:?}");
            assert_eq!(is(Image::G16), form.is(Form::G16), "{op:?}");
            assert_eq!(is(Image::LOD), form.is(Form::LEVEL) || form.is(Form::LEAST), "{op:?}");
            // In two dimensions, with and without halves.
            for (halves, coordinates) in
                [(0, 2 + u32::from(is(Image::LOD))), (1, 1 + u32::from(is(Image::LOD)))]
            {
                let gradients = match (is(Image::GRADIENTS), is(Image::G16)) {
                    (false, _) => 0,
                    (true, false) => 4,
                    (true, true) => 2,
                };
                let expected = u32::from(image.extra) + gradients + coordinates;
                let addresses = Addresses::of(1 << 4 | halves << 9, form).map(|addresses| addresses.count);
                assert_eq!(addresses, Some(expected), "{op:?}");
            }
        }
    }
    assert!(seen > 100, "{seen}");
}
