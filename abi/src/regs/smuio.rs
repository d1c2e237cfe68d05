//! The golden time stamp counter, and the ROM through registers.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `smuio_13_0_6_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip SMUIO;
    /// Byte offset that `ROM_DATA` reads next; each read adds 4 (`amdgpu/smuio_v13_0_6.c`).
    ROM_INDEX @ 0:0xe4 Rw = 0x0 {}
    /// Dword of the ROM at the index.
    ROM_DATA @ 0:0xe5 Ro = 0x0 {}
    /// 100 MHz counter bits 63:32.
    GOLDEN_TSC_COUNT_UPPER @ 1:0x2d Ro = 0x0 {}
    /// 100 MHz counter bits 31:0.
    GOLDEN_TSC_COUNT_LOWER @ 1:0x2e Ro = 0x0 {}
}
