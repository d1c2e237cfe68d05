//! The entry of the binary.

use core::arch::naked_asm;

use crate::again::again;

/// Entry point of the process: tries a recorded start, and goes on to the C library's own entry.
///
/// The kernel passes everything on the stack, and zero in `rdx` (System V ABI for x86-64, 3.4.1 "Initial Stack and Register
/// State"); both are as they were when `_start` is reached.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn belfry_start() -> ! {
    naked_asm!(
        "mov rbx, rsp",
        "mov r12, rdx",
        "xor ebp, ebp",
        "mov rdi, rsp",
        "and rsp, -16",
        "call {again}",
        "mov rsp, rbx",
        "mov rdx, r12",
        "jmp _start",
        again = sym again,
    )
}
