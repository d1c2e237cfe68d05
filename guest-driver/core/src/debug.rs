//! Debugging: the runtime and a debugger of a process, and exceptions on their way to them (`kfd_debug.c`).
//!
//! RUNTIME_ENABLE makes a process's runtime known; DBG_TRAP attaches a debugger, which may be another process. An exception
//! is kept with the queue, the device or the process that it is of. It goes to the debugger, if that has asked for it, as a byte
//! in a descriptor, and otherwise to the runtime: as bits in a word that the header of the queue's context save area leads to,
//! and an event.

mod info;
mod queues;
mod tell;

pub(crate) use info::debug_info;
pub(crate) use queues::{queue_snapshot, resume_debugged, suspend_debugged};
pub(crate) use tell::{send_to_runtime, tell};

use alloc::sync::Arc;

use belfry_abi::kfd::debug::{
    DEBUG_RUNTIME_STATE_DISABLED, DEBUG_RUNTIME_STATE_ENABLED, ExceptionCode,
    KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK, KFD_RUNTIME_ENABLE_MODE_TTMP_SAVE_MASK, RuntimeEnableArgs,
    RuntimeInfo,
};

use crate::errno::{Errno, Result};
use crate::exceptions::Session;
use crate::os::Os;
use crate::process::{Locked, Process, State};
use crate::process_device::ProcessNode;
use crate::request::{LaunchControl, ShaderDebugger};

/// RUNTIME_ENABLE.
///
/// # Errors
///
/// `EBUSY` for a runtime that is enabled already, `EEXIST` where there are queues, `EINTR`, when the call has to be
/// repeated, `ETIME` and `EIO` when the scheduler does not answer.
pub(crate) fn runtime_enable<O: Os>(process: &Process<O>, args: &RuntimeEnableArgs) -> Result<()> {
    let enable = args.mode_mask & KFD_RUNTIME_ENABLE_MODE_ENABLE_MASK != 0;
    let waits = {
        let mut state = process.state.lock();
        if !core::mem::take(&mut state.debug.interrupted) {
            if enable {
                enable_runtime(process, &mut state, args)?;
            } else {
                disable_runtime(process, &mut state)?;
            }
        }
        state.debug.is_attached()
    };
    if waits {
        process.debug.wait_for_debugger().inspect_err(|_| process.state.lock().debug.interrupted = true)?;
    }
    Ok(())
}

fn enable_runtime<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    args: &RuntimeEnableArgs,
) -> Result<()> {
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
    process.debug.exceptions.lock().runtime = true;
    if state.debug.is_attached() {
        activate(process, state)?;
        process.debug.raise_process(ExceptionCode::PROCESS_RUNTIME);
    }
    Ok(())
}

fn disable_runtime<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) -> Result<()> {
    let enabled = state.debug.is_runtime_enabled();
    state.debug.runtime = RuntimeInfo::default();
    process.debug.exceptions.lock().runtime = false;
    if state.debug.is_attached() {
        if enabled {
            deactivate(process, state)?;
        }
        process.debug.raise_process(ExceptionCode::PROCESS_RUNTIME);
    }
    Ok(())
}

/// The debugger's settings take effect: it is attached, and the runtime is enabled (`kfd_dbg_trap_activate`).
fn activate<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) -> Result<()> {
    state.debug.launch = LaunchControl { trap_en: true, ..LaunchControl::default() };
    mark_debugged(state, true);
    apply_debug(process, state)
}

/// All is as if there had been no debugger (`kfd_dbg_trap_deactivate`).
fn deactivate<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) -> Result<()> {
    resume_debugged(process, state, None);
    put_watches(process, state);
    (state.debug.launch, state.debug.flags) = (LaunchControl::default(), 0);
    mark_debugged(state, false);
    apply_debug(process, state)
}

fn mark_debugged<O: Os>(state: &State<O>, debugged: bool) {
    for (space, _) in state.devices.each() {
        if let Some(handler) = &space.lock().trap_handler {
            handler.set_debugged(debugged);
        }
    }
}

