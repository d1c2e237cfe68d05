//! `hsa.h`, `amd_hsa_signal.h`, `amd_hsa_queue.h`: structures that programs and packet processor share.
//!
//! The fields that version 2 of `amd_queue_t` added over reserved ones are left out: older headers do not name them.

use belfry_abi::{aql, signal};

use super::{Group, constants, layout};

/// Everything the HSA headers must agree with.
pub(super) fn group() -> Group {
    Group {
        includes: vec![
            "<hsa/hsa.h>",
            "<hsa/amd_hsa_signal.h>",
            "<hsa/amd_hsa_queue.h>",
            "<hsa/amd_hsa_kernel_code.h>",
        ],
        layouts: vec![
            layout!(
                "amd_signal_t",
                signal::AmdSignal { kind, value, event_mailbox_ptr, event_id, start_ts, end_ts, queue_ptr }
            ),
            layout!(
                "hsa_kernel_dispatch_packet_t",
                aql::KernelDispatchPacket {
                    header,
                    setup,
                    workgroup_size_x,
                    workgroup_size_y,
                    workgroup_size_z,
                    grid_size_x,
                    grid_size_y,
                    grid_size_z,
                    private_segment_size,
                    group_segment_size,
                    kernel_object,
                    kernarg_address,
                    completion_signal
                }
            ),
            layout!("hsa_barrier_and_packet_t", aql::BarrierPacket { header, dep_signal, completion_signal }),
            layout!(
                "hsa_agent_dispatch_packet_t",
                aql::AgentDispatchPacket { header, function: "type", return_address, arg, completion_signal }
            ),
            layout!(
                "amd_queue_t",
                aql::AmdQueue {
                    queue_type: "hsa_queue.type",
                    features: "hsa_queue.features",
                    base_address: "hsa_queue.base_address",
                    doorbell_signal: "hsa_queue.doorbell_signal",
                    size: "hsa_queue.size",
                    id: "hsa_queue.id",
                    caps,
                    write_dispatch_id,
                    group_segment_aperture_base_hi,
                    private_segment_aperture_base_hi,
                    max_cu_id,
                    max_wave_id,
                    max_legacy_doorbell_dispatch_id_plus_1,
                    legacy_doorbell_lock,
                    read_dispatch_id,
                    read_dispatch_id_field_base_byte_offset,
                    compute_tmpring_size,
                    scratch_resource_descriptor,
                    scratch_backing_memory_location,
                    scratch_backing_memory_byte_size,
                    scratch_wave64_lane_byte_size,
                    queue_properties,

                    queue_inactive_signal,
                }
            ),
        ],
        constants: constants![],
        ..Group::default()
    }
}
