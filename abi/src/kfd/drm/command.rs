//! Commands of the render node: those of the amdgpu driver, and the DRM commands that it answers for compute
//! programs.

/// First number of the driver's own commands (`DRM_COMMAND_BASE`).
pub const DRM_COMMAND_BASE: u8 = 0x40;

macro_rules! commands {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = concat!("`DRM_IOCTL_AMDGPU_", stringify!($name), "`: ", $text)] pub const $name: u32 = $value;)*

        /// Every command of the driver with its name, in order of their numbers.
        pub const DRM_COMMANDS: &[(&str, u32)] = &[$((stringify!($name), $name),)*];
    };
}

commands! {
    GEM_CREATE = 0xc020_6440, "buffer object.";
    GEM_MMAP = 0xc008_6441, "where a buffer object is mapped for the processor.";
    CTX = 0xc010_6442, "contexts, which work is submitted in.";
    BO_LIST = 0xc018_6443, "lists of buffer objects.";
    CS = 0xc018_6444, "submits work.";
    INFO = 0x4020_6445, "questions about the device.";
    GEM_METADATA = 0xc120_6446, "what programs attach to a buffer object.";
    GEM_WAIT_IDLE = 0xc010_6447, "waits for the work that uses a buffer object.";
    GEM_VA = 0x4028_6448, "maps buffer objects for the GPU.";
    WAIT_CS = 0xc020_6449, "waits for work.";
    GEM_OP = 0xc010_6450, "how a buffer object was made, and where it should be.";
    GEM_USERPTR = 0xc018_6451, "buffer object of the caller's own memory.";
    WAIT_FENCES = 0xc018_6452, "waits for all or any of several pieces of work.";
    VM = 0xc008_6453, "the VMID of an address space.";
    FENCE_TO_HANDLE = 0xc020_6454, "makes work something that other processes wait for.";
    SCHED = 0x4010_6455, "priorities of others.";
}

/// `DRM_IOCTL_GEM_CLOSE`: gives a handle back.
pub const DRM_IOCTL_GEM_CLOSE: u32 = 0x4008_6409;
/// `DRM_IOCTL_GET_CAP`: asks for capabilities of DRM.
pub const DRM_IOCTL_GET_CAP: u32 = 0xc010_640c;
/// `DRM_IOCTL_PRIME_HANDLE_TO_FD`: a DMA-buf of a handle.
pub const DRM_IOCTL_PRIME_HANDLE_TO_FD: u32 = 0xc00c_642d;
/// `DRM_IOCTL_PRIME_FD_TO_HANDLE`: a handle of a DMA-buf.
pub const DRM_IOCTL_PRIME_FD_TO_HANDLE: u32 = 0xc00c_642e;
/// `DRM_IOCTL_MODE_GETRESOURCES`: connectors and other parts of displays, for nodes of displays alone.
pub const DRM_IOCTL_MODE_GETRESOURCES: u32 = 0xc040_64a0;
/// `DRM_CAP_PRIME`.
pub const DRM_CAP_PRIME: u64 = 5;
/// Answer to `DRM_CAP_PRIME`: import and export (`DRM_PRIME_CAP_IMPORT`, `DRM_PRIME_CAP_EXPORT`).
pub const DRM_PRIME_CAPS: u64 = 3;
/// `DRM_CAP_TIMESTAMP_MONOTONIC`, which is always 1.
pub const DRM_CAP_TIMESTAMP_MONOTONIC: u64 = 6;

uapi_struct! {
    /// Arguments of `GEM_CLOSE` (`struct drm_gem_close`).
    DrmGemClose: 8 {
        /// The handle.
        handle @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `GET_CAP` (`struct drm_get_cap`).
    DrmGetCap: 16 {
        /// `DRM_CAP_*`.
        capability @ 0: u64,
        /// The answer.
        value @ 8: u64,
    }
}

uapi_struct! {
    /// Arguments of both PRIME commands (`struct drm_prime_handle`).
    DrmPrimeHandle: 12 {
        /// The handle.
        handle @ 0: u32,
        /// `DRM_CLOEXEC`, `DRM_RDWR`.
        flags @ 4: u32,
        /// The descriptor.
        fd @ 8: i32,
    }
}

uapi_struct! {
    /// Arguments of `MODE_GETRESOURCES` (`struct drm_mode_card_res`).
    DrmModeCardRes: 64 {
        /// Addresses at which numbers of frame buffers, display controllers, connectors and encoders are wanted.
        pointers @ 0: [u64; 4],
        /// Counts of each, in that order.
        counts @ 32: [u32; 4],
        /// Width and height of a frame buffer: least and most width, least and most height.
        sizes @ 48: [u32; 4],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kfd::drm::{
        BoListIn, CsIn, CtxIn, DrmAmdgpuInfo, FenceToHandleIn, GemCreateIn, GemMetadataArgs, GemMmapArgs,
        GemOpArgs, GemUserptrArgs, GemVaArgs, GemWaitIdleIn, VmIn, WaitCsIn, WaitFencesIn,
    };
    use crate::kfd::ioctl::{ioc_nr, ioc_size};

    #[test]
    fn commands_grow_and_have_the_sizes_of_their_structures() {
        assert!(DRM_COMMANDS.is_sorted_by_key(|&(_, command)| ioc_nr(command)));
        assert!(DRM_COMMANDS.iter().all(|&(_, command)| ioc_nr(command) >= DRM_COMMAND_BASE));
        for (command, size) in [
            (GEM_CREATE, size_of::<GemCreateIn>()),
            (GEM_MMAP, size_of::<GemMmapArgs>()),
            (CTX, size_of::<CtxIn>()),
            (BO_LIST, size_of::<BoListIn>()),
            (CS, size_of::<CsIn>()),
            (WAIT_CS, size_of::<WaitCsIn>()),
            (WAIT_FENCES, size_of::<WaitFencesIn>()),
            (VM, size_of::<VmIn>()),
            (INFO, size_of::<DrmAmdgpuInfo>()),
            (GEM_METADATA, size_of::<GemMetadataArgs>()),
            (GEM_WAIT_IDLE, size_of::<GemWaitIdleIn>()),
            (GEM_VA, size_of::<GemVaArgs>()),
            (GEM_OP, size_of::<GemOpArgs>()),
            (GEM_USERPTR, size_of::<GemUserptrArgs>()),
            (FENCE_TO_HANDLE, size_of::<FenceToHandleIn>()),
            (DRM_IOCTL_GEM_CLOSE, size_of::<DrmGemClose>()),
            (DRM_IOCTL_GET_CAP, size_of::<DrmGetCap>()),
            (DRM_IOCTL_MODE_GETRESOURCES, size_of::<DrmModeCardRes>()),
            (DRM_IOCTL_PRIME_HANDLE_TO_FD, size_of::<DrmPrimeHandle>()),
            (DRM_IOCTL_PRIME_FD_TO_HANDLE, size_of::<DrmPrimeHandle>()),
        ] {
            assert_eq!(ioc_size(command), size, "{command:#x}");
        }
    }
}
