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
        Physical::local(0),
        Physical::local((1 << 20) - 16),
        Physical::system(0x1001),
        Physical::system(0x2ffb),
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
        (Physical::local(1 << 20), 1),
        (Physical::local((1 << 20) - 4), 8),
        (Physical::local(u64::MAX), 2),
        (Physical::system(0), 1),
        (Physical::system(0x3ffc), 8),
        (Physical::system(u64::MAX - 3), 8),
    ] {
        let mut out = vec![0; len];
        assert!(
            matches!(memory.read_bytes(location, &mut out), Err(Error::OutOfRange { .. })),
            "{location:?}"
        );
        assert!(memory.write_bytes(location, &out).is_err(), "{location:?}");
    }
    assert!(matches!(memory.load_u64(Physical::local(4)), Err(Error::Misaligned { .. })));
    assert!(matches!(memory.store_u32(Physical::system(0x1002), 0), Err(Error::Misaligned { .. })));
}

#[test]
fn atomics_see_each_other() {
    let memory = memory();
    let location = Physical::system(0x1008);
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
    memory.store_u32(Physical::system(0), 7).expect("mapped");
    let replacement =
        GuestMemoryMmap::from_ranges(&[(GuestAddress(0x8000), 0x1000)]).expect("anonymous memory");
    source.lock().expect("not poisoned").replace(replacement);
    let before = memory.generation();
    assert_eq!(memory.load_u32(Physical::system(0)), Ok(7));
    memory.changed();
    assert_ne!(memory.generation(), before);
    assert!(memory.load_u32(Physical::system(0)).is_err());
    assert_eq!(memory.load_u32(Physical::system(0x8000)), Ok(0));
}

#[test]
fn changed_waits_for_slices_in_progress() {
    let memory = memory();
    let slice = memory.enter();
    let (pointer, len) = memory.host_pointer(&slice, Physical::system(0x1000)).expect("mapped");
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
        let block = memory.block(&slice, Physical::system(0), Access::Read).expect("mapped");
        // A host that takes a range away does this: it forgets the range, and then tells the device.
        source.lock().expect("not poisoned").replace(map(region(0x8000)));
        let changing = scope.spawn(|| memory.changed());
        while !memory.quiescence.is_asleep() {
            assert!(!changing.is_finished(), "changed returned while a slice was in progress");
            std::thread::yield_now();
        }
        // New accesses see the new map already, and the slice still sees its memory.
        assert!(memory.load_u32(Physical::system(0)).is_err());
        assert!(mapped.upgrade().is_some(), "memory was unmapped under a slice that uses it");
        block.write(&[1; 8]);
        drop(slice);
        changing.join().expect("changed returns once the slice is over");
    });
    assert!(mapped.upgrade().is_none(), "memory stayed mapped after nobody used it");
}

#[test]
fn peers_are_reached_by_their_numbers_and_the_others_are_not_there() {
    let [own, other] = [memory(), memory()];
    assert!(matches!(own.load_u32(Physical::peer(1, 0)), Err(Error::OutOfRange { .. })), "not there yet");
    assert_eq!(own.set_peer(8, Some(other.vram().into())), Err(NoSuchPeer(8)));
    let before = own.generation();
    own.set_peer(1, Some(other.vram().into())).expect("a number of the fabric");
    assert_ne!(own.generation(), before, "pointers from before may lead elsewhere");
    own.store_u64(Physical::peer(1, 8), 5).expect("in the peer's VRAM");
    assert_eq!(other.fetch_add_u64(Physical::local(8), 2), Ok(5), "one memory for both");
    assert_eq!((own.load_u64(Physical::peer(1, 8)), own.load_u64(Physical::local(8))), (Ok(7), Ok(0)));
    for nowhere in
        [Physical::peer(1, 1 << 20), Physical::peer(1, u64::MAX), Physical::peer(0, 0), Physical::peer(9, 0)]
    {
        assert!(
            matches!(own.load_u32(nowhere), Err(Error::OutOfRange { .. } | Error::Misaligned { .. })),
            "{nowhere:?}"
        );
    }
    own.set_peer(1, None).expect("a number of the fabric");
    assert!(own.load_u64(Physical::peer(1, 8)).is_err());
}

#[test]
fn peer_s_memory_stays_until_the_slices_that_use_it_are_over() {
    let memory = memory();
    let vram = Arc::new(MmapRegion::new(0x1000).expect("anonymous memory"));
    let mapped = Arc::downgrade(&vram);
    memory.set_peer(3, Some(vram.into())).expect("a number of the fabric");
    std::thread::scope(|scope| {
        let slice = memory.enter();
        let block = memory.block(&slice, Physical::peer(3, 0), Access::Write).expect("there");
        let leaving = scope.spawn(|| memory.set_peer(3, None));
        while !memory.quiescence.is_asleep() {
            assert!(!leaving.is_finished(), "the peer left while a slice was in progress");
            std::thread::yield_now();
        }
        assert!(memory.load_u32(Physical::peer(3, 0)).is_err(), "new accesses do not find it");
        assert!(mapped.upgrade().is_some(), "memory was unmapped under a slice that uses it");
        block.write(&[1; 8]);
        drop(slice);
        assert_eq!(leaving.join().expect("it leaves once the slice is over"), Ok(()));
    });
    assert!(mapped.upgrade().is_none(), "memory stayed mapped after nobody used it");
}
