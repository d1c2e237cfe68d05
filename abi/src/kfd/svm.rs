//! Ranges of shared virtual memory: `kfd_ioctl_svm_args`, its attributes and their values.

uapi_struct! {
    /// One attribute (`struct kfd_ioctl_svm_attribute`).
    SvmAttribute: 8 {
        /// One of `KFD_IOCTL_SVM_ATTR_*`; `type` in the header.
        kind @ 0: u32,
        /// In or out.
        value @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `SVM` (`struct kfd_ioctl_svm_args`); `nattr` attributes follow them.
    SvmArgs: 24 {
        /// First byte, at the start of a page.
        start_addr @ 0: u64,
        /// Bytes, whole pages.
        size @ 8: u64,
        /// One of `KFD_IOCTL_SVM_OP_*`.
        op @ 16: u32,
        /// Number of attributes.
        nattr @ 20: u32,
    }
}

/// Sets attributes.
pub const KFD_IOCTL_SVM_OP_SET_ATTR: u32 = 0;
/// Asks for them.
pub const KFD_IOCTL_SVM_OP_GET_ATTR: u32 = 1;

/// Preferred location of a range: a GPU's id or a location.
pub const KFD_IOCTL_SVM_ATTR_PREFERRED_LOC: u32 = 0;
/// Location that a range is to be moved to now.
pub const KFD_IOCTL_SVM_ATTR_PREFETCH_LOC: u32 = 1;
/// The GPU may access the range, wherever it is.
pub const KFD_IOCTL_SVM_ATTR_ACCESS: u32 = 2;
/// The GPU may access the range, which does not move for that.
pub const KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE: u32 = 3;
/// The GPU may not access the range.
pub const KFD_IOCTL_SVM_ATTR_NO_ACCESS: u32 = 4;
/// Flags to set.
pub const KFD_IOCTL_SVM_ATTR_SET_FLAGS: u32 = 5;
/// Flags to clear.
pub const KFD_IOCTL_SVM_ATTR_CLR_FLAGS: u32 = 6;
/// Logarithm of the pages that move together.
pub const KFD_IOCTL_SVM_ATTR_GRANULARITY: u32 = 7;

/// The location that is system memory.
pub const KFD_IOCTL_SVM_LOCATION_SYSMEM: u32 = 0;
/// The location that is none.
pub const KFD_IOCTL_SVM_LOCATION_UNDEFINED: u32 = 0xffff_ffff;

/// Guarantee host access.
pub const KFD_IOCTL_SVM_FLAG_HOST_ACCESS: u32 = 1;
/// Fine-grained coherency between all devices.
pub const KFD_IOCTL_SVM_FLAG_COHERENT: u32 = 2;
/// GPUs only read.
pub const KFD_IOCTL_SVM_FLAG_GPU_RO: u32 = 8;
/// GPUs may execute from it.
pub const KFD_IOCTL_SVM_FLAG_GPU_EXEC: u32 = 0x10;
/// The range stays mapped, even where GPUs retry faults.
pub const KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED: u32 = 0x40;
/// Fine-grained coherency with remote devices; of later headers than 6.6's.
pub const KFD_IOCTL_SVM_FLAG_EXT_COHERENT: u32 = 0x80;
