//! Sums, shifts and products of registers that lanes count on.

use super::{A, Affine, B, C, Known, LARGEST_STEP, Of, Value, at, constant};
use crate::exec::di::{Di, Kind, Source};
use crate::inst::Op;
use crate::tier1::x86::asm::{Condition, Integer};
use crate::tier1::x86::body::Body;

impl Affine {
    /// Returns true if one of an element's sources is counted on, so that it is done here if it can be.
    pub(crate) fn concerns(&self, d: &Di, arity: usize) -> bool {
        d.src[..arity].iter().any(|source| source.kind == Kind::Vector && self.get(source.value).is_some())
    }

    /// Does a vector operation.
    pub(crate) fn vector(&mut self, body: &mut Body<'_>, op: Op, d: &Di) -> Known<()> {
        let [a, b, c] = &d.src;
        let step = match op {
            Op::V_MOV_B32 if constant(a) == Some(0) => {
                self.set(d.dst, Value::Zero);
                return Some(());
            }
            Op::V_MOV_B32 => self.term(body, A, a)?,
            Op::V_ADD_NC_U32 | Op::V_ADD_NC_I32 => self.sum(body, [a, b])?,
            Op::V_ADD3_U32 => {
                let step = self.sum(body, [a, b])?;
                self.and_sum(body, step, c)?
            }
            Op::V_LSHLREV_B32 => self.shifted(body, (b, a))?,
            Op::V_LSHL_ADD_U32 => {
                let step = self.shifted(body, (a, b))?;
                self.and_sum(body, step, c)?
            }
            Op::V_ADD_LSHL_U32 => {
                let step = self.sum(body, [a, b])?;
                self.shift(body, step, c)?
            }
            Op::V_LSHL_OR_B32 => {
                let step = self.shifted(body, (a, b))?;
                self.or(body, step, c)?
            }
            Op::V_OR_B32 => {
                let step = self.term(body, A, a)?;
                self.or(body, step, b)?
            }
            Op::V_AND_B32 => match (constant(a), constant(b)) {
                (Some(mask), _) => self.low_bits(body, (b, mask))?,
                (_, Some(mask)) => self.low_bits(body, (a, mask))?,
                _ => return None,
            },
            Op::V_MUL_LO_U32 | Op::V_MUL_U32_U24 => self.product(body, [a, b], op == Op::V_MUL_U32_U24)?,
            Op::V_MAD_U32_U24 => {
                let step = self.product(body, [a, b], true)?;
                self.and_sum(body, step, c)?
            }
            Op::V_ASHRREV_I32 if constant(a) == Some(31) => {
                let step = self.term(body, A, b)?;
                self.refuse_above(body, A, (i32::MAX.cast_unsigned(), step))?;
                self.set(d.dst, Value::Zero);
                return Some(());
            }
            Op::V_LSHLREV_B64 => {
                let step = self.pair(body, A, b)?;
                let step = self.shift_pair(body, step, (a, 63))?;
                return self.set_pair(body, d.dst, step);
            }
            Op::V_LSHL_ADD_U64 => {
                let step = self.pair(body, A, a)?;
                let step = self.shift_pair(body, step, (b, 7))?;
                let step = step + self.pair(body, B, c)?;
                body.a.integer(Integer::Add, true, A, B);
                return self.set_pair(body, d.dst, step);
            }
            _ => return None,
        };
        self.set_word(body, d.dst, step)
    }

    fn sum(&self, body: &mut Body<'_>, [a, b]: [&Source; 2]) -> Known<u32> {
        let step = self.term(body, A, a)?;
        self.and_sum(body, step, b)
    }

    fn and_sum(&self, body: &mut Body<'_>, step: u32, with: &Source) -> Known<u32> {
        let other = self.term(body, B, with)?;
        body.a.integer(Integer::Add, false, A, B);
        Some(step + other)
    }

    /// A source shifted left by a constant.
    fn shifted(&self, body: &mut Body<'_>, (of, count): (&Source, &Source)) -> Known<u32> {
        let step = self.term(body, A, of)?;
        self.shift(body, step, count)
    }

    fn shift(&self, body: &mut Body<'_>, step: u32, count: &Source) -> Known<u32> {
        let count = constant(count)? & 31;
        body.a.shift_by(4, false, A, count as u8);
        by_power(step, count)
    }

    /// [`A`] shifted left by a constant, of which some bits count.
    fn shift_pair(&self, body: &mut Body<'_>, step: u32, (count, bits): (&Source, u32)) -> Known<u32> {
        let count = constant(count)? & bits;
        if count > 0 {
            body.a.shift_by(4, true, A, count as u8);
        }
        by_power(step, count)
    }

