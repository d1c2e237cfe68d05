//! The PCI function: configuration space, capabilities, message signalled interrupts.

mod config;
mod msix;

pub(crate) use config::ConfigSpace;
pub(crate) use msix::Msix;
