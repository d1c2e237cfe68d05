//! Image instructions, which a compute device has none of: named so that a fault can say what was met.

use std::fmt;

use super::{Out, Printer};

impl Printer<'_> {
    /// What follows the mnemonic of an image instruction.
    #[expect(clippy::unused_self, reason = "one of the printing steps")]
    pub(super) fn image(&self, _out: Out<'_, '_>) -> fmt::Result {
        Ok(())
    }
}
