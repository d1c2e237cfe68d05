//! Table of all processes: their ids, their doorbell slices, and how many opens hold them.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::ih::IhEntry;

use crate::device::Device;
use crate::drm::Client;
use crate::errno::{Errno, Result};
use crate::hw::{Hw, log};
use crate::os::{LockRank, Os, ProcessKey, Work};
use crate::process::Process;
use crate::sync::Mutex;

/// Interrupts without a receiver that are logged.
const LOGGED_UNHANDLED: u64 = 16;
/// One past the last PASID.
const PASID_END: u16 = 0x8000;

struct Entry<O: Os> {
    process: Arc<Process<O>>,
    /// One for each node.
    slices: Vec<u32>,
    opens: u32,
}

/// Processes by their ids, and files of the render node.
struct Table<O: Os> {
    by_pasid: BTreeMap<u16, Entry<O>>,
    /// Open files of the render node, by their identity.
    files: BTreeMap<u64, Arc<Client<O>>>,
    /// Files that have work: their ids and slices, by the id that the device knows them by.
    workers: BTreeMap<u16, (u64, u32)>,
    /// No more may come.
    closed: bool,
    /// No more may come for now: there will be other nodes.
    locked: bool,
    /// The next PASID to try: ids are not used again soon, so that a late interrupt finds no process.
    next: u16,
    unhandled: u64,
}

impl<O: Os> Table<O> {
    fn new() -> Self {
        Self {
            by_pasid: BTreeMap::new(),
            files: BTreeMap::new(),
            workers: BTreeMap::new(),
            closed: false,
            locked: false,
            next: 1,
            unhandled: 0,
        }
    }

    /// Free slices, lowest first, of as many as there are.
    fn free_slices(&self, slices: u64) -> impl Iterator<Item = u32> {
        (1..slices as u32).filter(|slice| {
            let of_processes = self.by_pasid.values().any(|entry| entry.slices.contains(slice));
            !of_processes && self.workers.values().all(|(_, other)| other != slice)
        })
    }

    /// Checks that new ones may come (`kfd_open`).
    fn check_locked(&self) -> Result<()> {
        if self.locked { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    fn free_pasid(&mut self) -> Option<u16> {
        for _ in 1..PASID_END {
            let pasid = self.next;
            self.next = if pasid + 1 == PASID_END { 1 } else { pasid + 1 };
            if !self.by_pasid.contains_key(&pasid) && !self.workers.contains_key(&pasid) {
                return Some(pasid);
            }
        }
        None
    }
}

/// All processes, and all open files of the render node.
pub(crate) struct Processes<O: Os> {
    table: Mutex<O, Table<O>>,
}

impl<O: Os> Processes<O> {
    /// Makes the table, without a process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(os: &O) -> Result<Arc<Self>> {
        Ok(Arc::new(Self { table: Mutex::new(os, LockRank::Processes, Table::new())? }))
    }

    /// Counts an open of the process of an address space, which `make` makes of its PASID and slices if there is none. `wanted` says how
    /// many slices the device has and how many nodes, each of which needs one: the nodes stay the same from there on. Returns the
    /// process, and whether it is new.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EAGAIN` while there will be other nodes, `ENOSPC`, and those of `make`.
    pub(crate) fn open(
        &self,
        key: ProcessKey,
        wanted: impl FnOnce() -> (u64, usize),
        make: impl FnOnce(u16, Vec<u32>) -> Result<Arc<Process<O>>>,
    ) -> Result<(Arc<Process<O>>, bool)> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if let Some(entry) = table.by_pasid.values_mut().find(|entry| entry.process.key() == key) {
            entry.opens += 1;
            return Ok((entry.process.clone(), false));
        }
        table.check_locked()?;
        let (slices, nodes) = wanted();
        let slices: Vec<u32> = table.free_slices(slices).take(nodes).collect();
        if slices.len() < nodes {
            return Err(Errno::ENOSPC);
        }
        let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
        let process = make(pasid, slices.clone())?;
        table.by_pasid.insert(pasid, Entry { process: process.clone(), slices, opens: 1 });
        Ok((process, true))
    }

    /// Takes one open back; returns whether it was the last one.
    pub(crate) fn close(&self, process: &Arc<Process<O>>) -> bool {
        match self.table.lock().by_pasid.get_mut(&process.pasid) {
            Some(entry) if Arc::ptr_eq(&entry.process, process) => {
                entry.opens -= 1;
                entry.opens == 0
            }
            _ => false,
        }
    }

    /// Takes a process out of the table; the caller drops it without the lock.
    pub(crate) fn remove(&self, process: &Arc<Process<O>>) -> Option<Arc<Process<O>>> {
        let mut table = self.table.lock();
        match table.by_pasid.get(&process.pasid) {
            Some(entry) if Arc::ptr_eq(&entry.process, process) => {
                table.by_pasid.remove(&process.pasid).map(|entry| entry.process)
            }
            _ => None,
        }
    }

    /// Lets nothing in any more.
    pub(crate) fn close_for_good(&self) {
        self.table.lock().closed = true;
    }

