//! Vendor packets with PM4 indirect buffers.

use belfry_abi::aql::{AmdFormat, PM4_IB_DW_REMAIN, PacketHeader, PacketType, Pm4IbPacket, inactive};
use belfry_abi::pm4::{Opcode, Pm4Header};
use belfry_device::cp::{Cause, Pm4Error};
use belfry_device::queue::{BlockedOn, Progress};
use zerocopy::FromZeros;

use crate::bench::{Bench, Interrupt, Queue, READ_WRITE};

fn header(opcode: Opcode, body: u32) -> u32 {
    Pm4Header::type3(opcode, body).bits()
}

fn lo(address: u64) -> u32 {
    address as u32
}

fn hi(address: u64) -> u32 {
    (address >> 32) as u32
}

fn submit(bench: &Bench, queue: &mut Queue, dwords: &[u32], signal: u64) {
    let buffer = bench.buffer(dwords);
    let mut packet = Pm4IbPacket::new_zeroed();
    packet.header = PacketHeader::new(PacketType::VENDOR_SPECIFIC, false, 0, 0).bits();
    packet.amd_format = AmdFormat::PM4_IB.0.into();
    packet.ib_jump = [0xc002_3f00, lo(buffer), hi(buffer), dwords.len() as u32 | 1 << 23];
    packet.dw_remain = PM4_IB_DW_REMAIN;
    packet.completion_signal = signal;
    queue.submit(&packet);
}

#[test]
fn cache_invalidation_as_rocr_sends_it_completes() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let (signal, _) = bench.signal(1, None);
    submit(&bench, &mut queue, &[0xc006_5800, 0, 0xffff_ffff, 0xff, 0, 0, 0, 0x4381], signal);
    bench.drain(&mut queue);
    assert_eq!(bench.value(signal), 0);
}

#[test]
fn buffers_write_wait_copy_and_interrupt() {
    let bench = Bench::new(1);
    let mut queue = bench.queue(16);
    let data = bench.alloc(4096, READ_WRITE);
    let (signal, _) = bench.signal(1, None);
    let at = |offset: u64| [lo(data + offset), hi(data + offset)];
    let nested = [
        &[header(Opcode::WRITE_DATA, 5), 5 << 8][..],
        &at(0),
        &[0x11, 0x22],
        &[header(Opcode::WRITE_DATA, 5), 5 << 8 | 1 << 16],
        &at(16),
        &[0x33, 0x44],
    ]
    .concat();
    let inner = bench.buffer(&nested);
    let outer = [
        &[header(Opcode::NOP, 2), 1, 2, header(Opcode::NOP, 0x4000), 0x8000_0000][..],
        &[header(Opcode::INDIRECT_BUFFER, 3), lo(inner), hi(inner), nested.len() as u32 | 1 << 23],
        &[header(Opcode::WAIT_REG_MEM, 6), 3 | 1 << 4],
        &at(64),
        &[0x50, 0xf0, 4],
        &[header(Opcode::COPY_DATA, 5), 1 | 5 << 8 | 1 << 16],
        &at(0),
        &at(24),
        &[header(Opcode::COPY_DATA, 5), 9 | 5 << 8 | 1 << 16, 0, 0],
        &at(32),
        &[header(Opcode::RELEASE_MEM, 7), 20 | 5 << 8, 2 << 29 | 2 << 24],
        &at(40),
        &[0x55, 0x66, 0x77],
    ]
    .concat();
    submit(&bench, &mut queue, &outer, signal);
    bench.run_until_blocked(&mut queue);
    assert_eq!(bench.u32s(data, 6), [0x11, 0x22, 0, 0, 0x44, 0]);
    assert_eq!(bench.value(signal), 1);
    bench.space.store_u32(data + 64, 0x15f).expect("mapped");
    bench.drain(&mut queue);
    let words = bench.u32s(data, 12);
    assert_eq!(words[6..8], [0x11, 0x22]);
    assert_ne!(words[8], 0, "the clock");
    assert_eq!(words[10..12], [0x55, 0x66]);
    assert_eq!(bench.interrupts.all(), [Interrupt::Eop(queue.doorbell, 0x77)]);
    assert_eq!(bench.value(signal), 0);
}

#[test]
fn malformed_buffers_are_refused_by_name() {
    let rows: [(&str, &[u32]); 8] = [
        ("DISPATCH_DIRECT", &[header(Opcode::DISPATCH_DIRECT, 4), 1, 1, 1, 0x8021]),
        ("0xff", &[header(Opcode(0xff), 1), 0]),
        ("NOP", &[header(Opcode::NOP, 3), 0]),
        ("not of type 3", &[0x1234]),
        ("register", &[header(Opcode::WAIT_REG_MEM, 6), 3, 0, 0, 0, 0, 0]),
        ("WRITE_DATA", &[header(Opcode::WRITE_DATA, 4), 0, 0, 0, 0]),
        ("COPY_DATA", &[header(Opcode::COPY_DATA, 5), 0, 0, 0, 0, 0]),
        ("VALID", &[header(Opcode::INDIRECT_BUFFER, 3), 0, 0, 4]),
    ];
    for (expected, dwords) in rows {
        let bench = Bench::new(1);
        let (mut queue, mut other) = (bench.queue(16), bench.queue(16));
        submit(&bench, &mut queue, dwords, 0);
        let error = bench.run_to_error(&mut queue);
        assert!(
            matches!(&error.cause, Cause::Pm4(error) if error.to_string().contains(expected)),
            "{expected}: {error}"
        );
        assert_eq!(queue.inactive_code(), inactive::VENDOR_PACKET_UNSUPPORTED);
        bench.assert_works(&mut other);
    }
}

#[test]
fn buffers_that_never_end_block_only_their_queue() {
    let bench = Bench::new(1);
    let (mut chained, mut nested, mut other) = (bench.queue(16), bench.queue(16), bench.queue(16));
    for (queue, flags) in [(&mut chained, 1 << 20 | 1 << 23), (&mut nested, 1 << 23)] {
        let buffer = bench.alloc(16, READ_WRITE);
        let dwords = [header(Opcode::INDIRECT_BUFFER, 3), lo(buffer), hi(buffer), 4 | flags];
        bench.space.write(buffer, &dwords).expect("mapped");
        submit(&bench, queue, &dwords, 0);
    }
    for _ in 0..10 {
        assert_eq!(chained.cp.service(), Progress::Blocked(BlockedOn::Memory));
        bench.assert_works(&mut other);
    }
    let error = bench.run_to_error(&mut nested);
    assert!(matches!(error.cause, Cause::Pm4(Pm4Error::Nesting(_))), "{error}");
}
