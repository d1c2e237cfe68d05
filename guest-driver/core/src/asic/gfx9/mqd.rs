//! MQDs of gfx9 in the form of GC 9.4.3, where every graphics core has one (`kfd_mqd_manager_v9.c`, `init_mqd_v9_4_3`,
//! `update_mqd_v9_4_3`, `init_mqd_hiq_v9_4_3`). The hardware queue's registers are at the places of gfx11.

use belfry_abi::kfd::queue::KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
use belfry_abi::mqd::v9::{
    COMPUTE_CURRENT_LOGIC_XCC_ID, COMPUTE_TG_CHUNK_SIZE, CP_MQD_STRIDE_SIZE, PM4_TARGET_XCC_IN_XCP,
};
use belfry_abi::mqd::{ComputeMqd, HEADER, SdmaMqd};
use belfry_abi::regs::{Register, gc};
use zerocopy::FromZeros;

use crate::asic::gfx11::{self, MQD_MANAGER};
use crate::asic::{CuMask, KernelRing, MqdManager, UserQueue, UserRing};
use crate::config::Config;
use crate::errno::Result;
use crate::os::PAGE_SIZE;
use crate::request::{Image, SdmaPlace};

pub(super) const MANAGER: MqdManager = MqdManager {
    stride,
    init,
    update,
    init_sdma,
    update_sdma,
    set_cus,
    spread_cu_mask,
    init_kernel,
    ..MQD_MANAGER
};

/// `CP_HQD_PERSISTENT_STATE`: preload size 0x53, preload request, context switches within a queue.
const PRELOAD_SIZE: u32 = 0x53 << 8;
const PRELOAD_REQ: u32 = 1;
const QSWITCH_MODE: u32 = 1 << 28;
/// `CP_HQD_IB_CONTROL`: MIN_IB_AVAIL_SIZE 3, IB_EXE_DISABLE.
const IB_CONTROL: u32 = 3 << 20 | 1 << 23;
/// `CP_HQD_PQ_CONTROL.WPP_CLAMP_EN` and `UNORD_DISPATCH`.
const WPP_CLAMP_EN: u32 = 1 << 13;
const UNORD_DISPATCH: u32 = 1 << 28;

/// An MQD has a page, and the kernel's control stack follows it (`mqd_stride_v9`).
fn stride(config: &Config) -> u32 {
    PAGE_SIZE as u32 + super::save_area(config).ctl_stack_size
}

/// All compute units of all shader engines.
fn set_engines(mqd: &mut ComputeMqd, engines: &[u32; 8]) {
    mqd.compute_static_thread_mgmt_se0 = engines[0];
    mqd.compute_static_thread_mgmt_se1 = engines[1];
    mqd.compute_static_thread_mgmt_se2 = engines[2];
    mqd.compute_static_thread_mgmt_se3 = engines[3];
}

fn init(image: &mut Image, queue: &UserQueue<'_>) -> Result<()> {
    let &UserQueue { mqd: base, args, doorbell: index, share } = queue;
    let mqd = image.mqd()?;
    mqd.header = HEADER;
    mqd.compute_pipelinestat_enable = 1;
    set_engines(mqd, &[u32::MAX; 8]);
    mqd.cp_hqd_persistent_state = PRELOAD_REQ | PRELOAD_SIZE;
    // PRIV_STATE
    mqd.cp_mqd_control = 1 << 8;
    mqd.set_mqd_base(base);
    // Quantum enabled, scale 1, duration 1.
    mqd.cp_hqd_quantum = 1 | 1 << 4 | 1 << 8;
    // Queue debugging enabled.
    mqd.cp_hqd_hq_status0 = 1 << 14;
    let aql = args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    mqd.cp_hqd_aql_control = aql.into();
    if args.ctx_save_restore_address != 0 {
        let skip = u64::from(share.number) * u64::from(args.ctx_save_restore_size);
        let area = args.ctx_save_restore_address.wrapping_add(skip);
        mqd.cp_hqd_persistent_state |= QSWITCH_MODE;
        mqd.cp_hqd_ctx_save_base_addr_lo = area as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (area >> 32) as u32;
        mqd.cp_hqd_ctx_save_size = args.ctx_save_restore_size;
        mqd.cp_hqd_cntl_stack_size = args.ctl_stack_size;
        mqd.cp_hqd_cntl_stack_offset = args.ctl_stack_size;
        mqd.cp_hqd_wg_state_offset = args.ctl_stack_size;
    }
    mqd.set_pq_rptr_report_addr(args.read_pointer_address);
    mqd.set_pq_wptr_poll_addr(args.write_pointer_address);
    let mut doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL(0);
    doorbell.set_doorbell_offset(index.dwords());
    doorbell.set_doorbell_bif_drop(aql);
    mqd.cp_hqd_pq_doorbell_control = doorbell.bits();
    mqd.cp_hqd_ib_control = IB_CONTROL;
    if args.eop_buffer_address != 0 {
        mqd.set_eop_base(args.eop_buffer_address);
        mqd.cp_hqd_eop_control = ((args.eop_buffer_size / 4).ilog2() - 1).min(0xa);
    }
    mqd.set_v9(CP_MQD_STRIDE_SIZE, share.stride);
    if aql {
        mqd.set_v9(COMPUTE_TG_CHUNK_SIZE, 1);
        mqd.set_v9(COMPUTE_CURRENT_LOGIC_XCC_ID, (share.first + share.number) % share.count.max(1));
    } else {
        // One graphics core executes the ring, and all of its dispatches.
        mqd.set_v9(PM4_TARGET_XCC_IN_XCP, args.queue_percentage >> 8 & 0xff);
    }
    Ok(())
}

