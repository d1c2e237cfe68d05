//! Effects of packets on memory, and the order in which they are taken from rings and buffers.

use belfry_abi::pm4::{Opcode, PACKET2, Pm4Header};
use belfry_device::queue::{BlockedOn, Progress, QueueEngine as _};

use super::{Ring, enter, halves, packet, release, wait, write};
use crate::bench::{Bench, Interrupt, READ_WRITE};
use crate::gpus::{GFX1100, GFX1201};

/// COPY_DATA of a compute register to memory.
fn get(at: u64, register: u32) -> Vec<u32> {
    packet(Opcode::COPY_DATA, &[&[5 << 8, 0x2c00 + register, 0][..], &halves(at)].concat())
}

fn memory() -> (Bench, Ring, u64) {
    let bench = Bench::new(1);
    let ring = Ring::new(&bench, 256);
    let data = bench.alloc(4096, READ_WRITE);
    (bench, ring, data)
}

#[test]
fn data_fences_timestamps_and_interrupts_are_written_in_order() {
    let (bench, mut ring, data) = memory();
    let fence32 = [&[20 | 5 << 8, 1 << 29][..], &halves(data + 16), &[0x33, 0x99, 0]].concat();
    // Confirmed, which is no interrupt.
    let clock = [&[20 | 5 << 8, 3 << 29 | 3 << 24][..], &halves(data + 24), &[0, 0, 5]].concat();
    let only = [&[20 | 5 << 8, 1 << 24][..], &halves(data), &[0, 0, 6]].concat();
    ring.submit(
        &bench,
        &[
            packet(Opcode::NOP, &[1, 2, 3]),
            vec![PACKET2, Pm4Header::type3(Opcode::NOP, 0x4000).bits()],
            write(data, &[0x11, 0x22]),
            packet(Opcode::ACQUIRE_MEM, &[0, u32::MAX, 0xff, 0, 0, 0, 0x4381]),
            packet(Opcode::EVENT_WRITE, &[7 | 4 << 8]),
            packet(Opcode::PFP_SYNC_ME, &[0]),
            packet(Opcode::RELEASE_MEM, &fence32),
            packet(Opcode::RELEASE_MEM, &clock),
            release(data + 8, 0x5555_6666_7777_8888, 7),
            packet(Opcode::RELEASE_MEM, &only),
        ],
    );
    ring.drain(&bench);
    let words = bench.u32s(data, 8);
    assert_eq!(words[..6], [0x11, 0x22, 0x7777_8888, 0x5555_6666, 0x33, 0]);
    assert_ne!(words[6], 0, "the clock");
    let doorbell = ring.config.identity.doorbell;
    assert_eq!(bench.interrupts.all(), [Interrupt::Eop(doorbell, 7), Interrupt::Eop(doorbell, 6)]);
}

#[test]
fn data_is_copied_filled_and_changed_atomically() {
    let (bench, mut ring, data) = memory();
    let at = |offset: u64| halves(data + offset);
    let copy = |control: u32, from: [u32; 2], to: u64| {
        packet(Opcode::COPY_DATA, &[&[control][..], &from, &at(to)].concat())
    };
    let atomic = |control: u32, to: u64, source: u64, compare: u64| {
        let body = [&[control][..], &at(to), &halves(source), &halves(compare), &[16]].concat();
        packet(Opcode::ATOMIC_MEM, &body)
    };
    let dma = |control: u32, from: [u32; 2], to: u64, bytes: u32| {
        packet(Opcode::DMA_DATA, &[&[control][..], &from, &at(to), &[bytes]].concat())
    };
    ring.submit(
        &bench,
        &[
            copy(5 | 5 << 8, [0xaa, 0], 0),
            copy(1 | 2 << 8, at(0), 4),
            copy(5 | 5 << 8 | 1 << 16, [1, 2], 8),
            copy(9 | 5 << 8 | 1 << 16, [0, 0], 16),
            // ADD of 64 bits, with the carry, and of 32 without; SWAP; CMPSWAP that holds, and one that does not.
            atomic(0x2f, 8, 0xffff_ffff, 0),
            atomic(0x4f, 0, 0xffff_ffff, 0),
            atomic(7, 4, 0xbb, 0),
            atomic(8, 4, 0xcc, 0xbb),
            atomic(8, 4, 0xdd, 0xbb),
            dma(2 << 29 | 3 << 20, [0x0102_0304, 0], 32, 10),
            dma(3 << 29 | 1 << 31, at(0), 48, 8),
            // A prefetch: to nowhere.
            dma(3 << 29 | 2 << 20, at(32), 0, 16),
        ],
    );
    ring.drain(&bench);
    let words = bench.u32s(data, 14);
    assert_eq!(words[..4], [0xa9, 0xcc, 0, 3]);
    assert_ne!(words[4], 0, "the clock");
    assert_eq!(words[8..], [0x0102_0304, 0x0102_0304, 0x304, 0, 0xa9, 0xcc]);
}

