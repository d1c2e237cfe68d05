//! Paravirtual devices, saved while their machine stands still, and restored before they begin to work.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use virtio_queue::QueueT as _;

use super::{Shared, VirtioFunction};
use crate::saved::{SavedVirtio, StateError, Unsaved, broken};

impl Shared {
    /// Stops the device after its current step, or lets it go on.
    pub(super) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::SeqCst);
        if held {
            drop(self.engine());
        } else {
            // The device looks for events that came meanwhile.
            self.kick(0);
        }
    }
}

impl VirtioFunction {
    /// Stops the device while its machine is saved, or lets it go on.
    pub fn hold(&self, held: bool) {
        self.shared.hold(held);
    }

    /// Returns its state while it is [held](Self::hold) and no vCPU runs.
    ///
    /// # Errors
    ///
    /// A device that cannot be saved, or not at this moment.
    pub fn save(&self, number: u8) -> Result<SavedVirtio, Unsaved> {
        let config = self.config().bytes().to_vec();
        let engine = self.shared.engine();
        let device = engine.device.save()?;
        let registers = self.shared.registers();
        let mut saved = SavedVirtio {
            number,
            config,
            accepted: registers.accepted,
            selects: (registers.device_select, registers.driver_select),
            status: registers.status,
            queue_select: registers.queue_select,
            works: engine.rings.is_some(),
            queues: registers.save_queues(engine.rings.as_ref()),
            config_vector: 0,
            isr: 0,
            table: Vec::new(),
            pending: 0,
            device,
        };
        drop(registers);
        self.shared.interrupt.save_into(&mut saved);
        Ok(saved)
    }

    /// Takes over the saved state of another device, before this one is started. The bus places its BAR.
    ///
    /// # Errors
    ///
    /// Values that no device like this one has.
    pub fn restored(self, saved: &SavedVirtio) -> Result<Self, StateError> {
        {
            let mut config = self.config.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(at) = config.restore(&saved.config) {
                return broken("constant byte of configuration space", at as u64);
            }
            self.shared.bus_master.store(config.bus_master(), Ordering::SeqCst);
            let control = config.interrupt_control();
            drop(config);
            self.shared.interrupt.restore(saved, control)?;
        }
        {
            let shared = &self.shared;
            let mut engine = shared.engine();
            let mut registers = shared.registers();
            registers.restore(saved)?;
            if saved.works {
                if !registers.running() {
                    return broken("status of a device that works", saved.status.into());
                }
                let queues = registers.queues();
                let Ok(mut queues) = queues else { return broken("place of a queue", 0) };
                for (queue, saved) in queues.iter_mut().zip(&saved.queues) {
                    if let Some(queue) = queue {
                        queue.set_next_avail(saved.next.0);
                        queue.set_next_used(saved.next.1);
                    }
                }
                engine.rings = Some(shared.rings(queues));
            }
            drop(registers);
            engine.device.restore(&saved.device, &shared.memory)?;
        }
        self.shared.kick(0);
        Ok(self)
    }
}
