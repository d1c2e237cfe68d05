//! MQDs of gfx11 (`kfd_mqd_manager_v11.c`, `gfx_v11_0_compute_mqd_init`, `mes_v11_0_mqd_init`).

use belfry_abi::kfd::queue::{ContextSaveAreaHeader, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL};
use belfry_abi::mqd::{HEADER, SDMA_DUMMY_DEFAULT, SdmaMqd, SdmaRbCntl};
use belfry_abi::regs::{Register, gc};

use crate::asic::{CuMask, KernelRing, MqdManager, UserQueue, UserRing};
use crate::config::Config;
use crate::errno::{Errno, Result};
use crate::os::PAGE_SIZE;
use crate::request::{Image, SdmaPlace};

/// `COMPUTE_PGM_RSRC2.TRAP_PRESENT`.
const TRAP_PRESENT: u32 = 1 << 6;

pub(in crate::asic) const MANAGER: MqdManager = MqdManager {
    // There is one graphics core.
    stride: |_| PAGE_SIZE as u32,
    init,
    update,
    init_sdma,
    update_sdma,
    set_cus,
    spread_cu_mask,
    set_takes_traps,
    wave_state,
    init_kernel,
};

fn init(image: &mut Image, queue: &UserQueue<'_>) -> Result<()> {
    let &UserQueue { mqd: base, args, doorbell: index, .. } = queue;
    let mqd = image.mqd()?;
    mqd.header = HEADER;
    mqd.compute_pipelinestat_enable = 1;
    mqd.set_static_thread_mgmt(&[u32::MAX; 8]);
    // Preload request, preload size 0x55.
    mqd.cp_hqd_persistent_state = 1 | 0x55 << 8;
    // PRIV_STATE
    mqd.cp_mqd_control = 1 << 8;
    mqd.set_mqd_base(base);
    // Quantum enabled, scale 1, duration 1.
    mqd.cp_hqd_quantum = 1 | 1 << 4 | 1 << 8;
    // Queue debugging enabled, PCIe atomics work.
    mqd.cp_hqd_hq_status0 = 1 << 14 | 1 << 29;
    let aql = args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    mqd.cp_hqd_aql_control = aql.into();
    if args.ctx_save_restore_address != 0 {
        // Context switches within a queue.
        mqd.cp_hqd_persistent_state |= 1 << 28;
        mqd.cp_hqd_ctx_save_base_addr_lo = args.ctx_save_restore_address as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (args.ctx_save_restore_address >> 32) as u32;
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
    mqd.queue_doorbell_id[0] = index.dwords();
    // MIN_IB_AVAIL_SIZE
    mqd.cp_hqd_ib_control = 3 << 20;
    if args.eop_buffer_address != 0 {
        mqd.set_eop_base(args.eop_buffer_address);
        mqd.cp_hqd_eop_control = ((args.eop_buffer_size / 4).ilog2() - 1).min(0xa);
    }
    Ok(())
}

fn update(image: &mut Image, ring: &UserRing) -> Result<()> {
    let &UserRing { base, size, priority, aql, .. } = ring;
    let mqd = image.mqd()?;
    let mut control = gc::CP_HQD_PQ_CONTROL(0);
    control.set_rptr_block_size(5);
    control.set_queue_size((size / 4).ilog2() - 1);
    if aql {
        control.set_no_update_rptr(true);
        control.set_slot_based_wptr(2);
        control.set_queue_full_en(true);
    }
    mqd.cp_hqd_pq_control = control.bits();
    mqd.set_pq_base(base);
    // `pipe_priority_map` of `kfd_mqd_manager.c`.
    mqd.cp_hqd_pipe_priority = match priority {
        0..=6 => 0,
        7..=10 => 1,
        _ => 2,
    };
    mqd.cp_hqd_queue_priority = priority;
    Ok(())
}

fn init_sdma(image: &mut Image, queue: &UserQueue<'_>, place: SdmaPlace) -> Result<()> {
    init_sdma_mqd(image.sdma()?, queue, place);
    Ok(())
}

/// Fills the MQD of a new SDMA queue, without what an update writes.
pub(in crate::asic) fn init_sdma_mqd(mqd: &mut SdmaMqd, queue: &UserQueue<'_>, place: SdmaPlace) {
    let &UserQueue { args, doorbell, .. } = queue;
    mqd.set_rptr_report(args.read_pointer_address);
    mqd.set_wptr_poll(args.write_pointer_address);
    mqd.sdmax_rlcx_doorbell_offset = doorbell.dwords() << 2;
    mqd.sdmax_rlcx_dummy_reg = SDMA_DUMMY_DEFAULT;
    (mqd.sdma_engine_id, mqd.sdma_queue_id) = (place.engine, place.queue);
}

fn update_sdma(image: &mut Image, ring: &UserRing) -> Result<()> {
    update_sdma_mqd(image.sdma()?, ring);
    Ok(())
}

/// Fills what an update may change.
pub(in crate::asic) fn update_sdma_mqd(mqd: &mut SdmaMqd, ring: &UserRing) {
    let mut control = SdmaRbCntl::from_bits(0);
    control.set_rb_size((ring.size / 4).ilog2() as u8);
    control.set_rptr_writeback_enable(true);
    control.set_rptr_writeback_timer(6);
    control.set_f32_wptr_poll_enable(true);
    mqd.sdmax_rlcx_rb_cntl = control;
    mqd.set_ring_base(ring.base);
}

fn set_cus(image: &mut Image, engines: &[u32; 8]) -> Result<()> {
    image.mqd()?.set_static_thread_mgmt(engines);
    Ok(())
}

/// Deals the pairs of a CU mask of `bits` bits out to shader arrays, engine by engine, then array by array
/// (`mqd_symmetrically_map_cu_mask`, gfx10 and later). A pair is a work group processor, and on or off as a whole.
fn spread_cu_mask(config: &Config, mask: &CuMask<'_>, _xcc: u32) -> Result<[u32; 8]> {
    let &CuMask { bits, words: mask } = mask;
    let pair = |index: u32| mask.get(index as usize / 32).map_or(0, |word| word >> (index % 32) & 3);
    if (0..bits).step_by(2).any(|index| matches!(pair(index), 1 | 2)) {
        return Err(Errno::EINVAL);
    }
    let mut engines = [0u32; 8];
    let mut next = 0;
    for cu in (0..16).step_by(2) {
        for array in 0..config.arrays_per_engine.min(2) {
            for engine in 0..config.shader_engines.min(8) {
                let place = engine * config.arrays_per_engine + array;
                let present = config.cu_bitmap.get(place as usize).map_or(0, |bitmap| bitmap.count_ones());
                if present <= cu {
                    continue;
                }
                if next >= bits {
                    return Ok(engines);
                }
                engines[engine as usize] |= pair(next) << (cu + array * 16);
                next += 2;
            }
        }
    }
    Ok(engines)
}

fn set_takes_traps(image: &mut Image, takes: bool) -> Result<()> {
    let mqd = image.mqd()?;
    mqd.compute_pgm_rsrc2 = mqd.compute_pgm_rsrc2 & !TRAP_PRESENT | if takes { TRAP_PRESENT } else { 0 };
    Ok(())
}

/// The control stack is written backwards and waves forwards, both from its size on.
fn wave_state(image: &mut Image) -> Result<ContextSaveAreaHeader> {
    let mqd = image.mqd()?;
    let size = mqd.cp_hqd_cntl_stack_size;
    Ok(ContextSaveAreaHeader {
        control_stack_offset: mqd.cp_hqd_cntl_stack_offset,
        control_stack_size: size.saturating_sub(mqd.cp_hqd_cntl_stack_offset),
        wave_state_offset: mqd.cp_hqd_wg_state_offset,
        wave_state_size: mqd.cp_hqd_wg_state_offset.saturating_sub(size),
        ..ContextSaveAreaHeader::default()
    })
}

fn init_kernel(image: &mut Image, ring: &KernelRing) -> Result<()> {
    let mqd = image.mqd()?;
    mqd.header = HEADER;
    mqd.set_mqd_base(ring.mqd);
    mqd.set_pq_base(ring.base);
    mqd.set_pq_rptr_report_addr(ring.rptr);
    mqd.set_pq_wptr_poll_addr(ring.wptr);
    mqd.set_eop_base(ring.eop);
    mqd.cp_hqd_eop_control = (ring.eop_size / 4).ilog2() - 1;
    // PRIV_STATE
    mqd.cp_mqd_control = 1 << 8;
    mqd.cp_hqd_persistent_state = 0x55 << 8;
    mqd.cp_hqd_ib_control = 3 << 20;
    let mut doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL(0);
    doorbell.set_doorbell_offset(ring.doorbell.dwords());
    doorbell.set_doorbell_en(true);
    mqd.cp_hqd_pq_doorbell_control = doorbell.bits();
    let mut control = gc::CP_HQD_PQ_CONTROL(0);
    control.set_queue_size((ring.size / 4).ilog2() - 1);
    control.set_rptr_block_size(9);
    control.set_priv_state(true);
    control.set_kmd_queue(true);
    mqd.cp_hqd_pq_control = control.bits();
    mqd.cp_hqd_active = 1;
    Ok(())
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE};
    use zerocopy::IntoBytes;

    use belfry_abi::doorbell::DoorbellIndex;

    use super::*;
    use crate::asic::Share;

    const ALONE: Share = Share { number: 0, count: 1, first: 0, stride: 4096 };

    #[test]
    fn mask_bits_alternate_between_engines_before_they_fill_one() {
        let config = Config {
            shader_engines: 2,
            arrays_per_engine: 1,
            cus_per_array: 4,
            cu_bitmap: vec![0xf, 0x3],
            ..Config::default()
        };
        // Three pairs exist; the second one is off.
        let spread = |bits, word| spread_cu_mask(&config, &CuMask { bits, words: &[word] }, 0);
        let engines = spread(32, !0b1100).unwrap();
        assert_eq!(engines[..3], [0xf, 0, 0]);
        assert_eq!(spread(2, 3).unwrap()[..2], [3, 0]);
        assert_eq!(spread(32, 0b1101), Err(Errno::EINVAL), "half a processor");
    }

    #[test]
    fn an_update_leaves_the_saved_pointers_alone() {
        let mut image = Image::zeroed().unwrap();
        let args = CreateQueueArgs {
            eop_buffer_address: 0x2000,
            eop_buffer_size: 4096,
            queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
            ..Default::default()
        };
        init(
            &mut image,
            &UserQueue { mqd: 0x1000, args: &args, doorbell: DoorbellIndex::of_number(3), share: ALONE },
        )
        .unwrap();
        let mqd = image.mqd().unwrap();
        mqd.set_pq_wptr(77);
        mqd.cp_hqd_pq_rptr = 55;
        update(&mut image, &UserRing { base: 0x7000, size: 4096, priority: 15, aql: true, leads: true })
            .unwrap();
        let mqd = image.mqd().unwrap();
        assert_eq!((mqd.pq_wptr(), mqd.cp_hqd_pq_rptr, mqd.pq_base()), (77, 55, 0x7000));
        assert_eq!(gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control).queue_size(), 9);
        assert_eq!((mqd.header, mqd.mqd_base(), mqd.eop_base()), (HEADER, 0x1000, 0x2000));
    }

    #[test]
    fn mqd_of_an_sdma_queue_has_its_ring_pointers_doorbell_and_place() {
        let args = CreateQueueArgs {
            read_pointer_address: 0x7_0000_1010,
            write_pointer_address: 0x7_0000_1008,
            ..Default::default()
        };
        let mut image = Image::zeroed().unwrap();
        let queue =
            UserQueue { mqd: 0x1000, args: &args, doorbell: DoorbellIndex::of_number(0x401), share: ALONE };
        init_sdma(&mut image, &queue, SdmaPlace { engine: 1, queue: 2 }).unwrap();
        image.sdma().unwrap().set_read_pointer(55);
        update_sdma(
            &mut image,
            &UserRing { base: 0x7_0000_2000, size: 1 << 20, priority: 15, aql: false, leads: true },
        )
        .unwrap();
        let mqd = *image.sdma().unwrap();
        // RB_SIZE 18, write pointer in memory, read pointer written back with a timer of 6.
        assert_eq!(mqd.sdmax_rlcx_rb_cntl.bits(), 18 << 1 | 1 << 11 | 1 << 12 | 6 << 16);
        assert_eq!((mqd.ring_base(), mqd.read_pointer()), (0x7_0000_2000, 55));
        assert_eq!((mqd.rptr_report(), mqd.wptr_poll()), (0x7_0000_1010, 0x7_0000_1008));
        assert_eq!((mqd.sdmax_rlcx_doorbell_offset, mqd.sdmax_rlcx_dummy_reg), (0x802 << 2, 0xf));
        assert_eq!((mqd.sdma_engine_id, mqd.sdma_queue_id), (1, 2));
    }

    #[test]
    fn mqd_of_a_pm4_queue_has_nothing_of_aql() {
        let of = |queue_type| {
            let args = CreateQueueArgs { queue_type, read_pointer_address: 0x3008, ..Default::default() };
            let mut image = Image::zeroed().unwrap();
            let queue =
                UserQueue { mqd: 0x1000, args: &args, doorbell: DoorbellIndex::of_number(3), share: ALONE };
            init(&mut image, &queue).unwrap();
            let aql = queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
            update(&mut image, &UserRing { base: 0x7000, size: 8192, priority: 7, aql, leads: true })
                .unwrap();
            *image.mqd().unwrap()
        };
        let (aql, mut pm4) = (of(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL), of(KFD_IOC_QUEUE_TYPE_COMPUTE));
        let control = gc::CP_HQD_PQ_CONTROL(pm4.cp_hqd_pq_control);
        assert_eq!((control.queue_size(), control.rptr_block_size()), (10, 5));
        assert!(!control.no_update_rptr() && !control.queue_full_en());
        assert_eq!((control.slot_based_wptr(), pm4.cp_hqd_aql_control), (0, 0));
        assert!(!gc::CP_HQD_PQ_DOORBELL_CONTROL(pm4.cp_hqd_pq_doorbell_control).doorbell_bif_drop());
        // All the rest is the same.
        pm4.cp_hqd_pq_control = aql.cp_hqd_pq_control;
        pm4.cp_hqd_aql_control = 1;
        pm4.cp_hqd_pq_doorbell_control = aql.cp_hqd_pq_doorbell_control;
        assert!(pm4.as_bytes() == aql.as_bytes());
    }

    #[test]
    fn wave_state_is_what_lies_on_both_sides_of_the_stack_s_end() {
        let mut image = Image::zeroed().unwrap();
        let mqd = image.mqd().unwrap();
        mqd.cp_hqd_cntl_stack_size = 0x1000;
        (mqd.cp_hqd_cntl_stack_offset, mqd.cp_hqd_wg_state_offset) = (0xf00, 0x1800);
        let state = wave_state(&mut image).unwrap();
        assert_eq!((state.control_stack_offset, state.control_stack_size), (0xf00, 0x100));
        assert_eq!((state.wave_state_offset, state.wave_state_size), (0x1800, 0x800));
        set_takes_traps(&mut image, true).unwrap();
        assert_eq!(image.mqd().unwrap().compute_pgm_rsrc2, TRAP_PRESENT);
        set_takes_traps(&mut image, false).unwrap();
        assert_eq!(image.mqd().unwrap().compute_pgm_rsrc2, 0);
    }
}
