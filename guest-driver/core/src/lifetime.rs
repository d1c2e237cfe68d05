//! Processes from their first open of the KFD node to their end (`kfd_process.c`, `kfd_create_process`,
//! `kfd_process_notifier_release`).

use alloc::sync::Arc;

use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;
use belfry_abi::kfd::smi::EventKind;

use crate::acquire;
use crate::debug;
use crate::device::{Device, Users};
use crate::errno::Result;
use crate::fault;
use crate::hw::log;
use crate::os::{DriverEvent, Function as _, Os, ProcessKey};
use crate::process::{Phase, Process, Works};
use crate::process_device::ProcessDevices;
use crate::processes::{Later, Processes};
use crate::queue_manager;
use crate::ranges::Svm;
use crate::svm;

/// Opens the KFD node for an address space, which has one process however often it does.
///
/// # Errors
///
/// `ENODEV` after removal, `EAGAIN` while there will be other nodes, `ENOSPC` when every PASID or doorbell slice is taken, `ENOMEM`.
pub(crate) fn open<O: Os>(
    processes: &Arc<Processes<O>>,
    device: &Arc<Device<O>>,
    key: ProcessKey,
) -> Result<Arc<Process<O>>> {
    let wanted = || (slices(device), device.nodes().count() as usize);
    let make = |pasid, slices| Process::new(device, key, pasid, slices, works(processes, device, pasid)?);
    let (process, new) = processes.open(key, wanted, make)?;
    if new {
        device.trace(process.pasid, DriverEvent::ProcessOpened { task: process.opener });
    }
    Ok(process)
}

/// Slices that the doorbells of a device have.
fn slices<O: Os>(device: &Device<O>) -> u64 {
    device.hw.function().doorbell_size() / KFD_DOORBELL_PROCESS_SLICE
}

/// The work that a process will have done for it.
#[inline(never)]
fn works<O: Os>(processes: &Arc<Processes<O>>, device: &Arc<Device<O>>, pasid: u16) -> Result<Works<O>> {
    let os = device.hw.os();
    let later = |delay_us, run| os.work_new(Arc::new(Later::new((device, processes), pasid, delay_us, run)));
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
        process.device.trace(process.pasid, DriverEvent::ProcessClosed);
    }
    drop(entry);
}

/// Ends all processes and lets no more in.
pub(crate) fn end_all<O: Os>(processes: &Arc<Processes<O>>) {
    processes.close_for_good();
    for process in processes.all() {
        end(processes, &process);
    }
    for client in processes.files() {
        client.stop();
    }
}

/// Takes everything of a process off the device and gives it back; idempotent.
///
/// Queues stop first, then translations go, then memory: pages are unpinned and buffer objects freed only when the
/// device has said that it uses none of them.
pub(crate) fn tear_down<O: Os>(processes: &Arc<Processes<O>>, process: &Process<O>) {
    stop_debugging(processes, process);
    process.debug.detach();
    let (queues, bos, devices, context, task, svm);
    {
        let mut state = process.state.lock();
        if state.phase == Phase::Dead {
            return;
        }
        state.phase = Phase::Dead;
        queues = queue_manager::remove_all_queues(process, &mut state);
        bos = core::mem::take(&mut state.bos);
        let none = ProcessDevices::new(&process.slices, &process.device.hw.asic().doorbells);
        devices = core::mem::replace(&mut state.devices, none);
        debug::end_debugging(process, &mut state);
        context = state.context.take();
        task = state.task.take();
        svm = core::mem::replace(&mut state.svm, Svm::new(process.device.config.vram_size));
    }
    process.device.uncharge_gtt(svm.charged);
    for bo in bos.values() {
        process.device.hw.os().memory_freed(bo.va);
    }
    drop(queues);
    let _ = process.device.flush_gart();
    // Translations go before the memory; a device that does not answer even to this keeps its memory.
    let flushed = acquire::leave_spaces(process, &devices, &bos, &svm) && !process.device.wedged();
    process.events.shut_down();
    if flushed || !process.device.hw.alive() {
        drop((bos, svm, devices, context));
    } else {
        log!(
            process.device.hw,
            Error,
            "pasid {}: memory is left to a device that does not answer",
            process.pasid
        );
        core::mem::forget((bos, svm, context));
        devices.leave();
    }
    if let Some(task) = task {
        process.device.smi.process(EventKind::ProcessEnd, &task);
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
    fn were_reset(&self) {
        for process in self.all() {
            process.gpu_reset();
        }
        for client in self.files() {
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
        self.admit_file(file, slices(device))
    }

    fn dismiss(&self, pasid: u16) {
        self.dismiss_file(pasid);
    }
}
