//! Paravirtual devices on the root bus: virtio 1.2 over its PCI transport, and the devices behind it.
//!
//! | part | file |
//! | --- | --- |
//! | the function: capabilities, BAR, notifications (section 4.1) | `transport.rs` |
//! | the registers of every device: features, status, queues (4.1.4.3) | `common.rs` |
//! | interrupts: MSI-X, or the ISR byte and a pin (4.1.4.5) | `interrupt.rs` |
//! | a device behind the function | `device.rs` |
//! | queues and the buffers in them (2.6, 2.7) | `ring.rs`, `chain.rs` |
//! | the thread that works for a device | `transport/worker.rs` |
//! | devices that are saved and restored | `transport/save.rs`, as plain values `saved.rs` |
//! | the guest channel: a console with one named port (5.3) | `console.rs`, its frames `frames.rs` |
//! | disks (5.2): requests, images and their configuration | `block.rs`, `disk/` |
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
mod broken;
mod chain;
mod common;
mod console;
#[cfg(test)]
mod console_tests;
mod device;
mod disk;
mod frames;
mod interrupt;
mod network;
#[cfg(test)]
mod network_tests;
mod ring;
#[cfg(test)]
mod save_tests;
pub mod saved;
mod share;
#[cfg(test)]
mod testing;
mod transport;
#[cfg(test)]
mod transport_tests;

pub use block::Block;
pub use broken::Broken;
pub use console::Console;
pub use device::{Device, Profile, Progress};
pub use disk::{DiskConfig, DiskConfigError, DiskError, DiskFormat};
pub use network::Network;
pub use saved::Unsaved;
pub use share::{Share, files_for};
pub use transport::VirtioFunction;

pub use ring::Rings;
