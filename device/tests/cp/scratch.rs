//! Scratch memory of AQL queues: the requests of the packet processor, and its use of the answers.

use belfry_abi::aql::{
    KernelDispatchPacket, QUEUE_CAPS_CP_ASYNC_RECLAIM, QUEUE_CAPS_SW_ASYNC_RECLAIM, QUEUE_LAST_USED_OFFSET,
    TmpringSize, inactive,
};
use belfry_device::cp::Cause;
use belfry_device::queue::Progress;

use crate::bench::{Bench, Interrupt, Queue, READ_WRITE};
use crate::gpus::{GFX942, GFX1100, GPUS, Gpu};

/// Private bytes of a work-item of the fixture's kernel `scratch`.
const PRIVATE: u32 = 320;

fn scratch_reference(index: &[u32]) -> Vec<u32> {
    (0..256u32)
        .map(|i| {
            let mut values = [0u32; 64];
            for k in 0..64 {
                values[index[((i + k) & 63) as usize] as usize] = i * 1000 + k;
            }
            index.iter().fold(0u32, |sum, &k| sum.wrapping_mul(31).wrapping_add(values[k as usize]))
        })
        .collect()
}

#[test]
fn scratch_is_asked_for_and_then_private_to_each_lane() {
    let bench = Bench::new(2);
    let mut queue = bench.queue(16);
    let index: Vec<u32> = (0..64u32).map(|k| (k * 37 + 11) & 63).collect();
    let out = bench.alloc(256 * 4, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&index), out]);
    let (signal, _) = bench.signal(1, None);
    let mut packet = bench.dispatch("scratch", [256, 1, 1], [64, 1, 1], args);
    packet.private_segment_size = 320;
    packet.completion_signal = signal;
    queue.submit(&packet);
    // The queue has no scratch memory: it asks for it and waits with the packet untouched.
    bench.run_until_blocked(&mut queue);
    assert_eq!(queue.inactive_code(), inactive::SCRATCH_NEEDED | inactive::SCRATCH_WAVE32);
    assert_eq!((bench.value(signal), queue.read_index()), (1, 0));
    assert_eq!(bench.interrupts.all(), [Interrupt::Eop(queue.doorbell, 0x1ac)]);
    // Too little memory counts as none: the answer is checked again.
    queue.set_amd(|queue| queue.compute_tmpring_size = TmpringSize::from_bits(1 | 1 << 12).bits());
    queue.answer_inactive();
    bench.run_until_blocked(&mut queue);
    assert_ne!(queue.inactive_code(), 0);
    // Three waves' worth: two workgroups of two waves never run at once, and slots are used again.
    queue.give_scratch(&bench, 3, 320 * 32);
    queue.answer_inactive();
    bench.run_until(&mut [&mut queue], || bench.value(signal) == 0);
    assert_eq!(bench.u32s(out, 256), scratch_reference(&index));
}

#[test]
fn scratch_without_anybody_to_ask_is_an_error() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    queue.set_amd(|queue| queue.queue_inactive_signal = 0);
    let mut packet = bench.dispatch("scratch", [64, 1, 1], [64, 1, 1], 0);
    packet.private_segment_size = 320;
    queue.submit(&packet);
    assert_eq!(bench.run_to_error(&mut queue).cause, Cause::Scratch(320));
}

/// A dispatch of `groups` workgroups of 64 with scratch memory, the address of its result, and the right
/// result.
fn dispatch(bench: &Bench, groups: u32) -> (KernelDispatchPacket, u64, Vec<u32>) {
    let index: Vec<u32> = (0..64u32).map(|k| (k * 37 + 11) & 63).collect();
    let out = bench.alloc(u64::from(groups) * 256, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&index), out]);
    let mut packet = bench.dispatch("scratch", [groups * 64, 1, 1], [64, 1, 1], args);
    packet.private_segment_size = PRIVATE;
    let item = |i: u32| {
        let mut values = [0u32; 64];
        for k in 0..64 {
            values[index[((i + k) & 63) as usize] as usize] = i * 1000 + k;
        }
        index.iter().fold(0u32, |sum, &k| sum.wrapping_mul(31).wrapping_add(values[k as usize]))
    };
    (packet, out, (0..groups * 64).map(item).collect())
}

