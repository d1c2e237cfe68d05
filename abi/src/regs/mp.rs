//! Mailboxes of the security processor.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `mp_13_0_0_offset.h`; fields: the `_sh_mask.h` beside it. Uses of the
//! mailboxes: `drivers/gpu/drm/amd/amdgpu/psp_v13_0.c` and `psp_gfx_if.h`.

registers! {
    ip MP0;
    /// Bit 31: the card's own firmware is up.
    MP0_SMN_C2PMSG_33 @ 0:0x61 Ro = 0x80000000 {}
    /// Commands to the boot loader of the PSP; 0x80000000 while it waits for one.
    MP0_SMN_C2PMSG_35 @ 0:0x63 Rw = 0x80000000 {}
    /// Address of the boot loader's buffer, in MiB.
    MP0_SMN_C2PMSG_36 @ 0:0x64 Rw = 0x0 {}
    /// Commands about the ring of the PSP's operating system, and their answers.
    MP0_SMN_C2PMSG_64 @ 0:0x80 Rw = 0x0 {}
    /// Write pointer of the ring, in dwords.
    MP0_SMN_C2PMSG_67 @ 0:0x83 Rw = 0x0 {}
    /// Address of the ring, low half.
    MP0_SMN_C2PMSG_69 @ 0:0x85 Rw = 0x0 {}
    /// Address of the ring, high half.
    MP0_SMN_C2PMSG_70 @ 0:0x86 Rw = 0x0 {}
    /// Bytes of the ring.
    MP0_SMN_C2PMSG_71 @ 0:0x87 Rw = 0x0 {}
    /// Not 0 once the PSP's operating system runs.
    MP0_SMN_C2PMSG_81 @ 0:0x91 Ro = 0x0 {}
}
