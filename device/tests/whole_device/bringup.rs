//! Bringing the device up as amdgpu does, and its reactions to mistakes on the way.

use belfry_abi::ih::{Client, Source};
use belfry_abi::mes::{
    Header, MiscOpcode, Opcode, QueryStatus, SetHwResources, SetHwResources1, SetSchedulingConfig,
    WRM_OPERATION_WAIT_REG_MEM, WRM_OPERATION_WR_WAIT_WR_REG,
};
use belfry_abi::pci;
use belfry_abi::regs::{Register, gc, mmhub, mp, nbio, osssys, smuio};
use belfry_device::chip::gfx1100::dword;
use belfry_device::{GpuConfig, ResetKind};
use zerocopy::{FromZeros, IntoBytes};

use crate::driver::{Driver, FB, VRAM, eventually};

#[test]
fn constants_are_what_a_driver_checks_before_anything_else() {
    let driver = Driver::new();
    assert_eq!(driver.read(dword::<nbio::RCC_CONFIG_MEMSIZE>()), 64);
    assert_eq!(driver.read(dword::<nbio::RCC_IOV_FUNC_IDENTIFIER>()), 0);
    assert_ne!(driver.read(dword::<mp::MP0_SMN_C2PMSG_33>()) >> 31, 0);
    assert_eq!(driver.read(dword::<mp::MP0_SMN_C2PMSG_81>()), 0);
    assert_eq!(driver.read(dword::<nbio::BIOS_SCRATCH_7>()) & 1 << 9, 1 << 9);
    assert_eq!(driver.read(dword::<gc::CP_STAT>()), 0);
    assert_ne!(driver.read(dword::<gc::RLC_RLCS_BOOTLOAD_STATUS>()) >> 31, 0);
    assert_eq!(driver.read(dword::<gc::GB_ADDR_CONFIG>()), 0x545);
    for base in [dword::<gc::GCMC_VM_FB_LOCATION_BASE>(), dword::<mmhub::MMMC_VM_FB_LOCATION_BASE>()] {
        assert_eq!(u64::from(driver.read(base)) << 24, FB);
        assert_eq!(u64::from(driver.read(base + 1)) << 24 | 0xff_ffff, FB + VRAM - 1);
    }
    driver.select(3, 0, 0, 0);
    assert_eq!(driver.read(dword::<gc::CP_MES_GP3_LO>()), 0xe084);
    driver.select(0, 0, 0, 0);
    driver.write(dword::<gc::RLC_SAFE_MODE>(), 3);
    assert_eq!(driver.read(dword::<gc::RLC_SAFE_MODE>()) & 1, 0);
}

#[test]
fn the_discovery_table_is_read_through_the_vram_window() {
    let driver = Driver::new();
    let at = VRAM - (64 << 10);
    driver.write(dword::<nbio::MM_INDEX_HI>(), (at >> 31) as u32);
    driver.write(dword::<nbio::MM_INDEX>(), at as u32 | 1 << 31);
    assert_eq!(driver.read(dword::<nbio::MM_DATA>()), 0x2821_1407);
    // And back: the window writes, too.
    driver.write(dword::<nbio::MM_INDEX>(), 0x100 | 1 << 31);
    driver.write(dword::<nbio::MM_DATA>(), 0x1234_5678);
    let mut data = [0; 4];
    driver.gpu.bar_read(pci::BAR_VRAM, 0x100, &mut data).unwrap();
    assert_eq!(u32::from_le_bytes(data), 0x1234_5678);
}

