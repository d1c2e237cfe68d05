//! A guest with Belfry's GPU: boot it, load the driver, run programs, move files, switch it off.
//!
//! | part | file |
//! | --- | --- |
//! | the configuration of a boot | `config.rs` |
//! | the guest itself, over the channel | `session.rs`, `channel.rs` |
//! | its programs, and the phases of its boot | `program.rs`, `phases.rs` |
//! | guests that go on from a snapshot | `session/kept.rs` |
//! | the machine that runs it: QEMU, or Belfry's own | `host.rs`, `qemu/`, `kvm.rs` |
//! | folders of the host, the network | `share.rs`, `network.rs` |
//! | events of its driver | `session/driver_trace.rs` |
//! | the user's terminal | `terminal.rs` |
//! | guests with a system of their own | `system.rs` |
//! | its kernel's output, and errors | `console.rs`, `error.rs` |

mod channel;
mod config;
mod console;
mod error;
mod host;
mod kvm;
mod network;
mod phases;
mod program;
pub mod qemu;
mod session;
mod share;
mod system;
mod terminal;

pub use config::{Accelerator, GuestConfig, KvmConfig, MachineConfig, QemuConfig, SystemConfig};
pub use console::Console;
pub use error::GuestError;
pub use network::NetworkError;
pub use phases::Phases;
pub use program::{Exit, ProgramId, Stream};
pub use session::{Guest, Kept};
pub use share::{Share, ShareError};
pub use system::System;
pub use terminal::Terminal;
