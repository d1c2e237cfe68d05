//! The ring of packets and its indices, shared by any number of producers and the packet processor.

use std::sync::atomic::Ordering;

use belfry_abi::aql::{
    AQL_PACKET_SIZE, PacketHeader, PacketType, QUEUE_READ_DISPATCH_ID_OFFSET, QUEUE_WRITE_DISPATCH_ID_OFFSET,
};

use crate::memory::Allocation;

/// A packet as 16 little-endian words; the first holds the header.
pub(super) type Packet = [u32; 16];

/// Ring and queue structure.
#[derive(Debug)]
pub(super) struct Ring {
    packets: Allocation,
    /// The page with the `amd_queue_t`.
    pub(super) control: Allocation,
    /// Slots, a power of two.
    size: u64,
}

impl Ring {
    /// A ring over zeroed memory: every slot is made invalid.
    pub(super) fn new(packets: Allocation, control: Allocation, size: u64) -> Self {
        let invalid = u32::from(PacketHeader::new(PacketType::INVALID, false, 0, 0).bits());
        for slot in 0..size {
            packets.atomic_u32((slot * AQL_PACKET_SIZE) as usize).store(invalid, Ordering::Release);
        }
        packets.written();
        Self { packets, control, size }
    }

    pub(super) fn address(&self) -> u64 {
        self.packets.address()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.size * AQL_PACKET_SIZE
    }

    /// Takes the next packet index; the slot may still be in use.
    pub(super) fn reserve(&self) -> u64 {
        self.control.atomic_u64(QUEUE_WRITE_DISPATCH_ID_OFFSET as usize).fetch_add(1, Ordering::AcqRel)
    }

    /// Packets the processor has consumed.
    pub(super) fn read_index(&self) -> u64 {
        self.control.atomic_u64(QUEUE_READ_DISPATCH_ID_OFFSET as usize).load(Ordering::Acquire)
    }

    /// True once the slot of a reserved index is free.
    pub(super) fn has_room(&self, index: u64) -> bool {
        has_room(index, self.read_index(), self.size)
    }

    /// Writes a packet: body first, then the word with the header, which hands it over.
    pub(super) fn publish(&self, index: u64, packet: &Packet) {
        let base = (index % self.size * AQL_PACKET_SIZE) as usize;
        for (word, value) in packet.iter().enumerate().skip(1) {
            self.packets.atomic_u32(base + word * 4).store(*value, Ordering::Relaxed);
        }
        self.packets.atomic_u32(base).store(packet[0], Ordering::Release);
        self.packets.written();
    }
}

/// True if slot `index` of a ring of `size` is free when `read` packets were consumed. Indices wrap at 2^64.
fn has_room(index: u64, read: u64, size: u64) -> bool {
    index.wrapping_sub(read) < size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_what_the_reader_left() {
        for (index, read, size, room) in [
            (0, 0, 4, true),
            (3, 0, 4, true),
            (4, 0, 4, false),
            (4, 1, 4, true),
            (u64::MAX, u64::MAX - 3, 4, true),
            (1, u64::MAX - 1, 4, true),
            (2, u64::MAX - 1, 4, false),
        ] {
            assert_eq!(has_room(index, read, size), room, "index {index} read {read}");
        }
    }
}
