//! Offsets an `mmap` of the KFD node takes (`KFD_MMAP_*`, `drivers/gpu/drm/amd/amdkfd/kfd_priv.h`).

/// Bits 63:62 are the type.
pub const KFD_MMAP_TYPE_SHIFT: u32 = 62;
/// Doorbells of the process.
pub const KFD_MMAP_TYPE_DOORBELL: u64 = 3 << KFD_MMAP_TYPE_SHIFT;
/// Signal page.
pub const KFD_MMAP_TYPE_EVENTS: u64 = 2 << KFD_MMAP_TYPE_SHIFT;
/// Reserved memory, of old GPUs.
pub const KFD_MMAP_TYPE_RESERVED_MEM: u64 = 1 << KFD_MMAP_TYPE_SHIFT;
/// Page that flushes the host data path.
pub const KFD_MMAP_TYPE_MMIO: u64 = 0 << KFD_MMAP_TYPE_SHIFT;
/// The type bits.
pub const KFD_MMAP_TYPE_MASK: u64 = 3 << KFD_MMAP_TYPE_SHIFT;
/// Bits 61:46 are the GPU id.
pub const KFD_MMAP_GPU_ID_SHIFT: u32 = 46;

/// Size of a process's doorbell slice in bytes: 1024 doorbells of 8 bytes.
pub const KFD_DOORBELL_PROCESS_SLICE: u64 = 8192;

/// Composes an offset of the given type for a GPU.
#[must_use]
pub const fn kfd_mmap_offset(ty: u64, gpu_id: u16) -> u64 {
    ty | (gpu_id as u64) << KFD_MMAP_GPU_ID_SHIFT
}

/// Returns the GPU id in an offset.
#[must_use]
pub const fn kfd_mmap_gpu_id(offset: u64) -> u16 {
    ((offset & !KFD_MMAP_TYPE_MASK) >> KFD_MMAP_GPU_ID_SHIFT) as u16
}
