//! Barrier packets and the barrier bit.

use belfry_abi::aql::{AmdFormat, BarrierValuePacket, PacketHeader, PacketType};
use belfry_device::queue::{BlockedOn, Progress};
use zerocopy::FromZeros;

use crate::bench::{Bench, READ_WRITE};

#[test]
fn barrier_and_waits_for_all_signals_of_another_queue() {
    let bench = Bench::new(2);
    let (mut first, mut second) = (bench.queue(16), bench.queue(16));
    let flag = bench.buffer(&[0u32]);
    let out = bench.alloc(64 * 4, READ_WRITE);
    let ((kernel, _), (host, _), (done, _)) =
        (bench.signal(1, None), bench.signal(1, None), bench.signal(1, None));
    let mut packet = bench.dispatch("wait_for", [64, 1, 1], [64, 1, 1], bench.buffer(&[flag, out]));
    packet.completion_signal = kernel;
    first.submit(&packet);
    second.barrier(PacketType::BARRIER_AND, &[0, kernel, 0, host], done);

    for _ in 0..20 {
        first.cp.service();
        assert_eq!(second.cp.service(), Progress::Blocked(BlockedOn::Memory));
    }
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.run_until(&mut [&mut first], || bench.value(kernel) == 0);
    assert_eq!(second.cp.service(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!((bench.value(done), second.read_index()), (1, 0));
    bench.space.store_u64(host + 8, 0).expect("mapped");
    bench.drain(&mut second);
    assert_eq!((bench.value(done), second.read_index()), (0, 1));
    assert_eq!(bench.u32s(out, 64), [7; 64]);
}

#[test]
fn barrier_or_needs_one_signal() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let ((one, _), (two, _), (done, _)) =
        (bench.signal(1, None), bench.signal(2, None), bench.signal(1, None));
    queue.barrier(PacketType::BARRIER_OR, &[one, 0, two], done);
    assert_eq!(queue.cp.service(), Progress::Blocked(BlockedOn::Memory));
    bench.space.store_u64(two + 8, 0).expect("mapped");
    bench.drain(&mut queue);
    assert_eq!((bench.value(done), bench.value(one)), (0, 1));
}

#[test]
fn barriers_of_nothing_pass() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let (done, _) = bench.signal(2, None);
    queue.barrier(PacketType::BARRIER_AND, &[], done);
    queue.barrier(PacketType::BARRIER_OR, &[], done);
    bench.drain(&mut queue);
    assert_eq!(bench.value(done), 0);
}

#[test]
fn barrier_value_compares() {
    // Condition, value of the signal at first, and value later; compared with 5 under a mask of 0xff.
    for (condition, before, after) in [(0, 4, 0x105), (1, 0x205, 6), (2, 5, 4), (3, 0x104, 5)] {
        let bench = Bench::new(1);
        let mut queue = bench.queue(16);
        let ((signal, _), (done, _)) = (bench.signal(before, None), bench.signal(1, None));
        let mut packet = BarrierValuePacket::new_zeroed();
        packet.header = PacketHeader::new(PacketType::VENDOR_SPECIFIC, false, 0, 0).bits();
        packet.amd_format = AmdFormat::BARRIER_VALUE.0.into();
        (packet.signal, packet.value, packet.mask) = (signal, 5, 0xff);
        (packet.cond, packet.completion_signal) = (condition, done);
        queue.submit(&packet);
        assert_eq!(queue.cp.service(), Progress::Blocked(BlockedOn::Memory), "condition {condition}");
        bench.space.store_u64(signal + 8, after).expect("mapped");
        bench.drain(&mut queue);
        assert_eq!(bench.value(done), 0, "condition {condition}");
    }
}

#[test]
fn barrier_bit_holds_packets_back_and_its_absence_does_not() {
    for barrier in [false, true] {
        let bench = Bench::new(1);
        let mut queue = bench.queue(16);
        let (flag, second_flag) = (bench.buffer(&[0u32]), bench.buffer(&[1u32]));
        let out = bench.alloc(64 * 4, READ_WRITE);
        let ((first, _), (second, _)) = (bench.signal(1, None), bench.signal(1, None));
        let mut packet = bench.dispatch("wait_for", [64, 1, 1], [64, 1, 1], bench.buffer(&[flag, out]));
        packet.completion_signal = first;
        queue.submit(&packet);
        packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, barrier, 2, 2).bits();
        packet.kernarg_address = bench.buffer(&[second_flag, out]);
        packet.completion_signal = second;
        queue.submit(&packet);
        if barrier {
            for _ in 0..50 {
                queue.cp.service();
                std::thread::yield_now();
            }
            assert_eq!(queue.cp.service(), Progress::Blocked(BlockedOn::Dispatches));
            assert_eq!(bench.value(second), 1);
        } else {
            bench.run_until(&mut [&mut queue], || bench.value(second) == 0);
            assert_eq!((bench.value(first), queue.read_index()), (1, 0), "packets are retired in order");
        }
        bench.space.store_u32(flag, 1).expect("mapped");
        bench.drain(&mut queue);
        assert_eq!((bench.value(first), bench.value(second), queue.read_index()), (0, 0, 2));
    }
}
