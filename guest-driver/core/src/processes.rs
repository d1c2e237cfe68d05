//! All processes of a device: their ids, their doorbell slices, and how many opens hold them.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::ih::IhEntry;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::device::Device;
use crate::drm::{Client, Hardware};
use crate::errno::{Errno, Result};
use crate::hw::log;
use crate::os::{DriverEvent, Os, ProcessKey};
use crate::process::Process;

/// Interrupts nobody claimed that are logged.
const LOGGED_UNHANDLED: u64 = 16;
/// One past the last PASID.
const PASID_END: u16 = 0x8000;

struct Entry<O: Os> {
    process: Arc<Process<O>>,
    /// One for each node.
    slices: Vec<u32>,
    opens: u32,
}

/// The table.
pub(crate) struct Processes<O: Os> {
    by_pasid: BTreeMap<u16, Entry<O>>,
    /// Open files of the render node, by their identity.
    files: BTreeMap<u64, Arc<Client<O>>>,
    /// Those of them that have work: their ids and slices, by the id the device knows them by.
    workers: BTreeMap<u16, (u64, u32)>,
    /// No more may come.
    closed: bool,
    /// No more may come for now: there will be other nodes.
    locked: bool,
    /// The next PASID to try: ids are not used again soon, so that a late interrupt finds no process.
    next: u16,
    unhandled: u64,
}

