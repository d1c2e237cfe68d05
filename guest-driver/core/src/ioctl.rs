//! The ioctl table and what each entry does (`kfd_chardev.c`).
//!
//! Sizes are negotiated: a caller's structure that is shorter than the driver's is extended with zeros, and only what the
//! caller gave room for is copied back. Dispatch is on the command's number alone.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::size_of;

use belfry_abi::kfd::debug::RuntimeEnableArgs;
use belfry_abi::kfd::event::{
    CreateEventArgs, EventData, EventIdArgs, KFD_IOC_WAIT_RESULT_COMPLETE, KFD_SIGNAL_EVENT_LIMIT,
    WaitEventsArgs,
};
use belfry_abi::kfd::ioctl::{self as nr, IOC_READ, IOC_WRITE, ioc_dir, ioc_nr, ioc_size};
use belfry_abi::kfd::memory::{
    AcquireVmArgs, AllocMemoryOfGpuArgs, ExportDmabufArgs, FreeMemoryOfGpuArgs, GetAvailableMemoryArgs,
    GetDmabufInfoArgs, ImportDmabufArgs, MapMemoryToGpuArgs,
};
use belfry_abi::kfd::misc::{
    GetClockCountersArgs, GetTileConfigArgs, GetVersionArgs, KFD_IOC_CACHE_POLICY_NONCOHERENT,
    SetMemoryPolicyArgs, SetScratchBackingVaArgs, SetTrapHandlerArgs, SetXnackModeArgs,
};
use belfry_abi::kfd::queue::{
    AllocQueueGwsArgs, CreateQueueArgs, DestroyQueueArgs, GetQueueWaveStateArgs, SetCuMaskArgs,
    UpdateQueueArgs,
};
use belfry_abi::kfd::smi::SmiEventsArgs;
use belfry_abi::kfd::svm::{SvmArgs, SvmAttribute};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

use crate::acquire;
use crate::aperture::{get_process_apertures, get_process_apertures_new};
use crate::criu::{self, criu};
use crate::dbg_trap::dbg_trap;
use crate::debug;
use crate::errno::{Errno, Result};
use crate::memory;
use crate::memory::dmabuf;
use crate::os::{Clock, DriverEvent, Os};
use crate::process::Process;
use crate::process_device::ProcessNode;
use crate::processes::Processes;
use crate::queue::cu_mask_bits;
use crate::queue_manager;
use crate::svm;

/// Bytes of a save area's header that say what is saved (`struct mqd_user_context_save_area_header`).
const WAVE_STATE_BYTES: usize = 16;
/// GPUs one MAP or UNMAP may name.
const MAX_DEVICE_IDS: u32 = 64;

/// A call: of a process, beside all others.
struct Call<'a, O: Os> {
    processes: &'a Arc<Processes<O>>,
    process: &'a Arc<Process<O>>,
}