#[test]
fn waits_are_looked_at_again_until_memory_holds_and_keep_nobody_else() {
    let (bench, mut ring, data) = memory();
    let mut other = Ring::new(&bench, 64);
    // One wait until memory is equal, then one until a compare-and-swap finds its comparison value.
    let atomic = [&[8 | 1 << 8][..], &halves(data + 4), &[9, 0], &[8, 0], &[16]].concat();
    ring.submit(
        &bench,
        &[wait(data, 5), write(data + 8, &[1]), packet(Opcode::ATOMIC_MEM, &atomic), write(data + 8, &[2])],
    );
    for _ in 0..3 {
        assert_eq!(ring.cp.service(), Progress::Blocked(BlockedOn::Memory));
    }
    assert_eq!((ring.read_pointer(&bench), bench.u32s(data + 8, 1)), (0, vec![0]));
    other.submit(&bench, &[write(data + 12, &[3])]);
    other.drain(&bench);
    assert_eq!(bench.u32s(data + 12, 1), [3]);
    bench.space.store_u32(data, 5).expect("mapped");
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!(bench.u32s(data + 8, 1), [1]);
    bench.space.store_u32(data + 4, 8).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data + 4, 2), [9, 2]);
}

#[test]
fn waits_for_64_bits_compare_all_of_them() {
    let (bench, mut ring, data) = memory();
    let wait64 = |function: u32, reference: u64, mask: u64, operation: u32| {
        let control = function | 1 << 4 | operation << 6;
        let body = [&[control][..], &halves(data), &halves(reference), &halves(mask), &[4]].concat();
        packet(Opcode::WAIT_REG_MEM64, &body)
    };
    bench.space.store_u64(data, 0x1_0000_0002).expect("mapped");
    ring.submit(
        &bench,
        &[
            // More than 32 bits, with low halves that compare the other way round.
            wait64(6, 0xffff_ffff, u64::MAX, 0),
            wait64(1, 0x2_0000_0001, u64::MAX, 3),
            wait64(3, 0x1_0000_0000, 0xffff_ffff_0000_0000, 0),
            write(data + 8, &[1]),
            wait64(3, 0x7_0000_0002, u64::MAX, 0),
            write(data + 8, &[2]),
        ],
    );
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!(bench.u32s(data + 8, 1), [1]);
    bench.space.store_u32(data + 4, 7).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data + 8, 1), [2]);
}

