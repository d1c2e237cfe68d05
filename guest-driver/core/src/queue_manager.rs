//! Queues of a process on the scheduler: creation, change, eviction, removal (`kfd_process_queue_manager.c`,
//! `kfd_device_queue_manager.c`).

mod buffers;
mod eviction;
mod waves;

pub(crate) use eviction::{evict, evict_queues, resume_all, suspend_all};
pub(crate) use waves::{wave_state, wave_state_of};

use alloc::boxed::Box;
use alloc::vec::Vec;

use belfry_abi::kfd::mmap::{KFD_MMAP_TYPE_DOORBELL, kfd_mmap_offset};
use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_NUM_OF_QUEUES_PER_PROCESS,
    UpdateQueueArgs,
};

use crate::asic::{CuMask, UserQueue};
use crate::bo::BoKind;
use crate::errno::{Errno, Result};
use crate::hw::log;
use crate::mqd::Mqds;
use crate::os::{Os, PAGE_SIZE, Room, WaitOutcome, WaitQueue as _};
use crate::process::{Locked, Process, State};
use crate::process_device::{NodeBits, ProcessNode};
use crate::queue::{Life, Queue, UserPlaces, check_properties, check_ring, check_share};
use crate::request::{QueueRequest, SdmaPlace};
use crate::sdma::SdmaChoice;
use crate::trap_handler;

use buffers::QueueBuffers;

/// Smallest end-of-pipe buffer on gfx8 and later.
const EOP_BUFFER_SIZE: u64 = 4096;
/// A queue type of the interface that CREATE_QUEUE refuses, with the reason.
#[derive(Clone, Copy, Debug)]
pub struct RefusedQueueType {
    /// One of `KFD_IOC_QUEUE_TYPE_*`.
    pub queue_type: u32,
    /// Error that a caller gets.
    pub errno: Errno,
    /// Why.
    pub reason: &'static str,
}

/// Engine that a queue is to run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Engine {
    Compute,
    Sdma(SdmaChoice),
}

const fn refused(queue_type: u32, errno: Errno, reason: &'static str) -> RefusedQueueType {
    RefusedQueueType { queue_type, errno, reason }
}

/// Queue types that are not built; for the documentation.
pub const REFUSED_QUEUE_TYPES: &[RefusedQueueType] =
    &[refused(KFD_IOC_QUEUE_TYPE_SDMA_XGMI, Errno::ENOMEM, "the chip has no XGMI engine")];

/// CREATE_QUEUE.
///
/// # Errors
///
/// `EINVAL` and `EFAULT` for bad properties, `ENOTSUPP` for an unknown type, `ENOMEM` for XGMI, without a free SDMA queue
/// and when memory is short, `ESRCH` without a VM, `ENOSPC` past the limit, `EBUSY` without a doorbell, `EIO` and
/// `ETIME` when the scheduler does not run it.
pub(crate) fn create_queue<O: Os>(process: &Process<O>, args: &mut CreateQueueArgs) -> Result<()> {
    check_properties(process.os(), args)?;
    let engine = match args.queue_type {
        KFD_IOC_QUEUE_TYPE_COMPUTE | KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => Engine::Compute,
        KFD_IOC_QUEUE_TYPE_SDMA => Engine::Sdma(SdmaChoice::Pcie),
        KFD_IOC_QUEUE_TYPE_SDMA_XGMI if has_xgmi_engines(process, args.gpu_id) => {
            Engine::Sdma(SdmaChoice::Xgmi)
        }
        KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => Engine::Sdma(SdmaChoice::Engine(args.sdma_engine_id)),
        other => {
            let refused = REFUSED_QUEUE_TYPES.iter().find(|refused| refused.queue_type == other);
            return Err(refused.map_or(Errno::ENOTSUPP, |refused| refused.errno));
        }
    };
    let node = process.nodes.named(args.gpu_id)?;
    if matches!(engine, Engine::Sdma(SdmaChoice::Engine(engine)) if engine >= node.sdma.engines()) {
        return Err(Errno::EINVAL);
    }
    let mut state = process.state.lock();
    if !state.devices.has_space(node) {
        return Err(Errno::ESRCH);
    }
    if node.is_lost() {
        return Err(Errno::EIO);
    }
    if state.queues.len() >= KFD_MAX_NUM_OF_QUEUES_PER_PROCESS as usize {
        return Err(Errno::ENOSPC);
    }
    let buffers = buffers::queue_buffers(&state, node, args, engine)?;
    let id = (0..).find(|id| !state.queues.contains_key(id)).ok_or(Errno::ENOSPC)?;
    let place = take_place(process, &mut state, node, engine)?;
    let queue = match build_queue(&state, node, args, place, buffers) {
        Ok(queue) => queue,
        Err(error) => {
            put_place(&mut state, node, place);
            return Err(error);
        }
    };
    let doorbell = queue.doorbell;
    state.use_bos(&queue.bos, true);
    state.use_bos(queue.ring_bo.as_slice(), true);
    state.queues.insert(id, queue);
    if let Err(error) = resume_queue(process, &mut state, id) {
        node.recover_after(error);
        let queue = forget_queue(process, &mut state, id);
        drop(state);
        drop(queue);
        return Err(error);
    }
    drop(state);
    process.debug.queue_created(id, (node.gpu_id.into(), doorbell));
    args.queue_id = id;
    args.doorbell_offset = kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, node.gpu_id)
        | (u64::from(doorbell) * belfry_abi::pci::DOORBELL_SIZE);
    Ok(())
}

