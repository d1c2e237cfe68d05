//! Rings of the kernel's on the SDMA engines of GC 11.0, whose registers lie in the graphics core's segments.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_11_0_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip GC;
    /// Size and switch of the kernel's ring.
    SDMA0_QUEUE0_RB_CNTL @ 0:0x80 Rw = 0x0 { pub rb_enable, set_rb_enable: 0; pub rb_size, set_rb_size: 5, 1; }
    /// Address of the ring in units of 256 bytes, low half.
    SDMA0_QUEUE0_RB_BASE @ 0:0x81 Rw = 0x0 {}
    /// Address of the ring, high half.
    SDMA0_QUEUE0_RB_BASE_HI @ 0:0x82 Rw = 0x0 {}
    /// Bytes that are read, low half.
    SDMA0_QUEUE0_RB_RPTR @ 0:0x83 Rw = 0x0 {}
    /// Bytes that are read, high half.
    SDMA0_QUEUE0_RB_RPTR_HI @ 0:0x84 Rw = 0x0 {}
    /// Bytes that are written, low half.
    SDMA0_QUEUE0_RB_WPTR @ 0:0x85 Rw = 0x0 {}
    /// Bytes that are written, high half.
    SDMA0_QUEUE0_RB_WPTR_HI @ 0:0x86 Rw = 0x0 {}
    /// Address to which the read pointer is written, high half.
    SDMA0_QUEUE0_RB_RPTR_ADDR_HI @ 0:0x88 Rw = 0x0 {}
    /// Address to which the read pointer is written, low half.
    SDMA0_QUEUE0_RB_RPTR_ADDR_LO @ 0:0x89 Rw = 0x0 {}
    /// Switch of the doorbell.
    SDMA0_QUEUE0_DOORBELL @ 0:0x92 Rw = 0x0 { pub enable, set_enable: 28; }
    /// Place of the doorbell, in dwords.
    SDMA0_QUEUE0_DOORBELL_OFFSET @ 0:0xab Rw = 0x0 { pub offset, set_offset: 27, 2; }
    /// Address of the write pointer in memory, high half.
    SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_HI @ 0:0xb2 Rw = 0x0 {}
    /// Address of the write pointer in memory, low half.
    SDMA0_QUEUE0_RB_WPTR_POLL_ADDR_LO @ 0:0xb3 Rw = 0x0 {}
    /// Size and switch of the kernel's ring of the second engine.
    SDMA1_QUEUE0_RB_CNTL @ 0:0x680 Rw = 0x0 { pub rb_enable, set_rb_enable: 0; pub rb_size, set_rb_size: 5, 1; }
    /// Address of the ring in units of 256 bytes, low half of the second engine.
    SDMA1_QUEUE0_RB_BASE @ 0:0x681 Rw = 0x0 {}
    /// Address of the ring, high half of the second engine.
    SDMA1_QUEUE0_RB_BASE_HI @ 0:0x682 Rw = 0x0 {}
    /// Bytes that are read, low half of the second engine.
    SDMA1_QUEUE0_RB_RPTR @ 0:0x683 Rw = 0x0 {}
    /// Bytes that are read, high half of the second engine.
    SDMA1_QUEUE0_RB_RPTR_HI @ 0:0x684 Rw = 0x0 {}
    /// Bytes that are written, low half of the second engine.
    SDMA1_QUEUE0_RB_WPTR @ 0:0x685 Rw = 0x0 {}
    /// Bytes that are written, high half of the second engine.
    SDMA1_QUEUE0_RB_WPTR_HI @ 0:0x686 Rw = 0x0 {}
    /// Address to which the read pointer is written, high half of the second engine.
    SDMA1_QUEUE0_RB_RPTR_ADDR_HI @ 0:0x688 Rw = 0x0 {}
    /// Address to which the read pointer is written, low half of the second engine.
    SDMA1_QUEUE0_RB_RPTR_ADDR_LO @ 0:0x689 Rw = 0x0 {}
    /// Switch of the doorbell of the second engine.
    SDMA1_QUEUE0_DOORBELL @ 0:0x692 Rw = 0x0 { pub enable, set_enable: 28; }
    /// Place of the doorbell, in dwords of the second engine.
    SDMA1_QUEUE0_DOORBELL_OFFSET @ 0:0x6ab Rw = 0x0 { pub offset, set_offset: 27, 2; }
    /// Address of the write pointer in memory, high half of the second engine.
    SDMA1_QUEUE0_RB_WPTR_POLL_ADDR_HI @ 0:0x6b2 Rw = 0x0 {}
    /// Address of the write pointer in memory, low half of the second engine.
    SDMA1_QUEUE0_RB_WPTR_POLL_ADDR_LO @ 0:0x6b3 Rw = 0x0 {}
}
