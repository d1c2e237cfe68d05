//! Queues: their places, their rings, and the registers of their hardware queues.

use belfry_device::look::{SeenPackets, SeenQueue};
use serde::Serialize;

use super::packets::PacketView;
use super::{Hex, InspectError, Inspector, NamedRegister, packets};

/// A queue.
#[derive(Clone, Debug, Serialize)]
pub struct QueueView {
    /// Its doorbell, in dwords of BAR2, which serves as its name.
    pub doorbell: u32,
    /// PASID of its process: 0 for the kernel's own.
    pub pasid: u16,
    /// VMID, while its process has one.
    pub vmid: Option<u8>,
    /// True for the kernel's own queues.
    pub kernel: bool,
    /// Kind of its packets: `aql`, `pm4`, `sdma` or `mes`; `None` if its ring cannot be read.
    pub packets: Option<&'static str>,
    /// `mapped`, `waits for a slot`, `waits for its doorbell`, `suspended` or `failed`.
    pub state: &'static str,
    /// The hardware queue that it is on.
    pub slot: Option<String>,
    /// True if work was started and is not done.
    pub busy: bool,
    /// Packets read, for AQL; otherwise dwords read.
    pub read_index: Option<u64>,
    /// Packets written, for AQL; otherwise dwords written.
    pub write_index: Option<u64>,
}

/// A queue with its registers and packets.
#[derive(Clone, Debug, Serialize)]
pub struct QueueDetails {
    /// The queue as in a list.
    #[serde(flatten)]
    pub queue: QueueView,
    /// Address of its MQD, in VMID 0.
    pub mqd: Hex,
    /// Address of the ring.
    pub ring: Option<Hex>,
    /// Bytes of the ring.
    pub ring_bytes: Option<u64>,
    /// Address of the write pointer.
    pub write_pointer: Option<Hex>,
    /// Registers of the hardware queue that are not 0; while the queue is on none, those of the MQD.
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

fn registers(queue: &SeenQueue) -> Vec<NamedRegister> {
    let values = queue.registers().into_iter();
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
            registers: registers(queue),
            next,
        })
    }
}
