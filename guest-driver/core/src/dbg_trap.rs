//! DBG_TRAP: the operations of debuggers (`kfd_ioctl_set_debug_trap`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::kfd::debug::{
    DbgDeviceInfoEntry, DbgTrapArgs, DbgTrapClearNodeAddressWatchArgs, DbgTrapEnableArgs, DbgTrapOp,
    DbgTrapQueryDebugEventArgs, DbgTrapQueryExceptionInfoArgs, DbgTrapResumeQueuesArgs,
    DbgTrapSendRuntimeEventArgs, DbgTrapSetExceptionsEnabledArgs, DbgTrapSetFlagsArgs,
    DbgTrapSetNodeAddressWatchArgs, DbgTrapSetWaveLaunchModeArgs, DbgTrapSetWaveLaunchOverrideArgs,
    DbgTrapSnapshotArgs, DbgTrapSuspendQueuesArgs, ExceptionCode, KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP,
    KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP, KFD_DBG_TRAP_MASK_EXCEPTIONS, KFD_DBG_TRAP_OVERRIDE_OR,
    KFD_DBG_TRAP_OVERRIDE_REPLACE, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG, KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT,
    KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL, QueueSnapshotEntry,
};
use belfry_abi::kfd::queue::KFD_MAX_NUM_OF_QUEUES_PER_PROCESS;
use belfry_abi::kfd::topology::HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::debug;
use crate::errno::{Errno, Result};
use crate::lifetime;
use crate::os::{Os, Target};
use crate::process::{Locked, Phase, Process};
use crate::process_device::ProcessNode;
use crate::processes::Processes;
use crate::request::{LaunchControl, NodeWatch};

