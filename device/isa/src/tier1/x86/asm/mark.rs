//! Code that is taken back, and labels that are where others are.

use super::{Assembler, Label};

/// State of code in the making, to go back to.
pub(crate) struct Mark {
    code: usize,
    open: usize,
    stored: usize,
    links: usize,
}

impl Assembler {
    /// Returns the state so far, for [`Assembler::back_to`].
    pub(crate) fn mark(&self) -> Mark {
        Mark {
            code: self.code.len(),
            open: self.open.len(),
            stored: self.stored.len(),
            links: self.links.places.len(),
        }
    }

    /// Takes back the code that has come since a mark; nothing else may name labels that have been bound since then.
    pub(crate) fn back_to(&mut self, mark: &Mark) {
        self.code.truncate(mark.code);
        self.open.truncate(mark.open);
        self.stored.truncate(mark.stored);
        self.links.places.truncate(mark.links);
    }

    /// Binds a label to the place of another one.
    pub(crate) fn bind_to(&mut self, label: Label, other: Label) {
        self.same.push((label, other));
    }
}
