//! Preempted PM4 queues: waves, fences, buffers and registers go to memory, and come back from there.

use std::sync::Arc;

use belfry_abi::pm4::ComputeRegister;
use belfry_device::cp::{Cause, Pm4Queue, QueueError};
use belfry_device::queue::{BlockedOn, ContextArea, ContextOffsets, Progress, QueueEngine as _};
use belfry_device::shader::ContextError;

use super::{Ring, THREADS, direct, enter, halves, program, release, set, wait, write};
use crate::bench::{Bench, Interrupt, READ_WRITE};
use crate::context::saved_to;

const STACK: u32 = 0x1000;
/// Contexts of all waves that eight compute units hold.
const SIZE: u32 = STACK + 8 * 0x7_5000;

fn area(bench: &Bench) -> ContextArea {
    ContextArea { base: bench.alloc(SIZE.into(), READ_WRITE), size: SIZE, stack_size: STACK }
}

fn restore(
    bench: &Bench,
    ring: &mut Ring,
    area: &ContextArea,
    (registers, offsets): (&[u32], Option<ContextOffsets>),
) -> Result<(), QueueError> {
    let mut config = ring.config;
    config.read_index = ring.cp.read_index();
    let (space, gws) = (Arc::clone(&bench.space), Arc::default());
    ring.cp = match offsets {
        None => Pm4Queue::new(config, space, gws, &bench.env, registers),
        Some(offsets) => {
            Pm4Queue::from_context(config, space, gws, &bench.env, registers, (Some(area), offsets))?
        }
    };
    Ok(())
}

/// Takes a queue off its slot and puts it on another one; returns true if something was saved.
fn preempt(bench: &Bench, ring: &mut Ring, area: &ContextArea) -> bool {
    ring.cp.suspend();
    let registers = ring.cp.compute_registers().expect("it has some").to_vec();
    let offsets = saved_to(ring.cp.save(Some(area)).expect("saved"));
    restore(bench, ring, area, (&registers, offsets)).expect("restored");
    offsets.is_some()
}

#[test]
fn preempted_dispatches_end_as_if_they_had_not_been_and_their_fences_come_in_order() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 1024);
    let area = area(&bench);
    let data = bench.alloc(4096, READ_WRITE);
    let held: Vec<(u64, u64)> = (1..4u64)
        .map(|number| {
            let (flag, out) = (bench.buffer(&[0u32, 0]), bench.alloc(512, READ_WRITE));
            let args = bench.buffer(&[flag, out, number << 16 | number << 48]);
            ring.submit(
                &bench,
                &[
                    program(&bench, "hold", [64, 1, 1], 256, args),
                    direct([64, 1, 1], THREADS),
                    release(data + number * 8, number, number as u32),
                ],
            );
            (flag, out)
        })
        .collect();
    ring.run_until(|| held.iter().all(|(flag, _)| bench.u32s(flag + 4, 1) == [1]));
    // The last one may end, but its fence comes after those of the others.
    bench.space.store_u32(held[2].0, 1).expect("mapped");
    let words = |out: u64| bench.u32s(out, 128);
    ring.run_until(|| words(held[2].1)[127] != 0);
    for (at, &(flag, out)) in held.iter().enumerate() {
        for _ in 0..3 {
            assert!(preempt(&bench, &mut ring, &area));
            assert_eq!(bench.interrupts.all().len(), at);
        }
        bench.space.store_u32(flag, 1).expect("mapped");
        let expected = if at == 1 { 3 } else { at + 1 };
        ring.run_until(|| bench.interrupts.all().len() >= expected);
        let number = at as u32 + 1;
        assert!((number << 16..).zip(&words(out)[..64]).all(|(value, &word)| value == word), "{number}");
        if expected == 3 {
            break;
        }
    }
    let doorbell = ring.config.identity.doorbell;
    assert_eq!(bench.interrupts.all(), [1, 2, 3].map(|number| Interrupt::Eop(doorbell, number)));
    assert_eq!(bench.u32s(data + 8, 6), [1, 0, 2, 0, 3, 0]);
    ring.drain(&bench);
}

