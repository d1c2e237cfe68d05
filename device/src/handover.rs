//! How a page of doorbells changes between trapping and being memory without losing a store.
//!
//! A store of the guest either traps, and the device is notified, or goes to the page without notice. So:
//!
//! 1. What the page holds is read *before* it becomes memory. Every store that goes to the page comes later, and makes a
//!    difference to what was read.
//! 2. While it is memory, it is compared with what it held at the last look; at a difference the device is told.
//! 3. It is taken away *before* the device is told for the last time, whatever was seen. Taking away returns when no
//!    store reaches the page any more: each one either came before, and the device finds it now, or traps.
//!
//! The device looks at values when it is told, so that being told once too often costs time and nothing else.
//!
//! The tests run this code under loom's memory model, in every order of the steps of the threads involved, and show that
//! each of the orders above is needed.

/// A page of doorbells.
pub trait Page {
    /// What it holds.
    type Values;

    /// Reads what it holds.
    fn values(&self) -> Self::Values;

    /// Reads what it holds; whether that differs from `last`, which is brought up to date.
    fn differs(&self, last: &mut Self::Values) -> bool;

    /// Makes it memory of the guest; whether that succeeded.
    fn give(&mut self) -> bool;

    /// Has it trap; whether that succeeded. No store reaches it any more when this returns.
    fn take(&mut self) -> bool;

    /// Has the device look at what it holds.
    fn tell(&self);
}

/// The state of a page that is memory.
#[derive(Debug)]
pub struct Handover<V>(V);

impl<V> Handover<V> {
    /// Makes a page memory that traps.
    pub fn begin(page: &mut impl Page<Values = V>) -> Option<Self> {
        let last = page.values();
        page.give().then_some(Self(last))
    }

    /// Looks for stores; whether there were any.
    pub fn look(&mut self, page: &impl Page<Values = V>) -> bool {
        let differs = page.differs(&mut self.0);
        if differs {
            page.tell();
        }
        differs
    }

    /// Has the page trap again; whether it does, as a page that cannot be taken away stays memory and has to be looked at.
    pub fn end(&mut self, page: &mut impl Page<Values = V>) -> bool {
        let taken = page.take();
        page.tell();
        taken
    }
}