/// The packets that mesa sends at the beginning of a compute queue's commands
/// (`ac_init_compute_preamble_state`).
#[test]
fn preamble_of_a_graphics_driver_is_taken_and_its_masks_stay_within_the_kernels() {
    let (bench, mut ring, data) = memory();
    let mask = 0x216;
    let indexed =
        |index: u32, value: u32| packet(Opcode::SET_SH_REG_INDEX, &[index << 28 | mask, value, 0xf]);
    ring.submit(
        &bench,
        &[
            packet(Opcode::SET_SH_REG, &[0x204, 0, 0, 0]),
            packet(Opcode::SET_SH_REG, &[0x27d, 0]),
            packet(Opcode::SET_UCONFIG_REG, &[0x380, 0x1234, 0x5]),
            packet(Opcode::SET_UCONFIG_REG, &[0x7b, 0]),
            indexed(0, 0x3_0003),
            get(data, mask),
            indexed(3, 0xffff_ffff),
            get(data + 4, mask),
            get(data + 8, mask + 1),
        ],
    );
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 3), [0x3_0003, u32::MAX, 0xf], "the kernel allows all");

    let mut registers = super::all_cus();
    registers[(mask - 0x200) as usize] = 0x5;
    ring.cp = ring.with_registers(&bench, &registers);
    ring.submit(&bench, &[indexed(3, 0x3), get(data, mask), indexed(3, 0xe), get(data + 4, mask)]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 2), [1, 4]);
}

#[test]
fn registers_are_loaded_from_memory() {
    for gpu in [&GFX1100, &GFX1201] {
        let bench = Bench::of(gpu, 1);
        let mut ring = Ring::new(&bench, 256);
        let (data, sizes) = (bench.alloc(4096, READ_WRITE), bench.buffer(&[7u32, 8, 9]));
        let load = |at: u64, register: u32, count: u32| {
            packet(Opcode::LOAD_SH_REG_INDEX, &[&halves(at)[..], &[register, count]].concat())
        };
        ring.submit(&bench, &[load(sizes, 0x241, 3), load(sizes + 4, 0x245, 1), load(sizes, 0x246, 0)]);
        for register in 0..8 {
            ring.submit(&bench, &[get(data + u64::from(register) * 4, 0x240 + register)]);
        }
        ring.drain(&bench);
        assert_eq!(bench.u32s(data, 8), [0, 7, 8, 9, 0, 8, 0, 0], "{}", gpu.name);
    }
}

/// `gfx12_init_compute_preamble_state` of mesa `ac_cmdbuf.c` writes its registers so.
#[test]
fn registers_in_pairs_are_those_of_gfx12() {
    let bench = Bench::of(&GFX1201, 1);
    let mut ring = Ring::new(&bench, 256);
    let data = bench.alloc(4096, READ_WRITE);
    ring.submit(
        &bench,
        &[
            packet(Opcode::SET_SH_REG_PAIRS, &[0x240, 5, 0x27d, 1, 0x216, 0x3_0003]),
            packet(Opcode::SET_UCONFIG_REG_PAIRS, &[0x380, 0x1234, 0x381, 5]),
            get(data, 0x240),
            get(data + 4, 0x216),
        ],
    );
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 2), [5, 0x3_0003]);
    let rows: [(&str, Opcode, &[u32]); 3] = [
        ("SET_SH_REG_PAIRS has 3", Opcode::SET_SH_REG_PAIRS, &[0x240, 1, 2]),
        ("SET_SH_REG_PAIRS of register 0x2c00", Opcode::SET_SH_REG_PAIRS, &[0, 1]),
        ("SET_UCONFIG_REG_PAIRS of register 0xc200", Opcode::SET_UCONFIG_REG_PAIRS, &[0x200, 1]),
    ];
    for (expected, opcode, body) in rows {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[packet(opcode, body)]);
        let error = ring.error().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn registers_that_user_queues_have_are_written_and_waited_for() {
    let (bench, mut ring, data) = memory();
    let (request, done) = (0xe26, 0xe27);
    let user_data = 0x2c00 + 0x240;
    let copy = [&[0, user_data, 0][..], &halves(data)].concat();
    ring.submit(
        &bench,
        &[
            // Write, then wait for the other register.
            packet(Opcode::WAIT_REG_MEM, &[3 | 1 << 6, request, done, 1 << 12, 1 << 12, 4]),
            packet(Opcode::WAIT_REG_MEM, &[3, done, 0, 1 << 12, u32::MAX, 4]),
            // Markers of thread traces.
            packet(Opcode::SET_UCONFIG_REG, &[0x342, 1, 2]),
            packet(Opcode::WRITE_DATA, &[0, user_data, 0, 0x77]),
            packet(Opcode::COPY_DATA, &[&[5 << 8][..], &copy[1..]].concat()),
        ],
    );
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 1), [0x77]);
}

