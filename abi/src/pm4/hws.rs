//! Packets of the HIQ on gfx9, which the hardware scheduler takes, and of run lists.
//!
//! Sources: linux `kfd_pm4_headers_ai.h`, `kfd_pm4_headers_aldebaran.h`, `kfd_packet_manager_v9.c`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

word! {
    /// First word of MAP_PROCESS.
    MapProcessControl {
        /// The process.
        pub u16, pasid, set_pasid: 15, 0;
        /// Only single memory operations are in flight.
        pub single_memops, set_single_memops: 16;
        /// Registers are cleaned when the process leaves.
        pub exec_cleaner_shader, set_exec_cleaner_shader: 17;
        /// VMID of a process that is debugged.
        pub u8, debug_vmid, set_debug_vmid: 21, 18;
        /// The process is debugged by `debug_vmid`.
        pub new_debug, set_new_debug: 22;
        /// The process uses protected memory.
        pub tmz, set_tmz: 23;
        /// The process has a debug interface queue.
        pub diq_enable, set_diq_enable: 24;
        /// Time slice.
        pub u8, process_quantum, set_process_quantum: 31, 25;
    }
}

word! {
    /// Word of MAP_PROCESS with the sizes of the process's resources.
    MapProcessResources {
        /// Global wave sync resources.
        pub u8, num_gws, set_num_gws: 6, 0;
        /// The process has SDMA queues.
        pub sdma_enable, set_sdma_enable: 7;
        /// Ordered append counters.
        pub u8, num_oac, set_num_oac: 11, 8;
        /// Size of global data share, high part.
        pub u8, gds_size_hi, set_gds_size_hi: 15, 12;
        /// Size of global data share.
        pub u8, gds_size, set_gds_size: 21, 16;
        /// Queues that follow.
        pub u16, num_queues, set_num_queues: 31, 22;
    }
}

/// Body of MAP_PROCESS, `struct pm4_mes_map_process_aldebaran`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapProcess {
    /// The process.
    pub control: MapProcessControl,
    /// Page table root, low half: the value for `VM_CONTEXTn_PAGE_TABLE_BASE_ADDR`, flags included.
    pub page_table_base_lo: u32,
    /// Page table root, high half.
    pub page_table_base_hi: u32,
    /// `SH_MEM_BASES`.
    pub sh_mem_bases: u32,
    /// `SH_MEM_CONFIG`.
    pub sh_mem_config: u32,
    /// Trap handler, bits 39:8 of its address.
    pub sq_shader_tba_lo: u32,
    /// Trap handler, high bits; bit 31 enables traps.
    pub sq_shader_tba_hi: u32,
    /// Memory of the trap handler, bits 39:8 of its address.
    pub sq_shader_tma_lo: u32,
    /// Memory of the trap handler, high bits.
    pub sq_shader_tma_hi: u32,
    /// Reserved.
    pub reserved6: u32,
    /// Global data share, low half.
    pub gds_addr_lo: u32,
    /// Global data share, high half.
    pub gds_addr_hi: u32,
    /// Sizes.
    pub resources: MapProcessResources,
    /// `SPI_GDBG_PER_VMID_CNTL`.
    pub spi_gdbg_per_vmid_cntl: u32,
    /// `TCP_WATCH0_CNTL` to `TCP_WATCH3_CNTL`.
    pub tcp_watch_cntl: [u32; 4],
    /// Signal of completion, low half.
    pub completion_signal_lo: u32,
    /// Signal of completion, high half.
    pub completion_signal_hi: u32,
}

word! {
    /// First word of MAP_QUEUES as run lists have it, `struct pm4_mes_map_queues`.
    HwsMapQueuesControl {
        /// Range of the SDMA engines that `engine_sel` counts: 0 the first two, 1 engines 0 to 7, 2 engines 8
        /// to 15.
        pub u8, extended_engine_sel, set_extended_engine_sel: 3, 2;
        /// 1: a slot that the scheduler chooses.
        pub u8, queue_sel, set_queue_sel: 5, 4;
        /// The queue uses global wave sync.
        pub gws_control_queue, set_gws_control_queue: 12;
        /// 0 normal, 1 debug interface, 2 normal and static, 3 normal with low latency.
        pub u8, queue_type, set_queue_type: 23, 21;
        /// 0 compute, 2 and 3 SDMA; with an `extended_engine_sel`, the engine.
        pub u8, engine_sel, set_engine_sel: 28, 26;
        /// Queues in this packet, 1.
        pub u8, num_queues, set_num_queues: 31, 29;
    }
}

