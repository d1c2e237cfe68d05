//! PM4 packets on the kernel's queue, on a queue of a process and in its indirect buffers, well-formed and otherwise.
//!
//! The kernel's queue takes whole packets in order, up to the first that it cannot take. Memory that packets write is
//! as a model of them has it. A buffer that cannot be executed costs its own queue and nothing else.

#![no_main]

use arbitrary::Arbitrary;
use belfry_abi::aql::{AmdFormat, PacketHeader, PacketType};
use belfry_abi::pm4::Opcode;
use belfry_abi::regs::gc;
use belfry_fuzz::change::Word;
use belfry_fuzz::chips::On;
use belfry_fuzz::driver::{BUFFERS, DATA, Driver, kernel, user};
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;

const STEPS: usize = 24;
/// Index of the driver's queue that takes PM4 packets.
const PM4: usize = 2;
/// Bytes of data that packets write to.
const BYTES: u64 = 4096;
/// Dwords a buffer can have.
const ROOM: usize = 1024;
/// The longest packet the kernel's queue takes.
const LONGEST: u64 = 1024;

#[derive(Arbitrary, Debug)]
enum Step {
    Kernel(Packet),
    /// Less than a packet says it has.
    Partial(u32, u8),
    Buffer(Vec<Packet>),
    /// On the process's PM4 queue, on which they may wrap around.
    Ring(Vec<Packet>),
    /// The value that a packet may wait for.
    Poke {
        at: u8,
        value: u32,
    },
}

#[derive(Arbitrary, Debug)]
enum Packet {
    Write { to: u8, one: bool, at: At, data: [u32; 4], count: u8 },
    Copy { control: u32, source: At, target: At },
    Wait { control: u8, at: At, reference: u8, mask: u32 },
    Release { select: u32, at: At, data: u64, context: u32 },
    Nop(u8),
    Single,
    Enter { control: u32, at: u16 },
    Register { wild: bool, index: u16, value: u32 },
    Map([Word; 6]),
    Unmap(Word),
    Invalidate(u32),
    Uconfig { start: u8, value: u32 },
    Query { at: At, data: u64 },
    Shader { register: u8, values: [u32; 4] },
    Dispatch { sizes: [u8; 3], initiator: u16 },
    Atomic { control: u32, at: At, source: u64, compare: u64 },
    Fill { control: u32, source: At, target: At, command: u32 },
    Condition { at: At, dwords: u16 },
    Any { opcode: u8, body: Vec<Word> },
    Raw(u32),
}

#[derive(Arbitrary, Clone, Copy, Debug)]
enum At {
    Data(u16),
    Any(u64),
}

impl At {
    fn offset(self) -> Option<u64> {
        match self {
            At::Data(at) => Some(u64::from(at) % (BYTES / 4 - 8) * 4),
            At::Any(_) => None,
        }
    }

    /// The address, for the kernel or for the process.
    fn address(self, of: fn(u64) -> u64) -> [u32; 2] {
        let address = match self {
            At::Data(_) => of(DATA) + self.offset().unwrap_or(0),
            // Outside of the memory that the kernel keeps there.
            At::Any(address) => address | 1 << 47 | 1 << 40,
        };
        [address as u32, (address >> 32) as u32]
    }
}

fn packet(opcode: Opcode, body: &[u32]) -> Vec<u32> {
    let mut dwords = vec![3 << 30 | (body.len() as u32 - 1) << 16 | u32::from(opcode.0) << 8];
    dwords.extend_from_slice(body);
    dwords
}

/// Model of the two queues.
struct Model<'a> {
    driver: Driver<'a>,
    data: Vec<u8>,
    /// All dwords that the kernel's queue was given, and the number that it should have taken.
    stream: Vec<u32>,
    taken: usize,
    dead: bool,
    /// Something was done to registers or memory that this does not follow.
    wild: bool,
    /// Something was done to memory that this does not follow.
    vague: bool,
}

