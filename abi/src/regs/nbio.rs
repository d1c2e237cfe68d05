//! Bus interface.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `nbio_4_3_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip NBIF;
    /// Address bits 30:0 of the VRAM window, bit 31 set for VRAM.
    MM_INDEX @ 0:0x0 Rw = 0x0 { pub mm_offset, set_mm_offset: 30, 0; pub mm_aper, set_mm_aper: 31; }
    /// Data of the VRAM window.
    MM_DATA @ 0:0x1 Rw = 0x0 {}
    /// Address bits 62:31 of the VRAM window.
    MM_INDEX_HI @ 0:0x6 Rw = 0x0 {}
    /// Byte address of an indirect access.
    PCIE_INDEX2 @ 0:0xe Rw = 0x0 {}
    /// Data of an indirect access.
    PCIE_DATA2 @ 0:0xf Rw = 0x0 {}
    /// Byte address of an indirect access.
    RSMU_INDEX @ 1:0x0 Rw = 0x0 {}
    /// Data of an indirect access.
    RSMU_DATA @ 1:0x1 Rw = 0x0 {}
    /// Bit 9: the firmware has posted the card.
    BIOS_SCRATCH_7 @ 1:0x3f Rw = 0x200 {}
    /// Device id and revision straps.
    RCC_STRAP0 @ 2:0x16 Ro = 0x0 {}
    /// Bit 0 lets doorbells through.
    RCC_DOORBELL_APER_EN @ 2:0xc0 Rw = 0x0 { pub bif_doorbell_aper_en, set_bif_doorbell_aper_en: 0; }
    /// VRAM in MiB.
    RCC_CONFIG_MEMSIZE @ 2:0xc3 Ro = 0x0 {}
    /// 0: neither a virtual function nor virtualised.
    RCC_IOV_FUNC_IDENTIFIER @ 2:0xc5 Ro = 0x0 {}
    /// Asks for a flush of the host data path, one bit for each client.
    GPU_HDP_FLUSH_REQ @ 2:0x106 Rw = 0x0 {}
    /// Flushes that are done, one bit for each client.
    GPU_HDP_FLUSH_DONE @ 2:0x107 Ro = 0x0 {}
    /// Byte offset in BAR5 of the memory flush.
    REMAP_HDP_MEM_FLUSH_CNTL @ 2:0x12d Rw = 0x0 {}
    /// Byte offset in BAR5 of the register flush.
    REMAP_HDP_REG_FLUSH_CNTL @ 2:0x12e Rw = 0x0 {}
}
