//! Compute MQD of gfx11 (`struct v11_compute_mqd`).

use std::mem::offset_of;

use belfry_abi::mqd::{ComputeMqd, HEADER};

use crate::chip::MqdLayout;

/// Position of a field in dwords.
macro_rules! dword {
    ($field:ident) => {
        offset_of!(ComputeMqd, $field) / 4
    };
}

pub(in crate::chip) const LAYOUT: MqdLayout = MqdLayout {
    header: HEADER,
    hqd_first: dword!(cp_mqd_base_addr_lo),
    hqd_dwords: dword!(cp_hqd_pq_wptr_hi) - dword!(cp_mqd_base_addr_lo) + 1,
    compute_first: dword!(compute_dispatch_initiator),
    compute_dwords: dword!(compute_user_data) + 16 - dword!(compute_dispatch_initiator),
    rsrc2: dword!(compute_pgm_rsrc2),
    // `TRAP_PRESENT`.
    traps: 1 << 6,
    thread_mgmt: &[
        dword!(compute_static_thread_mgmt_se0),
        dword!(compute_static_thread_mgmt_se1),
        dword!(compute_static_thread_mgmt_se2),
        dword!(compute_static_thread_mgmt_se3),
        dword!(compute_static_thread_mgmt_se4),
        dword!(compute_static_thread_mgmt_se5),
        dword!(compute_static_thread_mgmt_se6),
        dword!(compute_static_thread_mgmt_se7),
    ],
    save_base: [dword!(cp_hqd_ctx_save_base_addr_lo), dword!(cp_hqd_ctx_save_base_addr_hi)],
    save_size: dword!(cp_hqd_ctx_save_size),
    stack_size: dword!(cp_hqd_cntl_stack_size),
    stack_offset: dword!(cp_hqd_cntl_stack_offset),
    waves_offset: dword!(cp_hqd_wg_state_offset),
    gws: dword!(gws),
    xccs: None,
};