/// Returns whether the node of this name has engines for links between GPUs; of one that there is not, another error tells.
fn has_xgmi_engines<O: Os>(process: &Process<O>, gpu_id: u32) -> bool {
    let node = process.nodes.named(gpu_id).unwrap_or(process.nodes.first());
    node.sdma.engines() > node.sdma.pcie_engines()
}

/// Takes a doorbell of a node, and for an SDMA queue the hardware queue that it belongs to.
fn take_place<O: Os>(
    process: &Process<O>,
    state: &mut State<O>,
    node: &ProcessNode<O>,
    engine: Engine,
) -> Result<(u32, Option<SdmaPlace>)> {
    if !node.device.hw.os().has_room(Room::Doorbell, process.pasid) {
        return Err(Errno::EBUSY);
    }
    let Engine::Sdma(choice) = engine else {
        return Ok((state.doorbells_of(node)?.take()?, None));
    };
    let place = node.sdma.take(choice)?;
    match node.device.hw.asic().sdma.doorbell(place) {
        Ok(doorbell) => Ok((doorbell, Some(place))),
        Err(error) => {
            node.sdma.put(place);
            Err(error)
        }
    }
}

fn put_place<O: Os>(
    state: &mut State<O>,
    node: &ProcessNode<O>,
    (doorbell, place): (u32, Option<SdmaPlace>),
) {
    match place {
        None => state.doorbells_of(node).into_iter().for_each(|doorbells| doorbells.put(doorbell)),
        // Its doorbell is never handed out to a compute queue.
        Some(place) => node.sdma.put(place),
    }
}

fn build_queue<O: Os>(
    state: &State<O>,
    node: &ProcessNode<O>,
    args: &CreateQueueArgs,
    (doorbell, sdma): (u32, Option<SdmaPlace>),
    QueueBuffers { ring: ring_bo, bos, save_area }: QueueBuffers,
) -> Result<Box<Queue<O>>> {
    let device = &node.device;
    let mqds = Mqds::new(&device.gart, &device.hw.asic().mqd, node, sdma.is_some())?;
    let wptr_bo = bos.first().and_then(|id| state.bos.get(id)).ok_or(Errno::EINVAL)?;
    let in_page = args.write_pointer_address % PAGE_SIZE;
    let (wptr, mapping) = match &wptr_bo.kind {
        BoKind::Vram(memory) => (device.config.fb_start + memory.offset() + in_page, None),
        _ => {
            let mapping = device.gart.map_page(wptr_bo.bus(0).ok_or(Errno::EINVAL)?)?;
            (mapping.gpu_address() + in_page, Some(mapping))
        }
    };
    device.flush_gart()?;
    let queue = Box::new(Queue {
        node: node.index,
        ring_base: args.ring_base_address,
        ring_size: args.ring_size,
        percentage: args.queue_percentage & 0xff,
        priority: args.queue_priority,
        aql: args.queue_type == KFD_IOC_QUEUE_TYPE_COMPUTE_AQL,
        sdma,
        doorbell,
        mqds,
        wptr,
        _wptr_mapping: mapping,
        _wptr_memory: wptr_bo.hold(),
        ring_bo,
        bos,
        save_area,
        user: UserPlaces::of(args, sdma.is_some()),
        suspended: false,
        being_destroyed: false,
        gws: false,
        life: if state.devices.running() & node.bit() == 0 { Life::Evicted } else { Life::Off },
    });
    let doorbell = state.doorbell_of(&queue)?;
    let mqd = &device.hw.asic().mqd;
    queue.mqds.change(|image, share| {
        let new = UserQueue { mqd: queue.mqds.address_of(share), args, doorbell, share };
        let ring = queue.ring(share);
        match sdma {
            None => (mqd.init)(image, &new).and_then(|()| (mqd.update)(image, &ring)),
            Some(place) => (mqd.init_sdma)(image, &new, place).and_then(|()| (mqd.update_sdma)(image, &ring)),
        }
    })?;
    Ok(queue)
}

