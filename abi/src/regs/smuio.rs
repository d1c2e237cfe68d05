//! The golden time stamp counter.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `smuio_13_0_6_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    /// Dword bases of the segments, as the IP discovery table declares them.
    bases [0x16800, 0x16a00, 0x440000, 0x2401000];
    /// 100 MHz counter bits 63:32.
    GOLDEN_TSC_COUNT_UPPER @ 1:0x2d Ro = 0x0 {}
    /// 100 MHz counter bits 31:0.
    GOLDEN_TSC_COUNT_LOWER @ 1:0x2e Ro = 0x0 {}
}
