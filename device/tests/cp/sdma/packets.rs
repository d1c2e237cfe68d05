//! Packets that order, wait, report and branch.

use belfry_abi::sdma::{Op, timestamp_sub_op};
use belfry_device::queue::{BlockedOn, Progress};

use super::{Ring, copy, enter, fence, halves, packet, poll, trap, write};
use crate::bench::{Bench, Interrupt, READ_WRITE};

fn memory() -> (Bench, Ring, u64) {
    let bench = Bench::new(1);
    let ring = Ring::new(&bench, 1 << 12);
    let data = bench.alloc(4096, READ_WRITE);
    (bench, ring, data)
}

/// An atomic operation.
fn atomic(op: u32, at: u64, source: u64, compare: u64, loops: bool) -> Vec<u32> {
    let body = [&halves(at)[..], &halves(source), &halves(compare), &[16]].concat();
    let mut dwords = packet(Op::ATOMIC, 0, &body);
    dwords[0] |= op << 25 | u32::from(loops) << 16;
    dwords
}

#[test]
fn what_a_runtime_submits_for_a_copy_is_done_in_order() {
    let (bench, mut ring, data) = memory();
    bench.space.write_bytes(data, b"what is copied..").expect("mapped");
    let (signal, mailbox) = bench.signal(1, Some(0x123));
    let flush = vec![8, 0, 0x8000_0000, 0, 0, 0];
    let mut kernels_flush = packet(Op::POLL_REGMEM, 0, &[0x3000, 0x2000, 1, 1, 0x0fff_000a]);
    kernels_flush[0] |= 1 << 26 | 3 << 28;
    ring.submit(
        &bench,
        &[
            poll(3, data + 1024, 0, u32::MAX),
            flush,
            kernels_flush,
            packet(Op::GCR_REQ, 1, &[0, 0xc3c0_0000, 0, 0]),
            packet(Op::TIMESTAMP, timestamp_sub_op::GET_GLOBAL, &halves(data + 64)),
            copy(data, data + 512, 16),
            packet(Op::GCR_REQ, 0, &[0, 0x8040_0000, 0, 0]),
            packet(Op::TIMESTAMP, timestamp_sub_op::GET_GLOBAL, &halves(data + 96)),
            atomic(47, signal + 8, u64::MAX, 0, false),
            fence(mailbox, 0x123),
            trap(0xf000_0123),
        ],
    );
    ring.drain(&bench);
    assert_eq!(bench.u32s(data + 512, 4), bench.u32s(data, 4));
    let [before, after] = [64, 96].map(|at| bench.space.load_u64(data + at).expect("mapped"));
    assert!(0 < before && before <= after, "{before} {after}");
    assert_eq!((bench.value(signal), bench.u32s(mailbox, 1)), (0, vec![0x123]));
    // The context has 28 bits.
    let doorbell = ring.config.identity.doorbell;
    assert_eq!(bench.interrupts.all(), [Interrupt::SdmaTrap(doorbell, 0x123)]);
}

#[test]
fn waits_last_until_their_comparison_holds() {
    let (bench, mut ring, data) = memory();
    let at = data + 256;
    // Function, reference, a value for which it does not hold, and one for which it does; the mask leaves the
    // low half.
    let rows = [(1, 5, 5, 4), (2, 5, 6, 5), (3, 5, 4, 5), (4, 5, 5, 6), (5, 5, 4, 5), (6, 5, 5, 6)];
    for (number, (function, reference, before, after)) in (1u32..).zip(rows) {
        bench.space.store_u32(at, 0xabcd_0000 | before).expect("mapped");
        ring.submit(&bench, &[poll(function, at, reference, 0xffff), fence(data, number)]);
        for _ in 0..3 {
            assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory), "function {function}");
            assert_ne!(bench.u32s(data, 1), [number]);
        }
        bench.space.store_u32(at, 0xabcd_0000 | after).expect("mapped");
        ring.drain(&bench);
        assert_eq!(bench.u32s(data, 1), [number], "function {function}");
    }
}

#[test]
fn atomic_operations_are_those_of_the_cache() {
    let (bench, mut ring, data) = memory();
    bench.space.write_bytes(data, &[0; 64]).expect("mapped");
    ring.submit(
        &bench,
        &[
            // ADD of 64 bits with the carry and of 32 without, SWAP, CMPSWAP that holds and one that does not.
            write(data, &[0xffff_ffff, 0, 0xffff_ffff, 0, 1]),
            atomic(47, data, 1, 0, false),
            atomic(15, data + 8, 1, 0, false),
            atomic(7, data + 16, 0xbb, 0, false),
            atomic(8, data + 16, 0xcc, 0xbb, false),
            atomic(8, data + 16, 0xdd, 0xbb, false),
            // One that waits for its comparison.
            atomic(8, data + 24, 0xee, 9, true),
            fence(data + 28, 1),
        ],
    );
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!(bench.u32s(data, 8), [0, 1, 0, 0, 0xcc, 0, 0, 0]);
    bench.space.store_u32(data + 24, 9).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data + 24, 2), [0xee, 1]);
}

#[test]
fn conditional_packets_are_skipped_unless_memory_has_the_value() {
    let (bench, mut ring, data) = memory();
    let condition = |at: u64, value: u32, dwords: usize| {
        packet(Op::COND_EXE, 0, &[&halves(at)[..], &[value, dwords as u32]].concat())
    };
    let body = [write(data, &[1]), write(data + 4, &[2])].concat();
    bench.space.store_u32(data + 256, 5).expect("mapped");
    for (value, expected) in [(5, [1, 2, 3]), (4, [0, 0, 3]), (0, [0, 0, 3])] {
        for in_buffer in [false, true] {
            bench.space.write_bytes(data, &[0; 12]).expect("mapped");
            let packets =
                [condition(data + 256, value, body.len()), body.clone(), write(data + 8, &[3])].concat();
            let packets = if in_buffer { enter(bench.buffer(&packets), packets.len()) } else { packets };
            ring.submit(&bench, &[packets]);
            ring.drain(&bench);
            assert_eq!(bench.u32s(data, 3), expected, "{value}, in a buffer: {in_buffer}");
        }
    }
    // Packets that are skipped need not be there yet.
    ring.submit(&bench, &[condition(data + 256, 4, body.len())]);
    assert_eq!(ring.settle(), Progress::Idle);
    assert!(ring.read_pointer(&bench) < ring.written);
    ring.submit(&bench, std::slice::from_ref(&body));
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 1), [0]);
}

#[test]
fn the_engines_own_counter_can_be_set() {
    let (bench, mut ring, data) = memory();
    let get = |kind, at| packet(Op::TIMESTAMP, kind, &halves(data + at));
    ring.submit(
        &bench,
        &[
            get(timestamp_sub_op::GET, 0),
            get(timestamp_sub_op::GET_GLOBAL, 8),
            packet(Op::TIMESTAMP, timestamp_sub_op::SET, &halves(1 << 60)),
            get(timestamp_sub_op::GET, 16),
            get(timestamp_sub_op::GET_GLOBAL, 24),
        ],
    );
    ring.drain(&bench);
    let [local, global, set, later] =
        [0, 8, 16, 24].map(|at| bench.space.load_u64(data + at).expect("mapped"));
    assert!(0 < local && local <= global && global <= later && later < 1 << 59, "{local} {global} {later}");
    assert!((1 << 60..1 << 61).contains(&set), "{set:#x}");
}
