//! Answers of the render node (`include/uapi/drm/amdgpu_drm.h`); here `struct drm_amdgpu_info` and `struct
//! drm_amdgpu_info_device`.

mod command;
mod gem;
mod query;
mod submit;
mod sync_file;
mod syncobj;

pub use command::*;
pub use gem::*;
pub use query::*;
pub use submit::*;
pub use sync_file::*;
pub use syncobj::*;

/// `DRM_IOCTL_VERSION`.
pub const DRM_IOCTL_VERSION: u32 = 0xc040_6400;
/// Name of the driver, for `VERSION`.
pub const DRM_DRIVER_NAME: &str = "amdgpu";
/// Major version of the driver, for `VERSION`.
pub const DRM_DRIVER_MAJOR: u32 = 3;
/// Minor version of the driver, for `VERSION` (Linux 6.12).
pub const DRM_DRIVER_MINOR: u32 = 61;

uapi_struct! {
    /// Arguments of `AMDGPU_INFO` (`struct drm_amdgpu_info`).
    DrmAmdgpuInfo: 32 {
        /// User address of the answer.
        return_pointer @ 0: u64,
        /// Bytes to write at most.
        return_size @ 8: u32,
        /// One of `AMDGPU_INFO_*`.
        query @ 12: u32,
        /// The union; for `READ_MMR_REG`: dword offset, count, instance, flags.
        args @ 16: [u32; 4],
    }
}

/// Family of Vega and its successors, MI300X among them (`AMDGPU_FAMILY_AI`).
pub const AMDGPU_FAMILY_AI: u32 = 141;
/// Family of GC 11.0.0 (`AMDGPU_FAMILY_GC_11_0_0`).
pub const AMDGPU_FAMILY_GC_11_0_0: u32 = 145;
/// Family of GC 11.5 (`AMDGPU_FAMILY_GC_11_5_0`).
pub const AMDGPU_FAMILY_GC_11_5_0: u32 = 150;
/// Family of GC 12.0.0 and 12.0.1 (`AMDGPU_FAMILY_GC_12_0_0`).
pub const AMDGPU_FAMILY_GC_12_0_0: u32 = 152;
/// HBM (`AMDGPU_VRAM_TYPE_HBM`).
pub const AMDGPU_VRAM_TYPE_HBM: u32 = 6;
/// GDDR6 (`AMDGPU_VRAM_TYPE_GDDR6`).
pub const AMDGPU_VRAM_TYPE_GDDR6: u32 = 9;
/// LPDDR5 (`AMDGPU_VRAM_TYPE_LPDDR5`).
pub const AMDGPU_VRAM_TYPE_LPDDR5: u32 = 12;
/// GPU and processor share a package and its memory (`AMDGPU_IDS_FLAGS_FUSION`).
pub const AMDGPU_IDS_FLAGS_FUSION: u64 = 1;

