//! The queues of a device that runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use virtio_bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{Queue, QueueOwnedT as _, QueueT as _};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::chain::Chain;
use super::interrupt::Interrupt;
use crate::broken::Broken;

/// One queue.
#[derive(Debug)]
pub(super) struct Ring {
    queue: Queue,
    number: u16,
    memory: GuestMemoryMmap,
    interrupt: Arc<Interrupt>,
}

impl Ring {
    fn error(&self, error: &virtio_queue::Error) -> Broken {
        Broken(format!("queue {}: {error}", self.number))
    }

    /// Takes the next request; if there is none, the driver will notify the device of the next one.
    pub(super) fn pop(&mut self) -> Result<Option<Chain>, Broken> {
        loop {
            let next = match self.queue.iter(&self.memory) {
                Ok(mut available) => available.next(),
                Err(error) => return Err(self.error(&error)),
            };
            if let Some(descriptors) = next {
                let chain = Chain::walk(&self.memory, descriptors);
                return chain
                    .map(Some)
                    .map_err(|Broken(why)| Broken(format!("queue {}: {why}", self.number)));
            }
            if !self.queue.enable_notification(&self.memory).map_err(|error| self.error(&error))? {
                return Ok(None);
            }
        }
    }

    /// Leaves the last taken request for later, as if it had not been taken.
    pub(super) fn put_back(&mut self) {
        self.queue.go_to_previous_position();
    }

    /// Gives a request back with `length` bytes written to it, and interrupts unless the driver does not want that.
    pub(super) fn push(&mut self, chain: &Chain, length: u64) -> Result<(), Broken> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.queue.add_used(&self.memory, chain.head, length).map_err(|error| self.error(&error))?;
        let wanted = self.queue.needs_notification(&self.memory).map_err(|error| self.error(&error))?;
        if wanted && !self.suppressed()? {
            self.interrupt.queue(self.number);
        }
        Ok(())
    }

    /// Returns true if the driver has switched interrupts off by the flag, which counts without the event index.
    fn suppressed(&self) -> Result<bool, Broken> {
        if self.queue.event_idx_enabled() {
            return Ok(false);
        }
        let flags: u16 = self
            .memory
            .load(GuestAddress(self.queue.avail_ring()), Ordering::Acquire)
            .map_err(|error| Broken(format!("queue {}: {error}", self.number)))?;
        Ok(u32::from(u16::from_le(flags)) & VRING_AVAIL_F_NO_INTERRUPT != 0)
    }
}

/// All queues of a device; queues that the driver has not enabled are `None`.
#[derive(Debug)]
pub struct Rings {
    rings: Vec<Option<Ring>>,
    memory: GuestMemoryMmap,
    /// True while another thread waits for the device to stop.
    pause: Arc<AtomicBool>,
}

impl Rings {
    pub(super) fn new(
        queues: Vec<Option<Queue>>,
        memory: &GuestMemoryMmap,
        interrupt: &Arc<Interrupt>,
        pause: Arc<AtomicBool>,
    ) -> Self {
        let ring = |(number, queue): (u16, Option<Queue>)| {
            let (memory, interrupt) = (memory.clone(), Arc::clone(interrupt));
            queue.map(|queue| Ring { queue, number, memory, interrupt })
        };
        Self { rings: (0..).zip(queues).map(ring).collect(), memory: memory.clone(), pause }
    }

    /// Returns the guest memory.
    pub(super) fn memory(&self) -> &GuestMemoryMmap {
        &self.memory
    }

    /// Returns true if long work should be given up: the device is being reset.
    pub(super) fn interrupted(&self) -> bool {
        self.pause.load(Ordering::Relaxed)
    }

    /// Returns the indices of a queue: the next request of the available ring, and the next entry of the used ring.
    pub(super) fn next(&self, number: usize) -> Option<(u16, u16)> {
        let ring = self.rings.get(number)?.as_ref()?;
        Some((ring.queue.next_avail(), ring.queue.next_used()))
    }

    /// Returns a queue, if the driver has enabled it.
    pub(super) fn get(&mut self, number: usize) -> Option<&mut Ring> {
        self.rings.get_mut(number)?.as_mut()
    }

    /// Takes the next request of a queue.
    pub(super) fn pop(&mut self, number: usize) -> Result<Option<Chain>, Broken> {
        self.get(number).map_or(Ok(None), Ring::pop)
    }

    /// Gives a request back.
    pub(super) fn push(&mut self, number: usize, chain: &Chain, length: u64) -> Result<(), Broken> {
        self.get(number).map_or(Ok(()), |ring| ring.push(chain, length))
    }
}
