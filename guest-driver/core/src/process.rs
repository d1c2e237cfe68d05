//! One process, as the GPU sees it (`kfd_process.c`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use belfry_abi::kfd::event::{
    HwExceptionData, KFD_HW_EXCEPTION_GPU_HANG, KFD_HW_EXCEPTION_WHOLE_GPU_RESET, MemoryExceptionData,
};

use crate::bo::{Bo, BoKind};
use crate::device::SystemLimit;
use crate::errno::{Errno, Result};
use crate::event::Events;
use crate::exceptions::{Debug, Session};
use crate::os::{DriverEvent, LockRank, LogLevel, Os, ProcessKey, Task, WorkItem};
use crate::process_device::{NodeBits, ProcessDevices, ProcessNode, ProcessNodes};
use crate::queue::Queue;
use crate::ranges::{Svm, Wanted};
use crate::show::Few;
use crate::sync::{Lendable, Mutex, Owner};

/// Pages that are wanted and not looked at yet: the device tells again of those that are too many.
const WANTED: usize = 256;

/// A process that opened the KFD node.
pub struct Process<O: Os> {
    key: ProcessKey,
    pub(crate) pasid: u16,
    /// Program that has opened the KFD node.
    pub(crate) opener: Task,
    /// Nodes of all devices that there were when it came, which stay as they are while it is there.
    pub(crate) nodes: ProcessNodes<O>,
    pub(crate) events: Events<O>,
    pub(crate) state: Lendable<O, State<O>>,
    pub(crate) faults: Mutex<O, Faults>,
    /// Pages that waves wait for and that are still to be looked at.
    pub(crate) retries: Mutex<O, Vec<Wanted>>,
    pub(crate) retry_work: O::WorkItem,
    fault_work: O::WorkItem,
    pub(crate) debug: Debug<O>,
    pub(crate) svm_work: O::WorkItem,
}

/// Work for a process that is done away from the thread that finds it needed (amdkfd: `interrupt_wq`).
pub(crate) struct Works<O: Os> {
    /// Looks after a memory fault.
    pub(crate) fault: O::WorkItem,
    /// Gives waves the pages that they wait for.
    pub(crate) retry: O::WorkItem,
    /// Maps shared virtual memory anew.
    pub(crate) restore: O::WorkItem,
    /// Tells debugger and runtime of exceptions.
    pub(crate) tell: O::WorkItem,
}

/// Shows what the process has on the GPU. It waits for the process's locks, which are held over requests to the device.
impl<O: Os> fmt::Debug for Process<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = self.faults.lock().told.map(|fault| fault.va);
        f.debug_struct("Process")
            .field("pasid", &format_args!("{:#x}", self.pasid))
            .field("doorbell_slices", &Few(self.nodes.iter().map(|node| (node.gpu_id, node.slice))))
            .field("device_was_reset", &self.nodes.devices().any(|node| node.epoch != node.device.epoch()))
            .field("fault_to_settle", &format_args!("{fault:x?}"))
            .field("state", &*self.state.lock())
            .field("events", &self.events)
            .finish_non_exhaustive()
    }
}

impl<O: Os> fmt::Debug for State<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mapped = self.bos.values().filter(|bo| bo.is_mapped()).count();
        f.debug_struct("State")
            .field("phase", &self.phase)
            .field("spaces", &Few(self.devices.each().map(|(space, nodes)| (nodes, space))))
            .field("queues", &Few(self.queues.iter()))
            .field("mapped", &format_args!("{} of {} buffer objects", mapped, self.bos.len()))
            .field("buffer_objects", &Few(self.bos.iter()))
            .field("takes_traps", &format_args!("{:#b}", self.takes_traps))
            .field("svm", &self.svm)
            .field("debug", &self.debug)
            .finish_non_exhaustive()
    }
}

/// Memory behind a process's buffer objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientMemory {
    /// The id the device knows the process by.
    pub pasid: u16,
    /// Bytes of VRAM.
    pub vram: u64,
    /// Bytes of system memory, the process's own pages included.
    pub gtt: u64,
}

