//! Packets that stop an SDMA queue with a named error, and no other queue.

use belfry_abi::sdma::Op;
use belfry_device::queue::Progress;

use super::{Ring, assert_works, copy, enter, fence, halves, packet, poll, trap, write};
use crate::bench::{Bench, Interrupt, READ, READ_WRITE};

/// A packet with more bits in its header.
fn with(bits: u32, mut packet: Vec<u32>) -> Vec<u32> {
    packet[0] |= bits;
    packet
}

/// A packet with another value in one of its dwords.
fn at(dword: usize, value: u32, mut packet: Vec<u32>) -> Vec<u32> {
    packet[dword] = value;
    packet
}

#[test]
fn packets_that_are_not_modelled_stop_their_queue_by_name() {
    let fill = || packet(Op::CONST_FILL, 0, &[0; 4]);
    let rows: Vec<(&str, Vec<u32>)> = vec![
        ("operation 0x03 ", packet(Op(3), 0, &[0; 8])),
        ("operation 0x12 ", packet(Op(0x12), 0, &[0; 8])),
        ("operation 0xff of kind 255", vec![u32::MAX; 8]),
        ("NOP of kind 1", packet(Op::NOP, 1, &[0; 8])),
        ("COPY of kind TILED is not modelled: images are linear", packet(Op::COPY, 1, &[0; 13])),
        ("COPY of kind SOA ", packet(Op::COPY, 3, &[0; 13])),
        ("COPY of kind TILED_SUB_WIND ", packet(Op::COPY, 5, &[0; 13])),
        ("COPY of kind T2T_SUB_WIND ", packet(Op::COPY, 6, &[0; 13])),
        ("COPY of kind DIRTY_PAGE is not modelled: only the kernel", packet(Op::COPY, 7, &[0; 13])),
        ("COPY of kind LINEAR_PHY ", packet(Op::COPY, 8, &[0; 13])),
        ("COPY of kind LINEAR_SUB_WIND_LARGE ", packet(Op::COPY, 36, &[0; 20])),
        ("COPY encrypt", with(1 << 16, copy(0, 0, 1))),
        ("COPY tmz", with(1 << 18, copy(0, 0, 1))),
        ("COPY backwards", with(1 << 25, copy(0, 0, 1))),
        ("COPY src_sw 0x2", at(2, 2 << 24, copy(0, 0, 1))),
        ("COPY dst_sw 0x1", at(2, 1 << 16, copy(0, 0, 1))),
        ("COPY dst2_sw 0x3", with(1 << 27, at(2, 3 << 8, [copy(0, 0, 1), vec![0; 2]].concat()))),
        ("COPY elementsize 0x5", with(5 << 29, packet(Op::COPY, 4, &[0; 12]))),
        ("COPY src_sw 0x1", packet(Op::COPY, 4, &[&[0; 11][..], &[1 << 24]].concat())),
        ("WRITE of kind 1", packet(Op::WRITE, 1, &[0; 8])),
        ("WRITE tmz", with(1 << 18, write(0, &[1]))),
        ("WRITE sw 0x1", at(3, 1 << 24, write(0, &[1]))),
        ("FENCE of kind 1", packet(Op::FENCE, 1, &[0; 3])),
        ("TRAP of kind 1", packet(Op::TRAP, 1, &[0; 3])),
        ("SEM ", packet(Op::SEM, 0, &[0; 2])),
        ("POLL_REGMEM of kind 1", packet(Op::POLL_REGMEM, 1, &[0; 5])),
        ("POLL_REGMEM of a register", packet(Op::POLL_REGMEM, 0, &[0x1000, 0, 0, 0, 0])),
        ("CONST_FILL of kind 1", packet(Op::CONST_FILL, 1, &[0; 8])),
        ("CONST_FILL fillsize 0x3", with(3 << 30, fill())),
        ("CONST_FILL sw 0x2", with(2 << 16, fill())),
        ("ATOMIC atomic_op 0xe", with(14 << 25, packet(Op::ATOMIC, 0, &[0; 7]))),
        ("ATOMIC loop of atomic_op 0xf", with(15 << 25 | 1 << 16, packet(Op::ATOMIC, 0, &[0; 7]))),
        ("ATOMIC tmz", with(8 << 25 | 1 << 18, packet(Op::ATOMIC, 0, &[0; 7]))),
        ("PTEPDE is not modelled: it is for the kernel's rings", packet(Op::PTEPDE, 0, &[0; 9])),
        ("TIMESTAMP of kind 3", packet(Op::TIMESTAMP, 3, &[0; 2])),
        ("SRBM_WRITE ", packet(Op::SRBM_WRITE, 0, &[0; 2])),
        ("PRE_EXE ", packet(Op::PRE_EXE, 0, &[0; 2])),
        ("GPUVM_INV ", packet(Op::GPUVM_INV, 0, &[0; 3])),
        ("GCR_REQ of kind 2", packet(Op::GCR_REQ, 2, &[0; 4])),
        ("DUMMY_TRAP ", packet(Op::DUMMY_TRAP, 0, &[0])),
    ];
    let bench = Bench::new(1);
    let (data, mut other) = (bench.alloc(4096, READ_WRITE), Ring::new(&bench, 256));
    for (expected, bad) in rows {
        // A wait for a register that every value satisfies is a flush of the HDP.
        let bad = if expected.ends_with("a register") { with(3 << 28, bad) } else { bad };
        for in_buffer in [false, true] {
            let mut ring = Ring::new(&bench, 256);
            let bad = if in_buffer { enter(bench.buffer(&bad), bad.len()) } else { bad.clone() };
            ring.submit(&bench, &[write(data, &[1]), bad, write(data, &[2]), trap(1)]);
            let error = ring.error();
            assert!(format!("{} ", error.error).contains(expected), "{expected}: {error}");
            let doorbell = ring.config.identity.doorbell;
            assert_eq!(bench.interrupts.all().last(), Some(&Interrupt::SdmaStopped(doorbell)), "{expected}");
            // The queue has stopped for good, after the packets before.
            assert_eq!((ring.engine.service(), bench.u32s(data, 1)), (Progress::Idle, vec![1]));
        }
    }
    assert_works(&bench, &mut other);
}

