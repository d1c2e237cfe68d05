//! Paravirtual devices on the root bus: virtio 1.2 over its PCI transport, and the devices behind it.
//!
//! | part | file |
//! | --- | --- |
//! | the function: capabilities, BAR, notifications (section 4.1) | `transport.rs` |
//! | the registers of every device: features, status, queues (4.1.4.3) | `common.rs` |
//! | interrupts: MSI-X, or the ISR byte and a pin (4.1.4.5) | `interrupt.rs` |
//! | queues and the buffers in them (2.6, 2.7) | `ring.rs`, `chain.rs` |
//! | the thread that works for a device | `worker.rs` |
//! | devices that are saved and restored | `save.rs` |
//! | the guest channel: a console with one named port (5.3) | `console.rs`, its frames `frames.rs` |
//! | disks (5.2): requests, images, and their configuration | `block.rs`, `image.rs`, `qcow2_tables.rs`,
//! `disk_config.rs` |
//! | a network card (5.1), whose network is a stream of frames | `network.rs` |
//! | folders of the host, over 9P | `share/` |
//!
//! The transport is written here because rust-vmm's `virtio-device` was never published, and its code has no PCI;
//! queues and descriptor chains are those of rust-vmm's `virtio-queue`.
//!
//! Guest memory is shared and hostile. A device checks each value when it reads it, and uses only the checked copy. A
//! breach of a queue's rules puts the device out of service until the driver resets it, with one line in the log.

mod block;
#[cfg(test)]
mod block_tests;
mod chain;
mod common;
mod console;
#[cfg(test)]
mod console_tests;
mod disk_config;
mod frames;
mod image;
mod interrupt;
mod network;
#[cfg(test)]
mod network_tests;
mod qcow2_tables;
mod ring;
mod save;
#[cfg(test)]
mod save_tests;
mod share;
#[cfg(test)]
mod testing;
mod transport;
#[cfg(test)]
mod transport_tests;
mod worker;

use std::fmt::Debug;
use std::os::fd::RawFd;

use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::EventSet;

use crate::snapshot::{SavedDevice, StateError};

pub(super) use block::Block;
pub(super) use console::Console;
pub use disk_config::{DiskConfig, DiskConfigError, DiskFormat};
pub use image::DiskError;
pub(super) use network::Network;
pub(super) use save::Unsaved;
pub(super) use share::{Share, files_for};
pub(super) use transport::VirtioFunction;

use ring::Rings;

/// Mistake of a driver after which the device cannot go on.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(String);

/// Result of one step of work.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// There is more to do at once.
    More,
    /// There is nothing to do before the next event.
    Idle,
}

/// Makes the error for the state of a device of another kind.
fn another_kind() -> StateError {
    StateError::Value { what: "kind of a paravirtual device", value: 0 }
}

/// Fixed properties of a device.
#[derive(Clone, Debug)]
pub(super) struct Profile {
    /// Its name in the log.
    pub(super) name: String,
    /// Virtio device number (virtio 1.2 section 5).
    pub(super) id: u16,
    /// PCI class, subclass, programming interface.
    pub(super) class: u32,
    /// Features of the device beside those of the transport.
    pub(super) features: u64,
    /// The largest size of each queue, powers of two.
    pub(super) queues: Vec<u16>,
    /// The device-specific configuration, which the guest can only read.
    pub(super) config: Vec<u8>,
}

/// A device behind the transport.
pub(super) trait Device: Debug + Send {
    /// Returns the fixed properties of the device; they never change.
    fn profile(&self) -> Profile;

    /// Forgets all of the driver; its queues are gone.
    fn reset(&mut self);

    /// Does one step of the pending work: a bounded amount, so that a reset need not wait long.
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