/// Answer to a command: a function, or an error.
enum Action<O: Os> {
    /// Built.
    Run(fn(&Call<'_, O>, &mut [u8]) -> Result<u32>),
    /// Refused as Linux refuses it, or not built; see [`REFUSED`].
    Refuse(Errno),
}

/// A command that is refused, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct Refused {
    /// Command word.
    pub command: u32,
    /// Error that a caller gets.
    pub errno: Errno,
    /// Why.
    pub reason: &'static str,
}

/// Commands that are in the interface and not built, or refused on every kernel; for the documentation.
pub const REFUSED: &[Refused] = &[
    Refused {
        command: nr::DBG_REGISTER_DEPRECATED,
        errno: Errno::EPERM,
        reason: "deprecated, refused by Linux too",
    },
    Refused {
        command: nr::DBG_UNREGISTER_DEPRECATED,
        errno: Errno::EPERM,
        reason: "deprecated, refused by Linux too",
    },
    Refused {
        command: nr::DBG_ADDRESS_WATCH_DEPRECATED,
        errno: Errno::EPERM,
        reason: "deprecated, refused by Linux too",
    },
    Refused {
        command: nr::DBG_WAVE_CONTROL_DEPRECATED,
        errno: Errno::EPERM,
        reason: "deprecated, refused by Linux too",
    },
];

/// A command that runs, and what of it does nothing.
#[derive(Clone, Copy, Debug)]
pub struct Partial {
    /// The command.
    pub command: u32,
    /// Parts that are accepted without effect.
    pub missing: &'static str,
}

/// Commands that take something without effect; for the documentation. What CREATE_QUEUE refuses is
/// [`REFUSED_QUEUE_TYPES`](crate::queue_manager::REFUSED_QUEUE_TYPES).
pub const PARTIAL: &[Partial] = &[
    Partial { command: nr::CREATE_QUEUE, missing: "the device serves queues of every priority in turn" },
    Partial {
        command: nr::SMI_EVENTS,
        missing: "events of retried faults and of heat may be chosen and never come, nor do those of other processes' memory",
    },
    Partial {
        command: nr::SVM,
        missing: "a prefetch moves memory in guests and moves nothing hosted and under `exec`; a preferred location is remembered alone; EPERM in a guest whose kernel has no HMM_MIRROR",
    },
    Partial { command: nr::UPDATE_QUEUE, missing: "the device serves queues of every priority in turn" },
    Partial { command: nr::CRIU_OP, missing: criu::MISSING },
    Partial { command: nr::EXPORT_DMABUF, missing: "EINVAL for doorbells and the flush page" },
];

/// Builds an action from a function over the command's structure.
macro_rules! run {
    ($function:ident) => {
        Action::Run(|call, bytes| with_args(bytes, |args| $function(call.process, args)))
    };
}

/// Builds an action from a function that looks at other processes as well.
macro_rules! run_among {
    ($function:ident) => {
        Action::Run(|call, bytes| with_args(bytes, |args| $function(call.processes, call.process, args)))
    };
}

/// Looks a command up by its number.
fn action<O: Os>(command: u32) -> Option<(u32, Action<O>)> {
    let command = nr::COMMANDS.get(usize::from(ioc_nr(command)).checked_sub(1)?)?.1;
    let action = match command {
        nr::GET_VERSION => run!(get_version),
        nr::CREATE_QUEUE => run!(create_queue),
        nr::DESTROY_QUEUE => run!(destroy_queue),
        nr::SET_MEMORY_POLICY => run!(set_memory_policy),
        nr::GET_CLOCK_COUNTERS => run!(get_clock_counters),
        nr::GET_PROCESS_APERTURES => run!(get_process_apertures),
        nr::UPDATE_QUEUE => run!(update_queue),
        nr::ALLOC_QUEUE_GWS => run!(alloc_queue_gws),
        nr::CREATE_EVENT => run!(create_event),
        nr::DESTROY_EVENT => run!(destroy_event),
        nr::SET_EVENT => run!(set_event),
        nr::RESET_EVENT => run!(reset_event),
        nr::WAIT_EVENTS => run!(wait_events),
        nr::SET_SCRATCH_BACKING_VA => run!(set_scratch_backing_va),
        nr::GET_TILE_CONFIG => run!(get_tile_config),
        nr::SET_TRAP_HANDLER => run!(set_trap_handler),
        nr::GET_PROCESS_APERTURES_NEW => run!(get_process_apertures_new),
        nr::ACQUIRE_VM => run_among!(acquire_vm),
        nr::ALLOC_MEMORY_OF_GPU => run!(alloc_memory_of_gpu),
        nr::FREE_MEMORY_OF_GPU => run!(free_memory_of_gpu),
        nr::MAP_MEMORY_TO_GPU => run!(map_memory_to_gpu),
        nr::UNMAP_MEMORY_FROM_GPU => run!(unmap_memory_from_gpu),
        nr::SET_CU_MASK => run!(set_cu_mask),
        nr::GET_QUEUE_WAVE_STATE => run!(get_queue_wave_state),
        nr::SMI_EVENTS => run!(smi_events),
        nr::SVM => Action::Run(|call, bytes| set_or_get_svm(call.process, bytes)),
        nr::SET_XNACK_MODE => run!(set_xnack_mode),
        nr::GET_DMABUF_INFO => run!(get_dmabuf_info),
        nr::IMPORT_DMABUF => run!(import_dmabuf),
        nr::AVAILABLE_MEMORY => run!(available_memory),
        nr::EXPORT_DMABUF => run!(export_dmabuf),
        nr::RUNTIME_ENABLE => run!(runtime_enable),
        nr::DBG_TRAP => run_among!(dbg_trap),
        nr::CRIU_OP => run_among!(criu),
        _ => Action::Refuse(REFUSED.iter().find(|refused| refused.command == command)?.errno),
    };
    Some((command, action))
}

/// Runs a function over the structure at the front of `bytes`, which is at least that long.
fn with_args<T: FromBytes + IntoBytes + Immutable>(
    bytes: &mut [u8],
    run: impl FnOnce(&mut T) -> Result<u32>,
) -> Result<u32> {
    let Some(bytes) = bytes.get_mut(..size_of::<T>()) else { return Err(Errno::EINVAL) };
    let mut args = T::read_from_bytes(bytes).map_err(|_| Errno::EINVAL)?;
    let result = run(&mut args);
    bytes.copy_from_slice(args.as_bytes());
    result
}

/// Runs a command for the calling process.
///
/// # Errors
///
/// `ENOTTY` for a number outside the table, `EFAULT` when the structure cannot be copied, else the command's.
pub(crate) fn dispatch<O: Os>(
    processes: &Arc<Processes<O>>,
    process: &Arc<Process<O>>,
    command: u32,
    arg: u64,
) -> Result<u32> {
    let (known, action) = action::<O>(command).ok_or(Errno::ENOTTY)?;
    let run = match action {
        Action::Run(run) => run,
        Action::Refuse(errno) => return Err(errno),
    };
    let number = ioc_nr(command);
    let name = nr::COMMANDS.get(usize::from(number).wrapping_sub(1)).map_or("", |known| known.0);
    process.trace(DriverEvent::IoctlEnter { name, number });
    let result = perform(&Call { processes, process }, (known, command), arg, run);
    let errno = result.as_ref().err().map_or(0, |error| error.raw().unsigned_abs());
    process.trace(DriverEvent::IoctlLeave { number, errno });
    result
}

/// Runs a command that is built, with the caller's arguments.
fn perform<O: Os>(
    call: &Call<'_, O>,
    (known, command): (u32, u32),
    arg: u64,
    run: fn(&Call<'_, O>, &mut [u8]) -> Result<u32>,
) -> Result<u32> {
    let os = call.process.os();
    // Before the arguments are looked at (`KFD_IOC_FLAG_CHECKPOINT_RESTORE`).
    if known == nr::CRIU_OP && !os.may_checkpoint() {
        return Err(Errno::EACCES);
    }
    let user_size = ioc_size(command);
    let mut bytes = Vec::new();
    let size = user_size.max(ioc_size(known));
    bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(size, 0);
    if ioc_dir(known) & IOC_WRITE != 0 {
        os.copy_from_user(&mut bytes[..user_size], arg)?;
    }
    let result = run(call, &mut bytes);
    if ioc_dir(known) & IOC_READ != 0 {
        // As Linux does, even after an error: some commands tell their progress.
        os.copy_to_user(arg, &bytes[..user_size])?;
    }
    result
}

/// Copies an array in; `len` is bounded by the caller.
fn array_from_user<O: Os, T: FromBytes + IntoBytes + FromZeros + Clone>(
    os: &O,
    ptr: u64,
    len: usize,
) -> Result<Vec<T>> {
    let mut array = Vec::new();
    array.try_reserve_exact(len).map_err(|_| Errno::ENOMEM)?;
    array.resize(len, T::new_zeroed());
    os.copy_from_user(array.as_mut_slice().as_mut_bytes(), ptr)?;
    Ok(array)
}

fn check_gpu<O: Os>(process: &Process<O>, gpu_id: u32) -> Result<()> {
    process.nodes.named(gpu_id).map(|_| ())
}

fn get_version<O: Os>(_: &Arc<Process<O>>, args: &mut GetVersionArgs) -> Result<u32> {
    args.major_version = nr::KFD_IOCTL_MAJOR_VERSION;
    args.minor_version = nr::KFD_IOCTL_MINOR_VERSION;
    Ok(0)
}

fn create_queue<O: Os>(process: &Arc<Process<O>>, args: &mut CreateQueueArgs) -> Result<u32> {
    queue_manager::create_queue(process, args)?;
    process.trace(DriverEvent::QueueCreated { queue: args.queue_id });
    Ok(0)
}

fn destroy_queue<O: Os>(process: &Arc<Process<O>>, args: &mut DestroyQueueArgs) -> Result<u32> {
    queue_manager::destroy_queue(process, args.queue_id)?;
    process.trace(DriverEvent::QueueDestroyed { queue: args.queue_id });
    Ok(0)
}

fn update_queue<O: Os>(process: &Arc<Process<O>>, args: &mut UpdateQueueArgs) -> Result<u32> {
    queue_manager::update_queue(process, args).map(|()| 0)
}

fn alloc_queue_gws<O: Os>(process: &Arc<Process<O>>, args: &mut AllocQueueGwsArgs) -> Result<u32> {
    queue_manager::set_gws(process, args.queue_id, args.num_gws != 0)?;
    args.first_gws = 0;
    Ok(0)
}

fn set_cu_mask<O: Os>(process: &Arc<Process<O>>, args: &mut SetCuMaskArgs) -> Result<u32> {
    let bits = cu_mask_bits(args.num_cu_mask)?;
    let mask: Vec<u32> = array_from_user(process.os(), args.cu_mask_ptr, bits as usize / 32)?;
    queue_manager::set_cu_mask(process, args.queue_id, bits, &mask).map(|()| 0)
}

fn get_queue_wave_state<O: Os>(process: &Arc<Process<O>>, args: &mut GetQueueWaveStateArgs) -> Result<u32> {
    let states = queue_manager::wave_state(process, args.queue_id)?;
    let first = states.headers.first().ok_or(Errno::EINVAL)?;
    // Of the others the headers tell, which are as far from each other as their parts of the area.
    args.ctl_stack_used_size = first.control_stack_size;
    args.save_area_used_size = first.wave_state_size;
    // The control stack is in the save area, where user space finds it: what it is told is where.
    for (number, header) in (0u64..).zip(&states.headers) {
        let at = number * u64::from(states.distance);
        let at = args.ctl_stack_address.checked_add(at).ok_or(Errno::EFAULT)?;
        process.os().copy_to_user(at, &header.as_bytes()[..WAVE_STATE_BYTES])?;
    }
    Ok(0)
}

fn set_memory_policy<O: Os>(process: &Arc<Process<O>>, args: &mut SetMemoryPolicyArgs) -> Result<u32> {
    let highest = KFD_IOC_CACHE_POLICY_NONCOHERENT;
    if args.default_policy > highest || args.alternate_policy > highest {
        return Err(Errno::EINVAL);
    }
    // On gfx9 and later the policy of memory is in its page table entries: nothing to do.
    check_gpu(process, args.gpu_id).map(|()| 0)
}

fn get_clock_counters<O: Os>(process: &Arc<Process<O>>, args: &mut GetClockCountersArgs) -> Result<u32> {
    let node = process.nodes.named(args.gpu_id);
    args.gpu_clock_counter = node.map_or(0, |node| node.device.hw.clock_counter());
    args.cpu_clock_counter = process.os().clock_ns(Clock::MonotonicRaw);
    args.system_clock_counter = process.os().clock_ns(Clock::Boot);
    args.system_clock_freq = 1_000_000_000;
    Ok(0)
}

fn create_event<O: Os>(process: &Arc<Process<O>>, args: &mut CreateEventArgs) -> Result<u32> {
    if args.event_page_offset != 0 {
        process.set_signal_page(args.event_page_offset)?;
    }
    process.events.create(args).map(|()| 0)
}

fn destroy_event<O: Os>(process: &Arc<Process<O>>, args: &mut EventIdArgs) -> Result<u32> {
    process.events.destroy(args.event_id).map(|()| 0)
}

fn set_event<O: Os>(process: &Arc<Process<O>>, args: &mut EventIdArgs) -> Result<u32> {
    process.events.set(args.event_id).map(|()| 0)
}

fn reset_event<O: Os>(process: &Arc<Process<O>>, args: &mut EventIdArgs) -> Result<u32> {
    process.events.reset(args.event_id).map(|()| 0)
}

fn wait_events<O: Os>(process: &Arc<Process<O>>, args: &mut WaitEventsArgs) -> Result<u32> {
    let os = process.os();
    if args.num_events > KFD_SIGNAL_EVENT_LIMIT {
        return Err(Errno::ENOMEM);
    }
    let mut events: Vec<EventData> = array_from_user(os, args.events_ptr, args.num_events as usize)?;
    let end = process.events.wait(os, &mut events, args.wait_for_all != 0, args.timeout);
    if end.result == KFD_IOC_WAIT_RESULT_COMPLETE {
        for event in &events {
            process.trace(DriverEvent::EventWake { event: event.event_id });
        }
    }
    args.wait_result = end.result;
    if let Some(remaining) = end.remaining_ms {
        args.timeout = remaining;
    }
    match end.error {
        Some(error) => Err(error),
        None => os.copy_to_user(args.events_ptr, events.as_slice().as_bytes()).map(|()| 0),
    }
}

fn set_scratch_backing_va<O: Os>(
    process: &Arc<Process<O>>,
    args: &mut SetScratchBackingVaArgs,
) -> Result<u32> {
    // Only GPUs before gfx9 look at it; later ones find scratch through the queue.
    check_gpu(process, args.gpu_id).map(|()| 0)
}

fn get_tile_config<O: Os>(process: &Arc<Process<O>>, args: &mut GetTileConfigArgs) -> Result<u32> {
    args.gb_addr_config = process.nodes.named(args.gpu_id)?.device.config.gb_addr_config;
    args.num_banks = 0;
    args.num_ranks = 0;
    // gfx9 and later have no tables.
    args.num_tile_configs = 0;
    args.num_macro_tile_configs = 0;
    Ok(0)
}

fn set_trap_handler<O: Os>(process: &Arc<Process<O>>, args: &mut SetTrapHandlerArgs) -> Result<u32> {
    let node = process.nodes.named(args.gpu_id)?;
    let mut state = process.state.lock();
    let Some(space) = state.devices.space(node.index) else { return Err(Errno::ESRCH) };
    if let Some(handler) = &space.lock().trap_handler {
        handler.set_program(node.number, args.tba_addr, args.tma_addr);
    }
    if args.tba_addr != 0 {
        state.takes_traps |= node.bit();
    } else {
        state.takes_traps &= !node.bit();
    }
    Ok(0)
}

fn acquire_vm<O: Os>(
    processes: &Arc<Processes<O>>,
    process: &Arc<Process<O>>,
    args: &mut AcquireVmArgs,
) -> Result<u32> {
    let node = process.nodes.named(args.gpu_id)?;
    acquire::acquire_vm(processes, process, node, args.drm_fd as i32).map(|()| 0)
}

fn alloc_memory_of_gpu<O: Os>(process: &Arc<Process<O>>, args: &mut AllocMemoryOfGpuArgs) -> Result<u32> {
    memory::alloc_memory(process, args).map(|()| 0)
}

fn free_memory_of_gpu<O: Os>(process: &Arc<Process<O>>, args: &mut FreeMemoryOfGpuArgs) -> Result<u32> {
    memory::free_memory(process, args.handle).map(|()| 0)
}

/// Runs `one` for every GPU id that is not done yet, counting progress.
fn for_devices<O: Os>(
    process: &Arc<Process<O>>,
    args: &mut MapMemoryToGpuArgs,
    one: fn(&Process<O>, &ProcessNode<O>, u64) -> Result<()>,
) -> Result<u32> {
    if args.n_devices == 0 || args.n_success > args.n_devices || args.n_devices > MAX_DEVICE_IDS {
        return Err(Errno::EINVAL);
    }
    let ids: Vec<u32> = array_from_user(process.os(), args.device_ids_array_ptr, args.n_devices as usize)?;
    process.nodes.named((args.handle >> 32) as u32)?;
    for &id in &ids[args.n_success as usize..] {
        one(process, process.nodes.named(id)?, args.handle)?;
        args.n_success += 1;
    }
    Ok(0)
}

fn map_memory_to_gpu<O: Os>(process: &Arc<Process<O>>, args: &mut MapMemoryToGpuArgs) -> Result<u32> {
    for_devices(process, args, memory::map_memory)
}

fn unmap_memory_from_gpu<O: Os>(process: &Arc<Process<O>>, args: &mut MapMemoryToGpuArgs) -> Result<u32> {
    for_devices(process, args, memory::unmap_memory)
}

fn smi_events<O: Os>(process: &Arc<Process<O>>, args: &mut SmiEventsArgs) -> Result<u32> {
    let node = process.nodes.named(args.gpuid)?;
    args.anon_fd = node.device.smi.open(process.pasid(), node.number)? as u32;
    Ok(0)
}

fn set_or_get_svm<O: Os>(process: &Arc<Process<O>>, bytes: &mut [u8]) -> Result<u32> {
    let (args, list) = SvmArgs::read_from_prefix(bytes).map_err(|_| Errno::EINVAL)?;
    // More attributes than the command's size says are none of the caller's structure.
    let end = (args.nattr as usize).checked_mul(size_of::<SvmAttribute>()).ok_or(Errno::EINVAL)?;
    let list = list.get(..end).ok_or(Errno::EINVAL)?;
    let mut attributes = Vec::new();
    attributes.try_reserve_exact(args.nattr as usize).map_err(|_| Errno::ENOMEM)?;
    attributes.resize(args.nattr as usize, SvmAttribute::default());
    attributes.as_mut_slice().as_mut_bytes().copy_from_slice(list);
    let result = svm::change(process, &args, &mut attributes);
    bytes[size_of::<SvmArgs>()..][..end].copy_from_slice(attributes.as_slice().as_bytes());
    result.map(|()| 0)
}

fn set_xnack_mode<O: Os>(process: &Arc<Process<O>>, args: &mut SetXnackModeArgs) -> Result<u32> {
    args.xnack_enabled = svm::set_xnack_mode(process, args.xnack_enabled)?;
    Ok(0)
}

fn get_dmabuf_info<O: Os>(process: &Arc<Process<O>>, args: &mut GetDmabufInfoArgs) -> Result<u32> {
    dmabuf::info(process, args).map(|()| 0)
}

fn import_dmabuf<O: Os>(process: &Arc<Process<O>>, args: &mut ImportDmabufArgs) -> Result<u32> {
    memory::import_dmabuf(process, args).map(|()| 0)
}

fn export_dmabuf<O: Os>(process: &Arc<Process<O>>, args: &mut ExportDmabufArgs) -> Result<u32> {
    memory::export_dmabuf(process, args).map(|()| 0)
}

fn runtime_enable<O: Os>(process: &Arc<Process<O>>, args: &mut RuntimeEnableArgs) -> Result<u32> {
    debug::runtime_enable(process, args).map(|()| 0)
}

fn available_memory<O: Os>(process: &Arc<Process<O>>, args: &mut GetAvailableMemoryArgs) -> Result<u32> {
    let node = process.nodes.named(args.gpu_id)?;
    args.available = node.device.available_vram(&node.siblings, node);
    Ok(0)
}
