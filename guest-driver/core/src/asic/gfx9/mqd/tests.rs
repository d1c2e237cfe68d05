use alloc::vec;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE};

use super::*;
use crate::asic::Share;

const STRIDE: u32 = 0x4000;

fn share(number: u32) -> Share {
    Share { number, count: 8, first: 6, stride: STRIDE }
}

/// The MQD of a graphics core, of a queue of this type.
fn made(queue_type: u32, number: u32) -> ComputeMqd {
    let args = CreateQueueArgs {
        queue_type,
        queue_percentage: 3 << 8 | 100,
        ctx_save_restore_address: 0x7_0000_0000,
        ctx_save_restore_size: 0x162_1000,
        ctl_stack_size: 0x3000,
        read_pointer_address: 0x3008,
        ..Default::default()
    };
    let mut image = Image::zeroed().unwrap();
    let doorbell = DoorbellIndex::of_number(3);
    init(&mut image, &UserQueue { mqd: 0x1000, args: &args, doorbell, share: share(number) }).unwrap();
    let aql = queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
    let ring = UserRing { base: 0x7000, size: 4096, priority: 7, aql, leads: number == 0 };
    update(&mut image, &ring).unwrap();
    *image.mqd().unwrap()
}

#[test]
fn every_graphics_core_has_its_share_of_an_aql_queue() {
    for number in 0..8 {
        let mqd = made(KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, number);
        let id = mqd.v9(COMPUTE_CURRENT_LOGIC_XCC_ID);
        assert_eq!((id, mqd.v9(COMPUTE_TG_CHUNK_SIZE)), ((6 + number) % 8, 1));
        assert_eq!(mqd.v9(CP_MQD_STRIDE_SIZE), STRIDE);
        let control = gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control);
        assert_eq!(control.no_update_rptr(), number != 0, "the first one reports the read pointer");
        assert_eq!((control.queue_size(), control.slot_based_wptr()), (9, 2));
        let area =
            u64::from(mqd.cp_hqd_ctx_save_base_addr_lo) | u64::from(mqd.cp_hqd_ctx_save_base_addr_hi) << 32;
        assert_eq!(area, 0x7_0000_0000 + u64::from(number) * 0x162_1000);
        assert_eq!((mqd.cp_hqd_cntl_stack_size, mqd.cp_hqd_wg_state_offset), (0x3000, 0x3000));
        assert_eq!(mqd.cp_hqd_persistent_state, 1 | 0x53 << 8 | 1 << 28);
        assert_eq!((mqd.header, mqd.eop_base()), (HEADER, 0));
    }
}

#[test]
fn pm4_queue_runs_on_the_graphics_core_that_its_maker_names() {
    for number in 0..2 {
        let mqd = made(KFD_IOC_QUEUE_TYPE_COMPUTE, number);
        assert_eq!((mqd.v9(COMPUTE_CURRENT_LOGIC_XCC_ID), mqd.v9(COMPUTE_TG_CHUNK_SIZE)), (0, 0));
        assert_eq!(mqd.v9(PM4_TARGET_XCC_IN_XCP), 3);
        assert!(!gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control).no_update_rptr());
    }
}

#[test]
fn mask_bits_alternate_between_graphics_cores_then_engines() {
    let config = Config {
        xccs: 2,
        shader_engines: 2,
        arrays_per_engine: 1,
        cus_per_array: 2,
        cu_bitmap: vec![0b11, 0b01, 0b11, 0b11],
        ..Config::default()
    };
    let spread = |bits, words: &[u32], xcc| spread_cu_mask(&config, &CuMask { bits, words }, xcc).unwrap();
    // Bits of XCC 0: 0 is CU 0 of engine 0, 2 is CU 0 of engine 1, 4 is CU 1 of engine 0, as engine 1 has no more.
    assert_eq!(spread(32, &[0b1_0001], 0)[..3], [0b11, 0, 0]);
    assert_eq!(spread(32, &[0b0_0100], 0)[..3], [0, 1, 0]);
    // Bits of XCC 1: 1, 3, 5 and 7.
    assert_eq!(spread(32, &[0b1000_0010], 1)[..3], [1, 0b10, 0]);
    assert_eq!(spread(4, &[u32::MAX], 1)[..3], [1, 1, 0], "bits beyond the mask do not count");
}

#[test]
fn mqd_of_an_sdma_queue_has_its_fields_where_gfx9_has_them() {
    let args = CreateQueueArgs {
        read_pointer_address: 0x7_0000_1010,
        write_pointer_address: 0x7_0000_1008,
        ..Default::default()
    };
    let mut image = Image::zeroed().unwrap();
    let doorbell = DoorbellIndex::of_number(0x401);
    let queue = UserQueue { mqd: 0x1000, args: &args, doorbell, share: share(0) };
    init_sdma(&mut image, &queue, SdmaPlace { engine: 11, queue: 2 }).unwrap();
    // A saved read pointer, which an update leaves alone.
    image.sdma_dwords().unwrap()[3] = 55;
    let ring = UserRing { base: 0x7_0000_2000, size: 1 << 20, priority: 15, aql: false, leads: true };
    update_sdma(&mut image, &ring).unwrap();
    let dwords = *image.sdma_dwords().unwrap();
    assert_eq!(dwords[..4], [18 << 1 | 1 << 11 | 1 << 12 | 6 << 16, 0x0700_0020, 0, 55]);
    assert_eq!((dwords[8], dwords[9]), (7, 0x1010), "RB_RPTR_ADDR");
    assert_eq!((dwords[28], dwords[29]), (7, 0x1008), "RB_WPTR_POLL_ADDR");
    assert_eq!((dwords[22], dwords[27]), (0x802 << 2, 0xf), "DOORBELL_OFFSET, DUMMY_REG");
    assert_eq!((dwords[126], dwords[127]), (11, 2));
}

#[test]
fn rings_of_the_kernel_say_how_far_their_mqds_are_apart() {
    let made = |leads| {
        let mut image = Image::zeroed().unwrap();
        let ring = KernelRing {
            mqd: 0x1000,
            mqd_stride: 4096,
            leads,
            base: 0x9000,
            size: 2048,
            rptr: 0x8000,
            wptr: 0x8040,
            eop: 0xa000,
            eop_size: 2048,
            doorbell: DoorbellIndex::of_number(1),
        };
        init_kernel(&mut image, &ring).unwrap();
        *image.mqd().unwrap()
    };
    let (first, other) = (made(true), made(false));
    assert_eq!((first.v9(CP_MQD_STRIDE_SIZE), first.cp_hqd_persistent_state), (4096, 0x53 << 8));
    let control = |mqd: &ComputeMqd| gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control);
    assert!(!control(&first).no_update_rptr() && control(&other).no_update_rptr());
    assert!(control(&other).kmd_queue() && control(&other).priv_state());
}
