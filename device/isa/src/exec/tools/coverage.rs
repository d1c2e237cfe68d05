//! Operations that have semantics, found by lowering every encoding of them.
//!
//! An encoding counts when it lowers in every variation that its fields allow: vector and scalar sources, source
//! modifiers, `clamp`, `omod`, every wave size it exists in, and modes that round and flush in other ways.

use crate::tables;
use std::collections::BTreeMap;

use crate::decode::decode_for;
use crate::encoding::{Decode, Form, Name, OperandSpec, Segment, Tables};
use crate::exec::lower;
use crate::inst::{Arch, Format, Op, WaveSize};
use crate::wave::Wave;

/// Coverage of one operation by the engine.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// The operation.
    pub op: Op,
    /// Encoding families it is in.
    pub formats: Vec<Format>,
    /// Variations that have no semantics, by name; empty when the operation is complete.
    pub missing: Vec<&'static str>,
}

impl Coverage {
    /// Returns true if every variation of every encoding has semantics.
    pub fn is_complete(&self) -> bool {
        self.missing.is_empty()
    }
}

/// Returns true if `op` has an encoding on `arch` and every encoding has semantics.
pub fn supports(arch: Arch, op: Op) -> bool {
    coverage(arch).iter().any(|entry| entry.op == op && entry.is_complete())
}

/// All operations of `arch`, by mnemonic. The Y halves of VOPD count under their own names.
pub fn coverage(arch: Arch) -> Vec<Coverage> {
    let tables = tables::of(arch);
    let mut all: BTreeMap<&'static str, Coverage> = BTreeMap::new();
    for table in tables.tables {
        let groups = &tables.groups[usize::from(table.first)..][..usize::from(table.len)];
        let forms = groups.iter().flat_map(|g| &tables.forms[usize::from(g.first)..][..usize::from(g.len)]);
        for form in forms.filter(|form| form.processors & tables::bit(arch) != 0) {
            let missing = missing(arch, tables, form);
            for op in core::iter::once(form.op).chain(form.dual) {
                let entry = all.entry(op.mnemonic()).or_insert_with(|| Coverage {
                    op,
                    formats: Vec::new(),
                    missing: Vec::new(),
                });
                if !entry.formats.contains(&form.format) {
                    entry.formats.push(form.format);
                }
                for name in &missing {
                    if !entry.missing.contains(name) {
                        entry.missing.push(name);
                    }
                }
            }
        }
    }
    let mut all: Vec<Coverage> = all.into_values().collect();
    for entry in &mut all {
        entry.formats.sort_unstable_by_key(|format| *format as u8);
    }
    all
}

/// A variation of an encoding: its name, the content of an operand's field, and `MODE`.
struct Variation {
    name: &'static str,
    mode: u32,
    field: fn(&Form, Operand) -> u64,
}

/// Properties of an operand that a variation depends on.
#[derive(Clone, Copy)]
struct Operand {
    name: Name,
    decode: Decode,
    class: &'static str,
    all_ones: u64,
}

/// First vector register as a source.
const V0: u64 = 256;

fn plain(form: &Form, operand: Operand) -> u64 {
    match (operand.decode, operand.name) {
        // The workgroup's barrier, -1: there are none that have names.
        (Decode::Src, Name::Src0) if form.op.names_barrier() => 193,
        (Decode::Src | Decode::SrcT16, _) if operand.class.starts_with('V') => V0,
        (Decode::SrcAv | Decode::SrcAgpr, _) => V0,
        (Decode::Imm, Name::Simm16) => match form.op {
            // Hardware register 1, all 32 bits: MODE.
            Op::S_GETREG_B32 | Op::S_SETREG_B32 | Op::S_SETREG_IMM32_B32 => 0xf801,
            // MSG_INTERRUPT.
            Op::S_SENDMSG | Op::S_SENDMSGHALT => 1,
            _ => 0,
        },
        // MSG_RTN_GET_REALTIME.
        (Decode::Imm, Name::Src0) => 131,
        // Every lane of every row, shifted by one.
        (Decode::Imm, Name::RowMask | Name::BankMask) => 15,
        (Decode::Imm, Name::DppCtrl) => 0x111,
        (Decode::Imm, Name::Fi) if operand.all_ones > 1 => 0xe9,
        // BUF_FMT_8_UNORM.
        (Decode::Imm, Name::Format) => 1,
        _ => 0,
    }
}

