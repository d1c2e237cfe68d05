//! Buffer objects of the render node: making and mapping them, and their metadata.

/// Memory of the processor (`AMDGPU_GEM_DOMAIN_CPU`).
pub const AMDGPU_GEM_DOMAIN_CPU: u64 = 0x1;
/// System memory that the GPU reaches.
pub const AMDGPU_GEM_DOMAIN_GTT: u64 = 0x2;
/// VRAM.
pub const AMDGPU_GEM_DOMAIN_VRAM: u64 = 0x4;
/// Global data share.
pub const AMDGPU_GEM_DOMAIN_GDS: u64 = 0x8;
/// Global wave sync.
pub const AMDGPU_GEM_DOMAIN_GWS: u64 = 0x10;
/// Ordered append.
pub const AMDGPU_GEM_DOMAIN_OA: u64 = 0x20;

bitflags::bitflags! {
    /// Options of a new buffer object (`AMDGPU_GEM_CREATE_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GemCreateFlags: u64 {
        /// The processor has to reach it.
        const CPU_ACCESS_REQUIRED = 1 << 0;
        /// The processor will not map it.
        const NO_CPU_ACCESS = 1 << 1;
        /// Write-combined in system memory.
        const CPU_GTT_USWC = 1 << 2;
        /// Zeroed.
        const VRAM_CLEARED = 1 << 3;
        /// One piece; for the kernel's own.
        const VRAM_CONTIGUOUS = 1 << 5;
        /// Work need not name it; it belongs to the address space.
        const VM_ALWAYS_VALID = 1 << 6;
        /// Other users of the buffer object do not wait implicitly.
        const EXPLICIT_SYNC = 1 << 7;
        /// Encrypted.
        const ENCRYPTED = 1 << 10;
        /// The contents may be discarded.
        const DISCARDABLE = 1 << 12;
        /// Compression of gfx12.
        const GFX12_DCC = 1 << 16;
    }
}

uapi_struct! {
    /// Arguments of `GEM_CREATE` (`struct drm_amdgpu_gem_create_in`), and the answer of `GEM_OP` about an
    /// object.
    GemCreateIn: 32 {
        /// Bytes.
        bo_size @ 0: u64,
        /// Alignment of its place in bytes.
        alignment @ 8: u64,
        /// `AMDGPU_GEM_DOMAIN_*`.
        domains @ 16: u64,
        /// [`GemCreateFlags`].
        domain_flags @ 24: u64,
    }
}

uapi_struct! {
    /// Answer of `GEM_CREATE` (`struct drm_amdgpu_gem_create_out`).
    GemCreateOut: 8 {
        /// The new handle.
        handle @ 0: u32,
        /// Padding.
        pad @ 4: u32,
    }
}

uapi_struct! {
    /// Arguments of `GEM_MMAP` (`union drm_amdgpu_gem_mmap`): the handle, or the offset that is answered.
    GemMmapArgs: 8 {
        /// Handle in the lower half; offset for `mmap`.
        value @ 0: u64,
    }
}

/// Most bytes that programs attach to a buffer object.
pub const AMDGPU_GEM_METADATA_BYTES: usize = 256;
/// Attaches.
pub const AMDGPU_GEM_METADATA_OP_SET_METADATA: u32 = 1;
/// Reads the metadata that is attached.
pub const AMDGPU_GEM_METADATA_OP_GET_METADATA: u32 = 2;

uapi_struct! {
    /// Arguments of `GEM_METADATA` (`struct drm_amdgpu_gem_metadata`).
    GemMetadataArgs: 288 {
        /// The buffer object.
        handle @ 0: u32,
        /// `AMDGPU_GEM_METADATA_OP_*`.
        op @ 4: u32,
        /// The creator's flags, which the driver keeps and does not read.
        flags @ 8: u64,
        /// Tiling.
        tiling_info @ 16: u64,
        /// Bytes of `data` in use.
        data_size_bytes @ 24: u32,
        /// The creator's data, which the driver keeps and does not read.
        data @ 28: [[u32; 16]; 4],
        /// Padding the C compiler inserts.
        pad @ 284: u32,
    }
}