/// Memory faults that are not looked after yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// The fault that the program hears of.
    pub(crate) told: Option<MemoryExceptionData>,
    /// Nodes with a fault, whose queues stop, one bit each.
    pub(crate) nodes: NodeBits,
}

/// Stages of a process, by what may still be done with it; it goes down this list, and never up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Everything.
    Alive,
    /// Torn down: nothing may be added.
    Dead,
}

/// The state of a process, in the hands of the thread that changes it as a whole. While the scheduler is asked for something, it is lent
/// out to those who give the process's waves their pages.
pub(crate) type Locked<'a, O> = Owner<'a, O, State<O>>;

/// Things that a process has on the GPU.
pub(crate) struct State<O: Os> {
    pub(crate) phase: Phase,
    /// The parts on each node, whose address spaces have the driver's trap handler.
    pub(crate) devices: ProcessDevices<O>,
    pub(crate) bos: BTreeMap<u32, Bo<O>>,
    pub(crate) queues: BTreeMap<u32, Box<Queue<O>>>,
    /// Handle of the signal page.
    pub(crate) signal_handle: Option<u64>,
    /// Nodes for which the program has set a handler that traps go on to, one bit each.
    pub(crate) takes_traps: NodeBits,
    /// Waves wait for pages that they do not have (XNACK).
    pub(crate) xnack: bool,
    /// Program that has acquired the first address space.
    pub(crate) task: Option<Task>,
    pub(crate) svm: Svm<O>,
    /// Settings of a debugger.
    pub(crate) debug: Session<O>,
}

impl<O: Os> State<O> {
    #[inline(never)]
    fn new(nodes: &ProcessNodes<O>) -> Self {
        Self {
            phase: Phase::Alive,
            devices: ProcessDevices::new(nodes),
            bos: BTreeMap::new(),
            queues: BTreeMap::new(),
            signal_handle: None,
            takes_traps: 0,
            xnack: false,
            task: None,
            svm: Svm::of(nodes),
            debug: Session::default(),
        }
    }
}

impl<O: Os> Process<O> {
    /// A process that has nothing yet. Kernels have small stacks: it is put together in a frame of its own.
    #[inline(never)]
    pub(crate) fn new(
        key: ProcessKey,
        pasid: u16,
        nodes: ProcessNodes<O>,
        works: Works<O>,
    ) -> Result<Arc<Self>> {
        let os = nodes.first().device.hw.os();
        let ranks = [LockRank::Process, LockRank::ProcessState];
        let state = Lendable::new(os, ranks, State::new(&nodes))?;
        Ok(Arc::new(Self {
            key,
            pasid,
            opener: os.task(),
            events: Events::new(os)?,
            state,
            faults: Mutex::new(os, LockRank::PendingFault, Faults::default())?,
            retries: Mutex::new(os, LockRank::PendingFault, Vec::new())?,
            fault_work: works.fault,
            debug: Debug::new(os, works.tell)?,
            retry_work: works.retry,
            svm_work: works.restore,
            nodes,
        }))
    }

    /// Returns the operating system, for what concerns no device.
    pub(crate) fn os(&self) -> &O {
        self.nodes.first().device.hw.os()
    }

    /// Records an event of the process on all of its devices.
    pub(crate) fn trace(&self, event: DriverEvent) {
        self.trace_on(event, NodeBits::MAX);
    }

    /// Records an event of the process on the devices of some nodes.
    pub(crate) fn trace_on(&self, event: DriverEvent, nodes: NodeBits) {
        self.nodes.trace(self.pasid, event, nodes);
    }

    /// Returns the system memory that programs may have for all devices.
    pub(crate) fn system(&self) -> &SystemLimit {
        self.nodes.first().device.users.system()
    }

    /// Returns the address space it belongs to.
    pub fn key(&self) -> ProcessKey {
        self.key
    }

    /// Returns the id the device knows the process by.
    pub fn pasid(&self) -> u16 {
        self.pasid
    }

    /// Returns whether it has a device, by [`KfdDevice::number`](crate::KfdDevice::number).
    pub fn has(&self, device: u32) -> bool {
        self.nodes.devices().any(|node| node.device.number == device)
    }

