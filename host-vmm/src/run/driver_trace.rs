//! `--trace` and the driver of a guest: its events go into the trace, or stderr says why they do not.

use belfry_device::GpuConfig;
use belfry_guest::{Guest, GuestError};

use super::RunError;
use crate::output::note;

/// Returns true if the driver's events are wanted: a trace of instructions has none of them.
pub(super) fn is_asked_for(gpu: &GpuConfig) -> bool {
    gpu.trace.as_ref().is_some_and(|sink| !sink.wants_waves())
}

/// Says that the trace has no events of a guest's driver.
pub(super) fn note_absence(why: &dyn std::fmt::Display) {
    note!("belfry: the trace has no events of the guest's driver: {why}");
}

/// Lets the events of a guest's driver be recorded, if a trace is asked for; returns true if they are.
pub(super) fn start(guest: &mut Guest, gpu: &GpuConfig) -> Result<bool, RunError> {
    if !is_asked_for(gpu) {
        return Ok(false);
    }
    match guest.record_driver() {
        Ok(()) => Ok(true),
        // The run goes on without these events: the program matters most.
        Err(GuestError::Refused { text, .. }) => {
            note_absence(&text);
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}

/// Takes the last events, and reports those that are not in the trace.
pub(super) fn finish(guest: &mut Guest, is_recorded: bool) -> Result<(), RunError> {
    if !is_recorded {
        return Ok(());
    }
    let events = match guest.driver_events() {
        Ok(events) => events,
        Err(GuestError::Refused { text, .. }) => {
            note!("belfry: the last events of the guest's driver are not in the trace: {text}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    if events.lost > 0 {
        note!(
            "belfry: {} events of the guest's driver are not in the trace, which it had no room for",
            events.lost
        );
    }
    if events.unknown > 0 {
        note!("belfry: {} events of the guest's driver are of kinds that are not known here", events.unknown);
    }
    if let Some(error) = &events.error {
        note!(
            "belfry: the guest sent {} pieces that are no events of a driver; the first: {error}",
            events.malformed
        );
    }
    Ok(())
}
