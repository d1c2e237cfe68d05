//! Packets that stop a PM4 queue with a named error, and no other queue.

use belfry_abi::pm4::{ComputeRegister, Opcode, PACKET2};
use belfry_device::cp::{Cause, Pm4Error};
use belfry_device::queue::{BlockedOn, Progress};

use super::{Ring, THREADS, direct, enter, halves, packet, program, set, write};
use crate::bench::{Bench, Interrupt, READ_WRITE};

/// KFD's exception code of a packet that is not supported.
const UNSUPPORTED: u32 = 20;

#[test]
fn packets_that_are_not_modelled_stop_their_queue_by_name() {
    let predicated = packet(Opcode::NOP, &[0]).into_iter().enumerate();
    let predicated = predicated.map(|(at, dword)| dword | u32::from(at == 0)).collect();
    let wait64 = |control: u32| packet(Opcode::WAIT_REG_MEM64, &[control, 0xe27, 0, 0, 0, 1, 0, 0]);
    let rows: [(&str, Vec<u32>); 31] = [
        ("NOP with a predicate", predicated),
        ("EVENT_WRITE of event 0x1b to memory", packet(Opcode::EVENT_WRITE, &[0x21b, 0, 0])),
        ("LOAD_SH_REG_INDEX of another form, word 0x1", packet(Opcode::LOAD_SH_REG_INDEX, &[1, 0, 0x240, 1])),
        ("form, word 0x80000240", packet(Opcode::LOAD_SH_REG_INDEX, &[0, 0, 1 << 31 | 0x240, 1])),
        ("LOAD_SH_REG_INDEX has 3", packet(Opcode::LOAD_SH_REG_INDEX, &[0, 0, 0x240])),
        ("operation SET_SH_REG_PAIRS", packet(Opcode::SET_SH_REG_PAIRS, &[0x240, 1])),
        ("WAIT_REG_MEM64 space 0", wait64(3)),
        ("WAIT_REG_MEM64 with operation 1", wait64(3 | 1 << 4 | 1 << 6)),
        ("WAIT_REG_MEM64 has 6", packet(Opcode::WAIT_REG_MEM64, &[3 | 1 << 4, 0, 0, 0, 0, 0])),
        ("SET_SH_REG_INDEX of register 0x2c00", packet(Opcode::SET_SH_REG_INDEX, &[0, 1])),
        ("index of SET_SH_REG 0x1", packet(Opcode::SET_SH_REG_INDEX, &[1 << 28 | 0x216, 1])),
        ("index of SET_SH_REG 0x3", packet(Opcode::SET_SH_REG, &[3 << 28 | 0x216, 1])),
        ("compute units in register 0x20c", packet(Opcode::SET_SH_REG_INDEX, &[3 << 28 | 0x20c, 1])),
        ("operation 0xff", packet(Opcode(0xff), &[0])),
        ("MEM_SEMAPHORE", packet(Opcode::MEM_SEMAPHORE, &[0, 0])),
        ("SET_CONTEXT_REG", packet(Opcode::SET_CONTEXT_REG, &[0, 0])),
        ("MAP_QUEUES", packet(Opcode::MAP_QUEUES, &[0; 6])),
        ("not of type 3", vec![0x1234]),
        ("RELEASE_MEM has 3", packet(Opcode::RELEASE_MEM, &[0; 3])),
        ("RELEASE_MEM data 4", packet(Opcode::RELEASE_MEM, &[0, 4 << 29, 0, 0, 0, 0, 0])),
        ("RELEASE_MEM interrupt 5", packet(Opcode::RELEASE_MEM, &[0, 5 << 24, 0, 0, 0, 0, 0])),
        ("EVENT_WRITE has 2", packet(Opcode::EVENT_WRITE, &[7, 0])),
        ("SET_SH_REG of register 0x2c00", packet(Opcode::SET_SH_REG, &[0, 1])),
        ("SET_SH_REG of register 0x2e50", set(ComputeRegister::USER_DATA_15, &[1, 2])),
        (
            "0xc200 is not modelled: no user configuration register",
            packet(Opcode::SET_UCONFIG_REG, &[0x200, 1]),
        ),
        ("0x1000 is not modelled: it is privileged", packet(Opcode::WRITE_DATA, &[0, 0x1000, 0, 1])),
        ("COPY_DATA of register 0x1000", packet(Opcode::COPY_DATA, &[5 << 8, 0x1000, 0, 0, 0])),
        ("function 7", packet(Opcode::WAIT_REG_MEM, &[7, 0xe27, 0, 0, 0, 0])),
        ("never comes", packet(Opcode::WAIT_REG_MEM, &[3, 0xe27, 0, 1, 1, 0])),
        ("ATOMIC_MEM operation 14", packet(Opcode::ATOMIC_MEM, &[14, 0, 0, 0, 0, 0, 0, 0])),
        ("DMA_DATA to destination 1", packet(Opcode::DMA_DATA, &[1 << 20, 0, 0, 0, 0, 4])),
    ];
    let bench = Bench::new(1);
    let (data, mut other) = (bench.alloc(4096, READ_WRITE), bench.queue(16));
    for (expected, bad) in rows {
        for in_buffer in [false, true] {
            let mut ring = Ring::new(&bench, 256);
            let bad = if in_buffer { enter(bench.buffer(&bad), bad.len(), 0) } else { bad.clone() };
            ring.submit(&bench, &[write(data, &[1]), bad, write(data, &[2])]);
            let error = ring.error();
            assert!(
                matches!(&error.cause, Cause::Ring(error) if error.to_string().contains(expected)),
                "{expected}: {error}"
            );
            let doorbell = ring.config.identity.doorbell;
            assert_eq!(bench.interrupts.all().last(), Some(&Interrupt::BadOpcode(doorbell, UNSUPPORTED)));
            // The queue has stopped for good, after the packets before.
            assert_eq!((ring.cp.service(), bench.u32s(data, 1)), (Progress::Idle, vec![1]));
        }
    }
    bench.assert_works(&mut other);
}

