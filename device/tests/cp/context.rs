//! Preempted queues: their waves go to the context save area through the trap handler, and come back from there.

use belfry_abi::aql::inactive;
use belfry_device::cp::{AqlQueue, Cause, QueueError};
use belfry_device::queue::{ContextArea, ContextOffsets, QueueEngine as _, Saving};
use belfry_device::shader::ContextError;

use crate::bench::{Bench, Interrupt, Queue, READ_WRITE};

const STACK: u32 = 0x1000;
/// Contexts of all waves that eight compute units hold.
const SIZE: u32 = STACK + 8 * 0x7_5000;
const ROUNDS: u32 = 400;
const GROUPS: u32 = 24;

fn area(bench: &Bench) -> ContextArea {
    ContextArea { base: bench.alloc(SIZE.into(), READ_WRITE), size: SIZE, stack_size: STACK }
}

/// A generator of delays.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn save(queue: &mut Queue, area: Option<&ContextArea>) -> Result<Option<ContextOffsets>, QueueError> {
    queue.cp.suspend();
    let saved =
        queue.cp.save(area).map_err(|error| *error.downcast::<QueueError>().expect("a queue's error"));
    saved.map(saved_to)
}

/// Returns the places of the saved work of a queue that waits for no page.
pub(crate) fn saved_to(saving: Saving) -> Option<ContextOffsets> {
    match saving {
        Saving::Done(offsets) => offsets,
        Saving::Waits => panic!("it waits for pages"),
    }
}

fn restore(
    bench: &Bench,
    queue: &mut Queue,
    area: &ContextArea,
    offsets: ContextOffsets,
) -> Result<(), QueueError> {
    let mut config = queue.config;
    config.read_index = queue.cp.read_index();
    let (space, gws) = (bench.space.clone(), std::sync::Arc::default());
    queue.cp = AqlQueue::from_context(config, space, gws, &bench.env, (Some(area), offsets))?;
    Ok(())
}

/// Saves and restores a queue again and again until a signal is 0; returns how often there were waves to
/// save.
fn preempt_until_done(bench: &Bench, queue: &mut Queue, area: &ContextArea, signal: u64, seed: u64) -> u32 {
    let mut random = Random(seed);
    let mut times = 0;
    while bench.value(signal) != 0 {
        let statistics = || bench.env.shader.statistics().wave_instructions;
        let enough = statistics() + random.below(20_000);
        bench.run_until(&mut [&mut *queue], || statistics() > enough || bench.value(signal) == 0);
        if let Some(offsets) = save(queue, Some(area)).expect("saved") {
            times += u32::from(offsets.waves > STACK);
            restore(bench, queue, area, offsets).expect("restored");
        } else {
            // The queue ended in the meantime.
            assert_eq!(bench.value(signal), 0);
        }
    }
    times
}

fn churned() -> Vec<u32> {
    let mut out = Vec::new();
    for group in 0..GROUPS {
        let mut values: Vec<u32> =
            (0..128).map(|l| (group * 128 + l).wrapping_mul(2_654_435_761).wrapping_add(1)).collect();
        for round in 0..ROUNDS {
            let tile = values.clone();
            for (l, value) in values.iter_mut().enumerate() {
                let other = tile[(l + round as usize * 7 + 1) & 127];
                *value = (*value ^ other).wrapping_mul(1_664_525).wrapping_add(round);
            }
        }
        out.extend(values);
    }
    out
}

/// Preempts with these seeds, and then with others until waves have been in memory: on a busy machine, a
/// queue may be done before it is preempted for the first time.
fn preempt_for(seeds: std::ops::Range<u64>, preempt: impl Fn(u64) -> u32) {
    let mut more = seeds.end..seeds.end + 200;
    let times: u32 = seeds.map(&preempt).sum();
    assert!(times > 0 || more.any(|seed| preempt(seed) > 0), "no wave has ever been in memory");
}

