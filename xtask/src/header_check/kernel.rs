//! The kernel's own headers: MQD, MES frames and register offsets.

use belfry_abi::regs::layout::{self, Layout};
use belfry_abi::regs::{self, Description, Ip, Offset};
use belfry_abi::{mes, mqd};

use super::{Group, layout};

/// One group per header, because the register headers define thousands of names.
pub(super) fn groups() -> Vec<(&'static str, Group)> {
    let mut groups = vec![
        (
            "mqd",
            Group {
                includes: vec!["\"v11_structs.h\""],
                layouts: vec![layout!(
                    "struct v11_compute_mqd",
                    mqd::ComputeMqd {
                        header,
                        compute_dispatch_initiator,
                        compute_dim_x,
                        compute_dim_y,
                        compute_dim_z,
                        compute_start_x,
                        compute_start_y,
                        compute_start_z,
                        compute_num_thread_x,
                        compute_num_thread_y,
                        compute_num_thread_z,
                        compute_pipelinestat_enable,
                        compute_perfcount_enable,
                        compute_pgm_lo,
                        compute_pgm_hi,
                        compute_dispatch_pkt_addr_lo,
                        compute_dispatch_pkt_addr_hi,
                        compute_dispatch_scratch_base_lo,
                        compute_dispatch_scratch_base_hi,
                        compute_pgm_rsrc1,
                        compute_pgm_rsrc2,
                        compute_vmid,
                        compute_resource_limits,
                        compute_static_thread_mgmt_se0,
                        compute_static_thread_mgmt_se1,
                        compute_tmpring_size,
                        compute_static_thread_mgmt_se2,
                        compute_static_thread_mgmt_se3,
                        compute_restart_x,
                        compute_restart_y,
                        compute_restart_z,
                        compute_thread_trace_enable,
                        compute_dispatch_id,
                        compute_threadgroup_id,
                        compute_req_ctrl,
                        compute_user_accum: "compute_user_accum_0",
                        compute_pgm_rsrc3,
                        compute_ddid_index,
                        compute_shader_chksum,
                        compute_static_thread_mgmt_se4,
                        compute_static_thread_mgmt_se5,
                        compute_static_thread_mgmt_se6,
                        compute_static_thread_mgmt_se7,
                        compute_dispatch_interleave,
                        compute_relaunch,
                        compute_wave_restore_addr_lo,
                        compute_wave_restore_addr_hi,
                        compute_wave_restore_control,
                        compute_user_data: "compute_user_data_0",
                        cp_compute_csinvoc_count_lo,
                        cp_compute_csinvoc_count_hi,
                        cp_mqd_query_time_lo,
                        cp_mqd_query_time_hi,
                        cp_mqd_connect_start_time_lo,
                        cp_mqd_connect_start_time_hi,
                        cp_mqd_connect_end_time_lo,
                        cp_mqd_connect_end_time_hi,
                        cp_mqd_connect_end_wf_count,
                        cp_mqd_connect_end_pq_rptr,
                        cp_mqd_connect_end_pq_wptr,
                        cp_mqd_connect_end_ib_rptr,
                        cp_mqd_readindex_lo,
                        cp_mqd_readindex_hi,
                        cp_mqd_save_start_time_lo,
                        cp_mqd_save_start_time_hi,
                        cp_mqd_save_end_time_lo,
                        cp_mqd_save_end_time_hi,
                        cp_mqd_restore_start_time_lo,
                        cp_mqd_restore_start_time_hi,
                        cp_mqd_restore_end_time_lo,
                        cp_mqd_restore_end_time_hi,
                        disable_queue,
                        gds_cs_ctxsw_cnt: "gds_cs_ctxsw_cnt0",
                        cp_pq_exe_status_lo,
                        cp_pq_exe_status_hi,
                        cp_packet_id_lo,
                        cp_packet_id_hi,
                        cp_packet_exe_status_lo,
                        cp_packet_exe_status_hi,
                        gds_save_base_addr_lo,
                        gds_save_base_addr_hi,
                        gds_save_mask_lo,
                        gds_save_mask_hi,
                        ctx_save_base_addr_lo,
                        ctx_save_base_addr_hi,
                        cp_mqd_base_addr_lo,
                        cp_mqd_base_addr_hi,
                        cp_hqd_active,
                        cp_hqd_vmid,
                        cp_hqd_persistent_state,
                        cp_hqd_pipe_priority,
                        cp_hqd_queue_priority,
                        cp_hqd_quantum,
                        cp_hqd_pq_base_lo,
                        cp_hqd_pq_base_hi,
                        cp_hqd_pq_rptr,
                        cp_hqd_pq_rptr_report_addr_lo,
                        cp_hqd_pq_rptr_report_addr_hi,
                        cp_hqd_pq_wptr_poll_addr_lo,
                        cp_hqd_pq_wptr_poll_addr_hi,
                        cp_hqd_pq_doorbell_control,
                        cp_hqd_pq_control,
                        cp_hqd_ib_base_addr_lo,
                        cp_hqd_ib_base_addr_hi,
                        cp_hqd_ib_rptr,
                        cp_hqd_ib_control,
                        cp_hqd_iq_timer,
                        cp_hqd_iq_rptr,
                        cp_hqd_dequeue_request,
                        cp_hqd_dma_offload,
                        cp_hqd_sema_cmd,
                        cp_hqd_msg_type,
                        cp_hqd_atomic0_preop_lo,
                        cp_hqd_atomic0_preop_hi,
                        cp_hqd_atomic1_preop_lo,
                        cp_hqd_atomic1_preop_hi,
                        cp_hqd_hq_status0,
                        cp_hqd_hq_control0,
                        cp_mqd_control,
                        cp_hqd_hq_status1,
                        cp_hqd_hq_control1,
                        cp_hqd_eop_base_addr_lo,
                        cp_hqd_eop_base_addr_hi,
                        cp_hqd_eop_control,
                        cp_hqd_eop_rptr,
                        cp_hqd_eop_wptr,
                        cp_hqd_eop_done_events,
                        cp_hqd_ctx_save_base_addr_lo,
                        cp_hqd_ctx_save_base_addr_hi,
                        cp_hqd_ctx_save_control,
                        cp_hqd_cntl_stack_offset,
                        cp_hqd_cntl_stack_size,
                        cp_hqd_wg_state_offset,
                        cp_hqd_ctx_save_size,
                        cp_hqd_gds_resource_state,
                        cp_hqd_error,
                        cp_hqd_eop_wptr_mem,
                        cp_hqd_aql_control,
                        cp_hqd_pq_wptr_lo,
                        cp_hqd_pq_wptr_hi,
                        iqtimer_pkt_header,
                        iqtimer_pkt_dw: "iqtimer_pkt_dw0",
                        set_resources_header,
                        set_resources_dw: "set_resources_dw1",
                        queue_doorbell_id: "queue_doorbell_id0",
                        control_buf_addr_lo,
                        control_buf_addr_hi,
                        control_buf_wptr_lo,
                        control_buf_wptr_hi,
                        control_buf_dptr_lo,
                        control_buf_dptr_hi,
                        control_buf_num_entries,
                        draw_ring_addr_lo,
                        draw_ring_addr_hi,
                    }
                )],
                ..Group::default()
            },
        ),
        (
            "mes",
            Group {
                includes: vec!["\"mes_v11_api_def.h\""],
                layouts: vec![
                    layout!(
                        "struct MES_API_STATUS",
                        mes::ApiStatus { api_completion_fence_addr, api_completion_fence_value }
                    ),
                    layout!(
                        "union MESAPI_SET_HW_RESOURCES",
                        mes::SetHwResources {
                            header,
                            vmid_mask_mmhub,
                            vmid_mask_gfxhub,
                            gds_size,
                            paging_vmid,
                            compute_hqd_mask,
                            gfx_hqd_mask,
                            sdma_hqd_mask,
                            aggregated_doorbells,
                            g_sch_ctx_gpu_mc_ptr,
                            query_status_fence_gpu_mc_ptr,
                            gc_base,
                            mmhub_base,
                            osssys_base,
                            api_status,
                            oversubscription_timer,
                            doorbell_info,
                            event_intr_history_gpu_mc_ptr,
                            timestamp,
                            os_tdr_timeout_in_sec
                        }
                    ),
                    layout!(
                        "union MESAPI__ADD_QUEUE",
                        mes::AddQueue {
                            header,
                            process_id,
                            page_table_base_addr,
                            process_va_start,
                            process_va_end,
                            process_quantum,
                            process_context_addr,
                            gang_quantum,
                            gang_context_addr,
                            inprocess_gang_priority,
                            gang_global_priority_level,
                            doorbell_offset,
                            mqd_addr,
                            wptr_addr,
                            h_context,
                            h_queue,
                            queue_type,
                            gds_base,
                            gds_size,
                            gws_base,
                            gws_size,
                            oa_mask,
                            trap_handler_addr,
                            vm_context_cntl,
                            api_status,
                            tma_addr,
                            sch_id,
                            timestamp,
                            process_context_array_index,
                            gang_context_array_index,
                            pipe_id,
                            queue_id,
                            alignment_mode_setting,
                            unmap_flag_addr
                        }
                    ),
                    layout!(
                        "union MESAPI__REMOVE_QUEUE",
                        mes::RemoveQueue {
                            header,
                            doorbell_offset,
                            gang_context_addr,
                            api_status,
                            pipe_id,
                            queue_id,
                            tf_addr,
                            tf_data,
                            queue_type
                        }
                    ),
                    layout!(
                        "union MESAPI__SUSPEND",
                        mes::Suspend {
                            header,
                            gang_context_addr,
                            suspend_fence_addr,
                            suspend_fence_value,
                            api_status
                        }
                    ),
                    layout!("union MESAPI__RESUME", mes::Resume { header, gang_context_addr, api_status }),
                    layout!("union MESAPI__QUERY_MES_STATUS", mes::QueryStatus { header, api_status }),
                    layout!("union MESAPI__MISC", mes::Misc { header, opcode, api_status, data }),
                    layout!(
                        "union MESAPI__UPDATE_ROOT_PAGE_TABLE",
                        mes::UpdateRootPageTable {
                            header,
                            page_table_base_addr,
                            process_context_addr,
                            api_status
                        }
                    ),
                ],
                ..Group::default()
            },
        ),
    ];
    groups.push(("sdma-mqd", sdma_mqd()));
    groups.push(("mes-v12", mes_v12()));
    let (gfx11, gfx11_5, gfx12) = (layout::GFX11, layout::GFX11_5, layout::GFX12);
    let files: [(&str, &str, Ip, &[Description], Layout); 14] = [
        ("gc", "\"asic_reg/gc/gc_11_0_0_offset.h\"", regs::gc::IP, regs::gc::ALL, gfx11),
        ("gc-12", "\"asic_reg/gc/gc_12_0_0_offset.h\"", regs::gc::IP, regs::gc::ALL, gfx12),
        ("mmhub", "\"asic_reg/mmhub/mmhub_3_0_0_offset.h\"", regs::mmhub::IP, regs::mmhub::ALL, gfx11),
        ("mmhub-3.3", "\"asic_reg/mmhub/mmhub_3_3_0_offset.h\"", regs::mmhub::IP, regs::mmhub::ALL, gfx11_5),
        ("mmhub-4", "\"asic_reg/mmhub/mmhub_4_1_0_offset.h\"", regs::mmhub::IP, regs::mmhub::ALL, gfx12),
        ("mp", "\"asic_reg/mp/mp_13_0_0_offset.h\"", regs::mp::IP, regs::mp::ALL, gfx11),
        ("mp1", "\"asic_reg/mp/mp_13_0_0_offset.h\"", regs::mp1::IP, regs::mp1::ALL, gfx11),
        ("nbio", "\"asic_reg/nbio/nbio_4_3_0_offset.h\"", regs::nbio::IP, regs::nbio::ALL, gfx11),
        ("nbif", "\"asic_reg/nbif/nbif_6_3_1_offset.h\"", regs::nbio::IP, regs::nbio::ALL, gfx12),
        ("osssys", "\"asic_reg/oss/osssys_6_0_0_offset.h\"", regs::osssys::IP, regs::osssys::ALL, gfx11),
        (
            "osssys-6.1",
            "\"asic_reg/oss/osssys_6_1_0_offset.h\"",
            regs::osssys::IP,
            regs::osssys::ALL,
            gfx11_5,
        ),
        ("osssys-7", "\"asic_reg/oss/osssys_7_0_0_offset.h\"", regs::osssys::IP, regs::osssys::ALL, gfx12),
        ("sdma", "\"asic_reg/gc/gc_11_0_0_offset.h\"", regs::sdma::IP, regs::sdma::ALL, gfx11),
        ("smuio", "\"asic_reg/smuio/smuio_13_0_6_offset.h\"", regs::smuio::IP, regs::smuio::ALL, gfx11),
    ];
    groups.extend(files.map(|(name, header, ip, all, layout)| (name, registers(header, ip, all, layout))));
    groups
}

