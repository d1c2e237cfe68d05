//! Memory queue descriptors: the image in memory of one hardware queue's registers.
//!
//! The MES (or the KIQ) reads an MQD into the registers of a hardware queue (HQD) when it maps the queue, and writes it
//! back when it takes the queue off. Published as `struct v11_compute_mqd` in Linux
//! `drivers/gpu/drm/amd/include/v11_structs.h`; the values of a driver are in `amdkfd/kfd_mqd_manager_v11.c` (user
//! queues) and `amdgpu/gfx_v11_0.c`, `gfx_v11_0_compute_mqd_init` (kernel rings).

mod sdma;
mod sdma_v12;
mod sdma_v9;
pub mod v9;

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use sdma::{SDMA_DUMMY_DEFAULT, SdmaMqd, SdmaRbCntl};

/// Value of [`ComputeMqd::header`].
pub const HEADER: u32 = 0xc031_0800;

/// Bytes a driver reserves for one MQD: the firmware may use the bytes after the 2048 of [`ComputeMqd`], up to a
/// page.
pub const ALLOCATION: usize = 4096;

/// Compute MQD of gfx11, 512 dwords (`struct v11_compute_mqd`); the KIQ and the MES ring have one too.
#[derive(Clone, Copy, Debug, Eq, PartialEq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct ComputeMqd {
    /// `0xC0310800` ([`HEADER`]), a PM4 type-3 header the firmware checks.
    pub header: u32,
    /// Dword 1, `COMPUTE_DISPATCH_INITIATOR`.
    pub compute_dispatch_initiator: u32,
    /// Dword 2, `COMPUTE_DIM_X`.
    pub compute_dim_x: u32,
    /// Dword 3, `COMPUTE_DIM_Y`.
    pub compute_dim_y: u32,
    /// Dword 4, `COMPUTE_DIM_Z`.
    pub compute_dim_z: u32,
    /// Dword 5, `COMPUTE_START_X`.
    pub compute_start_x: u32,
    /// Dword 6, `COMPUTE_START_Y`.
    pub compute_start_y: u32,
    /// Dword 7, `COMPUTE_START_Z`.
    pub compute_start_z: u32,
    /// Dword 8, `COMPUTE_NUM_THREAD_X`.
    pub compute_num_thread_x: u32,
    /// Dword 9, `COMPUTE_NUM_THREAD_Y`.
    pub compute_num_thread_y: u32,
    /// Dword 10, `COMPUTE_NUM_THREAD_Z`.
    pub compute_num_thread_z: u32,
    /// Dword 11, `COMPUTE_PIPELINESTAT_ENABLE`.
    pub compute_pipelinestat_enable: u32,
    /// Dword 12, `COMPUTE_PERFCOUNT_ENABLE`.
    pub compute_perfcount_enable: u32,
    /// Dword 13, `COMPUTE_PGM_LO`.
    pub compute_pgm_lo: u32,
    /// Dword 14, `COMPUTE_PGM_HI`.
    pub compute_pgm_hi: u32,
    /// Dword 15, `COMPUTE_DISPATCH_PKT_ADDR_LO`.
    pub compute_dispatch_pkt_addr_lo: u32,
    /// Dword 16, `COMPUTE_DISPATCH_PKT_ADDR_HI`.
    pub compute_dispatch_pkt_addr_hi: u32,
    /// Dword 17, `COMPUTE_DISPATCH_SCRATCH_BASE_LO`.
    pub compute_dispatch_scratch_base_lo: u32,
    /// Dword 18, `COMPUTE_DISPATCH_SCRATCH_BASE_HI`.
    pub compute_dispatch_scratch_base_hi: u32,
    /// Dword 19, `COMPUTE_PGM_RSRC1`.
    pub compute_pgm_rsrc1: u32,
    /// Dword 20, `COMPUTE_PGM_RSRC2`.
    pub compute_pgm_rsrc2: u32,
    /// Dword 21, `COMPUTE_VMID`.
    pub compute_vmid: u32,
    /// Dword 22, `COMPUTE_RESOURCE_LIMITS`.
    pub compute_resource_limits: u32,
    /// Dword 23, `COMPUTE_STATIC_THREAD_MGMT_SE0`.
    pub compute_static_thread_mgmt_se0: u32,
    /// Dword 24, `COMPUTE_STATIC_THREAD_MGMT_SE1`.
    pub compute_static_thread_mgmt_se1: u32,
    /// `COMPUTE_TMPRING_SIZE`.
    pub compute_tmpring_size: u32,
    /// Dword 26, `COMPUTE_STATIC_THREAD_MGMT_SE2`.
    pub compute_static_thread_mgmt_se2: u32,
    /// Dword 27, `COMPUTE_STATIC_THREAD_MGMT_SE3`.
    pub compute_static_thread_mgmt_se3: u32,
    /// Dword 28, `COMPUTE_RESTART_X`.
    pub compute_restart_x: u32,
    /// Dword 29, `COMPUTE_RESTART_Y`.
    pub compute_restart_y: u32,
    /// Dword 30, `COMPUTE_RESTART_Z`.
    pub compute_restart_z: u32,
    /// Dword 31, `COMPUTE_THREAD_TRACE_ENABLE`.
    pub compute_thread_trace_enable: u32,
    /// Reserved.
    pub reserved_32: u32,
    /// Dword 33, `COMPUTE_DISPATCH_ID`.
    pub compute_dispatch_id: u32,
    /// Dword 34, `COMPUTE_THREADGROUP_ID`.
    pub compute_threadgroup_id: u32,
    /// Dword 35, `COMPUTE_REQ_CTRL`.
    pub compute_req_ctrl: u32,
    /// Reserved.
    pub reserved_36: u32,
    /// Dwords 37 to 40, `compute_user_accum_0` and following.
    pub compute_user_accum: [u32; 4],
    /// Dword 41, `COMPUTE_PGM_RSRC3`.
    pub compute_pgm_rsrc3: u32,
    /// Dword 42, `COMPUTE_DDID_INDEX`.
    pub compute_ddid_index: u32,
    /// Dword 43, `COMPUTE_SHADER_CHKSUM`.
    pub compute_shader_chksum: u32,
    /// Dword 44, `COMPUTE_STATIC_THREAD_MGMT_SE4`.
    pub compute_static_thread_mgmt_se4: u32,
    /// Dword 45, `COMPUTE_STATIC_THREAD_MGMT_SE5`.
    pub compute_static_thread_mgmt_se5: u32,
    /// Dword 46, `COMPUTE_STATIC_THREAD_MGMT_SE6`.
    pub compute_static_thread_mgmt_se6: u32,
    /// Dword 47, `COMPUTE_STATIC_THREAD_MGMT_SE7`.
    pub compute_static_thread_mgmt_se7: u32,
    /// Dword 48, `COMPUTE_DISPATCH_INTERLEAVE`.
    pub compute_dispatch_interleave: u32,
    /// Dword 49, `COMPUTE_RELAUNCH`.
    pub compute_relaunch: u32,
    /// Dword 50, `COMPUTE_WAVE_RESTORE_ADDR_LO`.
    pub compute_wave_restore_addr_lo: u32,
    /// Dword 51, `COMPUTE_WAVE_RESTORE_ADDR_HI`.
    pub compute_wave_restore_addr_hi: u32,
    /// Dword 52, `COMPUTE_WAVE_RESTORE_CONTROL`.
    pub compute_wave_restore_control: u32,
    /// Reserved.
    pub reserved_53: [u32; 12],
    /// Dwords 65 to 80, `compute_user_data_0` and following.
    pub compute_user_data: [u32; 16],
    /// Dword 81, `CP_COMPUTE_CSINVOC_COUNT_LO`.
    pub cp_compute_csinvoc_count_lo: u32,
    /// Dword 82, `CP_COMPUTE_CSINVOC_COUNT_HI`.
    pub cp_compute_csinvoc_count_hi: u32,
    /// Reserved.
    pub reserved_83: [u32; 3],
    /// Dword 86, `CP_MQD_QUERY_TIME_LO`.
    pub cp_mqd_query_time_lo: u32,
    /// Dword 87, `CP_MQD_QUERY_TIME_HI`.
    pub cp_mqd_query_time_hi: u32,
    /// Dword 88, `CP_MQD_CONNECT_START_TIME_LO`.
    pub cp_mqd_connect_start_time_lo: u32,
    /// Dword 89, `CP_MQD_CONNECT_START_TIME_HI`.
    pub cp_mqd_connect_start_time_hi: u32,
    /// Dword 90, `CP_MQD_CONNECT_END_TIME_LO`.
    pub cp_mqd_connect_end_time_lo: u32,
    /// Dword 91, `CP_MQD_CONNECT_END_TIME_HI`.
    pub cp_mqd_connect_end_time_hi: u32,
    /// Dword 92, `CP_MQD_CONNECT_END_WF_COUNT`.
    pub cp_mqd_connect_end_wf_count: u32,
    /// Dword 93, `CP_MQD_CONNECT_END_PQ_RPTR`.
    pub cp_mqd_connect_end_pq_rptr: u32,
    /// Dword 94, `CP_MQD_CONNECT_END_PQ_WPTR`.
    pub cp_mqd_connect_end_pq_wptr: u32,
    /// Dword 95, `CP_MQD_CONNECT_END_IB_RPTR`.
    pub cp_mqd_connect_end_ib_rptr: u32,
    /// Dword 96, `CP_MQD_READINDEX_LO`.
    pub cp_mqd_readindex_lo: u32,
    /// Dword 97, `CP_MQD_READINDEX_HI`.
    pub cp_mqd_readindex_hi: u32,
    /// Dword 98, `CP_MQD_SAVE_START_TIME_LO`.
    pub cp_mqd_save_start_time_lo: u32,
    /// Dword 99, `CP_MQD_SAVE_START_TIME_HI`.
    pub cp_mqd_save_start_time_hi: u32,
    /// Dword 100, `CP_MQD_SAVE_END_TIME_LO`.
    pub cp_mqd_save_end_time_lo: u32,
    /// Dword 101, `CP_MQD_SAVE_END_TIME_HI`.
    pub cp_mqd_save_end_time_hi: u32,
    /// Dword 102, `CP_MQD_RESTORE_START_TIME_LO`.
    pub cp_mqd_restore_start_time_lo: u32,
    /// Dword 103, `CP_MQD_RESTORE_START_TIME_HI`.
    pub cp_mqd_restore_start_time_hi: u32,
    /// Dword 104, `CP_MQD_RESTORE_END_TIME_LO`.
    pub cp_mqd_restore_end_time_lo: u32,
    /// Dword 105, `CP_MQD_RESTORE_END_TIME_HI`.
    pub cp_mqd_restore_end_time_hi: u32,
    /// Non-zero keeps the firmware from running the queue.
    pub disable_queue: u32,
    /// Reserved.
    pub reserved_107: u32,
    /// Dwords 108 to 111, `gds_cs_ctxsw_cnt_0` and following.
    pub gds_cs_ctxsw_cnt: [u32; 4],
    /// Reserved.
    pub reserved_112: [u32; 2],
    /// Dword 114, `CP_PQ_EXE_STATUS_LO`.
    pub cp_pq_exe_status_lo: u32,
    /// Dword 115, `CP_PQ_EXE_STATUS_HI`.
    pub cp_pq_exe_status_hi: u32,
    /// Dword 116, `CP_PACKET_ID_LO`.
    pub cp_packet_id_lo: u32,
    /// Dword 117, `CP_PACKET_ID_HI`.
    pub cp_packet_id_hi: u32,
    /// Dword 118, `CP_PACKET_EXE_STATUS_LO`.
    pub cp_packet_exe_status_lo: u32,
    /// Dword 119, `CP_PACKET_EXE_STATUS_HI`.
    pub cp_packet_exe_status_hi: u32,
    /// Dword 120, `GDS_SAVE_BASE_ADDR_LO`.
    pub gds_save_base_addr_lo: u32,
    /// Dword 121, `GDS_SAVE_BASE_ADDR_HI`.
    pub gds_save_base_addr_hi: u32,
    /// Dword 122, `GDS_SAVE_MASK_LO`.
    pub gds_save_mask_lo: u32,
    /// Dword 123, `GDS_SAVE_MASK_HI`.
    pub gds_save_mask_hi: u32,
    /// Dword 124, `CTX_SAVE_BASE_ADDR_LO`.
    pub ctx_save_base_addr_lo: u32,
    /// Dword 125, `CTX_SAVE_BASE_ADDR_HI`.
    pub ctx_save_base_addr_hi: u32,
    /// Reserved.
    pub reserved_126: [u32; 2],
    /// Dword 128, `CP_MQD_BASE_ADDR_LO`.
    pub cp_mqd_base_addr_lo: u32,
    /// Dword 129, `CP_MQD_BASE_ADDR_HI`.
    pub cp_mqd_base_addr_hi: u32,
    /// Dword 130, `CP_HQD_ACTIVE`.
    pub cp_hqd_active: u32,
    /// Dword 131, `CP_HQD_VMID`.
    pub cp_hqd_vmid: u32,
    /// Dword 132, `CP_HQD_PERSISTENT_STATE`.
    pub cp_hqd_persistent_state: u32,
    /// Dword 133, `CP_HQD_PIPE_PRIORITY`.
    pub cp_hqd_pipe_priority: u32,
    /// Dword 134, `CP_HQD_QUEUE_PRIORITY`.
    pub cp_hqd_queue_priority: u32,
    /// Dword 135, `CP_HQD_QUANTUM`.
    pub cp_hqd_quantum: u32,
    /// Ring base bits 39:8 (`CP_HQD_PQ_BASE`).
    pub cp_hqd_pq_base_lo: u32,
    /// Ring base bits 63:40 (`CP_HQD_PQ_BASE_HI`).
    pub cp_hqd_pq_base_hi: u32,
    /// Dword 138, `CP_HQD_PQ_RPTR`.
    pub cp_hqd_pq_rptr: u32,
    /// Address for reports of the read pointer (`CP_HQD_PQ_RPTR_REPORT_ADDR`); an AQL queue has its
    /// `read_dispatch_id` there.
    pub cp_hqd_pq_rptr_report_addr_lo: u32,
    /// Dword 140, `CP_HQD_PQ_RPTR_REPORT_ADDR_HI`.
    pub cp_hqd_pq_rptr_report_addr_hi: u32,
    /// Address of the write pointer in memory (`CP_HQD_PQ_WPTR_POLL_ADDR`).
    pub cp_hqd_pq_wptr_poll_addr_lo: u32,
    /// Dword 142, `CP_HQD_PQ_WPTR_POLL_ADDR_HI`.
    pub cp_hqd_pq_wptr_poll_addr_hi: u32,
    /// `CP_HQD_PQ_DOORBELL_CONTROL`: dword offset in the doorbell BAR in bits 27:2.
    pub cp_hqd_pq_doorbell_control: u32,
    /// Reserved.
    pub reserved_144: u32,
    /// `CP_HQD_PQ_CONTROL`: size is 2^(QUEUE_SIZE+1) dwords.
    pub cp_hqd_pq_control: u32,
    /// Dword 146, `CP_HQD_IB_BASE_ADDR_LO`.
    pub cp_hqd_ib_base_addr_lo: u32,
    /// Dword 147, `CP_HQD_IB_BASE_ADDR_HI`.
    pub cp_hqd_ib_base_addr_hi: u32,
    /// Dword 148, `CP_HQD_IB_RPTR`.
    pub cp_hqd_ib_rptr: u32,
    /// Dword 149, `CP_HQD_IB_CONTROL`.
    pub cp_hqd_ib_control: u32,
    /// Dword 150, `CP_HQD_IQ_TIMER`.
    pub cp_hqd_iq_timer: u32,
    /// Dword 151, `CP_HQD_IQ_RPTR`.
    pub cp_hqd_iq_rptr: u32,
    /// Dword 152, `CP_HQD_DEQUEUE_REQUEST`.
    pub cp_hqd_dequeue_request: u32,
    /// Dword 153, `CP_HQD_DMA_OFFLOAD`.
    pub cp_hqd_dma_offload: u32,
    /// Dword 154, `CP_HQD_SEMA_CMD`.
    pub cp_hqd_sema_cmd: u32,
    /// Dword 155, `CP_HQD_MSG_TYPE`.
    pub cp_hqd_msg_type: u32,
    /// Dword 156, `CP_HQD_ATOMIC0_PREOP_LO`.
    pub cp_hqd_atomic0_preop_lo: u32,
    /// Dword 157, `CP_HQD_ATOMIC0_PREOP_HI`.
    pub cp_hqd_atomic0_preop_hi: u32,
    /// Dword 158, `CP_HQD_ATOMIC1_PREOP_LO`.
    pub cp_hqd_atomic1_preop_lo: u32,
    /// Dword 159, `CP_HQD_ATOMIC1_PREOP_HI`.
    pub cp_hqd_atomic1_preop_hi: u32,
    /// Dword 160, `CP_HQD_HQ_STATUS0`.
    pub cp_hqd_hq_status0: u32,
    /// Dword 161, `CP_HQD_HQ_CONTROL0`.
    pub cp_hqd_hq_control0: u32,
    /// Dword 162, `CP_MQD_CONTROL`.
    pub cp_mqd_control: u32,
    /// Dword 163, `CP_HQD_HQ_STATUS1`.
    pub cp_hqd_hq_status1: u32,
    /// Dword 164, `CP_HQD_HQ_CONTROL1`.
    pub cp_hqd_hq_control1: u32,
    /// Dword 165, `CP_HQD_EOP_BASE_ADDR_LO`.
    pub cp_hqd_eop_base_addr_lo: u32,
    /// Dword 166, `CP_HQD_EOP_BASE_ADDR_HI`.
    pub cp_hqd_eop_base_addr_hi: u32,
    /// `CP_HQD_EOP_CONTROL`: size is 2^(EOP_SIZE+1) dwords.
    pub cp_hqd_eop_control: u32,
    /// Dword 168, `CP_HQD_EOP_RPTR`.
    pub cp_hqd_eop_rptr: u32,
    /// Dword 169, `CP_HQD_EOP_WPTR`.
    pub cp_hqd_eop_wptr: u32,
    /// Dword 170, `CP_HQD_EOP_DONE_EVENTS`.
    pub cp_hqd_eop_done_events: u32,
    /// Dword 171, `CP_HQD_CTX_SAVE_BASE_ADDR_LO`.
    pub cp_hqd_ctx_save_base_addr_lo: u32,
    /// Dword 172, `CP_HQD_CTX_SAVE_BASE_ADDR_HI`.
    pub cp_hqd_ctx_save_base_addr_hi: u32,
    /// Dword 173, `CP_HQD_CTX_SAVE_CONTROL`.
    pub cp_hqd_ctx_save_control: u32,
    /// Dword 174, `CP_HQD_CNTL_STACK_OFFSET`.
    pub cp_hqd_cntl_stack_offset: u32,
    /// Dword 175, `CP_HQD_CNTL_STACK_SIZE`.
    pub cp_hqd_cntl_stack_size: u32,
    /// Dword 176, `CP_HQD_WG_STATE_OFFSET`.
    pub cp_hqd_wg_state_offset: u32,
    /// Dword 177, `CP_HQD_CTX_SAVE_SIZE`.
    pub cp_hqd_ctx_save_size: u32,
    /// Dword 178, `CP_HQD_GDS_RESOURCE_STATE`.
    pub cp_hqd_gds_resource_state: u32,
    /// Dword 179, `CP_HQD_ERROR`.
    pub cp_hqd_error: u32,
    /// Dword 180, `CP_HQD_EOP_WPTR_MEM`.
    pub cp_hqd_eop_wptr_mem: u32,
    /// `CP_HQD_AQL_CONTROL`: CONTROL0 = 1 makes it an AQL queue.
    pub cp_hqd_aql_control: u32,
    /// Dword 182, `CP_HQD_PQ_WPTR_LO`.
    pub cp_hqd_pq_wptr_lo: u32,
    /// Dword 183, `CP_HQD_PQ_WPTR_HI`.
    pub cp_hqd_pq_wptr_hi: u32,
    /// Reserved.
    pub reserved_184: [u32; 8],
    /// Dword 192, `IQTIMER_PKT_HEADER`.
    pub iqtimer_pkt_header: u32,
    /// Dwords 193 to 224, `iqtimer_pkt_dw_0` and following.
    pub iqtimer_pkt_dw: [u32; 32],
    /// Reserved.
    pub reserved_225: [u32; 3],
    /// Dword 228, `SET_RESOURCES_HEADER`.
    pub set_resources_header: u32,
    /// Dwords 229 to 235, `set_resources_dw_0` and following.
    pub set_resources_dw: [u32; 7],
    /// Reserved.
    pub reserved_236: [u32; 4],
    /// Dwords 240 to 255, `queue_doorbell_id_0` and following.
    pub queue_doorbell_id: [u32; 16],
    /// Dword 256, `CONTROL_BUF_ADDR_LO`.
    pub control_buf_addr_lo: u32,
    /// Dword 257, `CONTROL_BUF_ADDR_HI`.
    pub control_buf_addr_hi: u32,
    /// Dword 258, `CONTROL_BUF_WPTR_LO`.
    pub control_buf_wptr_lo: u32,
    /// Dword 259, `CONTROL_BUF_WPTR_HI`.
    pub control_buf_wptr_hi: u32,
    /// Dword 260, `CONTROL_BUF_DPTR_LO`.
    pub control_buf_dptr_lo: u32,
    /// Dword 261, `CONTROL_BUF_DPTR_HI`.
    pub control_buf_dptr_hi: u32,
    /// Dword 262, `CONTROL_BUF_NUM_ENTRIES`.
    pub control_buf_num_entries: u32,
    /// Dword 263, `DRAW_RING_ADDR_LO`.
    pub draw_ring_addr_lo: u32,
    /// Dword 264, `DRAW_RING_ADDR_HI`.
    pub draw_ring_addr_hi: u32,
    /// Reserved.
    pub reserved_265: [u32; 183],
    /// Dwords 448 to 511, `gws_0` and following.
    pub gws: [u32; 64],
}