#[test]
fn preempted_grid_with_lds_and_barriers_ends_as_if_it_had_not_been() {
    preempt_for(0..12, |seed| {
        let bench = Bench::new(1 + seed as usize % 3);
        let mut queue = bench.queue(16);
        let area = area(&bench);
        let out = bench.alloc(u64::from(GROUPS) * 128 * 4, READ_WRITE);
        let (signal, _) = bench.signal(1, Some(9));
        let args = bench.buffer(&[out, ROUNDS.into()]);
        let mut packet = bench.dispatch("churn", [GROUPS * 128, 1, 1], [128, 1, 1], args);
        packet.group_segment_size = 512;
        packet.completion_signal = signal;
        queue.submit(&packet);
        let times = preempt_until_done(&bench, &mut queue, &area, signal, seed);
        assert_eq!(bench.u32s(out, (GROUPS * 128) as usize), churned(), "seed {seed}");
        bench.run_until(&mut [&mut queue], || !bench.interrupts.all().is_empty());
        assert_eq!(bench.interrupts.all(), [Interrupt::Eop(queue.doorbell, 9)], "seed {seed}: once");
        times
    });
}

#[test]
fn several_dispatches_and_their_scratch_memory_are_preempted() {
    preempt_for(77..83, preempt_scratch);
}

/// Preempts four dispatches with scratch memory for three waves; returns how often there were waves to save.
fn preempt_scratch(seed: u64) -> u32 {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let area = area(&bench);
    let index: Vec<u32> = (0..64u32).map(|k| (k * 37 + 11) & 63).collect();
    queue.give_scratch(&bench, 3, 320 * 32);
    let (signal, _) = bench.signal(4, None);
    let outs: Vec<u64> = (0..4)
        .map(|_| {
            let out = bench.alloc(8192 * 4, READ_WRITE);
            let args = bench.buffer(&[bench.buffer(&index), out]);
            let mut packet = bench.dispatch("scratch", [8192, 1, 1], [64, 1, 1], args);
            packet.private_segment_size = 320;
            packet.completion_signal = signal;
            queue.submit(&packet);
            out
        })
        .collect();
    let times = preempt_until_done(&bench, &mut queue, &area, signal, seed);
    for out in &outs {
        let (mine, first) = (bench.u32s(*out, 8192), bench.u32s(outs[0], 8192));
        let differ: Vec<_> = (0..8192).filter(|&at| mine[at] != first[at]).collect();
        let values = differ.first().map(|&at| (at, differ.len(), mine[at], first[at]));
        assert_eq!(values, None, "first work-item, how many, and the values of the two dispatches");
    }
    assert_ne!(bench.u32s(outs[0], 1), [0]);
    times
}

#[test]
fn waves_stay_with_their_dispatch_however_often_their_queue_is_preempted() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let area = area(&bench);
    let held: Vec<(u64, u64, u64)> = (1..4u64)
        .map(|number| {
            let (flag, out) = (bench.buffer(&[0u32, 0]), bench.alloc(512, READ_WRITE));
            let (signal, _) = bench.signal(1, None);
            let args = bench.buffer(&[flag, out, number << 16 | number << 48]);
            let mut packet = bench.dispatch("hold", [64, 1, 1], [64, 1, 1], args);
            packet.group_segment_size = 256;
            packet.completion_signal = signal;
            queue.submit(&packet);
            (flag, out, signal)
        })
        .collect();
    let begun = |held: &[(u64, u64, u64)]| held.iter().all(|(flag, ..)| bench.u32s(flag + 4, 1) == [1]);
    bench.run_until(&mut [&mut queue], || begun(&held));
    for (at, &(flag, _, signal)) in held.iter().enumerate() {
        for _ in 0..3 {
            let offsets = save(&mut queue, Some(&area)).expect("saved").expect("there is work");
            restore(&bench, &mut queue, &area, offsets).expect("restored");
        }
        bench.space.store_u32(flag, 1).expect("mapped");
        // Of the dispatches that are left, only the one whose flag is set ends.
        bench.run_until(&mut [&mut queue], || held[at..].iter().any(|held| bench.value(held.2) == 0));
        assert_eq!(bench.value(signal), 0, "dispatch {at}");
        assert!(held[at + 1..].iter().all(|held| bench.value(held.2) == 1), "dispatch {at}");
    }
}