#[test]
fn far_registers_are_reached_by_index_and_data() {
    let driver = Driver::new();
    for (index, data) in [
        (dword::<nbio::RSMU_INDEX>(), dword::<nbio::RSMU_DATA>()),
        (dword::<nbio::PCIE_INDEX2>(), dword::<nbio::PCIE_DATA2>()),
    ] {
        driver.write(index, 0x03b1_0024);
        assert_eq!(driver.read(index), 0x03b1_0024);
        assert_eq!(driver.read(data), 1, "MP1_FIRMWARE_FLAGS");
        driver.write(index, 0x1013_4408);
        driver.write(data, 0x55aa);
        assert_eq!(driver.read(data), 0x55aa);
        // Within the BAR it is the register itself.
        driver.write(index, dword::<gc::SCRATCH_REG7>() * 4);
        driver.write(data, 0x77);
        assert_eq!(driver.read(dword::<gc::SCRATCH_REG7>()), 0x77);
        // A window onto a window reads 0 and ends.
        driver.write(index, data * 4);
        driver.write(data, 1);
        assert_eq!(driver.read(data), 0);
    }
    assert_eq!(driver.errors("window onto a window"), 4);
}

#[test]
fn far_registers_without_behaviour_are_ranked_by_use() {
    let driver = Driver::new();
    let far = |address: u32, writes: u32| {
        driver.write(dword::<nbio::PCIE_INDEX2>(), address);
        (0..writes).for_each(|value| driver.write(dword::<nbio::PCIE_DATA2>(), value));
        driver.read(dword::<nbio::PCIE_DATA2>())
    };
    assert_eq!(far(0x1013_4408, 3), 2);
    assert_eq!(far(0x1013_440c, 0), 0);
    // Modelled: read without a trace, and not to be written.
    assert_eq!(far(0x03b1_0024, 0), 1);
    let ranked = driver.gpu.unmodelled();
    assert_eq!(ranked[0], ("far register 0x10134408".to_owned(), 1, 3));
    assert_eq!(ranked[1], ("far register 0x1013440c".to_owned(), 1, 0));
    assert_eq!(ranked.len(), 2);
    assert_eq!(far(0x03b1_0024, 1), 1);
    assert!(driver.gpu.unmodelled().contains(&("far register 0x3b10024".to_owned(), 0, 1)));
    // A guest may use any number; a bounded number is kept.
    for n in 0..5000 {
        driver.write(dword::<nbio::RSMU_INDEX>(), 0x2000_0000 + n * 4);
        driver.write(dword::<nbio::RSMU_DATA>(), 1);
    }
    assert!(driver.errors("too many far registers") > 0);
    assert!(driver.gpu.unmodelled().len() < 5000);
}

#[test]
fn vram_window_out_of_range_is_counted() {
    let driver = Driver::new();
    driver.write(dword::<nbio::MM_INDEX_HI>(), (VRAM >> 31) as u32);
    driver.write(dword::<nbio::MM_INDEX>(), VRAM as u32 | 1 << 31);
    assert_eq!(driver.read(dword::<nbio::MM_DATA>()), 0);
    driver.write(dword::<nbio::MM_DATA>(), 1);
    assert_eq!(driver.errors("window outside of VRAM"), 2);
}

#[test]
fn the_golden_counter_runs() {
    let driver = Driver::new();
    let now = || {
        u64::from(driver.read(dword::<smuio::GOLDEN_TSC_COUNT_UPPER>())) << 32
            | u64::from(driver.read(dword::<smuio::GOLDEN_TSC_COUNT_LOWER>()))
    };
    let before = now();
    eventually("the counter moves", || now() > before);
}

#[test]
fn banked_registers_follow_the_selection() {
    let driver = Driver::new();
    for vmid in 0..16 {
        driver.select(0, 0, 0, vmid);
        driver.write(dword::<gc::SH_MEM_BASES>(), vmid << 16 | 0x2);
    }
    for queue in 0..8 {
        driver.select(1, 2, queue, 0);
        driver.write(dword::<gc::CP_HQD_PQ_BASE>(), 0x100 + queue);
    }
    for vmid in 0..16 {
        driver.select(0, 0, 0, vmid);
        assert_eq!(driver.read(dword::<gc::SH_MEM_BASES>()), vmid << 16 | 0x2);
    }
    for queue in 0..8 {
        driver.select(1, 2, queue, 5);
        assert_eq!(driver.read(dword::<gc::CP_HQD_PQ_BASE>()), 0x100 + queue);
    }
    driver.select(1, 3, 0, 0);
    assert_eq!(driver.read(dword::<gc::CP_HQD_PQ_BASE>()), 0);
}