#[test]
fn packets_that_do_not_fit_where_they_are_stop_their_queue() {
    let bench = Bench::new(1);
    let nop = |dwords: u32| vec![dwords << 16];
    let cond = |dwords: u32, data: u64| packet(Op::COND_EXE, 0, &[&halves(data)[..], &[1, dwords]].concat());
    let data = bench.alloc(4096, READ_WRITE);
    let in_ring: [(&str, Vec<u32>); 4] = [
        ("NOP of 65 dwords in a ring or buffer with 64", nop(64)),
        ("WRITE of 65 dwords", at(3, 60, write(data, &[1]))),
        ("WRITE of 1048580 dwords", at(3, u32::MAX >> 12, write(data, &[1]))),
        ("COND_EXE skips 60 dwords with 59 left", cond(60, data)),
    ];
    for (expected, bad) in in_ring {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[bad]);
        let error = ring.error();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    let in_buffer: [(&str, Vec<u32>); 6] = [
        ("NOP of 2 dwords in a ring or buffer with 1", nop(1)),
        ("WRITE of 4 dwords in a ring or buffer with 3", write(data, &[1])[..3].to_vec()),
        ("WRITE of 5 dwords in a ring or buffer with 4", write(data, &[1])[..4].to_vec()),
        (
            "COPY of 9 dwords in a ring or buffer with 8",
            with(1 << 27, [copy(data, data, 4), vec![0]].concat()),
        ),
        ("COND_EXE skips 1 dwords with 0 left", cond(1, data)),
        ("INDIRECT in an indirect buffer", enter(data, 1)),
    ];
    for (expected, bad) in in_buffer {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[enter(bench.buffer(&bad), bad.len())]);
        let error = ring.error();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    let rights = [("INDIRECT priv", 1 << 31), ("INDIRECT vmid 0x7", 7 << 16)];
    for (expected, bits) in rights {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[with(bits, enter(data, 8))]);
        let error = ring.error();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    // A packet may name the queue's own VM context, and then means it.
    let mut ring = Ring::new(&bench, 256);
    let vmid = u32::from(ring.config.identity.vmid);
    ring.submit(&bench, &[with(vmid << 16, enter(bench.buffer(&write(data, &[6])), 5))]);
    ring.drain(&bench);
    assert_eq!(bench.u32s(data, 1), [6]);
}

