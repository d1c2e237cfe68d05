//! Debugging: the runtime and a debugger of a process, and exceptions on their way to them (`kfd_debug.c`).
//!
//! RUNTIME_ENABLE makes a process's runtime known; DBG_TRAP attaches a debugger, which may be another process. An exception
//! is kept with the queue, the device or the process that it is of. It goes to the debugger, if that has asked for it, as a byte
//! in a descriptor, and otherwise to the runtime: as bits in a word that the header of the queue's context save area leads to,
//! and an event.

mod query;
mod queues;
mod tell;
mod trap;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::fmt;

use belfry_abi::kfd::debug::{
    DEBUG_RUNTIME_STATE_DISABLED, DEBUG_RUNTIME_STATE_ENABLED, ExceptionCode,
    KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK, KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK, RuntimeEnableArgs,
    RuntimeInfo,
};
use belfry_abi::kfd::event::MemoryExceptionData;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{EventFile, LockRank, Os, WaitOutcome, WaitQueue, WorkItem};
use crate::process::{Locked, Process, State};
use crate::request::{LaunchControl, NodeWatch, ShaderDebugger, WATCHES};
use crate::sync::Mutex;

use tell::TellWork;

pub(crate) use trap::dbg_trap;

/// A queue's exceptions.
struct QueueExceptions {
    /// The id of its node, and its doorbell in the process's slice for that.
    doorbell: (u32, u32),
    status: u64,
}

/// What has happened, and who hears of it. Interrupts come here, so the lock is short.
struct Exceptions<O: Os> {
    /// A debugger is attached; its descriptor.
    file: Option<Arc<O::EventFile>>,
    /// Exceptions that it has asked for.
    enabled: u64,
    process: u64,
    /// By the id of the node.
    devices: BTreeMap<u32, u64>,
    queues: BTreeMap<u32, QueueExceptions>,
    /// Of the memory violation in `devices`.
    fault: Option<MemoryExceptionData>,
    /// The runtime hears of exceptions that the debugger has not asked for.
    runtime: bool,
    /// Exceptions on their way to the runtime, by queue.
    to_runtime: BTreeMap<u32, u64>,
    /// A byte on its way to the debugger.
    to_debugger: bool,
    /// How often the debugger has let the runtime go on.
    acknowledged: u32,
}

/// Debugging of a process.
pub(crate) struct Debug<O: Os> {
    exceptions: Mutex<O, Exceptions<O>>,
    /// Woken when something that a thread of the process waits for may have changed.
    wake: O::WaitQueue,
    work: O::WorkItem,
}

/// What the locks of a process's state guard of it.
pub(crate) struct Session<O: Os> {
    runtime: RuntimeInfo,
    /// RUNTIME_ENABLE was interrupted while it waited for the debugger.
    interrupted: bool,
    /// The process that has attached, and the hold on this one.
    attached: Option<(u16, O::Target)>,
    launch: LaunchControl,
    watches: [NodeWatch; WATCHES],
    flags: u32,
    /// The scheduler has settings of this process.
    pub(crate) applied: bool,
}

impl<O: Os> Default for Session<O> {
    fn default() -> Self {
        Self {
            runtime: RuntimeInfo::default(),
            interrupted: false,
            attached: None,
            launch: LaunchControl::default(),
            watches: [NodeWatch::default(); WATCHES],
            flags: 0,
            applied: false,
        }
    }
}

impl<O: Os> fmt::Debug for Session<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("runtime_state", &self.runtime.runtime_state)
            .field("debugger", &self.attached.as_ref().map(|(pasid, _)| pasid))
            .field("launch", &self.launch)
            .field("watches", &format_args!("{:#x?}", self.watches))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Session<O> {
    fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    fn is_runtime_enabled(&self) -> bool {
        self.runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED
    }

    /// Whether this process has attached to it.
    pub(crate) fn is_debugged_by(&self, pasid: u16) -> bool {
        self.attached.as_ref().is_some_and(|(debugger, _)| *debugger == pasid)
    }
}

