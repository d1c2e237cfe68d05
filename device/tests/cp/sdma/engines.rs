//! Long copies: the engine's thread moves the bytes while the queue waits.

use std::sync::atomic::Ordering;
use std::time::Instant;

use belfry_device::queue::{BlockedOn, DmaContext, QueueEngine};
use belfry_device::sdma::Movers;
use belfry_device::vm::AddressSpace;

use super::*;
use crate::bench::Interrupt;

/// More than an engine moves in one turn.
const LONG: usize = 5 << 20;

/// A bench whose engines have threads.
fn bench() -> Bench {
    let mut bench = Bench::new(1);
    bench.movers = Arc::new(Movers::new(2).expect("threads start"));
    bench
}

fn random_bytes(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    })
    .take(bytes)
    .collect()
}

fn bytes_at(space: &AddressSpace, at: u64, bytes: usize) -> Vec<u8> {
    let mut data = vec![0; bytes];
    space.read_bytes(at, &mut data).expect("mapped");
    data
}

/// Replaces the engine of a queue.
fn again(bench: &Bench, ring: &mut Ring, context: DmaContext) {
    ring.engine = SdmaQueue::new(ring.config, Arc::clone(&bench.space), &bench.sdma_env(), context);
}

/// Serves a queue, as the device's thread does, until it has nothing more to do; returns how often it waited
/// for its engine.
fn drain(bench: &Bench, ring: &mut Ring) -> usize {
    let (start, mut waits) = (Instant::now(), 0);
    loop {
        let wakes = bench.wakes.load(Ordering::SeqCst);
        match ring.engine.service() {
            Progress::Idle => break,
            Progress::Advanced => {}
            Progress::Blocked(BlockedOn::Dispatches) => {
                waits += 1;
                // A queue that is served too early gets the same answer again.
                let served = ring.engine.service();
                let over = bench.wakes.load(Ordering::SeqCst) != wakes;
                assert!(over || served == Progress::Blocked(BlockedOn::Dispatches), "{served:?}");
                while bench.wakes.load(Ordering::SeqCst) == wakes {
                    assert!(start.elapsed() < HANG, "no wake-up: {:?}", ring.engine);
                    std::thread::yield_now();
                }
            }
            other => panic!("{other:?}: {:?}", ring.engine),
        }
    }
    assert_eq!(ring.read_pointer(bench), ring.written);
    waits
}

#[test]
fn long_copies_are_moved_by_the_engine_and_packets_stay_in_order() {
    let bench = bench();
    let mut ring = Ring::new(&bench, 4096);
    let data = random_bytes(1, LONG);
    let from = bench.buffer(&data);
    let [first, second] = [(); 2].map(|()| bench.alloc(LONG as u64, READ_WRITE));
    let done = bench.alloc(64, READ_WRITE);
    let all = LONG as u32;
    ring.submit(&bench, &[copy(from, first, all), copy(first, second, all), fence(done, 7), trap(5)]);
    assert_eq!(ring.engine.service(), Progress::Blocked(BlockedOn::Dispatches));
    assert_eq!(bench.space.load_u32(done), Ok(0), "the fence waits for the copies");
    assert_eq!(ring.read_pointer(&bench), 0, "the read pointer passes a packet at its end");
    assert!(drain(&bench, &mut ring) >= 1);
    assert!(bytes_at(&bench.space, first, LONG) == data);
    assert!(bytes_at(&bench.space, second, LONG) == data, "the second copy reads what the first one wrote");
    assert_eq!(bench.space.load_u32(done), Ok(7));
}

#[test]
fn short_copies_do_not_wait_for_the_engine() {
    let bench = bench();
    let mut ring = Ring::new(&bench, 4096);
    let (from, to) = (bench.buffer(&random_bytes(2, 4096)), bench.alloc(4096, READ_WRITE));
    ring.submit(&bench, &[copy(from, to, 4096)]);
    assert_eq!(drain(&bench, &mut ring), 0);
    assert!(bytes_at(&bench.space, to, 4096) == random_bytes(2, 4096));
}

#[test]
fn queues_of_one_engine_and_of_two_are_right_side_by_side() {
    let bench = bench();
    let copies: Vec<_> = (0..5u8)
        .map(|index| {
            let mut ring = Ring::new(&bench, 4096);
            ring.config.identity.me = index % 2;
            again(&bench, &mut ring, DmaContext::default());
            let data = random_bytes(index.into(), LONG / 2);
            let (from, to) = (bench.buffer(&data), bench.alloc(data.len() as u64, READ_WRITE));
            ring.submit(&bench, &[copy(from, to, data.len() as u32)]);
            (ring, data, to)
        })
        .collect();
    let start = Instant::now();
    let mut left: Vec<_> = copies;
    while !left.is_empty() {
        assert!(start.elapsed() < HANG, "{} queues are left", left.len());
        left.retain_mut(|(ring, data, to)| {
            if ring.engine.service() != Progress::Idle {
                return true;
            }
            assert!(bytes_at(&bench.space, *to, data.len()) == *data);
            false
        });
    }
}