/// A queue with one workgroup of two waves that keeps values in registers and in LDS: queue, flag, output, signal.
fn holding(bench: &Bench) -> (Queue, u64, u64, u64) {
    let mut queue = bench.queue(16);
    let flag = bench.buffer(&[0u32, 0]);
    let out = bench.alloc(512, READ_WRITE);
    let (signal, _) = bench.signal(1, None);
    let args = bench.buffer(&[flag, out, 0x1234_5600 | 0x4242_0000 << 32]);
    let mut packet = bench.dispatch("hold", [64, 1, 1], [64, 1, 1], args);
    packet.group_segment_size = 256;
    packet.completion_signal = signal;
    queue.submit(&packet);
    bench.run_until(&mut [&mut queue], || bench.u32s(flag + 4, 1) == [1]);
    (queue, flag, out, signal)
}

fn finds(words: &[u32], first: u32, count: u32) -> bool {
    words.windows(count as usize).any(|window| (first..).zip(window).all(|(value, &word)| value == word))
}

#[test]
fn registers_and_lds_of_a_preempted_wave_are_in_memory() {
    let bench = Bench::new(2);
    let (mut queue, flag, out, signal) = holding(&bench);
    let area = area(&bench);
    let offsets = save(&mut queue, Some(&area)).expect("saved").expect("there is work");
    // Two waves, each with whole blocks of registers, scalar and hardware registers; the first has 512 bytes of LDS.
    let states = offsets.waves - STACK;
    assert_eq!((states - 512 - 2 * 640) % (2 * 8 * 128), 0, "{states} bytes");
    let words = bench.u32s(area.base + u64::from(STACK), states as usize / 4);
    assert!(finds(&words, 0x1234_5600, 32) && finds(&words, 0x1234_5620, 32), "registers");
    assert!(finds(&words, 0x4242_0000, 64), "LDS");
    let stack = bench.u32s(area.base + u64::from(offsets.stack), ((STACK - offsets.stack) / 4) as usize);
    // One state of a wave32, and a workgroup of two waves, after two words that announce them.
    let state = 2 + stack[2..].iter().position(|word| word >> 31 == 1).expect("a state");
    assert_eq!(stack[state] >> 24 & 1, 1);
    assert_eq!(stack[state] >> 10 & 0xff, 1, "LDS");
    let waves: Vec<bool> = stack[state + 2..].iter().map(|word| word & 1 << 12 != 0).collect();
    assert_eq!(waves, [true, false]);
    // None of its waves is on the GPU.
    bench.assert_works(&mut bench.queue(16));

    restore(&bench, &mut queue, &area, offsets).expect("restored");
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
    let values = bench.u32s(out, 128);
    assert!((0x1234_5600..).zip(&values[..64]).all(|(value, &word)| value == word));
    assert!((0..64).all(|l| values[64 + l as usize] == 0x4242_0000 + 63 - l));
}

#[test]
fn what_is_changed_in_memory_is_what_the_wave_goes_on_with() {
    let bench = Bench::new(1);
    let (mut queue, flag, out, signal) = holding(&bench);
    let area = area(&bench);
    let offsets = save(&mut queue, Some(&area)).expect("saved").expect("there is work");
    let first = area.base + u64::from(STACK);
    let words = bench.u32s(first, (offsets.waves - STACK) as usize / 4);
    let at = words.windows(2).position(|pair| pair == [0x4242_0000, 0x4242_0001]).expect("LDS");
    bench.space.store_u32(first + at as u64 * 4, 99).expect("mapped");
    restore(&bench, &mut queue, &area, offsets).expect("restored");
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
    assert_eq!(bench.u32s(out + 508, 1), [99]);
}

