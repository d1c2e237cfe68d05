//! The programs that run, and the end of every process of the guest that init is the parent of.
//!
//! Orphans become init's children, and stay in the process table until they are waited for: one thread waits
//! for them and for the programs alike.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::sys;

/// A program that runs.
#[derive(Debug)]
struct Running {
    id: u32,
    end: Sender<ExitStatus>,
}

/// The programs that run, by process id.
#[derive(Debug, Default)]
struct Table {
    running: Mutex<HashMap<u32, Running>>,
    started: Condvar,
}

impl Table {
    fn lock(&self) -> MutexGuard<'_, HashMap<u32, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// All programs of the host.
#[derive(Debug, Clone)]
pub(crate) struct Programs(Arc<Table>);

/// The end of one program.
#[derive(Debug)]
pub(crate) struct End(Receiver<ExitStatus>);

impl End {
    /// Waits for it: the exit status, or 128 and the number of the signal that killed it.
    pub(crate) fn status(&self) -> i32 {
        let status = self.0.recv();
        status
            .map_or(126, |status| status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default()))
    }
}

impl Programs {
    /// Makes an empty table, and starts the thread that waits for every child that ends.
    pub(crate) fn start() -> io::Result<Self> {
        let table = Arc::<Table>::default();
        let reaper = Arc::clone(&table);
        std::thread::Builder::new().name("reaper".into()).spawn(move || reap(&reaper))?;
        Ok(Self(table))
    }

    /// Starts a program under the host's number for it.
    pub(crate) fn spawn(&self, id: u32, command: &mut Command) -> io::Result<(Child, End)> {
        // As long as the table is locked, no other thread waits: neither for a child that is not in it yet,
        // nor for one that could not be executed, which `spawn` itself waits for.
        let mut running = self.0.lock();
        let child = command.spawn()?;
        let (end, receiver) = channel();
        running.insert(child.id(), Running { id, end });
        self.0.started.notify_one();
        Ok((child, End(receiver)))
    }

    /// Sends a signal to a program.
    pub(crate) fn kill(&self, id: u32, signal: i32) -> io::Result<()> {
        let running = self.0.lock();
        // A process id in the table is of a process that was not waited for, so no other process has it.
        let found = running.iter().find(|(_, program)| program.id == id);
        found.map_or(Err(io::Error::from_raw_os_error(libc::ESRCH)), |(pid, _)| sys::kill(*pid, signal))
    }
}

/// Waits for children for ever.
fn reap(table: &Table) {
    loop {
        let ended = sys::wait_for_any();
        let mut running = table.lock();
        match ended {
            Ok(()) => {
                while let Some((pid, status)) = sys::reap_any() {
                    if let Some(program) = running.remove(&pid) {
                        // If this fails, the end is not asked for any more.
                        let _ = program.end.send(ExitStatus::from_raw(status));
                    }
                }
            }
            // Without a child there is no orphan to come either.
            Err(error) if error.raw_os_error() == Some(libc::ECHILD) => {
                while running.is_empty() {
                    running = table.started.wait(running).unwrap_or_else(PoisonError::into_inner);
                }
            }
            Err(_) => {}
        }
    }
}
