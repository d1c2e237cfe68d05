//! AQL packets of every kind on a mapped queue: well-formed ones against a model, changed ones against rules that
//! always hold.
//!
//! Barriers are passed exactly when their signals say so, signals are decremented once for each packet that completes,
//! and the read index counts packets that are done. Kernels with changed descriptors, code and arguments may do
//! anything to their own process; the queue can always be removed, and the next one works.

#![no_main]

use arbitrary::Arbitrary;
use belfry_abi::aql::{
    AmdFormat, BarrierPacket, BarrierValuePacket, KernelDispatchPacket, PacketHeader, PacketType,
};
use belfry_fuzz::change::Change;
use belfry_fuzz::chips::On;
use belfry_fuzz::driver::{CODE, DATA, Driver, KERNARG, PACKETS, SCRATCH, USER_READ_ONLY, user};
use belfry_fuzz::memory::s_endpgm;
use belfry_fuzz::rig::RIG;
use libfuzzer_sys::fuzz_target;
use std::collections::VecDeque;
use zerocopy::{FromZeros as _, IntoBytes as _};

const STEPS: usize = 32;
/// Signals in use, from 1 on.
const SIGNALS: u8 = 8;
/// Turns at waves until they count as endless.
const TURNS: usize = 128;

#[derive(Arbitrary, Debug)]
enum Step {
    Barrier {
        or: bool,
        after: bool,
        signals: [u8; 5],
        completion: u8,
        changes: Vec<Change>,
    },
    Value {
        signal: u8,
        condition: u8,
        value: i8,
        mask: u8,
        completion: u8,
    },
    Dispatch {
        code: Code,
        count: u8,
        packet: Vec<Change>,
        arguments: Vec<Change>,
        completion: u8,
    },
    Any(Box<[u32; 16]>),
    Set {
        signal: u8,
        value: i8,
    },
    Queue(Change),
    /// Scratch memory for the queue.
    Scratch {
        waves: u8,
        size: u8,
    },
    Work(u8),
}

#[derive(Arbitrary, Debug)]
enum Code {
    Good,
    /// Dwords of the code object as it lies in memory.
    Changed(Vec<Change>),
    /// Dwords of the descriptor alone.
    Descriptor(Vec<Change>),
    Own(Vec<u32>),
}

/// A packet that is known to be good.
enum Packet {
    And(Vec<u8>),
    Or(Vec<u8>),
    Value(u8, u8, i64, i64),
    Kernel,
}

struct Queue<'a> {
    driver: Driver<'a>,
    signals: [i64; SIGNALS as usize + 1],
    /// Good packets that are not done, with the signals that they decrement.
    packets: VecDeque<(Packet, u8)>,
    done: u64,
    /// All packets so far were good.
    exact: bool,
    /// Something ran that may have written anywhere in its process.
    wild: bool,
}

fuzz_target!(|on: On<Vec<Step>>| {
    let On { chip, input: steps } = on;
    RIG.choose(chip);
    let mut driver = Driver::new(&RIG);
    assert!(driver.add_queue(0), "a queue can be added");
    let signals = [1; SIGNALS as usize + 1];
    (1..=SIGNALS).for_each(|nth| _ = driver.signal(nth.into(), 1));
    let mut queue = Queue { driver, signals, packets: VecDeque::new(), done: 0, exact: true, wild: false };
    for step in steps.iter().take(STEPS) {
        queue.step(step);
        queue.check();
    }
    RIG.settle(TURNS);
    queue.check();
    assert!(queue.driver.remove_queue(0), "a queue can be removed");
    assert!(queue.driver.add_queue(1), "another one can be added");
    queue.driver.verify(1);
    assert!(queue.driver.remove_queue(1), "and removed");
    RIG.check();
});

fn header(kind: PacketType, after: bool) -> u16 {
    PacketHeader::new(kind, after, 2, 2).bits()
}

