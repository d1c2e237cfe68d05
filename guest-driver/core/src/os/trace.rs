//! Events of the driver itself.

use super::Task;

/// Something that happened in the driver, for a timeline beside the device's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DriverEvent {
    /// A program called, with a command of this name.
    IoctlEnter {
        /// Name of the command, as in `kfd_ioctl.h`.
        name: &'static str,
        /// Its number.
        number: u8,
    },
    /// The call ended.
    IoctlLeave {
        /// Its number.
        number: u8,
        /// 0, or the error's number.
        errno: u32,
    },
    /// An interrupt set an event.
    EventSet {
        /// The event.
        event: u32,
    },
    /// A program that waited for an event goes on.
    EventWake {
        /// The event.
        event: u32,
    },
    /// A program made a queue.
    QueueCreated {
        /// Number that the program knows it by.
        queue: u32,
    },
    /// A queue was destroyed.
    QueueDestroyed {
        /// Number that the program knew it by.
        queue: u32,
    },
    /// Memory was mapped for a GPU.
    Mapped {
        /// Its GPU virtual address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// Memory was unmapped.
    Unmapped {
        /// Its GPU virtual address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// An entry of the interrupt ring was handled.
    Handled {
        /// Client that raised it.
        client: u32,
        /// Why.
        source: u32,
    },
    /// All queues of a process were taken off the scheduler.
    Evicted,
    /// They were handed to it again.
    Restored,
    /// A program opened the KFD node, or had opened it when recording began.
    ProcessOpened {
        /// The thread that did.
        task: Task,
    },
    /// The process is gone.
    ProcessClosed,
}