/// The address space of a node has come after the debugger.
pub(crate) fn debug_acquired<O: Os>(node: &ProcessNode<O>, state: &mut Locked<'_, O>) -> Result<()> {
    if state.debug.is_attached() && state.debug.is_runtime_enabled() {
        mark_debugged(state, true);
        apply_debug_on(node, state)?;
    }
    Ok(())
}

/// Gives the schedulers of all devices what is set (`kfd_dbg_set_mes_debug_mode`). A device that was lost does not keep the others from it.
pub(crate) fn apply_debug<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) -> Result<()> {
    // A device that fails keeps no other from its settings.
    let mut all = Ok(());
    for node in process.nodes.devices() {
        all = all.and(apply_debug_on(node, state));
    }
    all
}

/// Gives the scheduler of a node's device what is set. Who has no address space there has no waves.
pub(crate) fn apply_debug_on<O: Os>(node: &ProcessNode<O>, state: &mut Locked<'_, O>) -> Result<()> {
    let device = node.device.number;
    let Some(process_context) = state.devices.context(device) else { return Ok(()) };
    state.debug.applied.insert(device);
    let Session { launch, watches, flags, .. } = &state.debug;
    let watches = watches.get(&device).copied().unwrap_or_default();
    let request = ShaderDebugger { process_context, launch: *launch, watches, flags: *flags };
    let result = state.lend(|| node.with_scheduler(|scheduler| scheduler.set_shader_debugger(&request)));
    result.inspect_err(|&error| node.recover_after(error))
}

/// Gives all address watches back.
fn put_watches<O: Os>(process: &Process<O>, state: &mut State<O>) {
    for node in process.nodes.devices() {
        if let Some(mut watches) = state.debug.watches.remove(&node.device.number) {
            node.device.put_watches(&mut watches);
        }
    }
}

/// Attaches a debugger (`kfd_dbg_trap_enable`); `target` keeps the process known until it is detached.
pub(crate) fn attach<O: Os>(
    process: &Process<O>,
    debugger: u16,
    (target, file): (O::Target, O::EventFile),
    mask: u64,
) -> Result<RuntimeInfo> {
    let mut state = process.state.lock();
    if state.debug.is_attached() {
        return Err(Errno::EALREADY);
    }
    if state.queues.values().any(|queue| queue.gws) {
        // Queues with global wave sync of this chip cannot be debugged (`kfd_dbg_has_gws_support`).
        return Err(Errno::EBUSY);
    }
    {
        let mut exceptions = process.debug.exceptions.lock();
        exceptions.file = Some(Arc::new(file));
        (exceptions.enabled, exceptions.acknowledged) = (mask, 0);
    }
    state.debug.attached = Some((debugger, target));
    if state.debug.is_runtime_enabled()
        && let Err(error) = activate(process, &mut state)
    {
        let attached = state.debug.attached.take();
        drop(state);
        process.debug.detach();
        drop(attached);
        return Err(error);
    }
    Ok(state.debug.runtime)
}

/// Detaches the debugger (`kfd_dbg_trap_disable`). What is returned keeps the process's key its own: it is dropped when the
/// table of processes does not have the key any more, or has it for other reasons.
pub(crate) fn detach<O: Os>(process: &Process<O>) -> Option<O::Target> {
    let attached = {
        let mut state = process.state.lock();
        if state.debug.is_attached() && state.debug.is_runtime_enabled() {
            // A device that does not answer has no waves to be debugged.
            let _ = deactivate(process, &mut state);
        }
        state.debug.attached.take()
    };
    if attached.is_some() {
        process.debug.detach();
    }
    attached.map(|(_, target)| target)
}

/// Gives back the address watches and the scheduler's settings of a process that is torn down.
pub(crate) fn end_debugging<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>) {
    put_watches(process, state);
    for node in process.nodes.devices() {
        let applied = state.debug.applied.remove(&node.device.number);
        let Some(context) = state.devices.context(node.device.number).filter(|_| applied) else { continue };
        // A device that does not answer forgets it with its reset.
        let _ = state.lend(|| node.with_scheduler(|scheduler| scheduler.flush_shader_debugger(context)));
    }
}
