//! Interrupt handler.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `osssys_6_0_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip OSSSYS;
    /// PASID of VMID 0; VMID n is n dwords further.
    IH_VMID_0_LUT @ 0:0x0 Rw = 0x0 { pub pasid, set_pasid: 15, 0; }
    /// Control of interrupt ring 0.
    IH_RB_CNTL @ 0:0x80 Rw = 0x0 {
        pub rb_enable, set_rb_enable: 0;
        pub rb_size, set_rb_size: 5, 1;
        pub wptr_writeback_enable, set_wptr_writeback_enable: 8;
        pub rb_full_drain_enable, set_rb_full_drain_enable: 9;
        pub full_drain_clear, set_full_drain_clear: 10;
        pub page_rb_clear, set_page_rb_clear: 11;
        pub rb_used_int_threshold, set_rb_used_int_threshold: 15, 12;
        pub wptr_overflow_enable, set_wptr_overflow_enable: 16;
        pub enable_intr, set_enable_intr: 17;
        pub mc_swap, set_mc_swap: 19, 18;
        pub mc_snoop, set_mc_snoop: 20;
        pub rptr_rearm, set_rptr_rearm: 21;
        pub mc_ro, set_mc_ro: 22;
        pub mc_vmid, set_mc_vmid: 27, 24;
        pub mc_space, set_mc_space: 30, 28;
        pub wptr_overflow_clear, set_wptr_overflow_clear: 31;
    }
    /// Ring address bits 39:8.
    IH_RB_BASE @ 0:0x81 Rw = 0x0 {}
    /// Ring address bits 47:40.
    IH_RB_BASE_HI @ 0:0x82 Rw = 0x0 {}
    /// Read pointer in bytes.
    IH_RB_RPTR @ 0:0x83 Rw = 0x0 { pub offset, set_offset: 17, 2; }
    /// Write pointer in bytes, and the overflow flag.
    IH_RB_WPTR @ 0:0x84 Rw = 0x0 {
        pub rb_overflow, set_rb_overflow: 0;
        pub offset, set_offset: 17, 2;
        pub rb_left_none, set_rb_left_none: 18;
        pub rb_may_overflow, set_rb_may_overflow: 19;
    }
    /// Address for reports of the write pointer, high.
    IH_RB_WPTR_ADDR_HI @ 0:0x85 Rw = 0x0 {}
    /// Address for reports of the write pointer, low.
    IH_RB_WPTR_ADDR_LO @ 0:0x86 Rw = 0x0 {}
    /// Doorbell of the read pointer, a dword offset in the doorbell BAR.
    IH_DOORBELL_RPTR @ 0:0x87 Rw = 0x0 { pub offset, set_offset: 25, 0; pub enable, set_enable: 28; }
    /// Control of interrupt ring 1.
    IH_RB_CNTL_RING1 @ 0:0x8c Rw = 0x0 {}
    /// Read pointer of ring 1.
    IH_RB_RPTR_RING1 @ 0:0x8f Rw = 0x0 {}
    /// Write pointer of ring 1.
    IH_RB_WPTR_RING1 @ 0:0x90 Rw = 0x0 {}
}