/// Checks of fields that version 12 has in other places than version 11: a frame with a mark in the field is
/// converted, and the mark is looked for in the place that the header gives.
fn mes_v12() -> Group {
    macro_rules! field {
        ($c_type:literal, $opcode:ident, $frame:ident.$field:ident) => {
            ($c_type, mes::Opcode::$opcode, core::mem::offset_of!(mes::$frame, $field), stringify!($field))
        };
    }
    let fields = [
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.doorbell_offset),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.mqd_addr),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.wptr_addr),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.queue_type),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.gds_size),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.trap_handler_addr),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.vm_context_cntl),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.api_status),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.tma_addr),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.sch_id),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.timestamp),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.pipe_id),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.queue_id),
        field!("MESAPI__ADD_QUEUE", ADD_QUEUE, AddQueue.alignment_mode_setting),
        field!("MESAPI__REMOVE_QUEUE", REMOVE_QUEUE, RemoveQueue.gang_context_addr),
        field!("MESAPI__REMOVE_QUEUE", REMOVE_QUEUE, RemoveQueue.api_status),
        field!("MESAPI__REMOVE_QUEUE", REMOVE_QUEUE, RemoveQueue.pipe_id),
        field!("MESAPI__REMOVE_QUEUE", REMOVE_QUEUE, RemoveQueue.tf_addr),
        field!("MESAPI__REMOVE_QUEUE", REMOVE_QUEUE, RemoveQueue.queue_type),
        field!("MESAPI_SET_HW_RESOURCES", SET_HW_RSRC, SetHwResources.g_sch_ctx_gpu_mc_ptr),
        field!("MESAPI_SET_HW_RESOURCES", SET_HW_RSRC, SetHwResources.api_status),
        field!("MESAPI_SET_HW_RESOURCES_1", SET_HW_RSRC_1, SetHwResources1.api_status),
        field!("MESAPI_SET_HW_RESOURCES_1", SET_HW_RSRC_1, SetHwResources1.timestamp),
        field!("MESAPI__SUSPEND", SUSPEND, Suspend.suspend_fence_addr),
        field!("MESAPI__SUSPEND", SUSPEND, Suspend.api_status),
        field!("MESAPI__RESUME", RESUME, Resume.api_status),
        field!("MESAPI__QUERY_MES_STATUS", QUERY_SCHEDULER_STATUS, QueryStatus.api_status),
        field!("MESAPI__MISC", MISC, Misc.api_status),
        field!("MESAPI__UPDATE_ROOT_PAGE_TABLE", UPDATE_ROOT_PAGE_TABLE, UpdateRootPageTable.api_status),
        field!("MESAPI__SET_SCHEDULING_CONFIG", SET_SCHEDULING_CONFIG, SetSchedulingConfig.api_status),
        field!(
            "MESAPI__SET_SCHEDULING_CONFIG",
            SET_SCHEDULING_CONFIG,
            SetSchedulingConfig.process_quantum_for_level
        ),
    ];
    let conditions = fields.map(|(c_type, opcode, at, field)| {
        let mut frame = [0; mes::FRAME_SIZE];
        frame[..4].copy_from_slice(&mes::Header::new(opcode).0.to_le_bytes());
        frame[at] = 0xff;
        let place = mes::v12::from_v11(&frame)[4..].iter().position(|&byte| byte == 0xff);
        let place = place.map_or(0, |place| place + 4);
        (
            format!("__builtin_offsetof(union {c_type}, {field}) == {place}"),
            format!("{field} of {c_type} is not at {place:#x}"),
        )
    });
    Group { includes: vec!["\"mes_v12_api_def.h\""], conditions: conditions.into(), ..Group::default() }
}

