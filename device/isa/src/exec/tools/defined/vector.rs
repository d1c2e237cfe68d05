//! Defined lanes after vector operations.

use super::{Defined, Undefined, value};
use crate::exec::properties::{Family, properties};
use crate::inst::{Inst, Op, Operand};
use crate::tables::{OperandType, Place};
use crate::wave::Wave;

/// Returns true if an operation takes parts of its sources (halves or bytes): the other parts may be unwritten.
fn takes_parts(op: Op) -> bool {
    let name = op.mnemonic();
    let parts = [
        "v_perm",
        "v_pack",
        "v_align",
        "v_bfi",
        "v_and_or",
        "v_lshl_or",
        "v_cvt_pk",
        "v_cvt_sr",
        "v_dot",
        "v_sad",
    ];
    parts.iter().any(|part| name.starts_with(part)) || name.contains("f16") || name.contains("16")
}

/// Returns true if the low word of a 64-bit result depends on low words alone.
fn is_by_word(op: Op) -> bool {
    matches!(
        op,
        Op::V_MAD_U64_U32
            | Op::V_MAD_I64_I32
            | Op::V_MAD_CO_U64_U32
            | Op::V_MAD_CO_I64_I32
            | Op::V_LSHLREV_B64
            | Op::V_LSHL_ADD_U64
            | Op::V_MOV_B64
    )
}

impl Defined {
    pub(super) fn vector_operation(
        &mut self,
        wave: &Wave,
        inst: &Inst,
        types: &[OperandType],
        family: Family,
    ) -> Option<Undefined> {
        let active = wave.exec() & self.all_lanes();
        if let Family::Matrix = family {
            self.define(inst, types, u64::MAX);
            return None;
        }
        if inst.dpp.is_some() || inst.sdwa.is_some() {
            self.define(inst, types, u64::MAX);
            self.set_implied(inst.dst2, u64::MAX, u64::MAX);
            return None;
        }
        let [first, second] = [false, true].map(|dual| {
            let op = if dual { inst.dual.map(|dual| dual.op) } else { Some(inst.op) };
            op.map(|op| self.result(wave, inst, types, (op, dual)))
        });
        for (dual, result) in [(false, first), (true, second)] {
            let Some(result) = result else { continue };
            let place = if dual { Place::DualDst } else { Place::Dst };
            let kind = types.iter().find(|kind| kind.place == place);
            match kind {
                Some(kind) if result.words[0] != result.words[1] && kind.words == 2 => {
                    let half = OperandType { words: 1, ..*kind };
                    let operand = value(inst, place);
                    self.set(operand, &half, active, result.words[0]);
                    self.set(behind(operand), &half, active, result.words[1]);
                }
                Some(kind) => self.set(value(inst, place), kind, result.active, result.words[1]),
                None if !dual => self.set_implied(inst.dst, active, result.words[1]),
                None => {}
            }
        }
        let lanes = first.map_or(u64::MAX, |result| result.words[1]);
        match types.iter().find(|kind| kind.place == Place::Dst2) {
            Some(kind) => self.set(inst.dst2, kind, active, lanes),
            None => self.set_implied(inst.dst2, active, lanes),
        }
        self.exec_is_known()
    }

    /// In which lanes the two words of a vector operation's result are defined.
    fn result(&self, wave: &Wave, inst: &Inst, types: &[OperandType], (op, dual): (Op, bool)) -> Written {
        let active = wave.exec() & self.all_lanes();
        let all = Written { active, words: [u64::MAX; 2] };
        let sources = types.iter().filter(|kind| match kind.place {
            Place::Src(_) => !dual,
            Place::DualSrc(_) => dual,
            _ => false,
        });
        let of = |kind: &OperandType| self.lanes(value(inst, kind.place), kind, 0).0;
        let source = |at: usize| if dual { Place::DualSrc(at) } else { Place::Src(at) };
        let implied = |at: usize| {
            let operand = value(inst, source(at));
            let listed = types.iter().any(|kind| kind.place == source(at));
            matches!(operand, Operand::Sgpr(_)).then_some(operand).filter(|_| !listed)
        };
        let by_lane = |operand: Operand| match operand {
            Operand::Sgpr(number) => self.mask(u16::from(number)),
            _ => u64::MAX,
        };
        let carry = implied(2).map_or(u64::MAX, by_lane);
        match op {
            Op::V_CNDMASK_B32 => {
                let mut kinds = sources.take(2);
                let (Some(zero), Some(one)) = (kinds.next(), kinds.next()) else { return all };
                let Operand::Sgpr(number) = value(inst, source(2)) else { return all };
                let Some(slot) = self.slot(u16::from(number)) else { return all };
                let high = wave.s.get(slot + 1).copied().unwrap_or(0);
                let chosen = u64::from(wave.s[slot]) | u64::from(high) << 32;
                let known = self.mask(u16::from(number));
                let lanes = known & (chosen & of(one) | !chosen & of(zero));
                Written { active, words: [lanes; 2] }
            }
            Op::V_READFIRSTLANE_B32 => {
                let lane = if active == 0 { 0 } else { active.trailing_zeros() };
                let known = value(inst, Place::Src(0));
                let Operand::Vgpr(number) = known else { return all };
                let known = self.vectors[usize::from(number)] >> lane & 1 != 0;
                Written { active: u64::MAX, words: [if known { u64::MAX } else { 0 }; 2] }
            }
            Op::V_READLANE_B32 | Op::V_WRITELANE_B32 => Written { active: u64::MAX, ..all },
            Op::V_MBCNT_LO_U32_B32 | Op::V_MBCNT_HI_U32_B32 => {
                let lanes = sources.fold(u64::MAX, |lanes, kind| lanes & of(kind));
                Written { active, words: [lanes; 2] }
            }
            op if is_by_word(op) => {
                let low = |kind: &OperandType| of(&OperandType { words: kind.words.min(1), ..*kind });
                let (low, both) =
                    sources.fold((u64::MAX, u64::MAX), |(a, b), kind| (a & low(kind), b & of(kind)));
                Written { active, words: [low, both] }
            }
            op => match properties(op).family {
                Family::Special | Family::Matrix => all,
                Family::Packed | Family::Pair => all,
                _ if takes_parts(op) => {
                    let mut any = None;
                    for kind in sources {
                        any = Some(any.unwrap_or(0) | of(kind));
                    }
                    Written { active, words: [any.unwrap_or(u64::MAX); 2] }
                }
                _ => {
                    let lanes = sources.fold(carry, |lanes, kind| lanes & of(kind));
                    Written { active, words: [lanes; 2] }
                }
            },
        }
    }
}

/// Result of a vector operation: its active lanes, and the lanes in which each of two words is defined.
#[derive(Clone, Copy)]
struct Written {
    active: u64,
    words: [u64; 2],
}

/// Returns the register after one.
fn behind(operand: Operand) -> Operand {
    match operand {
        Operand::Vgpr(number) => Operand::Vgpr(number.wrapping_add(1)),
        Operand::Agpr(number) => Operand::Agpr(number.wrapping_add(1)),
        other => other,
    }
}
