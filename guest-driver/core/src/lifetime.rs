//! Processes from their first open of the KFD node to their end (`kfd_process.c`, `kfd_create_process`,
//! `kfd_process_notifier_release`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::kfd::smi::EventKind;

use crate::acquire;
use crate::debug;
use crate::device::{Device, SystemLimit, Users};
use crate::errno::Result;
use crate::fault;
use crate::hw::log;
use crate::os::{DriverEvent, Os, ProcessKey};
use crate::process::{Phase, Process, Works};
use crate::process_device::{ProcessDevices, ProcessNodes};
use crate::processes::{Later, Processes};
use crate::queue_manager;
use crate::ranges::Svm;
use crate::svm;

/// Opens the KFD node for an address space, which has one process however often it does.
///
/// # Errors
///
/// `ENODEV` without a device, `EAGAIN` while there will be other nodes, `ENOSPC` when every PASID or doorbell slice is taken and for more
/// nodes than a process can have, `ENOMEM`.
pub(crate) fn open<O: Os>(processes: &Arc<Processes<O>>, key: ProcessKey) -> Result<Arc<Process<O>>> {
    let make = |pasid, nodes: ProcessNodes<O>| {
        let works = works(processes, nodes.first().device.hw.os(), pasid)?;
        Process::new(key, pasid, nodes, works)
    };
    let (process, new) = processes.open(key, make)?;
    if new {
        process.trace(DriverEvent::ProcessOpened { task: process.opener });
    }
    Ok(process)
}

/// The work that a process will have done for it.
#[inline(never)]
fn works<O: Os>(processes: &Arc<Processes<O>>, os: &O, pasid: u16) -> Result<Works<O>> {
    let later = |delay_us, run| os.work_new(Arc::new(Later::new(processes, pasid, delay_us, run)));
    Ok(Works {
        fault: later(0, |process| fault::settle_fault(process))?,
        retry: later(0, svm::give_pages)?,
        restore: later(svm::RESTORE_DELAY_US, svm::restore)?,
        tell: later(0, |process| debug::tell(process))?,
    })
}

/// Closes one open; the last one ends the process.
pub(crate) fn close<O: Os>(processes: &Arc<Processes<O>>, process: &Arc<Process<O>>) {
    if processes.close(process) {
        end(processes, process);
    }
}

/// Ends the process of an address space, if there is one.
pub(crate) fn exit<O: Os>(processes: &Arc<Processes<O>>, key: ProcessKey) {
    if let Some(process) = processes.of_key(key) {
        end(processes, &process);
    }
}

/// Tears down first, so that slice and PASID are free only when nothing of the process is left on the device.
fn end<O: Os>(processes: &Arc<Processes<O>>, process: &Arc<Process<O>>) {
    tear_down(processes, process);
    let entry = processes.remove(process);
    if entry.is_some() {
        process.trace(DriverEvent::ProcessClosed);
    }
    drop(entry);
}

/// Takes a device out of the machine, and ends all processes that have it: they lose their other devices, too
/// (`kgd2kfd_teardown_processes`).
pub(crate) fn leave<O: Os>(processes: &Arc<Processes<O>>, device: &Device<O>) {
    processes.remove_device(device);
    for process in processes.all() {
        if process.nodes.of(device).next().is_some() {
            end(processes, &process);
        }
    }
    for client in processes.files_of(device) {
        client.stop();
    }
}

/// Takes the memory of a device that has stopped out of the address spaces of other devices' files.
pub(crate) fn forget_memory<O: Os>(processes: &Processes<O>, device: &Device<O>) {
    for client in processes.files_but_of(device) {
        client.lose_memory_of(device.number);
    }
}

/// Takes everything of a process off the device and gives it back; idempotent.
///
/// Queues stop first, then translations go, then memory: pages are unpinned and buffer objects freed only when the
/// device has said that it uses none of them.
pub(crate) fn tear_down<O: Os>(processes: &Arc<Processes<O>>, process: &Process<O>) {
    stop_debugging(processes, process);
    process.debug.detach();
    let (queues, bos, devices, task, svm);
    {
        let mut state = process.state.lock();
        if state.phase == Phase::Dead {
            return;
        }
        state.phase = Phase::Dead;
        queues = queue_manager::remove_all_queues(process, &mut state);
        bos = core::mem::take(&mut state.bos);
        debug::end_debugging(process, &mut state);
        devices = core::mem::replace(&mut state.devices, ProcessDevices::new(&process.nodes));
        task = state.task.take();
        svm = core::mem::replace(&mut state.svm, Svm::of(&process.nodes));
    }
    process.system().uncharge(svm.charged);
    for bo in bos.values() {
        process.nodes.get(bo.node).device.hw.os().memory_freed(bo.va);
    }
    drop(queues);
    let used: Vec<Arc<Device<O>>> = process.nodes.devices().map(|node| node.device.clone()).collect();
    for device in &used {
        let _ = device.flush_gart();
    }
    // Translations go before the memory; a device that does not answer even to this keeps its memory.
    let flushed = acquire::leave_spaces(process, &devices, &bos, &svm);
    let reach = |device: &&Arc<Device<O>>| device.hw.alive() && (!flushed || device.wedged());
    let deaf = used.iter().find(reach);
    process.events.shut_down();
    if let Some(device) = deaf {
        log!(device.hw, Error, "pasid {}: memory is left to a device that does not answer", process.pasid);
        core::mem::forget((bos, svm));
        devices.leave();
    } else {
        drop((bos, svm, devices));
    }
    if let Some(task) = task {
        used.iter().for_each(|device| device.smi.process(EventKind::ProcessEnd, &task));
    }
}

/// Detaches a process from all that it debugs: it is going away.
fn stop_debugging<O: Os>(processes: &Arc<Processes<O>>, process: &Process<O>) {
    for other in processes.all() {
        let debugs = other.pasid != process.pasid && other.state.lock().debug.is_debugged_by(process.pasid);
        if let Some(target) = debugs.then(|| debug::detach(&other)).flatten() {
            close(processes, &other);
            drop(target);
        }
    }
}

impl<O: Os> Users<O> for Processes<O> {
    fn were_reset(&self, device: &Device<O>) {
        for process in self.all() {
            if let Some(node) = process.nodes.of(device).next() {
                process.gpu_reset(node);
            }
        }
        for client in self.files_of(device) {
            client.kick();
        }
    }

    fn make_room(&self, device: &Device<O>, len: u64) {
        svm::make_room(self, device, len);
    }

    fn kick_files(&self, except: u64) {
        self.kick_others(except);
    }

    fn pump(&self, file: u64) {
        if let Some(client) = self.client(file) {
            client.pump();
        }
    }

    fn admit(&self, device: &Device<O>, file: u64) -> Result<(u16, u32)> {
        self.admit_file(file, device)
    }

    fn dismiss(&self, pasid: u16) {
        self.dismiss_file(pasid);
    }

    fn system(&self) -> &SystemLimit {
        Processes::system(self)
    }
}
