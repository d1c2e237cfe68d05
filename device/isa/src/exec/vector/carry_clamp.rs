//! Carry operations with the `clamp` modifier: the result saturates, the mask is the same.

use super::carry::{CarryEntry, CarryIn, CarryOp, add, carry_ops, sub};
use super::op::Format;
use crate::inst::Op;
use crate::lanes::BackendKind;

/// A sum that stays at the largest value.
fn most((sum, carry): (u32, bool)) -> (u32, bool) {
    (if carry { u32::MAX } else { sum }, carry)
}

/// A difference that stays at zero.
fn least((difference, borrow): (u32, bool)) -> (u32, bool) {
    (if borrow { 0 } else { difference }, borrow)
}

carry_ops! {
    V_ADD_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { most(add(a, b, false)) }
    V_SUB_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { least(sub(a, b, false)) }
    V_SUBREV_CO_U32: Bits None true 2 (a: u32, b: u32, _c: u32, _carry) -> u32 { least(sub(b, a, false)) }
    V_ADD_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { most(add(a, b, carry)) }
    V_SUB_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { least(sub(a, b, carry)) }
    V_SUBREV_CO_CI_U32: Bits Third true 2 (a: u32, b: u32, _c: u32, carry) -> u32 { least(sub(b, a, carry)) }
    V_MAD_U64_U32: Bits None true 3 (a: u32, b: u32, c: u64, _carry) -> u64 {
        let (sum, carry) = (u64::from(a) * u64::from(b)).overflowing_add(c);
        (if carry { u64::MAX } else { sum }, carry)
    }
    V_MAD_I64_I32: Bits None true 3 (a: u32, b: u32, c: u64, _carry) -> u64 {
        let product = i64::from(a.cast_signed()) * i64::from(b.cast_signed());
        let overflow = product.checked_add(c.cast_signed()).is_none();
        (product.saturating_add(c.cast_signed()).cast_unsigned(), overflow)
    }
}