/// Hands a queue to the scheduler if it should run.
pub(crate) fn resume_queue<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>, id: u32) -> Result<()> {
    let Some(queue) = state.queues.get(&id) else { return Err(Errno::EINVAL) };
    match queue.life {
        Life::Off if queue.wanted() && !queue.suspended && !state.svm.quiesced => {}
        Life::Off | Life::Mapped | Life::Evicted => return Ok(()),
        Life::Lost => return Err(Errno::EIO),
    }
    let node = process.nodes.get(queue.node);
    let context = state.devices.context(node.device.number);
    let (Some(space), Some(context)) = (state.devices.space(queue.node), context) else {
        return Err(Errno::ESRCH);
    };
    let mqd = &node.device.hw.asic().mqd;
    if queue.sdma.is_none() {
        let takes_traps = state.takes_traps & node.bit() != 0;
        queue.mqds.change(|image, _| (mqd.set_takes_traps)(image, takes_traps))?;
    }
    let request = request(process, state, queue, space.root(), context)?;
    state.lend(|| node.with_scheduler(|scheduler| scheduler.add_queue(&request)))?;
    if let Some(queue) = state.queues.get_mut(&id) {
        queue.life = Life::Mapped;
    }
    Ok(())
}

/// The request that makes a queue known to the scheduler.
fn request<O: Os>(
    process: &Process<O>,
    state: &State<O>,
    queue: &Queue<O>,
    root: u64,
    context: u64,
) -> Result<QueueRequest> {
    let node = process.nodes.get(queue.node).number;
    Ok(QueueRequest {
        node,
        pasid: process.pasid,
        root,
        process_context: context,
        gang_context: queue.mqds.gang_context(),
        priority: queue.priority,
        doorbell: state.doorbell_of(queue)?,
        mqd: queue.mqds.address(),
        wptr: queue.wptr,
        process_wptr: queue.user.write_pointer,
        ring_dwords: queue.ring_size / 4,
        // Each address space has it.
        trap_handler: trap_handler::TBA,
        trap_memory: trap_handler::tma(node),
        sdma: queue.sdma,
        aql: queue.aql,
        gws: queue.gws,
        xnack: state.xnack,
    })
}

/// Takes a queue off the scheduler; its state is in its MQD afterwards.
pub(crate) fn suspend_queue<O: Os>(process: &Process<O>, state: &mut Locked<'_, O>, id: u32) -> Result<()> {
    let offset = match state.queues.get(&id) {
        Some(queue) if queue.life == Life::Mapped => state.doorbell_of(queue)?,
        Some(_) => return Ok(()),
        None => return Err(Errno::EINVAL),
    };
    let queue = state.queues.get(&id).ok_or(Errno::EINVAL)?;
    let (node, gang) = (process.nodes.get(queue.node), queue.mqds.gang_context());
    // Its waves may wait for pages before they can leave.
    let removed = state.lend(|| node.with_scheduler(|scheduler| scheduler.remove_queue(offset, gang)));
    let life = match removed {
        Ok(()) => Life::Off,
        // A reset took the queue off already, or the device is wedged, and keeps what it may still use.
        Err(Errno::EIO) => Life::Lost,
        Err(error) => return Err(error),
    };
    state.queues.get_mut(&id).ok_or(Errno::EINVAL)?.life = life;
    Ok(())
}

