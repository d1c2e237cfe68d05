//! ATOMIC_MEM: one atomic operation on memory.
//!
//! Operations are those of the L2 cache, `TC_OP` of linux `soc21_enum.h`: bits 4:0 the operation, bit 5 on 64 bits, bit
//! 6 without returning the value before, which the packet has no use for.

use belfry_abi::pm4::{ATOMIC_MEM_LOOP, AtomicMem};

use super::{Effect, Error, memory, quad};
use crate::vm::{AddressSpace, Fault};

const SWAP: u8 = 7;
/// Operation whose comparison a packet may wait for.
pub(crate) const COMPARE_SWAP: u8 = 8;

/// Returns the new value for `old`; `None` for an operation that is not one on integers.
fn apply(operation: u8, old: u64, source: u64, compare: u64, bits: u32) -> Option<u64> {
    let sign = |value: u64| (value << (64 - bits)).cast_signed();
    Some(match operation {
        SWAP => source,
        COMPARE_SWAP if old == compare => source,
        COMPARE_SWAP => old,
        15 => old.wrapping_add(source),
        16 => old.wrapping_sub(source),
        17 if sign(source) < sign(old) => source,
        18 => old.min(source),
        19 if sign(source) > sign(old) => source,
        17 | 19 => old,
        20 => old.max(source),
        21 => old & source,
        22 => old | source,
        23 => old ^ source,
        24 if old >= source => 0,
        24 => old.wrapping_add(1),
        25 if old == 0 || old > source => source,
        25 => old.wrapping_sub(1),
        _ => return None,
    })
}

/// Executes an operation on memory, with its operand and the value that it compares with. Returns true if that value
/// was there before; `None` for an operation that is not one on integers.
pub(crate) fn perform(
    space: &AddressSpace,
    at: u64,
    operation: u8,
    values: [u64; 2],
) -> Option<Result<bool, Fault>> {
    let (operation, wide) = (operation & 0x1f, operation & 0x20 != 0);
    let bits = if wide { 64 } else { 32 };
    let [source, compare] = values.map(|value| if wide { value } else { value & 0xffff_ffff });
    apply(operation, 0, source, compare, bits)?;
    let new = |old: u64| apply(operation, old, source, compare, bits).unwrap_or(old);
    let before = if wide {
        space.update_u64(at, new)
    } else {
        space.update_u32(at, |old| new(old.into()) as u32).map(u64::from)
    };
    Some(before.map(|before| before == compare))
}

/// Executes it. If the packet says so, a comparison that does not hold yet waits.
pub(super) fn execute(packet: &AtomicMem, space: &AddressSpace) -> Result<Effect, Error> {
    let (control, at) = (packet.control, quad(packet.addr_lo, packet.addr_hi));
    let loops = match control.command() {
        0 => false,
        ATOMIC_MEM_LOOP if control.atomic() & 0x1f == COMPARE_SWAP => true,
        value => return Err(Error::Selector { what: "ATOMIC_MEM command", value }),
    };
    let values = [quad(packet.src_lo, packet.src_hi), quad(packet.cmp_lo, packet.cmp_hi)];
    let none = Error::Selector { what: "ATOMIC_MEM operation", value: control.atomic() };
    let held = perform(space, at, control.atomic(), values).ok_or(none)?.map_err(memory("ATOMIC_MEM"))?;
    Ok(if loops && !held { Effect::Wait } else { Effect::Done })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_those_of_the_cache() {
        let minus = 0xffff_fff0;
        let rows = [
            (7, 3, 9, 0, 9),
            (8, 3, 9, 3, 9),
            (8, 3, 9, 4, 3),
            (15, 3, 9, 0, 12),
            (16, 9, 3, 0, 6),
            (17, 3, minus, 0, minus),
            (18, 3, minus, 0, 3),
            (19, 3, minus, 0, 3),
            (20, 3, minus, 0, minus),
            (21, 0b110, 0b011, 0, 0b010),
            (22, 0b110, 0b011, 0, 0b111),
            (23, 0b110, 0b011, 0, 0b101),
            (24, 3, 9, 0, 4),
            (24, 9, 9, 0, 0),
            (25, 3, 9, 0, 2),
            (25, 0, 9, 0, 9),
            (25, 10, 9, 0, 9),
        ];
        for (operation, old, source, compare, expected) in rows {
            assert_eq!(apply(operation, old, source, compare, 32), Some(expected), "{operation}");
        }
        assert_eq!(apply(17, 3, minus, 0, 64), Some(3), "positive in 64 bits");
        assert!([0, 6, 9, 14, 26, 31].iter().all(|&none| apply(none, 0, 0, 0, 32).is_none()));
    }
}