const _: () = {
    assert!(size_of::<ComputeMqd>() == 2048);
    assert!(offset_of!(ComputeMqd, compute_pgm_rsrc1) == 19 * 4);
    assert!(offset_of!(ComputeMqd, compute_tmpring_size) == 25 * 4);
    assert!(offset_of!(ComputeMqd, compute_pgm_rsrc3) == 41 * 4);
    assert!(offset_of!(ComputeMqd, compute_user_data) == 65 * 4);
    assert!(offset_of!(ComputeMqd, cp_mqd_base_addr_lo) == 128 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_active) == 130 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_base_lo) == 136 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_rptr_report_addr_lo) == 139 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_wptr_poll_addr_lo) == 141 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_doorbell_control) == 143 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_control) == 145 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_eop_base_addr_lo) == 165 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_ctx_save_base_addr_lo) == 171 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_error) == 179 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_aql_control) == 181 * 4);
    assert!(offset_of!(ComputeMqd, cp_hqd_pq_wptr_lo) == 182 * 4);
    assert!(offset_of!(ComputeMqd, queue_doorbell_id) == 240 * 4);
    assert!(offset_of!(ComputeMqd, gws) == 448 * 4);
};

const fn join(lo: u32, hi: u32) -> u64 {
    (hi as u64) << 32 | lo as u64
}

