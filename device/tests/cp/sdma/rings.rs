//! Taking packets from rings and buffers, and taking queues off and continuing them.

use std::sync::Arc;

use belfry_abi::sdma::{Header, Op};
use belfry_device::queue::{BlockedOn, DmaContext, Progress, QueueEngine as _, Saving};
use belfry_device::sdma::{SdmaConfig, SdmaQueue};

use super::{Ring, copy, enter, fence, packet, poll, write};
use crate::bench::{Bench, READ_WRITE};

/// A NOP with `dwords` dwords that are skipped.
fn nop(dwords: u32) -> Vec<u32> {
    let mut nop = vec![0xdead_beef; 1 + dwords as usize];
    nop[0] = Header::new(Op::NOP, 0).bits() | dwords << 16;
    nop
}

#[test]
fn packets_go_around_the_ring_and_pointers_count_on() {
    let bench = Bench::new(1);
    let (mut ring, data) = (Ring::new(&bench, 256), bench.alloc(4096, READ_WRITE));
    // Lengths that end at every place of the ring, and across its end.
    for round in 0..200u32 {
        ring.submit(&bench, &[nop(round % 7), write(data, &[round, !round]), nop(0), fence(data + 8, round)]);
        ring.drain(&bench);
        assert_eq!(bench.u32s(data, 3), [round, !round, round]);
    }
    assert!(ring.written > 256 * 20);
}

#[test]
fn packets_wait_until_all_of_them_has_been_written() {
    let bench = Bench::new(1);
    let (mut ring, data) = (Ring::new(&bench, 256), bench.alloc(4096, READ_WRITE));
    for packet in [write(data, &[1, 2, 3]), fence(data, 9), nop(5)] {
        let before = ring.written;
        for dword in packet {
            assert_eq!((ring.settle(), ring.engine.read_index()), (Progress::Idle, before));
            ring.put(&bench, &[dword]);
            ring.ring_doorbell(&bench);
        }
        ring.drain(&bench);
    }
    assert_eq!(bench.u32s(data, 3), [9, 2, 3]);
}

#[test]
fn buffers_count_as_executed_at_their_end() {
    let bench = Bench::new(1);
    let (mut ring, data) = (Ring::new(&bench, 256), bench.alloc(4096, READ_WRITE));
    let inside = [write(data, &[1]), poll(3, data + 256, 1, u32::MAX), write(data + 4, &[2])].concat();
    let buffer = bench.buffer(&inside);
    // The lowest five bits of the address do not count.
    ring.submit(&bench, &[nop(2), enter(buffer | 0x1f, inside.len()), enter(buffer, 0), fence(data + 8, 3)]);
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!((bench.u32s(data, 3), ring.read_pointer(&bench)), (vec![1, 0, 0], 0));
    assert!(ring.engine.is_busy());
    bench.space.store_u32(data + 256, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!((bench.u32s(data, 3), ring.engine.is_busy()), (vec![1, 2, 3], false));
}

/// Takes a queue off, and replaces its engine.
fn move_on(bench: &Bench, ring: &mut Ring) -> DmaContext {
    ring.engine.suspend();
    let (read_index, context) = (ring.engine.read_index(), ring.engine.dma_context().expect("an SDMA queue"));
    assert_eq!(ring.engine.save(None).expect("nothing to save"), Saving::Done(None));
    assert_eq!((ring.engine.service(), ring.engine.is_busy()), (Progress::Idle, false));
    ring.config = SdmaConfig { read_index, ..ring.config };
    ring.engine = SdmaQueue::new(ring.config, Arc::clone(&bench.space), &bench.sdma_env(), context);
    context
}

#[test]
fn queue_goes_on_within_a_copy_and_a_buffer_where_it_was_taken_off() {
    const BYTES: u32 = 12 << 20;
    let bench = Bench::new(1);
    let (mut ring, data) = (Ring::new(&bench, 1 << 12), bench.alloc(4096, READ_WRITE));
    let source: Vec<u32> = (0..BYTES / 4).map(|at| at.wrapping_mul(0x9e37_79b9)).collect();
    let (from, to) = (bench.buffer(&source), bench.alloc(BYTES.into(), READ_WRITE));
    let wait = poll(3, data + 256, 1, u32::MAX);
    let inside = [write(data, &[1]), copy(from, to, BYTES), wait, write(data + 4, &[2])].concat();
    let buffer = bench.buffer(&inside);
    ring.submit(&bench, &[write(data, &[9, 9, 9]), enter(buffer, inside.len()), fence(data + 8, 3)]);
    let mut moved = Vec::new();
    while ring.engine.service() == Progress::Advanced {
        moved.push(move_on(&bench, &mut ring));
        assert!(moved.len() < 1000, "{ring:?}", ring = ring.engine);
    }
    assert!(moved.iter().filter(|context| context.done != 0 && context.buffer.is_some()).count() >= 3);
    move_on(&bench, &mut ring);
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!((bench.u32s(to, source.len()) == source, bench.u32s(data, 3)), (true, vec![1, 9, 9]));
    bench.space.store_u32(data + 256, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 3), [1, 2, 3]);
}

#[test]
fn work_is_done_in_turns_that_end() {
    let bench = Bench::new(1);
    let (mut ring, data) = (Ring::new(&bench, 1 << 16), bench.alloc(24 << 20, READ_WRITE));
    ring.submit(&bench, &[copy(data, data + (12 << 20), 12 << 20), fence(data, 1)]);
    let turns = (1..).find(|_| ring.engine.service() == Progress::Idle);
    assert!(turns > Some(5), "{turns:?}");
    // Many small packets do not hold up other queues either.
    let many: Vec<_> = (0..2000).map(|value| fence(data, value)).collect();
    ring.submit(&bench, &many);
    assert_eq!(ring.engine.service(), Progress::Advanced);
    assert!(bench.u32s(data, 1)[0] < 1999);
    ring.drain(&bench);
    let short_rows = packet(
        Op::COPY,
        4,
        &[
            data as u32,
            (data >> 32) as u32,
            0,
            0,
            0,
            data as u32,
            (data >> 32) as u32,
            0,
            0,
            0,
            0x3fff << 16,
            0x1ff,
        ],
    );
    ring.submit(&bench, &[short_rows]);
    assert_eq!(ring.engine.service(), Progress::Advanced);
    assert!(ring.engine.is_busy(), "eight million rows of a byte are more than a turn");
    ring.engine.stop();
}