#[test]
fn topology_registers_count_the_compute_units_asked_for() {
    for cus in [2, 8, 14, 96] {
        let driver = Driver::with(GpuConfig { cus, ..GpuConfig::default() });
        let mut active = 0;
        for engine in 0..6 {
            for array in 0..2 {
                let mut select = gc::GRBM_GFX_INDEX::from_bits(0);
                select.set_se_index(engine);
                select.set_sa_index(array);
                select.set_instance_broadcast_writes(true);
                driver.set(select);
                let inactive = driver.get::<gc::CC_GC_SHADER_ARRAY_CONFIG>().inactive_wgps();
                active += 2 * (!inactive & 0xffff).count_ones();
            }
        }
        assert_eq!(active, cus);
    }
}

#[test]
fn bring_up_ends_with_an_answering_scheduler() {
    let mut driver = Driver::up();
    driver.mes_query();
    driver.kiq_test();
    let (rptr, wptr) = driver.kiq_pointers();
    assert_eq!(rptr, wptr);
    let stats = driver.gpu.stats();
    assert_eq!(stats.errors, Default::default());
    assert_eq!(stats.mes_refused, 0);
    assert!(stats.doorbells_trapped > 0);
    assert_eq!(stats.doorbells_polled, 0);
}

#[test]
fn the_kernel_rings_wrap() {
    let mut driver = Driver::up();
    for _ in 0..300 {
        driver.kiq_test();
    }
    for _ in 0..100 {
        driver.mes_query();
    }
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn the_scheduler_touches_registers_when_asked() {
    let mut driver = Driver::up();
    assert!(driver.misc(MiscOpcode::WRITE_REG, &[dword::<gc::SCRATCH_REG7>(), 0x1234]));
    assert_eq!(driver.read(dword::<gc::SCRATCH_REG7>()), 0x1234);
    let (memory, address) = driver.gart_alloc(8);
    assert!(
        driver.misc(
            MiscOpcode::READ_REG,
            &[dword::<gc::SCRATCH_REG7>(), address as u32, (address >> 32) as u32]
        )
    );
    assert_eq!(driver.ram_u32(memory), 0x1234);
    assert!(driver.misc(
        MiscOpcode::WAIT_REG_MEM,
        &[WRM_OPERATION_WAIT_REG_MEM, 0x1200, 0xff00, dword::<gc::SCRATCH_REG7>(), 0]
    ));
    // A TLB flush as amdgpu sends it: write the request, wait for the acknowledgement.
    let (request, acknowledge) =
        (dword::<gc::GCVM_INVALIDATE_ENG0_REQ>() + 17, dword::<gc::GCVM_INVALIDATE_ENG0_ACK>() + 17);
    assert!(driver.misc(
        MiscOpcode::WAIT_REG_MEM,
        &[WRM_OPERATION_WR_WAIT_WR_REG, 1 << 19 | 1 << 8, 1 << 8, request, acknowledge]
    ));
    assert_eq!(driver.read(acknowledge), 1 << 8);
    assert!(driver.misc(MiscOpcode::INV_GART, &[]));
    assert!(driver.misc(MiscOpcode::QUERY_STATUS, &[]));
    assert!(
        !driver.misc(
            MiscOpcode::WAIT_REG_MEM,
            &[WRM_OPERATION_WAIT_REG_MEM, 1, 1, dword::<gc::SCRATCH_REG7>(), 0]
        )
    );
    assert_eq!(driver.errors("WAIT_REG_MEM for what never comes"), 1);
}

#[test]
fn malformed_frames_are_not_answered_and_the_next_one_is() {
    let mut driver = Driver::up();
    let query = Header::new(Opcode::QUERY_SCHEDULER_STATUS).0;
    let cases = [
        ("MES frame of an unknown type", query & !0xf),
        ("MES frame of an unknown type", query | 0xf),
        ("MES frame of the wrong size", query & !(0xff << 12) | 63 << 12),
        ("MES opcode that does not exist", Header::new(Opcode(0x7f)).0),
        ("MES opcode that is not modelled", Header::new(Opcode::SET_DEBUG_VMID).0),
    ];
    for (name, header) in cases {
        let before = driver.errors(name);
        let mut frame = QueryStatus::new_zeroed();
        frame.header = Header(header);
        let (fence, status) = driver.new_fence();
        frame.api_status = status;
        driver.mes_bytes(frame.as_bytes().try_into().unwrap());
        driver.mes_query();
        assert_eq!(driver.ram_u64(fence), 0, "{name}: fence written");
        assert_eq!(driver.errors(name), before + 1, "{name}: not counted");
    }
    assert_eq!(driver.gpu.stats().mes_refused, cases.len() as u64);
}

#[test]
fn a_fence_that_is_not_mapped_is_named() {
    let mut driver = Driver::up();
    let mut frame = QueryStatus::new_zeroed();
    frame.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
    frame.api_status.api_completion_fence_addr = 0xdead_0000_0000u64.into();
    frame.api_status.api_completion_fence_value = 1.into();
    driver.mes_bytes(frame.as_bytes().try_into().unwrap());
    driver.mes_query();
    assert_eq!(driver.errors("MES fence at an address that is not mapped"), 1);
}

#[test]
fn a_frame_that_is_cut_short_does_not_stop_the_ring() {
    let mut driver = Driver::up();
    driver.mes_raw(&[Header::new(Opcode::QUERY_SCHEDULER_STATUS).0; 10]);
    eventually("the fragment is counted", || driver.errors("MES frame that is cut short") == 1);
    driver.mes_query();
}

#[test]
fn bad_packets_on_the_kiq_interrupt_and_are_skipped() {
    let mut driver = Driver::up();
    driver.kiq(&[3 << 30 | 0x12 << 8, 0]);
    eventually("the packet is counted", || driver.errors("PM4 opcode this queue does not know") == 1);
    driver.kiq_test();
    let entries = driver.drain_interrupts();
    assert_eq!(entries.len(), 1);
    assert_eq!((entries[0].client(), entries[0].source()), (Client::GRBM_CP, Source::CP_BAD_OPCODE_ERROR));
    assert_eq!(driver.interrupts.0.load(std::sync::atomic::Ordering::SeqCst), 1);
}

/// Fields that were asked for and not acted on, by name.
fn ignored(driver: &Driver, frame: &str) -> Vec<(String, u64)> {
    let ranked = driver.gpu.unmodelled().into_iter();
    ranked.filter(|(name, ..)| name.starts_with(frame)).map(|(name, _, count)| (name, count)).collect()
}

#[test]
fn resources_the_kiq_gives_to_nobody_are_named() {
    let mut driver = Driver::up();
    let set_resources = |control: u32, queues: u32, others: u32| {
        [3 << 30 | 6 << 16 | 0xa0 << 8, control, queues, 0, others, 0, others, others]
    };
    driver.kiq(&set_resources(0, 0, 0));
    driver.kiq_test();
    assert!(ignored(&driver, "SET_RESOURCES").is_empty(), "nothing was asked for");
    driver.kiq(&set_resources(0xff00, 1 << 9, 3));
    driver.kiq_test();
    let names = ["gds_heap", "gws_mask", "oac_mask", "queue_mask", "vmid_mask"];
    assert_eq!(ignored(&driver, "SET_RESOURCES"), names.map(|name| (format!("SET_RESOURCES {name}"), 1)));
    assert_eq!(driver.gpu.stats().errors, Default::default());
    // The mask decides the answer to a driver that maps compute queues: pipe 1, queue 1 was given, queue 2
    // was not.
    let map = |queue: u32| [3 << 30 | 5 << 16 | 0xa2 << 8, 1 << 16 | queue << 13, 0, 0, 0, 0, 0];
    driver.kiq(&map(1));
    driver.kiq(&map(2));
    driver.kiq(&set_resources(1 << 29, 0, 0));
    driver.kiq_test();
    assert_eq!(driver.errors("MAP_QUEUES of a compute queue, which is not modelled"), 1);
    assert_eq!(driver.errors("MAP_QUEUES of a queue SET_RESOURCES did not give"), 1);
    assert_eq!(driver.errors("SET_RESOURCES for a queue other than the KIQ"), 1);
    let entries = driver.drain_interrupts();
    assert!(entries.iter().all(|entry| entry.source() == Source::CP_BAD_OPCODE_ERROR) && entries.len() == 3);
}

#[test]
fn fields_of_scheduler_frames_that_do_nothing_are_named() {
    let mut driver = Driver::up();
    let mut more = SetHwResources1::new_zeroed();
    more.header = Header::new(Opcode::SET_HW_RSRC_1);
    let mut config = SetSchedulingConfig::new_zeroed();
    config.header = Header::new(Opcode::SET_SCHEDULING_CONFIG);
    config.process_quantum_for_level = [1000.into(); 5];
    more.timestamp = 5.into();
    assert!(driver.mes(&more, Opcode::SET_HW_RSRC_1));
    assert!(driver.mes(&config, Opcode::SET_SCHEDULING_CONFIG));
    assert!(ignored(&driver, "SET_").is_empty(), "all of this is done");
    more.flags = SetHwResources1::ENABLE_MES_INFO_CTX | 2;
    more.later[0] = 10;
    config.normal_yield_percent = 10;
    config.grace_period_other_levels[3] = 1.into();
    let mut hardware = SetHwResources::new_zeroed();
    hardware.header = Header::new(Opcode::SET_HW_RSRC);
    hardware.vmid_mask_gfxhub = 0xff00;
    hardware.compute_hqd_mask = [0xc; 8];
    hardware.gfx_hqd_mask[0] = 2;
    hardware.sdma_hqd_mask[1] = 0x1fc;
    hardware.aggregated_doorbells[4] = 0x86;
    assert!(driver.mes(&more, Opcode::SET_HW_RSRC_1));
    assert!(driver.mes(&config, Opcode::SET_SCHEDULING_CONFIG));
    assert!(driver.mes(&hardware, Opcode::SET_HW_RSRC));
    let names = [
        "SET_HW_RSRC aggregated_doorbells",
        "SET_HW_RSRC compute_hqd_mask of pipes 4 to 7",
        "SET_HW_RSRC sdma_hqd_mask of queues 8 to 31",
        "SET_HW_RSRC_1 fields of later firmware",
        "SET_HW_RSRC_1 mes_info_ctx",
        "SET_HW_RSRC_1 unknown flags",
        "SET_SCHEDULING_CONFIG grace periods",
        "SET_SCHEDULING_CONFIG normal_yield_percent",
    ];
    assert_eq!(ignored(&driver, "SET_"), names.map(|name| (name.to_owned(), 1)));
    assert_eq!(driver.gpu.stats().errors, Default::default());
}

#[test]
fn a_write_pointer_out_of_the_ring_is_refused() {
    let mut driver = Driver::up();
    driver.ring(pci::doorbell::MES_RING0.offset().bytes(), u64::MAX / 2);
    eventually("it is counted", || {
        driver.errors("the write pointer is not within one ring of the read pointer") == 1
    });
    driver.mes_query();
}

#[test]
fn doorbells_nobody_owns_are_counted_by_name() {
    let driver = Driver::up();
    driver.ring(0x10_0000, 1);
    let stats = driver.gpu.stats();
    assert_eq!(stats.doorbells_unknown, 1);
    assert_eq!(driver.errors("doorbell of a queue that does not exist"), 1);
}

#[test]
fn a_queue_is_taken_off_by_a_dequeue_request() {
    let mut driver = Driver::up();
    driver.select(3, 1, 0, 0);
    assert_eq!(driver.read(dword::<gc::CP_HQD_ACTIVE>()) & 1, 1);
    driver.write(dword::<gc::CP_HQD_DEQUEUE_REQUEST>(), 1);
    eventually("CP_HQD_ACTIVE drops", || driver.read(dword::<gc::CP_HQD_ACTIVE>()) & 1 == 0);
    driver.select(0, 0, 0, 0);
    // And a new one starts where the driver says.
    driver.start_kiq();
    driver.kiq_test();
}

#[test]
fn a_reset_forgets_queues_and_keeps_memory() {
    for how in [None, Some(ResetKind::Flr), Some(ResetKind::System)] {
        let mut driver = Driver::up();
        driver.put_vram(0x20_0000, b"kept");
        match how {
            Some(kind) => driver.gpu.reset(kind),
            None => driver.gpu.config_write(0x64 + 8, &[0x10, 0xa8]),
        }
        let mut command = [0; 2];
        driver.gpu.config_read(4, &mut command);
        assert_eq!(command, [0, 0], "bus mastering is off");
        assert_eq!(driver.read(dword::<osssys::IH_RB_CNTL>()), 0);
        driver.select(3, 1, 0, 0);
        assert_eq!(driver.read(dword::<gc::CP_HQD_ACTIVE>()), 0);
        let mut data = [0; 4];
        driver.gpu.bar_read(pci::BAR_VRAM, 0x20_0000, &mut data).unwrap();
        assert_eq!(&data, b"kept");
        driver.gpu.bar_read(pci::BAR_VRAM, VRAM - (64 << 10), &mut data).unwrap();
        assert_eq!(u32::from_le_bytes(data), 0x2821_1407);
        // A driver that comes again finds a device like new.
        driver.bring_up();
        assert_eq!(driver.gpu.stats().errors, Default::default());
    }
}

#[test]
fn nothing_happens_while_the_function_is_not_bus_master() {
    let mut driver = Driver::up();
    driver.gpu.config_write(4, &[2, 0]);
    let (fence, status) = driver.new_fence();
    let mut query = QueryStatus::new_zeroed();
    query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
    query.api_status = status;
    driver.mes_bytes(query.as_bytes().try_into().unwrap());
    driver.runner_passes();
    assert_eq!(driver.ram_u64(fence), 0);
    driver.gpu.config_write(4, &[6, 0]);
    eventually("the frame is answered once the bit is set", || driver.ram_u64(fence) != 0);
}

#[test]
fn pause_and_resume_hold_the_scheduler() {
    let mut driver = Driver::up();
    driver.gpu.pause();
    let (fence, status) = driver.new_fence();
    let mut query = QueryStatus::new_zeroed();
    query.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
    query.api_status = status;
    driver.mes_bytes(query.as_bytes().try_into().unwrap());
    driver.runner_passes();
    assert_eq!(driver.ram_u64(fence), 0);
    driver.gpu.resume();
    eventually("the frame is answered afterwards", || driver.ram_u64(fence) != 0);
    driver.gpu.stop();
    driver.gpu.stop();
}

#[test]
fn registers_without_behaviour_are_ranked_by_use() {
    let driver = Driver::new();
    let odd = 0x3_f000;
    for value in 0..5 {
        driver.write(odd, value);
    }
    assert_eq!(driver.read(odd), 4);
    driver.read(odd + 1);
    let ranked = driver.gpu.unmodelled();
    assert_eq!(ranked[0], ("register at dword 0x3f000".to_owned(), 1, 5));
    assert!(ranked.contains(&("register at dword 0x3f001".to_owned(), 1, 0)));
    assert!(!ranked.iter().any(|(name, ..)| name == "SCRATCH_REG0"));
}
