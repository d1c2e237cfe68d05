//! Queues as the firmware knows them, for tools that inspect the device.

use std::fmt;
use std::sync::Arc;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::gc;

use super::Ports;
use super::rings::KernelRings;
use super::slots::{Place, Slots};
use crate::queue::{Hqd, HqdId};
use crate::regs::pairs;
use crate::vm::AddressSpace;

/// Packets of a queue's ring.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SeenPackets {
    /// AQL, 64 bytes each.
    Aql,
    /// PM4.
    Pm4,
    /// SDMA.
    Sdma,
    /// Frames of the MES.
    Mes,
}

/// Address of a queue's ring, and its read and write pointers.
#[derive(Clone, Copy, Debug)]
pub struct SeenRing {
    /// Its packets.
    pub packets: SeenPackets,
    /// Address of the first packet.
    pub base: u64,
    /// Bytes of the ring.
    pub bytes: u64,
    /// Index in packets of AQL, in dwords otherwise, as for `write_index`.
    pub read_index: u64,
    /// Address of the write pointer in memory; 0 for the kernel's rings, which have it in their registers.
    pub write_pointer: u64,
    /// Index behind the last packet; `None` if the pointer cannot be read.
    pub write_index: Option<u64>,
}

/// A queue, while the firmware's lock is held and afterwards.
#[derive(Clone)]
pub struct SeenQueue {
    /// Its doorbell.
    pub doorbell: DoorbellIndex,
    /// True for one of the kernel's own queues.
    pub kernel: bool,
    /// PASID of its process: 0 for the kernel's own.
    pub pasid: u16,
    /// VMID, while its process has one.
    pub vmid: Option<u8>,
    /// Address of the MQD, in VMID 0.
    pub mqd: u64,
    /// Its state in words.
    pub state: &'static str,
    /// Micro engine, `None` for an SDMA engine; pipe or SDMA engine; queue.
    pub place: Option<(Option<u8>, u8, u8)>,
    /// True if work was started and is not done.
    pub busy: bool,
    /// Its ring, if that can be read.
    pub ring: Option<SeenRing>,
    /// Registers of the hardware queue, or their values in the MQD; `None` for SDMA queues.
    pub(crate) hqd: Option<Hqd>,
    /// Address space of its addresses.
    pub space: Option<Arc<AddressSpace>>,
}

impl fmt::Debug for SeenQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { doorbell, kernel, pasid, vmid, mqd, state, place, busy, ring, hqd: _, space } = self;
        f.debug_struct("SeenQueue")
            .field("doorbell", doorbell)
            .field("kernel", kernel)
            .field("pasid", pasid)
            .field("vmid", vmid)
            .field("mqd", mqd)
            .field("state", state)
            .field("place", place)
            .field("busy", busy)
            .field("ring", ring)
            .field("space", space)
            .finish_non_exhaustive()
    }
}

impl SeenQueue {
    /// Returns the registers of the hardware queue that are not 0, by their names; of a queue that is on none, those of its MQD.
    #[must_use]
    pub fn registers(&self) -> Vec<(&'static str, u32)> {
        let of = |hqd: &Hqd| pairs(gc::ALL, |at| hqd.read(at)).filter(|(_, value)| *value != 0).collect();
        self.hqd.as_ref().map(of).unwrap_or_default()
    }
}

impl SeenRing {
    /// Makes the ring that registers describe, with `read_index` if that is known.
    pub(super) fn of_hqd(hqd: &Hqd, space: Option<&AddressSpace>, read_index: Option<u64>) -> Option<Self> {
        let bytes = hqd.pq_dwords()? * 4;
        let write_pointer = hqd.wptr_poll_addr();
        let packets = if hqd.is_aql() { SeenPackets::Aql } else { SeenPackets::Pm4 };
        Some(Self {
            packets,
            base: hqd.pq_base(),
            bytes,
            read_index: read_index.unwrap_or_else(|| hqd.pq_rptr().into()),
            write_pointer,
            write_index: space.and_then(|space| space.load_u64(write_pointer).ok()),
        })
    }
}

/// Returns the kernel's rings that are served.
pub(super) fn of_kernel(
    ports: &Ports,
    rings: &KernelRings,
    packets: impl Fn(HqdId) -> SeenPackets,
) -> Vec<SeenQueue> {
    rings
        .iter()
        .map(|((xcc, id), running)| {
            let hqd = ports.hqds.hqd_of(xcc, id, |hqd| *hqd);
            let (read_index, write_index) = running.ring.pointers();
            let ring = SeenRing::of_hqd(&hqd, None, Some(read_index));
            SeenQueue {
                doorbell: running.ring.doorbell(),
                kernel: true,
                pasid: 0,
                vmid: Some(0),
                mqd: 0,
                state: if running.dead { "failed" } else { "mapped" },
                place: Some((Some(id.me), id.pipe, id.queue)),
                busy: running.ring.available() != 0,
                ring: ring.map(|ring| SeenRing {
                    packets: packets(id),
                    write_index: Some(write_index),
                    ..ring
                }),
                hqd: Some(hqd),
                space: ports.contexts.space(0),
            }
        })
        .collect()
}

/// Returns all queues: the kernel's, then those of processes.
pub(super) fn all(kernel: Vec<SeenQueue>, slots: &Slots, ports: &Ports) -> Vec<SeenQueue> {
    let mut seen = kernel;
    seen.extend(slots.seen(ports));
    seen
}

impl Place {
    /// Returns the place in the form of [`SeenQueue::place`].
    pub(super) fn seen(self) -> (Option<u8>, u8, u8) {
        match self {
            Self::Compute(_, HqdId { me, pipe, queue }) | Self::Graphics(HqdId { me, pipe, queue }) => {
                (Some(me), pipe, queue)
            }
            Self::Sdma { engine, queue } => (None, engine, queue),
        }
    }
}
