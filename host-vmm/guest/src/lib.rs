//! A guest with Belfry's GPU: boot it, load the driver, run programs, move files, switch it off.
//!
//! | part | file |
//! | --- | --- |
//! | the configuration of a boot | `config.rs` |
//! | the guest itself, over the channel | `session.rs`, `channel.rs` |
//! | guests that go on from a snapshot | `session/kept.rs` |
//! | the machine that runs it: QEMU, or Belfry's own | `host.rs`, `qemu/`, `kvm.rs` |
//! | folders of the host, the network | `share.rs`, `network.rs` |
//! | events of its driver | `driver_events.rs`, `session/driver_trace.rs` |
//! | the user's terminal | `terminal.rs` |
//! | guests with a system of their own | `system.rs` |
//! | its kernel's output, and errors | `console.rs`, `error.rs` |

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

/// Source of a program's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// End of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + the signal's number for a killed program; 127 when it could not be started.
    pub status: i32,
    /// Guest time it ran.
    pub elapsed: Duration,
}

/// Number of a program that runs in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(u32);

/// Times at which a guest reached its phases, from the start of its machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Phases {
    /// The first instruction of its kernel, if that is known.
    pub entry: Option<Duration>,
    /// The first word of its init.
    pub init: Duration,
    /// The part of `init` that the guest's kernel counted.
    pub guest_init: Duration,
    /// The driver loaded for the first time.
    pub driver: Option<Duration>,
    /// The first dispatch completed.
    pub dispatch: Option<Duration>,
}

/// Makes the error of a host's file or socket; `what` names the step.
fn failed(what: &str) -> impl FnOnce(io::Error) -> GuestError + use<> {
    let what = what.to_owned();
    move |source| GuestError::Io { what, source }
}