/// `COMPUTE_TMPRING_SIZE` for `waves` waves of each part of the chip, and the bytes of all of them.
fn tmpring(gpu: &Gpu, waves: u32) -> (u32, u64) {
    let units = (PRIVATE * gpu.lanes).div_ceil(gpu.wave_unit);
    let topology = (gpu.topology)();
    let parts = (gpu.generation.shader.scratch_parts)(&topology);
    (waves | units << 12, u64::from(waves * parts * units * gpu.wave_unit))
}

/// Writes the fields that the runtime of ROCm 7.2 writes: all but the size in bytes.
fn give(bench: &Bench, queue: &Queue, gpu: &Gpu, waves: u32) {
    let (size, bytes) = tmpring(gpu, waves);
    let backing = bench.alloc(bytes, READ_WRITE);
    queue.set_amd(|queue| {
        queue.compute_tmpring_size = size;
        queue.scratch_backing_memory_location = backing;
    });
}

#[test]
fn waves_follow_from_the_register_where_the_queue_has_no_size_in_bytes() {
    for gpu in GPUS {
        let bench = Bench::of(gpu, 2);
        let mut queue = bench.queue(16);
        let (packet, out, expected) = dispatch(&bench, 40);
        queue.submit(&packet);
        bench.run_until_blocked(&mut queue);
        assert_eq!(queue.inactive_code() & inactive::SCRATCH_NEEDED, 1, "{}", gpu.name);
        // Two waves of each part of the chip: slots are used again and again.
        give(&bench, &queue, gpu, 2);
        queue.answer_inactive();
        bench.drain(&mut queue);
        assert_eq!(bench.u32s(out, expected.len()), expected, "{}", gpu.name);
        assert_eq!(queue.inactive_code(), 0, "{}: it was not asked again", gpu.name);
    }
}

#[test]
fn answer_that_changes_nothing_stops_the_queue_by_name() {
    for gpu in GPUS {
        let bench = Bench::of(gpu, 1);
        let mut queue = bench.queue(16);
        queue.submit(&dispatch(&bench, 1).0);
        bench.run_until_blocked(&mut queue);
        queue.answer_inactive();
        let error = bench.run_to_error(&mut queue);
        let bytes = u64::from(PRIVATE * gpu.lanes).next_multiple_of(gpu.wave_unit.into());
        assert_eq!(error.cause, Cause::ScratchAnswer { bytes, times: 1 }, "{}", gpu.name);
        assert!(error.to_string().contains("COMPUTE_TMPRING_SIZE"), "{error}");
        // The question is not asked again: the runtime would answer it again.
        assert_eq!(queue.inactive_code(), inactive::REGISTER_INVALID);
        let told = bench.interrupts.all();
        assert!(told.contains(&Interrupt::BadOpcode(queue.doorbell, 22)), "{told:?}");
    }
}

#[test]
fn answers_that_are_never_enough_end() {
    let bench = Bench::of(&GFX1100, 1);
    let mut queue = bench.queue(16);
    queue.submit(&dispatch(&bench, 1).0);
    let mut questions = 0;
    let error = loop {
        match queue.cp.service() {
            Progress::Error(error) => break error,
            // The packet processor has asked.
            _ if queue.inactive_code() != 0 => {
                questions += 1;
                assert!(questions < 100, "it is asked for ever");
                // Another address each time, and waves that are too small.
                queue.set_amd(|queue| {
                    queue.compute_tmpring_size = TmpringSize::from_bits(8 | 1 << 12).bits();
                    queue.scratch_backing_memory_location += 0x1000;
                });
                queue.answer_inactive();
            }
            _ => std::thread::yield_now(),
        }
    };
    assert!(
        matches!(error.cause, Cause::ScratchAnswer { times, .. } if u32::from(times) == questions),
        "{error}"
    );
    assert_eq!(questions, 16);
}

#[test]
fn questions_are_counted_for_each_packet() {
    let bench = Bench::of(&GFX1100, 1);
    let mut queue = bench.queue(64);
    for _ in 0..20 {
        let (packet, out, expected) = dispatch(&bench, 2);
        queue.set_amd(|queue| queue.compute_tmpring_size = 0);
        queue.submit(&packet);
        bench.run_until_blocked(&mut queue);
        give(&bench, &queue, &GFX1100, 2);
        queue.answer_inactive();
        bench.drain(&mut queue);
        assert_eq!(bench.u32s(out, expected.len()), expected);
    }
}

