//! Exceptions of a process on their way to a debugger or to the runtime, and the settings of a debugger (`kfd_debug.c`).

mod query;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::fmt;

use belfry_abi::kfd::debug::{DEBUG_RUNTIME_STATE_ENABLED, ExceptionCode, RuntimeInfo};
use belfry_abi::kfd::event::MemoryExceptionData;

use crate::errno::{Errno, Result};
use crate::os::{EventFile, LockRank, Os, WaitOutcome, WaitQueue, WorkItem};
use crate::request::{LaunchControl, NodeWatch, WATCHES};
use crate::sync::Mutex;

/// Id of a node, and the doorbell of a queue there.
pub(crate) type DoorbellOfNode = (u32, u32);

/// A queue's exceptions.
pub(crate) struct QueueExceptions {
    /// The id of its node, and its doorbell in the process's slice for that.
    pub(crate) doorbell: DoorbellOfNode,
    pub(crate) status: u64,
}

/// Exceptions that have happened, and their receivers. Interrupts come here, so the lock is short.
pub(crate) struct Exceptions<O: Os> {
    /// A debugger is attached; its descriptor.
    pub(crate) file: Option<Arc<O::EventFile>>,
    /// Exceptions that it has asked for.
    pub(crate) enabled: u64,
    pub(crate) process: u64,
    /// By the id of the node.
    pub(crate) devices: BTreeMap<u32, u64>,
    pub(crate) queues: BTreeMap<u32, QueueExceptions>,
    /// Of the memory violation in `devices`.
    pub(crate) fault: Option<MemoryExceptionData>,
    /// The runtime hears of exceptions that the debugger has not asked for.
    pub(crate) runtime: bool,
    /// Exceptions on their way to the runtime, by queue.
    pub(crate) to_runtime: BTreeMap<u32, u64>,
    /// A byte on its way to the debugger.
    pub(crate) to_debugger: bool,
    /// Times that the debugger has let the runtime go on.
    pub(crate) acknowledged: u32,
}

/// Debugging of a process.
pub(crate) struct Debug<O: Os> {
    pub(crate) exceptions: Mutex<O, Exceptions<O>>,
    /// Woken when something that a thread of the process waits for may have changed.
    pub(crate) wake: O::WaitQueue,
    pub(crate) work: O::WorkItem,
}

/// Part of debugging that the locks of a process's state guard.
pub(crate) struct Session<O: Os> {
    pub(crate) runtime: RuntimeInfo,
    /// RUNTIME_ENABLE was interrupted while it waited for the debugger.
    pub(crate) interrupted: bool,
    /// The process that has attached, and the hold on this one.
    pub(crate) attached: Option<(u16, O::Target)>,
    pub(crate) launch: LaunchControl,
    /// By the number of the device.
    pub(crate) watches: BTreeMap<u32, [NodeWatch; WATCHES]>,
    pub(crate) flags: u32,
    /// Numbers of the devices whose schedulers have settings of this process.
    pub(crate) applied: BTreeSet<u32>,
}

impl<O: Os> Default for Session<O> {
    fn default() -> Self {
        Self {
            runtime: RuntimeInfo::default(),
            interrupted: false,
            attached: None,
            launch: LaunchControl::default(),
            watches: BTreeMap::new(),
            flags: 0,
            applied: BTreeSet::new(),
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
    pub(crate) fn is_attached(&self) -> bool {
        self.attached.is_some()
    }

    pub(crate) fn is_runtime_enabled(&self) -> bool {
        self.runtime.runtime_state == DEBUG_RUNTIME_STATE_ENABLED
    }

    /// Returns whether this process has attached to it.
    pub(crate) fn is_debugged_by(&self, pasid: u16) -> bool {
        self.attached.as_ref().is_some_and(|(debugger, _)| *debugger == pasid)
    }
}

impl<O: Os> Debug<O> {
    pub(crate) fn new(os: &O, work: O::WorkItem) -> Result<Self> {
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
            work,
        })
    }

    /// A queue is there that no debugger has seen: its node's id, and its doorbell there.
    pub(crate) fn queue_created(&self, id: u32, doorbell: DoorbellOfNode) {
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
    pub(crate) fn raise_process(&self, code: ExceptionCode) {
        let file = {
            let mut exceptions = self.exceptions.lock();
            let Some(file) = exceptions.file.clone() else { return };
            exceptions.process |= code.mask();
            Some(file).filter(|_| exceptions.enabled & code.mask() != 0)
        };
        file.iter().for_each(|file| file.notify());
    }

    /// Raises exceptions of the queue with this doorbell, from an interrupt; returns whether they have a receiver
    /// (`kfd_set_dbg_ev_from_interrupt`).
    pub(crate) fn raise_queue(&self, doorbell: DoorbellOfNode, mask: u64) -> bool {
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
    pub(crate) fn wait_for_debugger(&self) -> Result<()> {
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
