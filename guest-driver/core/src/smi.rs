//! Events for system management: descriptors that give lines of text (`kfd_smi_events.c`).
//!
//! SMI_EVENTS makes a descriptor. Writing a 64-bit mask to it chooses events by their numbers, reading it gives their lines.
//! A client has room for 1024 bytes; a line that does not fit is dropped, whole. Of the events of the interface,
//! this driver raises those of faults, of resets, and of the beginning and the end of processes, which concern no process
//! alone: Linux, too, gives them to each descriptor. Those of a process's queues that stop and go on, and of its shared virtual
//! memory that moves or goes, go to descriptors that this process has made. The others belong to chips that retry faults, or to
//! a card that gets hot.

use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::kfd::smi::{EventKind, MigrateTrigger, QueueEvictionTrigger, SMI_EVENT_MSG_SIZE};

use crate::errno::{Errno, Result};
use crate::hw::Hw;
use crate::node::Nodes;
use crate::os::{Clock, LockRank, Os, PAGE_SIZE, SmiClient, SmiFile, Task};
use crate::sync::Mutex;

/// Bytes that wait for a client at most (`MAX_KFIFO_SIZE`).
pub(crate) const FIFO_SIZE: usize = 1024;

/// Cause that is told of a reset: the only one there is (`amdgpu_reset_get_desc`).
const RESET_CAUSE: &str = "MES hang";

/// Cause of an unmapping: the program unmapped it (`KFD_SVM_UNMAP_TRIGGER_UNMAP_FROM_CPU`).
const UNMAP_FROM_CPU: u32 = 2;

/// One descriptor's chosen events, and what waits for its reader.
struct Client<O: Os> {
    /// Process that has made the descriptor: of the memory of others it hears nothing.
    pasid: u16,
    /// Number of the node that it is of.
    node: u32,
    mask: AtomicU64,
    fifo: Mutex<O, VecDeque<u8>>,
}

impl<O: Os> Client<O> {
    fn push(&self, line: &[u8]) {
        let mut fifo = self.fifo.lock();
        if fifo.len() + line.len() <= FIFO_SIZE {
            fifo.extend(line);
        }
    }
}

impl<O: Os> SmiClient for Client<O> {
    fn write(&self, bytes: &[u8]) -> Result<usize> {
        let mask = bytes.first_chunk().ok_or(Errno::EFAULT)?;
        self.mask.store(u64::from_le_bytes(*mask), Ordering::Relaxed);
        Ok(mask.len())
    }

    fn read(&self, to: &mut [u8]) -> Result<usize> {
        let mut fifo = self.fifo.lock();
        let len = to.len().min(fifo.len());
        if fifo.is_empty() {
            return Err(Errno::EAGAIN);
        }
        for (to, from) in to.iter_mut().zip(fifo.drain(..len)) {
            *to = from;
        }
        Ok(len)
    }

    fn ready(&self) -> bool {
        !self.fifo.lock().is_empty()
    }
}

/// The open descriptors of a device.
struct Clients<O: Os> {
    open: Vec<(Weak<Client<O>>, O::SmiFile)>,
    /// Counts resets, for their events (`reset_seq_num`).
    resets: u32,
}

impl<O: Os> Clients<O> {
    fn new() -> Self {
        Self { open: Vec::new(), resets: 0 }
    }

    /// Forgets clients whose descriptors are closed.
    fn prune(&mut self) {
        self.open.retain(|(client, file)| {
            file.sync();
            client.strong_count() > 0
        });
    }

    fn raise(&mut self, kind: EventKind, message: fmt::Arguments<'_>) {
        self.raise_for(None, kind, message);
    }

    /// Raises an event for the clients of a process and a node, or for all.
    fn raise_for(&mut self, whom: Option<(u16, Option<u32>)>, kind: EventKind, message: fmt::Arguments<'_>) {
        if self.open.is_empty() {
            return;
        }
        // A mask that was written before the event counts for it.
        self.prune();
        let mut line = format!("{:x} {message}\n", kind as u32).into_bytes();
        line.truncate(SMI_EVENT_MSG_SIZE - 1);
        for (client, file) in &self.open {
            let Some(client) = client.upgrade() else { continue };
            let concerned = whom.is_none_or(|(pasid, node)| {
                pasid == client.pasid && node.is_none_or(|node| node == client.node)
            });
            if concerned && client.mask.load(Ordering::Relaxed) & kind.mask() != 0 {
                client.push(&line);
                file.wake();
            }
        }
    }
}

/// A range as events show it: its first page, and the number of its pages.
struct Pages<'a>(&'a Range<u64>);

impl fmt::Display for Pages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Range { start, end } = self.0;
        write!(f, "@{:x}({:x})", start / PAGE_SIZE, (end - start) / PAGE_SIZE)
    }
}

/// Events for system management of a device.
pub(crate) struct Smi<O: Os> {
    hw: Arc<Hw<O>>,
    clients: Mutex<O, Clients<O>>,
}

