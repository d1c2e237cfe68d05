//! The sanitizer's checks of an AQL queue: of its doorbell, its packets, and the memory that its dispatches use.

use std::collections::BTreeMap;

use belfry_abi::aql::{BarrierPacket, KernelDispatchPacket, PacketHeader, PacketType};
use belfry_abi::kernel_descriptor::KernelDescriptor;
use zerocopy::IntoBytes as _;

use super::AqlQueue;
use crate::cp::state::QueueState;
use crate::sanitize::{self, Reach, Rule, Sanitizer};
use crate::vm::AddressSpace;

/// Most packets that are remembered between their doorbell and their start.
const MAX_PACKETS: usize = 4096;
/// Most bytes of arguments, and of code after a kernel's entry, that are remembered while a dispatch runs.
const MAX_KEPT: usize = 4096;

/// Packets that the sanitizer remembers.
#[derive(Default)]
pub(super) struct Rung {
    /// Packets whose doorbell has been rung, as they were at that time, by index.
    packets: BTreeMap<u64, [u32; 16]>,
    /// Index after the last packet whose memory was checked for unwritten parts.
    looked_at: u64,
}

impl AqlQueue {
    /// Checks a doorbell that has been rung with the index of a packet, or with the index after it.
    pub(super) fn check_doorbell(&mut self, value: u64) {
        let Some(sanitizer) = self.state.tools.sanitizer().cloned() else { return };
        let Ok(reserved) = self.state.space().load_u64(self.config.wptr_poll) else { return };
        // Runtimes ring with the index of their packet; some with the write index, which is one more.
        let index = if value == reserved { value.wrapping_sub(1) } else { value };
        let ahead = |of: u64| index.wrapping_sub(of).cast_signed();
        if ahead(self.fetch_index) < 0 {
            return;
        }
        let misuse = |rule, found| {
            let misuse = self.state.misuse(rule, found).at_packet(index).at(self.slot(index));
            sanitizer.misused(misuse);
        };
        if ahead(reserved) >= 0 {
            return misuse(Rule::DoorbellBeyondWriteIndex, format!("the write index is {reserved}"));
        }
        let size = self.config.ring_packets;
        if index.wrapping_sub(self.read_index) >= size {
            let found = format!("the read index is {}, and the ring has {size} packets", self.read_index);
            return misuse(Rule::RingOverrun, found);
        }
        if self.valid_packet(index).is_none() {
            misuse(Rule::DoorbellBeforePacket, "the packet's header is INVALID".to_owned());
        }
        for index in self.fetch_index..=index {
            if self.watched.rung.packets.len() < MAX_PACKETS
                && !self.watched.rung.packets.contains_key(&index)
                && let Some(packet) = self.valid_packet(index)
            {
                self.watched.rung.packets.insert(index, packet);
            }
        }
    }

    /// Returns the packet at an index, if its header is valid.
    fn valid_packet(&self, index: u64) -> Option<[u32; 16]> {
        let (space, address) = (self.state.space(), self.slot(index));
        let header = PacketHeader::from_bits(space.load_u16(address).ok()?);
        let packet = space.read(address).ok()?;
        (header.packet_type() != PacketType::INVALID).then_some(packet)
    }

    /// Checks that the next packet, which is about to be started, has not changed since its doorbell.
    pub(super) fn check_packet(&mut self, packet: &[u32; 16]) {
        if self.state.tools.sanitizer().is_none() {
            return;
        }
        let later = self.watched.rung.packets.split_off(&self.fetch_index.wrapping_add(1));
        let before = std::mem::replace(&mut self.watched.rung.packets, later).remove(&self.fetch_index);
        let Some(before) = before.filter(|before| before != packet) else { return };
        let at = before.iter().zip(packet).position(|(before, now)| before != now).unwrap_or(0);
        let found = format!("dword {at} is {:#x}, and was {:#x} at the doorbell", packet[at], before[at]);
        let misuse = self.state.misuse(Rule::PacketChanged, found);
        self.state.tools.misused(misuse.at_packet(self.fetch_index).at(self.slot(self.fetch_index)));
    }

    /// Reports memory of a dispatch that has never been written: its kernel's descriptor and code, and its signal.
    pub(super) fn check_written(&mut self, packet: &KernelDispatchPacket) {
        if !self.state.space().has_marks() {
            return;
        }
        let object = packet.kernel_object;
        let descriptor: Option<KernelDescriptor> = self.state.space().read(object).ok();
        let offset = descriptor.map_or(0, |descriptor| descriptor.kernel_code_entry_byte_offset);
        self.check_parts(&[
            ("the kernel's descriptor", object),
            ("the kernel's code", object.wrapping_add_signed(offset)),
            ("the completion signal", packet.completion_signal),
        ]);
    }

