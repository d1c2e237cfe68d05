//! Packets that wait for signals: barrier-and, barrier-or, and AMD's barrier-value.

use belfry_abi::aql::{BarrierPacket, BarrierValuePacket};

use super::complete;
use super::error::Cause;
use crate::vm::AddressSpace;

/// Returns true if all signals have reached 0; null handles do not count.
pub(super) fn and_satisfied(space: &AddressSpace, packet: &BarrierPacket) -> Result<bool, Cause> {
    for &signal in packet.dep_signal.iter().filter(|&&signal| signal != 0) {
        if complete::value(space, signal)? != 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if one signal has reached 0, or there is none.
pub(super) fn or_satisfied(space: &AddressSpace, packet: &BarrierPacket) -> Result<bool, Cause> {
    let mut any = false;
    for &signal in packet.dep_signal.iter().filter(|&&signal| signal != 0) {
        any = true;
        if complete::value(space, signal)? == 0 {
            return Ok(true);
        }
    }
    Ok(!any)
}

/// Returns true if the masked value of the signal compares as the packet wants.
pub(super) fn value_satisfied(space: &AddressSpace, packet: &BarrierValuePacket) -> Result<bool, Cause> {
    if packet.signal == 0 {
        return Ok(true);
    }
    let value = complete::value(space, packet.signal)?.cast_signed() & packet.mask;
    // `hsa_signal_condition_t`.
    match packet.cond {
        0 => Ok(value == packet.value),
        1 => Ok(value != packet.value),
        2 => Ok(value < packet.value),
        3 => Ok(value >= packet.value),
        condition => Err(Cause::BarrierCondition(condition)),
    }
}