/// Runs an operation for `debugger`, the calling process.
///
/// # Errors
///
/// `ESRCH` for a process that there is not or that has not opened the node, `EPERM` for one that the caller does not trace
/// and for an operation that needs a runtime, `EINVAL` for an unknown operation and where no debugger is attached, and those of
/// the operation.
pub(crate) fn dbg_trap<O: Os>(
    processes: &Arc<Processes<O>>,
    debugger: &Arc<Process<O>>,
    args: &mut DbgTrapArgs,
) -> Result<u32> {
    let os = debugger.os();
    let target = os.target(args.pid)?;
    let known = processes.of_key(target.key());
    let op = DbgTrapOp::of(args.op);
    if op == Some(DbgTrapOp::Enable) {
        return with(args, |args| enable(processes, debugger, known.as_ref(), target, args));
    }
    let process = known.ok_or(Errno::ESRCH)?;
    let may = Arc::ptr_eq(&process, debugger)
        || target.is_traced()
        || process.state.lock().debug.is_debugged_by(debugger.pasid);
    if !may {
        return Err(Errno::EPERM);
    }
    drop(target);
    if op == Some(DbgTrapOp::Disable) {
        let target = debug::detach(&process).ok_or(Errno::EINVAL)?;
        lifetime::close(processes, &process);
        drop(target);
        return Ok(0);
    }
    let mut state = process.state.lock();
    if state.phase == Phase::Dead {
        return Err(Errno::ESRCH);
    }
    if !state.debug.is_attached() {
        return Err(Errno::EINVAL);
    }
    let op = op.ok_or(Errno::EINVAL)?;
    if op.needs_runtime() && !state.debug.is_runtime_enabled() {
        return Err(Errno::EPERM);
    }
    // Operations that touch the caller's memory or wait do so without the lock.
    match op {
        DbgTrapOp::Enable | DbgTrapOp::Disable => Ok(0),
        DbgTrapOp::SendRuntimeEvent => {
            drop(state);
            with(args, |args: &mut DbgTrapSendRuntimeEventArgs| {
                debug::send_to_runtime(&process, args.exception_mask, args.gpu_id, args.queue_id)
            })
        }
        DbgTrapOp::SetExceptionsEnabled => {
            drop(state);
            with(args, |args: &mut DbgTrapSetExceptionsEnabledArgs| {
                let file = process.debug.enable(args.exception_mask);
                file.iter().for_each(|file| crate::os::EventFile::notify(&**file));
                Ok(())
            })
        }
        DbgTrapOp::SetWaveLaunchOverride => with(args, |args| launch_override(&process, &mut state, args)),
        DbgTrapOp::SetWaveLaunchMode => with(args, |args: &mut DbgTrapSetWaveLaunchModeArgs| {
            launch_mode(&process, &mut state, args.launch_mode & 0xff)
        }),
        DbgTrapOp::SuspendQueues => {
            drop(state);
            let one = read::<DbgTrapSuspendQueuesArgs>(args)?;
            let mut ids = queue_ids(os, one.queue_array_ptr, one.num_queues)?.unwrap_or_default();
            let count =
                debug::suspend_debugged(&process, &mut process.state.lock(), &mut ids, one.exception_mask);
            give_ids(os, one.queue_array_ptr, &ids).map(|()| count)
        }
        DbgTrapOp::ResumeQueues => {
            drop(state);
            let one = read::<DbgTrapResumeQueuesArgs>(args)?;
            let mut ids = queue_ids(os, one.queue_array_ptr, one.num_queues)?;
            let count = debug::resume_debugged(&process, &mut process.state.lock(), ids.as_deref_mut());
            give_ids(os, one.queue_array_ptr, ids.as_deref().unwrap_or_default()).map(|()| count)
        }
        DbgTrapOp::SetNodeAddressWatch => with(args, |args| set_watch(&process, &mut state, args)),
        DbgTrapOp::ClearNodeAddressWatch => {
            with(args, |args: &mut DbgTrapClearNodeAddressWatchArgs| clear_watch(&process, &mut state, args))
        }
        DbgTrapOp::SetFlags => with(args, |args: &mut DbgTrapSetFlagsArgs| {
            let before = core::mem::replace(&mut args.flags, state.debug.flags);
            let precise = HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED;
            let has = |node: &ProcessNode<O>| node.device.hw.asic().capability & precise != 0;
            let has_precise = process.nodes.devices().all(has);
            let known = if has_precise { KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP } else { 0 };
            // What a chip does not say of itself.
            let flags = KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP | KFD_DBG_TRAP_FLAG_SINGLE_ALU_OP;
            if before & flags & !known != 0 {
                return Err(Errno::EACCES);
            }
            state.debug.flags = before;
            debug::apply_debug(&process, &mut state)
        }),
        DbgTrapOp::QueryDebugEvent => with(args, |args: &mut DbgTrapQueryDebugEventArgs| {
            let pending = process.debug.query(args.exception_mask);
            let found = pending.unwrap_or_default();
            args.exception_mask = found.status;
            args.queue_id = found.queue;
            args.gpu_id = found.gpu;
            pending.map(|_| ())
        }),
        DbgTrapOp::QueryExceptionInfo => {
            let runtime = state.debug.runtime;
            drop(state);
            with(args, |args: &mut DbgTrapQueryExceptionInfoArgs| {
                if args.info_ptr == 0 {
                    return Err(Errno::EINVAL);
                }
                let source = (ExceptionCode(args.exception_code), args.source_id);
                let info = process.debug.info(source, &process.nodes, runtime, args.clear_exception != 0)?;
                let room = info.len().min(args.info_size as usize);
                args.info_size = info.len() as u32;
                os.copy_to_user(args.info_ptr, &info[..room])
            })
        }
        DbgTrapOp::GetQueueSnapshot => with(args, |args: &mut DbgTrapSnapshotArgs| {
            let most = core::mem::replace(&mut args.num_entries, state.queues.len() as u32);
            if args.entry_size == 0 {
                args.num_entries = 0;
                return Err(Errno::EINVAL);
            }
            let entries = debug::queue_snapshot(&process, &state, most as usize, args.exception_mask);
            drop(state);
            let size = size_of::<QueueSnapshotEntry>();
            give_entries(os, args, size, entries.iter().map(IntoBytes::as_bytes))
        }),
        DbgTrapOp::GetDeviceSnapshot => {
            drop(state);
            with(args, |args: &mut DbgTrapSnapshotArgs| {
                if args.snapshot_buf_ptr == 0 {
                    return Err(Errno::EINVAL);
                }
                let most = core::mem::replace(&mut args.num_entries, process.nodes.count());
                let entry = |node: &ProcessNode<O>| {
                    let status = process.debug.device_status(node.gpu_id.into(), args.exception_mask);
                    debug::debug_info(node, status)
                };
                let entries: Vec<_> = process.nodes.iter().take(most as usize).map(entry).collect();
                let size = size_of::<DbgDeviceInfoEntry>();
                give_entries(os, args, size, entries.iter().map(IntoBytes::as_bytes))
            })
        }
    }
}

/// The arguments of an operation.
fn read<T: FromBytes>(args: &DbgTrapArgs) -> Result<T> {
    T::read_from_prefix(args.args.as_bytes()).map(|(value, _)| value).map_err(|_| Errno::EINVAL)
}

/// Runs an operation over its arguments, which go back to the caller.
fn with<T: FromBytes + IntoBytes + Immutable>(
    args: &mut DbgTrapArgs,
    run: impl FnOnce(&mut T) -> Result<()>,
) -> Result<u32> {
    let mut value: T = read(args)?;
    let result = run(&mut value);
    args.args.as_mut_bytes()[..size_of::<T>()].copy_from_slice(value.as_bytes());
    result.map(|()| 0)
}