impl ComputeMqd {
    /// An MQD of zeros but for the header.
    #[must_use]
    pub fn new() -> Self {
        let mut mqd: Self = zerocopy::FromZeros::new_zeroed();
        mqd.header = HEADER;
        mqd
    }

    /// Sets which compute units waves may use, `COMPUTE_STATIC_THREAD_MGMT_SE0` to `SE7`.
    pub const fn set_static_thread_mgmt(&mut self, engines: &[u32; 8]) {
        self.compute_static_thread_mgmt_se0 = engines[0];
        self.compute_static_thread_mgmt_se1 = engines[1];
        self.compute_static_thread_mgmt_se2 = engines[2];
        self.compute_static_thread_mgmt_se3 = engines[3];
        self.compute_static_thread_mgmt_se4 = engines[4];
        self.compute_static_thread_mgmt_se5 = engines[5];
        self.compute_static_thread_mgmt_se6 = engines[6];
        self.compute_static_thread_mgmt_se7 = engines[7];
    }

    /// GPU virtual address of the ring, in bytes.
    #[must_use]
    pub const fn pq_base(&self) -> u64 {
        join(self.cp_hqd_pq_base_lo, self.cp_hqd_pq_base_hi) << 8
    }

    /// Sets the ring address, which must be a multiple of 256.
    pub const fn set_pq_base(&mut self, address: u64) {
        self.cp_hqd_pq_base_lo = (address >> 8) as u32;
        self.cp_hqd_pq_base_hi = (address >> 40) as u32;
    }