#[test]
fn memory_that_is_not_there_stops_its_queue_with_a_fault() {
    let bench = Bench::new(1);
    let nowhere = 0x6666_0000_0000;
    let wait64 = [&[3 | 1 << 4][..], &halves(nowhere), &[0, 1, u32::MAX, u32::MAX, 4]].concat();
    let prefetch = [&[3 << 29 | 2 << 20][..], &halves(nowhere), &[0, 0, 32]].concat();
    let rows: [(&str, Vec<u32>); 11] = [
        ("DMA_DATA", packet(Opcode::DMA_DATA, &prefetch)),
        ("WAIT_REG_MEM64", packet(Opcode::WAIT_REG_MEM64, &wait64)),
        ("WRITE_DATA", write(nowhere, &[1])),
        ("indirect buffer", enter(nowhere, 4, 0)),
        ("RELEASE_MEM", super::release(nowhere, 1, 0)),
        ("WAIT_REG_MEM", super::wait(nowhere, 1)),
        ("COND_EXEC", packet(Opcode::COND_EXEC, &[&halves(nowhere)[..], &[0, 1]].concat())),
        ("ATOMIC_MEM", packet(Opcode::ATOMIC_MEM, &[&[0xf][..], &halves(nowhere), &[0; 5]].concat())),
        ("DISPATCH_INDIRECT", packet(Opcode::DISPATCH_INDIRECT, &[&halves(nowhere)[..], &[1]].concat())),
        ("EVENT_WRITE", packet(Opcode::EVENT_WRITE, &[&[0x21e][..], &halves(nowhere)].concat())),
        (
            "LOAD_SH_REG_INDEX",
            packet(Opcode::LOAD_SH_REG_INDEX, &[&halves(nowhere)[..], &[0x240, 1]].concat()),
        ),
    ];
    for (expected, bad) in rows {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[bad]);
        let error = ring.error();
        assert!(matches!(error.cause, Cause::Memory { what, .. } if what == expected), "{expected}: {error}");
        let doorbell = ring.config.identity.doorbell;
        let last = bench.interrupts.all().pop();
        assert!(
            matches!(last, Some(Interrupt::VmFault(of, fault)) if of == doorbell && fault.va & !0xfff == nowhere),
            "{expected}: {last:?}"
        );
    }
    bench.assert_works(&mut bench.queue(16));
}

#[test]
fn buffers_that_recurse_or_end_too_early_are_refused() {
    let bench = Bench::new(1);
    let (mut chained, mut nested) = (Ring::new(&bench, 64), Ring::new(&bench, 64));
    for (ring, flags) in [(&mut chained, 1 << 20), (&mut nested, 0)] {
        let buffer = bench.alloc(16, READ_WRITE);
        let itself = enter(buffer, 4, flags);
        bench.space.write_bytes(buffer, zerocopy::IntoBytes::as_bytes(&itself[..])).expect("mapped");
        ring.submit(&bench, &[itself]);
    }
    // The buffer that goes on for ever does so in turns, and gets slow.
    while chained.cp.service() == Progress::Advanced {}
    for _ in 0..10 {
        assert_eq!(chained.cp.service(), Progress::Blocked(BlockedOn::Memory));
        bench.assert_works(&mut bench.queue(16));
    }
    let error = nested.error();
    assert!(matches!(error.cause, Cause::Ring(Pm4Error::Nesting(4))), "{error}");

    let data = bench.alloc(4096, READ_WRITE);
    let cut = write(data, &[1, 2]);
    let skip = packet(Opcode::COND_EXEC, &[&halves(data)[..], &[0, 1]].concat());
    let invalid = enter(data, 4, 0);
    let rows = [
        ("WRITE_DATA has 5 dwords with 3 left", cut[..4].to_vec()),
        ("COND_EXEC skips 1 dwords with 0 left", skip),
        ("INDIRECT_BUFFER without VALID", vec![invalid[0], invalid[1], invalid[2], invalid[3] & !(1 << 23)]),
    ];
    for (expected, bad) in rows {
        let mut ring = Ring::new(&bench, 64);
        ring.submit(&bench, &[enter(bench.buffer(&bad), bad.len(), 0)]);
        assert_eq!(ring.error().cause.to_string(), expected);
    }
    assert_eq!(bench.u32s(data, 1), [0]);
}

