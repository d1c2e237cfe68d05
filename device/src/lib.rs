//! The GPU: a PCI function that runs AMD machine code, free of any transport.
//!
//! A host hands the device its memory and an interrupt sink ([`Resources`]), forwards accesses to the configuration
//! space and the BARs as values, and gets interrupts raised. The device opens no file and no socket.
//!
//! The way of a packet through the modules: [`doorbell`] → [`queue`] → [`vm`] → [`cp`] → [`shader`] → [`cp`] →
//! [`interrupt`]; firmware and the registers set the queues up, `pci` sits in front, [`chip`] holds the
//! differences between chips.

mod activity;
mod blocks;
pub mod chip;
pub mod config;
pub mod cp;
mod device;
pub mod doorbell;
mod error;
pub mod explore;
pub mod faults;
mod firmware;
mod guest_error;
pub mod handover;
pub mod interrupt;
pub mod io;
pub mod look;
pub mod memory;
mod moments;
pub mod own_bars;
mod pci;
mod pm4;
pub mod profile;
pub mod queue;
pub mod record;
mod regs;
mod runner;
pub mod sanitize;
mod save;
pub mod sdma;
pub mod shader;
mod show;
pub mod spent;
pub mod split_mix;
pub mod stats;
mod stops;
mod threads;
pub mod time;
pub mod tools;
pub mod trace;
pub mod vm;

pub use activity::{Activity, Busy, WholeCard};
pub use belfry_isa::code_store::{KeptCode, KeptCounts};
pub use belfry_isa::exec::{CodeTimes, ticks};
pub use belfry_isa::lanes::{Matrices, Tier};
pub use belfry_pci::{Rom, RomSize};
pub use config::{GpuConfig, MsixTable};
pub use device::{
    Gpu, Replay, Replayed, ResetKind, Resources, Rest, SavedGpu, SnapshotError, Stepped, TraceSinks,
};
pub use error::Error;
pub use guest_error::GuestError;
pub use interrupt::InterruptSink;
pub use io::{IoError, IoResult};
pub use save::Broken;
pub use stats::Stats;
pub use threads::patience::look_out;
pub use threads::processors::{Processors, processors};
