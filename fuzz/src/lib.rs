//! What the fuzz targets share: accesses made of bytes, a device to make them to, memory to run waves in.
//!
//! Inputs are records of fixed size and not `Arbitrary` structures: a mutation of one access then leaves the others
//! alone, and a recorded sequence of accesses is an input.

pub mod access;
pub mod device;
pub mod kvm;
pub mod memory;
