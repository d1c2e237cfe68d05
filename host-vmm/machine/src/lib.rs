//! Belfry's own machine, on /dev/kvm: memory, vCPUs, a serial port, and a PCI bus with the GPU.
//!
//! | part | file |
//! | --- | --- |
//! | /dev/kvm | `host.rs` |
//! | guest RAM, device memory as slots | `memory.rs` |
//! | kernels, their command line, their entry | `boot/` |
//! | vCPU threads, and their CPUID | `vcpu.rs`, `cpuid.rs` |
//! | ports | `board.rs`, `console.rs`, `cmos.rs`, `power.rs` |
//! | tables of the firmware for the guest | `acpi/` |
//! | the GPU as a function on the root bus | `gpu.rs` |
//! | doorbells, trapped, waking or as memory | `doorbells/` |
//! | the configuration of a machine | `config.rs` |
//! | its GPUs, and the board that a file puts them on | `gpus.rs`, `links_file.rs` |
//! | a machine that stands still, is saved and resumed | `vcpu/gate.rs`, `snapshot/` |
//! | putting it together, and its end | `machine.rs`, `machine/running.rs`, `main_loop.rs`, `ending.rs` |
//! | errors | `error.rs` |
//! | the host's keys and signals | `input.rs`, `terminal.rs`, `signals.rs` |
//! | the bare-metal guest | `bare_metal.rs`, `measure.rs` |
//! | the speed of a guest's kernel under KVM here | `probe.rs` |
//!
//! The root bus and its interrupts are `belfry_bus`, the devices on it `belfry_virtio`, the format of snapshots `belfry_snapshot`.

mod acpi;
pub mod bare_metal;
mod board;
mod boot;
mod cmos;
mod config;
mod console;
mod cpuid;
mod device_numbers;
mod doorbells;
mod ending;
mod error;
mod gpu;
mod gpus;
mod host;
mod input;
pub mod links_file;
mod machine;
mod main_loop;
pub mod measure;
mod memory;
mod power;
pub mod probe;
pub mod signals;
pub mod snapshot;
pub mod terminal;
#[cfg(test)]
mod tests;
mod vcpu;

pub use belfry_virtio::{DiskConfig, DiskConfigError, DiskError, DiskFormat};
pub use config::{Config, DoorbellMode, HugePages, Initramfs, SharedFolder};
pub use ending::End;
pub use error::{KernelError, KvmError};
pub use gpus::{Board, Gpus, MAX_GPUS, totals};
pub use machine::running::{Handle, Running};
pub use machine::{Machine, Outcome};
pub use signals::interrupted;
