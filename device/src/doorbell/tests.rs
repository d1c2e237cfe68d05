//! Doorbells as the device and a guest with a mapped page use them.

use super::*;

fn doorbells() -> Doorbells {
    Doorbells::new(MmapRegion::new(DOORBELL_BAR_SIZE as usize).expect("anonymous memory"))
        .expect("right size")
}

#[test]
fn values_are_kept_in_the_page() {
    let doorbells = doorbells();
    doorbells.store(at(0x58), 0x1_0000_0002, 8);
    assert_eq!(doorbells.load(at(0x58)), 0x1_0000_0002);
    doorbells.store(at(0xbc4), 7, 4);
    assert_eq!(
        (doorbells.load(at(0xbc0)), doorbells.load32(at(0xbc4)), doorbells.load32(at(0xbc0))),
        (7 << 32, 7, 0)
    );
    doorbells.reset();
    assert_eq!(doorbells.load(at(0x58)), 0);
}

#[test]
fn value_taken_back_before_a_reset_is_not_found_after_it() {
    let doorbells = doorbells();
    assert_eq!(doorbells.store(at(0x58), 5, 8), None);
    doorbells.value(0x58 / 8).store(0, Ordering::Release);
    doorbells.reset();
    assert_eq!(doorbells.store(at(0x58), 7, 8), None, "nobody wrote since the reset");
}

fn at(bytes: u64) -> DoorbellOffset {
    DoorbellOffset::from_bytes(bytes)
}

fn bell(dwords: u32) -> DoorbellIndex {
    DoorbellIndex::from_dwords(dwords)
}

/// Stores as a guest does that has mapped the page.
fn store_behind(doorbells: &Doorbells, offset: u64, value: u64) {
    doorbells.value(offset / 8).store(value, Ordering::Release);
}

fn polled(value: u64) -> Rung {
    Rung { value, found: true }
}

fn trapped(value: u64) -> Rung {
    Rung { value, found: false }
}

#[test]
fn ways_are_told_apart() {
    let doorbells = doorbells();
    doorbells.own(bell(0x800), Owner::Ring);
    assert_eq!(doorbells.take(bell(0x800)), None);
    // An access, also with the value that is there already.
    for _ in 0..2 {
        assert_eq!(doorbells.store(at(0x2000), 5, 8), None);
        assert!(doorbells.is_rung(bell(0x800)));
        assert_eq!(doorbells.take(bell(0x800)), Some(trapped(5)));
        assert_eq!(doorbells.take(bell(0x800)), None);
    }
    // A store that the device does not see, and one that an access overwrites before the device looks.
    store_behind(&doorbells, 0x2000, 6);
    assert_eq!(doorbells.take(bell(0x800)), Some(polled(6)));
    store_behind(&doorbells, 0x2000, 7);
    assert_eq!(doorbells.store(at(0x2000), 8, 8), Some(7));
    assert_eq!(doorbells.take(bell(0x800)), Some(trapped(8)));
    // Half an access, over a store.
    store_behind(&doorbells, 0x2000, 9);
    assert_eq!(doorbells.store(at(0x2004), 1, 4), Some(9));
    assert_eq!(doorbells.take(bell(0x800)), Some(trapped(1 << 32 | 9)));
    // An access, then a store: both.
    assert_eq!(doorbells.store(at(0x2000), 10, 8), None);
    store_behind(&doorbells, 0x2000, 11);
    assert_eq!(doorbells.take(bell(0x800)), Some(polled(11)));
    // The host announces it.
    assert!(
        doorbells.note(at(0x2000)) && !doorbells.note(at(0x2008)) && !doorbells.note(at(DOORBELL_BAR_SIZE))
    );
    assert_eq!(doorbells.take(bell(0x800)), Some(trapped(11)));
}

#[test]
fn a_new_owner_is_not_rung_by_what_it_finds() {
    let doorbells = doorbells();
    store_behind(&doorbells, 0x2000, 9);
    doorbells.own(bell(0x800), Owner::Ring);
    assert_eq!(doorbells.take(bell(0x800)), None);
    doorbells.replace(at(0x2000), 9, 3);
    assert_eq!((doorbells.take(bell(0x800)), doorbells.load(at(0x2000))), (None, 3));
    // Rung between the two looks: the new value stays.
    store_behind(&doorbells, 0x2000, 4);
    doorbells.replace(at(0x2000), 3, 0);
    assert_eq!(doorbells.take(bell(0x800)), Some(polled(4)));
}

#[test]
fn traps_are_never_taken_for_stores() {
    const RINGS: u64 = 200_000;
    let doorbells = doorbells();
    doorbells.own(bell(0x800), Owner::Ring);
    std::thread::scope(|scope| {
        let ringing = scope.spawn(|| {
            for value in 1..=RINGS {
                assert_eq!(doorbells.store(at(0x2000), value, 8), None, "at {value}");
            }
        });
        let mut last = 0;
        while last != RINGS {
            if let Some(Rung { value, found }) = doorbells.take(bell(0x800)) {
                assert!(!found, "at {value}");
                assert!(value >= last);
                last = value;
            }
        }
        ringing.join().expect("no assertion of it failed");
    });
}

