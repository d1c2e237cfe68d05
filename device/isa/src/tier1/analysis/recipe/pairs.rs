//! Shifts of 64 bits.

use super::steps::*;
use crate::inst::Op;
use crate::tier1::analysis::template::Shift;

impl Steps<'_> {
    /// A shift of 64 bits.
    pub(super) fn pairs(&mut self, op: Op) {
        let (low, high) = (Place::Low(1), Place::High(1));
        let count = self.low_bits(0, 63, T2);
        match op {
            Op::V_LSHLREV_B64 => self.shift_left(count, [low, high]),
            op => {
                let how = if op == Op::V_ASHRREV_I64 { Shift::Signed } else { Shift::Right };
                self.shift_right(how, count, [low, high]);
            }
        }
    }

    /// The difference of two numbers one of which may be in lanes.
    fn less(&mut self, to: Place, a: Place, b: Place) -> Place {
        if let (Place::Number(a), Place::Number(b)) = (a, b) {
            return number(a.wrapping_sub(b));
        }
        self.two(to, SUBTRACT, a, b);
        to
    }

    /// The word at the far end of the shift gets bits of the other word. Shifts by 32 and more leave nothing, so that one of both parts is
    /// zero unless the count is 32, where both are the same.
    fn shift_left(&mut self, count: Place, [low, high]: [Place; 2]) {
        let by = self.less(T1, number(32), count);
        self.shift_by(T1, Shift::Right, low, by);
        self.shift_by(T0, Shift::Left, high, count);
        self.more(T1, OR, T0);
        let by = self.less(T0, count, number(32));
        self.shift_by(T0, Shift::Left, low, by);
        self.more(T1, OR, T0);
        self.shift_by(T0, Shift::Left, low, count);
    }

    fn shift_right(&mut self, how: Shift, count: Place, [low, high]: [Place; 2]) {
        let by = self.less(T1, number(32), count);
        self.shift_by(T1, Shift::Left, high, by);
        self.shift_by(T0, Shift::Right, low, count);
        self.more(T0, OR, T1);
        let by = self.less(T1, count, number(32));
        match (how, count) {
            (Shift::Signed, Place::Number(count)) if count < 32 => {}
            (Shift::Signed, _) => {
                self.shift_by(T1, how, high, by);
                // A count below 32 would give nothing but signs here.
                if let Place::Number(_) = count {
                    self.two(T0, OR, T1, number(0));
                } else {
                    self.choose(T0, T1, Test::Greater, count, number(31));
                }
            }
            _ => {
                self.shift_by(T1, how, high, by);
                self.more(T0, OR, T1);
            }
        }
        self.shift_by(T1, how, high, count);
    }
}