    /// GPU virtual address the read pointer is reported to.
    #[must_use]
    pub const fn pq_rptr_report_addr(&self) -> u64 {
        join(self.cp_hqd_pq_rptr_report_addr_lo, self.cp_hqd_pq_rptr_report_addr_hi)
    }

    /// Sets the address the read pointer is reported to.
    pub const fn set_pq_rptr_report_addr(&mut self, address: u64) {
        self.cp_hqd_pq_rptr_report_addr_lo = address as u32;
        self.cp_hqd_pq_rptr_report_addr_hi = (address >> 32) as u32;
    }

    /// GPU virtual address of the write pointer in memory.
    #[must_use]
    pub const fn pq_wptr_poll_addr(&self) -> u64 {
        join(self.cp_hqd_pq_wptr_poll_addr_lo, self.cp_hqd_pq_wptr_poll_addr_hi)
    }

    /// Sets the address of the write pointer in memory.
    pub const fn set_pq_wptr_poll_addr(&mut self, address: u64) {
        self.cp_hqd_pq_wptr_poll_addr_lo = address as u32;
        self.cp_hqd_pq_wptr_poll_addr_hi = (address >> 32) as u32;
    }

    /// GPU address of this MQD itself.
    #[must_use]
    pub const fn mqd_base(&self) -> u64 {
        join(self.cp_mqd_base_addr_lo, self.cp_mqd_base_addr_hi)
    }

