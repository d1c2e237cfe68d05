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

pub(super) const LAYOUT: MqdLayout = MqdLayout {
    header: HEADER,
    hqd_first: dword!(cp_mqd_base_addr_lo),
    hqd_dwords: dword!(cp_hqd_pq_wptr_hi) - dword!(cp_mqd_base_addr_lo) + 1,
    wave_restore: [dword!(compute_wave_restore_addr_lo), dword!(compute_wave_restore_addr_hi)],
    save_base: [dword!(cp_hqd_ctx_save_base_addr_lo), dword!(cp_hqd_ctx_save_base_addr_hi)],
    save_size: dword!(cp_hqd_ctx_save_size),
};