#[test]
fn area_that_is_not_there_stops_its_queue_with_a_fault_and_no_other() {
    let bench = Bench::new(2);
    let hidden = ContextArea { base: 0x6666_0000_0000, size: SIZE, stack_size: STACK };
    let (mut queue, ..) = holding(&bench);
    let error = save(&mut queue, Some(&hidden)).expect_err("nothing is mapped there");
    assert!(matches!(error.cause, Cause::Context(ContextError::Wave(_))), "{error}");
    let fault = error.cause.fault().expect("a page fault");
    assert_eq!(fault.va & !0xfff, hidden.base + u64::from(STACK));
    assert_eq!(bench.interrupts.all().last(), Some(&Interrupt::VmFault(queue.doorbell, fault)));
    assert_eq!(queue.inactive_code(), 0, "the driver reports page faults");

    for area in [None, Some(ContextArea { size: STACK + 1024, ..area(&bench) })] {
        let (mut queue, ..) = holding(&bench);
        let error = save(&mut queue, area.as_ref()).expect_err("no room");
        assert!(matches!(
            error.cause,
            Cause::Context(ContextError::NoArea | ContextError::WavesTooLarge { .. })
        ));
        assert_eq!(queue.inactive_code(), inactive::PREEMPTION);
        assert_eq!(bench.interrupts.all().last(), Some(&Interrupt::BadOpcode(queue.doorbell, 30)));
    }
    let (mut queue, ..) = holding(&bench);
    queue.config.trap = None;
    let mut without = bench.queue_of(queue.config);
    let flag = bench.buffer(&[0u32, 0]);
    drop(queue);
    let args = bench.buffer(&[flag, bench.alloc(512, READ_WRITE), 0]);
    without.submit(&bench.dispatch("hold", [64, 1, 1], [64, 1, 1], args));
    bench.run_until(&mut [&mut without], || bench.u32s(flag + 4, 1) == [1]);
    let area = area(&bench);
    let error = save(&mut without, Some(&area)).expect_err("no handler");
    assert_eq!(error.cause, Cause::Context(ContextError::NoHandler));
    bench.assert_works(&mut bench.queue(16));
}

#[test]
fn scribbles_in_the_area_cost_the_guest_its_queue_at_most() {
    let mut random = Random(4);
    let (mut restored, mut refused) = (0, 0);
    for round in 0..150u32 {
        let bench = Bench::new(1);
        let (mut queue, ..) = holding(&bench);
        let area = area(&bench);
        let mut offsets = save(&mut queue, Some(&area)).expect("saved").expect("there is work");
        // In the control stack, in the waves, and in the offsets of both.
        let (from, to) = if round % 2 == 0 { (offsets.stack, STACK) } else { (STACK, offsets.waves) };
        for _ in 0..=random.below(6) {
            let at = u64::from(from) + random.below(u64::from(to - from) / 4) * 4;
            let value = match random.below(4) {
                0 => u32::MAX,
                1 => 0,
                2 => 1 << random.below(32),
                _ => random.below(1 << 32) as u32,
            };
            bench.space.store_u32(area.base + at, value).expect("mapped");
        }
        if round % 10 == 0 {
            offsets.stack = random.below(1 << 32) as u32;
        } else if round % 10 == 5 {
            offsets.waves = random.below(1 << 32) as u32;
        }
        match restore(&bench, &mut queue, &area, offsets) {
            Ok(()) => {
                restored += 1;
                let enough = bench.env.shader.statistics().wave_instructions + 20_000;
                for _ in 0..200 {
                    queue.cp.service();
                    if bench.env.shader.statistics().wave_instructions > enough {
                        break;
                    }
                    std::thread::yield_now();
                }
            }
            Err(error) => {
                refused += 1;
                assert!(matches!(error.cause, Cause::Context(_)), "{error}");
            }
        }
        queue.cp.stop();
        if round % 25 == 0 {
            bench.assert_works(&mut bench.queue(16));
        }
    }
    assert!(restored > 20 && refused > 20, "{restored} restored, {refused} refused");
}
