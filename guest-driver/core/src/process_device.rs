//! Nodes as a process has them (`struct kfd_process_device`): those of all devices, each with an address space, which is that of a file of
//! the node's render node, doorbells, and mapped buffer objects.

mod nodes;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::doorbell::Doorbells;
use crate::errno::{Errno, Result};
use crate::gart::KernelBuffer;
use crate::os::{DrmFile as _, Os};
use crate::space::Space;

pub(crate) use nodes::{NodeBits, ProcessNode, ProcessNodes};

/// Address space and file that ACQUIRE_VM has given a node.
pub(crate) struct Acquired<O: Os> {
    pub(crate) space: Arc<Space<O>>,
    pub(crate) file: O::DrmFile,
}

/// The part of a process on one node.
pub(crate) struct ProcessDevice<O: Os> {
    acquired: Option<Acquired<O>>,
    pub(crate) doorbells: Doorbells,
    /// Buffer objects that are mapped, by address.
    pub(crate) mapped: BTreeMap<u64, u32>,
    /// Nanoseconds that the queues were off the scheduler for the driver's reasons, and since when they are.
    evicted: (u64, Option<u64>),
    /// A memory fault took the queues off the scheduler for good.
    stopped: bool,
}

impl<O: Os> ProcessDevice<O> {
    /// Counts the time from now on as time that the queues are off the scheduler.
    pub(crate) fn count_eviction(&mut self, now: u64) {
        self.evicted.1.get_or_insert(now);
    }

    /// They are back.
    pub(crate) fn end_eviction(&mut self, now: u64) {
        if let Some(since) = self.evicted.1.take() {
            self.evicted.0 += now.saturating_sub(since);
        }
    }

    /// Returns the time that they were off it altogether, in nanoseconds.
    pub(crate) fn evicted_ns(&self, now: u64) -> u64 {
        self.evicted.0 + self.evicted.1.map_or(0, |since| now.saturating_sub(since))
    }
}

/// The parts of a process, by the numbers that the process has for its nodes.
pub(crate) struct ProcessDevices<O: Os> {
    parts: Vec<ProcessDevice<O>>,
    /// Pages of the schedulers about this process, by the number of the device.
    contexts: BTreeMap<u32, KernelBuffer<O>>,
}

impl<O: Os> ProcessDevices<O> {
    /// Makes a part for each node, without an address space yet.
    pub(crate) fn new(nodes: &ProcessNodes<O>) -> Self {
        let part = |node: &ProcessNode<O>| ProcessDevice {
            acquired: None,
            doorbells: Doorbells::new(node.slice, &node.device.hw.asic().doorbells),
            mapped: BTreeMap::new(),
            evicted: (0, None),
            stopped: false,
        };
        Self { parts: nodes.iter().map(part).collect(), contexts: BTreeMap::new() }
    }

    /// Returns the part on a node.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the number of a node that there is not.
    pub(crate) fn part(&self, node: u32) -> Result<&ProcessDevice<O>> {
        self.parts.get(node as usize).ok_or(Errno::EINVAL)
    }

    /// Returns the part on a node, to change it.
    ///
    /// # Errors
    ///
    /// As [`ProcessDevices::part`].
    pub(crate) fn part_mut(&mut self, node: u32) -> Result<&mut ProcessDevice<O>> {
        self.parts.get_mut(node as usize).ok_or(Errno::EINVAL)
    }

    /// Returns what a node was given.
    pub(crate) fn get(&self, node: u32) -> Option<&Acquired<O>> {
        self.parts.get(node as usize)?.acquired.as_ref()
    }

    /// Returns the address space of a node.
    pub(crate) fn space(&self, node: u32) -> Option<&Arc<Space<O>>> {
        self.get(node).map(|acquired| &acquired.space)
    }

    /// Returns whether a node has an address space.
    pub(crate) fn has_space(&self, node: &ProcessNode<O>) -> bool {
        self.get(node.index).is_some()
    }

    /// Gives an address space to a node that has none.
    pub(crate) fn put(&mut self, node: &ProcessNode<O>, acquired: Acquired<O>) {
        if let Some(part) = self.parts.get_mut(node.index as usize) {
            part.acquired = Some(acquired);
        }
    }

    /// Returns whether no node has an address space.
    pub(crate) fn has_no_space(&self) -> bool {
        self.parts.iter().all(|part| part.acquired.is_none())
    }

    /// Returns the address space of a file, if a node has it.
    pub(crate) fn of_file(&self, file: u64) -> Option<&Arc<Space<O>>> {
        let mut acquired = self.parts.iter().filter_map(|part| part.acquired.as_ref());
        acquired.find(|acquired| acquired.file.id() == file).map(|acquired| &acquired.space)
    }

    /// Returns the nodes that have an address space, one bit each.
    pub(crate) fn nodes_of(&self, space: &Arc<Space<O>>) -> NodeBits {
        self.each().filter(|(other, _)| Arc::ptr_eq(other, space)).fold(0, |bits, (_, node)| bits | node)
    }

    /// Does something with the part on each of some nodes.
    pub(crate) fn among(&mut self, nodes: NodeBits, one: impl FnMut(&mut ProcessDevice<O>)) {
        let numbered = (0u32..).zip(&mut self.parts);
        numbered.filter(|(number, _)| nodes >> number & 1 != 0).map(|(_, part)| part).for_each(one);
    }

    /// Returns the nodes whose queues may run, one bit each.
    pub(crate) fn running(&self) -> NodeBits {
        let numbered = (0u32..).zip(&self.parts);
        numbered.filter(|(_, part)| !part.stopped).fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Lets no queue of some nodes run any more.
    pub(crate) fn stop(&mut self, nodes: NodeBits) {
        self.among(nodes, |part| part.stopped = true);
    }

    /// Returns the address in VMID 0 of the page that the scheduler of a device has about this process.
    pub(crate) fn context(&self, device: u32) -> Option<u64> {
        self.contexts.get(&device).map(KernelBuffer::gpu_address)
    }

    /// Gives the scheduler of a device a page about this process.
    pub(crate) fn set_context(&mut self, device: u32, context: KernelBuffer<O>) {
        self.contexts.insert(device, context);
    }

    /// Gives the files back and keeps the address spaces and the schedulers' pages, which a device may still use.
    pub(crate) fn leave(self) {
        core::mem::forget(self.contexts);
        for Acquired { space, file } in self.parts.into_iter().filter_map(|part| part.acquired) {
            core::mem::forget(space);
            drop(file);
        }
    }

    /// Returns each address space, with the bit of the node that has it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arc<Space<O>>, NodeBits)> + Clone {
        let numbered = (0u32..).zip(&self.parts);
        numbered.filter_map(|(number, part)| Some((&part.acquired.as_ref()?.space, 1 << number)))
    }
}
