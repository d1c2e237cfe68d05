//! Moments at which breakpoints wait.

use crate::moments::{At, Met, Moment, Packet, Stream};
use crate::stops::Stops;

/// Halts the device after a moment that a breakpoint waits for.
pub(super) fn at(stops: &Stops, at: &At<'_>) {
    if let Moment::RegisterWritten { dword, value } = at.moment {
        stops.written(dword, value);
    }
}

/// Returns true if a packet has to stay where it is, as the device is halted in front of it.
pub(super) fn keeps(stops: &Stops, met: &mut Met, packet: &Packet<'_>) -> bool {
    let Packet { stream, owner, kind, index, inner, kernel } = packet;
    let doorbell = owner.doorbell.unwrap_or(0);
    if stops.wants_looks() && *stream == Stream::Aql && kernel.is_some() && met.looked != Some(*index) {
        if !stops.looked_before((doorbell, *index)) {
            return true;
        }
        met.looked = Some(*index);
    }
    let place = (doorbell, *index, inner.map_or(0, |at| at.wrapping_add(1)));
    let prefix = match stream {
        Stream::Aql => "",
        Stream::Pm4 => "PM4:",
        Stream::Sdma => "SDMA:",
    };
    stops.keeps_packet(place, || (prefix, kind), || kernel.map_or_else(String::new, |kernel| kernel()))
}