    /// Lets no more processes in for now, where there are none and no file has had work (`kgd2kfd_check_and_lock_kfd`).
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENODEV` after removal.
    pub(crate) fn lock_out(&self) -> Result<()> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if table.locked || !table.by_pasid.is_empty() || !table.workers.is_empty() {
            return Err(Errno::EBUSY);
        }
        table.locked = true;
        Ok(())
    }

    /// Lets them in again.
    pub(crate) fn let_in(&self) {
        self.table.lock().locked = false;
    }

    /// All processes of this moment.
    pub(crate) fn all(&self) -> Vec<Arc<Process<O>>> {
        self.table.lock().by_pasid.values().map(|entry| entry.process.clone()).collect()
    }

    /// The process that the device knows by an id.
    pub(crate) fn get(&self, pasid: u16) -> Option<Arc<Process<O>>> {
        self.table.lock().by_pasid.get(&pasid).map(|entry| entry.process.clone())
    }

    /// The process of an address space.
    pub(crate) fn of_key(&self, key: ProcessKey) -> Option<Arc<Process<O>>> {
        let table = self.table.lock();
        table.by_pasid.values().find(|entry| entry.process.key() == key).map(|entry| entry.process.clone())
    }

    /// Adds a file of the render node that has been opened.
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EEXIST`.
    pub(crate) fn add_file(&self, client: &Arc<Client<O>>) -> Result<()> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if table.files.contains_key(&client.id()) {
            return Err(Errno::EEXIST);
        }
        table.files.insert(client.id(), client.clone());
        Ok(())
    }

    /// Takes a file out of the table that has been closed; the process that has acquired its address space is gone.
    pub(crate) fn remove_file(&self, client: &Arc<Client<O>>) {
        let file = {
            let mut table = self.table.lock();
            match table.files.get(&client.id()) {
                Some(file) if Arc::ptr_eq(file, client) => table.files.remove(&client.id()),
                _ => None,
            }
        };
        drop(file);
    }

    /// Gives a file an id that the device will know its work by, and one of so many slices, until [`Processes::dismiss_file`].
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EAGAIN` while there will be other nodes, `ENOSPC`.
    pub(crate) fn admit_file(&self, id: u64, slices: u64) -> Result<(u16, u32)> {
        let mut table = self.table.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        table.check_locked()?;
        let slice = table.free_slices(slices).next().ok_or(Errno::ENOSPC)?;
        let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
        table.workers.insert(pasid, (id, slice));
        Ok((pasid, slice))
    }

    /// Takes both back: nothing of the file's work is left on the device.
    pub(crate) fn dismiss_file(&self, pasid: u16) {
        self.table.lock().workers.remove(&pasid);
    }

    /// The file whose work the device knows by an id.
    pub(crate) fn worker(&self, pasid: u16) -> Option<Arc<Client<O>>> {
        let table = self.table.lock();
        let (id, _) = table.workers.get(&pasid)?;
        table.files.get(id).cloned()
    }

    /// All open files of the render node.
    pub(crate) fn files(&self) -> Vec<Arc<Client<O>>> {
        self.table.lock().files.values().cloned().collect()
    }

    /// The open file of the render node with an identity.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<Client<O>>> {
        self.table.lock().files.get(&id).cloned()
    }

    /// Looks at the work of all files but one, whose own is over: theirs may have waited for it.
    pub(crate) fn kick_others(&self, except: u64) {
        let workers: Vec<u64> = self.table.lock().workers.values().map(|(id, _)| *id).collect();
        for client in workers.into_iter().filter(|id| *id != except).filter_map(|id| self.client(id)) {
            client.kick();
        }
    }

    /// Returns how many files of the render node are open, and how many of them have had work.
    pub(crate) fn render_nodes(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.files.len(), table.workers.len())
    }

    /// Counts an interrupt that has no receiver, and logs the first ones.
    pub(crate) fn count_unhandled(&self, hw: &Hw<O>, entry: &IhEntry) {
        let count = {
            let mut table = self.table.lock();
            table.unhandled += 1;
            table.unhandled
        };
        if count <= LOGGED_UNHANDLED {
            log!(
                hw,
                Debug,
                "interrupt not handled: client {:#x} source {} vmid {} pasid {} data {:x?}",
                entry.client().0,
                entry.source().0,
                entry.vmid(),
                entry.pasid(),
                entry.data
            );
        }
    }

    #[cfg(test)]
    pub(crate) fn unhandled(&self) -> u64 {
        self.table.lock().unhandled
    }
}

/// Work for one process, done later and elsewhere, if the process is still there then.
pub(crate) struct Later<O: Os> {
    device: Arc<Device<O>>,
    processes: Arc<Processes<O>>,
    pasid: u16,
    delay_us: u64,
    run: fn(&Arc<Process<O>>),
}

impl<O: Os> Later<O> {
    /// Work for the process of an id, which it is looked for by after a delay.
    pub(crate) fn new(
        (device, processes): (&Arc<Device<O>>, &Arc<Processes<O>>),
        pasid: u16,
        delay_us: u64,
        run: fn(&Arc<Process<O>>),
    ) -> Self {
        Self { device: device.clone(), processes: processes.clone(), pasid, delay_us, run }
    }
}

impl<O: Os> Work for Later<O> {
    fn run(&self) {
        if self.delay_us > 0 {
            self.device.hw.os().sleep_us(self.delay_us);
        }
        if let Some(process) = self.processes.get(self.pasid) {
            (self.run)(&process);
        }
    }
}
