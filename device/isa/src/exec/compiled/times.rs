//! Measures the time that compiled code spends. Code that counts is made differently from other code, which pays
//! nothing for it.
//!
//! Counters are plain numbers: if workers run the same code at the same time, each may overwrite counts of another.

#![cfg_attr(target_arch = "x86_64", expect(unsafe_code, reason = "reads the time stamp counter"))]

use core::sync::atomic::{AtomicU64, Ordering};

use crate::exec::CodeTimes;
use crate::exec::di::{Di, Role};
use crate::exec::form::Form;

/// Counters of one region's code.
#[derive(Debug)]
pub(crate) struct Counters {
    /// On the heap, as code knows where it is.
    pub(crate) whole: Box<Whole>,
    pub(crate) elements: Box<[Element]>,
}

#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Whole {
    pub(crate) entries: AtomicU64,
    pub(crate) ticks: AtomicU64,
}

/// Counters of one element.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Element {
    /// Calls of its handler, and their time.
    pub(crate) calls: AtomicU64,
    pub(crate) ticks: AtomicU64,
    /// Executions of the block that begins with it.
    pub(crate) executed: AtomicU64,
}

/// The time stamp counter.
#[cfg(target_arch = "x86_64")]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it.
    #[allow(unused_unsafe, reason = "newer compilers take it for safe")]
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
}

/// Nothing is counted on hosts that nothing is compiled for.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn ticks() -> u64 {
    0
}

impl Counters {
    /// Bytes that they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Whole>() + size_of_val(&*self.elements)
    }

    pub(crate) fn new(elements: usize) -> Counters {
        Counters { whole: Box::default(), elements: (0..elements).map(|_| Element::default()).collect() }
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
                Form::GlobalLoad(_)
                | Form::GlobalStore(_)
                | Form::GlobalAtomic(..)
                | Form::FlatLoad(_)
                | Form::FlatStore(_)
                | Form::BufferLoad(_)
                | Form::BufferStore(_) => {
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
