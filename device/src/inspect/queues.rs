//! Queues: where they are, their rings, and the registers of their hardware queues.

use belfry_abi::regs::gc;
use serde::Serialize;

use super::packets::PacketView;
use super::{Hex, InspectError, Inspector, NamedRegister, packets};
use crate::firmware::{SeenPackets, SeenQueue};
use crate::queue::Hqd;
use crate::regs::pairs;

/// A queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// Its doorbell, in dwords of BAR2: by it the queue is named.
    pub doorbell: u32,
    /// Whose it is: 0 for the kernel's own.
    pub pasid: u16,
    /// VMID, while its process has one.
    pub vmid: Option<u8>,
    /// One of the kernel's own.
    pub kernel: bool,
    /// What packets it has: `aql`, `pm4`, `sdma` or `mes`; nothing where its ring cannot be read.
    pub packets: Option<&'static str>,
    /// `mapped`, `waits for a slot`, `waits for its doorbell`, `suspended` or `failed`.
    pub state: &'static str,
    /// The hardware queue that it is on.
    pub slot: Option<String>,
    /// Work was started and is not done.
    pub busy: bool,
    /// Packets of AQL, otherwise dwords, that were read.
    pub read_index: Option<u64>,
    /// The same, that were written.
    pub write_index: Option<u64>,
}

/// A queue with its registers and packets.
#[derive(Clone, Debug, Serialize)]
pub struct QueueDetails {
    /// What a list has of it.
    #[serde(flatten)]
    pub queue: QueueView,
    /// Address of its MQD, in VMID 0.
    pub mqd: Hex,
    /// Address of the ring.
    pub ring: Option<Hex>,
    /// Bytes of the ring.
    pub ring_bytes: Option<u64>,
    /// Where the write pointer is.
    pub write_pointer: Option<Hex>,
    /// Registers of the hardware queue that are not 0; what the MQD has while the queue is on none.
    pub registers: Vec<NamedRegister>,
    /// Packets from the read index on.
    pub next: Vec<PacketView>,
}

impl QueueView {
    fn of(queue: &SeenQueue) -> Self {
        let name = |packets| match packets {
            SeenPackets::Aql => "aql",
            SeenPackets::Pm4 => "pm4",
            SeenPackets::Sdma => "sdma",
            SeenPackets::Mes => "mes",
        };
        let slot = queue.place.map(|(me, pipe, number)| match me {
            Some(me) => format!("me {me} pipe {pipe} queue {number}"),
            None => format!("sdma {pipe} queue {number}"),
        });
        Self {
            doorbell: queue.doorbell.dwords(),
            pasid: queue.pasid,
            vmid: queue.vmid,
            kernel: queue.kernel,
            packets: queue.ring.map(|ring| name(ring.packets)),
            state: queue.state,
            slot,
            busy: queue.busy,
            read_index: queue.ring.map(|ring| ring.read_index),
            write_index: queue.ring.and_then(|ring| ring.write_index),
        }
    }
}

fn registers(hqd: &Hqd) -> Vec<NamedRegister> {
    let values = pairs(gc::ALL, |at| hqd.read(at)).filter(|(_, value)| *value != 0);
    values.map(|(name, value)| NamedRegister::new(name, value.into())).collect()
}

impl Inspector<'_> {
    /// All queues.
    ///
    /// # Errors
    ///
    /// A device that is stopped.
    pub fn queues(&self) -> Result<Vec<QueueView>, InspectError> {
        Ok(self.seen_queues()?.iter().map(QueueView::of).collect())
    }

    /// The queue of a doorbell.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn queue(&self, doorbell: u32) -> Result<QueueDetails, InspectError> {
        let queues = self.seen_queues()?;
        let queue = queues.iter().find(|queue| queue.doorbell.dwords() == doorbell);
        let queue = queue.ok_or(InspectError::Queue(doorbell))?;
        let next = match (&queue.ring, &queue.space) {
            (Some(ring), Some(space)) => packets::of_ring(ring, space),
            _ => Vec::new(),
        };
        Ok(QueueDetails {
            queue: QueueView::of(queue),
            mqd: Hex(queue.mqd),
            ring: queue.ring.map(|ring| Hex(ring.base)),
            ring_bytes: queue.ring.map(|ring| ring.bytes),
            write_pointer: queue.ring.map(|ring| Hex(ring.write_pointer)),
            registers: queue.hqd.as_ref().map(registers).unwrap_or_default(),
            next,
        })
    }
}
