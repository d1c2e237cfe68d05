//! Events for system management: `kfd_ioctl_smi_events_args` and `enum kfd_smi_event`.

uapi_struct! {
    /// Arguments of `SMI_EVENTS` (`struct kfd_ioctl_smi_events_args`).
    SmiEventsArgs: 8 {
        /// In: GPU.
        gpuid @ 0: u32,
        /// Out: a descriptor that gives lines.
        anon_fd @ 4: u32,
    }
}

/// Longest line, with its end and a final zero (`KFD_SMI_EVENT_MSG_SIZE`).
pub const SMI_EVENT_MSG_SIZE: usize = 96;

/// Kinds of events (`enum kfd_smi_event`); the kinds about processes are of later headers than 6.12's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// A fault of a process's address space: identity and name of the process.
    VmFault = 1,
    /// The device is about to be reset: number and cause of the reset.
    GpuPreReset = 3,
    /// The device was reset.
    GpuPostReset = 4,
    /// Memory begins to move: time, process, first page, number of pages, from where and to where, the range's prefetch and
    /// preferred location, [`MigrateTrigger`].
    MigrateStart = 5,
    /// Memory has moved: the fields of [`Self::MigrateStart`] without the locations of the range.
    MigrateEnd = 6,
    /// The queues of a process were taken off the hardware: time, process, GPU, [`QueueEvictionTrigger`].
    QueueEviction = 9,
    /// The queues of a process are back: time, process, GPU, whether they were rescheduled.
    QueueRestore = 10,
    /// A range left the GPU: time, process, first page, number of pages, GPU, cause.
    UnmapFromGpu = 11,
    /// A process has its address space on the device: identity and name.
    ProcessStart = 12,
    /// A process no longer has its address space on the device: identity and name.
    ProcessEnd = 13,
}

/// Why queues were taken off the hardware (`enum KFD_QUEUE_EVICTION_TRIGGERS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum QueueEvictionTrigger {
    /// Shared virtual memory changes.
    Svm = 0,
    /// The device is suspended.
    Suspend = 3,
}

/// Why memory moves (`enum KFD_MIGRATE_TRIGGERS`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum MigrateTrigger {
    /// The program has asked for it.
    Prefetch = 0,
    /// The processor has touched it.
    PagefaultCpu = 2,
    /// VRAM is short.
    TtmEviction = 3,
}

impl EventKind {
    /// Its bit in the mask that chooses events (`KFD_SMI_EVENT_MASK_FROM_INDEX`).
    #[must_use]
    pub const fn mask(self) -> u64 {
        1 << (self as u32 - 1)
    }
}