word! {
    /// Third word of RUN_LIST.
    RunListControl {
        /// Dwords of the list.
        pub ib_size, set_ib_size: 19, 0;
        /// Continues in the list that the packet is at the end of, after a time slice.
        pub chain, set_chain: 20;
        /// Write pointers of queues without slots are polled.
        pub offload_polling, set_offload_polling: 21;
        /// Queues without slots do not poll.
        pub chained_runlist_idle_disable, set_chained_runlist_idle_disable: 22;
        /// The packet takes effect.
        pub valid, set_valid: 23;
        /// Processes that get a VMID at a time.
        pub u8, process_cnt, set_process_cnt: 27, 24;
    }
}

/// Body of RUN_LIST, `struct pm4_mes_runlist`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct RunList {
    /// Address of the list, low half; a multiple of 4.
    pub ib_base_lo: u32,
    /// Address of the list, high half.
    pub ib_base_hi: u32,
    /// Size and flags.
    pub control: RunListControl,
}

word! {
    /// Only word of PRED_EXEC on GC 9.4.3.
    PredExec {
        /// Dwords of the packets that follow which only these XCCs execute.
        pub u16, exec_count, set_exec_count: 13, 0;
        /// The XCCs, one bit for each of the partition.
        pub u8, virtual_xcc_id_select, set_virtual_xcc_id_select: 31, 24;
    }
}

/// Body of ACQUIRE_MEM on gfx9, which has no `gcr_cntl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct AcquireMemGfx9 {
    /// `CP_COHER_CNTL`.
    pub coher_cntl: u32,
    /// Size in units of 256 bytes, low part.
    pub coher_size: u32,
    /// Size, high part.
    pub coher_size_hi: u32,
    /// Base in units of 256 bytes, low part.
    pub coher_base_lo: u32,
    /// Base, high part.
    pub coher_base_hi: u32,
    /// Cycles between looks.
    pub poll_interval: u32,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<MapProcess>() == 20 * 4);
    assert!(offset_of!(MapProcess, resources) == 12 * 4);
    assert!(offset_of!(MapProcess, completion_signal_lo) == 18 * 4);
    assert!(size_of::<RunList>() == 3 * 4);
    assert!(size_of::<AcquireMemGfx9>() == 6 * 4);
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_that_the_driver_writes() {
        let map = HwsMapQueuesControl::from_bits(1 << 4 | 1 << 12 | 2 << 21 | 1 << 29);
        assert_eq!(
            (map.queue_sel(), map.gws_control_queue(), map.queue_type(), map.num_queues()),
            (1, true, 2, 1)
        );
        let sdma = HwsMapQueuesControl::from_bits(2 << 2 | 1 << 4 | 5 << 26 | 1 << 29);
        assert_eq!((sdma.extended_engine_sel(), sdma.engine_sel()), (2, 5));
        let list = RunListControl::from_bits(33 | 1 << 20 | 1 << 23 | 3 << 24);
        assert_eq!((list.ib_size(), list.chain(), list.valid(), list.process_cnt()), (33, true, true, 3));
        let process = MapProcessControl::from_bits(0x1400_8001);
        assert_eq!((process.pasid(), process.process_quantum()), (0x8001, 10));
        let resources = MapProcessResources::from_bits(2 << 22 | 1 << 7 | 64);
        assert_eq!((resources.num_queues(), resources.sdma_enable(), resources.num_gws()), (2, true, 64));
        let pred = PredExec::from_bits(0x0100_0007);
        assert_eq!((pred.virtual_xcc_id_select(), pred.exec_count()), (1, 7));
    }
}
