//! Defined bits after operations on scalar registers: masks bit by bit, all other results as a whole.

use super::{Defined, Undefined, Use};
use crate::exec::properties::{Family, properties};
use crate::exec::scalar::exec_mask;
use crate::exec::tools::pending::{Registers, registers};
use crate::inst::{Inst, Op, Operand, WaveSize};
use crate::registers::RegisterFile;
use crate::registers::slot;
use crate::tables::{OperandType, Place};
use crate::wave::Wave;

/// Operation of a mask on bits of two sources, of which some are known.
#[derive(Clone, Copy)]
enum Bits {
    And,
    AndNot,
    Or,
    OrNot,
    Xor,
}

impl Bits {
    fn of(op: Op) -> Option<Self> {
        Some(match op {
            Op::S_AND_B32 | Op::S_AND_B64 | Op::S_NAND_B32 | Op::S_NAND_B64 => Self::And,
            Op::S_AND_NOT1_B32 | Op::S_AND_NOT1_B64 => Self::AndNot,
            Op::S_OR_B32 | Op::S_OR_B64 | Op::S_NOR_B32 | Op::S_NOR_B64 => Self::Or,
            Op::S_OR_NOT1_B32 | Op::S_OR_NOT1_B64 => Self::OrNot,
            Op::S_XOR_B32 | Op::S_XOR_B64 | Op::S_XNOR_B32 | Op::S_XNOR_B64 => Self::Xor,
            _ => return None,
        })
    }

    /// Returns the result of the bits, not inverted, and which of them are defined.
    fn apply(self, (a, known_a): (u64, u64), (b, known_b): (u64, u64)) -> (u64, u64) {
        let both = known_a & known_b;
        match self {
            Self::And => (a & b, both | known_a & !a | known_b & !b),
            Self::AndNot => (a & !b, both | known_a & !a | known_b & b),
            Self::Or => (a | b, both | known_a & a | known_b & b),
            Self::OrNot => (a | !b, both | known_a & a | known_b & !b),
            Self::Xor => (a ^ b, both),
        }
    }
}

/// Returns true if an operation of the scalar ALU leaves SCC as it is.
fn keeps_scc(op: Op) -> bool {
    let name = op.mnemonic();
    let kept = [
        "s_mov",
        "s_cmov",
        "s_cselect",
        "s_mul",
        "s_bfm",
        "s_pack",
        "s_brev",
        "s_sext",
        "s_bitset",
        "s_ff",
        "s_flbit",
        "s_cls",
        "s_clz",
        "s_ctz",
        "s_bitreplicate",
        "s_getpc",
    ];
    kept.iter().any(|part| name.starts_with(part))
}

impl Defined {
    /// The bits of a scalar operand: its value, and which are defined.
    pub(super) fn bits(&self, wave: &Wave, operand: Operand, words: u16) -> (u64, u64) {
        match operand {
            Operand::Sgpr(number) => {
                let word = |at: u16| match self.slot(u16::from(number) + at) {
                    Some(slot) => (wave.s[slot], self.scalars[slot]),
                    None => (0, u32::MAX),
                };
                let (low, high) = (word(0), if words >= 2 { word(1) } else { (0, u32::MAX) });
                (u64::from(low.0) | u64::from(high.0) << 32, u64::from(low.1) | u64::from(high.1) << 32)
            }
            Operand::Scc => (u64::from(wave.scc()), if self.scc { u64::MAX } else { 0 }),
            Operand::InlineInt(value) => (i64::from(value).cast_unsigned(), u64::MAX),
            Operand::Literal(value) => (i64::from(value.cast_signed()).cast_unsigned(), u64::MAX),
            _ => (0, u64::MAX),
        }
    }