#[test]
fn ring_that_cannot_hold_what_its_pointers_or_packets_say_is_refused() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 16);
    ring.put(&bench, &[PACKET2; 16]);
    bench.space.store_u64(ring.config.wptr_poll, 17).expect("mapped");
    let error = ring.error();
    assert!(matches!(error.cause, Cause::WritePointer { ahead: 17, ring: 16 }), "{error}");

    let mut ring = Ring::new(&bench, 16);
    ring.submit(&bench, &[vec![packet(Opcode::NOP, &[0; 16])[0]]]);
    let error = ring.error();
    assert!(matches!(error.cause, Cause::Ring(Pm4Error::Overrun { body: 16, left: 15, .. })), "{error}");
}

#[test]
fn dispatches_that_cannot_be_launched_stop_their_queue() {
    let bench = Bench::new(1);
    let (data, args) = (bench.alloc(4096, READ_WRITE), bench.buffer(&[0u64; 4]));
    let good = || program(&bench, "vecadd", [256, 1, 1], 0, args);
    let rows: [(&str, Vec<u32>); 10] = [
        ("COMPUTE_DISPATCH_INITIATOR 0x0", direct([256, 1, 1], 0)),
        ("COMPUTE_DISPATCH_INITIATOR 0x4021", direct([256, 1, 1], 0x4021)),
        ("COMPUTE_START 0x3", [set(ComputeRegister::START_X, &[3]), direct([9, 1, 1], THREADS)].concat()),
        ("workgroup", [set(ComputeRegister::NUM_THREAD_X, &[1025]), direct([9, 1, 1], THREADS)].concat()),
        ("grid", direct([u32::MAX, 1, 1], 0x8001)),
        ("entry point", [set(ComputeRegister::PGM_LO, &[9, 9]), direct([9, 1, 1], THREADS)].concat()),
        ("BULKY", [set(ComputeRegister::PGM_RSRC1, &[1 << 24]), direct([9, 1, 1], THREADS)].concat()),
        (
            "COMPUTE_STATIC_THREAD_MGMT",
            [set(ComputeRegister::STATIC_THREAD_MGMT_SE0, &[0]), direct([9, 1, 1], THREADS)].concat(),
        ),
        (
            "group memory",
            [set(ComputeRegister::PGM_RSRC2, &[0x1ff << 15]), direct([9, 1, 1], THREADS)].concat(),
        ),
        (
            "private memory",
            [
                set(ComputeRegister::PGM_RSRC2, &[1]),
                set(ComputeRegister::TMPRING_SIZE, &[4 << 12]),
                direct([9, 1, 1], THREADS),
            ]
            .concat(),
        ),
    ];
    for (expected, bad) in rows {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[good(), bad, write(data, &[1])]);
        let error = ring.error();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        assert!(
            matches!(bench.interrupts.all().last(), Some(Interrupt::BadOpcode(of, _)) if *of == ring.config.identity.doorbell),
            "{expected}"
        );
    }
    assert_eq!(bench.u32s(data, 1), [0]);
    // A grid without workgroups is one that has ended.
    let mut ring = Ring::new(&bench, 256);
    ring.submit(&bench, &[good(), direct([4, 0, 1], 0x8001), write(data, &[1])]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 1), [1]);
}

#[test]
fn wave_that_fails_stops_its_queue_before_the_fence() {
    let bench = Bench::new(2);
    let (data, out) = (bench.alloc(4096, READ_WRITE), bench.alloc(4096, READ_WRITE));
    let args = bench.buffer(&[out]);
    let mut ring = Ring::new(&bench, 256);
    ring.submit(
        &bench,
        &[
            program(&bench, "illegal", [32, 1, 1], 0, args),
            direct([32, 1, 1], THREADS),
            super::release(data, 1, 7),
        ],
    );
    let error = ring.error();
    assert!(matches!(error.cause, Cause::Wave(_)), "{error}");
    assert_eq!(bench.u32s(data, 1), [0]);
    let doorbell = ring.config.identity.doorbell;
    let all = bench.interrupts.all();
    assert!(
        matches!(&all[..], [Interrupt::Illegal(by, text), Interrupt::Sq(of, _), Interrupt::Sq(..)]
            if *of == doorbell && *by == doorbell && text.contains("[ff, ff, ff, ff") && text.ends_with("in illegal")),
        "{all:?}"
    );
    assert_ne!(ring.cp.service(), Progress::Blocked(BlockedOn::Dispatches));
}