    /// Bits of [`A`] and of a source, which have none in common in any lane.
    fn or(&self, body: &mut Body<'_>, step: u32, with: &Source) -> Known<u32> {
        let other = self.term(body, B, with)?;
        body.a.integer(Integer::Or, false, A, B);
        if step == 0 && other == 0 {
            return Some(0);
        }
        if step != 0 && other != 0 {
            return None;
        }
        // The bits that lanes differ in.
        let below = (self.width(step + other) + 1).checked_next_power_of_two()? - 1;
        body.a.integer(Integer::Mov, false, C, A);
        body.a.immediate(Integer::And, false, C, below);
        self.refuse_if(body, Condition::NotEqual);
        Some(step + other)
    }

    /// A source of which the highest bits are cut off, where they are zeros.
    fn low_bits(&self, body: &mut Body<'_>, (of, mask): (&Source, u32)) -> Known<u32> {
        let step = self.term(body, A, of)?;
        if mask & mask.wrapping_add(1) != 0 {
            return None;
        }
        self.refuse_above(body, A, (mask, step))?;
        Some(step)
    }

    fn product(&self, body: &mut Body<'_>, [a, b]: [&Source; 2], of_24: bool) -> Known<u32> {
        let steps = [self.term(body, A, a)?, self.term(body, B, b)?];
        let step = match (steps, constant(a), constant(b)) {
            ([0, 0], ..) => 0,
            ([step, 0], _, Some(by)) | ([0, step], Some(by), _) if !of_24 => step.checked_mul(by)?,
            _ => return None,
        };
        if of_24 {
            body.a.immediate(Integer::And, false, A, 0xff_ffff);
            body.a.immediate(Integer::And, false, B, 0xff_ffff);
        }
        body.a.multiply(false, A, B);
        Some(step)
    }

    /// A mask is written that is not computed.
    fn lose_mask(&mut self, mask: u32) {
        self.wrote_scalars(&[(mask, self.halves)]);
        self.lost.push(mask);
    }

    /// Does a sum with carry; nothing has the mask of carries.
    pub(crate) fn carry(&mut self, body: &mut Body<'_>, op: Op, d: &Di) -> Known<()> {
        let [a, b, c] = &d.src;
        match op {
            Op::V_MAD_U64_U32 => {
                let step = self.product(body, [a, b], false)?;
                let step = self.and_sum(body, step, c)?;
                self.lose_mask(d.dst2);
                self.set_word(body, d.dst, step)?;
                self.set(d.dst + self.halves, Value::Lost);
            }
            Op::V_ADD_CO_U32 => {
                let (row, other) = if a.kind == Kind::Vector { (a, b) } else { (b, a) };
                let (number, of) = match self.get(row.value).filter(|_| row.kind == Kind::Vector)? {
                    Value::Low(number) => (number, Of::Low(number)),
                    Value::Word(number) => (number, Of::Word),
                    _ => return None,
                };
                body.a.load(Integer::Mov, of != Of::Word, A, at(number.place));
                if of == Of::Word {
                    self.refuse_above(body, A, (u32::MAX, number.step))?;
                }
                self.uniform(body, B, other)?;
                body.a.integer(Integer::Add, true, A, B);
                let sum = self.keep(body, number.step)?;
                self.lose_mask(d.dst2);
                self.set(d.dst, Value::Half { sum, of, carries: d.dst2 });
            }
            Op::V_ADD_CO_CI_U32 => {
                let is_half = |(row, value): &(u32, Value)| match *value {
                    Value::Half { sum, of, carries } if carries == d.imm => Some((*row, sum, of)),
                    _ => None,
                };
                let (row, sum, of) = self.values.iter().rev().find_map(is_half)?;
                body.a.load(Integer::Mov, true, A, at(sum.place));
                for source in [a, b] {
                    let value = if source.kind == Kind::Vector { self.get(source.value) } else { None };
                    match (value, of) {
                        (Some(Value::High(number)), Of::Low(other)) if number == other => {}
                        (Some(Value::Zero), Of::Word) => {}
                        (None, _) => {
                            self.uniform(body, B, source)?;
                            body.a.shift_by(4, true, B, 32);
                            body.a.integer(Integer::Add, true, A, B);
                        }
                        _ => return None,
                    }
                }
                // A number of 64 bits has its high half added once.
                let highs = [a, b].iter().filter(|source| source.kind == Kind::Vector).count();
                if highs > 1 || highs == 0 && of != Of::Word {
                    return None;
                }
                let number = self.keep(body, sum.step)?;
                self.set(row, Value::Low(number));
                self.set(d.dst, Value::High(number));
                self.lose_mask(d.dst2);
            }
            _ => return None,
        }
        Some(())
    }
}

fn by_power(step: u32, count: u32) -> Known<u32> {
    if step == 0 {
        return Some(0);
    }
    let step = u64::from(step).checked_shl(count)?;
    u32::try_from(step).ok().filter(|&step| step <= LARGEST_STEP)
}