/// The MQD of SDMA queues.
fn sdma_mqd() -> Group {
    let layout = layout!(
        "struct v11_sdma_mqd",
        mqd::SdmaMqd {
            sdmax_rlcx_rb_cntl,
            sdmax_rlcx_rb_base,
            sdmax_rlcx_rb_base_hi,
            sdmax_rlcx_rb_rptr,
            sdmax_rlcx_rb_rptr_hi,
            sdmax_rlcx_rb_wptr,
            sdmax_rlcx_rb_wptr_hi,
            sdmax_rlcx_rb_rptr_addr_hi,
            sdmax_rlcx_rb_rptr_addr_lo,
            sdmax_rlcx_ib_cntl,
            sdmax_rlcx_ib_rptr,
            sdmax_rlcx_ib_offset,
            sdmax_rlcx_ib_base_lo,
            sdmax_rlcx_ib_base_hi,
            sdmax_rlcx_ib_size,
            sdmax_rlcx_skip_cntl,
            sdmax_rlcx_context_status,
            sdmax_rlcx_doorbell,
            sdmax_rlcx_doorbell_log,
            sdmax_rlcx_doorbell_offset,
            sdmax_rlcx_csa_addr_lo,
            sdmax_rlcx_csa_addr_hi,
            sdmax_rlcx_sched_cntl,
            sdmax_rlcx_ib_sub_remain,
            sdmax_rlcx_preempt,
            sdmax_rlcx_dummy_reg,
            sdmax_rlcx_rb_wptr_poll_addr_hi,
            sdmax_rlcx_rb_wptr_poll_addr_lo,
            sdmax_rlcx_rb_aql_cntl,
            sdmax_rlcx_minor_ptr_update,
            sdmax_rlcx_rb_preempt,
            sdmax_rlcx_midcmd_data: "sdmax_rlcx_midcmd_data0",
            sdmax_rlcx_midcmd_cntl,
            sdmax_rlcx_f32_dbg: "sdmax_rlcx_f32_dbg0",
            sdma_engine_id,
            sdma_queue_id,
        }
    );
    Group { includes: vec!["\"v11_structs.h\""], layouts: vec![layout], ..Group::default() }
}