    /// Memory that it holds of the nodes whose address space it has acquired with this file.
    pub(crate) fn client_memory(&self, file: u64) -> Option<ClientMemory> {
        let state = self.state.lock();
        let nodes = state.devices.nodes_of(state.devices.of_file(file)?);
        Some(self.memory_of(&state, |bo| nodes & 1 << bo.node != 0))
    }

    /// Memory of it that was made for a node.
    pub(crate) fn held_on(&self, node: &ProcessNode<O>) -> ClientMemory {
        self.memory_of(&self.state.lock(), |bo| bo.node == node.index)
    }

    /// The id that the device knows it by (PASID).
    pub fn id(&self) -> u16 {
        self.pasid
    }

    fn memory_of(&self, state: &State<O>, counts: impl Fn(&Bo<O>) -> bool) -> ClientMemory {
        let mut memory = ClientMemory { pasid: self.pasid, vram: 0, gtt: 0 };
        for bo in state.bos.values().filter(|bo| counts(bo)) {
            match bo.kind {
                BoKind::Vram(_) => memory.vram += bo.size,
                BoKind::System(_) | BoKind::User(_) => memory.gtt += bo.size,
                _ => {}
            }
        }
        memory
    }

    /// Makes a buffer object in system memory the signal page.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is one already or the handle is of something else, `EBUSY` in a race with another thread.
    pub(crate) fn set_signal_page(&self, handle: u64) -> Result<()> {
        if self.events.has_page() {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        let id = state.bo_id(&self.nodes, handle).ok_or(Errno::EINVAL)?;
        let Some(BoKind::System(memory)) = state.bos.get(&id).map(|bo| &bo.kind) else {
            return Err(Errno::EINVAL);
        };
        self.events.set_page(memory.clone())?;
        state.signal_handle = Some(handle);
        Ok(())
    }

    /// The device of a node reported a memory fault of this process: its queues there will stop, its memory events will be set.
    ///
    /// Called from the interrupt thread, which waits neither for this process's state nor for the scheduler.
    pub(crate) fn memory_fault(&self, node: &ProcessNode<O>, data: MemoryExceptionData) {
        let line = format_args!(
            "pasid {}: GPU memory fault at {:#x} (not present {}, read-only {}, no execute {})",
            self.pasid, data.va, data.failure.not_present, data.failure.read_only, data.failure.no_execute
        );
        let device = &node.device;
        device.limits.memory_fault.log(&device.hw, LogLevel::Error, line);
        if self.debug.raise_memory_violation(data) {
            return;
        }
        let mut faults = self.faults.lock();
        // Of faults that come faster than they are looked after, programs hear of the first.
        faults.told.get_or_insert(data);
        faults.nodes |= node.bit();
        drop(faults);
        self.fault_work.queue();
    }

    /// A wave waits for a page, of which the filter told by this entry. Whether the page is going to be looked at, after which the
    /// entry is given back.
    pub(crate) fn page_wanted(&self, node: &ProcessNode<O>, va: u64, told: u32) -> bool {
        let mut wanted = self.retries.lock();
        let room = wanted.len() < WANTED && wanted.try_reserve(1).is_ok();
        if room {
            wanted.push(Wanted { va, told, node: node.index });
        }
        drop(wanted);
        self.retry_work.queue();
        room
    }

    /// The device of a node was reset under this process (`kfd_signal_reset_event`).
    pub(crate) fn gpu_reset(&self, node: &ProcessNode<O>) {
        self.events.hw_exception(HwExceptionData {
            reset_type: KFD_HW_EXCEPTION_WHOLE_GPU_RESET,
            reset_cause: KFD_HW_EXCEPTION_GPU_HANG,
            memory_lost: 1,
            gpu_id: u32::from(node.gpu_id),
        });
    }
}

/// Gives the retry filter its entries back: no one will look at these pages.
impl<O: Os> Drop for Process<O> {
    fn drop(&mut self) {
        for wanted in core::mem::take(&mut *self.retries.lock()) {
            self.nodes.get(wanted.node).device.retried(wanted.told);
        }
    }
}

mod objects;
mod poison;

#[cfg(test)]
pub(crate) use tests::queue_args;
#[cfg(test)]
mod tests;