impl<O: Os> Processes<O> {
    pub(crate) fn new() -> Self {
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

    /// Returns how many files of the render node are open, and how many of them have had work.
    pub(crate) fn render_nodes(&self) -> (usize, usize) {
        (self.files.len(), self.workers.len())
    }

    #[cfg(test)]
    pub(crate) fn unhandled(&self) -> u64 {
        self.unhandled
    }

    /// Free slices, lowest first, of as many as there are.
    fn free_slices(&self, slices: u64) -> impl Iterator<Item = u32> {
        (1..slices as u32).filter(|slice| {
            let of_processes = self.by_pasid.values().any(|entry| entry.slices.contains(slice));
            !of_processes && self.workers.values().all(|(_, other)| other != slice)
        })
    }

    /// Whether new ones may come (`kfd_open`).
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

impl<O: Os> Device<O> {
    pub(crate) fn open_process(self: &Arc<Self>, key: ProcessKey) -> Result<Arc<Process<O>>> {
        let mut table = self.processes.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if let Some(entry) = table.by_pasid.values_mut().find(|entry| entry.process.key() == key) {
            entry.opens += 1;
            return Ok(entry.process.clone());
        }
        let slices = self.hw.os().doorbell_size() / KFD_DOORBELL_PROCESS_SLICE;
        table.check_locked()?;
        let nodes = self.nodes().count() as usize;
        let slices: Vec<u32> = table.free_slices(slices).take(nodes).collect();
        if slices.len() < nodes {
            return Err(Errno::ENOSPC);
        }
        let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
        let process = Process::new(self, key, pasid, slices.clone())?;
        table.by_pasid.insert(pasid, Entry { process: process.clone(), slices, opens: 1 });
        self.trace(pasid, DriverEvent::ProcessOpened { task: process.opener });
        Ok(process)
    }

    /// A file of a partition's render node is opened (`amdgpu_xcp_open_device`).
    ///
    /// # Errors
    ///
    /// `ENOENT` for a partition that there is not now, `ENODEV` after removal, `EEXIST`, `ENOMEM`.
    pub(crate) fn open_file(self: &Arc<Self>, id: u64, partition: u32) -> Result<Arc<Client<O>>> {
        if partition >= self.nodes().count() {
            return Err(Errno::ENOENT);
        }
        let client = Client::new(self, id, partition)?;
        let mut table = self.processes.lock();
        if table.closed {
            return Err(Errno::ENODEV);
        }
        if table.files.contains_key(&id) {
            return Err(Errno::EEXIST);
        }
        table.files.insert(id, client.clone());
        Ok(client)
    }

    /// A file of the render node is closed; whoever has acquired its address space is gone.
    pub(crate) fn close_file(&self, client: &Arc<Client<O>>) {
        client.close();
        let file = {
            let mut table = self.processes.lock();
            match table.files.get(&client.id()) {
                Some(file) if Arc::ptr_eq(file, client) => table.files.remove(&client.id()),
                _ => None,
            }
        };
        drop(file);
    }

    /// Gives a file what it needs before its first work, until [`Device::dismiss`].
    pub(crate) fn admit(&self, id: u64, (partition, epoch): (u32, u64)) -> Result<Hardware<O>> {
        let (pasid, slice) = {
            let mut table = self.processes.lock();
            if table.closed {
                return Err(Errno::ENODEV);
            }
            table.check_locked()?;
            let slices = self.hw.os().doorbell_size() / KFD_DOORBELL_PROCESS_SLICE;
            let slice = table.free_slices(slices).next().ok_or(Errno::ENOSPC)?;
            let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
            table.workers.insert(pasid, (id, slice));
            (pasid, slice)
        };
        Hardware::new(self, pasid, slice, (partition, epoch)).inspect_err(|_| self.dismiss(pasid))
    }

    /// Nothing of the file's work is left on the device.
    pub(crate) fn dismiss(&self, pasid: u16) {
        self.processes.lock().workers.remove(&pasid);
    }

    /// The file whose work the device knows by this id.
    pub(crate) fn worker(&self, pasid: u16) -> Option<Arc<Client<O>>> {
        let table = self.processes.lock();
        let (id, _) = table.workers.get(&pasid)?;
        table.files.get(id).cloned()
    }

    /// All open files of the render node.
    pub(crate) fn files(&self) -> Vec<Arc<Client<O>>> {
        self.processes.lock().files.values().cloned().collect()
    }

    /// Work of a file is over: that of others may have waited for it.
    pub(crate) fn kick_files(&self, except: u64) {
        let workers: Vec<u64> = self.processes.lock().workers.values().map(|(id, _)| *id).collect();
        for client in workers.into_iter().filter(|id| *id != except).filter_map(|id| self.client(id)) {
            client.kick();
        }
    }

    /// The open file of the render node with this identity.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<Client<O>>> {
        self.processes.lock().files.get(&id).cloned()
    }

    pub(crate) fn close_process(&self, process: &Arc<Process<O>>) {
        {
            let mut table = self.processes.lock();
            match table.by_pasid.get_mut(&process.pasid) {
                Some(entry) if Arc::ptr_eq(&entry.process, process) => {
                    entry.opens -= 1;
                    if entry.opens > 0 {
                        return;
                    }
                }
                _ => return,
            }
        }
        self.end_process(process);
    }

    pub(crate) fn exit_process(&self, key: ProcessKey) {
        let process = self.processes().into_iter().find(|process| process.key() == key);
        if let Some(process) = process {
            self.end_process(&process);
        }
    }

    /// Tears down first, so that slice and PASID are free only when nothing of the process is left on the device.
    fn end_process(&self, process: &Arc<Process<O>>) {
        process.tear_down();
        let entry = {
            let mut table = self.processes.lock();
            match table.by_pasid.get(&process.pasid) {
                Some(entry) if Arc::ptr_eq(&entry.process, process) => table.by_pasid.remove(&process.pasid),
                _ => None,
            }
        };
        if entry.is_some() {
            self.trace(process.pasid, DriverEvent::ProcessClosed);
        }
        drop(entry);
    }

    /// Ends all processes and lets no more in.
    pub(crate) fn remove_processes(&self) {
        self.processes.lock().closed = true;
        for process in self.processes() {
            self.end_process(&process);
        }
        for client in self.files() {
            client.stop();
        }
    }

    /// Lets no more processes in for now, where there are none and no file has had work (`kgd2kfd_check_and_lock_kfd`).
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENODEV` after removal.
    pub(crate) fn lock_out(&self) -> Result<()> {
        let mut table = self.processes.lock();
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
        self.processes.lock().locked = false;
    }

    /// All processes of this moment.
    pub(crate) fn processes(&self) -> Vec<Arc<Process<O>>> {
        self.processes.lock().by_pasid.values().map(|entry| entry.process.clone()).collect()
    }

    pub(crate) fn process(&self, pasid: u16) -> Option<Arc<Process<O>>> {
        self.processes.lock().by_pasid.get(&pasid).map(|entry| entry.process.clone())
    }

    /// The process of an address space.
    pub(crate) fn process_of(&self, key: ProcessKey) -> Option<Arc<Process<O>>> {
        let table = self.processes.lock();
        table.by_pasid.values().find(|entry| entry.process.key() == key).map(|entry| entry.process.clone())
    }

    /// Counts an interrupt nobody waits for, and logs the first ones.
    pub(crate) fn count_unhandled(&self, entry: &IhEntry) {
        let count = {
            let mut table = self.processes.lock();
            table.unhandled += 1;
            table.unhandled
        };
        if count <= LOGGED_UNHANDLED {
            log!(
                self.hw,
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
}
