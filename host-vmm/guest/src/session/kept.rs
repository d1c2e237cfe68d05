//! Guests in snapshots of their machines, and guests that go on from one.

use std::sync::Arc;
use std::time::Instant;

use belfry_device::GpuConfig;
use belfry_image::Cache;
use belfry_machine::snapshot::{Saver, Snapshot};
use serde::{Deserialize, Serialize};

use super::super::channel::Channel;
use super::super::host::Host as _;
use super::super::kvm::KvmHost;
use super::Guest;
use super::pending::Pending;
use crate::error::{GuestError, failed};
use crate::phases::Phases;
use crate::program::ProgramId;
use belfry_traces::driver::DriverEvents;

/// Note that is kept with the snapshot of a guest.
#[derive(Clone, Debug, Eq, PartialEq, Deserialize, Serialize)]
pub struct Kept {
    /// Its kernel's release.
    pub kernel: String,
    /// The version of its init; notes of snapshots before the fifth version do not have it.
    #[serde(default)]
    version: u32,
    /// The number of the next program.
    next_id: u32,
    /// The program that runs: its number and words.
    program: Option<(u32, Vec<String>)>,
}

impl Kept {
    /// Returns the number and words of the program that runs, if there is one.
    #[must_use]
    pub fn program(&self) -> Option<(ProgramId, &[String])> {
        self.program.as_ref().map(|(id, argv)| (ProgramId(*id), &**argv))
    }
}

impl Guest {
    /// Goes on with a saved guest, and returns the note that was kept with it.
    ///
    /// # Errors
    ///
    /// A snapshot of a guest that was not [kept](Self::keep), or that cannot be resumed.
    pub fn resume(snapshot: &Snapshot, gpu: GpuConfig, cache: &Cache) -> Result<(Self, Kept), GuestError> {
        let started = Instant::now();
        let kept: Kept = serde_json::from_slice(snapshot.note()).map_err(|_| GuestError::NotKept)?;
        let (host, stream) = KvmHost::resume(snapshot, gpu)?;
        let channel = Channel::over(stream).map_err(failed("guest channel"))?;
        let guest = Self {
            phases: Phases { entry: host.setup_time(), init: started.elapsed(), ..Phases::default() },
            host: Box::new(host),
            channel,
            logs: cache.root().join("logs"),
            modules: Vec::new(),
            root: None,
            system: None,
            shares: Vec::new(),
            network: false,
            terminal: None,
            typing: None,
            started,
            kernel: kept.kernel.clone(),
            next_id: kept.next_id,
            pending: Pending::default(),
            driver: DriverEvents::default(),
            version: kept.version,
        };
        Ok((guest, kept))
    }

    /// Keeps a note with the machine's snapshots from which a later run can go on with this guest, with a running
    /// program or without one. A machine that cannot be saved keeps nothing.
    pub fn keep(&self, program: Option<(ProgramId, &[String])>) {
        let kept = Kept {
            kernel: self.kernel.clone(),
            version: self.version,
            next_id: self.next_id,
            program: program.map(|(id, argv)| (id.0, argv.to_vec())),
        };
        if let (Some(saver), Ok(note)) = (self.host.saver(), serde_json::to_vec(&kept)) {
            saver.keep(note);
        }
    }

    /// Returns the saver of the running machine, if it can be saved.
    #[must_use]
    pub fn saver(&self) -> Option<Arc<Saver>> {
        self.host.saver()
    }
}
