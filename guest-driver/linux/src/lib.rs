//! The Rust half of `amdgpu.ko`: the driver core bound to Linux.
//!
//! `LinuxOs` serves the core through the functions of `os_interface.h`, and `entry` gives the C files of the shim the
//! functions they call. The object links no kernel symbol: only `os_*` and the functions that the compiler itself needs
//! (`memcpy` and its like, the kernel's thunks).
#![no_std]

extern crate alloc;

mod debug;
mod entry;
mod fence;
mod ffi;
mod files;
mod function;
mod memory;
mod os;
mod render;
mod results;
mod runtime;
mod sync;
mod texts;
