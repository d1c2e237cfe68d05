//! Syncobjs: places for the end of work, which DRM itself has (`include/uapi/drm/drm.h`).

macro_rules! numbers {
    ($($name:ident = $value:expr, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $value;)*
    };
}

numbers! {
    DRM_IOCTL_SYNCOBJ_CREATE = 0xc008_64bf, "Makes a syncobj.";
    DRM_IOCTL_SYNCOBJ_DESTROY = 0xc008_64c0, "Gives its handle back.";
    DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD = 0xc010_64c1, "A descriptor of it, or a sync file of what is in it.";
    DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE = 0xc010_64c2, "A handle of a descriptor, or what is in a sync file.";
    DRM_IOCTL_SYNCOBJ_WAIT = 0xc028_64c3, "Waits for syncobjs.";
    DRM_IOCTL_SYNCOBJ_RESET = 0xc010_64c4, "Empties them.";
    DRM_IOCTL_SYNCOBJ_SIGNAL = 0xc010_64c5, "Puts in them what is over already.";
    DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT = 0xc030_64ca, "Waits for points.";
    DRM_IOCTL_SYNCOBJ_QUERY = 0xc018_64cb, "Which point was reached.";
    DRM_IOCTL_SYNCOBJ_TRANSFER = 0xc020_64cc, "Puts what is in one into another.";
    DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL = 0xc018_64cd, "Adds points that are reached already.";
    DRM_IOCTL_SYNCOBJ_EVENTFD = 0xc018_64cf, "Has a point add one to an eventfd.";

    DRM_SYNCOBJ_CREATE_SIGNALED = 1 << 0, "It is over from the beginning.";
    DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE = 1 << 0, "A sync file.";
    DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE = 1 << 0, "Of a sync file.";
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL = 1 << 0, "All, or any.";
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT = 1 << 1, "What is not there yet is waited for.";
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE = 1 << 2, "Until it is there, and no longer.";
    DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE = 1 << 3, "The deadline says how urgent it is.";
    DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED = 1 << 0, "The last point there is, whether reached or not.";
}

/// `DRM_CAP_SYNCOBJ`.
pub const DRM_CAP_SYNCOBJ: u64 = 0x13;
/// `DRM_CAP_SYNCOBJ_TIMELINE`.
pub const DRM_CAP_SYNCOBJ_TIMELINE: u64 = 0x14;

uapi_struct! {
    /// Arguments of `SYNCOBJ_CREATE` and `SYNCOBJ_DESTROY` (`struct drm_syncobj_create`, `struct drm_syncobj_destroy`).
    DrmSyncobjCreate: 8 {
        /// The handle.
        handle @ 0: u32,
        /// `DRM_SYNCOBJ_CREATE_*`; padding of the other one.
        flags @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_HANDLE_TO_FD` and `SYNCOBJ_FD_TO_HANDLE` (`struct drm_syncobj_handle`).
    DrmSyncobjHandle: 16 {
        /// The handle.
        handle @ 0: u32,
        /// One of the flags.
        flags @ 4: u32,
        /// The descriptor.
        fd @ 8: i32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_WAIT` (`struct drm_syncobj_wait`); without the deadline before Linux 6.6.
    DrmSyncobjWait: 40 {
        /// User address of the handles.
        handles @ 0: u64,
        /// Time of `CLOCK_MONOTONIC` in nanoseconds at which the wait ends; with a time in the past, the call
        /// asks and does not wait.
        timeout_nsec @ 8: i64,
        /// Number of handles.
        count_handles @ 16: u32,
        /// `DRM_SYNCOBJ_WAIT_FLAGS_*`.
        flags @ 20: u32,
        /// The first that is over, of any.
        first_signaled @ 24: u32,
        /// Padding.
        pad @ 28: u32,
        /// Time at which it should be over.
        deadline_nsec @ 32: u64,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_TIMELINE_WAIT` (`struct drm_syncobj_timeline_wait`); without the deadline before Linux 6.6.
    DrmSyncobjTimelineWait: 48 {
        /// User address of the handles.
        handles @ 0: u64,
        /// User address of a point for each.
        points @ 8: u64,
        /// As for `SYNCOBJ_WAIT`.
        timeout_nsec @ 16: i64,
        /// Number of handles.
        count_handles @ 24: u32,
        /// `DRM_SYNCOBJ_WAIT_FLAGS_*`.
        flags @ 28: u32,
        /// The first that is over, of any.
        first_signaled @ 32: u32,
        /// Padding.
        pad @ 36: u32,
        /// Time at which it should be over.
        deadline_nsec @ 40: u64,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_RESET` and `SYNCOBJ_SIGNAL` (`struct drm_syncobj_array`).
    DrmSyncobjArray: 16 {
        /// User address of the handles.
        handles @ 0: u64,
        /// Number of handles.
        count_handles @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_QUERY` and `SYNCOBJ_TIMELINE_SIGNAL` (`struct drm_syncobj_timeline_array`).
    DrmSyncobjTimelineArray: 24 {
        /// User address of the handles.
        handles @ 0: u64,
        /// User address of a point for each.
        points @ 8: u64,
        /// Number of handles.
        count_handles @ 16: u32,
        /// `DRM_SYNCOBJ_QUERY_FLAGS_*`.
        flags @ 20: u32,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_TRANSFER` (`struct drm_syncobj_transfer`).
    DrmSyncobjTransfer: 32 {
        /// From this one.
        src_handle @ 0: u32,
        /// To this one.
        dst_handle @ 4: u32,
        /// This point, 0 for all.
        src_point @ 8: u64,
        /// As this point, 0 for a syncobj without points.
        dst_point @ 16: u64,
        /// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT`.
        flags @ 24: u32,
        /// Padding.
        pad @ 28: u32,
    }
}

uapi_struct! {
    /// Arguments of `SYNCOBJ_EVENTFD` (`struct drm_syncobj_eventfd`).
    DrmSyncobjEventfd: 24 {
        /// The syncobj.
        handle @ 0: u32,
        /// `DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE`.
        flags @ 4: u32,
        /// The point.
        point @ 8: u64,
        /// The eventfd.
        fd @ 16: i32,
        /// Padding.
        pad @ 20: u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfd::ioctl::ioc_size;

    #[test]
    fn commands_have_the_sizes_of_their_structures() {
        for (command, size) in [
            (DRM_IOCTL_SYNCOBJ_CREATE, size_of::<DrmSyncobjCreate>()),
            (DRM_IOCTL_SYNCOBJ_DESTROY, size_of::<DrmSyncobjCreate>()),
            (DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, size_of::<DrmSyncobjHandle>()),
            (DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, size_of::<DrmSyncobjHandle>()),
            (DRM_IOCTL_SYNCOBJ_WAIT, size_of::<DrmSyncobjWait>()),
            (DRM_IOCTL_SYNCOBJ_RESET, size_of::<DrmSyncobjArray>()),
            (DRM_IOCTL_SYNCOBJ_SIGNAL, size_of::<DrmSyncobjArray>()),
            (DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, size_of::<DrmSyncobjTimelineWait>()),
            (DRM_IOCTL_SYNCOBJ_QUERY, size_of::<DrmSyncobjTimelineArray>()),
            (DRM_IOCTL_SYNCOBJ_TRANSFER, size_of::<DrmSyncobjTransfer>()),
            (DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, size_of::<DrmSyncobjTimelineArray>()),
            (DRM_IOCTL_SYNCOBJ_EVENTFD, size_of::<DrmSyncobjEventfd>()),
        ] {
            assert_eq!(ioc_size(command), size, "{command:#x}");
        }
    }
}
