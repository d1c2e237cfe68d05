//! The belfry binary's parts: guest images, the vfio-user server, guests in QEMU, the hosted mode, the benchmarks.

pub mod child;
pub mod guest;
pub mod image;
pub mod vfio_user;
