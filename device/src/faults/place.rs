//! Places at which a hook is met.

use std::fmt;

/// Place at which a hook is met, with the values that conditions compare.
#[derive(Clone, Copy, Default)]
pub(crate) struct Place<'a> {
    /// Subject of the place, in words.
    pub(crate) what: &'a str,
    /// The queue's doorbell, in dwords of BAR2.
    pub(crate) doorbell: Option<u32>,
    /// The process.
    pub(crate) pasid: Option<u32>,
    /// An address of memory, or an offset in the register BAR.
    pub(crate) address: Option<u64>,
    /// Finds the kernel's name, which takes a while.
    pub(crate) kernel: Option<&'a dyn Fn() -> String>,
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(kernel) = self.kernel {
            write!(f, " of {}", kernel())?;
        }
        if let Some(doorbell) = self.doorbell {
            write!(f, ", doorbell {doorbell:#x}")?;
        }
        if let Some(pasid) = self.pasid {
            write!(f, ", process {pasid:#x}")?;
        }
        if let Some(address) = self.address {
            write!(f, ", address {address:#x}")?;
        }
        Ok(())
    }
}
