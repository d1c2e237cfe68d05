//! Paravirtual devices on the root bus: virtio 1.2 over its PCI transport, and the devices behind it.
//!
//! | part | file |
//! | --- | --- |
//! | the function: capabilities, BAR, notifications (section 4.1) | `transport.rs` |
//! | the registers every device has: features, status, queues (4.1.4.3) | `common.rs` |
//! | interrupts: MSI-X, or the ISR byte and a pin (4.1.4.5) | `interrupt.rs` |
//! | queues and the buffers in them (2.6, 2.7) | `ring.rs`, `chain.rs` |
//! | the thread that works for a device | `worker.rs` |
//! | devices that are saved and restored | `save.rs` |
//! | the guest channel: a console with one named port (5.3) | `console.rs`, its frames `frames.rs` |
//! | disks (5.2): requests, images, and which there are | `block.rs`, `image.rs`, `qcow2_tables.rs`, `disk_config.rs` |
//! | a network card (5.1), whose network is a stream of frames | `network.rs` |
//! | folders of the host, over 9P | `share/` |
//!
//! The transport is written here because rust-vmm's `virtio-device` was never published, and what there is of it has no
//! PCI; queues and descriptor chains are those of rust-vmm's `virtio-queue`.
//!
//! Guest memory is shared and hostile. A device checks what it finds when it finds it and uses only what it checked; what
//! breaks the rules of a queue puts the device out of service until the driver resets it, with one line in the log.

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

/// What a driver did that the device cannot go on after.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Broken(String);

/// What working came to.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Progress {
    /// There is more to do at once.
    More,
    /// There is nothing to do before the next event.
    Idle,
}

/// The state is another kind of device's.
fn another_kind() -> StateError {
    StateError::Value { what: "kind of a paravirtual device", value: 0 }
}

/// What a device is.
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
    /// The device-specific configuration, which the guest reads only.
    pub(super) config: Vec<u8>,
}

/// A device behind the transport.
pub(super) trait Device: Debug + Send {
    /// What it is; does not change.
    fn profile(&self) -> Profile;

    /// Forgets all of the driver; its queues are gone.
    fn reset(&mut self);

    /// Does one step of what there is to do: a bounded amount of work, so that a reset gets in.
    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken>;

    /// What it has beside its registers and queues, while it does nothing.
    ///
    /// # Errors
    ///
    /// A device that no snapshot has, or that is in the middle of something.
    fn save(&self) -> Result<SavedDevice, Unsaved> {
        Err(Unsaved::Refused("a device without a state"))
    }

    /// Goes on as another one was.
    ///
    /// # Errors
    ///
    /// What is no state of such a device.
    fn restore(&mut self, _saved: &SavedDevice, _memory: &GuestMemoryMmap) -> Result<(), StateError> {
        Err(another_kind())
    }

    /// The file to wait for beside the queues, and for what.
    fn host(&self) -> Option<(RawFd, EventSet)> {
        None
    }
}
