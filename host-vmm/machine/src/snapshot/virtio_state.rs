//! Paravirtual devices as plain values.

use serde::{Deserialize, Serialize};

use super::state::StateError;

/// Largest number of buffers of a request, and of bytes that wait: no device has more.
const BUFFERS: usize = 2048;
const WAITING: usize = 4 << 20;
/// Largest number of queues of a device, and of device numbers of the root bus.
const QUEUES: usize = 64;
const DEVICES: u8 = 32;
/// Largest number of images that a disk is made of.
const LAYERS: usize = 64;

/// Registers of a queue.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedQueue {
    pub(crate) size: u16,
    pub(crate) enabled: bool,
    pub(crate) desc: u64,
    pub(crate) driver: u64,
    pub(crate) device: u64,
    /// Indices of the working device: the next request of the available ring, and the next entry of the used ring.
    pub(crate) next: (u16, u16),
    pub(crate) vector: u16,
}

/// A request that was taken and not given back: its number, and the rest of its buffers, by address and bytes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedChain {
    pub(crate) head: u16,
    pub(crate) readable: Vec<(u64, u32)>,
    pub(crate) writable: Vec<(u64, u32)>,
}

/// The guest channel.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedConsole {
    /// Messages that the guest still has to get: the port, its name, and that it is open.
    pub(crate) to_tell: (bool, bool, bool),
    pub(crate) guest_open: bool,
    pub(crate) ready: bool,
    pub(crate) outgoing: Option<SavedChain>,
    /// Bytes that the guest has sent and no host has taken whole; they begin with a frame.
    #[serde(with = "serde_bytes")]
    pub(crate) piece: Vec<u8>,
}

/// A disk: its image, which must not change, and the guest's writes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedBlock {
    #[serde(with = "serde_bytes")]
    pub(crate) path: Vec<u8>,
    /// Number of the format.
    pub(crate) format: u8,
    pub(crate) read_only: bool,
    pub(crate) backing: Vec<serde_bytes::ByteBuf>,
    /// Bytes of the image's file, and the time of its last change: seconds and nanoseconds.
    pub(crate) length: u64,
    pub(crate) modified: (i64, i64),
    /// The qcow2 image over it, if the guest can write.
    #[serde(with = "serde_bytes")]
    pub(crate) overlay: Vec<u8>,
}

/// State of a device beside its registers and queues.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) enum SavedDevice {
    Console(SavedConsole),
    Block(SavedBlock),
}

/// A paravirtual device.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct SavedVirtio {
    /// Its number on the root bus.
    pub(crate) number: u8,
    #[serde(with = "serde_bytes")]
    pub(crate) config: Vec<u8>,
    pub(crate) accepted: u64,
    /// Selectors of features, of the device and the driver.
    pub(crate) selects: (u32, u32),
    pub(crate) status: u8,
    pub(crate) queue_select: u16,
    /// True if the device works: `next` then holds the indices of its queues.
    pub(crate) works: bool,
    pub(crate) queues: Vec<SavedQueue>,
    pub(crate) config_vector: u16,
    pub(crate) isr: u8,
    #[serde(with = "serde_bytes")]
    pub(crate) table: Vec<u8>,
    /// Vectors that are pending.
    pub(crate) pending: u64,
    pub(crate) device: SavedDevice,
}

impl SavedVirtio {
    /// Refuses values that no device has; values that a driver could have written are checked by the device.
    ///
    /// # Errors
    ///
    /// Values that no device has.
    pub(super) fn check(&self) -> Result<(), StateError> {
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
