//! Code that counts what it does, and the time that it takes.

#![expect(unsafe_code, reason = "calls handlers")]

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use super::asm::{Assembler, At, Gpr, Integer};
use super::body::ENTERED;
use crate::exec::compiled::times::{Counters, Element, Whole, ticks};
use crate::exec::di::{Di, Machine};
use crate::wave::Wave;

/// Calls an element's handler and counts that.
///
/// # Safety
///
/// As for [`Handler`](crate::exec::di::Handler).
unsafe extern "sysv64" fn invoke(w: &mut Wave, m: &mut Machine<'_>, d: &Di, counter: &Element) -> u32 {
    let entered = ticks();
    // SAFETY: the caller vouches for the handler.
    let flow = unsafe { (d.f)(w, m, d) }.number();
    add(&counter.ticks, ticks().wrapping_sub(entered));
    add(&counter.calls, 1);
    flow
}

fn add(counter: &AtomicU64, value: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(value), Ordering::Relaxed);
}

/// Address of the function that counting code calls handlers by.
pub(crate) fn function() -> u64 {
    invoke as *const () as usize as u64
}

/// Makes the counter of an element the last argument of [`invoke`].
pub(crate) fn pass(counters: &Counters, a: &mut Assembler, element: usize) {
    a.address_of(Gpr::Rcx, &counters.elements[element]);
}

/// Counts a block; `Rax` and `Rcx` are used.
pub(crate) fn begin_block(counters: &Counters, a: &mut Assembler, element: usize) {
    a.address_of(Gpr::Rax, &counters.elements[element]);
    let at = At(Gpr::Rax, offset_of!(Element, executed) as i32);
    a.load(Integer::Mov, true, Gpr::Rcx, at);
    a.address(Gpr::Rcx, At(Gpr::Rcx, 1));
    a.store(true, at, Gpr::Rcx);
}

/// Remembers when the code was entered; `Rax` and `Rdx` are used.
pub(crate) fn enter(a: &mut Assembler) {
    a.ticks();
    a.store(true, ENTERED, Gpr::Rax);
}

/// Counts the time since; `Rax` and `Rdx` stay.
pub(crate) fn leave(counters: &Counters, a: &mut Assembler) {
    a.integer(Integer::Mov, true, Gpr::Rsi, Gpr::Rax);
    a.integer(Integer::Mov, true, Gpr::Rdi, Gpr::Rdx);
    a.ticks();
    a.load(Integer::Sub, true, Gpr::Rax, ENTERED);
    a.address_of(Gpr::Rcx, &*counters.whole);
    let at = At(Gpr::Rcx, offset_of!(Whole, ticks) as i32);
    a.load(Integer::Add, true, Gpr::Rax, at);
    a.store(true, at, Gpr::Rax);
    let at = At(Gpr::Rcx, offset_of!(Whole, entries) as i32);
    a.load(Integer::Mov, true, Gpr::Rax, at);
    a.address(Gpr::Rax, At(Gpr::Rax, 1));
    a.store(true, at, Gpr::Rax);
    a.integer(Integer::Mov, true, Gpr::Rax, Gpr::Rsi);
    a.integer(Integer::Mov, true, Gpr::Rdx, Gpr::Rdi);
}