    /// Reports a signal that a barrier waits for and that has never been written.
    pub(super) fn check_dependencies(&mut self, packet: &BarrierPacket) {
        if self.state.space().has_marks() {
            self.check_parts(&packet.dep_signal.map(|signal| ("a signal that a barrier waits for", signal)));
        }
    }

    /// Reports the first of the parts that has never been written; once for a packet that waits. A part of the next
    /// packet is a name and an address, or 0 for no address.
    fn check_parts(&mut self, parts: &[(&str, u64)]) {
        if self.state.tools.sanitizer().is_none() {
            return;
        }
        if self.fetch_index < self.watched.rung.looked_at {
            return;
        }
        self.watched.rung.looked_at = self.fetch_index.wrapping_add(1);
        let read = |line| self.state.space().read(line).ok();
        let is_unwritten = |(_, va): &&(&str, u64)| *va != 0 && sanitize::is_unwritten(*va, &read);
        if let Some((what, va)) = parts.iter().find(is_unwritten) {
            let misuse = self.state.misuse(Rule::MemoryUninitialized, format!("nothing has written {what}"));
            self.state.tools.misused(misuse.at_packet(self.fetch_index).at(*va).named(what));
        }
    }

    /// Copies the memory that must not change while a dispatch runs, if that is checked.
    pub(super) fn keep(&self, packet: &KernelDispatchPacket) -> Option<Box<Kept>> {
        let sanitizer = self.state.tools.sanitizer()?;
        let rules = [Rule::KernargChanged, Rule::CodeChanged, Rule::UnmappedInFlight];
        if !rules.iter().any(|&rule| sanitizer.checks(rule)) {
            return None;
        }
        let mut kept = Kept::new(sanitizer, self.state.space(), packet)?;
        if sanitizer.checks(Rule::UnmappedInFlight) {
            let misuse = self.state.misuse(Rule::UnmappedInFlight, String::new());
            kept.reach = sanitizer.begun(misuse.at_packet(self.fetch_index), &kept.arguments);
        }
        Some(Box::new(kept))
    }
}

/// Memory that a dispatch uses, as it was when the dispatch began.
pub(in crate::cp) struct Kept {
    parts: Vec<Part>,
    /// Bytes of its arguments, which may hold pointers, if those are checked.
    arguments: Vec<u8>,
    reach: Option<Reach>,
}

struct Part {
    rule: Rule,
    what: &'static str,
    address: u64,
    bytes: Vec<u8>,
}

impl Kept {
    fn new(sanitizer: &Sanitizer, space: &AddressSpace, packet: &KernelDispatchPacket) -> Option<Self> {
        let object = packet.kernel_object;
        let descriptor: KernelDescriptor = space.read(object).ok()?;
        let entry = object.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
        let to_page_end = |at: u64| 4096 - (at as usize & 0xfff);
        let wanted = [
            (Rule::KernargChanged, "argument", packet.kernarg_address, descriptor.kernarg_size as usize),
            (Rule::CodeChanged, "descriptor", object, descriptor.as_bytes().len()),
            (Rule::CodeChanged, "code", entry, to_page_end(entry)),
        ];
        let bytes = |address: u64, len: usize| {
            let mut bytes = vec![0; len.min(MAX_KEPT)];
            space.read_bytes(address, &mut bytes).ok()?;
            Some(bytes)
        };
        let read = |(rule, what, address, len): (Rule, &'static str, u64, usize)| {
            Some(Part { rule, what, address, bytes: bytes(address, len)? })
        };
        let parts = wanted.into_iter().filter(|part| sanitizer.checks(part.0)).filter_map(read).collect();
        let reaches = sanitizer.checks(Rule::UnmappedInFlight);
        let arguments = reaches.then(|| bytes(packet.kernarg_address, descriptor.kernarg_size as usize));
        Some(Self { parts, arguments: arguments.flatten().unwrap_or_default(), reach: None })
    }

    /// Notes that the dispatch has ended: it reaches no memory any more.
    pub(in crate::cp) fn ended(&self) {
        if let Some(reach) = &self.reach {
            reach.end();
        }
    }

    /// Reports bytes that have changed. Called before the dispatch of this packet completes.
    pub(in crate::cp) fn check(&self, state: &QueueState, packet: u64) {
        let Some(sanitizer) = state.tools.sanitizer() else { return };
        for Part { rule, what, address, bytes } in &self.parts {
            let mut now = vec![0; bytes.len()];
            if state.space().read_bytes(*address, &mut now).is_err() {
                continue;
            }
            let Some(at) = bytes.iter().zip(&now).position(|(before, now)| before != now) else { continue };
            let found = format!("{what} byte {at:#x} is {:#04x}, and was {:#04x}", now[at], bytes[at]);
            let misuse = state.misuse(*rule, found).at_packet(packet);
            sanitizer.misused(misuse.at(address.wrapping_add(at as u64)));
        }
    }
}
