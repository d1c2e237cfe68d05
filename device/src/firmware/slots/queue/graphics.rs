//! Special parts of queues of the graphics pipes: their MQD and their engine.
//!
//! Nothing is drawn: packets are about memory, registers and fences, and dispatches are those of compute queues. The kernel's
//! driver has such queues in its test of the scheduler (linux `amdgpu_mes_self_test`).

use std::sync::Arc;

use super::Queue;
use crate::cp::{AqlConfig, Pm4Config, Pm4Queue};
use crate::firmware::Ports;
use crate::firmware::rings::graphics;
use crate::firmware::slots::life::{Activity, Life, Rest, Slot, Wait};
use crate::firmware::slots::{NewQueue, Place, Pool};
use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::queue::{Hqd, HqdId, QueueEngine, QueueIdentity};
use crate::vm::AddressSpace;

impl Queue {
    /// Reads and checks the MQD of a queue to be added; `pointer` is the space that its write pointer is in.
    pub(in crate::firmware) fn new_graphics(
        kernel: &AddressSpace,
        pointer: Option<&AddressSpace>,
        new: &NewQueue,
    ) -> Result<Self, GuestError> {
        let hqd = ring(kernel, new.mqd)?;
        let read_index = Self::first_index(pointer, &hqd, new.wptr.address);
        Ok(Self::waiting(new, Pool::Graphics, Rest { read_index, saved: false }))
    }

    /// Loads the MQD into a hardware queue, and runs.
    pub(super) fn map_graphics(
        &mut self,
        ports: &Ports,
        kernel: &AddressSpace,
        space: Option<&Arc<AddressSpace>>,
        id: HqdId,
        (vmid, pasid): (u8, u16),
    ) -> Result<(), GuestError> {
        let life = self.end();
        let Life::Unmapped { rest, .. } = life else {
            self.life = life;
            return Err(GuestError::QueueNotWaiting);
        };
        let space = space.ok_or(GuestError::ProcessWithoutTables)?;
        let mut hqd = ring(kernel, self.mqd)?;
        let identity = QueueIdentity {
            xcc: self.partition.first,
            me: id.me,
            pipe: id.pipe,
            queue: id.queue,
            vmid,
            pasid: pasid.into(),
            doorbell: self.doorbell,
        };
        let AqlConfig { ring_base, rptr_report, wptr_poll, read_index, apertures, trap, shares, .. } =
            self.config(ports, &hqd, identity, (rest.read_index, false));
        let config = Pm4Config {
            identity,
            ring_base,
            ring_dwords: hqd.pq_dwords().unwrap_or(0),
            rptr_report,
            wptr_poll,
            read_index,
            apertures,
            trap,
            shares,
            kernel: true,
        };
        let engine = Pm4Queue::new(config, Arc::clone(space), Arc::clone(&self.gws), &ports.env, &[]);
        hqd.set_vmid(vmid);
        hqd.set_doorbell(self.doorbell);
        ports.hqds.hqd_of(self.partition.first, id, |registers| {
            registers.replace(&hqd);
            registers.activate();
        });
        let slot = Slot::now(Place::Graphics(id), &ports.env.clock);
        self.life = Life::Mapped { slot, engine: Box::new(engine), activity: Activity::Working };
        self.note_mapped(ports, kernel, pasid);
        Ok(())
    }

    /// Takes a queue off its slot, whose engine has ended or not, and writes its position to the MQD. Work that it has begun
    /// cannot be saved: the queue has failed then.
    pub(super) fn unmap_graphics(
        &mut self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        (slot, mut engine): (Slot, Box<dyn QueueEngine>),
        activity: Activity,
    ) {
        engine.suspend();
        let (read_index, is_busy) = (engine.read_index(), engine.is_busy());
        engine.stop();
        self.life = if is_busy {
            ports.counters.error(GuestError::ContextNotSaved, format_args!("doorbell={:#x}", self.doorbell));
            Life::Failed { slot: None, read_index }
        } else {
            let wait = if activity == Activity::Idle { Wait::Doorbell } else { Wait::Slot };
            Life::Unmapped { wait, rest: Rest { read_index, saved: false } }
        };
        self.leave_graphics(ports, kernel, slot, read_index);
    }

    /// Gives up a slot, and writes the position to the MQD.
    pub(super) fn leave_graphics(
        &self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        slot: Slot,
        read_index: u64,
    ) {
        if let Place::Graphics(id) = slot.id {
            ports.hqds.hqd_of(self.partition.first, id, Hqd::deactivate);
        }
        if !kernel.is_some_and(|kernel| graphics::save(kernel, self.mqd, read_index)) {
            ports.counters.error(
                GuestError::MqdNotSaved,
                format_args!("doorbell={:#x} mqd={:#x}", self.doorbell, self.mqd),
            );
        }
        ports.tell(Moment::QueueUnmapped { doorbell: self.doorbell });
    }
}

/// Reads the ring of an MQD.
fn ring(kernel: &AddressSpace, mqd: u64) -> Result<Hqd, GuestError> {
    let mut hqd = Hqd::new();
    graphics::load(&mut hqd, kernel, mqd)?;
    if hqd.pq_dwords().is_none() {
        return Err(GuestError::MqdRingSize);
    }
    Ok(hqd)
}
