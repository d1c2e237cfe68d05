use super::*;
use std::sync::atomic::AtomicBool;
use vm_memory::GuestRegionMmap;

fn memory() -> Memory {
    let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
    let map = GuestMemoryMmap::from_ranges(&[(GuestAddress(0x1000), 0x2000), (GuestAddress(0x3000), 0x1000)])
        .expect("anonymous memory");
    Memory::new(vram, GuestMemoryAtomic::new(map))
}

#[test]
fn values_round_trip_in_vram_and_across_adjacent_regions() {
    let memory = memory();
    for location in [
        Location::Vram(0),
        Location::Vram((1 << 20) - 16),
        Location::System(0x1001),
        Location::System(0x2ffb),
    ] {
        let value = [0x0123_4567_89ab_cdefu64, !0];
        memory.write(location, &value).expect("mapped");
        assert_eq!(memory.read::<[u64; 2]>(location), Ok(value), "{location:?}");
    }
}

#[test]
fn accesses_outside_are_refused() {
    let memory = memory();
    for (location, len) in [
        (Location::Vram(1 << 20), 1),
        (Location::Vram((1 << 20) - 4), 8),
        (Location::Vram(u64::MAX), 2),
        (Location::System(0), 1),
        (Location::System(0x3ffc), 8),
        (Location::System(u64::MAX - 3), 8),
    ] {
        let mut out = vec![0; len];
        assert!(
            matches!(memory.read_bytes(location, &mut out), Err(Error::OutOfRange { .. })),
            "{location:?}"
        );
        assert!(memory.write_bytes(location, &out).is_err(), "{location:?}");
    }
    assert!(matches!(memory.load_u64(Location::Vram(4)), Err(Error::Misaligned { .. })));
    assert!(matches!(memory.store_u32(Location::System(0x1002), 0), Err(Error::Misaligned { .. })));
}

#[test]
fn atomics_see_each_other() {
    let memory = memory();
    let location = Location::System(0x1008);
    memory.store_u64(location, 5).expect("mapped");
    assert_eq!(memory.fetch_add_u64(location, u64::MAX), Ok(5));
    assert_eq!(memory.load_u64(location), Ok(4));
    assert_eq!(memory.load_u32(location), Ok(4));
}

#[test]
fn replaced_map_is_followed_only_after_changed() {
    let source = GuestMemoryAtomic::new(
        GuestMemoryMmap::<()>::from_ranges(&[(GuestAddress(0), 0x1000)]).expect("anonymous memory"),
    );
    let memory = Memory::new(MmapRegion::new(0x1000).expect("anonymous memory"), source.clone());
    memory.store_u32(Location::System(0), 7).expect("mapped");
    let replacement =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0x8000), 0x1000)]).expect("anonymous memory");
    source.lock().expect("not poisoned").replace(replacement);
    let before = memory.generation();
    assert_eq!(memory.load_u32(Location::System(0)), Ok(7));
    memory.changed();
    assert_ne!(memory.generation(), before);
    assert!(memory.load_u32(Location::System(0)).is_err());
    assert_eq!(memory.load_u32(Location::System(0x8000)), Ok(0));
}

#[test]
fn changed_waits_for_slices_in_progress() {
    let memory = memory();
    let slice = memory.enter();
    let (pointer, len) = memory.host_pointer(&slice, Location::System(0x1000)).expect("mapped");
    assert!(!pointer.is_null() && len == 0x2000);
    changes_behind(slice, &memory, &memory.quiescence);
}

/// Checks that a change of the memory map waits for a slice counted by `counter`, and returns once it is
/// over.
pub(crate) fn changes_behind(slice: impl Sized, memory: &Memory, counter: &Quiescence) {
    let slice_is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| {
            memory.changed();
            slice_is_over.load(Ordering::SeqCst)
        });
        // The thread is asleep, so that only the end of the slice can let it go on.
        while !counter.is_asleep() {
            assert!(!changing.is_finished(), "changed returned while a slice was in progress");
            std::thread::yield_now();
        }
        slice_is_over.store(true, Ordering::SeqCst);
        drop(slice);
        assert!(changing.join().expect("changed returns once the slice is over"));
    });
}

#[test]
fn changed_keeps_the_old_map_until_its_slices_are_over() {
    let region = |start| {
        let region = MmapRegion::new(0x1000).expect("anonymous memory");
        Arc::new(GuestRegionMmap::<()>::new(region, GuestAddress(start)).expect("in range"))
    };
    let map = |region| GuestMemoryMmap::from_arc_regions(vec![region]).expect("one region");
    let old = region(0);
    let mapped = Arc::downgrade(&old);
    let source = GuestMemoryAtomic::new(map(old));
    let memory = Memory::new(MmapRegion::new(0x1000).expect("anonymous memory"), source.clone());
    std::thread::scope(|scope| {
        let slice = memory.enter();
        let block = memory.block(&slice, Location::System(0), Access::Read).expect("mapped");
        // A host that takes a range away does this: it forgets the range, and then tells the device.
        source.lock().expect("not poisoned").replace(map(region(0x8000)));
        let changing = scope.spawn(|| memory.changed());
        while !memory.quiescence.is_asleep() {
            assert!(!changing.is_finished(), "changed returned while a slice was in progress");
            std::thread::yield_now();
        }
        // New accesses see the new map already, and the slice still sees its memory.
        assert!(memory.load_u32(Location::System(0)).is_err());
        assert!(mapped.upgrade().is_some(), "memory was unmapped under a slice that uses it");
        block.write(&[1; 8]);
        drop(slice);
        changing.join().expect("changed returns once the slice is over");
    });
    assert!(mapped.upgrade().is_none(), "memory stayed mapped after nobody used it");
}
