//! Fields of encodings that an operation has no operand for.
//!
//! LLVM 22 describes them as bits that are 0. Hardware does not look at them, and assemblers write other values there:
//! LLVM since January 2026 and Mesa's ACO the inline constant 0 (0x80) in unused sources, from GFX10 on. So these bits
//! do not help to select a form. Two kinds of bits stay: modifiers of operands that are there, and bits that tell one
//! form from another.

use super::forms::Form;
use super::records::Bit;

/// A field: its first bit, its length, and other bits that say something of the same operand only.
type Place = (u32, u32, u128);

/// The fields for operands of an encoding, where the format has them.
///
/// Layouts: LLVM 22, `SIInstrFormats.td`, `VOPInstructions.td`, `VOP{1,2,3P}Instructions.td` and the files of the memory instructions.
fn places(file: &str, format: &str, op: &str, bytes: u64) -> Vec<Place> {
    let gfx12 = file == "gfx12";
    let alone = |places: &[(u32, u32)]| places.iter().map(|&(first, length)| (first, length, 0)).collect();
    let source = |n: u32, others: u128| (32 + 9 * n, 9, 1 << (61 + n) | others);
    // With DPP, the number of the first source is further back, and a value in its field says so.
    let sources = if bytes == 12 { 1..3 } else { 0..3 };
    match (format, bytes) {
        // A prefix with scales, and the instruction behind it.
        (_, 16) => Vec::new(),
        ("Vop3P", _) if op.starts_with("v_mfma_") || op.starts_with("v_smfmac_") => {
            alone(&[(0, 8), (32, 9), (41, 9), (50, 9)])
        }
        ("Vop3P", _) if op.starts_with("v_accvgpr_") => {
            alone(&[(0, 8), (8, 3), (11, 4), (32, 9), (41, 9), (50, 9), (61, 3)])
        }
        ("Vop3P", _) => {
            let high = |n: u32| if n == 2 { 1 << 14 } else { 1 << (59 + n) };
            let places = sources.map(|n| source(n, 1 << (8 + n) | 1 << (11 + n) | high(n)));
            places.chain([(0, 8, 0)]).collect()
        }
        ("Vop3", _) => sources.map(|n| source(n, 1 << (8 + n) | 1 << (11 + n))).chain([(0, 8, 0)]).collect(),
        ("Vop3Sd", _) => sources.map(|n| source(n, 0)).chain([(0, 8, 0), (8, 7, 0)]).collect(),
        ("Vinterp", _) => sources.map(|n| source(n, 0)).chain([(0, 8, 0)]).collect(),
        ("Vop1", 4) => alone(&[(0, 9), (17, 8)]),
        // With DPP or SDWA.
        ("Vop1", 8) if op == "v_nop" => {
            alone(&[(17, 8), (32, 8), (40, 3), (43, 2), (45, 3), (48, 3), (51, 5), (56, 3), (59, 5)])
        }
        ("Vop2" | "Vopc", 4) => alone(&[(0, 9), (9, 8)]),
        ("Vopd", _) => alone(&[(9, 8), (41, 8)]),
        ("Sop1", _) => alone(&[(0, 8), (16, 7)]),
        ("Sop2", _) => alone(&[(0, 8), (8, 8), (16, 7)]),
        ("Sopc", _) => alone(&[(0, 8), (8, 8)]),
        ("Sopk", _) => alone(&[(0, 16), (16, 7)]),
        ("Sopp", _) => alone(&[(0, 16)]),
        ("Smem", _) if gfx12 => alone(&[(0, 6), (6, 7), (32, 24), (57, 7)]),
        ("Smem", _) => alone(&[(0, 6), (6, 7), (32, 21), (57, 7)]),
        ("LdsDir", _) => alone(&[(0, 8), (8, 2), (10, 6)]),
        ("Ds", _) => alone(&[(0, 8), (8, 8), (32, 8), (40, 8), (48, 8), (56, 8)]),
        ("Flat" | "Global" | "Scratch", 12) => alone(&[(0, 7), (32, 8), (55, 8), (64, 8), (72, 24)]),
        ("Flat" | "Global" | "Scratch", _) => {
            alone(&[(0, if file == "gfx9" { 12 } else { 13 }), (32, 8), (40, 8), (48, 7), (56, 8)])
        }
        ("Mubuf", 12) => alone(&[(0, 7), (32, 8), (41, 9), (55, 7), (64, 8), (72, 24)]),
        ("Mtbuf", 12) => alone(&[(0, 7), (32, 8), (41, 9), (64, 8), (72, 24)]),
        ("Mubuf" | "Mtbuf", _) => alone(&[(0, 12), (32, 8), (40, 8), (48, 5), (56, 8)]),
        _ => Vec::new(),
    }
}

/// Bits of an encoding that are fixed though they belong to operands it does not have.
pub(super) fn candidates(file: &str, format: &str, op: &str, bits: &[Bit]) -> u128 {
    let whole = bits.iter().all(|bit| matches!(bit, Bit::Fixed(_)));
    if whole && format == "Vop2" {
        return 0; // The word that is defined to be no instruction.
    }
    let fixed = |position: u32| matches!(bits.get(position as usize), Some(Bit::Fixed(_)));
    let mut unused = 0;
    for (first, length, others) in places(file, format, op, bits.len() as u64 / 8) {
        if (first..first + length).any(|position| matches!(bits.get(position as usize), Some(Bit::Of(..)))) {
            continue;
        }
        unused |= ((1u128 << length) - 1) << first | others;
    }
    (0..128).filter(|&position| unused >> position & 1 != 0 && fixed(position)).map(|at| 1u128 << at).sum()
}

/// A form before the bits that select it are known.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    /// Decoder table it belongs to, and the length of that table's instructions.
    pub(super) table: (usize, u64),
    /// Bits that LLVM's description fixes.
    pub(super) fixed: u128,
    /// Bits of `fixed` that belong to operands it does not have.
    pub(super) unused: u128,
    pub(super) form: Form,
}

impl Draft {
    /// The bits that select it.
    pub(super) const fn mask(&self) -> u128 {
        self.fixed & !self.unused
    }
}

/// Takes bits back into the masks of forms that without them would have words of other forms.
pub(super) fn settle(drafts: &mut [Draft]) {
    loop {
        let mut changed = false;
        for first in 0..drafts.len() {
            for second in first + 1..drafts.len() {
                let (left, right) = (&drafts[first], &drafts[second]);
                let both = left.mask() & right.mask();
                if left.unused | right.unused == 0
                    || left.table.1 != right.table.1
                    || (left.form.value ^ right.form.value) & both != 0
                {
                    continue;
                }
                // Both have these bits, with the same values: they tell nothing.
                let same = left.fixed & right.fixed & !(left.form.value ^ right.form.value);
                for draft in [first, second] {
                    changed |= drafts[draft].unused & !same != 0;
                    drafts[draft].unused &= same;
                }
            }
        }
        if !changed {
            return;
        }
    }
}