impl<O: Os> Debug<O> {
    pub(crate) fn new(device: &Arc<Device<O>>, pasid: u16) -> Result<Self> {
        let os = device.hw.os();
        let exceptions = Exceptions {
            file: None,
            enabled: 0,
            process: 0,
            devices: BTreeMap::new(),
            queues: BTreeMap::new(),
            fault: None,
            runtime: false,
            to_runtime: BTreeMap::new(),
            to_debugger: false,
            acknowledged: 0,
        };
        Ok(Self {
            exceptions: Mutex::new(os, LockRank::Exceptions, exceptions)?,
            wake: os.wait_queue_new()?,
            work: os.work_new(Arc::new(TellWork { device: device.clone(), pasid }))?,
        })
    }

    /// A queue is there that no debugger has seen: its node's id, and its doorbell there.
    pub(crate) fn queue_created(&self, id: u32, doorbell: (u32, u32)) {
        let status = ExceptionCode::QUEUE_NEW.mask();
        let file = {
            let mut exceptions = self.exceptions.lock();
            exceptions.queues.insert(id, QueueExceptions { doorbell, status });
            exceptions.file.clone().filter(|_| exceptions.enabled & status != 0)
        };
        file.iter().for_each(|file| file.notify());
    }

    /// A queue is gone.
    pub(crate) fn queue_destroyed(&self, id: u32) {
        let status = ExceptionCode::DEVICE_QUEUE_DELETE.mask();
        let file = {
            let mut exceptions = self.exceptions.lock();
            let gpu = exceptions.queues.remove(&id).map_or(0, |queue| queue.doorbell.0);
            exceptions.to_runtime.remove(&id);
            match exceptions.file.clone() {
                None => None,
                Some(file) => {
                    *exceptions.devices.entry(gpu).or_insert(0) |= status;
                    Some(file).filter(|_| exceptions.enabled & status != 0)
                }
            }
        };
        file.iter().for_each(|file| file.notify());
    }

    /// Raises an exception of the process (`kfd_dbg_ev_raise`).
    fn raise_process(&self, code: ExceptionCode) {
        let file = {
            let mut exceptions = self.exceptions.lock();
            let Some(file) = exceptions.file.clone() else { return };
            exceptions.process |= code.mask();
            Some(file).filter(|_| exceptions.enabled & code.mask() != 0)
        };
        file.iter().for_each(|file| file.notify());
    }

    /// Exceptions of the queue with this doorbell, from an interrupt; whether anybody will hear of them
    /// (`kfd_set_dbg_ev_from_interrupt`).
    pub(crate) fn raise_queue(&self, doorbell: (u32, u32), mask: u64) -> bool {
        let mask = mask & ExceptionCode::MASK_QUEUE;
        let told = {
            let mut exceptions = self.exceptions.lock();
            let exceptions = &mut *exceptions;
            let queue = exceptions.queues.iter_mut().find(|(_, queue)| queue.doorbell == doorbell);
            let Some((&id, queue)) = queue.filter(|_| mask != 0) else { return false };
            if exceptions.file.is_some() {
                queue.status |= mask;
            }
            if exceptions.file.is_some() && exceptions.enabled & mask != 0 {
                exceptions.to_debugger = true;
                true
            } else if exceptions.runtime {
                *exceptions.to_runtime.entry(id).or_insert(0) |= mask;
                true
            } else {
                false
            }
        };
        if told {
            self.work.queue();
        }
        told
    }

    /// A memory violation of the device, from an interrupt; whether the debugger will hear of it.
    pub(crate) fn raise_memory_violation(&self, data: MemoryExceptionData) -> bool {
        let mask = ExceptionCode::DEVICE_MEMORY_VIOLATION.mask();
        {
            let mut exceptions = self.exceptions.lock();
            if exceptions.file.is_none() {
                return false;
            }
            *exceptions.devices.entry(data.gpu_id).or_insert(0) |= mask;
            // Of violations that come faster than they are asked for, the first is kept.
            exceptions.fault.get_or_insert(data);
            if exceptions.enabled & mask == 0 {
                return false;
            }
            exceptions.to_debugger = true;
        }
        self.work.queue();
        true
    }