fuzz_target!(|on: On<Vec<Step>>| {
    let On { chip, input: steps } = on;
    RIG.choose(chip);
    let mut driver = Driver::new(&RIG);
    assert!(driver.add_queue(0), "a queue can be added");
    assert!(driver.add_pm4_queue(PM4), "and one of PM4 packets");
    // The packets that brought it up are done.
    let before = driver.kiq.wptr as usize;
    let data = vec![0; BYTES as usize];
    let stream = vec![0; before];
    let mut model = Model { driver, data, stream, taken: before, dead: false, wild: false, vague: false };
    for step in steps.iter().take(STEPS) {
        model.step(step);
        model.check();
    }
    RIG.check();
    if model.wild {
        Driver::verify_anew(&RIG);
        return;
    }
    let driver = &mut model.driver;
    assert!(driver.remove_queue(0), "the queue can be removed");
    assert!(driver.remove_queue(PM4), "and so can the one of PM4 packets");
    assert!(driver.add_queue(1), "another one can be added");
    driver.verify(1);
    if !model.dead && model.taken == model.stream.len() {
        assert!(model.driver.kiq_works(), "the KIQ goes on");
    }
});

impl Model<'_> {
    fn step(&mut self, step: &Step) {
        match step {
            // A ring of frames.
            Step::Kernel(_) | Step::Partial(..) if !RIG.choice.has_kiq() => {}
            Step::Kernel(packet) => {
                let dwords = self.dwords(packet, kernel, true);
                self.submit(&dwords);
            }
            Step::Partial(header, dwords) => {
                let mut partial = vec![*header];
                partial.extend(std::iter::repeat_n(0, usize::from(*dwords)));
                self.vague = true;
                // The count may take any of the following dwords into the packet.
                self.wild |= !matches!(header >> 8 & 0xff, 0x10);
                self.submit(&partial);
            }
            Step::Buffer(packets) => self.buffer(packets),
            Step::Ring(packets) => self.ring(packets),
            Step::Poke { at, value } => {
                let at = u64::from(*at) * 4;
                RIG.put(DATA + at, value);
                self.data[at as usize..][..4].copy_from_slice(&value.to_le_bytes());
                RIG.settle(0);
            }
        }
    }

    fn submit(&mut self, dwords: &[u32]) {
        // A ring that is full is written over, which a driver does not do.
        if self.stream.len() - self.taken + dwords.len() > 900 {
            return;
        }
        self.stream.extend_from_slice(dwords);
        self.driver.kiq(dwords);
        while !self.dead {
            let Some(&header) = self.stream.get(self.taken) else { break };
            let length = match header >> 30 {
                2 => 1,
                // Predicated, which is not modelled.
                3 if header & 1 != 0 => u64::MAX,
                3 if header >> 16 & 0x3fff == 0x3fff && header >> 8 & 0xff == 0x10 => 1,
                3 => u64::from(header >> 16 & 0x3fff) + 2,
                _ => u64::MAX,
            };
            self.dead = length > LONGEST;
            if self.dead || length > (self.stream.len() - self.taken) as u64 {
                break;
            }
            self.taken += length as usize;
        }
    }

    /// A packet's dwords; applies its effect to the model's memory if the kernel's queue gets it.
    fn dwords(&mut self, given: &Packet, of: fn(u64) -> u64, for_kernel: bool) -> Vec<u32> {
        let halves = |value: u64| [value as u32, (value >> 32) as u32];
        match given {
            Packet::Write { to, one, at, data, count } => {
                let count = 1 + usize::from(count % 4);
                let select = [5, 1, 2, 5][usize::from(to % 4)];
                let waits = self.dead || self.taken != self.stream.len();
                match at.offset().filter(|_| !(waits && for_kernel)) {
                    Some(offset) if for_kernel => {
                        for (nth, value) in data[..count].iter().enumerate() {
                            let at = offset as usize + if *one { 0 } else { nth * 4 };
                            self.data[at..at + 4].copy_from_slice(&value.to_le_bytes());
                        }
                    }
                    _ => {}
                }
                let [lo, hi] = at.address(of);
                let mut body = vec![select << 8 | u32::from(*one) << 16, lo, hi];
                body.extend_from_slice(&data[..count]);
                packet(Opcode::WRITE_DATA, &body)
            }
            Packet::Copy { control, source, target } => {
                self.vague = true;
                // Copies from registers to registers only have types that do nothing.
                let control = if for_kernel && control >> 8 & 0xf == 0 { control | 1 << 8 } else { *control };
                let [from, to] = [source.address(of), target.address(of)];
                let from = if for_kernel { [RIG.dword::<gc::SCRATCH_REG0>(), 0] } else { from };
                packet(Opcode::COPY_DATA, &[control, from[0], from[1], to[0], to[1]])
            }
            Packet::Wait { control, at, reference, mask } => {
                let mut control = u32::from(*control & 7) | u32::from(*control & 0x10);
                let mut at = at.address(of);
                if for_kernel && control & 0x10 == 0 {
                    at = [RIG.dword::<gc::SCRATCH_REG0>(), RIG.dword::<gc::SCRATCH_REG0>()];
                    control |= u32::from(*reference & 1) << 6;
                }
                packet(Opcode::WAIT_REG_MEM, &[control, at[0], at[1], (*reference).into(), *mask, 4])
            }
            Packet::Release { select, at, data, context } => {
                self.vague = true;
                let [lo, hi] = at.address(of);
                let [data_lo, data_hi] = halves(*data);
                packet(Opcode::RELEASE_MEM, &[0x14, *select, lo, hi, data_lo, data_hi, *context])
            }
            Packet::Nop(count) => packet(Opcode::NOP, &vec![0xdead_beef; 1 + usize::from(*count % 16)]),
            Packet::Single => vec![2 << 30],
            Packet::Enter { control, at } => {
                self.vague = true;
                let [lo, hi] = halves(user(BUFFERS) + u64::from(*at) % 0x3000);
                packet(Opcode::INDIRECT_BUFFER, &[lo, hi, *control])
            }
            Packet::Register { wild, index, value } => {
                let index = if *wild { (*index).into() } else { RIG.dword::<gc::SCRATCH_REG0>() };
                self.wild |= *wild && for_kernel;
                packet(Opcode::WRITE_DATA, &[0, index, 0, *value])
            }
            Packet::Map(words) => {
                self.wild |= for_kernel;
                packet(Opcode::MAP_QUEUES, &words.map(|word| word.value(2 << 18 | 5 << 26)))
            }
            Packet::Unmap(doorbell) => {
                self.wild |= for_kernel;
                packet(Opcode::UNMAP_QUEUES, &[0, doorbell.value(0), 0, 0, 0])
            }
            Packet::Invalidate(control) => packet(Opcode::INVALIDATE_TLBS, &[*control]),
            Packet::Uconfig { start, value } => {
                self.wild |= for_kernel;
                packet(Opcode::SET_UCONFIG_REG, &[(*start).into(), *value])
            }
            Packet::Query { at, data } => {
                self.vague = true;
                let ([lo, hi], [data_lo, data_hi]) = (at.address(of), halves(*data));
                packet(Opcode::QUERY_STATUS, &[0, 0, lo, hi, data_lo, data_hi])
            }
            Packet::Shader { register, values } => {
                self.wild |= for_kernel;
                let body = [&[0x200 + u32::from(*register % 0x50)][..], values].concat();
                packet(Opcode::SET_SH_REG, &body)
            }
            Packet::Dispatch { sizes: [x, y, z], initiator } => {
                self.wild |= for_kernel;
                let [x, y, z] = [*x, *y, *z].map(u32::from);
                packet(Opcode::DISPATCH_DIRECT, &[x, y, z, (*initiator).into()])
            }
            Packet::Atomic { control, at, source, compare } => {
                self.vague = true;
                let ([lo, hi], [from_lo, from_hi]) = (at.address(of), halves(*source));
                let [to_lo, to_hi] = halves(*compare);
                // The kernel's queue does not wait.
                let control = if for_kernel { control & !0xf00 } else { *control };
                packet(Opcode::ATOMIC_MEM, &[control, lo, hi, from_lo, from_hi, to_lo, to_hi, 4])
            }
            Packet::Fill { control, source, target, command } => {
                self.vague = true;
                let ([from_lo, from_hi], [lo, hi]) = (source.address(of), target.address(of));
                // Not over the memory after the data.
                let command = command & !0x3ff_ffe0;
                packet(Opcode::DMA_DATA, &[*control, from_lo, from_hi, lo, hi, command])
            }
            Packet::Condition { at, dwords } => {
                let [lo, hi] = at.address(of);
                packet(Opcode::COND_EXEC, &[lo, hi, 0, if for_kernel { 0 } else { (*dwords).into() }])
            }
            Packet::Any { opcode, body } => {
                self.wild |= for_kernel;
                self.vague = true;
                let body: Vec<u32> = body.iter().take(16).map(|word| word.value(0)).collect();
                packet(Opcode(*opcode), if body.is_empty() { &[0] } else { &body })
            }
            Packet::Raw(header) => {
                self.wild |= for_kernel;
                vec![*header]
            }
        }
    }

    /// A buffer on the process's queue.
    fn buffer(&mut self, packets: &[Packet]) {
        self.vague = true;
        let mut dwords: Vec<u32> = Vec::new();
        for packet in packets.iter().take(16) {
            dwords.extend(self.dwords(packet, user, false));
        }
        dwords.truncate(ROOM);
        if dwords.is_empty() {
            return;
        }
        RIG.put(BUFFERS, &dwords[..]);
        let (written, read) = self.driver.indices(0);
        if written - read > 60 {
            return;
        }
        let address = user(BUFFERS);
        let header = u32::from(PacketHeader::new(PacketType::VENDOR_SPECIFIC, false, 0, 0).bits());
        let words = [
            header | u32::from(AmdFormat::PM4_IB.0) << 16,
            3 << 30 | 2 << 16 | u32::from(Opcode::INDIRECT_BUFFER.0) << 8,
            address as u32,
            (address >> 32) as u32,
            dwords.len() as u32 | 1 << 23,
            0xa,
        ];
        let mut packet = [0; 64];
        for (target, word) in packet.as_chunks_mut().0.iter_mut().zip(words) {
            *target = word.to_le_bytes();
        }
        self.driver.packet(0, &packet);
        RIG.settle(0);
        let (written, read) = self.driver.indices(0);
        assert!(read <= written, "{read} of {written} packets are done");
    }

    /// Packets on the process's PM4 queue.
    fn ring(&mut self, packets: &[Packet]) {
        self.vague = true;
        let mut dwords: Vec<u32> = Vec::new();
        for packet in packets.iter().take(16) {
            dwords.extend(self.dwords(packet, user, false));
        }
        // A ring that is full is written over, which a producer does not do.
        let (written, read) = self.driver.indices(PM4);
        let (written, read) = (written % 1024, read & 0xffff_ffff);
        if (written + 1024 - read) % 1024 + dwords.len() as u64 > 1000 {
            return;
        }
        self.driver.dwords(PM4, &dwords);
        RIG.settle(0);
        assert!(self.driver.indices(PM4).1 & 0xffff_ffff < 1024, "the read pointer is in the ring");
    }

    fn check(&self) {
        if self.wild {
            return;
        }
        assert_eq!(self.driver.kiq.read(&RIG), self.taken as u64 % 1024, "what the KIQ has taken");
        if !self.vague {
            let data: Vec<[u8; 4]> = (0..BYTES / 4).map(|nth| RIG.take(DATA + nth * 4)).collect();
            assert!(data.concat() == self.data, "memory as the packets wrote it");
        }
    }
}
