//! All that looks at a GPU while it runs: the socket of `belfry inspect`, and the stub for GDB.

use std::path::Path;
use std::sync::{Arc, Mutex};

use belfry_device::Gpu;

use super::{InspectError, InspectOptions, Save, Server, places};
use crate::gdb::{self, GdbAddress};
use crate::symbols::{Finder, Symbols};

/// All onlookers of a GPU; when this is dropped, they end, and a halted device goes on.
#[derive(Debug)]
pub struct Onlookers {
    gdb: Option<gdb::Server>,
    socket: Option<Server>,
}

impl Onlookers {
    /// Lets the GPU of this process be looked at; its socket is `at`, or in the folder of this user's sockets. `finder`
    /// has code objects beside those of the options.
    ///
    /// # Errors
    ///
    /// A socket or a stub that cannot be, or a breakpoint that is none.
    pub fn start(
        gpu: &Arc<Gpu>,
        options: &InspectOptions,
        (at, finder): (Option<&Path>, Option<Finder>),
    ) -> Result<Self, InspectError> {
        let symbols = Symbols::of(&options.symbols)?;
        let symbols = if let Some(finder) = finder { symbols.with_finder(finder) } else { symbols };
        let symbols = Arc::new(Mutex::new(symbols));
        let socket = options.socket.then(|| Server::start((gpu, at), options, &symbols)).transpose()?;
        let place = match &options.gdb {
            None => None,
            Some(GdbAddress::Tcp(address)) => Some(gdb::Place::Tcp(*address)),
            Some(GdbAddress::Unix(path)) => Some(gdb::Place::Unix(path.clone())),
            Some(GdbAddress::Own) => {
                Some(gdb::Place::Unix(places::gdb_socket_of(&places::folder()?, std::process::id())?))
            }
        };
        let gdb = place.map(|place| gdb::Server::start(gpu, &place, &symbols)).transpose()?;
        Ok(Self { gdb, socket })
    }

    /// Address of the stub, as GDB's `target remote` takes it, if GDB may debug the GPU.
    #[must_use]
    pub fn gdb(&self) -> Option<&str> {
        self.gdb.as_ref().map(gdb::Server::at)
    }

    /// Lets clients save the GPU's machine.
    pub fn can_save(&self, saver: Save) {
        if let Some(socket) = &self.socket {
            socket.can_save(saver);
        }
    }

    /// Tells GDB that the program has ended with a status.
    pub fn ended(&self, status: i32) {
        if let Some(gdb) = &self.gdb {
            gdb.ended(status);
        }
    }
}
