//! All that looks at a GPU while it runs: the socket of `belfry inspect`, and the stub for GDB.

use std::sync::{Arc, Mutex};

use belfry_device::Gpu;

use super::{InspectError, InspectOptions, Server};
use crate::gdb;
use crate::output::note;
use crate::snapshot::Source;
use crate::symbols::Symbols;

/// Everything that looks at a GPU; when it is dropped, nobody does, and what was halted goes on.
#[derive(Debug)]
pub struct Onlookers {
    gdb: Option<gdb::Server>,
    socket: Option<Server>,
}

impl Onlookers {
    /// Lets the GPU of this process be looked at, and says where GDB finds it.
    ///
    /// # Errors
    ///
    /// A socket or a stub that cannot be, or a breakpoint that is none.
    pub fn start(gpu: &Arc<Gpu>, options: &InspectOptions) -> Result<Self, InspectError> {
        let symbols = Arc::new(Mutex::new(Symbols::of(&options.symbols)?));
        let socket = options.socket.then(|| Server::start(gpu, options, &symbols)).transpose()?;
        let gdb =
            options.gdb.as_ref().map(|address| gdb::Server::start(gpu, address, &symbols)).transpose()?;
        if let Some(gdb) = &gdb {
            note!("belfry: the first dispatch waits for GDB: target remote {}", gdb.at());
        }
        Ok(Self { gdb, socket })
    }

    /// The run can be saved, when somebody asks for that.
    pub fn can_save(&self, source: Source) {
        if let Some(socket) = &self.socket {
            socket.can_save(source);
        }
    }

    /// The program has ended with a status, which GDB is told.
    pub fn ended(&self, status: i32) {
        if let Some(gdb) = &self.gdb {
            gdb.ended(status);
        }
    }
}
