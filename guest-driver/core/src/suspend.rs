//! Suspend and resume: the device is put to sleep under the queues of all processes, and they go on when it is back
//! (`kfd_device.c`, `kgd2kfd_suspend`, `kgd2kfd_resume`).
//!
//! | state | queues | accesses to the device |
//! | --- | --- | --- |
//! | runs | on the scheduler | reach it |
//! | [`suspend`] | taken off, which saves their waves | reach it |
//! | sleeps | those that are added are kept, those that are removed forgotten | wait |
//! | [`resume`] | handed to the scheduler again | reach it |
//!
//! The device may lose its registers while it sleeps, and keeps VRAM. A system freezes programs first; where others go on, their
//! calls wait as soon as they need the device.

use belfry_abi::kfd::smi::QueueEvictionTrigger;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::hw::log;
use crate::interrupt;
use crate::os::{Clock, DriverEvent, Os};
use crate::process::{Phase, Process, State};
use crate::process_device::NodeBits;
use crate::processes::Processes;

/// Passes over the interrupt ring before the device sleeps: no queue runs any more, and one is enough for what is in it.
const PASSES: usize = 4;

/// Takes all queues of all processes off the device, and lets it sleep.
///
/// # Errors
///
/// `ENODEV` after removal, `EIO` when the device is beyond repair, `EBUSY` when it sleeps already, `ETIME` when it hangs again after
/// a reset.
pub(crate) fn suspend<O: Os>(processes: &Processes<O>, device: &Device<O>) -> Result<()> {
    let mut evicted = Err(Errno::ETIME);
    // Who hangs is gone with the first reset.
    for _ in 0..2 {
        let epoch = device.epoch();
        evicted = device.evict_all();
        device.recover_after(epoch, evicted);
        if evicted != Err(Errno::ETIME) {
            break;
        }
    }
    evicted?;
    note_eviction(processes, device);
    for _ in 0..PASSES {
        if !interrupt::handle_all(processes, device) {
            break;
        }
    }
    device.fall_asleep();
    log!(device.hw, Info, "the device is suspended");
    Ok(())
}

/// Starts the device anew, and has the queues go on. What was asked for meanwhile is done.
///
/// A device that does not come back is reset, as one whose scheduler hangs: its queues are lost, and their processes are told.
///
/// # Errors
///
/// `ENODEV` after removal, `EINVAL` when it does not sleep, `EIO` when it is beyond repair.
pub(crate) fn resume<O: Os>(processes: &Processes<O>, device: &Device<O>) -> Result<()> {
    if !device.hw.alive() {
        return Err(Errno::ENODEV);
    }
    if !device.is_asleep() {
        return Err(Errno::EINVAL);
    }
    let (epoch, started) = device.wake_up()?;
    if let Err(error) = started {
        log!(device.hw, Error, "the device does not come back from being suspended ({error})");
        if device.recover(epoch) {
            device.users.were_reset(device);
        }
    } else {
        log!(device.hw, Info, "the device is resumed");
    }
    note_restoration(processes, device);
    // Of what ended last, no interrupt may have told.
    interrupt::look_at_all(processes, device);
    if device.wedged() { Err(Errno::EIO) } else { Ok(()) }
}

/// Returns the nodes of a device on which queues of a process may run, one bit each.
fn running<O: Os>(process: &Process<O>, state: &State<O>, device: &Device<O>) -> NodeBits {
    let alive = if state.phase == Phase::Alive { state.devices.running() } else { 0 };
    process.nodes.of(device).fold(0, |bits, node| bits | node.bit()) & alive
}

/// The queues of all processes leave the scheduler.
fn note_eviction<O: Os>(processes: &Processes<O>, device: &Device<O>) {
    for process in processes.all() {
        let task = {
            let mut state = process.state.lock();
            let nodes = running(&process, &state, device);
            if nodes == 0 {
                continue;
            }
            device.trace(process.pasid, DriverEvent::Evicted);
            let now = device.hw.os().clock_ns(Clock::Monotonic);
            state.devices.among(nodes, |part| part.count_eviction(now));
            state.task
        };
        if let Some(task) = task {
            device.smi.eviction(&device.nodes(), process.pasid, &task, QueueEvictionTrigger::Suspend);
        }
    }
}

/// They are back, but for those that something else keeps away.
fn note_restoration<O: Os>(processes: &Processes<O>, device: &Device<O>) {
    for process in processes.all() {
        let task = {
            let mut state = process.state.lock();
            let nodes = running(&process, &state, device);
            if nodes == 0 || state.svm.quiesced {
                continue;
            }
            device.trace(process.pasid, DriverEvent::Restored);
            let now = device.hw.os().clock_ns(Clock::Monotonic);
            state.devices.among(nodes, |part| part.end_eviction(now));
            state.task
        };
        if let Some(task) = task {
            device.smi.restore(&device.nodes(), process.pasid, &task);
        }
    }
}