fn scalar(form: &Form, operand: Operand) -> u64 {
    let scalar = operand.class.starts_with("VS") && matches!(operand.name, Name::Src1 | Name::Src0);
    if scalar { 4 } else { plain(form, operand) }
}

fn constant(form: &Form, operand: Operand) -> u64 {
    // The inline constant 1.
    let source = operand.class.contains("VS_") || operand.class.starts_with("VISrc");
    let source = source
        || operand.class.starts_with("SSrc") && !form.op.names_barrier()
        || operand.class.starts_with("AReg");
    if source && matches!(operand.decode, Decode::Src | Decode::SrcAgpr) { 129 } else { plain(form, operand) }
}

fn modifiers(form: &Form, operand: Operand) -> u64 {
    match operand.name {
        Name::Src0Modifiers | Name::Src1Modifiers | Name::Src2Modifiers => operand.all_ones,
        _ => plain(form, operand),
    }
}

fn clamp(form: &Form, operand: Operand) -> u64 {
    if operand.name == Name::Clamp { 1 } else { plain(form, operand) }
}

fn omod(form: &Form, operand: Operand) -> u64 {
    if operand.name == Name::Omod { 1 } else { plain(form, operand) }
}

/// `FP_ROUND` towards zero in both widths.
const TOWARDS_ZERO: u32 = Wave::DEFAULT_MODE | 0xf;
/// `FP_DENORM` 0 in both widths.
const FLUSHED: u32 = Wave::DEFAULT_MODE & !0xf0;

const VARIATIONS: [Variation; 8] = [
    Variation { name: "all", mode: Wave::DEFAULT_MODE, field: plain },
    Variation { name: "scalar sources", mode: Wave::DEFAULT_MODE, field: scalar },
    Variation { name: "constant sources", mode: Wave::DEFAULT_MODE, field: constant },
    Variation { name: "source modifiers", mode: Wave::DEFAULT_MODE, field: modifiers },
    Variation { name: "clamp", mode: Wave::DEFAULT_MODE, field: clamp },
    Variation { name: "omod", mode: Wave::DEFAULT_MODE, field: omod },
    Variation { name: "rounding modes", mode: TOWARDS_ZERO, field: plain },
    Variation { name: "flushed denormals", mode: FLUSHED, field: plain },
];

/// Variations of a form that do not lower.
fn missing(arch: Arch, tables: &'static Tables, form: &Form) -> Vec<&'static str> {
    let mut missing = Vec::new();
    for variation in &VARIATIONS {
        let mut bits = form.value;
        for &spec in tables.operands_of(form) {
            let value = (variation.field)(form, describe(tables, spec));
            for &Segment(bit, shift, len) in tables.field(spec) {
                let part = value >> shift & ((1 << len) - 1);
                bits |= u128::from(part) << bit;
            }
        }
        let lowers = |(wave, _): &(WaveSize, &str)| {
            // Bits that do not decode are a combination the format does not have.
            let inst = decode_for(arch, *wave, &bits.to_le_bytes()).ok()?;
            let same = inst.op == form.op && inst.format == form.format;
            same.then(|| lower::has_semantics(&inst, arch, *wave, variation.mode))
        };
        let fails: Vec<_> =
            SIZES.iter().filter(|size| lowers(size) == Some(false)).map(|size| size.1).collect();
        match fails.as_slice() {
            [] => {}
            [size] if variation.name == "all" => return vec![size],
            _ if variation.name == "all" => return vec!["all"],
            _ => missing.push(variation.name),
        }
    }
    missing
}

/// Sizes of waves, and the name for a form that waves of this size do not have.
const SIZES: [(WaveSize, &str); 2] = [(WaveSize::Wave32, "wave32"), (WaveSize::Wave64, "wave64")];

fn describe(tables: &'static Tables, spec: OperandSpec) -> Operand {
    let kind = tables.kind(spec);
    let all_ones = tables
        .field(spec)
        .iter()
        .fold(0, |ones, &Segment(_, shift, len)| ones | ((1_u64 << len) - 1) << shift);
    Operand { name: spec.0, decode: kind.decode, class: kind.class, all_ones }
}
