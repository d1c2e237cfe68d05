//! Compiled kernels run to completion and compute the right results.

use belfry_abi::aql::{PacketHeader, PacketType};
use belfry_abi::signal::AmdSignal;
use belfry_device::chip::SqInterrupt;
use belfry_device::queue::QueueEngine as _;

use crate::bench::{Bench, Interrupt, READ_WRITE};

#[test]
fn vecadd_completes_with_signal_timestamps_mailbox_and_interrupt() {
    for workers in [1, 2] {
        let bench = Bench::new(workers);
        let mut queue = bench.queue(16);
        // 1000 is not a multiple of 256: the last workgroup is partial and must not touch the bytes after the
        // vector.
        let a: Vec<f32> = (0..1000u16).map(|i| f32::from(i) * 1.5).collect();
        let b: Vec<f32> = (0..1000u16).map(|i| f32::from(i) - 77.25).collect();
        let out = bench.alloc(1024 * 4, READ_WRITE);
        let args = bench.buffer(&[bench.buffer(&a), bench.buffer(&b), out]);
        let (signal, mailbox) = bench.signal(1, Some(42));
        let mut packet = bench.dispatch("vecadd", [1000, 1, 1], [256, 1, 1], args);
        packet.completion_signal = signal;
        queue.submit(&packet);
        bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
        bench.drain(&mut queue);
        // The interrupt is the last effect of a completion.
        bench.run_until(&mut [&mut queue], || !bench.interrupts.all().is_empty());

        let mut expected: Vec<u32> = a.iter().zip(&b).map(|(a, b)| (a + b).to_bits()).collect();
        expected.resize(1024, 0);
        assert_eq!(bench.u32s(out, 1024), expected);
        let completed: AmdSignal = bench.space.read(signal).expect("mapped");
        assert!(completed.start_ts > 0 && completed.end_ts >= completed.start_ts);
        assert_eq!(bench.u32s(mailbox, 1), [42]);
        assert_eq!(bench.interrupts.all(), [Interrupt::Eop(queue.doorbell, 42)]);
        assert_eq!(queue.header(0).packet_type(), PacketType::INVALID);
        assert_eq!((queue.read_index(), queue.cp.read_index()), (1, 1));
        let statistics = bench.env.shader.statistics();
        assert_eq!((statistics.dispatches, statistics.workgroups, statistics.waves), (1, 4, 32));
        assert!(statistics.wave_instructions >= 32 * 10, "{statistics:?}");
    }
}

#[test]
fn work_item_ids_cover_a_partial_grid_of_three_dimensions() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let (width, height, depth) = (19u32, 7u32, 3u32);
    let out = bench.alloc(u64::from(width * height * depth) * 4, READ_WRITE);
    let args = bench.buffer(&[out, u64::from(width) | u64::from(height) << 32]);
    queue.submit(&bench.dispatch("ids", [width, height, depth], [8, 4, 2], args));
    bench.drain(&mut queue);
    let got = bench.u32s(out, (width * height * depth) as usize);
    for z in 0..depth {
        for y in 0..height {
            for x in 0..width {
                let expected = ((x % 8) | ((y % 4) << 8) | ((z % 2) << 16)) + 1;
                assert_eq!(got[((z * height + y) * width + x) as usize], expected, "{x} {y} {z}");
            }
        }
    }
}

#[test]
fn lds_and_barrier_reverse_blocks() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let input: Vec<u32> = (0..2048u32).map(|i| i * 7 + 3).collect();
    let out = bench.alloc(2048 * 4, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&input), out]);
    let mut packet = bench.dispatch("reverse", [2048, 1, 1], [256, 1, 1], args);
    packet.group_segment_size = 1024;
    queue.submit(&packet);
    bench.drain(&mut queue);
    let expected: Vec<u32> = input.chunks(256).flat_map(|block| block.iter().rev()).copied().collect();
    assert_eq!(bench.u32s(out, 2048), expected);
}

#[test]
fn lds_that_was_not_asked_for_reads_zero() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let out = bench.buffer(&[1u32; 256]);
    let args = bench.buffer(&[bench.buffer(&[7u32; 256]), out]);
    queue.submit(&bench.dispatch("reverse", [256, 1, 1], [256, 1, 1], args));
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(out, 256), [0; 256]);
}

#[test]
fn grid_barrier_progresses_on_one_worker() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let (groups, rounds) = (48u32, 3u32);
    let counter = bench.alloc(4, READ_WRITE);
    let out = bench.alloc(u64::from(groups) * 64 * 4, READ_WRITE);
    let args = bench.buffer(&[counter, out, u64::from(groups) | u64::from(rounds) << 32]);
    queue.submit(&bench.dispatch("grid_barrier", [groups * 64, 1, 1], [64, 1, 1], args));
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(out, (groups * 64) as usize), vec![groups * rounds; (groups * 64) as usize]);
}

#[test]
fn wave_messages_reach_the_driver() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let args = bench.buffer(&[0x1200_0345u32]);
    queue.submit(&bench.dispatch("message", [32, 1, 1], [32, 1, 1], args));
    bench.drain(&mut queue);
    // The wave's message and the end of its dispatch are announced one after the other.
    let expected = Interrupt::Sq(queue.doorbell, SqInterrupt::Message(0x345));
    bench.run_until(&mut [&mut queue], || bench.interrupts.all() == [expected.clone()]);
}

#[test]
fn packet_stays_in_the_ring_until_its_kernel_has_ended() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let (flag, out) = (bench.buffer(&[0u32]), bench.buffer(&[0u32]));
    let args = bench.buffer(&[flag, out]);
    queue.submit(&bench.dispatch("own_packet", [1, 1, 1], [1, 1, 1], args));
    queue.submit(&bench.dispatch("own_packet", [2, 1, 1], [1, 1, 1], args));
    for _ in 0..50 {
        queue.cp.service();
        std::thread::yield_now();
    }
    assert_eq!((queue.read_index(), queue.header(0).packet_type()), (0, PacketType::KERNEL_DISPATCH));
    bench.space.store_u32(flag, 1).expect("mapped");
    bench.drain(&mut queue);
    assert!([1, 2].contains(&bench.u32s(out, 1)[0]));
    assert_eq!((queue.read_index(), queue.header(0).packet_type()), (2, PacketType::INVALID));
}

#[test]
fn small_ring_is_used_again_and_again() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(4);
    let counter = bench.buffer(&[0u32]);
    let out = bench.alloc(64 * 4, READ_WRITE);
    let (signal, _) = bench.signal(40, None);
    for round in 1..=40u64 {
        // One workgroup that waits for `round` arrivals: only true if the dispatches before have run.
        let args = bench.buffer(&[counter, out, 1 | round << 32]);
        let mut packet = bench.dispatch("grid_barrier", [64, 1, 1], [64, 1, 1], args);
        packet.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, true, 2, 2).bits();
        packet.completion_signal = signal;
        let (read, write, packets) = (queue.amd_queue + 0x80, queue.write_index, queue.packets);
        let space = bench.space.clone();
        bench.run_until(&mut [&mut queue], || write - space.load_u64(read).expect("mapped") < packets);
        queue.submit(&packet);
    }
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
    assert_eq!(bench.u32s(counter, 1), [(1..=40).sum::<u32>()]);
}
