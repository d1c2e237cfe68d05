//! Table of the machine: its devices, all processes with their ids, their doorbell slices, and how many opens hold them.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::ih::IhEntry;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::device::{Device, SystemLimit};
use crate::drm::Client;
use crate::errno::{Errno, Result};
use crate::hw::{Hw, log};
use crate::node::Nodes;
use crate::os::{Function as _, LockRank, Os, ProcessKey, WaitQueue as _, Work};
use crate::process::Process;
use crate::process_device::ProcessNodes;
use crate::sync::Mutex;

/// Interrupts without a receiver that are logged.
const LOGGED_UNHANDLED: u64 = 16;
/// One past the last PASID.
const PASID_END: u16 = 0x8000;

struct Entry<O: Os> {
    process: Arc<Process<O>>,
    opens: u32,
}

/// Doorbells of a process or a file: the number of the device, and the slice of its BAR2.
type Slice = (u32, u32);

/// Devices, processes by their ids, and files of the render nodes.
struct Table<O: Os> {
    /// In the order in which they came.
    devices: Vec<Arc<Device<O>>>,
    /// Counts nodes that were added to the topology and removed from it, the processors among them.
    generation: u32,
    by_pasid: BTreeMap<u16, Entry<O>>,
    /// Open files of the render nodes, by their identity.
    files: BTreeMap<u64, Arc<Client<O>>>,
    /// Files that have work: their ids and slices, by the id that the device knows them by.
    workers: BTreeMap<u16, (u64, Slice)>,
    /// Slices that are taken; the first one of each device is the kernel's.
    slices: BTreeSet<Slice>,
    /// No more may come for now: there will be other nodes.
    locked: bool,
    /// The next PASID to try: ids are not used again soon, so that a late interrupt finds no process.
    next: u16,
    unhandled: u64,
}

impl<O: Os> Table<O> {
    fn new() -> Self {
        Self {
            devices: Vec::new(),
            generation: 1,
            by_pasid: BTreeMap::new(),
            files: BTreeMap::new(),
            workers: BTreeMap::new(),
            slices: BTreeSet::new(),
            locked: false,
            next: 1,
            unhandled: 0,
        }
    }

    /// Checks that a device is there.
    fn check_device(&self, device: &Device<O>) -> Result<()> {
        if self.devices.iter().any(|other| other.number == device.number) {
            Ok(())
        } else {
            Err(Errno::ENODEV)
        }
    }

    /// Takes the lowest slice of a device that is free.
    fn take_slice(slices: &mut BTreeSet<Slice>, device: &Device<O>) -> Result<u32> {
        let count = device.hw.function().doorbell_size() / KFD_DOORBELL_PROCESS_SLICE;
        (1..count as u32).find(|slice| slices.insert((device.number, *slice))).ok_or(Errno::ENOSPC)
    }

