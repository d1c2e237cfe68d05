//! Nodes of all devices, as they were when the process came.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Deref;

use belfry_abi::ih::IhEntry;
use belfry_abi::kfd::mmap::KFD_DOORBELL_PROCESS_SLICE;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::node::{Node, Nodes};
use crate::os::{DriverEvent, Os};
use crate::scheduler::Scheduler;

/// Nodes of a process, one bit for each of its own numbers.
pub(crate) type NodeBits = u64;
/// Nodes that a process can have (`MAX_GPU_INSTANCE`).
const MAX_NODES: usize = NodeBits::BITS as usize;

/// A node as a process has it; it stays the same while the process is there.
pub(crate) struct ProcessNode<O: Os> {
    /// Its number among all nodes of the process; [`Node::number`] counts those of its device.
    pub(crate) index: u32,
    pub(crate) device: Arc<Device<O>>,
    /// The nodes of the device.
    pub(crate) siblings: Arc<Nodes>,
    place: usize,
    /// Doorbells of the process.
    pub(crate) slice: u32,
    /// The device's epoch when the process was made: after a recovery its queues there are gone for good.
    pub(crate) epoch: u64,
}

impl<O: Os> Deref for ProcessNode<O> {
    type Target = Node;

    fn deref(&self) -> &Node {
        self.siblings.get(self.place as u32)
    }
}

impl<O: Os> ProcessNode<O> {
    /// Returns it among the process's nodes, as a bit.
    pub(crate) fn bit(&self) -> NodeBits {
        1 << (self.index % NodeBits::BITS)
    }

    /// Byte offset of its doorbells in BAR2 of the device.
    pub(crate) fn doorbell_offset(&self) -> u64 {
        u64::from(self.slice) * KFD_DOORBELL_PROCESS_SLICE
    }

    /// Place at which user space finds it.
    pub(crate) fn location_id(&self) -> u32 {
        self.siblings.location_id(self, &self.device.info)
    }

    /// Returns whether the device was reset since the process came, or is beyond repair.
    pub(crate) fn is_lost(&self) -> bool {
        self.device.wedged() || self.device.epoch() != self.epoch
    }

    /// Runs a request of the process on the device's scheduler.
    ///
    /// # Errors
    ///
    /// As [`Device::with_scheduler`].
    pub(crate) fn with_scheduler(
        &self,
        request: impl FnOnce(&mut dyn Scheduler) -> Result<()>,
    ) -> Result<()> {
        self.device.with_scheduler(self.epoch, request)
    }

    /// Recovers the device if `error` says that its scheduler hangs.
    pub(crate) fn recover_after(&self, error: Errno) {
        self.device.recover_after(self.epoch, Err(error));
    }

    /// Returns whether it is of this device.
    pub(crate) fn is_of(&self, device: &Device<O>) -> bool {
        self.device.number == device.number
    }
}

/// All nodes of a process: at least one.
pub(crate) struct ProcessNodes<O: Os>(Vec<ProcessNode<O>>);

impl<O: Os> ProcessNodes<O> {
    /// The nodes of devices. `slice` gives each node doorbells of its device that are free.
    ///
    /// # Errors
    ///
    /// `ENODEV` without a device, `ENOSPC` for more than [`MAX_NODES`], and those of `slice`.
    #[inline(never)]
    pub(crate) fn new(
        devices: &[Arc<Device<O>>],
        mut slice: impl FnMut(&Device<O>) -> Result<u32>,
    ) -> Result<Self> {
        let mut list = Vec::new();
        for device in devices {
            let (siblings, epoch) = (device.nodes(), device.epoch());
            for place in 0..siblings.count() as usize {
                if list.len() == MAX_NODES {
                    return Err(Errno::ENOSPC);
                }
                let (index, device, siblings) = (list.len() as u32, device.clone(), siblings.clone());
                let slice = slice(&device)?;
                list.push(ProcessNode { index, device, siblings, place, slice, epoch });
            }
        }
        if list.is_empty() { Err(Errno::ENODEV) } else { Ok(Self(list)) }
    }

    /// Returns the number of nodes.
    pub(crate) fn count(&self) -> u32 {
        self.0.len() as u32
    }

    /// All of them.
    pub(crate) fn iter(&self) -> core::slice::Iter<'_, ProcessNode<O>> {
        self.0.iter()
    }

    /// The first one.
    pub(crate) fn first(&self) -> &ProcessNode<O> {
        &self.0[0]
    }

    /// The one with a number; the first one for a number that there is not.
    pub(crate) fn get(&self, index: u32) -> &ProcessNode<O> {
        self.0.get(index as usize).unwrap_or(&self.0[0])
    }

    /// The one that user space names.
    ///
    /// # Errors
    ///
    /// `EINVAL`.
    pub(crate) fn named(&self, gpu_id: u32) -> Result<&ProcessNode<O>> {
        self.iter().find(|node| u32::from(node.gpu_id) == gpu_id).ok_or(Errno::EINVAL)
    }

    /// The first node of each device.
    pub(crate) fn devices(&self) -> impl Iterator<Item = &ProcessNode<O>> {
        self.iter().filter(|node| node.place == 0)
    }

    /// The nodes of a device: none of one that came after the process.
    pub(crate) fn of<'a>(&'a self, device: &'a Device<O>) -> impl Iterator<Item = &'a ProcessNode<O>> {
        self.iter().filter(|node| node.is_of(device))
    }

    /// The node whose interrupt an entry of a device's ring is.
    pub(crate) fn raised(&self, device: &Device<O>, entry: &IhEntry) -> Option<&ProcessNode<O>> {
        let first = self.of(device).next()?;
        let number = first.siblings.raised(entry).number;
        Some(self.get(first.index + number))
    }

    /// The nodes of some bits.
    pub(crate) fn among(&self, bits: NodeBits) -> impl Iterator<Item = &ProcessNode<O>> {
        self.iter().filter(move |node| node.bit() & bits != 0)
    }

    /// Returns whether all of their devices are there.
    pub(crate) fn are_alive(&self) -> bool {
        self.devices().all(|node| node.device.hw.alive())
    }

    /// Records an event of the process on each device that has one of some nodes.
    pub(crate) fn trace(&self, pasid: u16, event: DriverEvent, nodes: NodeBits) {
        let has = |node: &&ProcessNode<O>| self.of(&node.device).any(|node| node.bit() & nodes != 0);
        self.devices().filter(has).for_each(|node| node.device.trace(pasid, event));
    }
}