    /// Forgets the debugger and what it has not been told, and wakes all threads that wait for it.
    pub(crate) fn detach(&self) {
        let file = {
            let mut exceptions = self.exceptions.lock();
            exceptions.enabled = 0;
            (exceptions.process, exceptions.fault) = (0, None);
            exceptions.devices.clear();
            exceptions.queues.values_mut().for_each(|queue| queue.status = 0);
            exceptions.to_debugger = false;
            exceptions.file.take()
        };
        drop(file);
        self.wake.wake_all();
    }

    /// Waits until the debugger lets the runtime go on, or detaches.
    fn wait_for_debugger(&self) -> Result<()> {
        loop {
            let ticket = self.wake.ticket();
            {
                let mut exceptions = self.exceptions.lock();
                if exceptions.file.is_none() {
                    return Ok(());
                }
                if exceptions.acknowledged > 0 {
                    exceptions.acknowledged -= 1;
                    return Ok(());
                }
            }
            if self.wake.wait(ticket, None) == WaitOutcome::Interrupted {
                return Err(Errno::EINTR);
            }
        }
    }
}

impl<O: Os> Process<O> {
    /// RUNTIME_ENABLE.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a runtime that is enabled already, `EEXIST` where there are queues, `EINTR`, when the call has to be
    /// repeated, `ETIME` and `EIO` when the scheduler does not answer.
    pub(crate) fn runtime_enable(&self, args: &RuntimeEnableArgs) -> Result<()> {
        let enable = args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK != 0;
        let waits = {
            let mut state = self.state.lock();
            if !core::mem::take(&mut state.debug.interrupted) {
                if enable {
                    self.enable_runtime(&mut state, args)?;
                } else {
                    self.disable_runtime(&mut state)?;
                }
            }
            state.debug.is_attached()
        };
        if waits {
            self.debug.wait_for_debugger().inspect_err(|_| self.state.lock().debug.interrupted = true)?;
        }
        Ok(())
    }

    fn enable_runtime(&self, state: &mut Locked<'_, O>, args: &RuntimeEnableArgs) -> Result<()> {
        if state.debug.runtime.runtime_state != DEBUG_RUNTIME_STATE_DISABLED {
            return Err(Errno::EBUSY);
        }
        if !state.queues.is_empty() {
            return Err(Errno::EEXIST);
        }
        let saves = args.mode_mask & KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK != 0;
        state.debug.runtime = RuntimeInfo {
            r_debug: args.r_debug,
            runtime_state: DEBUG_RUNTIME_STATE_ENABLED,
            ttmp_setup: u32::from(saves),
        };
        self.debug.exceptions.lock().runtime = true;
        if state.debug.is_attached() {
            self.activate(state)?;
            self.debug.raise_process(ExceptionCode::PROCESS_RUNTIME);
        }
        Ok(())
    }

    fn disable_runtime(&self, state: &mut Locked<'_, O>) -> Result<()> {
        let enabled = state.debug.is_runtime_enabled();
        state.debug.runtime = RuntimeInfo::default();
        self.debug.exceptions.lock().runtime = false;
        if state.debug.is_attached() {
            if enabled {
                self.deactivate(state)?;
            }
            self.debug.raise_process(ExceptionCode::PROCESS_RUNTIME);
        }
        Ok(())
    }

    /// The debugger's settings take effect: it is attached, and the runtime is enabled (`kfd_dbg_trap_activate`).
    fn activate(&self, state: &mut Locked<'_, O>) -> Result<()> {
        state.debug.launch = LaunchControl { trap_en: true, ..LaunchControl::default() };
        self.mark_debugged(state, true);
        self.apply_debug(state)
    }

    /// All is as if there had been no debugger (`kfd_dbg_trap_deactivate`).
    fn deactivate(&self, state: &mut Locked<'_, O>) -> Result<()> {
        self.resume_debugged(state, None);
        self.device.put_watches(&mut state.debug.watches);
        (state.debug.launch, state.debug.flags) = (LaunchControl::default(), 0);
        self.mark_debugged(state, false);
        self.apply_debug(state)
    }

