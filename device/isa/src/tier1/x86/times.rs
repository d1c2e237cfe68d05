//! Measures the time that compiled code spends. Code that counts is made differently from other code, which pays
//! nothing for it.
//!
//! Counters are plain numbers: if workers run the same code at the same time, each may overwrite counts of another.

#![expect(unsafe_code, reason = "calls handlers, and reads the time stamp counter")]

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};

use super::asm::{Assembler, At, Gpr, Integer};
use super::body::ENTERED;
use crate::exec::CodeTimes;
use crate::exec::di::{Di, Machine, Role};
use crate::exec::form::Form;
use crate::wave::Wave;

/// Counters of one region's code.
#[derive(Debug)]
pub(crate) struct Counters {
    /// On the heap, as code knows where it is.
    whole: Box<Whole>,
    elements: Box<[Element]>,
}

#[derive(Debug, Default)]
#[repr(C)]
struct Whole {
    entries: AtomicU64,
    ticks: AtomicU64,
}

/// Counters of one element.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Element {
    /// Calls of its handler, and their time.
    calls: AtomicU64,
    ticks: AtomicU64,
    /// Executions of the block that begins with it.
    executed: AtomicU64,
}

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

/// The time stamp counter.
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    #[allow(unused_unsafe, reason = "newer compilers take it for safe")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

impl Counters {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Whole>() + size_of_val(&*self.elements)
    }

    pub(crate) fn new(elements: usize) -> Counters {
        Counters { whole: Box::default(), elements: (0..elements).map(|_| Element::default()).collect() }
    }

    pub(crate) fn function() -> u64 {
        invoke as *const () as usize as u64
    }

    /// Makes the counter of an element the last argument of [`invoke`].
    pub(crate) fn pass(&self, a: &mut Assembler, element: usize) {
        a.address_of(Gpr::Rcx, &self.elements[element]);
    }

    /// Counts a block; `Rax` and `Rcx` are used.
    pub(crate) fn begin_block(&self, a: &mut Assembler, element: usize) {
        a.address_of(Gpr::Rax, &self.elements[element]);
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
    pub(crate) fn leave(&self, a: &mut Assembler) {
        a.integer(Integer::Mov, true, Gpr::Rsi, Gpr::Rax);
        a.integer(Integer::Mov, true, Gpr::Rdi, Gpr::Rdx);
        a.ticks();
        a.load(Integer::Sub, true, Gpr::Rax, ENTERED);
        a.address_of(Gpr::Rcx, &*self.whole);
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

    /// Adds the counts since the last call.
    pub(crate) fn take(
        &self,
        times: &mut CodeTimes,
        (code, roles, forms): (&[Di], &[Role], &[Form]),
        leads: impl Fn(usize) -> bool,
    ) {
        let take = |counter: &AtomicU64| counter.swap(0, Ordering::Relaxed);
        times.entries += take(&self.whole.entries);
        times.ticks += take(&self.whole.ticks);
        let mut executed = 0;
        for (at, counters) in self.elements.iter().enumerate() {
            let (calls, ticks) = (take(&counters.calls), take(&counters.ticks));
            let begun = take(&counters.executed);
            let (Some(d), Some(role), Some(form)) = (code.get(at), roles.get(at), forms.get(at)) else {
                break;
            };
            if leads(at) {
                executed = begun;
            }
            let instructions = executed * u64::from(d.count);
            times.instructions += instructions;
            match form {
                Form::GlobalLoad(_) | Form::GlobalStore(_) | Form::GlobalAtomic(..) => {
                    times.global += instructions;
                }
                form if form.is_memory() => times.lds += instructions,
                _ => {}
            }
            if calls > 0 {
                let name = match role {
                    Role::Operation(op) => op.mnemonic(),
                    Role::Pair(x, _) => x.mnemonic(),
                    Role::Step => "steps around operations",
                };
                let of_operation = times.calls.entry(name).or_default();
                of_operation.0 += calls;
                of_operation.1 += ticks;
            }
        }
    }
}