/// Takes a queue that is not on the scheduler out of the table, and gives its doorbell back.
///
/// The caller drops it without the lock: it may hold the last reference to a pin.
fn forget_queue<O: Os>(process: &Process<O>, state: &mut State<O>, id: u32) -> Option<Box<Queue<O>>> {
    let queue = state.queues.remove(&id)?;
    state.use_bos(&queue.bos, false);
    state.use_bos(queue.ring_bo.as_slice(), false);
    let node = process.nodes.get(queue.node);
    put_place(state, node, (queue.doorbell, queue.sdma));
    if node.device.wedged() && node.device.hw.alive() {
        // The device may still write there.
        core::mem::forget(queue);
        return None;
    }
    Some(queue)
}

/// Waits until a queue that is to be destroyed is not suspended; the caller takes the state's lock again
/// (`wait_on_destroy_queue`).
///
/// # Errors
///
/// `EBUSY` when another thread destroys it, `ERESTARTSYS`.
pub(crate) fn wait_until_resumed<O: Os>(process: &Process<O>, id: u32) -> Result<()> {
    let mut first = true;
    loop {
        let ticket = process.debug.wake.ticket();
        {
            let mut state = process.state.lock();
            let attached = state.debug.is_attached();
            let Some(queue) = state.queues.get_mut(&id) else { return Ok(()) };
            if core::mem::take(&mut first) && core::mem::replace(&mut queue.being_destroyed, true) {
                return Err(Errno::EBUSY);
            }
            if !attached || !queue.suspended {
                return Ok(());
            }
        }
        if process.debug.wake.wait(ticket, None) == WaitOutcome::Interrupted {
            if let Some(queue) = process.state.lock().queues.get_mut(&id) {
                queue.being_destroyed = false;
            }
            return Err(Errno::ERESTARTSYS);
        }
    }
}

/// DESTROY_QUEUE.
///
/// # Errors
///
/// `EINVAL` for an unknown id, `ETIME` when the scheduler did not let it go and the device was reset, `EBUSY` when another
/// thread destroys it, `ERESTARTSYS` while a debugger keeps it.
pub(crate) fn destroy_queue<O: Os>(process: &Process<O>, id: u32) -> Result<()> {
    wait_until_resumed(process, id)?;
    let mut state = process.state.lock();
    let node = process.nodes.get(state.queues.get(&id).ok_or(Errno::EINVAL)?.node);
    let result = suspend_queue(process, &mut state, id);
    if let Err(error) = result {
        node.recover_after(error);
    }
    let queue = forget_queue(process, &mut state, id);
    drop(state);
    drop(queue);
    process.debug.queue_destroyed(id);
    let _ = node.device.flush_gart();
    result
}

/// UPDATE_QUEUE.
///
/// # Errors
///
/// As CREATE_QUEUE for the share and priority; `EFAULT` for an unknown id and for a ring that is not mapped
/// (`pqm_update_queue_properties`).
pub(crate) fn update_queue<O: Os>(process: &Process<O>, args: &UpdateQueueArgs) -> Result<()> {
    check_share(args.queue_percentage, args.queue_priority)?;
    let ring_size = check_ring(process.os(), args.ring_base_address, args.ring_size)?;
    let mut state = process.state.lock();
    let node = process.nodes.get(state.queues.get(&args.queue_id).ok_or(Errno::EFAULT)?.node);
    let ring = buffers::ring_buffer(&state, node, args.ring_base_address, ring_size);
    let ring = ring.map_err(|_| Errno::EFAULT)?;
    change_queue(process, &mut state, args.queue_id, |state, id| {
        let Some(queue) = state.queues.get_mut(&id) else { return Err(Errno::EINVAL) };
        let before = (queue.ring_base, queue.ring_size, queue.percentage, queue.priority);
        queue.ring_base = args.ring_base_address;
        queue.ring_size = ring_size;
        queue.percentage = args.queue_percentage & 0xff;
        queue.priority = args.queue_priority;
        if let Err(error) = queue.update_mqd(&node.device.hw.asic().mqd) {
            (queue.ring_base, queue.ring_size, queue.percentage, queue.priority) = before;
            return Err(error);
        }
        let old = core::mem::replace(&mut queue.ring_bo, ring);
        state.use_bos(old.as_slice(), false);
        state.use_bos(ring.as_slice(), true);
        Ok(())
    })
}

