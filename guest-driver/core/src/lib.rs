//! The operating-system-agnostic KFD driver, in the nouns of Linux amdkfd.
//!
//! The entry points an operating system's side calls are the methods of [`Kfd`]; what the driver calls back is
//! [`os::Os`]. All entry points may sleep.
#![no_std]

extern crate alloc;

pub mod errno;
pub mod kfd;
pub mod os;
pub mod process;

pub use errno::{Errno, Result};
pub use kfd::{Kfd, MmapTarget};
