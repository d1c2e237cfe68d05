//! The driver core over an in-process device: no VM, no kernel.
//!
//! [`HostedGpu`] is a machine with one GPU and its driver, [`HostedMachine`] one with several; [`HostedProcess`] is one program that has the
//! driver open.
//! All "processes" share the memory of the real one: physical addresses are its virtual addresses, VRAM, doorbells and
//! the driver's memory are shared so that they can be mapped at any address, and user memory is pinned by putting it into
//! the device's memory map, where that does not hold all of the process's memory already ([`Reach`]).
//!
//! Memory is shared with other processes, which have a GPU each, by descriptors ([`dmabuf`]).
//!
//! A kernel guarantees one thing that this cannot: if a program frees pinned memory other than through
//! [`HostedProcess::munmap`] or [`HostedProcess::replacing`], the device still reaches it.

mod arena;
mod bars;
mod config;
mod debug;
pub mod dmabuf;
mod error;
mod exploring;
mod flush_page;
mod function;
mod gems;
mod gpu;
mod host;
mod keeper;
mod line;
mod machine;
mod mapped;
mod mapping;
mod node;
mod ofd;
mod os;
mod pins;
pub mod prepared;
mod process;
mod shared;
mod smi;
mod standstill;
mod sync;
mod syncobj;
mod time;
mod trace;
mod user_memory;

pub use bars::HostedFunction;
pub use belfry_device::memory::{Hive, Links};
pub use belfry_kfd_core::os::Numa;
pub use belfry_kfd_core::{Errno, card};
pub use config::{HostedConfig, PinObserver, Place, Reach};
pub use debug::{Notices, write_notice};
pub use error::Error;
pub use gpu::HostedGpu;
pub use gpu::saving::{Part, SaveError, Saving, StoodStill};
pub use keeper::leave_descriptors;
pub use line::Handler;
pub use machine::HostedMachine;
pub use node::Node;
pub use os::HostedOs;
pub use process::HostedProcess;
pub use user_memory::{behind_fault, catch_faults};