    pub(super) fn scalar_operation(
        &mut self,
        wave: &Wave,
        inst: &Inst,
        types: &[OperandType],
    ) -> Option<Undefined> {
        let source = |at: usize| {
            let kind = types.iter().find(|kind| kind.place == Place::Src(at));
            kind.map_or((0, u64::MAX), |kind| self.bits(wave, inst.src[at], u16::from(kind.words)))
        };
        let ([a, b], scc) = ([source(0), source(1)], self.scc);
        let width = |kind: &OperandType| if kind.words >= 2 { u64::MAX } else { 0xffff_ffff };
        let dst = types.iter().find(|kind| kind.place == Place::Dst);
        let within = dst.map_or(u64::MAX, width);
        let whole = |known: u64| if known == u64::MAX { u64::MAX } else { 0 };
        let name = inst.op.mnemonic();
        let mut flag = None;
        let known = match inst.op {
            Op::S_CSELECT_B32 | Op::S_CSELECT_B64 if !scc => 0,
            Op::S_CSELECT_B32 | Op::S_CSELECT_B64 => {
                if wave.scc() {
                    a.1
                } else {
                    b.1
                }
            }
            Op::S_MOV_B32 | Op::S_MOV_B64 => a.1,
            Op::S_NOT_B32 | Op::S_NOT_B64 => {
                flag = Some(a.1 & within == within || !a.0 & a.1 & within != 0);
                a.1
            }
            Op::S_BITCMP0_B32 | Op::S_BITCMP1_B32 | Op::S_BITCMP0_B64 | Op::S_BITCMP1_B64 => {
                let wide = matches!(inst.op, Op::S_BITCMP0_B64 | Op::S_BITCMP1_B64);
                let bit = b.0 & if wide { 63 } else { 31 };
                whole(if a.1 >> bit & 1 != 0 { b.1 } else { 0 })
            }
            op => match Bits::of(op) {
                Some(bits) => {
                    let (value, known) = bits.apply(a, b);
                    // The flag says whether the result is not 0.
                    let is_not =
                        name.starts_with("s_nand") || name.starts_with("s_nor") || name.starts_with("s_xnor");
                    let value = if is_not { !value } else { value };
                    flag = Some(known & within == within || value & known & within != 0);
                    known
                }
                None => {
                    let reads_scc = name.starts_with("s_addc")
                        || name.starts_with("s_subb")
                        || name.starts_with("s_cmov");
                    let old = match dst {
                        // These change what they write.
                        Some(kind)
                            if ["s_addk", "s_mulk", "s_cmov", "s_bitset"]
                                .iter()
                                .any(|of| name.starts_with(of)) =>
                        {
                            self.bits(wave, inst.dst, u16::from(kind.words)).1
                        }
                        _ => u64::MAX,
                    };
                    whole(a.1 & b.1 & old & if reads_scc && !scc { 0 } else { u64::MAX })
                }
            },
        };
        if let Some(kind) = dst
            && let Some(Registers { vector: false, first, count }) =
                registers(inst.dst, u16::from(kind.words), false)
        {
            let words = [known as u32, (known >> 32) as u32, u32::MAX, u32::MAX];
            self.set_scalars(first, &words[..usize::from(count).min(4)]);
        }
        if matches!(properties(inst.op).family, Family::ScalarFloat(..)) || keeps_scc(inst.op) {
            return self.exec_is_known();
        }
        self.scc = flag.unwrap_or(known == u64::MAX || known & within == within && dst.is_some());
        self.exec_is_known()
    }

    pub(super) fn exec_mask(
        &mut self,
        wave: &Wave,
        inst: &Inst,
        function: exec_mask::Function,
        types: &[OperandType],
    ) -> Option<Undefined> {
        use exec_mask::Function::{And, AndNot0, AndNot1, Nand, Nor, Or, OrNot0, OrNot1, Xnor, Xor};
        let words = if self.size == WaveSize::Wave32 { 1 } else { 2 };
        let source = self.bits(wave, inst.src[0], words);
        let exec = (wave.exec(), u64::MAX);
        let (_, known) = match function {
            And | Nand => Bits::And.apply(source, exec),
            Or | Nor => Bits::Or.apply(source, exec),
            Xor | Xnor => Bits::Xor.apply(source, exec),
            AndNot0 => Bits::AndNot.apply(exec, source),
            AndNot1 => Bits::AndNot.apply(source, exec),
            OrNot0 => Bits::OrNot.apply(exec, source),
            OrNot1 => Bits::OrNot.apply(source, exec),
        };
        let missing = !known & self.all_lanes();
        let told = match inst.src[0] {
            Operand::Sgpr(number) if missing != 0 => {
                self.set_mask(u16::from(number), u64::MAX);
                let lane = Some(missing.trailing_zeros() as u8);
                Some(Undefined { register: Some((false, u16::from(number))), used: Use::Branch, lane })
            }
            _ => None,
        };
        self.define(inst, types, u64::MAX);
        self.scc = true;
        told
    }

    /// Reports lanes that undefined bits have switched; EXEC is not reported again after that.
    pub(super) fn exec_is_known(&mut self) -> Option<Undefined> {
        let known = u64::from(self.scalars[slot::EXEC]) | u64::from(self.scalars[slot::EXEC + 1]) << 32;
        let missing = !known & self.all_lanes();
        self.scalars[slot::EXEC..slot::EXEC + 2].fill(u32::MAX);
        (missing != 0).then(|| Undefined {
            register: Some((false, u16::from(RegisterFile::of(self.arch).exec))),
            used: Use::Branch,
            lane: Some(missing.trailing_zeros() as u8),
        })
    }

    pub(super) fn control(&mut self, wave: &Wave, inst: &Inst, types: &[OperandType]) -> Option<Undefined> {
        let branch = |register| Some(Undefined { register, used: Use::Branch, lane: None });
        match inst.op {
            Op::S_CBRANCH_SCC0 | Op::S_CBRANCH_SCC1 if !self.scc => {
                self.scc = true;
                return branch(None);
            }
            Op::S_CBRANCH_VCCZ | Op::S_CBRANCH_VCCNZ => {
                let number = u16::from(RegisterFile::of(self.arch).vcc);
                let known = self.mask(number);
                let value = u64::from(wave.s[slot::VCC]) | u64::from(wave.s[slot::VCC + 1]) << 32;
                let lanes = self.all_lanes();
                if known & lanes != lanes && value & known & lanes == 0 {
                    self.set_mask(number, u64::MAX);
                    return branch(Some((false, number)));
                }
            }
            Op::S_SETPC_B64 | Op::S_SWAPPC_B64 => {
                let told = self.uses(inst, types, (&[Place::Src(0)], u64::MAX), Use::Address);
                self.define(inst, types, u64::MAX);
                return told;
            }
            // Where registers are not allocated SCC stays as it was, which is not known here.
            Op::S_BARRIER_SIGNAL_ISFIRST | Op::S_ALLOC_VGPR => self.scc = true,
            _ => self.define(inst, types, u64::MAX),
        }
        None
    }
}
