//! Completion: timestamps, the signal's value, and the mailbox of the event that its waiters sleep on.

use belfry_abi::signal::{
    SIGNAL_END_TS_OFFSET, SIGNAL_EVENT_ID_OFFSET, SIGNAL_EVENT_MAILBOX_PTR_OFFSET, SIGNAL_START_TS_OFFSET,
    SIGNAL_VALUE_OFFSET,
};

use belfry_isa::mem::Access;

use super::error::Cause;
use crate::vm::{AddressSpace, Fault, FaultKind, Slice};

/// A changed signal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Completed {
    /// Event for the interrupt, if the signal has a mailbox.
    pub(super) event: Option<u32>,
}

/// Decrements a completion signal and returns the value before; `signal` 0 is none.
pub(super) fn signal(
    space: &AddressSpace,
    signal: u64,
    timestamps: Option<(u64, u64)>,
) -> Result<(Completed, Option<i64>), Cause> {
    if signal == 0 {
        return Ok((Completed::default(), None));
    }
    let result = change(space, signal, |slice, value| {
        if let Some((start, end)) = timestamps {
            slice.store_u64(signal.wrapping_add(SIGNAL_START_TS_OFFSET), start)?;
            slice.store_u64(signal.wrapping_add(SIGNAL_END_TS_OFFSET), end)?;
        }
        slice.fetch_add_u64(value, u64::MAX)
    });
    result
        .map(|(completed, before)| (completed, Some(before.cast_signed())))
        .map_err(|fault| Cause::Memory { what: "completion signal", fault })
}

/// Stores a value into a signal; `signal` 0 is none.
pub(super) fn store(space: &AddressSpace, signal: u64, value: u64) -> Result<Completed, Fault> {
    if signal == 0 {
        return Ok(Completed::default());
    }
    Ok(change(space, signal, |slice, address| slice.store_u64(address, value))?.0)
}

/// Reads the value of a signal.
pub(super) fn value(space: &AddressSpace, signal: u64) -> Result<u64, Cause> {
    space
        .load_u64(signal.wrapping_add(SIGNAL_VALUE_OFFSET))
        .map_err(|fault| Cause::Memory { what: "signal waited for", fault })
}

fn change<R>(
    space: &AddressSpace,
    signal: u64,
    operation: impl FnOnce(&Slice<'_>, u64) -> Result<R, Fault>,
) -> Result<(Completed, R), Fault> {
    let slice = space.enter();
    // A thread that waits may free the signal as soon as its value has changed: everything else is read before.
    let mailbox = slice.load_u64(signal.wrapping_add(SIGNAL_EVENT_MAILBOX_PTR_OFFSET))?;
    let event = slice.load_u32(signal.wrapping_add(SIGNAL_EVENT_ID_OFFSET))?;
    let waits = space.waits().is_some();
    if waits && mailbox != 0 {
        // An attempt that fails and is tried again later must not have changed the value.
        slice.translate(mailbox, Access::Write)?;
    }
    let result = operation(&slice, signal.wrapping_add(SIGNAL_VALUE_OFFSET))?;
    if mailbox == 0 {
        return Ok((Completed::default(), result));
    }
    // A mailbox that disappears after the check is a fault at once.
    let lost = |fault: Fault| if waits { Fault { kind: FaultKind::Bus, ..fault } } else { fault };
    slice.store_u64(mailbox, u64::from(event)).map_err(lost)?;
    Ok((Completed { event: Some(event) }, result))
}
