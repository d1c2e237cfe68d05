//! `linux/kfd_ioctl.h`: the driver's interface for debuggers.

use belfry_abi::kfd::debug;

use super::{Group, constants, layout};

/// Everything that RUNTIME_ENABLE and DBG_TRAP must agree with.
pub(super) fn group() -> Group {
    Group {
        includes: vec!["<linux/kfd_ioctl.h>"],
        layouts: vec![
            layout!(
                "struct kfd_ioctl_runtime_enable_args",
                debug::RuntimeEnableArgs { r_debug, mode_mask, capabilities_mask }
            ),
            layout!("struct kfd_runtime_info", debug::RuntimeInfo { r_debug, runtime_state, ttmp_setup }),
            layout!("struct kfd_ioctl_dbg_trap_args", debug::DbgTrapArgs { pid, op, args: "enable" }),
            layout!(
                "struct kfd_ioctl_dbg_trap_enable_args",
                debug::DbgTrapEnableArgs { exception_mask, rinfo_ptr, rinfo_size, dbg_fd }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_send_runtime_event_args",
                debug::DbgTrapSendRuntimeEventArgs { exception_mask, gpu_id, queue_id }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_set_exceptions_enabled_args",
                debug::DbgTrapSetExceptionsEnabledArgs { exception_mask }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_set_wave_launch_override_args",
                debug::DbgTrapSetWaveLaunchOverrideArgs { override_mode, enable_mask, support_request_mask }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_set_wave_launch_mode_args",
                debug::DbgTrapSetWaveLaunchModeArgs { launch_mode }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_suspend_queues_args",
                debug::DbgTrapSuspendQueuesArgs { exception_mask, queue_array_ptr, num_queues, grace_period }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_resume_queues_args",
                debug::DbgTrapResumeQueuesArgs { queue_array_ptr, num_queues }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_set_node_address_watch_args",
                debug::DbgTrapSetNodeAddressWatchArgs { address, mode, mask, gpu_id, id }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_clear_node_address_watch_args",
                debug::DbgTrapClearNodeAddressWatchArgs { gpu_id, id }
            ),
            layout!("struct kfd_ioctl_dbg_trap_set_flags_args", debug::DbgTrapSetFlagsArgs { flags }),
            layout!(
                "struct kfd_ioctl_dbg_trap_query_debug_event_args",
                debug::DbgTrapQueryDebugEventArgs { exception_mask, gpu_id, queue_id }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_query_exception_info_args",
                debug::DbgTrapQueryExceptionInfoArgs {
                    info_ptr,
                    info_size,
                    source_id,
                    exception_code,
                    clear_exception
                }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_queue_snapshot_args",
                debug::DbgTrapSnapshotArgs {
                    exception_mask,
                    snapshot_buf_ptr,
                    num_entries: "num_queues",
                    entry_size
                }
            ),
            layout!(
                "struct kfd_ioctl_dbg_trap_device_snapshot_args",
                debug::DbgTrapSnapshotArgs {
                    exception_mask,
                    snapshot_buf_ptr,
                    num_entries: "num_devices",
                    entry_size
                }
            ),
            layout!(
                "struct kfd_queue_snapshot_entry",
                debug::QueueSnapshotEntry {
                    exception_status,
                    ring_base_address,
                    write_pointer_address,
                    read_pointer_address,
                    ctx_save_restore_address,
                    queue_id,
                    gpu_id,
                    ring_size,
                    queue_type,
                    ctx_save_restore_area_size
                }
            ),
            layout!(
                "struct kfd_dbg_device_info_entry",
                debug::DbgDeviceInfoEntry {
                    exception_status,
                    lds_base,
                    lds_limit,
                    scratch_base,
                    scratch_limit,
                    gpuvm_base,
                    gpuvm_limit,
                    gpu_id,
                    location_id,
                    vendor_id,
                    device_id,
                    revision_id,
                    subsystem_vendor_id,
                    subsystem_device_id,
                    fw_version,
                    gfx_target_version,
                    simd_count,
                    max_waves_per_simd,
                    array_count,
                    simd_arrays_per_engine,
                    num_xcc,
                    capability,
                    debug_prop
                }
            ),
        ],
        constants: constants![
            debug::KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK,
            debug::KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK,
            debug::DEBUG_RUNTIME_STATE_DISABLED,
            debug::DEBUG_RUNTIME_STATE_ENABLED,
            debug::KFD_DBG_QUEUE_ERROR_MASK,
            debug::KFD_DBG_TRAP_OVERRIDE_OR,
            debug::KFD_DBG_TRAP_OVERRIDE_REPLACE,
            debug::KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL,
            debug::KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT,
            debug::KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG,
            debug::KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP,
            debug::KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP,
        ],
        ..Group::default()
    }
}
