//! Checkpoint and restore (`enum kfd_criu_op`, `struct kfd_ioctl_criu_args` of `linux/kfd_ioctl.h`).

/// Returns the numbers and sizes of a process's objects.
pub const KFD_CRIU_OP_PROCESS_INFO: u32 = 0;
/// Returns the objects of a process.
pub const KFD_CRIU_OP_CHECKPOINT: u32 = 1;
/// Lets the process's queues run again.
pub const KFD_CRIU_OP_UNPAUSE: u32 = 2;
/// Restores a process.
pub const KFD_CRIU_OP_RESTORE: u32 = 3;
/// Lets a restored process run.
pub const KFD_CRIU_OP_RESUME: u32 = 4;

uapi_struct! {
    /// Arguments of `CRIU_OP` (`struct kfd_ioctl_criu_args`).
    CriuArgs: 56 {
        /// User address of the GPUs.
        devices @ 0: u64,
        /// User address of the buffer objects.
        bos @ 8: u64,
        /// User address of data that only the driver reads.
        priv_data @ 16: u64,
        /// Bytes of these data.
        priv_data_size @ 24: u64,
        /// GPUs.
        num_devices @ 32: u32,
        /// Buffer objects.
        num_bos @ 36: u32,
        /// Events, queues and ranges.
        num_objects @ 40: u32,
        /// The process that is restored.
        pid @ 44: u32,
        /// One of `KFD_CRIU_OP_*`.
        op @ 48: u32,
        /// Padding the C compiler inserts.
        pad @ 52: u32,
    }
}