    /// Sets the address of this MQD itself.
    pub const fn set_mqd_base(&mut self, address: u64) {
        self.cp_mqd_base_addr_lo = address as u32;
        self.cp_mqd_base_addr_hi = (address >> 32) as u32;
    }

    /// GPU virtual address of the end-of-pipe buffer.
    #[must_use]
    pub const fn eop_base(&self) -> u64 {
        join(self.cp_hqd_eop_base_addr_lo, self.cp_hqd_eop_base_addr_hi) << 8
    }

    /// Sets the end-of-pipe buffer's address, which must be a multiple of 256.
    pub const fn set_eop_base(&mut self, address: u64) {
        self.cp_hqd_eop_base_addr_lo = (address >> 8) as u32;
        self.cp_hqd_eop_base_addr_hi = (address >> 40) as u32;
    }

    /// Write pointer saved in the MQD, in the queue's own unit (packets for AQL, dwords for PM4).
    #[must_use]
    pub const fn pq_wptr(&self) -> u64 {
        join(self.cp_hqd_pq_wptr_lo, self.cp_hqd_pq_wptr_hi)
    }

    /// Sets the saved write pointer.
    pub const fn set_pq_wptr(&mut self, wptr: u64) {
        self.cp_hqd_pq_wptr_lo = wptr as u32;
        self.cp_hqd_pq_wptr_hi = (wptr >> 32) as u32;
    }
}

impl Default for ComputeMqd {
    fn default() -> Self {
        Self::new()
    }
}
