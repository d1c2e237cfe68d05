//! A second back end, which does the operations of templates at once, against the handlers of tier 0.

use proptest::prelude::*;

use super::Register::{B, C};
use super::{Arithmetic, Condition, Masm, Register, Shift};
use crate::exec::di::{Di, Handler, Kind, Source};
use crate::exec::scalar::exec_mask::{self, Result as Takes};
use crate::exec::scalar::sop;
use crate::exec::tests::call;
use crate::inst::Op;
use crate::registers::slot;
use crate::tier1::scalar;
use crate::wave::{Wave, WaveInit};

/// The wave's scalar registers, the working registers, and the last outcome.
struct Plain<'a> {
    scalars: &'a mut [u32],
    registers: [u64; 3],
    /// Zero, sign, carry, overflow; `None` after an operation without an outcome.
    outcome: Option<[bool; 4]>,
}

fn mask(wide: bool) -> u64 {
    if wide { u64::MAX } else { u64::from(u32::MAX) }
}

fn sign(wide: bool, value: u64) -> bool {
    value >> if wide { 63 } else { 31 } & 1 != 0
}

impl Plain<'_> {
    fn get(&self, wide: bool, register: Register) -> u64 {
        self.registers[register as usize] & mask(wide)
    }

    fn put(&mut self, wide: bool, register: Register, value: u64) {
        self.registers[register as usize] = value & mask(wide);
    }

    /// `a - b - less`, with its outcome.
    fn difference(&mut self, wide: bool, a: u64, b: u64, less: u64) -> u64 {
        let whole = i128::from(a) - i128::from(b) - i128::from(less);
        let result = whole as u64 & mask(wide);
        let overflow = sign(wide, (a ^ b) & (a ^ result));
        self.outcome = Some([result == 0, sign(wide, result), whole < 0, overflow]);
        result
    }

    fn is(&self, condition: Condition) -> bool {
        let [zero, sign, carry, overflow] = self.outcome.expect("there is an outcome");
        match condition {
            Condition::Overflow => overflow,
            Condition::Below => carry,
            Condition::AboveOrEqual => !carry,
            Condition::Equal => zero,
            Condition::NotEqual => !zero,
            Condition::BelowOrEqual => carry || zero,
            Condition::Above => !carry && !zero,
            Condition::Less => sign != overflow,
            Condition::GreaterOrEqual => sign == overflow,
            Condition::LessOrEqual => zero || sign != overflow,
            Condition::Greater => !zero && sign == overflow,
        }
    }

    fn shift(&mut self, how: Shift, wide: bool, register: Register, count: u32) {
        let value = self.get(wide, register);
        let result = match how {
            Shift::Left => value << count,
            Shift::Right => value >> count,
            Shift::Signed if wide => (value.cast_signed() >> count).cast_unsigned(),
            Shift::Signed => u64::from(((value as u32).cast_signed() >> count).cast_unsigned()),
        };
        self.put(wide, register, result);
        self.outcome = None;
    }
}

impl Masm for Plain<'_> {
    fn load_scalar(&mut self, wide: bool, to: Register, scalar: u32) {
        let at = scalar as usize;
        let high = if wide { u64::from(self.scalars[at + 1]) << 32 } else { 0 };
        self.put(true, to, u64::from(self.scalars[at]) | high);
    }

    fn store_scalar(&mut self, wide: bool, scalar: u32, from: Register) {
        let (at, value) = (scalar as usize, self.get(true, from));
        self.scalars[at] = value as u32;
        if wide {
            self.scalars[at + 1] = (value >> 32) as u32;
        }
    }

    fn number(&mut self, to: Register, value: u64) {
        self.put(true, to, value);
    }

    fn copy(&mut self, wide: bool, to: Register, from: Register) {
        self.put(wide, to, self.get(wide, from));
    }

    fn invert(&mut self, wide: bool, register: Register) {
        self.put(wide, register, !self.get(wide, register));
        self.outcome = None;
    }

    fn arithmetic(&mut self, op: Arithmetic, wide: bool, a: Register, b: Register) {
        let (x, y) = (self.get(wide, a), self.get(wide, b));
        let carry = |plain: &Self| u64::from(plain.is(Condition::Below));
        let bits = match op {
            Arithmetic::And => x & y,
            Arithmetic::Or => x | y,
            Arithmetic::Xor => x ^ y,
            Arithmetic::Subtract | Arithmetic::SubtractCarry => {
                let less = if op == Arithmetic::SubtractCarry { carry(self) } else { 0 };
                let result = self.difference(wide, x, y, less);
                return self.put(wide, a, result);
            }
            Arithmetic::Add | Arithmetic::AddCarry => {
                let more = if op == Arithmetic::AddCarry { carry(self) } else { 0 };
                let whole = u128::from(x) + u128::from(y) + u128::from(more);
                let result = whole as u64 & mask(wide);
                let overflow = sign(wide, !(x ^ y) & (x ^ result));
                let carries = whole > u128::from(mask(wide));
                self.outcome = Some([result == 0, sign(wide, result), carries, overflow]);
                return self.put(wide, a, result);
            }
        };
        self.put(wide, a, bits);
        self.compare_with_zero(wide, a);
    }

    fn multiply_low(&mut self, a: Register, b: Register) {
        self.put(false, a, self.get(false, a).wrapping_mul(self.get(false, b)));
        self.outcome = None;
    }

    fn multiply_pairs(&mut self, a: Register, b: Register) {
        self.put(true, a, self.get(true, a).wrapping_mul(self.get(true, b)));
        self.outcome = None;
    }

    fn shift_by_b(&mut self, how: Shift, wide: bool, register: Register) {
        let count = self.get(false, B) as u32 & if wide { 63 } else { 31 };
        self.shift(how, wide, register, count);
    }

    fn shift_by_number(&mut self, how: Shift, wide: bool, register: Register, count: u8) {
        assert!(count < if wide { 64 } else { 32 }, "fewer than there are bits");
        self.shift(how, wide, register, count.into());
    }

    fn compare(&mut self, wide: bool, a: Register, b: Register) {
        self.difference(wide, self.get(wide, a), self.get(wide, b), 0);
    }

    fn compare_with_zero(&mut self, wide: bool, register: Register) {
        let value = self.get(wide, register);
        self.outcome = Some([value == 0, sign(wide, value), false, false]);
    }

    fn compare_scalar_with_zero(&mut self, scalar: u32) {
        let value = self.scalars[scalar as usize].into();
        self.outcome = Some([value == 0, sign(false, value), false, false]);
    }

    fn carry_of_scalar(&mut self, scalar: u32) {
        self.put(true, C, 0);
        self.difference(false, 0, self.scalars[scalar as usize].into(), 0);
    }

    fn flag(&mut self, condition: Condition, to: Register) {
        self.put(true, to, self.is(condition).into());
    }

    fn choose(&mut self, condition: Condition, to: Register, from: Register) {
        if self.is(condition) {
            self.put(true, to, self.get(true, from));
        }
    }
}

