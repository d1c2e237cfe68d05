//! Buffer objects: `kfd_ioctl_alloc_memory_of_gpu_args` and its like.

uapi_struct! {
    /// Arguments of `ACQUIRE_VM` (`struct kfd_ioctl_acquire_vm_args`).
    AcquireVmArgs: 8 {
        /// File descriptor of the render node.
        drm_fd @ 0: u32,
        /// GPU.
        gpu_id @ 4: u32,
    }
}

bitflags::bitflags! {
    /// Kind and properties of a buffer object (`KFD_IOC_ALLOC_MEM_FLAGS_*`).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct AllocFlags: u32 {
        /// In VRAM.
        const VRAM = 1 << 0;
        /// In system memory of the driver.
        const GTT = 1 << 1;
        /// The caller's own memory.
        const USERPTR = 1 << 2;
        /// The process's doorbells.
        const DOORBELL = 1 << 3;
        /// The page that flushes the host data path.
        const MMIO_REMAP = 1 << 4;
        /// Contiguous in VRAM.
        const CONTIGUOUS = 1 << 23;
        /// Coherent between GPUs too.
        const EXT_COHERENT = 1 << 24;
        /// Not cached.
        const UNCACHED = 1 << 25;
        /// Coherent with the processors.
        const COHERENT = 1 << 26;
        /// Memory of an AQL ring (mapped twice on GPUs before gfx9).
        const AQL_QUEUE_MEM = 1 << 27;
        /// May not live elsewhere.
        const NO_SUBSTITUTE = 1 << 28;
        /// VRAM the processor may map.
        const PUBLIC = 1 << 29;
        /// The GPU may execute it.
        const EXECUTABLE = 1 << 30;
        /// The GPU may write it.
        const WRITABLE = 1 << 31;
    }
}

uapi_struct! {
    /// Arguments of `ALLOC_MEMORY_OF_GPU` (`struct kfd_ioctl_alloc_memory_of_gpu_args`).
    AllocMemoryOfGpuArgs: 40 {
        /// Address in the GPU's address space.
        va_addr @ 0: u64,
        /// Size in bytes.
        size @ 8: u64,
        /// Out: handle, GPU id in the upper half.
        handle @ 16: u64,
        /// In: user address for `USERPTR`. Out: offset to `mmap`.
        mmap_offset @ 24: u64,
        /// GPU.
        gpu_id @ 32: u32,
        /// [`AllocFlags`].
        flags @ 36: u32,
    }
}

uapi_struct! {
    /// Arguments of `FREE_MEMORY_OF_GPU` (`struct kfd_ioctl_free_memory_of_gpu_args`).
    FreeMemoryOfGpuArgs: 8 {
        /// Handle.
        handle @ 0: u64,
    }
}

uapi_struct! {
    /// Arguments of `MAP_MEMORY_TO_GPU` and `UNMAP_MEMORY_FROM_GPU` (`struct kfd_ioctl_map_memory_to_gpu_args`).
    MapMemoryToGpuArgs: 24 {
        /// Handle.
        handle @ 0: u64,
        /// User address of the array of GPU ids.
        device_ids_array_ptr @ 8: u64,
        /// Its length.
        n_devices @ 16: u32,
        /// In and out: how many of them are done.
        n_success @ 20: u32,
    }
}

uapi_struct! {
    /// Arguments of `GET_DMABUF_INFO` (`struct kfd_ioctl_get_dmabuf_info_args`).
    GetDmabufInfoArgs: 32 {
        /// Out: size in bytes.
        size @ 0: u64,
        /// User address of a buffer for the metadata, 0 for none.
        metadata_ptr @ 8: u64,
        /// In: bytes of that buffer. Out: bytes of the metadata.
        metadata_size @ 16: u32,
        /// Out: GPU of the memory.
        gpu_id @ 20: u32,
        /// Out: [`AllocFlags`], of which only `VRAM`, `GTT` and `PUBLIC` are reported.
        flags @ 24: u32,
        /// Descriptor.
        dmabuf_fd @ 28: u32,
    }
}

uapi_struct! {
    /// Arguments of `IMPORT_DMABUF` (`struct kfd_ioctl_import_dmabuf_args`).
    ImportDmabufArgs: 24 {
        /// Address in the GPU's address space.
        va_addr @ 0: u64,
        /// Out: handle.
        handle @ 8: u64,
        /// GPU.
        gpu_id @ 16: u32,
        /// Descriptor.
        dmabuf_fd @ 20: u32,
    }
}

uapi_struct! {
    /// Arguments of `EXPORT_DMABUF` (`struct kfd_ioctl_export_dmabuf_args`).
    ExportDmabufArgs: 16 {
        /// Handle.
        handle @ 0: u64,
        /// Flags of the descriptor: `O_CLOEXEC`.
        flags @ 8: u32,
        /// Out: descriptor.
        dmabuf_fd @ 12: u32,
    }
}

uapi_struct! {
    /// Arguments of `IPC_IMPORT_HANDLE` (`struct kfd_ioctl_ipc_import_handle_args` of AMD's own kernel module).
    IpcImportHandleArgs: 48 {
        /// Out: handle.
        handle @ 0: u64,
        /// Address in the GPU's address space.
        va_addr @ 8: u64,
        /// Out: offset to `mmap`.
        mmap_offset @ 16: u64,
        /// Handle that `IPC_EXPORT_HANDLE` has given.
        share_handle @ 24: [u32; 4],
        /// GPU.
        gpu_id @ 40: u32,
        /// Out: the exporter's flags.
        flags @ 44: u32,
    }
}

uapi_struct! {
    /// Arguments of `IPC_EXPORT_HANDLE` (`struct kfd_ioctl_ipc_export_handle_args` of AMD's own kernel module).
    IpcExportHandleArgs: 32 {
        /// Handle.
        handle @ 0: u64,
        /// Out: handle that names the memory in other processes.
        share_handle @ 8: [u32; 4],
        /// GPU.
        gpu_id @ 24: u32,
        /// Flags for importers.
        flags @ 28: u32,
    }
}

uapi_struct! {
    /// Arguments of `AVAILABLE_MEMORY` (`struct kfd_ioctl_get_available_memory_args`).
    GetAvailableMemoryArgs: 16 {
        /// Out: bytes.
        available @ 0: u64,
        /// GPU.
        gpu_id @ 8: u32,
        /// Padding.
        pad @ 12: u32,
    }
}
