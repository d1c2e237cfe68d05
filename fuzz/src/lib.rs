//! Parts that the fuzz targets share: the chips that inputs choose, accesses made of bytes, a device to make
//! them to, memory to run waves in, a driver in miniature, a client, a second page-table walker.
//!
//! Inputs that are accesses are records of fixed size: a mutation of one then leaves the others alone, and a
//! recorded sequence of accesses is an input. Messages, frames and packets would be refused as plain bytes:
//! they are `Arbitrary` structures that begin valid, and some fields of them are then changed.

pub mod access;
pub mod allocation;
pub mod change;
pub mod chips;
pub mod device;
pub mod driver;
pub mod hiq;
pub mod kvm;
pub mod memory;
pub mod rig;
pub mod snapshot;
pub mod vfio;
pub mod vfio_steps;
pub mod walker;