#[test]
fn preempted_buffer_goes_on_where_it_was() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 64);
    let (area, data) = (area(&bench), bench.alloc(4096, READ_WRITE));
    let inner = [write(data, &[1]), wait(data + 64, 1), write(data + 4, &[2])].concat();
    let outer = [enter(bench.buffer(&inner), inner.len(), 0), write(data + 8, &[3])].concat();
    ring.submit(&bench, &[enter(bench.buffer(&outer), outer.len(), 0), write(data + 12, &[4])]);
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    bench.space.store_u32(data, 0).expect("mapped");
    assert!(preempt(&bench, &mut ring, &area));
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!(ring.read_pointer(&bench), 0);
    bench.space.store_u32(data + 64, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 4), [0, 2, 3, 4], "nothing is executed twice");
}

#[test]
fn registers_outlive_the_slot_without_work_in_progress() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 256);
    let (area, out, fence) = (area(&bench), bench.alloc(4096, READ_WRITE), bench.alloc(64, READ_WRITE));
    let flag = bench.buffer(&[1u32]);
    ring.submit(&bench, &[program(&bench, "wait_for", [64, 1, 1], 0, 0)]);
    ring.drain(&bench);
    assert!(!preempt(&bench, &mut ring, &area), "there is nothing in the area");
    let args = bench.buffer(&[flag, out]);
    let user_data = set(ComputeRegister::USER_DATA_0, &halves(args));
    ring.submit(&bench, &[user_data, direct([64, 1, 1], THREADS), release(fence, 1, 0)]);
    ring.run_until(|| bench.u32s(fence, 1) == [1]);
    assert_eq!(bench.u32s(out, 64), [7; 64]);
}

#[test]
fn scribbles_in_the_area_cost_the_guest_its_queue_at_most() {
    let mut state = 7u64;
    let mut random = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let (mut restored, mut refused) = (0, 0);
    for _ in 0..80 {
        let bench = Bench::new(1);
        let mut ring = Ring::new(&bench, 256);
        let (area, data) = (area(&bench), bench.alloc(64, READ_WRITE));
        let flag = bench.buffer(&[0u32, 0]);
        let args = bench.buffer(&[flag, bench.alloc(512, READ_WRITE), 0]);
        let inside = [write(data, &[1]), wait(data, 2)].concat();
        ring.submit(
            &bench,
            &[
                program(&bench, "hold", [64, 1, 1], 256, args),
                direct([64, 1, 1], THREADS),
                release(data + 8, 1, 7),
                enter(bench.buffer(&inside), inside.len(), 0),
            ],
        );
        ring.run_until(|| bench.u32s(flag + 4, 1) == [1]);
        ring.cp.suspend();
        let registers = ring.cp.compute_registers().expect("it has some").to_vec();
        let offsets = saved_to(ring.cp.save(Some(&area)).expect("saved")).expect("there is work");
        for _ in 0..=random(2) {
            let at = u64::from(offsets.stack) + random(u64::from(STACK - offsets.stack) / 4) * 4;
            // Bits of the packet processor's state, or any word.
            let old = bench.space.load_u32(area.base + at).expect("mapped");
            let value = if random(8) == 0 { random(1 << 32) as u32 } else { old ^ 1 << random(24) };
            bench.space.store_u32(area.base + at, value).expect("mapped");
        }
        match restore(&bench, &mut ring, &area, (&registers, Some(offsets))) {
            Ok(()) => restored += 1,
            Err(error) => {
                refused += 1;
                assert!(!matches!(error.cause, Cause::Context(ContextError::Internal)), "{error}");
            }
        }
        for _ in 0..20 {
            ring.cp.service();
        }
        ring.cp.stop();
    }
    assert!(restored > 5 && refused > 20, "{restored} restored, {refused} refused");
}
