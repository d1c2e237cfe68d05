//! Trap handler and save areas for preempting queues of the tests.

/// The driver's trap handler.
pub static TRAP_HANDLER: &[u8] =
    include_bytes!("../../../../guest-driver/core/src/asic/gfx11/trap_handler.bin");
/// Bytes of a context save area, for a few waves, and of its control stack.
pub const AREA_SIZE: u32 = 0x2_0000;
pub const STACK_SIZE: u32 = 0x1000;
