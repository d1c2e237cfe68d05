//! Paravirtual devices, saved while their machine stands still, and restored before they begin to work.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use belfry_pci::MSIX_ENTRY;
use virtio_queue::QueueT as _;
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::chain::{Buffers, Chain};
use super::common::Common;
use super::interrupt::Interrupt;
use super::ring::Rings;
use super::transport::{Shared, VirtioFunction};
use crate::saved::{SavedChain, SavedQueue, SavedVirtio, StateError, Unsaved};

fn broken<T>(what: &'static str, value: u64) -> Result<T, StateError> {
    Err(StateError::Value { what, value })
}

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

impl Buffers {
    fn save(&self) -> Vec<(u64, u32)> {
        self.pieces.iter().map(|(address, length)| (address.0, *length)).collect()
    }

    fn restored(
        saved: &[(u64, u32)],
        access: Permissions,
        memory: &GuestMemoryMmap,
    ) -> Result<Self, StateError> {
        let mut buffers = Self::default();
        for &(address, length) in saved {
            if !GuestMemory::check_range(memory, GuestAddress(address), length as usize, access) {
                return broken("address of a request's buffer", address);
            }
            buffers.push(GuestAddress(address), length);
        }
        Ok(buffers)
    }
}

impl Chain {
    pub(super) fn save(&self) -> SavedChain {
        SavedChain { head: self.head, readable: self.readable.save(), writable: self.writable.save() }
    }

    pub(super) fn restored(saved: &SavedChain, memory: &GuestMemoryMmap) -> Result<Self, StateError> {
        Ok(Self {
            head: saved.head,
            readable: Buffers::restored(&saved.readable, Permissions::Read, memory)?,
            writable: Buffers::restored(&saved.writable, Permissions::Write, memory)?,
        })
    }
}

impl Interrupt {
    /// Writes the vectors of queues into `queues`.
    fn save_into(&self, saved: &mut SavedVirtio) {
        let state = self.lock();
        let vectors = state.msix.vectors();
        let (mut table, mut pending) = (vec![0; usize::from(vectors) * MSIX_ENTRY as usize], [0; 8]);
        state.msix.read_table(0, &mut table);
        state.msix.read_pending(0, &mut pending);
        (saved.table, saved.pending) = (table, u64::from_le_bytes(pending));
        (saved.config_vector, saved.isr) = (state.config, state.isr);
        for (queue, &vector) in saved.queues.iter_mut().zip(&state.queues) {
            queue.vector = vector;
        }
    }

    fn restore(&self, saved: &SavedVirtio, control: belfry_pci::InterruptControl) -> Result<(), StateError> {
        let vectors = {
            let mut state = self.lock();
            let vectors = state.msix.vectors();
            if saved.table.len() != usize::from(vectors) * MSIX_ENTRY as usize {
                return broken("length of a table of messages", saved.table.len() as u64);
            }
            if vectors < 64 && saved.pending >> vectors != 0 {
                return broken("set of pending messages", saved.pending);
            }
            state.msix.write_table(0, &saved.table);
            state.msix.set_pending(saved.pending);
            state.isr = saved.isr & 3;
            vectors
        };
        let vectors_of = (0u16..).zip(saved.queues.iter().map(|queue| queue.vector));
        for (queue, vector) in
            vectors_of.map(|(at, vector)| (Some(at), vector)).chain([(None, saved.config_vector)])
        {
            if vector >= vectors && vector != super::interrupt::NO_VECTOR {
                return broken("number of a vector", vector.into());
            }
            self.set_vector(queue, vector);
        }
        self.set_control(control);
        Ok(())
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

impl Common {
    fn save_queues(&self, rings: Option<&Rings>) -> Vec<SavedQueue> {
        let of = |(at, queue): (usize, &super::common::QueueRegisters)| SavedQueue {
            size: queue.size,
            enabled: queue.enabled,
            desc: queue.desc,
            driver: queue.driver,
            device: queue.device,
            next: rings.and_then(|rings| rings.next(at)).unwrap_or_default(),
            vector: 0,
        };
        self.queues.iter().enumerate().map(of).collect()
    }

    fn restore(&mut self, saved: &SavedVirtio) -> Result<(), StateError> {
        if saved.queues.len() != self.queues.len() {
            return broken("number of queues", saved.queues.len() as u64);
        }
        if saved.accepted & !self.offered != 0 {
            return broken("set of features", saved.accepted);
        }
        self.accepted = saved.accepted;
        (self.device_select, self.driver_select) = saved.selects;
        (self.status, self.queue_select) = (saved.status, saved.queue_select);
        for (queue, saved) in self.queues.iter_mut().zip(&saved.queues) {
            queue.size = saved.size;
            queue.enabled = saved.enabled;
            (queue.desc, queue.driver, queue.device) = (saved.desc, saved.driver, saved.device);
        }
        Ok(())
    }
}