#[test]
fn conditional_packets_are_skipped_as_a_whole() {
    let (bench, mut ring, data) = memory();
    let condition =
        |at: u64, dwords: usize| packet(Opcode::COND_EXEC, &[&halves(at)[..], &[0, dwords as u32]].concat());
    let skipped = write(data, &[1]);
    let both = [
        condition(data + 64, skipped.len()),
        skipped.clone(),
        write(data + 4, &[2]),
        condition(data + 4, 5),
        write(data + 8, &[3]),
    ]
    .concat();
    let buffer = bench.buffer(&both);
    ring.submit(&bench, &[both.clone(), write(data + 4, &[0]), enter(buffer, both.len(), 0)]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 3), [0, 2, 3]);
    // The packets that are skipped have to arrive first.
    ring.submit(&bench, &[condition(data + 64, 5)]);
    assert_eq!(ring.cp.service(), Progress::Idle);
    ring.submit(&bench, &[write(data, &[9]), write(data + 12, &[4])]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 4), [0, 2, 3, 4]);
}

#[test]
fn packets_wrap_around_the_end_of_the_ring() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 16);
    let data = bench.alloc(4096, READ_WRITE);
    // Seven dwords each: a packet begins at every place of the ring.
    for round in 0..64u32 {
        ring.submit(&bench, &[write(data, &[round, !round, round * 3])]);
        ring.drain(&bench);
        assert_eq!(bench.u32s(data, 3), [round, !round, round * 3]);
        assert_eq!(ring.read_pointer(&bench), (round + 1) * 7 % 16);
    }
    assert_eq!(ring.cp.read_index(), 64 * 7, "counted for ever");
    // A ring that is full to the last dword.
    ring.submit(&bench, &[write(data, &[1, 2, 3]), write(data, &[4, 5, 6]), vec![PACKET2; 2]]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 3), [4, 5, 6]);
}

#[test]
fn packet_that_is_not_whole_is_waited_for() {
    let (bench, mut ring, data) = memory();
    let whole = write(data, &[1, 2]);
    for dwords in 1..whole.len() {
        ring.put(&bench, &whole[dwords - 1..dwords]);
        ring.ring_doorbell(&bench);
        assert_eq!(ring.cp.service(), Progress::Idle);
        assert_eq!((bench.u32s(data, 1), ring.read_pointer(&bench)), (vec![0], 0));
    }
    ring.put(&bench, &whole[whole.len() - 1..]);
    ring.ring_doorbell(&bench);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 2), [1, 2]);
    // A write pointer that has gone back is ignored.
    bench.space.store_u64(ring.config.wptr_poll, 1).expect("mapped");
    assert_eq!(ring.cp.service(), Progress::Idle);
}

#[test]
fn buffers_are_entered_nested_and_chained_and_left_at_their_ends() {
    let (bench, mut ring, data) = memory();
    let inner = write(data, &[1]);
    let inner = [inner, wait(data + 64, 1)].concat();
    let inner_at = bench.buffer(&inner);
    let last = write(data + 4, &[2]);
    let last_at = bench.buffer(&last);
    let middle = [enter(inner_at, inner.len(), 0), enter(last_at, last.len(), 1 << 20)].concat();
    let middle_at = bench.buffer(&middle);
    ring.submit(&bench, &[enter(middle_at, middle.len(), 0), enter(last_at, 0, 0), write(data + 8, &[3])]);
    assert_eq!(ring.settle(), Progress::Blocked(BlockedOn::Memory));
    assert_eq!(bench.u32s(data, 3), [1, 0, 0]);
    assert_eq!(ring.read_pointer(&bench), 0, "the buffer is not at its end");
    assert!(ring.cp.is_busy());
    bench.space.store_u32(data + 64, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 3), [1, 2, 3]);
    assert!(!ring.cp.is_busy());
}
