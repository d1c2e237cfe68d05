//! Dispatches from compute registers.

use belfry_abi::kernel_descriptor::KernelDescriptor;
use belfry_abi::pm4::{ComputeRegister, Opcode};
use belfry_device::queue::{BlockedOn, Progress};

use super::{Ring, THREADS, direct, enter, halves, packet, program, release, set, write};
use crate::bench::{Bench, Interrupt, READ_WRITE};

/// Arguments of `vecadd` over `count` work-items, the address of the sum, and the right sum.
fn vectors(bench: &Bench, count: u16) -> (u64, u64, Vec<u32>) {
    let a: Vec<f32> = (0..count).map(f32::from).collect();
    let out = bench.alloc(u64::from(count) * 4, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&a), bench.buffer(&a), out]);
    (args, out, a.iter().map(|a| (a + a).to_bits()).collect())
}

#[test]
fn dispatch_runs_a_kernel_and_the_fence_comes_behind_it() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 256);
    let fence = bench.alloc(64, READ_WRITE);
    for (round, initiator) in [(1u32, THREADS), (2, 0x8001), (3, 0x8005)] {
        let (args, out, expected) = vectors(&bench, 1024);
        let dim = if initiator == THREADS { [1024, 1, 1] } else { [4, 1, 1] };
        let descriptor: KernelDescriptor = bench.space.read(bench.kernel("vecadd")).expect("mapped");
        // PRIORITY and PRIV, which some drivers set.
        let rsrc1 = descriptor.compute_pgm_rsrc1.bits() | 0b11 << 10 | 1 << 20;
        // EXCP_EN_MSB, too.
        let rsrc2 = descriptor.compute_pgm_rsrc2.bits() | 0b11 << 13;
        let packets = [
            program(&bench, "vecadd", [256, 1, 1], 0, args),
            set(ComputeRegister::PGM_RSRC1, &[rsrc1, rsrc2]),
            direct(dim, initiator),
        ];
        ring.submit(&bench, &[packets.concat(), release(fence, round.into(), round)]);
        let done = || bench.interrupts.all().len() == round as usize;
        ring.run_until(done);
        assert_eq!(bench.u32s(out, 1024), expected, "initiator {initiator:#x}");
        assert_eq!(bench.u32s(fence, 1), [round]);
    }
    let doorbell = ring.config.identity.doorbell;
    assert_eq!(bench.interrupts.all(), [1, 2, 3].map(|round| Interrupt::Eop(doorbell, round)));
    ring.drain(&bench);
}

#[test]
fn dispatch_begins_at_the_workgroup_that_its_registers_name() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 512);
    let (args, out, sums) = vectors(&bench, 1024);
    let fence = bench.alloc(64, READ_WRITE);
    let mut expected = vec![0; 1024];
    // From the second workgroup up to the third; then none; then the last one, by its size in memory.
    let sizes = bench.buffer(&[4u32, 1, 1]);
    let indirect = packet(Opcode::DISPATCH_INDIRECT, &[&halves(sizes)[..], &[0x8001]].concat());
    let begin = |at: u32| set(ComputeRegister::START_X, &[at, 0, 0]);
    let runs = [
        ([begin(1), direct([3, 1, 1], 0x8001)].concat(), 256..768),
        ([begin(3), direct([3, 1, 1], 0x8001)].concat(), 0..0),
        ([begin(3), indirect].concat(), 768..1024),
        ([begin(3), direct([1, 1, 1], 0x8005)].concat(), 0..256),
    ];
    for (round, (run, items)) in (1..).zip(runs) {
        ring.submit(
            &bench,
            &[program(&bench, "vecadd", [256, 1, 1], 0, args), run, release(fence, round, 0)],
        );
        ring.run_until(|| bench.u32s(fence, 1) == [round as u32]);
        expected[items.clone()].copy_from_slice(&sums[items]);
        assert!(bench.u32s(out, 1024) == expected, "round {round}");
    }
}

#[test]
fn work_items_of_counted_dispatches_are_sampled() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 512);
    let (args, out, _) = vectors(&bench, 1024);
    let counts = bench.alloc(64, READ_WRITE);
    let sample = |at: u64| packet(Opcode::EVENT_WRITE, &[&[30 | 2 << 8][..], &halves(counts + at)].concat());
    let counting = |on: u32| set(ComputeRegister::PIPELINESTAT_ENABLE, &[on]);
    ring.submit(
        &bench,
        &[
            program(&bench, "vecadd", [256, 1, 1], 0, args),
            direct([1024, 1, 1], THREADS),
            counting(1),
            sample(0),
            direct([1000, 1, 1], THREADS),
            // Two workgroups before those that run.
            set(ComputeRegister::START_X, &[2, 0, 0]),
            direct([4, 1, 1], 0x8001),
            sample(8),
            counting(0),
            set(ComputeRegister::START_X, &[0, 0, 0]),
            direct([1, 1, 1], 0x8001),
            sample(16),
            release(counts + 32, 1, 0),
        ],
    );
    ring.run_until(|| bench.u32s(counts + 32, 1) == [1]);
    assert_eq!(bench.u32s(counts, 6), [0, 0, 1512, 0, 1512, 0]);
    assert_ne!(bench.u32s(out + 1023 * 4, 1), [0], "the work was done");
}