/// Attaches `debugger` to a process, which need not have opened the node yet if the caller traces it.
fn enable<O: Os>(
    processes: &Arc<Processes<O>>,
    debugger: &Arc<Process<O>>,
    known: Option<&Arc<Process<O>>>,
    target: O::Target,
    args: &mut DbgTrapEnableArgs,
) -> Result<()> {
    let os = debugger.os();
    match known {
        None if !target.is_traced() => return Err(Errno::ESRCH),
        Some(process) if !Arc::ptr_eq(process, debugger) && !target.is_traced() => return Err(Errno::EPERM),
        _ => {}
    }
    target.hold()?;
    // As one that has opened the node, so that it lasts until the debugger detaches.
    let process = lifetime::open(processes, target.key())?;
    let attached = os
        .event_file(args.dbg_fd as i32)
        .and_then(|file| debug::attach(&process, debugger.pasid, (target, file), args.exception_mask));
    let info = match attached {
        Ok(info) => info,
        Err(error) => {
            lifetime::close(processes, &process);
            return Err(error);
        }
    };
    let room = info.as_bytes().len().min(args.rinfo_size as usize);
    args.rinfo_size = info.as_bytes().len() as u32;
    os.copy_to_user(args.rinfo_ptr, &info.as_bytes()[..room]).inspect_err(|_| {
        let target = debug::detach(&process);
        lifetime::close(processes, &process);
        drop(target);
    })
}

/// Numbers of queues in the caller's memory; `None` where it gives none (`get_queue_ids`).
fn queue_ids<O: Os>(os: &O, at: u64, count: u32) -> Result<Option<Vec<u32>>> {
    if at == 0 {
        return if count == 0 { Ok(None) } else { Err(Errno::EINVAL) };
    }
    if count > KFD_MAX_NUM_OF_QUEUES_PER_PROCESS {
        return Err(Errno::EINVAL);
    }
    let mut ids = Vec::new();
    ids.try_reserve_exact(count as usize).map_err(|_| Errno::ENOMEM)?;
    ids.resize(count as usize, u32::new_zeroed());
    os.copy_from_user(ids.as_mut_slice().as_mut_bytes(), at)?;
    Ok(Some(ids))
}

fn give_ids<O: Os>(os: &O, at: u64, ids: &[u32]) -> Result<()> {
    if ids.is_empty() { Ok(()) } else { os.copy_to_user(at, ids.as_bytes()) }
}

/// Copies entries of `size` bytes to the caller, each as long as it has room for one.
fn give_entries<'a, O: Os>(
    os: &O,
    args: &mut DbgTrapSnapshotArgs,
    size: usize,
    entries: impl Iterator<Item = &'a [u8]>,
) -> Result<()> {
    let room = args.entry_size;
    args.entry_size = room.min(size as u32);
    let mut at = args.snapshot_buf_ptr;
    for entry in entries {
        let len = entry.len().min(room as usize);
        os.copy_to_user(at, &entry[..len])?;
        at = at.checked_add(u64::from(room)).ok_or(Errno::EFAULT)?;
    }
    Ok(())
}

fn launch_override<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    args: &mut DbgTrapSetWaveLaunchOverrideArgs,
) -> Result<()> {
    let replace = match args.override_mode {
        KFD_DBG_TRAP_OVERRIDE_OR => false,
        KFD_DBG_TRAP_OVERRIDE_REPLACE => true,
        _ => return Err(Errno::EPERM),
    };
    let (bits, request) = (args.enable_mask, args.support_request_mask);
    args.support_request_mask = KFD_DBG_TRAP_MASK_EXCEPTIONS;
    if request & !KFD_DBG_TRAP_MASK_EXCEPTIONS != 0 {
        return Err(Errno::EACCES);
    }
    let before = state.debug.launch.exceptions;
    args.enable_mask = before;
    let exceptions = bits & request | before & !request;
    state.debug.launch = LaunchControl { exceptions, replace, trap_en: true, ..state.debug.launch };
    debug::apply_debug(process, state)
}

fn launch_mode<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>, mode: u32) -> Result<()> {
    match mode {
        KFD_DBG_TRAP_WAVE_LAUNCH_MODE_NORMAL
        | KFD_DBG_TRAP_WAVE_LAUNCH_MODE_HALT
        | KFD_DBG_TRAP_WAVE_LAUNCH_MODE_DEBUG => {}
        _ => return Err(Errno::EINVAL),
    }
    state.debug.launch.mode = mode;
    debug::apply_debug(process, state)
}

fn set_watch<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    args: &mut DbgTrapSetNodeAddressWatchArgs,
) -> Result<()> {
    let node = process.nodes.named(args.gpu_id).map_err(|_| Errno::ENODEV)?;
    let device = &node.device;
    let id = device.take_watch()?;
    device.program_watch(node, id, args.address);
    let control = (device.hw.asic().watch_control)(args.mode, args.mask);
    state.debug.watches.entry(device.number).or_default()[id] = NodeWatch { node: node.number, control };
    args.id = id as u32;
    debug::apply_debug_on(node, state)
}

fn clear_watch<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    args: &DbgTrapClearNodeAddressWatchArgs,
) -> Result<()> {
    let node = process.nodes.named(args.gpu_id).map_err(|_| Errno::ENODEV)?;
    let watches = state.debug.watches.get_mut(&node.device.number);
    let watch = watches.and_then(|watches| watches.get_mut(args.id as usize));
    let watch = watch.filter(|watch| watch.control_on(node.number) != 0);
    *watch.ok_or(Errno::EINVAL)? = NodeWatch::default();
    let result = debug::apply_debug_on(node, state);
    node.device.watches.fetch_and(!(1 << args.id), Ordering::AcqRel);
    result
}
