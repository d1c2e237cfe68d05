//! Mailboxes of the system management unit.
//!
//! Offsets: Linux `drivers/gpu/drm/amd/include/asic_reg`, `mp_13_0_0_offset.h`. Uses of the mailboxes:
//! `drivers/gpu/drm/amd/pm/swsmu/smu13/smu_v13_0.c`.

registers! {
    ip MP1;
    /// Parameter of a message of the mailbox for tests.
    MP1_SMN_C2PMSG_53 @ 0:0x275 Rw = 0x0 {}
    /// Answer of the mailbox for tests.
    MP1_SMN_C2PMSG_54 @ 0:0x276 Rw = 0x0 {}
    /// Message of the driver's mailbox: a write begins it.
    MP1_SMN_C2PMSG_66 @ 0:0x282 Rw = 0x0 {}
    /// Message of the mailbox for tests: a write begins it.
    MP1_SMN_C2PMSG_75 @ 0:0x28b Rw = 0x0 {}
    /// Parameter of a message, and the value that it returns.
    MP1_SMN_C2PMSG_82 @ 0:0x292 Rw = 0x0 {}
    /// Answer to a message; 0 while there is none.
    MP1_SMN_C2PMSG_90 @ 0:0x29a Rw = 0x1 {}
}
