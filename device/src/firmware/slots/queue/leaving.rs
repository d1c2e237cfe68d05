//! Taking a queue off its slot.

use super::Queue;
use crate::firmware::Ports;
use crate::firmware::slots::life::{Activity, Life, Rest, Slot, Wait};
use crate::firmware::slots::{Place, Pool};
use crate::guest_error::GuestError;
use crate::moments::Moment;
use crate::queue::{ContextOffsets, DmaContext, HqdId, MqdSet, Saving};
use crate::vm::AddressSpace;

impl Queue {
    /// Takes the queue off its slot. Saves it to its MQD, and waves in progress to its context save area. Returns
    /// `false` if pages of the area are missing: the queue is still on its slot, and the caller has to call again.
    #[must_use]
    pub(in crate::firmware::slots) fn unmap(&mut self, ports: &Ports, kernel: Option<&AddressSpace>) -> bool {
        let mut saved = (None, None);
        self.check_unmapped(ports, kernel);
        let off_when_idle = |activity| if activity == Activity::Idle { Wait::Doorbell } else { Wait::Slot };
        let (slot, mut engine, then) = match self.end() {
            Life::Mapped { slot, engine, activity } if self.pool == Pool::Graphics => {
                self.unmap_graphics(ports, kernel, (slot, engine), activity);
                return true;
            }
            Life::Mapped { mut engine, activity, .. } if !self.pool.is_compute() => {
                engine.suspend();
                self.unmap_sdma(ports, kernel, engine, activity);
                ports.tell(Moment::QueueUnmapped { doorbell: self.doorbell });
                return true;
            }
            Life::Mapped { slot, engine, activity } => (slot, engine, off_when_idle(activity)),
            Life::Leaving { slot, engine, then } => (slot, engine, then),
            Life::Failed { slot: Some(slot), read_index } => {
                self.life = Life::Failed { slot: None, read_index };
                self.leave(ports, kernel, (slot, read_index), &saved);
                return true;
            }
            off @ (Life::Unmapped { .. } | Life::Failed { slot: None, .. }) => {
                self.life = off;
                return true;
            }
        };
        engine.suspend();
        let read_index = engine.read_index();
        let area = kernel.and_then(|kernel| self.mqds(ports, kernel).ok()?.context_area());
        let registers = engine.compute_registers().map(<[u32]>::to_vec);
        self.life = match engine.save(area.as_ref()) {
            Ok(Saving::Waits) => {
                self.life = Life::Leaving { slot, engine, then };
                return false;
            }
            Ok(Saving::Done(offsets)) => {
                saved = (offsets, registers);
                Life::Unmapped { wait: then, rest: Rest { read_index, saved: offsets.is_some() } }
            }
            Err(error) => {
                ports.counters.error(
                    GuestError::ContextNotSaved,
                    format_args!("doorbell={:#x} {error}", self.doorbell),
                );
                Life::Failed { slot: None, read_index }
            }
        };
        self.leave(ports, kernel, (slot, read_index), &saved);
        true
    }

    /// Gives up a slot whose engine has ended, and saves the queue to its MQD.
    fn leave(
        &self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        (slot, read_index): (Slot, u64),
        saved: &(Option<ContextOffsets>, Option<Vec<u32>>),
    ) {
        let id = match slot.id {
            Place::Compute(_, id) => id,
            Place::Graphics(_) => return self.leave_graphics(ports, kernel, slot, read_index),
            Place::Sdma { .. } => {
                self.save_sdma(ports, kernel, read_index, &DmaContext::default());
                ports.tell(Moment::QueueUnmapped { doorbell: self.doorbell });
                return;
            }
        };
        for xcc in self.partition.xccs() {
            ports.hqds.hqd_of(xcc, id, |hqd| {
                hqd.set_pointers(read_index, hqd.pq_wptr());
                hqd.deactivate();
            });
        }
        self.save(ports, kernel, id, saved);
        ports.tell(Moment::QueueUnmapped { doorbell: self.doorbell });
    }

    /// Takes the queue off its slot without saving the work it has begun: its position in the ring is lost, too.
    pub(in crate::firmware::slots) fn drop_work(&mut self, ports: &Ports) {
        if let Some(Place::Compute(_, id) | Place::Graphics(id)) = self.slot() {
            for xcc in self.partition.xccs() {
                ports.hqds.hqd_of(xcc, id, |hqd| hqd.deactivate());
            }
        }
        self.end().stop();
        ports.tell(Moment::QueueUnmapped { doorbell: self.doorbell });
    }

    /// Takes the queue off its slot, and keeps it off until it is resumed, as SUSPEND of its gang asks. Returns `false`
    /// as [`Queue::unmap`] does.
    #[must_use]
    pub(in crate::firmware::slots) fn suspend(
        &mut self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
    ) -> bool {
        let off = self.unmap(ports, kernel);
        if let Life::Unmapped { wait, .. } | Life::Leaving { then: wait, .. } = &mut self.life {
            *wait = Wait::Resume;
        }
        off
    }

    /// Writes the registers to the MQD, and the parts of the context save area in use; compute registers if packets set
    /// them.
    fn save(
        &self,
        ports: &Ports,
        kernel: Option<&AddressSpace>,
        id: HqdId,
        (offsets, registers): &(Option<ContextOffsets>, Option<Vec<u32>>),
    ) {
        let saved = kernel.is_some_and(|space| {
            let partition = self.partition;
            MqdSet::read_unchecked(&ports.chip.mqd, space, self.mqd, partition).is_ok_and(|mut mqds| {
                mqds.save(|xcc| ports.hqds.hqd_of(partition.first + xcc, id, |hqd| *hqd));
                mqds.set_context(*offsets);
                let mqd = mqds.first_mut();
                if let Some(registers) = registers {
                    mqd.set_compute(registers);
                }
                if let Some(counters) = self.gws.counters() {
                    mqd.set_gws(&counters);
                }
                mqds.write(space)
            })
        });
        if !saved {
            ports.counters.error(
                GuestError::MqdNotSaved,
                format_args!("doorbell={:#x} mqd={:#x}", self.doorbell, self.mqd),
            );
        }
    }
}