uapi_struct! {
    /// Properties of the device (`struct drm_amdgpu_info_device`); shorter in older headers, so callers get a
    /// prefix.
    DrmAmdgpuInfoDevice: 448 {
        /// PCI device id.
        device_id @ 0: u32,
        /// Revision inside the driver.
        chip_rev @ 4: u32,
        /// Revision outside.
        external_rev @ 8: u32,
        /// PCI revision id.
        pci_rev @ 12: u32,
        /// `AMDGPU_FAMILY_*`.
        family @ 16: u32,
        /// Shader engines.
        num_shader_engines @ 20: u32,
        /// Shader arrays of each.
        num_shader_arrays_per_engine @ 24: u32,
        /// Frequency of the golden counter in kHz.
        gpu_counter_freq @ 28: u32,
        /// kHz.
        max_engine_clock @ 32: u64,
        /// kHz.
        max_memory_clock @ 40: u64,
        /// Compute units.
        cu_active_number @ 48: u32,
        /// Always-on compute units.
        cu_ao_mask @ 52: u32,
        /// Compute units by shader engine and shader array.
        cu_bitmap @ 56: [[u32; 4]; 4],
        /// Enabled render backends.
        enabled_rb_pipes_mask @ 120: u32,
        /// Render backends.
        num_rb_pipes @ 124: u32,
        /// Hardware graphics contexts.
        num_hw_gfx_contexts @ 128: u32,
        /// PCIe generation.
        pcie_gen @ 132: u32,
        /// Bit 0: fused with the processor.
        ids_flags @ 136: u64,
        /// First address a client may use.
        virtual_address_offset @ 144: u64,
        /// First address a client may not use.
        virtual_address_max @ 152: u64,
        /// Alignment of addresses.
        virtual_address_alignment @ 160: u32,
        /// Fragment size of page table entries in bytes.
        pte_fragment_size @ 164: u32,
        /// Page size of system memory mappings.
        gart_page_size @ 168: u32,
        /// Constant engine memory in bytes.
        ce_ram_size @ 172: u32,
        /// `AMDGPU_VRAM_TYPE_*`.
        vram_type @ 176: u32,
        /// Width of the memory bus in bits.
        vram_bit_width @ 180: u32,
        /// Media engine harvesting, and graphics buffers after it, which this device has not.
        vce_harvest_config @ 184: u32,
        /// Tessellation buffer.
        gc_double_offchip_lds_buf @ 188: u32,
        /// Primitive buffer.
        prim_buf_gpu_addr @ 192: u64,
        /// Position buffer.
        pos_buf_gpu_addr @ 200: u64,
        /// Control sideband buffer.
        cntl_sb_buf_gpu_addr @ 208: u64,
        /// Parameter buffer.
        param_buf_gpu_addr @ 216: u64,
        /// Size of the primitive buffer.
        prim_buf_size @ 224: u32,
        /// Size of the position buffer.
        pos_buf_size @ 228: u32,
        /// Size of the control sideband buffer.
        cntl_sb_buf_size @ 232: u32,
        /// Size of the parameter buffer.
        param_buf_size @ 236: u32,
        /// Lanes of a wave.
        wave_front_size @ 240: u32,
        /// Visible vector registers.
        num_shader_visible_vgprs @ 244: u32,
        /// Compute units of a shader array.
        num_cu_per_sh @ 248: u32,
        /// Texture channel caches.
        num_tcc_blocks @ 252: u32,
        /// Depth of the vertex group table.
        gs_vgt_table_depth @ 256: u32,
        /// Depth of the primitive buffer.
        gs_prim_buffer_depth @ 260: u32,
        /// Waves of the geometry front end.
        max_gs_waves_per_vgt @ 264: u32,
        /// Padding of Linux 6.12; PCIe lanes later.
        pcie_num_lanes @ 268: u32,
        /// Always-on compute units by shader engine and shader array.
        cu_ao_bitmap @ 272: [[u32; 4]; 4],
        /// First address above the hole.
        high_va_offset @ 336: u64,
        /// End of the addresses above the hole.
        high_va_max @ 344: u64,
        /// Primitive assembly tile steering.
        pa_sc_tile_steering_override @ 352: u32,
        /// Padding the C compiler inserts.
        pad0 @ 356: u32,
        /// Texture channel caches that are off.
        tcc_disabled_mask @ 360: u64,
        /// kHz.
        min_engine_clock @ 368: u64,
        /// kHz.
        min_memory_clock @ 376: u64,
        /// KiB.
        tcp_cache_size @ 384: u32,
        /// Scalar data caches of a work-group processor.
        num_sqc_per_wgp @ 388: u32,
        /// KiB.
        sqc_data_cache_size @ 392: u32,
        /// KiB.
        sqc_inst_cache_size @ 396: u32,
        /// KiB.
        gl1c_cache_size @ 400: u32,
        /// KiB.
        gl2c_cache_size @ 404: u32,
        /// Bytes of the memory-attached last-level cache.
        mall_size @ 408: u64,
        /// High bits of the render backend mask.
        enabled_rb_pipes_mask_hi @ 416: u32,
        /// Bytes; graphics only.
        shadow_size @ 420: u32,
        /// Bytes; graphics only.
        shadow_alignment @ 424: u32,
        /// Bytes; graphics only.
        csa_size @ 428: u32,
        /// Bytes; graphics only.
        csa_alignment @ 432: u32,
        /// User queues by block.
        userq_ip_mask @ 436: u32,
        /// Padding.
        pad @ 440: [u32; 2],
    }
}

uapi_struct! {
    /// One heap (`struct drm_amdgpu_heap_info`), in bytes.
    DrmAmdgpuHeapInfo: 32 {
        /// Size.
        total_heap_size @ 0: u64,
        /// Size without the driver's own share.
        usable_heap_size @ 8: u64,
        /// Used.
        heap_usage @ 16: u64,
        /// Largest allocation.
        max_allocation @ 24: u64,
    }
}

uapi_struct! {
    /// The three heaps (`struct drm_amdgpu_memory_info`).
    DrmAmdgpuMemoryInfo: 96 {
        /// VRAM.
        vram @ 0: DrmAmdgpuHeapInfo,
        /// VRAM the processor reaches.
        cpu_accessible_vram @ 32: DrmAmdgpuHeapInfo,
        /// System memory.
        gtt @ 64: DrmAmdgpuHeapInfo,
    }
}
