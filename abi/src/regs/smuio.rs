//! The golden time stamp counter.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `smuio_13_0_6_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip SMUIO;
    /// 100 MHz counter bits 63:32.
    GOLDEN_TSC_COUNT_UPPER @ 1:0x2d Ro = 0x0 {}
    /// 100 MHz counter bits 31:0.
    GOLDEN_TSC_COUNT_LOWER @ 1:0x2e Ro = 0x0 {}
}
