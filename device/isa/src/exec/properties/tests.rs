//! The table against the rules it replaces, for every operation.

use super::*;
use crate::exec::lower::{old_ends, old_hint, old_looks};
use crate::exec::op::Format as Number;
use crate::exec::{carry, cmp, exceptions, rounded, vop_clamp, vop3p};
use crate::inst::{Arch, Format, Inst, WaveSize};
use crate::trap::EXCP_EN;

fn any() -> Inst {
    let nop = 0xbf80_0000_u32.to_le_bytes();
    crate::decode::decode_for(Arch::Gfx1100, WaveSize::Wave32, &nop).expect("s_nop")
}

fn formats(op: Op) -> impl Iterator<Item = Format> {
    crate::tables::patterns(Arch::Gfx1100)
        .filter(move |pattern| pattern.op == op)
        .map(|pattern| pattern.format)
}

#[test]
fn exceptions_are_those_of_the_mnemonics() {
    let (mut vector, mut packed, mut compared) = (0, 0, 0);
    for &op in Op::ALL {
        let (row, name) = (properties(op), op.mnemonic());
        match row.family {
            Family::Vector(definitions) => {
                let entry = definitions(op, BackendKind::Portable).expect("it is defined where the row says");
                let table = crate::exec::lower::old_table(op, BackendKind::Portable).expect("so it was");
                assert_eq!(entry.general as usize, table.general as usize, "{name}");
                assert_eq!(row.raises, exceptions::rule(op, entry.input, entry.output), "{name}");
                for mode in 0..16 {
                    let Some(other) = rounded::entry(op, mode) else { continue };
                    assert_eq!(row.raises, exceptions::rule(op, other.input, other.output), "{name}");
                }
                vector += 1;
            }
            Family::Packed => {
                let (_, _, format) = vop3p::entry(op, false).expect("it is packed");
                let old = exceptions::rule(op, format, format).filter(|_| format == Number::F16);
                assert_eq!(row.raises, old, "{name}");
                packed += 1;
            }
            Family::Comparison => {
                let comparison = cmp::parse(name, BackendKind::Portable).expect("it is a comparison");
                let quiet = comparison.format != Number::Bits && !name.contains("_class_");
                assert_eq!(row.raises, quiet.then_some(Rule::Quiet), "{name}");
                compared += 1;
            }
            _ => {
                assert!(crate::exec::lower::old_table(op, BackendKind::Portable).is_none(), "{name}");
                assert!(vop3p::entry(op, false).is_none(), "{name}");
                assert!(rounded::entry(op, EXCP_EN | 0xf).is_none(), "{name}");
                assert_eq!(row.raises.is_some(), name.starts_with("v_fma_mix"), "{name}");
            }
        }
        assert_eq!(vop_clamp::entry(op, BackendKind::Portable).is_some(), vop_clamp::ALL.contains(&op));
        if vop_clamp::ALL.contains(&op) {
            assert!(matches!(row.family, Family::Vector(_)), "{name}");
        }
        assert_eq!(carry::entry(op, BackendKind::Portable).is_some(), matches!(row.family, Family::Carry));
        assert_eq!(name.starts_with("v_cmp"), matches!(row.family, Family::Comparison), "{name}");
    }
    println!("{vector} vector, {packed} packed, {compared} comparisons");
}

#[test]
fn flow_and_signs_are_those_of_the_lists() {
    for &op in Op::ALL {
        let (row, name) = (properties(op), op.mnemonic());
        let mut inst = Inst { op, ..any() };
        assert_eq!(row.ends, old_ends(&inst), "{name}");
        let signed = name.ends_with("i64")
            || op == Op::V_MAD_I64_I32
            || name.starts_with("v_cmp") && name.contains("_i64");
        if row.memory.is_none() {
            assert_eq!(row.signed, signed, "{name}");
        }
        assert_eq!(row.zero_extends, name.starts_with("s_cmpk") && name.ends_with("_u32"), "{name}");
        for format in formats(op) {
            for (glc, dlc) in [(false, false), (false, true), (true, false), (true, true)] {
                inst.format = format;
                (inst.mem.glc, inst.mem.dlc) = (glc, dlc);
                assert_eq!(row.looks(glc | dlc), old_looks(&inst), "{name} {format:?} {glc} {dlc}");
            }
            if old_hint(&inst) {
                assert!(matches!(row.family, Family::Nothing), "{name}");
            }
        }
    }
}