impl Queue<'_> {
    /// A signal by number: none, or one of those in use.
    fn number(nth: u8) -> u8 {
        if nth & 0x80 == 0 { 0 } else { 1 + nth % SIGNALS }
    }

    fn address(nth: u8) -> u64 {
        if nth == 0 { 0 } else { user(belfry_fuzz::driver::SIGNALS) + u64::from(nth) * 64 }
    }

    fn step(&mut self, step: &Step) {
        let (written, read) = self.driver.indices(0);
        let room = self.wild || written - read < PACKETS - 2;
        match step {
            Step::Set { signal, value } => {
                let nth = 1 + signal % SIGNALS;
                self.driver.signal(nth.into(), (*value).into());
                self.signals[usize::from(nth)] = (*value).into();
            }
            Step::Queue(change) => {
                let [_, at, _] = self.driver.queue(0);
                let mut bytes: [u8; 256] = RIG.take(at);
                change.apply(&mut bytes);
                RIG.put(at, &bytes);
                (self.exact, self.wild) = (false, true);
            }
            Step::Scratch { waves, size } => {
                let [_, at, _] = self.driver.queue(0);
                RIG.put(at + 0x8c, &(u32::from(*waves) | u32::from(*size) << 12));
                RIG.put(at + 0xa0, &[user(SCRATCH), 0x1_0000]);
            }
            Step::Work(turns) => _ = RIG.settle(usize::from(*turns) % TURNS),
            _ if !room => {}
            Step::Barrier { or, after, signals, completion, changes } => {
                let numbers = signals.map(Self::number);
                let completion = Self::number(*completion);
                let mut packet = BarrierPacket::new_zeroed();
                packet.header =
                    header(if *or { PacketType::BARRIER_OR } else { PacketType::BARRIER_AND }, *after);
                packet.dep_signal = numbers.map(Self::address);
                packet.completion_signal = Self::address(completion);
                let waits = numbers.into_iter().filter(|&nth| nth != 0).collect();
                let model = if *or { Packet::Or(waits) } else { Packet::And(waits) };
                self.publish(packet.as_mut_bytes(), changes, (model, completion));
            }
            Step::Value { signal, condition, value, mask, completion } => {
                let (signal, completion) = (Self::number(*signal), Self::number(*completion));
                let mut packet = BarrierValuePacket::new_zeroed();
                packet.header = header(PacketType::VENDOR_SPECIFIC, false);
                packet.as_mut_bytes()[2] = AmdFormat::BARRIER_VALUE.0;
                packet.signal = Self::address(signal);
                packet.value = (*value).into();
                packet.mask = i64::from(*mask);
                packet.cond = u32::from(*condition % 5);
                packet.completion_signal = Self::address(completion);
                self.exact &= packet.cond < 4 || signal == 0;
                let model = Packet::Value(signal, condition % 5, (*value).into(), i64::from(*mask));
                self.publish(packet.as_mut_bytes(), &[], (model, completion));
            }
            Step::Dispatch { code, count, packet, arguments, completion } => {
                let completion = Self::number(*completion);
                let mut dispatch = self.driver.vecadd(u32::from(*count) + 1, Self::address(completion));
                let good = self.load(code, &mut dispatch) && arguments.is_empty();
                for change in arguments.iter().take(8) {
                    let mut bytes: [u8; 64] = RIG.take(KERNARG);
                    change.apply(&mut bytes);
                    RIG.put(KERNARG, &bytes);
                }
                if !good || !packet.is_empty() {
                    (self.exact, self.wild) = (false, true);
                }
                self.publish(dispatch.as_mut_bytes(), packet, (Packet::Kernel, completion));
                // Arguments are the same for all, so that one ends before the next is put there.
                RIG.settle(TURNS);
            }
            Step::Any(dwords) => {
                (self.exact, self.wild) = (false, true);
                let mut bytes: [u8; 64] = *dwords.as_bytes().first_chunk().expect("64 bytes");
                // Kinds there are.
                bytes[0] %= 8;
                self.driver.packet(0, &bytes);
                RIG.settle(0);
            }
        }
    }

    /// Puts code into memory. Returns true if the code is as the compiler made it.
    fn load(&self, code: &Code, dispatch: &mut KernelDispatchPacket) -> bool {
        let change = |at: u64, bytes: usize, changes: &[Change]| {
            let mut image: [u8; 0x2000] = RIG.take(at);
            changes.iter().take(16).for_each(|change| _ = change.apply(&mut image[..bytes]));
            RIG.put(at, &image);
        };
        let descriptor = CODE + (dispatch.kernel_object - user(CODE));
        match code {
            Code::Good => return true,
            Code::Changed(changes) => change(CODE, 0x2000, changes),
            Code::Descriptor(changes) => change(descriptor, 64, changes),
            Code::Own(words) => {
                let mut copy: [u8; 64] = RIG.take(descriptor);
                copy[16..24].copy_from_slice(&0x100u64.to_le_bytes());
                RIG.put(CODE + 0x8000, &copy);
                RIG.put(CODE + 0x8100, &[s_endpgm(RIG.choice.model.generation.arch); 64]);
                RIG.put(CODE + 0x8100, &words[..words.len().min(60)]);
                dispatch.kernel_object = user(CODE) + 0x8000;
                RIG.put(KERNARG + 0x100, &[user(DATA), USER_READ_ONLY]);
            }
        }
        false
    }

    fn publish(&mut self, packet: &mut [u8], changes: &[Change], model: (Packet, u8)) {
        for change in changes.iter().take(8) {
            change.apply(packet);
            (self.exact, self.wild) = (false, true);
        }
        self.driver.packet(0, packet.first_chunk().expect("64 bytes"));
        self.packets.push_back(model);
        RIG.settle(0);
    }

    /// Returns true if the oldest packet of the model has nothing to wait for.
    fn is_satisfied(&self) -> bool {
        let zero = |nth: &u8| self.signals[usize::from(*nth)] == 0;
        match &self.packets[0].0 {
            Packet::And(signals) => signals.iter().all(zero),
            Packet::Or(signals) => signals.is_empty() || signals.iter().any(zero),
            Packet::Value(0, ..) | Packet::Kernel => true,
            &Packet::Value(nth, condition, value, mask) => {
                let found = self.signals[usize::from(nth)] & mask;
                match condition {
                    0 => found == value,
                    1 => found != value,
                    2 => found < value,
                    _ => found >= value,
                }
            }
        }
    }

    fn check(&mut self) {
        if self.wild {
            return;
        }
        let (written, read) = self.driver.indices(0);
        assert!(read <= written, "{read} of {written} packets are done");
        if !self.exact || !RIG.settle(TURNS) {
            return;
        }
        while !self.packets.is_empty() && self.is_satisfied() {
            let (_, completion) = self.packets.pop_front().expect("there is one");
            self.signals[usize::from(completion)] = self.signals[usize::from(completion)].wrapping_sub(1);
            self.done += 1;
        }
        // For a packet without a signal, the model decrements signal 0, which has no meaning.
        self.signals[0] = 0;
        let (_, read) = self.driver.indices(0);
        assert_eq!(read, self.done, "packets that are done");
        let found: Vec<i64> = (1..=SIGNALS).map(|nth| self.driver.signal_value(nth.into())).collect();
        assert_eq!(found, self.signals[1..], "signals");
        let [ring, ..] = self.driver.queue(0);
        for nth in read.saturating_sub(PACKETS / 2)..read {
            let header = PacketHeader::from_bits(RIG.take(ring + nth % PACKETS * 64));
            assert_eq!(
                header.packet_type(),
                PacketType::INVALID,
                "the header of packet {nth}, which is done"
            );
        }
    }
}
