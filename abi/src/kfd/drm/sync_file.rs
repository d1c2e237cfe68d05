//! Sync files: descriptors of the end of work, with ioctls of their own (`include/uapi/linux/sync_file.h`).

/// `SYNC_IOC_MERGE`: makes a sync file that waits for the work of two others.
pub const SYNC_IOC_MERGE: u32 = 0xc030_3e03;
/// `SYNC_IOC_FILE_INFO`: asks for the work that it waits for, and if that is done.
pub const SYNC_IOC_FILE_INFO: u32 = 0xc038_3e04;
/// `SYNC_IOC_SET_DEADLINE`: sets the time by which the work should be done.
pub const SYNC_IOC_SET_DEADLINE: u32 = 0x4010_3e05;

uapi_struct! {
    /// Arguments of `SYNC_IOC_MERGE` (`struct sync_merge_data`).
    SyncMergeData: 48 {
        /// The new file's name.
        name @ 0: [u8; 32],
        /// The other sync file.
        fd2 @ 32: i32,
        /// The new one.
        fence @ 36: i32,
        /// None.
        flags @ 40: u32,
        /// Padding.
        pad @ 44: u32,
    }
}

uapi_struct! {
    /// One fence (`struct sync_fence_info`).
    SyncFenceInfo: 80 {
        /// Name of its timeline.
        obj_name @ 0: [u8; 32],
        /// Name of its driver.
        driver_name @ 32: [u8; 32],
        /// 1 when it is over, 0 before, a negative error number after an error.
        status @ 64: i32,
        /// None.
        flags @ 68: u32,
        /// When it was over, by `CLOCK_MONOTONIC`.
        timestamp_ns @ 72: u64,
    }
}

uapi_struct! {
    /// Arguments of `SYNC_IOC_FILE_INFO` (`struct sync_file_info`).
    SyncFileInfo: 56 {
        /// The file's name.
        name @ 0: [u8; 32],
        /// As for a fence, of all of them.
        status @ 32: i32,
        /// None.
        flags @ 36: u32,
        /// Room for fences; how many there are.
        num_fences @ 40: u32,
        /// Padding.
        pad @ 44: u32,
        /// User address of `struct sync_fence_info` for each.
        sync_fence_info @ 48: u64,
    }
}

uapi_struct! {
    /// Arguments of `SYNC_IOC_SET_DEADLINE` (`struct sync_set_deadline`).
    SyncSetDeadline: 16 {
        /// Time of `CLOCK_MONOTONIC`.
        deadline_ns @ 0: u64,
        /// Padding.
        pad @ 8: u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfd::ioctl::ioc_size;

    #[test]
    fn commands_have_the_sizes_of_their_structures() {
        assert_eq!(ioc_size(SYNC_IOC_MERGE), size_of::<SyncMergeData>());
        assert_eq!(ioc_size(SYNC_IOC_FILE_INFO), size_of::<SyncFileInfo>());
        assert_eq!(ioc_size(SYNC_IOC_SET_DEADLINE), size_of::<SyncSetDeadline>());
    }
}
