//! Packets and kernels that cannot work: each is reported in the way of hardware, and stops its queue and no
//! other.

use belfry_abi::aql::{KernelDispatchPacket, PacketHeader, PacketType, inactive};
use belfry_device::chip::SqInterrupt;
use belfry_device::cp::Cause;
use belfry_device::queue::Progress;
use belfry_device::vm::FaultKind;

use crate::bench::{Bench, Interrupt, READ, READ_WRITE, VA};

/// Result that a bad packet must have.
enum Outcome {
    /// This code in the inactive signal, and this exception code in a bad-opcode interrupt.
    Refused(u64, u32),
    /// A VM fault at this address.
    Fault(u64, FaultKind),
    /// This code in the inactive signal, and perhaps an SQ interrupt, because of a wave.
    Wave(u64, Option<SqInterrupt>),
}
use Outcome::{Fault, Refused, Wave};

const UNMAPPED: u64 = VA - 0x10_0000;

fn check(name: &str, make: impl FnOnce(&Bench) -> (KernelDispatchPacket, Outcome)) {
    let bench = Bench::new(2);
    let (mut bad, mut good) = (bench.queue(16), bench.queue(16));
    let (mut packet, expected) = make(&bench);
    let (signal, _) = bench.signal(1, None);
    packet.completion_signal = signal;
    bad.submit(&packet);
    // Packets after the bad one are not processed.
    let mut behind = vecadd(&bench);
    behind.header = PacketHeader::new(PacketType::KERNEL_DISPATCH, true, 2, 2).bits();
    bad.submit(&behind);
    let error = bench.run_to_error(&mut bad);
    assert_eq!(error.packet, 0, "{name}: {error}");
    assert_eq!(bad.cp.service(), Progress::Idle, "{name}: reported once");
    assert_eq!((bench.value(signal), bad.read_index()), (1, 0), "{name}: nothing completed");
    // The interrupt for the thread that sleeps on the inactive signal comes first.
    let told = Interrupt::Eop(bad.doorbell, 0x1ac);
    let (code, interrupts) = match expected {
        Refused(code, exception) => (code, vec![told, Interrupt::BadOpcode(bad.doorbell, exception)]),
        Wave(code, sq) => {
            // A handler's message would come before the message of the hardware.
            let message =
                SqInterrupt::HandlerMessage((bad.doorbell.offset().bytes() as u32 / 8) & 0x3ff | 1 << 13);
            let message = (sq == Some(SqInterrupt::IllegalInstruction)).then_some(message);
            let sq = message.into_iter().chain(sq).map(|interrupt| Interrupt::Sq(bad.doorbell, interrupt));
            (code, std::iter::once(told).chain(sq).collect())
        }
        Fault(va, kind) => {
            let fault = error.cause.fault().unwrap_or_else(|| panic!("{name}: {error}"));
            assert_eq!((fault.va, fault.kind), (va, kind), "{name}: {error}");
            let walked = bench.space.translate(fault.va, fault.access).map(|_| ());
            assert_eq!(walked, Err(fault), "{name}: told as the page walk finds it");
            (0, vec![Interrupt::VmFault(bad.doorbell, fault)])
        }
    };
    assert_eq!(bad.inactive_code(), code, "{name}: {error}");
    // Before all of them, an instruction that cannot be executed is named.
    let (named, raised): (Vec<_>, Vec<_>) =
        bench.interrupts.all().into_iter().partition(|told| matches!(told, Interrupt::Illegal(..)));
    let is_illegal = matches!(expected, Wave(_, Some(SqInterrupt::IllegalInstruction)));
    assert_eq!(named.len(), usize::from(is_illegal), "{name}: {named:?}");
    assert_eq!(raised, interrupts, "{name}: {error}");
    bench.assert_works(&mut good);
}

fn vecadd(bench: &Bench) -> KernelDispatchPacket {
    bench.dispatch("vecadd", [256, 1, 1], [256, 1, 1], 0)
}

