//! MM hub of the memory system: the twin of the GC hub for everything outside the graphics core.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `mmhub_3_0_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip MMHUB;
    /// Page table shape of VMID 0; VMID n is n dwords further.
    MMVM_CONTEXT0_CNTL @ 0:0x740 Rw = 0x0 {
        pub enable_context, set_enable_context: 0;
        pub page_table_depth, set_page_table_depth: 2, 1;
        pub page_table_block_size, set_page_table_block_size: 6, 3;
    }
    /// Semaphore of invalidation engine 0; engine n is n dwords further. A read acquires it.
    MMVM_INVALIDATE_ENG0_SEM @ 0:0x751 Ro = 0x0 {}
    /// Request of invalidation engine 0; engine n is n dwords further.
    MMVM_INVALIDATE_ENG0_REQ @ 0:0x763 Rw = 0x0 {
        pub per_vmid_invalidate_req, set_per_vmid_invalidate_req: 15, 0;
        pub flush_type, set_flush_type: 18, 16;
    }
    /// Acknowledgement of invalidation engine 0, one bit per VMID; engine n is n dwords further.
    MMVM_INVALIDATE_ENG0_ACK @ 0:0x775 Ro = 0x0 { pub per_vmid_invalidate_ack, set_per_vmid_invalidate_ack: 15, 0; }
    /// Page table root of VMID 0, low; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_LO32 @ 0:0x7ab Rw = 0x0 {}
    /// Page table root of VMID 0, high; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_BASE_ADDR_HI32 @ 0:0x7ac Rw = 0x0 {}
    /// First page of VMID 0; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_LO32 @ 0:0x7cb Rw = 0x0 {}
    /// First page of VMID 0, high; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_START_ADDR_HI32 @ 0:0x7cc Rw = 0x0 {}
    /// Last page of VMID 0; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_LO32 @ 0:0x7eb Rw = 0x0 {}
    /// Last page of VMID 0, high; VMID n is 2n dwords further.
    MMVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32 @ 0:0x7ec Rw = 0x0 {}
    /// Base that a PTE address is relative to, in 16 MiB.
    MMMC_VM_FB_OFFSET @ 0:0x8d7 Rw = 0x0 {}
    /// First address of the frame buffer in VMID 0, in 16 MiB.
    MMMC_VM_FB_LOCATION_BASE @ 0:0x8ec Rw = 0x8000 { pub fb_base, set_fb_base: 23, 0; }
    /// Last address of the frame buffer in VMID 0, in 16 MiB.
    MMMC_VM_FB_LOCATION_TOP @ 0:0x8ed Rw = 0x0 { pub fb_top, set_fb_top: 23, 0; }
}
