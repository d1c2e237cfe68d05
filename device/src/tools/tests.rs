//! The tools without a device.

use std::cell::Cell;

use belfry_abi::doorbell::DoorbellIndex;

use super::*;
use crate::faults::Rule as Fault;
use crate::moments::{Moment, Stream};
use crate::stops::BreakOn;
use crate::time::TimeSource;
use crate::trace::{Engine, Owner};

fn faulty(plan: &str) -> Tools {
    let chosen = Chosen { faults: plan.parse().expect("a plan"), ..Chosen::default() };
    Tools::new(chosen, &Clock::new(&TimeSource::manual()), &Arc::default())
}

fn packet(index: u64, stream: Stream) -> Packet<'static> {
    Packet { stream, owner: Owner::queue(Engine::Cp, 8), kind: "NOP", index, inner: None, kernel: None }
}

#[test]
fn moment_is_made_only_while_a_tool_asks() {
    let tools = Tools::default();
    let made = Cell::new(0);
    let write = |value| {
        tools.tell(|| {
            made.set(made.get() + 1);
            Moment::RegisterWritten { dword: 5, value }.on(Engine::Device)
        });
    };
    write(1);
    assert_eq!((made.get(), tools.is_halted()), (0, false));
    tools.stops().add(BreakOn::Register("R".into(), 5)).expect("the first one");
    write(2);
    assert_eq!((made.get(), tools.is_halted()), (1, true));
    tools.stops().remove(None);
    tools.stops().proceed();
    write(3);
    assert_eq!((made.get(), tools.is_halted()), (1, false));
}

#[test]
fn fault_of_a_packet_is_decided_once_and_after_the_breakpoints() {
    let tools = faulty("queue-hang@2");
    let mut met = Met::default();
    let mut next = |index| tools.packet(&mut met, &packet(index, Stream::Aql)).map(|_| ());
    tools.stops().add(BreakOn::Packet("NOP".into())).expect("the first one");
    assert_eq!(next(0), Err(Verdict::Halt));
    assert_eq!(tools.faults().report().met[&Hook::Packet], 0);
    tools.stops().remove(None);
    tools.stops().proceed();
    assert_eq!((next(0), next(0)), (Ok(()), Ok(())));
    assert_eq!(next(1), Err(Verdict::Hang));
    assert_eq!(tools.faults().report().met[&Hook::Packet], 2);
    let other = tools.packet(&mut Met::default(), &packet(2, Stream::Sdma));
    assert!(
        other.is_ok() && tools.faults().report().met[&Hook::Packet] == 2,
        "other queues have no such moment"
    );
}

#[test]
fn every_fault_of_the_device_has_a_moment_and_an_effect() {
    let doorbell = DoorbellIndex::from_dwords(8);
    let kernel = || "kernel".to_owned();
    let moments = [
        Moment::Heard { doorbell },
        Moment::Frame { what: "frame", doorbell },
        Moment::Resources,
        Moment::Dispatch { kernel: &kernel },
        Moment::Signal { address: 0x1000 },
        Moment::Transfer { to: 0x1000 },
        Moment::Walk { va: 0x1000 },
        Moment::VramRead { va: 0x1000 },
        Moment::Invalidation,
        Moment::RegisterRead { offset: 4 },
        Moment::Entry { client: 1, source: 2 },
        Moment::Message,
    ];
    for &rule in Fault::ALL.iter().filter(|rule| !rule.hook().is_of_driver()) {
        let tools = faulty(rule.name());
        let mut effects = Vec::from(moments.map(|moment| tools.at(|| moment.on(Engine::Device))));
        let packet = tools.packet(&mut Met::default(), &packet(0, Stream::Aql));
        effects.push(packet.map_or_else(|verdict| verdict, |_| Verdict::GoOn));
        effects.retain(|verdict| *verdict != Verdict::GoOn);
        assert_eq!(tools.faults().report().struck.get(&rule), Some(&1), "{rule:?}");
        // These two change a counter alone.
        let silent = matches!(rule, Fault::ClockJump | Fault::VramEccCorrectable);
        assert_eq!(effects.len(), usize::from(!silent), "{rule:?}: {effects:?}");
        assert_eq!(rule.is_late() && !silent, matches!(effects[..], [Verdict::Delay(_)]), "{rule:?}");
    }
}