/// The packet with a changed descriptor, which points at the same code.
fn changed(bench: &Bench, change: impl FnOnce(&mut [u8; 64])) -> KernelDispatchPacket {
    let mut packet = vecadd(bench);
    let mut copy = [0u8; 64];
    bench.space.read_bytes(packet.kernel_object, &mut copy).expect("mapped");
    change(&mut copy);
    let moved = bench.buffer(&copy);
    let offset = u64::from_le_bytes(copy[16..24].try_into().expect("eight bytes"));
    let entry = packet.kernel_object.wrapping_add(offset);
    bench.space.store_u64(moved + 16, entry.wrapping_sub(moved)).expect("mapped");
    packet.kernel_object = moved;
    packet
}

#[test]
fn types_that_do_not_exist() {
    for packet_type in [PacketType::AGENT_DISPATCH, PacketType(6), PacketType(0xff)] {
        check("type", |bench| {
            let mut packet = vecadd(bench);
            packet.header = PacketHeader::new(packet_type, false, 0, 0).bits();
            (packet, Refused(inactive::PACKET_FORMAT_INVALID, 20))
        });
    }
}

#[test]
fn vendor_formats_that_do_not_exist() {
    check("vendor format", |bench| {
        let mut packet = vecadd(bench);
        (packet.header, packet.setup) = (0, 9);
        (packet, Refused(inactive::VENDOR_PACKET_UNSUPPORTED, 23))
    });
}

#[test]
fn dimensions_and_sizes() {
    check("dimensions", |bench| {
        let mut packet = vecadd(bench);
        packet.setup = 0;
        (packet, Refused(inactive::DIM_INVALID, 16))
    });
    check("grid that cannot be counted", |bench| {
        (bench.dispatch("vecadd", [u32::MAX; 3], [1; 3], 0), Refused(inactive::DIM_INVALID, 16))
    });
    check("workgroup", |bench| {
        (
            bench.dispatch("vecadd", [2048, 1, 1], [1025, 1, 1], 0),
            Refused(inactive::WORKGROUP_SIZE_INVALID, 21),
        )
    });
    check("group memory", |bench| {
        let mut packet = vecadd(bench);
        packet.group_segment_size = (64 << 10) + 1;
        (packet, Refused(inactive::GROUP_SEGMENT_INVALID, 17))
    });
}