/// The fields of `amd_queue_v2_t`, as ROCr uses them on a packet processor that knows them.
#[test]
fn small_grids_have_the_alternate_memory_and_say_so() {
    let (bench, gpu) = (Bench::of(&GFX942, 2), &GFX942);
    let mut queue = bench.queue(16);
    assert_eq!(queue.amd().caps & QUEUE_CAPS_CP_ASYNC_RECLAIM, QUEUE_CAPS_CP_ASYNC_RECLAIM);
    let last_used = queue.amd_queue + QUEUE_LAST_USED_OFFSET;
    let last = |core: u64| {
        let at = last_used + core * 16;
        bench.u32s(at, 4).chunks(2).map(|half| half[0]).collect::<Vec<_>>()
    };
    let (size, bytes) = tmpring(gpu, 4);
    let backing = bench.alloc(bytes, READ_WRITE);
    queue.set_amd(|queue| {
        queue.caps |= QUEUE_CAPS_SW_ASYNC_RECLAIM;
        queue.scratch_max_use_index = u64::MAX;
        queue.alt_scratch_max_use_index = u64::MAX;
        queue.alt_compute_tmpring_size = size;
        queue.alt_scratch_backing_memory_location = backing;
        queue.alt_scratch_dispatch_limit = [128, 1, 1];
    });
    // Index 0 fits; 1 has a larger grid, and asks for the main memory; 2 fits again.
    let [small, large, again] = [2, 3, 1].map(|groups| dispatch(&bench, groups));
    queue.submit(&small.0);
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(small.1, 128), small.2);
    queue.submit(&large.0);
    bench.run_until_blocked(&mut queue);
    assert_eq!(queue.inactive_code(), inactive::SCRATCH_NEEDED);
    give(&bench, &queue, gpu, 2);
    queue.answer_inactive();
    queue.submit(&again.0);
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(large.1, 192), large.2);
    assert_eq!(bench.u32s(again.1, 64), again.2);
    // Both graphics cores say that packet 2 used the main memory last: it has room for small grids, too.
    assert_eq!([last(0), last(1), last(2)], [[2, 0], [2, 0], [0, 0]]);
}

#[test]
fn memory_that_is_taken_back_is_not_used_behind_the_last_packet() {
    let (bench, gpu) = (Bench::of(&GFX942, 2), &GFX942);
    let mut queue = bench.queue(16);
    queue.set_amd(|queue| {
        queue.caps |= QUEUE_CAPS_SW_ASYNC_RECLAIM;
        queue.scratch_max_use_index = u64::MAX;
    });
    give(&bench, &queue, gpu, 2);
    let [first, second] = [1, 1].map(|groups| dispatch(&bench, groups));
    queue.submit(&first.0);
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(first.1, 64), first.2);
    // Packets after number 0 may no longer use it: the next one asks.
    queue.set_amd(|queue| queue.scratch_max_use_index = 0);
    queue.submit(&second.0);
    bench.run_until_blocked(&mut queue);
    assert_eq!((queue.inactive_code(), queue.read_index()), (inactive::SCRATCH_NEEDED, 1));
    give(&bench, &queue, gpu, 2);
    queue.set_amd(|queue| queue.scratch_max_use_index = u64::MAX);
    queue.answer_inactive();
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(second.1, 64), second.2);
}

#[test]
fn chips_without_a_second_memory_leave_its_fields_alone() {
    let bench = Bench::of(&GFX1100, 1);
    let mut queue = bench.queue(16);
    assert_eq!(queue.amd().caps, 0);
    queue.set_amd(|queue| {
        queue.caps |= QUEUE_CAPS_SW_ASYNC_RECLAIM;
        queue.scratch_max_use_index = 0;
    });
    give(&bench, &queue, &GFX1100, 2);
    queue.submit(&dispatch(&bench, 1).0);
    queue.submit(&dispatch(&bench, 1).0);
    bench.drain(&mut queue);
    assert_eq!(bench.u32s(queue.amd_queue + QUEUE_LAST_USED_OFFSET, 4), [0; 4]);
}
