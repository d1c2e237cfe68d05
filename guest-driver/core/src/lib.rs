//! The operating-system-agnostic KFD driver, in the nouns of Linux amdkfd.
//!
//! The entry points an operating system's side calls are the methods of [`Kfd`]; what the driver calls back is
//! [`os::Os`]. All entry points may sleep.
//!
//! # Locks
//!
//! In the order they are taken: a process's state, the device's scheduler, the interrupt ring or the table of processes,
//! a process's events, the VRAM allocator, the GART, the invalidation engine. No lock is held while user memory is
//! copied, and no pin is dropped under one. Only the state lock is held while pages are pinned again, so an
//! implementation of [`os::Os`] never calls an entry point that takes it (everything but [`Kfd::mmap`] and
//! [`os::Backing`]) from a page fault.
#![no_std]

extern crate alloc;

mod aperture;
mod device;
mod discovery;
mod doorbell;
mod drm;
pub mod errno;
mod event;
mod gart;
mod hw;
mod interrupt;
pub mod ioctl;
pub mod kfd;
mod kiq;
mod memory;
mod mes;
mod mqd;
pub mod os;
pub mod process;
mod processes;
mod queue;
pub mod queue_manager;
mod sync;
#[cfg(test)]
mod testing;
mod topology;
mod vm;
mod vram;

pub use discovery::Config;
pub use errno::{Errno, Result};
pub use kfd::{Kfd, MmapTarget};
pub use process::Process;