#[test]
fn kernel_objects_that_are_not() {
    check("misaligned", |bench| {
        let mut packet = vecadd(bench);
        packet.kernel_object += 8;
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("null", |bench| {
        let mut packet = vecadd(bench);
        packet.kernel_object = 0;
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("unmapped", |bench| {
        let mut packet = vecadd(bench);
        packet.kernel_object = UNMAPPED;
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("garbage", |bench| {
        let mut packet = vecadd(bench);
        packet.kernel_object = bench.buffer(&[0x5a5a_5a5au32; 64]);
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("zeros", |bench| {
        let mut packet = vecadd(bench);
        packet.kernel_object = bench.buffer(&[0u32; 64]);
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("code that may not be executed", |bench| {
        let mut packet = vecadd(bench);
        let mut copy = [0u8; 512];
        bench.space.read_bytes(packet.kernel_object, &mut copy[..64]).expect("mapped");
        copy[16..24].copy_from_slice(&256u64.to_le_bytes());
        packet.kernel_object = bench.buffer(&copy);
        (packet, Refused(inactive::CODE_INVALID, 18))
    });
    check("too many registers", |bench| {
        let packet = changed(bench, |descriptor| descriptor[48] |= 0x3f);
        (packet, Refused(inactive::REGISTER_INVALID, 22))
    });
    check("shared registers in a wave32", |bench| {
        (changed(bench, |descriptor| descriptor[44] |= 1), Refused(inactive::CODE_INVALID, 18))
    });
    check("too many registers with the shared ones", |bench| {
        let packet = changed(bench, |descriptor| {
            descriptor[44] |= 0xf;
            descriptor[48] |= 0x3f;
            // Wave64, whose registers come in units of four.
            descriptor[57] &= !4;
        });
        (packet, Refused(inactive::REGISTER_INVALID, 22))
    });
    check("trap on start", |bench| {
        (changed(bench, |descriptor| descriptor[45] |= 4), Refused(inactive::CODE_INVALID, 18))
    });
    check("preloaded kernel arguments", |bench| {
        (changed(bench, |descriptor| descriptor[58] = 2), Refused(inactive::CODE_INVALID, 18))
    });
}

#[test]
fn waves_that_fault() {
    check("kernel arguments unmapped", |bench| {
        let mut packet = vecadd(bench);
        packet.kernarg_address = UNMAPPED;
        (packet, Fault(UNMAPPED, FaultKind::NotPresent))
    });
    check("store to an unmapped page", |bench| {
        let packet = bench.dispatch("poke", [1, 1, 1], [1, 1, 1], bench.buffer(&[UNMAPPED + 0x44]));
        (packet, Fault(UNMAPPED + 0x44, FaultKind::NotPresent))
    });
    check("store to a read-only page", |bench| {
        let page = bench.alloc(16, READ);
        let packet = bench.dispatch("poke", [1, 1, 1], [1, 1, 1], bench.buffer(&[page + 8]));
        (packet, Fault(page + 8, FaultKind::ReadOnly))
    });
    check("illegal instruction", |bench| {
        let out = bench.alloc(16, READ_WRITE);
        let packet = bench.dispatch("illegal", [1, 1, 1], [1, 1, 1], bench.buffer(&[out]));
        (packet, Wave(inactive::ILLEGAL_INSTRUCTION, Some(SqInterrupt::IllegalInstruction)))
    });
    check("private memory that was not asked for", |bench| {
        let buffer = bench.alloc(4096, READ_WRITE);
        let packet = bench.dispatch("scratch", [64, 1, 1], [64, 1, 1], bench.buffer(&[buffer, buffer]));
        (packet, Wave(inactive::APERTURE_VIOLATION, Some(SqInterrupt::MemoryViolation)))
    });
    check("trap", |bench| {
        let out = bench.alloc(16, READ_WRITE);
        let packet = bench.dispatch("trap", [1, 1, 1], [1, 1, 1], bench.buffer(&[out]));
        (packet, Wave(inactive::TRAP, None))
    });
}

#[test]
fn completion_signal_that_cannot_be_written() {
    let bench = Bench::new(1);
    let (mut bad, mut good) = (bench.queue(16), bench.queue(16));
    bad.barrier(PacketType::BARRIER_AND, &[], UNMAPPED);
    let error = bench.run_to_error(&mut bad);
    assert!(matches!(error.cause, Cause::Memory { what: "completion signal", .. }), "{error}");
    let mut bad = bench.queue(16);
    let mut packet = bench.dispatch("message", [1, 1, 1], [1, 1, 1], bench.buffer(&[1u32]));
    packet.completion_signal = UNMAPPED;
    bad.submit(&packet);
    let error = bench.run_to_error(&mut bad);
    assert!(matches!(error.cause, Cause::Memory { what: "completion signal", .. }), "{error}");
    bench.assert_works(&mut good);
}

#[test]
fn queue_memory_that_goes_away() {
    let bench = Bench::new(1);
    let (mut bad, mut good) = (bench.queue(16), bench.queue(16));
    bench.assert_works(&mut bad);
    bad.submit(&vecadd(&bench));
    bench.map(bad.ring, 0, 0);
    bench.space.invalidate();
    let error = bench.run_to_error(&mut bad);
    assert!(matches!(error.cause, Cause::Memory { what: "ring", .. }), "{error}");
    bench.assert_works(&mut good);
}

#[test]
fn write_index_that_runs_wild_reads_nothing_that_is_not_ready() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    for wild in [u64::MAX, 1 << 63, 17, 1 << 40] {
        bench.space.store_u64(queue.amd_queue + 0x38, wild).expect("mapped");
        assert_eq!(queue.cp.service(), Progress::Idle, "{wild:#x}");
    }
    bench.assert_works(&mut queue);
}