#[test]
fn stores_are_counted_once_however_they_are_found() {
    // One thread stores without the device seeing it and waits until the value is known. Another thread traps on the
    // same page, and on the same doorbell. Each store is found either by looking or by the access that overwrites it.
    const STORES: u64 = 20_000;
    let doorbells = doorbells();
    doorbells.own(bell(0x800), Owner::Ring);
    let (found, done) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 1..=STORES {
                store_behind(&doorbells, 0x2000, value);
                while found.load(Ordering::Acquire) < value {
                    std::hint::spin_loop();
                }
            }
            done.store(true, Ordering::Release);
        });
        scope.spawn(|| {
            let mut trapped = 1 << 32;
            while !done.load(Ordering::Acquire) {
                trapped += 1;
                doorbells.store(at(0x2008), trapped, 8);
                if trapped % 3 == 0 && doorbells.store(at(0x2000), trapped, 8).is_some() {
                    found.fetch_add(1, Ordering::AcqRel);
                }
                std::thread::yield_now();
            }
        });
        while !done.load(Ordering::Acquire) {
            if doorbells.take(bell(0x800)).is_some_and(|rung| rung.found) {
                found.fetch_add(1, Ordering::AcqRel);
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(found.into_inner(), STORES);
}

#[test]
fn listeners_hear_of_every_change_once() {
    #[derive(Default)]
    struct Heard(std::sync::Mutex<Vec<(u64, bool)>>);
    impl DoorbellListener for Heard {
        fn listens(&self, doorbell: DoorbellOffset, listening: bool) {
            self.0.lock().expect("no panic").push((doorbell.bytes(), listening));
        }
    }
    let heard = Arc::new(Heard::default());
    let doorbells = doorbells();
    doorbells.set_listener(heard.clone());
    doorbells.own(bell(0x800), Owner::Queue);
    doorbells.own(bell(0x800), Owner::Queue);
    doorbells.own(bell(0x804), Owner::Queue);
    for owner in [Owner::Nobody, Owner::Nobody, Owner::Ring, Owner::Nobody] {
        doorbells.own(bell(0x804), owner);
    }
    doorbells.set_busy(bell(0x800), true);
    assert!(doorbells.is_busy(0x2000) && !doorbells.is_busy(0x3000));
    assert_eq!(doorbells.of_page(0x2000).collect::<Vec<_>>(), [(at(0x2000), 0)]);
    doorbells.reset();
    assert!(!doorbells.is_busy(0x2000) && doorbells.of_page(0x2000).next().is_none());
    let expected = [(0x2000, true), (0x2010, true), (0x2010, false), (0x2000, false)];
    assert_eq!(*heard.0.lock().expect("no panic"), expected);
}

#[test]
fn outside_of_the_bar_there_is_nothing() {
    let doorbells = doorbells();
    doorbells.store(at(DOORBELL_BAR_SIZE), 1, 8);
    assert_eq!(doorbells.load(at(DOORBELL_BAR_SIZE)), 0);
    assert_eq!(doorbells.load(at(u64::MAX)), 0);
}

#[test]
fn ownership_is_per_doorbell() {
    let doorbells = doorbells();
    doorbells.own(bell(0x16), Owner::Ring);
    assert!(doorbells.is_owned(at(0x58)) && doorbells.is_owned(at(0x5c)) && !doorbells.is_owned(at(0x60)));
    doorbells.own(bell(0x16), Owner::Nobody);
    assert!(!doorbells.is_owned(at(0x58)));
}

#[test]
fn regions_of_the_wrong_size_are_refused() {
    assert_eq!(Doorbells::new(MmapRegion::new(4096).expect("anonymous memory")).err(), Some(4096));
}

#[test]
fn each_doorbell_has_one_owner_and_the_interrupt_handlers_stay_over_a_reset() {
    let doorbells = doorbells();
    let interrupt = |which| Owner::Interrupts(which);
    doorbells.own(bell(0x800), Owner::Queue);
    doorbells.own(bell(0x16), Owner::Ring);
    // Two that are halves of one 64-bit doorbell, and none for ring 1.
    doorbells.set_interrupts([Some(at(0xbc0)), None, Some(at(0xbc4))]);
    let owners = || [0x2000, 0x58, 0xbc0, 0xbc4, 0xbc8].map(|offset| doorbells.owner(at(offset)));
    let [rptr, acknowledge] = [InterruptDoorbell::Rptr, InterruptDoorbell::RetryAcknowledge].map(interrupt);
    assert_eq!(owners(), [Owner::Queue, Owner::Ring, rptr, acknowledge, Owner::Nobody]);
    assert_eq!(doorbells.owner(at(0x2004)), Owner::Queue, "the upper half");
    // A queue's doorbell that the handler takes over.
    doorbells.set_interrupts([None, Some(at(0x2000)), None]);
    assert_eq!(doorbells.owner(at(0x2000)), interrupt(InterruptDoorbell::RetryRptr));
    assert_eq!(doorbells.owner(at(0xbc0)), Owner::Nobody);
    doorbells.reset();
    let left = [Owner::Interrupts(InterruptDoorbell::RetryRptr), Owner::Nobody];
    assert_eq!([0x2000, 0x58].map(|offset| doorbells.owner(at(offset))), left);
    assert_eq!(doorbells.interrupt(InterruptDoorbell::RetryRptr), Some(at(0x2000)));
    assert_eq!(doorbells.owner(at(u64::MAX)), Owner::Nobody, "outside of the BAR");
}