    /// Names of the nodes of all devices but one.
    fn names_but(&self, device: &Device<O>) -> Vec<u16> {
        let others = self.devices.iter().filter(|other| other.number != device.number);
        others.flat_map(|other| other.nodes().iter().map(|node| node.gpu_id).collect::<Vec<_>>()).collect()
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

/// All devices, all processes, and all open files of the render nodes.
pub(crate) struct Processes<O: Os> {
    table: Mutex<O, Table<O>>,
    system: SystemLimit,
}

impl<O: Os> Processes<O> {
    /// Makes the table, without a device and without a process.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(os: &O) -> Result<Arc<Self>> {
        let table = Mutex::new(os, LockRank::Processes, Table::new())?;
        Ok(Arc::new(Self { table, system: SystemLimit::of(os.cpu_info().memory_bytes) }))
    }

    /// Returns the system memory that programs may have for all devices.
    pub(crate) fn system(&self) -> &SystemLimit {
        &self.system
    }

    /// Adds a device that works, whose nodes get names that no other node has.
    ///
    /// # Errors
    ///
    /// `EINVAL` for nodes that there cannot be.
    pub(crate) fn add_device(&self, device: &Arc<Device<O>>) -> Result<()> {
        let mut table = self.table.lock();
        let taken = table.names_but(device);
        let nodes = device.nodes();
        if nodes.iter().any(|node| taken.contains(&node.gpu_id)) {
            let asic = device.hw.asic();
            device.set_nodes(Nodes::new(asic, &device.info, &device.config, nodes.mode(), &taken)?);
        }
        table.generation += nodes.count();
        table.devices.push(device.clone());
        Ok(())
    }

    /// Takes a device out: no process and no file comes to it any more.
    pub(crate) fn remove_device(&self, device: &Device<O>) {
        let mut table = self.table.lock();
        if table.check_device(device).is_ok() {
            table.generation += device.nodes().count();
        }
        // The caller's reference is not the last one.
        table.devices.retain(|other| other.number != device.number);
    }

    /// The devices of this moment.
    pub(crate) fn devices(&self) -> Vec<Arc<Device<O>>> {
        self.table.lock().devices.clone()
    }

    /// Names of the nodes of all devices but one.
    pub(crate) fn names_but(&self, device: &Device<O>) -> Vec<u16> {
        self.table.lock().names_but(device)
    }

    /// Counts changes of the topology: the nodes that were added to it and removed from it, processors included.
    pub(crate) fn generation(&self) -> u32 {
        self.table.lock().generation
    }

    /// Counts nodes that were added or removed.
    pub(crate) fn count_nodes(&self, nodes: u32) {
        self.table.lock().generation += nodes;
    }

    /// Counts an open of the process of an address space, which `make` makes of its PASID and its nodes if there is none: those of all
    /// devices, with a slice of doorbells each, which stay the same from there on. Returns the process, and whether it is new.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device, `EAGAIN` while there will be other nodes, `ENOSPC`, and those of `make`.
    pub(crate) fn open(
        &self,
        key: ProcessKey,
        make: impl FnOnce(u16, ProcessNodes<O>) -> Result<Arc<Process<O>>>,
    ) -> Result<(Arc<Process<O>>, bool)> {
        let mut table = self.table.lock();
        if table.devices.is_empty() {
            return Err(Errno::ENODEV);
        }
        if let Some(entry) = table.by_pasid.values_mut().find(|entry| entry.process.key() == key) {
            entry.opens += 1;
            return Ok((entry.process.clone(), false));
        }
        table.check_locked()?;
        let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
        // Kept when all of it is made.
        let mut slices = table.slices.clone();
        let nodes = ProcessNodes::new(&table.devices, |device| Table::take_slice(&mut slices, device))?;
        let process = make(pasid, nodes)?;
        table.slices = slices;
        table.by_pasid.insert(pasid, Entry { process: process.clone(), opens: 1 });
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
                for node in process.nodes.iter() {
                    table.slices.remove(&(node.device.number, node.slice));
                }
                table.by_pasid.remove(&process.pasid).map(|entry| entry.process)
            }
            _ => None,
        }
    }

    /// Lets no more processes in for now, where there are none and no file of a device has had work (`kgd2kfd_check_and_lock_kfd`).
    ///
    /// # Errors
    ///
    /// `EBUSY`, `ENODEV` after removal.
    pub(crate) fn lock_out(&self, device: &Device<O>) -> Result<()> {
        let mut table = self.table.lock();
        table.check_device(device)?;
        let works = table.workers.values().any(|(_, (number, _))| *number == device.number);
        if table.locked || !table.by_pasid.is_empty() || works {
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
        table.check_device(client.device())?;
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

    /// Gives a file an id that the device will know its work by, and a slice of the device, until [`Processes::dismiss_file`].
    ///
    /// # Errors
    ///
    /// `ENODEV` after removal, `EAGAIN` while there will be other nodes, `ENOSPC`.
    pub(crate) fn admit_file(&self, id: u64, device: &Device<O>) -> Result<(u16, u32)> {
        let mut table = self.table.lock();
        table.check_device(device)?;
        table.check_locked()?;
        let pasid = table.free_pasid().ok_or(Errno::ENOSPC)?;
        let slice = Table::take_slice(&mut table.slices, device)?;
        table.workers.insert(pasid, (id, (device.number, slice)));
        Ok((pasid, slice))
    }

    /// Takes both back: nothing of the file's work is left on the device.
    pub(crate) fn dismiss_file(&self, pasid: u16) {
        let mut table = self.table.lock();
        if let Some((_, slice)) = table.workers.remove(&pasid) {
            table.slices.remove(&slice);
        }
    }

    /// The file whose work the device knows by an id.
    pub(crate) fn worker(&self, pasid: u16) -> Option<Arc<Client<O>>> {
        let table = self.table.lock();
        let (id, _) = table.workers.get(&pasid)?;
        table.files.get(id).cloned()
    }

    /// All open files of a device's render nodes.
    pub(crate) fn files_of(&self, device: &Device<O>) -> Vec<Arc<Client<O>>> {
        let table = self.table.lock();
        table.files.values().filter(|file| file.device().number == device.number).cloned().collect()
    }

    /// All open files of the render nodes of other devices than this one.
    pub(crate) fn files_but_of(&self, device: &Device<O>) -> Vec<Arc<Client<O>>> {
        let table = self.table.lock();
        table.files.values().filter(|file| file.device().number != device.number).cloned().collect()
    }

    /// The open file of a render node with an identity.
    pub(crate) fn client(&self, id: u64) -> Option<Arc<Client<O>>> {
        self.table.lock().files.get(&id).cloned()
    }

    /// Looks at the work of all files but one, whose own is over: theirs, and threads with memory of other devices, may have waited for it.
    pub(crate) fn kick_others(&self, except: u64) {
        self.devices().iter().for_each(|device| device.fences.wake_all());
        let workers: Vec<u64> = self.table.lock().workers.values().map(|(id, _)| *id).collect();
        for client in workers.into_iter().filter(|id| *id != except).filter_map(|id| self.client(id)) {
            client.kick();
        }
    }

    /// Returns how many files of a device's render nodes are open, and how many of them have had work.
    pub(crate) fn render_nodes(&self, device: &Device<O>) -> (usize, usize) {
        let table = self.table.lock();
        let files = table.files.values().filter(|file| file.device().number == device.number).count();
        let works = table.workers.values().filter(|(_, (number, _))| *number == device.number).count();
        (files, works)
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
    processes: Arc<Processes<O>>,
    pasid: u16,
    delay_us: u64,
    run: fn(&Arc<Process<O>>),
}

impl<O: Os> Later<O> {
    /// Work for the process of an id, which it is looked for by after a delay.
    pub(crate) fn new(
        processes: &Arc<Processes<O>>,
        pasid: u16,
        delay_us: u64,
        run: fn(&Arc<Process<O>>),
    ) -> Self {
        Self { processes: processes.clone(), pasid, delay_us, run }
    }
}

impl<O: Os> Work for Later<O> {
    fn run(&self) {
        let Some(process) = self.processes.get(self.pasid) else { return };
        if self.delay_us > 0 {
            process.os().sleep_us(self.delay_us);
            if self.processes.get(self.pasid).is_none_or(|other| !Arc::ptr_eq(&other, &process)) {
                return;
            }
        }
        (self.run)(&process);
    }
}
