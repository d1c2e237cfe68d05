//! A guest with our GPU: boot it, load the driver, run programs, move files, switch it off.
//!
//! | part | file |
//! | --- | --- |
//! | what a guest is booted with | `config.rs` |
//! | the guest itself, over the channel | `session.rs`, `channel.rs` |
//! | guests that go on from a snapshot | `session/kept.rs` |
//! | what runs it: QEMU, or Belfry's own machine | `host.rs`, `qemu/`, `kvm.rs` |
//! | folders of the host, the network | `share.rs`, `network.rs` |
//! | events of its driver | `driver_events.rs`, `session/driver_trace.rs` |
//! | the user's terminal | `terminal.rs` |
//! | guests with a system of their own | `system.rs` |
//! | what its kernel said, and what went wrong | `console.rs`, `error.rs` |

mod channel;
mod config;
mod console;
mod driver_events;
mod error;
mod host;
mod kvm;
mod network;
pub mod qemu;
mod session;
mod share;
mod system;
mod terminal;

use std::io;
use std::time::Duration;

pub use config::{GuestConfig, KvmConfig, MachineConfig, QemuConfig};
pub use console::Console;
pub use driver_events::{DriverEvents, DriverEventsError};
pub use error::GuestError;
pub use network::NetworkError;
pub use qemu::Accelerator;
pub use session::{Guest, Kept};
pub use share::{Share, ShareError};
pub use system::{System, SystemConfig};
pub use terminal::Terminal;

/// Where a program's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + the signal's number for a killed program; 127 when it could not be started.
    pub status: i32,
    /// Guest time it ran.
    pub elapsed: Duration,
}

/// A number for a program running in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(u32);

/// How long after the start of its machine a guest reached what.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phases {
    /// The first instruction of its kernel, where that can be known.
    pub entry: Option<Duration>,
    /// The first word of its init.
    pub init: Duration,
    /// The part of that the guest's kernel counted.
    pub guest_init: Duration,
    /// The driver loaded for the first time.
    pub driver: Option<Duration>,
    /// The first dispatch completed.
    pub dispatch: Option<Duration>,
}

/// Names what was being done when a file or socket of the host failed.
fn failed(what: &str) -> impl FnOnce(io::Error) -> GuestError + use<> {
    let what = what.to_owned();
    move |source| GuestError::Io { what, source }
}
