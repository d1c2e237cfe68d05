//! Queues whose kernels do not end: they are stopped and suspended, and other queues go on.

use std::sync::atomic::Ordering;

use belfry_device::queue::{Progress, QueueEngine as _};

use crate::bench::{Bench, Queue, READ_WRITE};

/// A queue with a kernel in progress that runs until the flag is set: queue, flag, output, completion signal.
fn endless(bench: &Bench, groups: u32) -> (Queue, u64, u64, u64) {
    let mut queue = bench.queue(16);
    let flag = bench.buffer(&[0u32]);
    let out = bench.alloc(u64::from(groups) * 256, READ_WRITE);
    let (signal, _) = bench.signal(1, Some(9));
    let mut packet = bench.dispatch("wait_for", [groups * 64, 1, 1], [64, 1, 1], bench.buffer(&[flag, out]));
    packet.completion_signal = signal;
    queue.submit(&packet);
    let before = bench.env.shader.statistics().wave_instructions;
    bench.run_until(&mut [&mut queue], || bench.env.shader.statistics().wave_instructions > before);
    (queue, flag, out, signal)
}

#[test]
fn endless_kernels_are_stopped_and_leave_nothing_behind() {
    for workers in [1, 2] {
        let bench = Bench::new(workers);
        // More waves than the modelled GPU has room for.
        let (mut queue, flag, out, signal) = endless(&bench, 400);
        queue.cp.stop();
        let instructions = bench.env.shader.statistics().wave_instructions;
        bench.space.store_u32(flag, 1).expect("mapped");
        let mut other = bench.queue(16);
        bench.assert_works(&mut other);
        assert_eq!(bench.value(signal), 1);
        assert!(bench.u32s(out, 400 * 64).iter().all(|&value| value == 0));
        assert!(bench.interrupts.all().is_empty());
        assert_eq!(queue.cp.service(), Progress::Idle);
        // Only the other queue's vector addition has run since.
        assert!(bench.env.shader.statistics().wave_instructions - instructions < 10_000);
    }
}

#[test]
fn endless_kernels_share_one_worker_with_other_queues() {
    let bench = Bench::new(1);
    let (mut first, ..) = endless(&bench, 400);
    let (mut second, ..) = endless(&bench, 400);
    let mut other = bench.queue(16);
    bench.assert_works(&mut other);
    drop(bench.queue(16));
    first.cp.stop();
    second.cp.stop();
}

#[test]
fn dropping_a_queue_stops_it() {
    let bench = Bench::new(1);
    let (queue, flag, _, signal) = endless(&bench, 4);
    drop(queue);
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.assert_works(&mut bench.queue(16));
    assert_eq!(bench.value(signal), 1);
}

#[test]
fn queue_that_is_stopped_or_suspended_raises_no_interrupt_any_more() {
    for stops in [true, false] {
        let bench = Bench::new(1);
        let (mut queue, flag, _, signal) = endless(&bench, 8);
        bench.interrupts.is_slow.store(true, Ordering::SeqCst);
        bench.space.store_u32(flag, 1).expect("mapped");
        bench.run_until(&mut [], || bench.value(signal) == 0);
        if stops {
            queue.cp.stop();
        } else {
            queue.cp.suspend();
        }
        assert_eq!(bench.interrupts.all().len(), 1, "its last one has been told");
    }
}

#[test]
fn suspended_queue_keeps_its_waves_and_goes_on() {
    let bench = Bench::new(2);
    let (mut queue, flag, out, signal) = endless(&bench, 8);
    queue.cp.suspend();
    let instructions = bench.env.shader.statistics().wave_instructions;
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.assert_works(&mut bench.queue(16));
    assert!(bench.env.shader.statistics().wave_instructions - instructions < 10_000);
    assert_eq!(bench.value(signal), 1);
    let wakes = bench.wakes.load(Ordering::SeqCst);
    queue.cp.resume();
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
    assert_eq!(bench.u32s(out, 512), [7; 512]);
    bench.run_until(&mut [&mut queue], || bench.wakes.load(Ordering::SeqCst) > wakes);
}

#[test]
fn what_completed_before_a_suspension_is_not_run_again() {
    let bench = Bench::new(1);
    let (mut queue, flag, out, signal) = endless(&bench, 1);
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.run_until(&mut [], || bench.value(signal) == 0);
    // Completed, but no service has retired it yet.
    assert_eq!((queue.cp.read_index(), queue.cp.is_busy()), (0, true));
    queue.cp.suspend();
    assert_eq!((queue.cp.read_index(), queue.read_index(), queue.cp.is_busy()), (1, 1, false));
    bench.space.store_u32(out, 0).expect("mapped");
    queue.cp.resume();
    bench.drain(&mut queue);
    assert_eq!((bench.u32s(out, 2), bench.value(signal)), (vec![0, 7], 0));
}

#[test]
fn flushes_and_map_changes_end_while_kernels_run() {
    let bench = Bench::new(2);
    let (mut queue, flag, _, signal) = endless(&bench, 8);
    for _ in 0..20 {
        bench.space.invalidate();
        bench.memory.changed();
    }
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
}

#[test]
fn page_taken_away_is_not_touched_after_the_flush() {
    let bench = Bench::new(2);
    let (mut queue, flag, ..) = endless(&bench, 8);
    bench.map(flag & !0xfff, 0, 0);
    bench.space.invalidate();
    let error = bench.run_to_error(&mut queue);
    assert_eq!(error.cause.fault().map(|fault| fault.va), Some(flag), "{error}");
}