impl<O: Os> Smi<O> {
    /// Makes it, without a client.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(hw: Arc<Hw<O>>) -> Result<Self> {
        Ok(Self { clients: Mutex::new(hw.os(), LockRank::SmiClients, Clients::new())?, hw })
    }

    /// SMI_EVENTS: makes a descriptor of the calling process for a node that no event is chosen for yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `EMFILE`.
    pub(crate) fn open(&self, pasid: u16, node: u32) -> Result<i32> {
        let os = self.hw.os();
        let fifo = Mutex::new(os, LockRank::SmiFifo, VecDeque::new())?;
        let client = Arc::new(Client { pasid, node, mask: AtomicU64::new(0), fifo });
        let weak = Arc::downgrade(&client);
        // Without the lock: a descriptor may wait for who looks for memory, and that is who may raise an event.
        let (file, fd) = os.smi_open(client)?;
        let mut clients = self.clients.lock();
        clients.prune();
        clients.open.push((weak, file));
        Ok(fd)
    }

    /// A process's GPU address space had a fault.
    pub(crate) fn fault(&self, task: &Task) {
        let message = format_args!("{:x}:{}", task.id, task.name());
        self.clients.lock().raise(EventKind::VmFault, message);
    }

    /// The device is about to be reset.
    pub(crate) fn pre_reset(&self) {
        let mut clients = self.clients.lock();
        clients.resets = clients.resets.wrapping_add(1);
        let count = clients.resets;
        clients.raise(EventKind::GpuPreReset, format_args!("{count:x} {RESET_CAUSE}"));
    }

    /// The device was reset, and works again.
    pub(crate) fn post_reset(&self) {
        let mut clients = self.clients.lock();
        let count = clients.resets;
        clients.raise(EventKind::GpuPostReset, format_args!("{count:x} {RESET_CAUSE}"));
    }

    /// A process begins to use the device, or has ended.
    pub(crate) fn process(&self, kind: EventKind, task: &Task) {
        self.clients.lock().raise(kind, format_args!("{:x} {}", task.id, task.name()));
    }

    /// Raises an event of a process for each node, whose clients are told the node's id in it; the time is that since boot.
    fn of_nodes(&self, nodes: &Nodes, pasid: u16, kind: EventKind, message: impl Fn(u64, u16) -> String) {
        let now = self.hw.os().clock_ns(Clock::Boot);
        let mut clients = self.clients.lock();
        for node in nodes.iter().take(if clients.open.is_empty() { 0 } else { usize::MAX }) {
            let message = message(now, node.gpu_id);
            clients.raise_for(Some((pasid, Some(node.number))), kind, format_args!("{message}"));
        }
    }

    /// The queues of a process were taken off the hardware for a while (`KFD_EVENT_FMT_QUEUE_EVICTION`).
    pub(crate) fn eviction(&self, nodes: &Nodes, pasid: u16, task: &Task, trigger: QueueEvictionTrigger) {
        self.of_nodes(nodes, pasid, EventKind::QueueEviction, |now, node| {
            format!("{now} -{} {node:x} {}", task.id, trigger as u32)
        });
    }

    /// They are back (`KFD_EVENT_FMT_QUEUE_RESTORE`, not rescheduled).
    pub(crate) fn restore(&self, nodes: &Nodes, pasid: u16, task: &Task) {
        self.of_nodes(nodes, pasid, EventKind::QueueRestore, |now, node| {
            format!("{now} -{} {node:x} 0", task.id)
        });
    }

    /// Shared virtual memory begins to move from one place to another (`KFD_EVENT_FMT_MIGRATE_START`, in pages).
    pub(crate) fn migrate_start(
        &self,
        pasid: u16,
        task: &Task,
        range: &Range<u64>,
        (from, to): (u32, u32),
        (prefetch, preferred): (u32, u32),
        trigger: MigrateTrigger,
    ) {
        let now = self.hw.os().clock_ns(Clock::Boot);
        let message = format_args!(
            "{now} -{} {} {from:x}->{to:x} {prefetch:x}:{preferred:x} {}",
            task.id,
            Pages(range),
            trigger as u32
        );
        self.clients.lock().raise_for(Some((pasid, None)), EventKind::MigrateStart, message);
    }

    /// Shared virtual memory has moved, as far as it does (`KFD_EVENT_FMT_MIGRATE_END`).
    pub(crate) fn migrate_end(
        &self,
        pasid: u16,
        task: &Task,
        range: &Range<u64>,
        (from, to): (u32, u32),
        trigger: MigrateTrigger,
    ) {
        let now = self.hw.os().clock_ns(Clock::Boot);
        let message = format_args!("{now} -{} {} {from:x}->{to:x} {}", task.id, Pages(range), trigger as u32);
        self.clients.lock().raise_for(Some((pasid, None)), EventKind::MigrateEnd, message);
    }

    /// Shared virtual memory that the program has unmapped left the GPU (`KFD_EVENT_FMT_UNMAP_FROM_GPU`, in pages).
    pub(crate) fn unmap(&self, nodes: &Nodes, pasid: u16, task: &Task, range: Range<u64>) {
        self.of_nodes(nodes, pasid, EventKind::UnmapFromGpu, |now, node| {
            format!("{now} -{} {} {node:x} {UNMAP_FROM_CPU}", task.id, Pages(&range))
        });
    }
}

#[cfg(test)]
mod tests;
