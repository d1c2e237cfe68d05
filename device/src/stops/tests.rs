//! Breakpoints without a device.

use super::*;

#[test]
fn wave_stays_at_a_breakpoint_until_it_may_pass_and_stays_when_it_comes_again() {
    let stops = Arc::new(Stops::default());
    assert!(stops.armed().is_none());
    let number = stops.add(BreakOn::Pc(0x100)).expect("the first one");
    let armed = stops.armed().expect("armed");
    let wave = (1, [2, 0, 0], 3);
    assert!(!armed.keeps(wave, 0x104) && !stops.is_halted());
    assert!(armed.keeps(wave, 0x100) && stops.is_halted() && stops.wait(Duration::ZERO));
    assert!(matches!(stops.why(), Some(Why::Wave(met, _, at)) if met == number && at == wave));
    assert!(stops.proceed() && !stops.is_halted());
    assert!(!armed.keeps(wave, 0x100), "it goes on");
    assert!(armed.keeps((1, [2, 0, 0], 4), 0x100), "another one does not");
    assert!(armed.keeps(wave, 0x100), "it has come again");
    stops.moved(wave);
    assert!(stops.remove(Some(number)) && !stops.remove(Some(number)));
    assert!(stops.armed().is_none());
}

#[test]
fn packet_stays_until_it_may_pass() {
    let stops = Arc::new(Stops::default());
    let keeps = |place, kind| stops.keeps_packet(place, || ("", kind), || "vecadd".to_owned());
    assert!(!keeps((8, 0, 0), "BARRIER_AND"));
    assert!(stops.add(BreakOn::Packet("BARRIER_AND".into())).is_some());
    assert!(!keeps((8, 0, 0), "KERNEL_DISPATCH"));
    assert!(keeps((8, 1, 0), "BARRIER_AND") && stops.is_halted());
    stops.proceed();
    assert!(!keeps((8, 1, 0), "BARRIER_AND"));
    assert!(keeps((8, 2, 0), "BARRIER_AND"));
    stops.proceed();
    assert!(stops.add(BreakOn::Kernel("vecadd".into())).is_some());
    assert!(keeps((8, 3, 0), "KERNEL_DISPATCH"));
    assert!(stops.remove(None) && !keeps((8, 4, 0), "BARRIER_AND"));
}

#[test]
fn packets_of_other_kinds_are_told_apart_by_their_engine_and_place() {
    let stops = Arc::new(Stops::default());
    assert!(stops.add(BreakOn::Packet("PM4:NOP".into())).is_some());
    let keeps = |place, engine| stops.keeps_packet(place, || (engine, "NOP"), String::new);
    assert!(!keeps((8, 0, 0), "SDMA:") && !keeps((8, 0, 0), ""));
    assert!(keeps((8, 0, 0), "PM4:"));
    stops.proceed();
    assert!(!keeps((8, 0, 0), "PM4:") && keeps((8, 0, 1), "PM4:"), "one of a buffer is another one");
}

#[test]
fn accesses_meet_the_ranges_that_they_overlap_in_their_way() {
    let stops = Arc::new(Stops::default());
    let range = AccessRange { lds: false, first: 0x100, last: 0x107, reads: false, writes: true };
    let number = stops.add(BreakOn::Access(range)).expect("the first one");
    let armed = stops.armed().expect("armed");
    let touch = |place, bytes, access| Touch { lane: 0, place, bytes, access, replaces: false };
    let met = |place, bytes, access| armed.met_by(&[touch(place, bytes, access)]);
    assert_eq!(met(Place::Global(0xfc), 8, Access::Write), Some((number, 0x100)));
    assert_eq!(met(Place::Global(0x107), 4, Access::Atomic), Some((number, 0x107)));
    assert_eq!(met(Place::Global(0xfc), 4, Access::Write), None);
    assert_eq!(met(Place::Global(0x108), 4, Access::Write), None);
    assert_eq!(met(Place::Global(0x100), 4, Access::Read), None);
    assert_eq!(met(Place::Lds(0x100), 4, Access::Write), None);
    let wave = (1, [0; 3], 0);
    armed.accessed(wave, (number, 0x104));
    assert_eq!(stops.why(), Some(Why::Wave(number, "write 0x100 8: 0x104".into(), wave)));
    assert_eq!(stops.accesses(), [(wave, number, 0x104)]);
    assert!(stops.proceed() && stops.accesses().is_empty());
}

#[test]
fn breakpoints_are_bounded_and_registers_halt() {
    let stops = Arc::new(Stops::default());
    let add = || stops.add(BreakOn::Register("IH_RB_CNTL".into(), 7));
    let added = std::iter::from_fn(add).count();
    assert_eq!(added, MAX_BREAKS);
    stops.written(8, 1);
    assert!(!stops.wait(Duration::ZERO));
    stops.written(7, 1);
    assert_eq!(stops.why(), Some(Why::Other(1, "register IH_RB_CNTL: 0x1".into())));
}

#[test]
fn packets_wait_for_looks_and_everything_else_goes_before() {
    let stops = Arc::new(Stops::default());
    let line = || BreakOn::Line("a.cl:3".into());
    let number = stops.add(line()).expect("the first one");
    assert!(stops.wants_looks() && !stops.looked_before((4, 7)));
    assert!(stops.is_halted() && stops.wait_for_look(Duration::ZERO));
    assert_eq!((stops.why(), stops.wait(Duration::ZERO)), (None, false), "nobody else is told");
    assert!(!stops.looked_before((5, 9)), "another queue waits meanwhile");
    assert!(stops.looked() && !stops.is_halted());
    assert!(!stops.looked_before((5, 9)) && stops.looked());
    assert!(stops.looked_before((4, 7)) && stops.looked_before((5, 9)));

    // A packet that is looked at again, and one at which a client pauses in the meantime.
    assert!(!stops.looked_before((4, 7)));
    stops.pause();
    assert_eq!(stops.why(), Some(Why::Paused));
    assert!(!stops.looked() && stops.is_halted(), "the pause stays");
    assert!(stops.proceed() && stops.looked_before((4, 7)));

    // The replacement has the number of the line.
    assert!(stops.replace(number, vec![BreakOn::Pc(8), BreakOn::Pc(16)]));
    assert!(!stops.wants_looks() && !stops.replace(number + 2, Vec::new()));
    let breaks: Vec<_> = stops.breaks().into_iter().collect();
    assert_eq!(breaks, [(number, BreakOn::Pc(8)), (number + 1, BreakOn::Pc(16))]);
    let last = std::iter::from_fn(|| stops.add(line())).last().expect("some more");
    assert!(!stops.replace(last, vec![BreakOn::Pc(8), BreakOn::Pc(16)]), "there is no room");
    assert!(stops.breaks().contains_key(&last) && stops.wants_looks());
}

#[test]
fn device_that_goes_on_by_itself_is_looked_at_again() {
    let stops = Arc::new(Stops::default());
    stops.add(BreakOn::Line("a.cl:3".into()));
    assert!(!stops.looked_before((4, 7)));
    assert!(stops.proceed(), "a client lets it go on");
    assert!(!stops.looked_before((4, 7)) && stops.wait_for_look(Duration::ZERO));
    assert!(stops.remove(None) && stops.looked() && !stops.wants_looks());
}
