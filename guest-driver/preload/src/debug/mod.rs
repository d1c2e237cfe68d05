//! Debugging another process under `belfry exec --debuggable`: `DBG_TRAP` between processes that have a driver each.
//!
//! The driver of a program that may be debugged is in a companion (`companion.rs`), which listens on a socket that is named
//! after the program's number (`server.rs`). The library in the debugger sends it each call, with the memory that the call's
//! pointers lead to, and the descriptor for notices (`client.rs`, `wire.rs`). A debugger may attach before the program has
//! opened the GPU. Then the library in the debugger listens, and a companion that starts beside a program with a tracer asks
//! there first.
//!
//! The two sides do not trust each other. They ask the kernel for the process at the other end (`SO_PEERCRED`), its
//! parent, and its tracer (`process.rs`).

mod client;
mod process;
mod server;
mod wire;

use std::ffi::c_int;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::SocketAddr;

use crate::process::namespace;

#[cfg(not(test))]
pub(crate) use client::trap;
pub(crate) use process::read as read_memory;
#[cfg(not(test))]
pub(crate) use server::let_answer;
pub(crate) use server::serve;

/// Drops all debugging in a forked child: it debugs no process, and no debugger debugs it.
pub(crate) fn forget() {
    client::forget();
    server::forget();
}

/// The first number by which a hosted driver's own processes debug each other.
const HOSTED: u32 = 1 << 30;

/// Address at which the companion of a program listens.
fn of_program(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("belfry-program-{}-{pid}", namespace()))
}

/// Address at which a debugger listens that has attached to a program without a GPU.
fn of_debugger(pid: u32) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(format!("belfry-debugger-of-{}-{pid}", namespace()))
}

/// Result of a call of the driver.
type Answer = Result<c_int, c_int>;