#[test]
fn dispatch_takes_its_size_from_memory_and_its_packets_from_a_buffer() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 64);
    let (width, height) = (20u32, 8u32);
    let out = bench.alloc(u64::from(width * height) * 2 * 4, READ_WRITE);
    let args = bench.buffer(&[out, u64::from(width) | u64::from(height) << 32]);
    // Three workgroups of eight in x, of which the last has four work-items: 20 in all.
    let sizes = bench.buffer(&[3u32, 2, 1]);
    let indirect = packet(Opcode::DISPATCH_INDIRECT, &[&halves(sizes)[..], &[0x8003]].concat());
    let packets = [
        program(&bench, "ids", [8 | 4 << 16, 4, 2], 0, args),
        indirect,
        packet(Opcode::EVENT_WRITE, &[7 | 4 << 8]),
    ]
    .concat();
    let fence = bench.alloc(64, READ_WRITE);
    let buffer = bench.buffer(&packets);
    ring.submit(&bench, &[enter(buffer, packets.len(), 0), write(fence, &[1])]);
    ring.run_until(|| bench.u32s(fence, 1) == [1]);
    // The write comes after the event, which waits for the waves.
    let ids = bench.u32s(out, (width * height * 2) as usize);
    for (at, id) in (0..).zip(ids) {
        let [x, y, z] = [at % width % 8, at / width % height % 4, at / width / height];
        assert_eq!(id, (x | y << 8 | z << 16) + 1, "work-item {at}");
    }
}

#[test]
fn dispatch_with_lds_and_one_with_scratch_memory_have_it() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 1024);
    let input: Vec<u32> = (0..512).collect();
    let out = bench.alloc(512 * 4, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&input), out]);
    ring.submit(&bench, &[program(&bench, "reverse", [256, 1, 1], 1024, args), direct([512, 1, 1], THREADS)]);
    let index: Vec<u32> = (0..64u32).map(|k| (k * 37 + 11) & 63).collect();
    let sums = bench.alloc(1024 * 4, READ_WRITE);
    let args = bench.buffer(&[bench.buffer(&index), sums]);
    let wave_bytes = 320 * 32u32;
    let backing = bench.alloc(u64::from(wave_bytes) * 4, READ_WRITE);
    let fence = bench.alloc(64, READ_WRITE);
    ring.submit(
        &bench,
        &[
            program(&bench, "scratch", [64, 1, 1], 0, args),
            set(ComputeRegister::DISPATCH_SCRATCH_BASE_LO, &halves(backing >> 8)),
            set(ComputeRegister::TMPRING_SIZE, &[4 | (wave_bytes / 256) << 12]),
            direct([1024, 1, 1], THREADS),
            release(fence, 1, 0),
        ],
    );
    ring.run_until(|| bench.u32s(fence, 1) == [1]);
    let reversed: Vec<u32> = (0..512).map(|at| at / 256 * 256 + 255 - at % 256).collect();
    assert_eq!(bench.u32s(out, 512), reversed);
    let sum = |i: u32| {
        let mut values = [0u32; 64];
        for k in 0..64 {
            values[index[((i + k) & 63) as usize] as usize] = i.wrapping_mul(1000).wrapping_add(k);
        }
        (0..64).fold(0u32, |sum, k| sum.wrapping_mul(31).wrapping_add(values[index[k] as usize]))
    };
    assert_eq!(bench.u32s(sums, 1024), (0..1024).map(sum).collect::<Vec<_>>());
}

#[test]
fn packets_behind_a_running_dispatch_are_executed_and_its_fence_is_not() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 512);
    let (flag, out) = (bench.alloc(64, READ_WRITE), bench.alloc(4096, READ_WRITE));
    let data = bench.alloc(64, READ_WRITE);
    let args = bench.buffer(&[flag, out]);
    ring.submit(
        &bench,
        &[
            program(&bench, "wait_for", [64, 1, 1], 0, args),
            direct([64, 1, 1], THREADS),
            release(data, 1, 0),
            write(data + 8, &[2]),
            packet(Opcode::EVENT_WRITE, &[7 | 4 << 8]),
            write(data + 12, &[3]),
        ],
    );
    ring.run_until(|| bench.u32s(data + 8, 1) == [2]);
    for _ in 0..5 {
        assert_eq!(ring.cp.service(), Progress::Blocked(BlockedOn::Dispatches));
    }
    assert_eq!(bench.u32s(data, 4), [0, 0, 2, 0]);
    bench.space.store_u32(flag, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 4), [1, 0, 2, 3]);
    assert_eq!(bench.u32s(out, 1), [7]);
    assert!(bench.wakes.load(std::sync::atomic::Ordering::SeqCst) > 0, "its end woke the device's thread");
}

#[test]
fn more_dispatches_than_fit_wait_for_those_before() {
    let bench = Bench::new(2);
    let mut ring = Ring::new(&bench, 4096);
    let (flag, out) = (bench.alloc(64, READ_WRITE), bench.alloc(4096, READ_WRITE));
    let args = bench.buffer(&[flag, out]);
    let fences = bench.alloc(4096, READ_WRITE);
    ring.submit(&bench, &[program(&bench, "wait_for", [64, 1, 1], 0, args)]);
    for nth in 0..40 {
        ring.submit(&bench, &[direct([64, 1, 1], THREADS), release(fences + nth * 8, nth + 1, 0)]);
    }
    while ring.cp.service() == Progress::Advanced {}
    assert_eq!(ring.cp.service(), Progress::Blocked(BlockedOn::Dispatches));
    assert_eq!(bench.u32s(fences, 2), [0, 0]);
    bench.space.store_u32(flag, 1).expect("mapped");
    ring.drain(&bench);
    assert_eq!(
        bench.u32s(fences, 80),
        (0..80).map(|at| if at % 2 == 0 { at / 2 + 1 } else { 0 }).collect::<Vec<_>>()
    );
}
