//! The parts of every PCI function: configuration space with its capabilities and BARs, and the MSI-X table.
//!
//! The GPU is made of it, and so are the virtio devices of Belfry's own machine. It knows no bus and sends no message: a
//! function asks for the consequences of a write and acts on them.

#![forbid(unsafe_code)]

mod bar;
mod config;
mod interrupt;
mod msix;
mod rom;

pub use bar::{BARS, BarLayout, ROM, ROM_SIZES};
pub use config::{COMMAND, CONVENTIONAL, ConfigSpace, EXPRESS, Identity, show_interrupt};
pub use interrupt::{InterruptControl, Message};
pub use msix::{ENTRY as MSIX_ENTRY, Msix, VECTORS as MSIX_VECTORS};
pub use rom::{Rom, RomSize};