#[test]
fn memory_that_is_not_there_stops_its_queue_with_a_fault() {
    let bench = Bench::new(1);
    let nowhere = 0x6666_0000_0000;
    let (data, constant) = (bench.alloc(4096, READ_WRITE), bench.alloc(4096, READ));
    let to = halves(nowhere);
    let rows: [(&str, u64, Vec<u32>); 12] = [
        ("COPY", nowhere, copy(nowhere, data, 4)),
        ("COPY", nowhere, copy(data, nowhere, 4)),
        ("COPY", constant, copy(data, constant, 4)),
        ("COPY", data + 4096, copy(data, data + 4094, 4)),
        ("CONST_FILL", nowhere, packet(Op::CONST_FILL, 0, &[to[0], to[1], 0, 3])),
        ("WRITE", nowhere, write(nowhere, &[1])),
        ("FENCE", nowhere, fence(nowhere, 1)),
        ("FENCE", data + 2, fence(data + 2, 1)),
        ("POLL_REGMEM", nowhere, poll(3, nowhere, 0, 0)),
        ("ATOMIC", nowhere, with(15 << 25, packet(Op::ATOMIC, 0, &[to[0], to[1], 0, 0, 0, 0, 0]))),
        ("TIMESTAMP", nowhere, packet(Op::TIMESTAMP, 1, &to)),
        ("indirect buffer", nowhere, enter(nowhere, 4)),
    ];
    for (expected, address, bad) in rows {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[bad, write(data, &[9])]);
        let error = ring.error();
        assert!(error.error.to_string().starts_with(expected), "{expected}: {error}");
        let doorbell = ring.config.identity.doorbell;
        match bench.interrupts.all().last() {
            Some(Interrupt::VmFault(from, fault)) => {
                assert_eq!((*from, fault.va & !0xfff), (doorbell, address & !0xfff), "{expected}");
            }
            other => panic!("{expected}: {other:?}"),
        }
        assert_ne!(bench.u32s(data, 1), [9]);
    }
}

#[test]
fn pointers_that_cannot_be_stop_their_queue() {
    let bench = Bench::new(1);
    let mut ring = Ring::new(&bench, 256);
    bench.space.store_u64(ring.config.wptr_poll, 257).expect("mapped");
    assert!(ring.error().to_string().contains("257 bytes ahead in a ring of 256"));
    // A write pointer behind the read pointer can only be a producer's mistake: there is nothing to read.
    let mut ring = Ring::new(&bench, 256);
    bench.space.store_u64(ring.config.wptr_poll, u64::MAX).expect("mapped");
    assert_eq!(ring.settle(), Progress::Idle);
    // No byte count ends within a dword.
    bench.space.store_u64(ring.config.wptr_poll, 3).expect("mapped");
    assert_eq!(ring.settle(), Progress::Idle);
    for field in ["write pointer", "ring", "read pointer"] {
        let mut ring = Ring::new(&bench, 256);
        ring.submit(&bench, &[vec![0]]);
        let mut config = ring.config;
        match field {
            "ring" => config.ring_base = 0x6666_0000_0000,
            "read pointer" => config.rptr_report = 0x6666_0000_0000,
            _ => config.wptr_poll = 0x6666_0000_0000,
        }
        ring.engine = belfry_device::sdma::SdmaQueue::new(
            config,
            std::sync::Arc::clone(&bench.space),
            &bench.sdma_env(),
            Default::default(),
        );
        let error = ring.error();
        assert!(error.error.to_string().starts_with(field), "{field}: {error}");
    }
}