/// Every register's segment and offset are the published ones.
fn registers(header: &'static str, ip: Ip, all: &[Description], layout: Layout) -> Group {
    let conditions = all
        .iter()
        .map(|register| {
            let name = match register.name {
                "GCVM_L2_PROTECTION_FAULT_STATUS" if layout == layout::GFX12 => {
                    "GCVM_L2_PROTECTION_FAULT_STATUS_LO32".to_owned()
                }
                "CC_GC_SA_UNIT_DISABLE" if layout == layout::GFX12 => "GRBM_CC_GC_SA_UNIT_DISABLE".to_owned(),
                name => published(name),
            };
            let Offset { segment, dword: offset } = layout.place(ip, register.at);
            (
                format!("reg{name} == {offset} && reg{name}_BASE_IDX == {segment}"),
                format!("{name} is not at {segment}:{offset:#x}"),
            )
        })
        .collect();
    Group { includes: vec![header], conditions, ..Group::default() }
}

/// The header's name of a register: the bus interface's carry the instance and function they belong to.
pub(super) fn published(name: &'static str) -> String {
    let prefix = match name {
        "MM_INDEX" | "MM_DATA" | "MM_INDEX_HI" | "RSMU_INDEX" | "RSMU_DATA" | "GPU_HDP_FLUSH_REQ"
        | "GPU_HDP_FLUSH_DONE" => "BIF_BX_PF0_",
        "PCIE_INDEX2" | "PCIE_DATA2" | "BIOS_SCRATCH_7" => "BIF_BX0_",
        "REMAP_HDP_MEM_FLUSH_CNTL" | "REMAP_HDP_REG_FLUSH_CNTL" => "BIF_BX0_",
        "RCC_DOORBELL_APER_EN" | "RCC_CONFIG_MEMSIZE" | "RCC_IOV_FUNC_IDENTIFIER" => "RCC_DEV0_EPF0_",
        "RCC_STRAP0" => return "RCC_STRAP0_RCC_DEV0_EPF0_STRAP0".to_owned(),
        _ => "",
    };
    format!("{prefix}{name}")
}
