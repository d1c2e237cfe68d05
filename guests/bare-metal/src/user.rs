//! Ring 3: programs that run at the processor's speed where ring 0 is emulated, and come back.
//!
//! A program is entered by `iretq` and leaves by an instruction that is none (`ud2`): `syscall` and software interrupts
//! do not work on every host. It may use ports, and everything that is mapped.
//!
//! Layouts: AMD64 Architecture Programmer's Manual volume 2, sections 4.7 (descriptors) and 12.2.5 (64-bit TSS).

use core::arch::{asm, naked_asm};
use core::sync::atomic::{AtomicU64, Ordering};

use crate::cpu;

/// Selectors as Linux has them, which some hosts take for granted.
const USER_DATA: u64 = 0x2b;
const USER_CODE: u64 = 0x33;
const TSS: u16 = 0x40;
/// Null, code and data of ring 0, two unused, data and code of ring 3, unused, and two for the TSS.
const DESCRIPTORS: [u64; 10] = [
    0,
    0x00af_9b00_0000_ffff,
    0x00cf_9300_0000_ffff,
    0,
    0,
    0x00cf_f300_0000_ffff,
    0x00af_fb00_0000_ffff,
    0,
    0,
    0,
];
/// A 64-bit TSS that is present and not in use.
const TSS_AVAILABLE: u64 = 0x89 << 40;

const INVALID_OPCODE: u8 = 6;
const FAULTS: [u8; 5] = [8, 10, 12, 13, 14];
const RSP0: usize = 4;
const BITMAP: usize = 102;
const TSS_SIZE: usize = 104;
const PORTS: usize = 65536 / 8;
const STACK_SIZE: usize = 16 << 10;

#[repr(C, align(16))]
struct Descriptors([u64; 10]);

/// The TSS, with a bit clear for each port, and the byte of ones that ends it.
#[repr(C, align(4096))]
struct Task([u8; TSS_SIZE + PORTS + 1]);

#[repr(C, align(16))]
struct Stack([u8; STACK_SIZE]);

static mut GDT: Descriptors = Descriptors(DESCRIPTORS);
static mut TASK: Task = Task([0; TSS_SIZE + PORTS + 1]);
/// Stack of ring 0 when it interrupts ring 3.
static mut KERNEL_STACK: Stack = Stack([0; STACK_SIZE]);
static mut USER_STACK: Stack = Stack([0; STACK_SIZE]);
/// Stack pointer of [`enter`]'s caller.
static RETURN: AtomicU64 = AtomicU64::new(0);
/// Time stamp of the last interrupt's handler, taken in it.
static STAMP: AtomicU64 = AtomicU64::new(0);
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);

/// Prepares for ring 3; everything that is mapped by now is open to it, and stamps come with interrupts.
pub fn prepare() {
    crate::memory::open_to_users();
    let top = (&raw const KERNEL_STACK).addr() + STACK_SIZE;
    let (task, gdt) = (&raw mut TASK, &raw mut GDT);
    // SAFETY: the statics are used here alone, before any use by the processor.
    let (task, gdt) = unsafe { (&mut (*task).0, &mut (*gdt).0) };
    task[RSP0..RSP0 + 8].copy_from_slice(&top.to_le_bytes());
    task[BITMAP..BITMAP + 2].copy_from_slice(&(TSS_SIZE as u16).to_le_bytes());
    task[TSS_SIZE + PORTS] = 0xff;
    let base = task.as_ptr().addr() as u64;
    let limit = (TSS_SIZE + PORTS) as u64;
    gdt[8] = TSS_AVAILABLE | limit | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56;
    gdt[9] = base >> 32;
    let mut descriptor = [0u16; 5];
    descriptor[0] = (size_of::<Descriptors>() - 1) as u16;
    for (at, part) in descriptor[1..].iter_mut().enumerate() {
        *part = (gdt.as_ptr().addr() >> (at * 16)) as u16;
    }
    // SAFETY: the tables are static; the first descriptors are those the processor runs with already.
    unsafe {
        asm!("lgdt [{}]", in(reg) descriptor.as_ptr());
        asm!("ltr {:x}", in(reg) TSS);
    }
    cpu::gate(INVALID_OPCODE, leave);
    cpu::gate(cpu::VECTOR, stamp);
    for vector in FAULTS {
        cpu::gate(vector, fault);
    }
}

/// Runs a program in ring 3, with interrupts on.
pub fn run<F: FnMut()>(mut program: F) {
    extern "C" fn call<F: FnMut()>(program: *mut F) {
        // SAFETY: `run` keeps the program, and waits.
        unsafe { (*program)() }
    }
    let stack = ((&raw const USER_STACK).addr() + STACK_SIZE) as u64;
    // SAFETY: the function is called with the pointer it takes, on a stack that no other code uses; `prepare`
    // came first, as nothing else makes pages of ring 3.
    unsafe { enter(call::<F> as *const (), (&raw mut program).cast(), stack) };
}

/// Interrupts that were stamped.
pub fn interrupts() -> u64 {
    INTERRUPTS.load(Ordering::Acquire)
}

/// When the last interrupt's handler began.
pub fn interrupted_at() -> u64 {
    STAMP.load(Ordering::Acquire)
}

/// The time stamp counter, read when everything before has happened, and before anything after it.
#[inline(always)]
pub fn ticks() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads a counter.
    unsafe { asm!("lfence", "rdtsc", "lfence", out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Goes to ring 3; [`leave`] comes back.
#[unsafe(naked)]
unsafe extern "C" fn enter(function: *const (), argument: *mut (), stack: u64) {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rip + {saved}], rsp",
        "push {data}",
        "push rdx",
        // Interrupts on.
        "push 0x202",
        "push {code}",
        "lea rax, [rip + 2f]",
        "push rax",
        "iretq",
        "2:",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
        "ud2",
        saved = sym RETURN,
        data = const USER_DATA,
        code = const USER_CODE,
    )
}

/// The end of a program: returns from [`enter`]. In ring 0 an invalid instruction is a mistake.
#[unsafe(naked)]
unsafe extern "C" fn leave() {
    naked_asm!(
        "test qword ptr [rsp + 8], 3",
        "jz {fault}",
        "mov rsp, [rip + {saved}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        saved = sym RETURN,
        fault = sym fault,
    )
}

/// Handler of an interrupt: notes its time, and counts it.
#[unsafe(naked)]
unsafe extern "C" fn stamp() {
    naked_asm!(
        "push rax",
        "push rdx",
        "rdtsc",
        "shl rdx, 32",
        "or rax, rdx",
        "mov [rip + {stamp}], rax",
        "lock inc qword ptr [rip + {count}]",
        "mov eax, 0xfee000b0",
        "mov dword ptr [rax], 0",
        "pop rdx",
        "pop rax",
        "iretq",
        stamp = sym STAMP,
        count = sym INTERRUPTS,
    )
}

/// Anything else.
#[unsafe(naked)]
unsafe extern "C" fn fault() {
    naked_asm!("mov rdi, rsp", "and rsp, -16", "call {report}", "ud2", report = sym report)
}

extern "C" fn report(frame: *const [u64; 4]) -> ! {
    let address: u64;
    // SAFETY: reading CR2 changes nothing; the processor has pushed this much.
    let frame = unsafe {
        asm!("mov {}, cr2", out(reg) address, options(nomem, nostack));
        *frame
    };
    panic!("an exception: frame {frame:x?}, CR2 {address:#x}")
}
