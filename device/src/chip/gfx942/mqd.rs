//! Compute MQD of gfx9 (`struct v9_mqd`).

use belfry_abi::mqd::v9;

use crate::chip::{MqdLayout, XccFields, gfx1100};

pub(super) const LAYOUT: MqdLayout = MqdLayout {
    // There are 4 engines on each XCC.
    thread_mgmt: &[23, 24, 26, 27],
    // Waves take traps if their process has a handler.
    xccs: Some(XccFields {
        logic_id: v9::COMPUTE_CURRENT_LOGIC_XCC_ID.0,
        chunk: v9::COMPUTE_TG_CHUNK_SIZE.0,
        target: v9::PM4_TARGET_XCC_IN_XCP.0,
        stride: v9::CP_MQD_STRIDE_SIZE.0,
    }),
    // The counters of the global wave sync are in dwords that are reserved.
    ..gfx1100::GENERATION_MQD
};
