//! Packets about queues, which the KIQ takes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

word! {
    /// First word of SET_RESOURCES.
    SetResourcesControl {
        /// VMIDs the queue manager owns.
        pub u16, vmid_mask, set_vmid_mask: 15, 0;
        /// Unmap latency.
        pub u8, unmap_latency, set_unmap_latency: 23, 16;
        /// Processes with and without retry of faults may run at a time (gfx9).
        pub enb_xnack_retry_disable_check, set_enb_xnack_retry_disable_check: 28;
        /// 0 KIQ, 1 HIQ, 2 no HIQ.
        pub u8, queue_type, set_queue_type: 31, 29;
    }
}

/// Body of SET_RESOURCES, `PACKET3_SET_RESOURCES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SetResources {
    /// First word.
    pub control: SetResourcesControl,
    /// Queues the manager owns, low half.
    pub queue_mask_lo: u32,
    /// Queues the manager owns, high half.
    pub queue_mask_hi: u32,
    /// Global wave sync resources, low half.
    pub gws_mask_lo: u32,
    /// Global wave sync resources, high half.
    pub gws_mask_hi: u32,
    /// Ordered append counters.
    pub oac_mask: u32,
    /// Global data share heap.
    pub gds_heap: u32,
}

word! {
    /// First word of MAP_QUEUES.
    MapQueuesControl {
        /// 0: the slot given here; 1: any free slot.
        pub u8, queue_sel, set_queue_sel: 5, 4;
        /// VM context.
        pub u8, vmid, set_vmid: 11, 8;
        /// Queue of the pipe.
        pub u8, queue, set_queue: 15, 13;
        /// Pipe of the micro engine.
        pub u8, pipe, set_pipe: 17, 16;
        /// 0 graphics, 1 compute, 2 MES.
        pub u8, me, set_me: 20, 18;
        /// Queue type.
        pub u8, queue_type, set_queue_type: 23, 21;
        /// Allocation format.
        pub u8, alloc_format, set_alloc_format: 25, 24;
        /// 0 compute, 2 and 3 SDMA, 4 graphics, 5 MES.
        pub u8, engine_sel, set_engine_sel: 28, 26;
        /// Queues in this packet.
        pub u8, num_queues, set_num_queues: 31, 29;
    }
}

/// Body of MAP_QUEUES for one queue, `PACKET3_MAP_QUEUES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct MapQueues {
    /// First word.
    pub control: MapQueuesControl,
    /// Doorbell offset in dwords in bits 27:2, `CHECK_DISABLE` in bit 1.
    pub doorbell: u32,
    /// MQD address, low half.
    pub mqd_addr_lo: u32,
    /// MQD address, high half.
    pub mqd_addr_hi: u32,
    /// Write pointer address, low half.
    pub wptr_addr_lo: u32,
    /// Write pointer address, high half.
    pub wptr_addr_hi: u32,
}

word! {
    /// First word of UNMAP_QUEUES.
    UnmapQueuesControl {
        /// 0 preempt, 1 reset, 2 disable the process's queues, 3 preempt without unmapping.
        pub u8, action, set_action: 1, 0;
        /// 0 by doorbell, 1 by PASID, 2 all, 3 all but static ones.
        pub u8, queue_sel, set_queue_sel: 5, 4;
        /// 0 compute, 2 and 3 SDMA, 4 graphics, 5 MES.
        pub u8, engine_sel, set_engine_sel: 28, 26;
        /// Queues in this packet.
        pub u8, num_queues, set_num_queues: 31, 29;
    }
}

/// Body of UNMAP_QUEUES, `PACKET3_UNMAP_QUEUES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct UnmapQueues {
    /// First word.
    pub control: UnmapQueuesControl,
    /// PASID, or the first doorbell offset in bits 27:2.
    pub doorbell0_or_pasid: u32,
    /// Second doorbell offset, or the ring write pointer of `PREEMPT_QUEUES_NO_UNMAP`.
    pub doorbell1: u32,
    /// Third doorbell offset.
    pub doorbell2: u32,
    /// Fourth doorbell offset.
    pub doorbell3: u32,
}

word! {
    /// First word of QUERY_STATUS.
    QueryStatusControl {
        /// Comes back in the interrupt.
        pub context_id, set_context_id: 27, 0;
        /// 0 none, 1 after completion, 2 queue status.
        pub u8, interrupt_sel, set_interrupt_sel: 29, 28;
        /// 0 interrupt only, 1 fence only immediate, 2 fence only after write ack, 3 fence waits for write ack and interrupts.
        pub u8, command, set_command: 31, 30;
    }
}

/// Body of QUERY_STATUS, `PACKET3_QUERY_STATUS`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct QueryStatus {
    /// First word.
    pub control: QueryStatusControl,
    /// PASID, or doorbell offset in bits 27:2 and engine in bits 28:25.
    pub doorbell_or_pasid: u32,
    /// Fence address, low half.
    pub addr_lo: u32,
    /// Fence address, high half.
    pub addr_hi: u32,
    /// Fence value, low half.
    pub data_lo: u32,
    /// Fence value, high half.
    pub data_hi: u32,
}

word! {
    /// Only word of INVALIDATE_TLBS.
    InvalidateTlbsControl {
        /// 1: by PASID.
        pub u8, dst_sel, set_dst_sel: 3, 0;
        /// All hubs.
        pub all_hub, set_all_hub: 4;
        /// Process.
        pub pasid, set_pasid: 20, 5;
        /// Flush type.
        pub u8, flush_type, set_flush_type: 30, 29;
    }
}

const _: () = {
    assert!(size_of::<SetResources>() == 7 * 4);
    assert!(size_of::<MapQueues>() == 6 * 4);
    assert!(size_of::<UnmapQueues>() == 5 * 4);
    assert!(size_of::<QueryStatus>() == 6 * 4);
};
