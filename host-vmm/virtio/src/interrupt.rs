//! Interrupts of a device: by its MSI-X vectors, or by the ISR byte and the pin (virtio 1.2 sections 4.1.4.5,
//! 4.1.5.1).

use std::sync::{Arc, PoisonError};

use belfry_bus::Interrupts;
use belfry_bus::Msix;
use belfry_lock::{Mutex, MutexGuard, rank};
use belfry_pci::{InterruptControl, MSIX_ENTRY};

use crate::saved::{SavedVirtio, StateError, broken};

/// Value that stands for no vector.
pub(super) const NO_VECTOR: u16 = 0xffff;
/// Bits of the ISR byte.
const ISR_QUEUE: u8 = 1;
const ISR_CONFIG: u8 = 2;

#[derive(Debug)]
pub(super) struct State {
    pub(super) msix: Msix,
    pub(super) queues: Vec<u16>,
    pub(super) config: u16,
    pub(super) isr: u8,
    control: InterruptControl,
    asserted: bool,
}

/// The interrupts of one device.
#[derive(Debug)]
pub(super) struct Interrupt {
    state: Mutex<State, rank::VirtioInterrupt>,
    interrupts: Arc<dyn Interrupts>,
}

impl Interrupt {
    /// Makes the interrupts of a device with `queues` queues and one more vector.
    pub(super) fn new(queues: usize, interrupts: Arc<dyn Interrupts>) -> Self {
        let state = State {
            msix: Msix::new(queues as u16 + 1, Arc::clone(&interrupts)),
            queues: vec![NO_VECTOR; queues],
            config: NO_VECTOR,
            isr: 0,
            control: InterruptControl::default(),
            asserted: false,
        };
        Self { state: Mutex::new(state), interrupts }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State, rank::VirtioInterrupt> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asserts the pin while the ISR byte is not 0, unless messages carry the interrupts.
    fn update_pin(&self, state: &mut State) {
        let control = state.control;
        let asserted = state.isr != 0 && !control.msix_enabled && !control.intx_disabled;
        if asserted != state.asserted {
            state.asserted = asserted;
            self.interrupts.set_pin(asserted);
        }
    }

    fn interrupt(&self, state: &mut State, vector: u16, bit: u8) {
        if state.msix.enabled() {
            state.msix.raise(vector);
        } else {
            state.isr |= bit;
            self.update_pin(state);
        }
    }

    /// Interrupts because a queue has used buffers.
    pub(super) fn queue(&self, number: u16) {
        let mut state = self.lock();
        let vector = state.queues.get(usize::from(number)).copied().unwrap_or(NO_VECTOR);
        self.interrupt(&mut state, vector, ISR_QUEUE);
    }

    /// Interrupts because configuration or status have changed.
    pub(super) fn config(&self) {
        let mut state = self.lock();
        let vector = state.config;
        self.interrupt(&mut state, vector, ISR_CONFIG);
    }

    /// Reads the ISR byte, which clears it.
    pub(super) fn take_isr(&self) -> u8 {
        let mut state = self.lock();
        let isr = std::mem::take(&mut state.isr);
        self.update_pin(&mut state);
        isr
    }

    /// Returns true if the function wants its pin asserted, for its status register.
    pub(super) fn pending(&self) -> bool {
        self.lock().isr != 0
    }

    /// Takes the state of command register and MSI-X capability after a write to them.
    pub(super) fn set_control(&self, control: InterruptControl) {
        let mut state = self.lock();
        state.control = control;
        state.msix.set_control(control);
        self.update_pin(&mut state);
    }

    /// Sets the vector of a queue, or of the configuration; a vector that does not exist becomes [`NO_VECTOR`].
    pub(super) fn set_vector(&self, queue: Option<u16>, vector: u16) {
        let mut state = self.lock();
        let vector = if vector < state.msix.vectors() { vector } else { NO_VECTOR };
        match queue {
            None => state.config = vector,
            Some(queue) => {
                if let Some(entry) = state.queues.get_mut(usize::from(queue)) {
                    *entry = vector;
                }
            }
        }
    }

    /// Returns the vector of a queue, or of the configuration.
    pub(super) fn vector(&self, queue: Option<u16>) -> u16 {
        let state = self.lock();
        match queue {
            None => state.config,
            Some(queue) => state.queues.get(usize::from(queue)).copied().unwrap_or(NO_VECTOR),
        }
    }

    /// Forgets vectors and interrupts of the last driver; the table stays, as it belongs to the bus.
    pub(super) fn reset(&self) {
        let mut state = self.lock();
        state.queues.fill(NO_VECTOR);
        state.config = NO_VECTOR;
        state.isr = 0;
        state.msix.clear_pending();
        self.update_pin(&mut state);
    }

    pub(super) fn read_table(&self, offset: u64, data: &mut [u8]) {
        self.lock().msix.read_table(offset, data);
    }

    pub(super) fn write_table(&self, offset: u64, data: &[u8]) {
        self.lock().msix.write_table(offset, data);
    }

    pub(super) fn read_pending(&self, offset: u64, data: &mut [u8]) {
        self.lock().msix.read_pending(offset, data);
    }
}

impl Interrupt {
    /// Writes the vectors of queues into `queues`.
    pub(super) fn save_into(&self, saved: &mut SavedVirtio) {
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

    pub(super) fn restore(&self, saved: &SavedVirtio, control: InterruptControl) -> Result<(), StateError> {
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
            if vector >= vectors && vector != NO_VECTOR {
                return broken("number of a vector", vector.into());
            }
            self.set_vector(queue, vector);
        }
        self.set_control(control);
        Ok(())
    }
}
