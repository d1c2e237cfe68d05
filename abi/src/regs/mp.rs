//! Mailboxes of the security processor.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `mp_13_0_0_offset.h`; fields: the `_sh_mask.h` beside it.

registers! {
    ip MP0;
    /// Bit 31: the card's own firmware is up.
    MP0_SMN_C2PMSG_33 @ 0:0x61 Ro = 0x80000000 {}
    /// Boot loader of the PSP.
    MP0_SMN_C2PMSG_35 @ 0:0x63 Rw = 0x80000000 {}
    /// Not 0 once the PSP's operating system runs.
    MP0_SMN_C2PMSG_81 @ 0:0x91 Rw = 0x0 {}
}
