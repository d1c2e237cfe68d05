//! `--gdb`: a stub of GDB's remote protocol, over which stock GDB debugs waves.
//!
//! | part | file |
//! | --- | --- |
//! | where it listens, and one client after the other | `server.rs` |
//! | whose a connection over TCP is | `peer.rs` |
//! | a client: packets, waiting, the limits of a client | `session.rs` |
//! | waves as threads: breakpoints, steps, memory | `target.rs`, `resume.rs` |
//! | watchpoints | `watchpoints.rs` |
//! | registers and their description | `registers.rs` |
//! | symbol files as GDB is given them | `libraries.rs` |
//! | `monitor` commands | `monitor.rs` |
//!
//! Distributions' GDB has no architecture for AMD GPUs. To it the GPU is an x86-64 processor with more registers. The
//! description has the registers that the architecture needs, of which `rip` alone is a wave's, and beside them the
//! wave's registers.

mod libraries;
mod monitor;
mod peer;
mod registers;
mod resume;
mod server;
mod session;
mod target;
mod watchpoints;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
pub(crate) use server::Place;
pub use server::Server;

/// Address at which the stub listens.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub enum GdbAddress {
    /// A Unix socket of the process in the folder of this user's sockets, which this user alone can connect to.
    Own,
    /// TCP; port 0 is a free one.
    Tcp(SocketAddr),
    /// A Unix socket, which this user alone can connect to.
    Unix(PathBuf),
}

/// A text that is no address of the stub.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0:?} is neither ADDR:PORT nor a path with a slash")]
pub struct NoAddress(pub String);

impl FromStr for GdbAddress {
    type Err = NoAddress;

    /// `ADDR:PORT`, `:PORT`, or a path with a slash; the process's own socket for an empty text.
    fn from_str(text: &str) -> Result<Self, NoAddress> {
        if text.is_empty() {
            return Ok(Self::Own);
        }
        if text.contains('/') {
            return Ok(Self::Unix(text.into()));
        }
        let whole = if text.starts_with(':') { format!("127.0.0.1{text}") } else { text.to_owned() };
        let wrong = |_| NoAddress(text.to_owned());
        whole.parse().map(Self::Tcp).map_err(wrong)
    }
}

/// Why there is no stub.
#[derive(Debug, thiserror::Error)]
pub enum GdbError {
    /// The stub cannot listen there.
    #[error(
        "GDB's stub cannot listen at {at}: {source}; choose another place with --gdb ADDR:PORT or --gdb PATH"
    )]
    Listen {
        /// Address or path.
        at: String,
        /// Error of the system.
        source: io::Error,
    },
    /// The thread could not be started.
    #[error("the thread of GDB's stub cannot be started: {0}")]
    Thread(#[source] io::Error),
    /// The device has no room for its breakpoint, or has ended.
    #[error("the GPU cannot be debugged: {0}")]
    Device(#[from] belfry_tools::inspect::InspectError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_or_refused_in_words() {
        let tcp = |text: &str| GdbAddress::Tcp(text.parse().unwrap());
        assert_eq!("127.0.0.1:0".parse(), Ok(tcp("127.0.0.1:0")));
        assert_eq!(":3333".parse(), Ok(tcp("127.0.0.1:3333")));
        assert_eq!("./gdb.sock".parse(), Ok(GdbAddress::Unix("./gdb.sock".into())));
        assert_eq!("".parse(), Ok(GdbAddress::Own));
        for wrong in [" ", "3333", "localhost", "1.2.3.4", ":x"] {
            assert!(wrong.parse::<GdbAddress>().is_err(), "{wrong}");
        }
    }
}