/// ALLOC_QUEUE_GWS: gives a queue the global wave sync, or takes it away (`pqm_set_gws`).
///
/// # Errors
///
/// `EINVAL` for an unknown id and for taking it from a queue without it, `EBUSY` when a queue of the process has it.
pub(crate) fn set_gws<O: Os>(process: &Process<O>, id: u32, give: bool) -> Result<()> {
    let mut state = process.state.lock();
    let has = state.queues.get(&id).ok_or(Errno::EINVAL)?.gws;
    if give && state.queues.values().any(|queue| queue.gws) {
        return Err(Errno::EBUSY);
    }
    if !give && !has {
        return Err(Errno::EINVAL);
    }
    change_queue(process, &mut state, id, |state, id| {
        state.queues.get_mut(&id).ok_or(Errno::EINVAL)?.gws = give;
        Ok(())
    })
}

/// SET_CU_MASK: `mask` has `bits` bits.
///
/// # Errors
///
/// `EFAULT` for an unknown id (`pqm_update_mqd`), `EINVAL` when one half of a work-group processor is enabled without
/// the other.
pub(crate) fn set_cu_mask<O: Os>(process: &Process<O>, id: u32, bits: u32, mask: &[u32]) -> Result<()> {
    let mut state = process.state.lock();
    let node = process.nodes.get(state.queues.get(&id).ok_or(Errno::EFAULT)?.node);
    let (mqd, config) = (&node.device.hw.asic().mqd, &node.config);
    let mask = CuMask { bits, words: mask };
    let spread = |xcc| (mqd.spread_cu_mask)(config, &mask, xcc);
    let xccs = config.xccs.max(1);
    let engines = (0..xccs).map(spread).collect::<Result<Vec<_>>>()?;
    change_queue(process, &mut state, id, |state, id| {
        let queue = state.queues.get(&id).ok_or(Errno::EINVAL)?;
        if queue.sdma.is_some() {
            // amdkfd takes the mask, and an SDMA queue has no place for it.
            return Ok(());
        }
        queue.mqds.change(|image, share| {
            let engines = engines.get(share.number as usize).ok_or(Errno::EINVAL)?;
            (mqd.set_cus)(image, engines)
        })
    })
}

/// Applies a change while the queue is off the scheduler; it runs on as it was when the change fails.
fn change_queue<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
    id: u32,
    change: impl FnOnce(&mut State<O>, u32) -> Result<()>,
) -> Result<()> {
    let node = process.nodes.get(state.queues.get(&id).ok_or(Errno::EINVAL)?.node);
    let result = suspend_queue(process, state, id).and_then(|()| {
        let changed = change(state, id);
        resume_queue(process, state, id).and(changed)
    });
    result.inspect_err(|&error| node.recover_after(error))
}

/// Removes all queues: the process is going away. The caller drops what is returned without the lock.
///
/// Afterwards the device uses none of them: the scheduler let them go, or was reset. Else it is wedged.
pub(crate) fn remove_all_queues<O: Os>(
    process: &Process<O>,
    state: &mut Locked<'_, O>,
) -> Vec<Box<Queue<O>>> {
    // Devices that do not answer.
    let mut deaf: NodeBits = 0;
    let mut removed = Vec::new();
    while let Some((&id, queue)) = state.queues.first_key_value() {
        let node = process.nodes.get(queue.node);
        if deaf & node.bit() == 0
            && let Err(error) = suspend_queue(process, state, id)
        {
            log!(node.device.hw, Error, "pasid {}: queue {id} does not stop ({error})", process.pasid);
            deaf |= process.nodes.of(&node.device).fold(0, |all, sibling| all | sibling.bit());
            node.recover_after(error);
        }
        removed.extend(forget_queue(process, state, id));
    }
    removed
}
