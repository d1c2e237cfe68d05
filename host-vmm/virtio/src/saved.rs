//! Paravirtual devices as plain values, and the reasons why saved values cannot be used.

use serde::{Deserialize, Serialize};

/// Largest number of buffers of a request, and of bytes that wait: no device has more.
const BUFFERS: usize = 2048;
const WAITING: usize = 4 << 20;
/// Largest number of queues of a device, and of device numbers of the root bus.
const QUEUES: usize = 64;
const DEVICES: u8 = 32;
/// Largest number of images that a disk is made of.
const LAYERS: usize = 64;

/// Reason why bytes are not the state of a machine.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes cannot be read, or there are too many of them.
    #[error("the machine's state cannot be read: {0}")]
    Encoding(#[from] postcard::Error),
    /// There are bytes after the state's end.
    #[error("the machine's state ends {0} bytes before its bytes do")]
    Trailing(usize),
    /// The image of a disk has changed.
    #[error("the disk image {path} has changed since: resume it with the image that it was saved with")]
    Changed {
        /// The image.
        path: std::path::PathBuf,
    },
    /// The guest's writes to a disk cannot be restored.
    #[error("what was written to the disk image {path} cannot be had again: {why}")]
    Disk {
        /// The image.
        path: std::path::PathBuf,
        /// Why.
        why: String,
    },
    /// A value that no machine has.
    #[error("the machine's {what} is {value}, which cannot be")]
    Value {
        /// Name of the value.
        what: &'static str,
        /// The value.
        value: u64,
    },
}

/// The error of a value that no device has.
pub(crate) fn broken<T>(what: &'static str, value: u64) -> Result<T, StateError> {
    Err(StateError::Value { what, value })
}

/// Reason why a device cannot be saved at the moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unsaved {
    /// The device has a part that cannot be in a snapshot.
    Refused(&'static str),
    /// The device is in the middle of a request that ends soon.
    Busy,
}

/// Registers of a queue.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedQueue {
    /// Number of its entries.
    pub size: u16,
    /// True if the driver has enabled it.
    pub enabled: bool,
    /// Address of the descriptors.
    pub desc: u64,
    /// Address of the available ring.
    pub driver: u64,
    /// Address of the used ring.
    pub device: u64,
    /// Indices of the working device: the next request of the available ring, and the next entry of the used ring.
    pub next: (u16, u16),
    /// Its interrupt vector.
    pub vector: u16,
}

/// A request that was taken and not given back: its number, and the rest of its buffers, by address and bytes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedChain {
    /// Number of its first descriptor.
    pub head: u16,
    /// Buffers that the device reads.
    pub readable: Vec<(u64, u32)>,
    /// Buffers that the device writes.
    pub writable: Vec<(u64, u32)>,
}

/// The guest channel.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedConsole {
    /// Messages that the guest still has to get: the port, its name, and that it is open.
    pub to_tell: (bool, bool, bool),
    /// True if the guest has opened the port.
    pub guest_open: bool,
    /// True if the guest takes control messages.
    pub ready: bool,
    /// The request whose bytes are on their way to the host.
    pub outgoing: Option<SavedChain>,
    /// Bytes that the guest has sent and no host has taken whole; they begin with a frame.
    #[serde(with = "serde_bytes")]
    pub piece: Vec<u8>,
}

/// A disk: its image, which must not change, and the guest's writes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedBlock {
    /// Path of the image.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Number of the format.
    pub format: u8,
    /// True if the guest cannot write.
    pub read_only: bool,
    /// Images behind it, by path.
    pub backing: Vec<serde_bytes::ByteBuf>,
    /// Bytes of the image's file.
    pub length: u64,
    /// Time of its last change: seconds and nanoseconds.
    pub modified: (i64, i64),
    /// The qcow2 image over it, if the guest can write.
    #[serde(with = "serde_bytes")]
    pub overlay: Vec<u8>,
}

/// State of a device beside its registers and queues.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum SavedDevice {
    /// The guest channel.
    Console(SavedConsole),
    /// A disk.
    Block(SavedBlock),
}

/// A paravirtual device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct SavedVirtio {
    /// Its number on the root bus.
    pub number: u8,
    /// Its configuration space.
    #[serde(with = "serde_bytes")]
    pub config: Vec<u8>,
    /// Features that the driver has accepted.
    pub accepted: u64,
    /// Selectors of features, of the device and the driver.
    pub selects: (u32, u32),
    /// The status register.
    pub status: u8,
    /// Selector of queues.
    pub queue_select: u16,
    /// True if the device works: `next` then holds the indices of its queues.
    pub works: bool,
    /// Its queues.
    pub queues: Vec<SavedQueue>,
    /// Interrupt vector of its configuration.
    pub config_vector: u16,
    /// The ISR byte.
    pub isr: u8,
    /// Its MSI-X table.
    #[serde(with = "serde_bytes")]
    pub table: Vec<u8>,
    /// Vectors that are pending.
    pub pending: u64,
    /// State beside registers and queues.
    pub device: SavedDevice,
}

impl SavedVirtio {
    /// Refuses values that no device has; values that a driver could have written are checked by the device.
    ///
    /// # Errors
    ///
    /// Values that no device has.
    pub fn check(&self) -> Result<(), StateError> {
        let refused = |what, value: usize| Err(StateError::Value { what, value: value as u64 });
        if !(1..DEVICES).contains(&self.number) {
            return refused("number of a paravirtual device", self.number.into());
        }
        if self.queues.len() > QUEUES {
            return refused("number of queues", self.queues.len());
        }
        let console = match &self.device {
            SavedDevice::Console(console) => console,
            SavedDevice::Block(disk) if disk.backing.len() > LAYERS => {
                return refused("number of a disk's images", disk.backing.len());
            }
            SavedDevice::Block(_) => return Ok(()),
        };
        if console.piece.len() > WAITING {
            return refused("bytes on their way to the host", console.piece.len());
        }
        let buffers = console.outgoing.iter().map(|chain| chain.readable.len() + chain.writable.len());
        match buffers.max() {
            Some(most) if most > BUFFERS => refused("number of a request's buffers", most),
            _ => Ok(()),
        }
    }
}
