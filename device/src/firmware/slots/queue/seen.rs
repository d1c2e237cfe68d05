//! The queues of processes, for tools that inspect the device.

use super::Queue;
use crate::firmware::Ports;
use crate::firmware::rings::graphics;
use crate::firmware::seen::{SeenPackets, SeenQueue, SeenRing};
use crate::firmware::slots::life::{Life, Wait};
use crate::firmware::slots::process::Process;
use crate::firmware::slots::{Place, Pool, Slots};
use crate::queue::{Hqd, Mqd, sdma_mqd};
use crate::vm::AddressSpace;

impl Slots {
    /// Returns every queue, by its doorbell.
    pub(in crate::firmware) fn seen(&self, ports: &Ports) -> Vec<SeenQueue> {
        let kernel = ports.contexts.space(0);
        let seen = |queue: &Queue| queue.seen(ports, kernel.as_deref(), self.processes.get(&queue.process));
        self.queues.values().map(seen).collect()
    }
}

impl Queue {
    fn seen(&self, ports: &Ports, kernel: Option<&AddressSpace>, process: Option<&Process>) -> SeenQueue {
        let (state, busy, read_index) = match &self.life {
            Life::Unmapped { wait: Wait::Slot, rest } => ("waits for a slot", rest.saved, rest.read_index),
            Life::Unmapped { wait: Wait::Doorbell, rest } => {
                ("waits for its doorbell", rest.saved, rest.read_index)
            }
            Life::Unmapped { wait: Wait::Resume, rest } => ("suspended", rest.saved, rest.read_index),
            Life::Mapped { engine, .. } => ("mapped", engine.is_busy(), engine.read_index()),
            Life::Leaving { engine, .. } => ("waits for pages to leave", true, engine.read_index()),
            Life::Failed { read_index, .. } => ("failed", false, *read_index),
        };
        let space = process.and_then(|process| process.space.clone());
        let (ring, hqd) = match self.pool {
            Pool::Sdma(_) => (kernel.and_then(|kernel| self.sdma_ring(ports, kernel, read_index)), None),
            Pool::Compute(_) | Pool::Graphics => {
                let hqd = self.registers(ports, kernel);
                let ring = hqd.and_then(|hqd| SeenRing::of_hqd(&hqd, space.as_deref(), Some(read_index)));
                (ring, hqd)
            }
        };
        let written = ring.and_then(|ring| space.as_ref()?.load_u64(ring.write_pointer).ok());
        SeenQueue {
            doorbell: self.doorbell,
            kernel: false,
            pasid: process.map_or(0, |process| process.pasid),
            vmid: process.and_then(|process| process.vmid),
            mqd: self.mqd,
            state,
            place: self.slot().map(Place::seen),
            busy,
            ring: ring.map(|ring| match ring.packets {
                // The pointers of an SDMA queue count bytes.
                SeenPackets::Sdma => SeenRing {
                    read_index: ring.read_index / 4,
                    write_index: written.map(|bytes| bytes / 4),
                    ..ring
                },
                _ => ring,
            }),
            hqd,
            space,
        }
    }

    /// Returns the registers of its hardware queue, or their values in its MQD.
    fn registers(&self, ports: &Ports, kernel: Option<&AddressSpace>) -> Option<Hqd> {
        match self.slot() {
            Some(Place::Compute(first, id)) => return Some(ports.hqds.hqd_of(first, id, |hqd| *hqd)),
            Some(Place::Graphics(id)) => {
                return Some(ports.hqds.hqd_of(self.partition.first, id, |hqd| *hqd));
            }
            _ => {}
        }
        if self.pool == Pool::Graphics {
            let mut hqd = Hqd::new();
            graphics::load(&mut hqd, kernel?, self.mqd).ok()?;
            hqd.set_doorbell(self.doorbell);
            return Some(hqd);
        }
        let mqd = Mqd::read_unchecked(&ports.chip.mqd, kernel?, self.mqd).ok()?;
        let mut hqd = Hqd::new();
        hqd.load(&mqd);
        hqd.set_doorbell(self.doorbell);
        Some(hqd)
    }

    fn sdma_ring(&self, ports: &Ports, kernel: &AddressSpace, read_index: u64) -> Option<SeenRing> {
        let mqd = self.image(ports, kernel).read().ok()?;
        Some(SeenRing {
            packets: SeenPackets::Sdma,
            base: mqd.ring_base(),
            bytes: sdma_mqd::ring_bytes(&mqd)?,
            read_index,
            write_pointer: mqd.wptr_poll(),
            write_index: None,
        })
    }
}
