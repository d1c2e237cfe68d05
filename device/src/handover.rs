//! Switching of a page of doorbells between trapping and memory, without losing a store.
//!
//! A store of the guest either traps, and the device is notified, or goes to the page without notice. So:
//!
//! 1. The page's contents are read *before* it becomes memory. Every store that goes to the page comes later,
//!    and makes a difference to these contents.
//! 2. While it is memory, it is compared with its contents at the last look; at a difference the device is
//!    told.
//! 3. The page is taken away *before* the device is told for the last time, with or without a difference. Taking
//!    away returns when no store reaches the page any more: each store either came before, and the device
//!    finds it now, or traps.
//!
//! The device looks at values when it is told, so that telling it once too often costs time and nothing else.
//!
//! The tests run this code under loom's memory model, in every order of the steps of the threads involved, and show that
//! each of the orders above is needed.

/// A page of doorbells.
pub trait Page {
    /// Contents of the page.
    type Values;

    /// Reads the contents.
    fn values(&self) -> Self::Values;

    /// Reads the contents; returns true if they differ from `last`, and updates `last`.
    fn differs(&self, last: &mut Self::Values) -> bool;

    /// Makes the page memory of the guest; returns true on success.
    fn give(&mut self) -> bool;

    /// Makes the page trap; returns true on success. No store reaches it any more when this returns.
    fn take(&mut self) -> bool;

    /// Lets the device look at the contents.
    fn tell(&self);
}

/// The state of a page that is memory.
#[derive(Debug)]
pub struct Handover<V>(V);

impl<V> Handover<V> {
    /// Makes a page that traps memory.
    pub fn begin(page: &mut impl Page<Values = V>) -> Option<Self> {
        let last = page.values();
        page.give().then_some(Self(last))
    }

    /// Looks for stores; returns true if there were any.
    pub fn look(&mut self, page: &impl Page<Values = V>) -> bool {
        let differs = page.differs(&mut self.0);
        if differs {
            page.tell();
        }
        differs
    }

    /// Makes the page trap again. Returns false if it cannot be taken away: it then stays memory, and has to
    /// be looked at.
    pub fn end(&mut self, page: &mut impl Page<Values = V>) -> bool {
        let taken = page.take();
        page.tell();
        taken
    }
}
