//! The operating-system-agnostic KFD driver, in the nouns of Linux amdkfd.
//!
//! The entry points an operating system's side calls are the methods of [`Kfd`]; what the driver calls back is
//! [`os::Os`]. All entry points may sleep.
//!
//! # Locks
//!
//! In the order they are taken, which [`os::LockRank`] has as well: a process's state, an address space, the device's scheduler, the interrupt ring or the table of processes,
//! a process's events or its pending fault, the clients of system
//! management and their lines, the VRAM allocator, the GART, the invalidation engine,
//! what is attached to a buffer object, a rate limit, the list of nodes, the events that are recorded. No lock
//! is held while user memory is copied, pinned or mirrored, and no pin or mirror is dropped under one: who changes user
//! memory may be waiting for the driver ([`os::Change::held`]).
//!
//! A process's state and the scheduler are held over requests to the device, which may take seconds. The interrupt
//! thread takes neither of them: what an interrupt makes necessary beyond waking up programs is queued as [`os::Work`],
//! one piece per process, so that no process waits for another one's.
//!
//! While the device is suspended, threads that access it wait, with the locks that they have. Suspend and resume take those that they need
//! before the device sleeps and after it is awake.
#![no_std]

extern crate alloc;

mod acquire;
mod aperture;
mod asic;
mod bo;
pub mod card;
mod config;
mod criu;
mod dbg_trap;
mod debug;
mod device;
mod discovery;
mod doorbell;
pub mod drm;
pub mod errno;
mod event;
mod exceptions;
mod fault;
mod fence;
mod gart;
mod hw;
mod ih;
mod interrupt;
pub mod ioctl;
mod ip_tree;
pub mod kfd;
mod kiq;
mod lifetime;
mod memory;
mod mqd;
mod node;
mod object;
pub mod os;
mod partition;
mod proc_files;
pub mod process;
mod process_device;
mod processes;
mod queue;
pub mod queue_manager;
mod ranges;
mod rate_limit;
mod registers;
mod request;
mod scheduler;
mod sdma;
mod show;
mod smi;
mod space;
mod suspend;
mod svm;
mod sync;
#[cfg(test)]
mod testing;
mod topology;
pub mod trace;
mod trap_handler;
mod usage;
mod vm;
mod vram;
mod xcp_tree;

pub use config::{Block, Config};
pub use errno::{Errno, Result};
pub use kfd::{Kfd, KfdDevice, MmapTarget};
pub use process::Process;
pub use usage::Usage;
