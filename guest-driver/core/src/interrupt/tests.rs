//! Interrupts while everything else is stuck, and more of them than can be handled.

extern crate std;

use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use belfry_abi::ih::{Client, ENTRY_SIZE, IhEntry, Source, sq_encoding, sq_error};
use belfry_abi::kfd::event::{KFD_IOC_EVENT_HW_EXCEPTION, KFD_IOC_EVENT_MEMORY};
use belfry_abi::kfd::memory::AllocFlags;
use belfry_abi::regs::osssys;

use crate::kfd::KfdDevice;
use crate::os::{Change, PAGE_SIZE};
use crate::testing::{Bench, FakeOs, IH_RING_SIZE, lock};

/// After this long a thread counts as stuck; nothing depends on it unless something is wrong.
const STUCK: Duration = Duration::from_secs(20);

/// Does something with the device on a thread of its own; returns whether that came to an end.
fn ends(bench: &Bench, something: impl FnOnce(&KfdDevice<FakeOs>) + Send + 'static) -> bool {
    let gpu = bench.gpu.clone();
    let (done, ended) = mpsc::channel();
    thread::spawn(move || {
        something(&gpu);
        let _ = done.send(());
    });
    ended.recv_timeout(STUCK).is_ok()
}

fn interrupt(bench: &Bench) -> bool {
    ends(bench, |gpu| while gpu.interrupt() {})
}

#[test]
fn interrupts_are_handled_while_another_process_waits_for_its_pages() {
    let bench = &Bench::new();
    let (slow, other) = (bench.process(1), bench.process(2));
    bench.memory(&slow, 0x10_0000, 3 * PAGE_SIZE, AllocFlags::USERPTR);
    let (signal, others) = (bench.signal(&slow), bench.signal(&other));
    let fault = bench.event(&slow, KFD_IOC_EVENT_MEMORY);
    // The fault comes first: an interrupt thread that waits for the slow process's state never gets to the signals.
    bench.raise_fault(&slow);
    bench.raise_signal(&slow, signal);
    bench.raise_signal(&other, others);
    let notice = lock(&bench.os().notices)[0].clone();
    let pages = &bench.os().users.pages_arrive;
    pages.close();
    thread::scope(|scope| {
        scope.spawn(|| notice.invalidated(&Change { start: 0, end: 1 << 47, unmapped: false, held: false }));
        pages.wait_for_waiter();
        let ended = interrupt(bench);
        let told = ended && bench.is_set(&other, others) && bench.is_set(&slow, signal);
        // Nor does the fault wait for pages.
        let settled = ended && ends(bench, |gpu| assert_eq!(gpu.os().run_work(), 1));
        let settled = settled && bench.is_set(&slow, fault);
        pages.open();
        assert!(ended, "the interrupt thread waits for a user's pages");
        assert!(told, "a signal was lost");
        assert!(settled, "the fault was not told");
    });
    assert_eq!(*lock(&bench.os().trace), ["unpin"], "the old pin goes when the new one is there");
}

#[test]
fn interrupts_are_handled_while_processes_and_scheduler_are_busy() {
    let bench = Bench::new();
    let (faulty, other) = (bench.process(1), bench.process(2));
    let signal = bench.signal(&other);
    let fault = bench.event(&faulty, KFD_IOC_EVENT_MEMORY);
    bench.raise_fault(&faulty);
    bench.raise_signal(&other, signal);
    let busy = (faulty.state.lock(), other.state.lock());
    let mut ended = false;
    bench
        .device
        .with_scheduler(0, |_| {
            ended = interrupt(&bench);
            Ok(())
        })
        .unwrap();
    drop(busy);
    assert!(ended, "the interrupt thread waits for the scheduler or for a process");
    assert!(bench.is_set(&other, signal), "a signal was lost");
    assert!(!bench.is_set(&faulty, fault), "queues stop before a fault is told");
    assert_eq!(bench.os().run_work(), 1);
    assert!(bench.is_set(&faulty, fault));
}