fn update(image: &mut Image, ring: &UserRing) -> Result<()> {
    (MQD_MANAGER.update)(image, ring)?;
    let mqd = image.mqd()?;
    let mut control = gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control | UNORD_DISPATCH);
    if ring.aql {
        control.0 |= WPP_CLAMP_EN;
        control.set_no_update_rptr(!ring.leads);
    }
    mqd.cp_hqd_pq_control = control.bits();
    Ok(())
}

fn init_sdma(image: &mut Image, queue: &UserQueue<'_>, place: SdmaPlace) -> Result<()> {
    let mut mqd = SdmaMqd::new_zeroed();
    gfx11::init_sdma_mqd(&mut mqd, queue, place);
    mqd.write_v9(image.sdma_dwords()?);
    Ok(())
}

fn update_sdma(image: &mut Image, ring: &UserRing) -> Result<()> {
    let dwords = image.sdma_dwords()?;
    let mut mqd = SdmaMqd::from_v9(dwords);
    gfx11::update_sdma_mqd(&mut mqd, ring);
    mqd.write_v9(dwords);
    Ok(())
}

fn set_cus(image: &mut Image, engines: &[u32; 8]) -> Result<()> {
    set_engines(image.mqd()?, engines);
    Ok(())
}

/// Deals the bits of a CU mask out: to graphics cores first, then to shader engines, then to their arrays
/// (`mqd_symmetrically_map_cu_mask`, GC 9.4.3).
fn spread_cu_mask(config: &Config, mask: &CuMask<'_>, xcc: u32) -> Result<[u32; 8]> {
    let is_on =
        |index: u32| mask.words.get(index as usize / 32).is_some_and(|word| word >> (index % 32) & 1 != 0);
    let xccs = config.xccs.max(1);
    let mut engines = [0u32; 8];
    let mut next = xcc;
    for cu in 0..16 {
        for array in 0..config.arrays_per_engine.min(2) {
            for engine in 0..config.shader_engines.min(8) {
                let place = (xcc * config.shader_engines + engine) * config.arrays_per_engine + array;
                let present = config.cu_bitmap.get(place as usize).map_or(0, |bitmap| bitmap.count_ones());
                if present <= cu {
                    continue;
                }
                if next >= mask.bits {
                    return Ok(engines);
                }
                if is_on(next) {
                    engines[engine as usize] |= 1 << (cu + array * 16);
                }
                next += xccs;
            }
        }
    }
    Ok(engines)
}

fn init_kernel(image: &mut Image, ring: &KernelRing) -> Result<()> {
    (MQD_MANAGER.init_kernel)(image, ring)?;
    let mqd = image.mqd()?;
    mqd.cp_hqd_persistent_state = PRELOAD_SIZE;
    mqd.set_v9(CP_MQD_STRIDE_SIZE, ring.mqd_stride);
    let mut control = gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control);
    control.set_no_update_rptr(!ring.leads);
    mqd.cp_hqd_pq_control = control.bits();
    Ok(())
}

#[cfg(test)]
mod tests;