/// An element of a program.
#[derive(Clone, Debug)]
enum Element {
    Operation(Op, Di),
    Mask { saves: bool, wide: bool, d: Di },
}

/// Scalar operations that have a template.
fn covered() -> Vec<Op> {
    Op::ALL.iter().copied().filter(|&op| scalar::has(op) && sop::entry(op).is_some()).collect()
}

fn register() -> impl Strategy<Value = u32> {
    // Few, so that results are used again; pairs overlap.
    0..12_u32
}

fn source(bits: u32) -> impl Strategy<Value = Source> {
    let edges = prop_oneof![Just(0), Just(1), Just(31), Just(u32::MAX), Just(1 << 31), any::<u32>()];
    (0..6_u8, register(), edges).prop_map(move |(kind, register, value)| match (kind, bits) {
        (0, 64) => Source { value, kind: Kind::Signed, ..Source::ZERO },
        (1, 64) => Source { value, kind: Kind::High, ..Source::ZERO },
        (0..=2, _) => Source { value, kind: Kind::Constant, ..Source::ZERO },
        _ => Source { value: register, kind: Kind::Scalar, ..Source::ZERO },
    })
}

fn element(handler: Handler, dst: u32, src: [Source; 2]) -> Di {
    let old = Source { value: dst, kind: Kind::Scalar, ..Source::ZERO };
    Di { dst, src: [src[0], src[1], old], ..Di::for_test(handler) }
}

fn operation() -> impl Strategy<Value = Element> {
    let operations = proptest::sample::select(covered()).prop_flat_map(|op| {
        let entry = sop::entry(op).expect("only operations with a definition");
        let handler = entry.handler;
        (source(entry.bits[0]), source(entry.bits[1]), register())
            .prop_map(move |(a, b, dst)| Element::Operation(op, element(handler, dst, [a, b])))
    });
    let masks = (0..10_u8, any::<(bool, bool)>(), source(32), register()).prop_map(
        |(aux, (saves, wide), mask, dst)| {
            let takes = if saves { Takes::Old } else { Takes::New };
            let handler = exec_mask::handler(takes, if wide { 64 } else { 32 });
            Element::Mask { saves, wide, d: Di { aux, ..element(handler, dst, [mask, Source::ZERO]) } }
        },
    );
    prop_oneof![8 => operations, 1 => masks]
}

#[test]
fn scalar_operations_have_templates() {
    let covered = covered();
    for op in [
        Op::S_ADD_U32,
        Op::S_ADDC_U32,
        Op::S_CSELECT_B64,
        Op::S_LSHR_B64,
        Op::S_MAX_I32,
        Op::S_CMP_LT_U32,
        Op::S_MUL_HI_I32,
        Op::S_BITCMP0_B32,
    ] {
        assert!(covered.contains(&op), "{op:?}");
    }
    assert!(covered.len() > 60, "{}", covered.len());
}

proptest! {
    #[test]
    fn programs_of_templates_do_what_handlers_do(
        begin in proptest::collection::vec(prop_oneof![Just(0), Just(u32::MAX), any::<u32>()], 16),
        scc in 0..2_u32,
        program in proptest::collection::vec(operation(), 1..24),
    ) {
        let mut wave = Wave::new(&WaveInit::default());
        wave.s[..begin.len()].copy_from_slice(&begin);
        wave.s[slot::SCC] = scc;
        let mut scalars = wave.s.to_vec();
        for element in &program {
            let mut plain = Plain { scalars: &mut scalars, registers: [!0; 3], outcome: None };
            let d = match element {
                Element::Operation(op, d) => {
                    scalar::emit(&mut plain, *op, d);
                    d
                }
                Element::Mask { saves, wide, d } => {
                    scalar::exec_mask(&mut plain, d, *saves, *wide);
                    d
                }
            };
            call(d.f, &mut wave, d);
            prop_assert_eq!(&scalars[..], &wave.s[..], "{:?}", element);
        }
    }
}
