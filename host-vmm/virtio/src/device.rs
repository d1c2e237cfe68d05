//! A device behind the transport.

use std::fmt::Debug;
use std::os::fd::RawFd;

use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::EventSet;

use crate::broken::Broken;
use crate::ring::Rings;
use crate::saved::{SavedDevice, StateError, Unsaved};

/// Result of one step of work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Progress {
    /// There is more to do at once.
    More,
    /// There is nothing to do before the next event.
    Idle,
}

/// Makes the error for the state of a device of another kind.
pub(crate) fn another_kind() -> StateError {
    StateError::Value { what: "kind of a paravirtual device", value: 0 }
}

/// Fixed properties of a device.
#[derive(Clone, Debug)]
pub struct Profile {
    /// Its name in the log.
    pub name: String,
    /// Virtio device number (virtio 1.2 section 5).
    pub id: u16,
    /// PCI class, subclass, programming interface.
    pub class: u32,
    /// Features of the device beside those of the transport.
    pub features: u64,
    /// The largest size of each queue, powers of two.
    pub queues: Vec<u16>,
    /// The device-specific configuration, which the guest can only read.
    pub config: Vec<u8>,
}

/// A device behind the transport.
pub trait Device: Debug + Send {
    /// Returns the fixed properties of the device; they never change.
    fn profile(&self) -> Profile;

    /// Forgets all of the driver; its queues are gone.
    fn reset(&mut self);

    /// Does one step of the pending work: a bounded amount, so that a reset need not wait long.
    ///
    /// # Errors
    ///
    /// A mistake of the driver after which the device cannot go on.
    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken>;

    /// Returns its state beside its registers and queues, while it does nothing.
    ///
    /// # Errors
    ///
    /// A device that cannot be in a snapshot, or that is in the middle of a request.
    fn save(&self) -> Result<SavedDevice, Unsaved> {
        Err(Unsaved::Refused("a device without a state"))
    }

    /// Takes over the saved state of another device.
    ///
    /// # Errors
    ///
    /// A state that is not of such a device.
    fn restore(&mut self, _saved: &SavedDevice, _memory: &GuestMemoryMmap) -> Result<(), StateError> {
        Err(another_kind())
    }

    /// Returns the file to wait for beside the queues, and its events.
    fn host(&self) -> Option<(RawFd, EventSet)> {
        None
    }
}
