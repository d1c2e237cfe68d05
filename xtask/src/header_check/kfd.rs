//! `linux/kfd_ioctl.h` and `drm/amdgpu_drm.h`: the driver's interface for programs.

use belfry_abi::kfd::{aperture, drm, event, ioctl, memory, misc, queue, smi, svm};

use super::{Constant, Group, constants, layout};

/// Everything the user interface must agree with.
pub(super) fn group() -> Group {
    Group {
        includes: vec!["<linux/kfd_ioctl.h>", "<drm/amdgpu_drm.h>"],
        layouts: vec![
            layout!(
                "struct kfd_process_device_apertures",
                aperture::ProcessDeviceApertures {
                    lds_base,
                    lds_limit,
                    scratch_base,
                    scratch_limit,
                    gpuvm_base,
                    gpuvm_limit,
                    gpu_id
                }
            ),
            layout!(
                "struct kfd_ioctl_get_process_apertures_args",
                aperture::GetProcessAperturesArgs { process_apertures, num_of_nodes }
            ),
            layout!(
                "struct kfd_ioctl_get_process_apertures_new_args",
                aperture::GetProcessAperturesNewArgs { kfd_process_device_apertures_ptr, num_of_nodes }
            ),
            layout!(
                "struct kfd_ioctl_create_event_args",
                event::CreateEventArgs {
                    event_page_offset,
                    event_trigger_data,
                    event_type,
                    auto_reset,
                    node_id,
                    event_id,
                    event_slot_index
                }
            ),
            layout!("struct kfd_ioctl_smi_events_args", smi::SmiEventsArgs { gpuid, anon_fd }),
            layout!("struct kfd_ioctl_svm_attribute", svm::SvmAttribute { kind: "type", value }),
            layout!("struct kfd_ioctl_svm_args", svm::SvmArgs { start_addr, size, op, nattr }),
            layout!("struct kfd_ioctl_destroy_event_args", event::EventIdArgs { event_id }),
            layout!(
                "struct kfd_memory_exception_failure",
                event::MemoryExceptionFailure {
                    not_present: "NotPresent",
                    read_only: "ReadOnly",
                    no_execute: "NoExecute",
                    imprecise
                }
            ),
            layout!(
                "struct kfd_hsa_memory_exception_data",
                event::MemoryExceptionData { failure, va, gpu_id, error_type: "ErrorType" }
            ),
            layout!(
                "struct kfd_hsa_hw_exception_data",
                event::HwExceptionData { reset_type, reset_cause, memory_lost, gpu_id }
            ),
            layout!(
                "struct kfd_event_data",
                event::EventData { data: "memory_exception_data", kfd_event_data_ext, event_id }
            ),
            layout!(
                "struct kfd_ioctl_wait_events_args",
                event::WaitEventsArgs { events_ptr, num_events, wait_for_all, timeout, wait_result }
            ),
            layout!("struct kfd_ioctl_acquire_vm_args", memory::AcquireVmArgs { drm_fd, gpu_id }),
            layout!(
                "struct kfd_ioctl_alloc_memory_of_gpu_args",
                memory::AllocMemoryOfGpuArgs { va_addr, size, handle, mmap_offset, gpu_id, flags }
            ),
            layout!("struct kfd_ioctl_free_memory_of_gpu_args", memory::FreeMemoryOfGpuArgs { handle }),
            layout!(
                "struct kfd_ioctl_map_memory_to_gpu_args",
                memory::MapMemoryToGpuArgs { handle, device_ids_array_ptr, n_devices, n_success }
            ),
            layout!(
                "struct kfd_ioctl_get_dmabuf_info_args",
                memory::GetDmabufInfoArgs { size, metadata_ptr, metadata_size, gpu_id, flags, dmabuf_fd }
            ),
            layout!(
                "struct kfd_ioctl_import_dmabuf_args",
                memory::ImportDmabufArgs { va_addr, handle, gpu_id, dmabuf_fd }
            ),
            layout!(
                "struct kfd_ioctl_export_dmabuf_args",
                memory::ExportDmabufArgs { handle, flags, dmabuf_fd }
            ),
            layout!(
                "struct kfd_ioctl_get_available_memory_args",
                memory::GetAvailableMemoryArgs { available, gpu_id }
            ),
            layout!(
                "struct kfd_ioctl_get_version_args",
                misc::GetVersionArgs { major_version, minor_version }
            ),
            layout!(
                "struct kfd_ioctl_set_memory_policy_args",
                misc::SetMemoryPolicyArgs {
                    alternate_aperture_base,
                    alternate_aperture_size,
                    gpu_id,
                    default_policy,
                    alternate_policy,
                    misc_process_flag
                }
            ),
            layout!(
                "struct kfd_ioctl_get_clock_counters_args",
                misc::GetClockCountersArgs {
                    gpu_clock_counter,
                    cpu_clock_counter,
                    system_clock_counter,
                    system_clock_freq,
                    gpu_id
                }
            ),
            layout!(
                "struct kfd_ioctl_set_scratch_backing_va_args",
                misc::SetScratchBackingVaArgs { va_addr, gpu_id }
            ),
            layout!(
                "struct kfd_ioctl_get_tile_config_args",
                misc::GetTileConfigArgs {
                    tile_config_ptr,
                    macro_tile_config_ptr,
                    num_tile_configs,
                    num_macro_tile_configs,
                    gpu_id,
                    gb_addr_config,
                    num_banks,
                    num_ranks
                }
            ),
            layout!(
                "struct kfd_ioctl_set_trap_handler_args",
                misc::SetTrapHandlerArgs { tba_addr, tma_addr, gpu_id }
            ),
            layout!("struct kfd_ioctl_set_xnack_mode_args", misc::SetXnackModeArgs { xnack_enabled }),
            layout!(
                "struct kfd_ioctl_create_queue_args",
                queue::CreateQueueArgs {
                    ring_base_address,
                    write_pointer_address,
                    read_pointer_address,
                    doorbell_offset,
                    ring_size,
                    gpu_id,
                    queue_type,
                    queue_percentage,
                    queue_priority,
                    queue_id,
                    eop_buffer_address,
                    eop_buffer_size,
                    ctx_save_restore_address,
                    ctx_save_restore_size,
                    ctl_stack_size,
                    sdma_engine_id,
                    metadata_ring_size
                }
            ),
            layout!("struct kfd_ioctl_destroy_queue_args", queue::DestroyQueueArgs { queue_id }),
            layout!(
                "struct kfd_ioctl_update_queue_args",
                queue::UpdateQueueArgs {
                    ring_base_address,
                    queue_id,
                    ring_size,
                    queue_percentage,
                    queue_priority
                }
            ),
            layout!(
                "struct kfd_ioctl_alloc_queue_gws_args",
                queue::AllocQueueGwsArgs { queue_id, num_gws, first_gws, pad }
            ),
            layout!(
                "struct kfd_ioctl_get_queue_wave_state_args",
                queue::GetQueueWaveStateArgs {
                    ctl_stack_address,
                    ctl_stack_used_size,
                    save_area_used_size,
                    queue_id,
                    pad
                }
            ),
            layout!(
                "struct kfd_context_save_area_header",
                queue::ContextSaveAreaHeader {
                    debug_offset,
                    debug_size,
                    err_payload_addr,
                    err_event_id,
                    reserved1
                }
            ),
            layout!(
                "struct kfd_ioctl_set_cu_mask_args",
                queue::SetCuMaskArgs { queue_id, num_cu_mask, cu_mask_ptr }
            ),
            layout!("struct drm_amdgpu_info", drm::DrmAmdgpuInfo { return_pointer, return_size, query }),
            layout!(
                "struct drm_amdgpu_info_device",
                drm::DrmAmdgpuInfoDevice {
                    device_id,
                    chip_rev,
                    external_rev,
                    pci_rev,
                    family,
                    num_shader_engines,
                    num_shader_arrays_per_engine,
                    gpu_counter_freq,
                    max_engine_clock,
                    max_memory_clock,
                    cu_active_number,
                    cu_ao_mask,
                    cu_bitmap,
                    enabled_rb_pipes_mask,
                    num_rb_pipes,
                    num_hw_gfx_contexts,
                    pcie_gen,
                    ids_flags,
                    virtual_address_offset,
                    virtual_address_max,
                    virtual_address_alignment,
                    pte_fragment_size,
                    gart_page_size,
                    ce_ram_size,
                    vram_type,
                    vram_bit_width,
                    vce_harvest_config,
                    gc_double_offchip_lds_buf,
                    prim_buf_gpu_addr,
                    pos_buf_gpu_addr,
                    cntl_sb_buf_gpu_addr,
                    param_buf_gpu_addr,
                    prim_buf_size,
                    pos_buf_size,
                    cntl_sb_buf_size,
                    param_buf_size,
                    wave_front_size,
                    num_shader_visible_vgprs,
                    num_cu_per_sh,
                    num_tcc_blocks,
                    gs_vgt_table_depth,
                    gs_prim_buffer_depth,
                    max_gs_waves_per_vgt,
                    pcie_num_lanes,
                    cu_ao_bitmap,
                    high_va_offset,
                    high_va_max,
                    pa_sc_tile_steering_override,
                    tcc_disabled_mask,
                    min_engine_clock,
                    min_memory_clock,
                    tcp_cache_size,
                    num_sqc_per_wgp,
                    sqc_data_cache_size,
                    sqc_inst_cache_size,
                    gl1c_cache_size,
                    gl2c_cache_size,
                    mall_size,
                    enabled_rb_pipes_mask_hi,
                    shadow_size,
                    shadow_alignment,
                    csa_size,
                    csa_alignment,
                    userq_ip_mask
                }
            )
            .fields_only(),
            layout!(
                "struct drm_amdgpu_heap_info",
                drm::DrmAmdgpuHeapInfo { total_heap_size, usable_heap_size, heap_usage, max_allocation }
            ),
            layout!(
                "struct drm_amdgpu_memory_info",
                drm::DrmAmdgpuMemoryInfo { vram, cpu_accessible_vram, gtt }
            ),
            layout!(
                "struct drm_amdgpu_gem_create_in",
                drm::GemCreateIn { bo_size, alignment, domains, domain_flags }
            ),
            layout!("struct drm_amdgpu_gem_create_out", drm::GemCreateOut { handle }),
            layout!("struct drm_amdgpu_gem_metadata", drm::GemMetadataArgs { handle, op }),
            layout!("struct drm_amdgpu_gem_wait_idle_in", drm::GemWaitIdleIn { handle, flags, timeout }),
            layout!("struct drm_amdgpu_gem_wait_idle_out", drm::GemWaitIdleOut { status, domain }),
            layout!(
                "struct drm_amdgpu_gem_va",
                drm::GemVaArgs { handle, operation, flags, va_address, offset_in_bo, map_size }
            )
            .fields_only(),
            layout!("struct drm_amdgpu_gem_op", drm::GemOpArgs { handle, op, value }).fields_only(),
            layout!(
                "struct drm_amdgpu_info_hw_ip",
                drm::DrmAmdgpuInfoHwIp {
                    hw_ip_version_major,
                    hw_ip_version_minor,
                    capabilities_flags,
                    ib_start_alignment,
                    ib_size_alignment,
                    available_rings,
                    ip_discovery_version
                }
            )
            .fields_only(),
            layout!("struct drm_amdgpu_ctx_in", drm::CtxIn { op, flags, ctx_id, priority }),
            layout!(
                "struct drm_amdgpu_bo_list_in",
                drm::BoListIn { operation, list_handle, bo_number, bo_info_size, bo_info_ptr }
            ),
            layout!("struct drm_amdgpu_bo_list_entry", drm::BoListEntry { bo_handle, bo_priority }),
            layout!(
                "struct drm_amdgpu_cs_in",
                drm::CsIn { ctx_id, bo_list_handle, num_chunks, flags, chunks }
            ),
            layout!("struct drm_amdgpu_cs_chunk", drm::CsChunk { chunk_id, length_dw, chunk_data }),
            layout!(
                "struct drm_amdgpu_cs_chunk_ib",
                drm::CsChunkIb { flags, va_start, ib_bytes, ip_type, ip_instance, ring }
            ),
            layout!("struct drm_amdgpu_cs_chunk_fence", drm::CsChunkFence { handle, offset }),
            layout!(
                "struct drm_amdgpu_cs_chunk_dep",
                drm::CsChunkDep { ip_type, ip_instance, ring, ctx_id, handle }
            ),
            layout!(
                "struct drm_amdgpu_wait_cs_in",
                drm::WaitCsIn { handle, timeout, ip_type, ip_instance, ring, ctx_id }
            ),
            layout!(
                "struct drm_amdgpu_fence",
                drm::DrmAmdgpuFence { ctx_id, ip_type, ip_instance, ring, seq_no }
            ),
            layout!(
                "struct drm_amdgpu_wait_fences_in",
                drm::WaitFencesIn { fences, fence_count, wait_all, timeout_ns }
            ),
            layout!("struct drm_amdgpu_wait_fences_out", drm::WaitFencesOut { status, first_signaled }),
            layout!("struct drm_amdgpu_vm_in", drm::VmIn { op, flags }),
            layout!("struct drm_amdgpu_info_firmware", drm::DrmAmdgpuInfoFirmware { ver, feature }),
            layout!(
                "struct drm_amdgpu_info_gds",
                drm::DrmAmdgpuInfoGds {
                    gds_gfx_partition_size,
                    compute_partition_size,
                    gds_total_size,
                    gws_per_gfx_partition,
                    gws_per_compute_partition,
                    oa_per_gfx_partition,
                    oa_per_compute_partition
                }
            ),
            layout!(
                "struct drm_amdgpu_info_gpuvm_fault",
                drm::DrmAmdgpuInfoGpuvmFault { addr, status, vmhub }
            ),
        ],
        constants: constants![
            queue::KFD_IOC_QUEUE_TYPE_COMPUTE,
            queue::KFD_IOC_QUEUE_TYPE_SDMA,
            queue::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
            queue::KFD_IOC_QUEUE_TYPE_SDMA_XGMI,
            queue::KFD_MAX_QUEUE_PERCENTAGE,
            queue::KFD_MAX_QUEUE_PRIORITY,
            event::KFD_IOC_EVENT_SIGNAL,
            event::KFD_IOC_EVENT_NODECHANGE,
            event::KFD_IOC_EVENT_DEVICESTATECHANGE,
            event::KFD_IOC_EVENT_HW_EXCEPTION,
            event::KFD_IOC_EVENT_SYSTEM_EVENT,
            event::KFD_IOC_EVENT_DEBUG_EVENT,
            event::KFD_IOC_EVENT_PROFILE_EVENT,
            event::KFD_IOC_EVENT_QUEUE_EVENT,
            event::KFD_IOC_EVENT_MEMORY,
            event::KFD_IOC_WAIT_RESULT_COMPLETE,
            event::KFD_IOC_WAIT_RESULT_TIMEOUT,
            event::KFD_IOC_WAIT_RESULT_FAIL,
            event::KFD_SIGNAL_EVENT_LIMIT,
            misc::KFD_IOC_CACHE_POLICY_COHERENT,
            misc::KFD_IOC_CACHE_POLICY_NONCOHERENT,
            svm::KFD_IOCTL_SVM_OP_SET_ATTR,
            svm::KFD_IOCTL_SVM_OP_GET_ATTR,
            svm::KFD_IOCTL_SVM_ATTR_PREFERRED_LOC,
            svm::KFD_IOCTL_SVM_ATTR_PREFETCH_LOC,
            svm::KFD_IOCTL_SVM_ATTR_ACCESS,
            svm::KFD_IOCTL_SVM_ATTR_ACCESS_IN_PLACE,
            svm::KFD_IOCTL_SVM_ATTR_NO_ACCESS,
            svm::KFD_IOCTL_SVM_ATTR_SET_FLAGS,
            svm::KFD_IOCTL_SVM_ATTR_CLR_FLAGS,
            svm::KFD_IOCTL_SVM_ATTR_GRANULARITY,
            svm::KFD_IOCTL_SVM_LOCATION_SYSMEM,
            svm::KFD_IOCTL_SVM_LOCATION_UNDEFINED,
            svm::KFD_IOCTL_SVM_FLAG_HOST_ACCESS,
            svm::KFD_IOCTL_SVM_FLAG_COHERENT,
            svm::KFD_IOCTL_SVM_FLAG_GPU_RO,
            svm::KFD_IOCTL_SVM_FLAG_GPU_EXEC,
            svm::KFD_IOCTL_SVM_FLAG_GPU_ALWAYS_MAPPED,
            svm::KFD_IOCTL_SVM_FLAG_EXT_COHERENT,
            drm::AMDGPU_GEM_DOMAIN_CPU,
            drm::AMDGPU_GEM_DOMAIN_GTT,
            drm::AMDGPU_GEM_DOMAIN_VRAM,
            drm::AMDGPU_GEM_METADATA_OP_SET_METADATA,
            drm::AMDGPU_GEM_METADATA_OP_GET_METADATA,
            drm::AMDGPU_VA_OP_MAP,
            drm::AMDGPU_VA_OP_UNMAP,
            drm::AMDGPU_VA_OP_CLEAR,
            drm::AMDGPU_VA_OP_REPLACE,
            drm::AMDGPU_VM_MTYPE_UC,
            drm::AMDGPU_GEM_OP_GET_GEM_CREATE_INFO,
            drm::AMDGPU_GEM_OP_SET_PLACEMENT,
            drm::AMDGPU_CTX_OP_ALLOC_CTX,
            drm::AMDGPU_CTX_OP_FREE_CTX,
            drm::AMDGPU_CTX_OP_QUERY_STATE,
            drm::AMDGPU_CTX_OP_QUERY_STATE2,
            drm::AMDGPU_CTX_OP_GET_STABLE_PSTATE,
            drm::AMDGPU_CTX_OP_SET_STABLE_PSTATE,
            drm::AMDGPU_CTX_UNKNOWN_RESET,
            drm::AMDGPU_CTX_QUERY2_FLAGS_RESET,
            drm::AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST,
            drm::AMDGPU_CTX_QUERY2_FLAGS_GUILTY,
            drm::AMDGPU_BO_LIST_OP_CREATE,
            drm::AMDGPU_BO_LIST_OP_DESTROY,
            drm::AMDGPU_BO_LIST_OP_UPDATE,
            drm::AMDGPU_VM_OP_RESERVE_VMID,
            drm::AMDGPU_VM_OP_UNRESERVE_VMID,
            drm::AMDGPU_CHUNK_ID_IB,
            drm::AMDGPU_CHUNK_ID_FENCE,
            drm::AMDGPU_CHUNK_ID_DEPENDENCIES,
            drm::AMDGPU_CHUNK_ID_BO_HANDLES,
            drm::AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES,
            drm::AMDGPU_INFO_SENSOR_GFX_SCLK,
            drm::AMDGPU_INFO_SENSOR_GFX_MCLK,
            drm::AMDGPU_INFO_SENSOR_GPU_TEMP,
            drm::AMDGPU_INFO_SENSOR_GPU_LOAD,
            drm::AMDGPU_INFO_SENSOR_GPU_AVG_POWER,
            drm::AMDGPU_INFO_SENSOR_VDDGFX,
            drm::AMDGPU_INFO_FW_GFX_MEC,
            drm::AMDGPU_INFO_FW_SDMA,
        ]
        .into_iter()
        .chain(commands())
        .collect(),
        ..Group::default()
    }
}

/// Command words by name.
fn commands() -> impl Iterator<Item = Constant> {
    ioctl::COMMANDS
        .iter()
        .map(|&(name, value)| Constant { c_name: format!("AMDKFD_IOC_{name}"), value: u64::from(value) })
        .chain(render_commands())
}

/// Commands of the render node, and the queries of INFO. GEM_VA and GEM_OP are left out: they have grown
/// since Linux 6.12, which changes their numbers.
fn render_commands() -> impl Iterator<Item = Constant> {
    let commands = drm::DRM_COMMANDS.iter().filter(|(_, value)| ![drm::GEM_VA, drm::GEM_OP].contains(value));
    commands
        .map(|&(name, value)| Constant {
            c_name: format!("DRM_IOCTL_AMDGPU_{name}"),
            value: u64::from(value),
        })
        .chain(
            drm::INFO_QUERIES
                .iter()
                .map(|&(name, value)| Constant { c_name: name.to_owned(), value: u64::from(value) }),
        )
}
