//! Compute MQD of gfx9 (`struct v9_mqd`).

use belfry_abi::mqd::v9;

use crate::chip::{MqdLayout, XccFields, gfx1100};

/// The layout of gfx11, of which the parts that are named below are the same.
const GFX11: MqdLayout = gfx1100::GENERATION_MQD;

pub(in crate::chip) const LAYOUT: MqdLayout = MqdLayout {
    header: GFX11.header,
    hqd_first: GFX11.hqd_first,
    hqd_dwords: GFX11.hqd_dwords,
    compute_first: GFX11.compute_first,
    compute_dwords: GFX11.compute_dwords,
    rsrc2: GFX11.rsrc2,
    // Waves take traps if their process has a handler.
    traps: GFX11.traps,
    // There are 4 engines on each XCC.
    thread_mgmt: &[23, 24, 26, 27],
    save_base: GFX11.save_base,
    save_size: GFX11.save_size,
    stack_size: GFX11.stack_size,
    stack_offset: GFX11.stack_offset,
    waves_offset: GFX11.waves_offset,
    // The counters of the global wave sync are in dwords that are reserved.
    gws: GFX11.gws,
    xccs: Some(XccFields {
        logic_id: v9::COMPUTE_CURRENT_LOGIC_XCC_ID.0,
        chunk: v9::COMPUTE_TG_CHUNK_SIZE.0,
        target: v9::PM4_TARGET_XCC_IN_XCP.0,
        stride: v9::CP_MQD_STRIDE_SIZE.0,
    }),
};
