//! The processor: entry, ports, one interrupt, waiting.

use core::arch::{asm, global_asm, naked_asm};
use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};

/// The vector of the one interrupt.
pub const VECTOR: u8 = 0x40;
const COM1: u16 = 0x3f8;
const DEBUG_EXIT: u16 = 0xf4;
/// Local APIC: spurious vector register (bit 8 enables), end of interrupt.
const APIC: u64 = 0xfee0_0000;
const APIC_SPURIOUS: u64 = APIC + 0xf0;
/// Interrupts that wait for the processor: a bit each, 32 to a register, every 16 bytes.
const APIC_REQUESTED: u64 = APIC + 0x200;
const CODE_SELECTOR: u64 = 8;
/// Present, interrupt gate.
const GATE: u64 = 0x8e00;

global_asm!(
    ".pushsection .head, \"ax\"",
    ".globl start",
    "start:",
    "lea rsp, [rip + {stack} + {size}]",
    "xor ebp, ebp",
    "call {run}",
    "ud2",
    ".popsection",
    stack = sym STACK,
    size = const STACK_SIZE,
    run = sym crate::run,
);

const STACK_SIZE: usize = 64 << 10;

#[repr(align(16))]
struct Stack(#[expect(dead_code, reason = "the processor's alone")] [u8; STACK_SIZE]);

static mut STACK: Stack = Stack([0; STACK_SIZE]);

static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// Counts, and tells the APIC.
#[unsafe(naked)]
extern "C" fn interrupt() {
    naked_asm!(
        "lock inc qword ptr [rip + {count}]",
        "push rax",
        "mov eax, 0xfee000b0",
        "mov dword ptr [rax], 0",
        "pop rax",
        "iretq",
        count = sym INTERRUPTS,
    )
}

#[repr(C, align(16))]
struct Gates([[u64; 2]; 256]);

static mut GATES: Gates = Gates([[0; 2]; 256]);

/// Has a vector go to a handler, which ends with `iretq` and restores the registers it changes.
pub fn gate(vector: u8, handler: unsafe extern "C" fn()) {
    let handler = handler as *const () as u64;
    let low = handler & 0xffff | CODE_SELECTOR << 16 | GATE << 32 | (handler >> 16 & 0xffff) << 48;
    let table = &raw mut GATES;
    // SAFETY: one processor, which is not in an interrupt: nothing else uses the static table now.
    unsafe { (*table).0[usize::from(vector)] = [low, handler >> 32] };
}

/// Installs the handler and turns the APIC on; interrupts come only in [`wait_until`].
pub fn take_interrupts() {
    gate(VECTOR, interrupt);
    let table = &raw mut GATES;
    let pointer = [(size_of::<Gates>() - 1) as u16, 0, 0, 0, 0];
    let mut descriptor = pointer;
    for (at, part) in descriptor[1..].iter_mut().enumerate() {
        *part = (table.addr() >> (at * 16)) as u16;
    }
    // SAFETY: the table is static, and its handlers restore the registers they change.
    unsafe { asm!("lidt [{}]", in(reg) descriptor.as_ptr()) };
    // Nothing from the old interrupt controllers.
    out(0x21, 0xff);
    out(0xa1, 0xff);
    crate::memory::write32(APIC_SPURIOUS, 0x1ff);
}

/// Returns true if an interrupt has reached the processor and waits for it.
pub fn interrupt_waits() -> bool {
    let (register, bit) = (u64::from(VECTOR) / 32, VECTOR % 32);
    crate::memory::read32(APIC_REQUESTED + register * 16) >> bit & 1 == 1
}

/// Interrupts so far.
pub fn interrupts() -> u64 {
    INTERRUPTS.load(Ordering::Acquire)
}

/// Sleeps from interrupt to interrupt until a condition holds.
pub fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        // SAFETY: the handler is installed. Checking, then `sti` right before `hlt`, misses nothing: an interrupt waits
        // until the halt, and ends it.
        unsafe { asm!("sti", "hlt", "cli") };
    }
}

/// A while, by writing to a port that takes its time everywhere.
pub fn pause(writes: u32) {
    for _ in 0..writes {
        out(0x80, 0);
    }
}

/// Writes a byte to a port.
pub fn out(port: u16, value: u8) {
    // SAFETY: the ports written here have no effect on memory.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value) };
}

/// Writes a dword to a port.
pub fn out32(port: u16, value: u32) {
    // SAFETY: as in `out`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value) };
}

/// Reads a dword from a port.
pub fn in32(port: u16) -> u32 {
    let value;
    // SAFETY: as in `out`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value) };
    value
}

/// Ends the machine.
pub fn exit(status: u8) -> ! {
    out(DEBUG_EXIT, status);
    loop {
        // SAFETY: there is nothing to come back to.
        unsafe { asm!("cli", "hlt") };
    }
}

/// The serial port.
#[derive(Debug)]
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| out(COM1, byte));
        Ok(())
    }
}

/// Writes a line to the serial port.
macro_rules! say {
    ($($text:tt)*) => {{
        use core::fmt::Write as _;
        // The port cannot fail.
        let _ = writeln!($crate::cpu::Serial, $($text)*);
    }};
}
pub(crate) use say;