uapi_struct! {
    /// Arguments of `GEM_WAIT_IDLE` (`struct drm_amdgpu_gem_wait_idle_in`).
    GemWaitIdleIn: 16 {
        /// The buffer object.
        handle @ 0: u32,
        /// None yet.
        flags @ 4: u32,
        /// Time of `CLOCK_MONOTONIC` in nanoseconds at which the wait ends; negative ones wait for ever.
        timeout @ 8: u64,
    }
}

uapi_struct! {
    /// Answer of `GEM_WAIT_IDLE` (`struct drm_amdgpu_gem_wait_idle_out`).
    GemWaitIdleOut: 8 {
        /// 1: still in use.
        status @ 0: u32,
        /// Domain that it is in.
        domain @ 4: u32,
    }
}

/// Maps.
pub const AMDGPU_VA_OP_MAP: u32 = 1;
/// Removes the mapping of one MAP.
pub const AMDGPU_VA_OP_UNMAP: u32 = 2;
/// Unmaps a range with all mappings in it.
pub const AMDGPU_VA_OP_CLEAR: u32 = 3;
/// Maps, in place of all mappings in the range.
pub const AMDGPU_VA_OP_REPLACE: u32 = 4;

bitflags::bitflags! {
    /// Options of a mapping (`AMDGPU_VM_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GemVaFlags: u32 {
        /// The page tables may be written later.
        const DELAY_UPDATE = 1 << 0;
        /// May be read.
        const READABLE = 1 << 1;
        /// May be written.
        const WRITEABLE = 1 << 2;
        /// May be executed.
        const EXECUTABLE = 1 << 3;
        /// Nothing is there, and accesses are no errors.
        const PRT = 1 << 4;
        /// Bits of the memory type.
        const MTYPE = 0xf << 5;
        /// The last-level cache is not to keep it.
        const NOALLOC = 1 << 9;
    }
}

/// The memory type "uncached", among the bits of [`GemVaFlags::MTYPE`].
pub const AMDGPU_VM_MTYPE_UC: u32 = 4 << 5;

uapi_struct! {
    /// Arguments of `GEM_VA` (`struct drm_amdgpu_gem_va`).
    GemVaArgs: 40 {
        /// The buffer object.
        handle @ 0: u32,
        /// Padding.
        pad @ 4: u32,
        /// `AMDGPU_VA_OP_*`.
        operation @ 8: u32,
        /// [`GemVaFlags`].
        flags @ 12: u32,
        /// Address for the GPU.
        va_address @ 16: u64,
        /// Offset of the range in the buffer object.
        offset_in_bo @ 24: u64,
        /// Bytes.
        map_size @ 32: u64,
    }
}

/// Tells how a buffer object was made.
pub const AMDGPU_GEM_OP_GET_GEM_CREATE_INFO: u32 = 0;
/// Says where it should be.
pub const AMDGPU_GEM_OP_SET_PLACEMENT: u32 = 1;

uapi_struct! {
    /// Arguments of `GEM_OP` (`struct drm_amdgpu_gem_op`).
    GemOpArgs: 16 {
        /// The buffer object.
        handle @ 0: u32,
        /// `AMDGPU_GEM_OP_*`.
        op @ 4: u32,
        /// A pointer to [`GemCreateIn`], or domains.
        value @ 8: u64,
    }
}

bitflags::bitflags! {
    /// Options of a buffer object of the caller's own memory (`AMDGPU_GEM_USERPTR_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct GemUserptrFlags: u32 {
        /// The GPU does not write to it.
        const READONLY = 1 << 0;
        /// Memory of files is refused.
        const ANONONLY = 1 << 1;
        /// The memory has to be there now.
        const VALIDATE = 1 << 2;
        /// The driver is to hear of changes.
        const REGISTER = 1 << 3;
    }
}

uapi_struct! {
    /// Arguments of `GEM_USERPTR` (`struct drm_amdgpu_gem_userptr`).
    GemUserptrArgs: 24 {
        /// User address, at the start of a page.
        addr @ 0: u64,
        /// Bytes, whole pages.
        size @ 8: u64,
        /// [`GemUserptrFlags`].
        flags @ 16: u32,
        /// The new handle.
        handle @ 20: u32,
    }
}
