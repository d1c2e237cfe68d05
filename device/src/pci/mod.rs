//! The PCI function: configuration space, capabilities, message signalled interrupts.

mod config;
mod function;
mod msix;
mod save;

pub(crate) use config::ConfigSpace;
pub(crate) use function::{Function, SharedControl};
pub(crate) use msix::Msix;
pub(crate) use save::{SavedFunction, SavedMsix};