#[test]
fn consumed_poison_takes_the_queues_of_its_process_off_before_that_is_told() {
    let bench = Bench::new();
    let (reader, other) = (bench.process(1), bench.process(2));
    let kinds = [KFD_IOC_EVENT_MEMORY, KFD_IOC_EVENT_HW_EXCEPTION];
    let [events, others] = [&reader, &other].map(|process| kinds.map(|kind| bench.event(process, kind)));
    bench.raise(&IhEntry::new(Client::GFX, Source::SDMA_ECC, 0, 8, reader.pasid));
    // A page fault that comes with it says less.
    bench.raise_fault(&reader);
    while bench.gpu.interrupt() {}
    assert!(events.iter().all(|&event| !bench.is_set(&reader, event)), "queues stop first");
    bench.os().run_work();
    assert!(events.iter().all(|&event| bench.is_set(&reader, event)));
    assert!(others.iter().all(|&event| !bench.is_set(&other, event)));
    assert_eq!([&reader, &other].map(|process| process.state.lock().devices.running()), [0, 1]);
    assert_eq!(bench.device.uncorrectable.load(Ordering::Relaxed), 1);
    // Nothing was reset: an event that is made later is not set.
    assert!(!bench.is_set(&reader, bench.event(&reader, KFD_IOC_EVENT_HW_EXCEPTION)));
}

#[test]
fn lines_a_program_causes_are_limited_by_name_and_the_rest_is_counted() {
    let bench = Bench::new();
    let process = bench.process(1);
    *lock(&bench.os().manual_clock) = true;
    let bad_packet = IhEntry::new(Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR, 0, 8, process.pasid);
    let mut shader_error = IhEntry::new(Client::GRBM_CP, Source::SQ_INTERRUPT, 0, 8, process.pasid);
    shader_error.data[..2]
        .copy_from_slice(&[sq_error::MEMVIOL << sq_error::TYPE_SHIFT, sq_encoding::ERROR << 6]);
    let said = |what: &str| lock(&bench.os().log).iter().filter(|line| line.contains(what)).count();
    for _ in 0..500 {
        bench.raise(&bad_packet);
    }
    while bench.gpu.interrupt() {}
    assert_eq!(said("bad packet"), 10);
    // Another kind has its own limit, however much there is of the first.
    bench.raise(&shader_error);
    bench.raise_fault(&process);
    while bench.gpu.interrupt() {}
    assert_eq!((said("shader error"), said("memory fault")), (1, 1));

    bench.os().advance_clock(4_999_999_999);
    bench.raise(&bad_packet);
    while bench.gpu.interrupt() {}
    assert_eq!(said("bad packet"), 10);
    bench.os().advance_clock(1);
    bench.raise(&bad_packet);
    while bench.gpu.interrupt() {}
    assert_eq!(said("bad packets: 491 lines suppressed"), 1);
    assert_eq!(said("doorbell and code"), 11);
}

#[test]
fn a_device_that_writes_for_ever_does_not_keep_the_thread_and_loses_nothing() {
    const RING_ENTRIES: u32 = IH_RING_SIZE / ENTRY_SIZE;
    const FLOOD: u32 = 20 * RING_ENTRIES;
    let bench = Bench::new();
    let process = bench.process(1);
    let signal = bench.signal(&process);
    let unknown = IhEntry::new(Client(0x77), Source(1), 0, 8, process.pasid);
    for index in 0..RING_ENTRIES {
        bench.write(index, &unknown);
    }
    // For all that is taken from the ring, the device puts as much behind it, until the flood is over.
    let taken = Arc::new(AtomicU32::new(0));
    let (wptr, count, last) = (bench.wptr(), taken.clone(), AtomicU32::new(0));
    let register = bench.device.hw.registers().dword::<osssys::IH_RB_RPTR>() * 4;
    *lock(&bench.os().on_write) = Some(Box::new(move |offset, rptr| {
        if offset == register {
            let before = last.swap(rptr, Ordering::Relaxed);
            let entries = rptr.wrapping_sub(before) % IH_RING_SIZE / ENTRY_SIZE;
            if count.fetch_add(entries, Ordering::Relaxed) + entries < FLOOD {
                wptr.store((rptr + IH_RING_SIZE - ENTRY_SIZE) % IH_RING_SIZE, Ordering::Release);
            }
        }
    }));
    bench.wptr().store(IH_RING_SIZE - ENTRY_SIZE, Ordering::Release);
    assert!(bench.gpu.interrupt(), "there is more");
    assert!(taken.load(Ordering::Relaxed) <= RING_ENTRIES, "{taken:?} entries in one pass");
    while bench.gpu.interrupt() {}
    let taken = taken.load(Ordering::Relaxed);
    assert!(taken >= FLOOD);
    assert_eq!(bench.processes.unhandled(), u64::from(taken));
    // What comes after it is seen like anything else.
    *lock(&bench.os().on_write) = None;
    bench.raise_signal(&process, signal);
    assert!(!bench.gpu.interrupt());
    assert!(bench.is_set(&process, signal));
}