#[test]
fn a_copy_is_taken_off_its_engine_anywhere_and_goes_on_there() {
    let bench = bench();
    let (from, to) = (bench.alloc(LONG as u64, READ_WRITE), bench.alloc(LONG as u64, READ_WRITE));
    for round in 0..40u64 {
        let mut ring = Ring::new(&bench, 4096);
        let data = random_bytes(round, LONG);
        bench.space.write_bytes(from, &data).expect("mapped");
        bench.space.write_bytes(to, &vec![0; LONG]).expect("mapped");
        ring.submit(&bench, &[copy(from, to, LONG as u32)]);
        assert_eq!(ring.engine.service(), Progress::Blocked(BlockedOn::Dispatches));
        assert!(ring.engine.is_busy());
        for _ in 0..round * 2000 {
            std::hint::spin_loop();
        }
        ring.engine.suspend();
        let context = ring.engine.dma_context().expect("an SDMA queue has one");
        let (moved, left) = data.split_at(context.done as usize);
        assert!(bytes_at(&bench.space, to, moved.len()) == moved);
        assert!(
            bytes_at(&bench.space, to + context.done, left.len()) == vec![0; left.len()],
            "nothing is moved after a suspension"
        );
        if round % 2 == 0 {
            ring.engine.resume();
        } else {
            ring.engine.save(None).expect("nothing has to be written");
            assert_eq!(ring.engine.service(), Progress::Idle, "a saved engine has stopped");
            ring.config.read_index = ring.engine.read_index();
            again(&bench, &mut ring, context);
        }
        drain(&bench, &mut ring);
        assert!(bytes_at(&bench.space, to, LONG) == data, "round {round}");
    }
}

#[test]
fn a_stopped_queue_moves_nothing_any_more() {
    let bench = bench();
    let mut ring = Ring::new(&bench, 4096);
    let (from, to) = (bench.buffer(&vec![1u8; LONG]), bench.alloc(LONG as u64, READ_WRITE));
    ring.submit(&bench, &[copy(from, to, LONG as u32)]);
    assert_eq!(ring.engine.service(), Progress::Blocked(BlockedOn::Dispatches));
    QueueEngine::stop(&mut ring.engine);
    bench.space.write_bytes(to, &vec![2u8; LONG]).expect("mapped");
    // The engine works at other queues, so it has noticed that this one is gone.
    let mut other = Ring::new(&bench, 4096);
    let elsewhere = bench.alloc(LONG as u64, READ_WRITE);
    other.submit(&bench, &[copy(from, elsewhere, LONG as u32)]);
    drain(&bench, &mut other);
    assert!(bytes_at(&bench.space, to, LONG) == vec![2u8; LONG]);
    assert_eq!(ring.engine.service(), Progress::Idle);
    assert!(!ring.engine.is_busy());
}

#[test]
fn a_fault_far_into_a_copy_stops_the_queue_and_names_the_address() {
    let bench = bench();
    let mut ring = Ring::new(&bench, 4096);
    let (from, to) = (bench.buffer(&vec![1u8; LONG]), bench.alloc(LONG as u64, READ_WRITE));
    // The page after an allocation has no mapping.
    ring.submit(&bench, &[copy(from, to, LONG as u32 + 4096)]);
    let start = Instant::now();
    let error = loop {
        match ring.engine.service() {
            Progress::Error(error) => break error,
            Progress::Idle => panic!("the fault was not reported"),
            _ => assert!(start.elapsed() < HANG, "{:?}", ring.engine),
        }
    };
    assert_eq!(error.packet, 0);
    assert!(error.to_string().contains("COPY"), "{error}");
    let interrupts = bench.interrupts.all();
    assert!(matches!(interrupts[..], [Interrupt::VmFault(..)]), "{interrupts:?}");
    assert!(bytes_at(&bench.space, to, LONG) == vec![1u8; LONG], "what comes before the fault was moved");
}

#[test]
fn engines_end_whenever_they_are_told() {
    // Their threads may be anywhere between their start and their sleep.
    for round in 0..10_000u32 {
        let movers = Movers::new(1).expect("threads start");
        let start = Instant::now();
        while start.elapsed() < Duration::from_nanos(u64::from(round % 500) * 300) {}
        drop(movers);
    }
}
