//! Moments at which planned faults strike.

use crate::faults::{Faults, Hook, Place, Rule, Struck};
use crate::moments::{At, Moment, Packet, Stream, Verdict};

/// Counts a moment for the plan, and returns the effect of the fault that strikes there, if one does.
pub(super) fn at(faults: &Faults, at: &At<'_>) -> Verdict {
    if !faults.is_on() {
        return Verdict::GoOn;
    }
    let (doorbell, pasid) = (at.owner.doorbell, Some(at.owner.pasid));
    let entry;
    let (hook, place) = match at.moment {
        Moment::Heard { .. } => (Hook::Doorbell, Place { what: "ring", doorbell, ..Place::default() }),
        Moment::Frame { what, .. } => (Hook::Frame, Place { what, doorbell, ..Place::default() }),
        Moment::Resources => {
            (Hook::Resources, Place { what: "resources of the scheduler", ..Place::default() })
        }
        Moment::Dispatch { kernel } => {
            (Hook::Dispatch, Place { what: "dispatch", doorbell, pasid, address: None, kernel: Some(kernel) })
        }
        Moment::Signal { address } => {
            (Hook::Signal, Place { what: "signal", doorbell, pasid, address: Some(address), kernel: None })
        }
        Moment::Transfer { to } => {
            (Hook::Transfer, Place { what: "transfer", doorbell, pasid, address: Some(to), kernel: None })
        }
        Moment::Walk { va } => (Hook::Walk, Place { what: "walk", address: Some(va), ..Place::default() }),
        Moment::VramRead { va } => {
            (Hook::VramRead, Place { what: "read of VRAM", address: Some(va), ..Place::default() })
        }
        Moment::Invalidation => (Hook::Invalidation, Place { what: "invalidation", ..Place::default() }),
        Moment::RegisterRead { offset } => {
            (Hook::Register, Place { what: "register", address: Some(offset), ..Place::default() })
        }
        Moment::Entry { client, source } => {
            entry = format!("entry of client {client:#x}, source {source}");
            (Hook::IhEntry, Place { what: &entry, pasid, ..Place::default() })
        }
        Moment::Message => (Hook::Interrupt, Place { what: "message", ..Place::default() }),
        _ => return Verdict::GoOn,
    };
    faults.meets(hook, || place).map_or(Verdict::GoOn, effect)
}

/// Returns true if a fault keeps a queue at its packet for good.
pub(super) fn hangs(faults: &Faults, packet: &Packet<'_>) -> bool {
    let place = || Place {
        what: packet.kind,
        doorbell: packet.owner.doorbell,
        pasid: Some(packet.owner.pasid),
        address: None,
        kernel: packet.kernel,
    };
    packet.stream == Stream::Aql && faults.meets(Hook::Packet, place).is_some()
}

/// The effect of a fault that strikes.
fn effect(Struck { rule, until }: Struck) -> Verdict {
    match rule {
        Rule::DoorbellLost | Rule::InterruptLost | Rule::FrameUnanswered | Rule::TlbStale => Verdict::Lose,
        Rule::DoorbellLate | Rule::InterruptLate | Rule::FrameLate | Rule::SignalLate => {
            Verdict::Delay(until)
        }
        Rule::InterruptDoubled => Verdict::Twice,
        Rule::FrameRefused | Rule::WalkFails | Rule::VramEcc => Verdict::Refuse,
        Rule::QueueHang | Rule::WaveHang | Rule::SdmaStuck => Verdict::Hang,
        Rule::SdmaCorrupt => Verdict::Corrupt,
        Rule::InterruptSpurious
        | Rule::IhOverflow
        | Rule::FewVmids
        | Rule::FewSlots
        | Rule::VramEccCorrectable
        | Rule::ClockJump
        | Rule::RegisterStuck
        | Rule::FunctionReset
        | Rule::VramExhausted
        | Rule::GttExhausted
        | Rule::DoorbellsExhausted
        | Rule::DriverUnbound
        | Rule::Suspend
        | Rule::Removal => Verdict::Strike(rule),
    }
}