    fn mark_debugged(&self, state: &State<O>, debugged: bool) {
        for (space, _) in state.spaces.each() {
            if let Some(handler) = &space.lock().trap_handler {
                handler.set_debugged(debugged);
            }
        }
    }

    /// The address space has come after the debugger.
    pub(crate) fn debug_acquired(&self, state: &mut Locked<'_, O>) -> Result<()> {
        if state.debug.is_attached() && state.debug.is_runtime_enabled() {
            self.mark_debugged(state, true);
            self.apply_debug(state)?;
        }
        Ok(())
    }

    /// Gives the scheduler what is set (`kfd_dbg_set_mes_debug_mode`). Who has no address space has no waves.
    fn apply_debug(&self, state: &mut Locked<'_, O>) -> Result<()> {
        let context = state.context.as_ref().map(|context| context.gpu_address());
        let Some(process_context) = context else { return Ok(()) };
        state.debug.applied = true;
        let Session { launch, watches, flags, .. } = &state.debug;
        let request = ShaderDebugger { process_context, launch: *launch, watches: *watches, flags: *flags };
        let result = state.lend(|| {
            self.device.with_scheduler(self.epoch, |scheduler| scheduler.set_shader_debugger(&request))
        });
        result.inspect_err(|&error| self.recover_after(error))
    }

    /// Attaches a debugger (`kfd_dbg_trap_enable`); `target` keeps the process known until it is detached.
    fn attach(
        &self,
        debugger: u16,
        (target, file): (O::Target, O::EventFile),
        mask: u64,
    ) -> Result<RuntimeInfo> {
        let mut state = self.state.lock();
        if state.debug.is_attached() {
            return Err(Errno::EALREADY);
        }
        if state.queues.values().any(|queue| queue.gws) {
            // Queues with global wave sync of this chip cannot be debugged (`kfd_dbg_has_gws_support`).
            return Err(Errno::EBUSY);
        }
        {
            let mut exceptions = self.debug.exceptions.lock();
            exceptions.file = Some(Arc::new(file));
            (exceptions.enabled, exceptions.acknowledged) = (mask, 0);
        }
        state.debug.attached = Some((debugger, target));
        if state.debug.is_runtime_enabled()
            && let Err(error) = self.activate(&mut state)
        {
            let attached = state.debug.attached.take();
            drop(state);
            self.debug.detach();
            drop(attached);
            return Err(error);
        }
        Ok(state.debug.runtime)
    }

    /// Detaches the debugger (`kfd_dbg_trap_disable`). What is returned keeps the process's key its own: it is dropped when the
    /// table of processes does not have the key any more, or has it for other reasons.
    fn detach(&self) -> Option<O::Target> {
        let attached = {
            let mut state = self.state.lock();
            if state.debug.is_attached() && state.debug.is_runtime_enabled() {
                // A device that does not answer has no waves to be debugged.
                let _ = self.deactivate(&mut state);
            }
            state.debug.attached.take()
        };
        if attached.is_some() {
            self.debug.detach();
        }
        attached.map(|(_, target)| target)
    }

    /// Gives back the address watches and the scheduler's settings of a process that is torn down.
    pub(crate) fn end_debugging(&self, state: &mut Locked<'_, O>) {
        self.device.put_watches(&mut state.debug.watches);
        let context = state.context.as_ref().filter(|_| state.debug.applied);
        if let Some(context) = context.map(|context| context.gpu_address()) {
            // A device that does not answer forgets it with its reset.
            let _ = state.lend(|| {
                self.device.with_scheduler(self.epoch, |scheduler| scheduler.flush_shader_debugger(context))
            });
        }
    }

    /// Detaches this process from all that it debugs: it is going away.
    pub(crate) fn stop_debugging(&self) {
        for other in self.device.processes() {
            let debugs = other.pasid != self.pasid && other.state.lock().debug.is_debugged_by(self.pasid);
            if let Some(target) = debugs.then(|| other.detach()).flatten() {
                self.device.close_process(&other);
                drop(target);
            }
        }
    }
}
