//! Parts of a process on each node (`struct kfd_process_device`): its address space, which is that of a file of the node's render node, its
//! doorbells, and its mapped buffer objects.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::asic::DoorbellLayout;
use crate::doorbell::Doorbells;
use crate::errno::{Errno, Result};
use crate::node::Node;
use crate::os::{DrmFile as _, Os};
use crate::space::Space;

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
}

/// The parts of a process, by node.
pub(crate) struct ProcessDevices<O: Os>(Vec<ProcessDevice<O>>);

impl<O: Os> ProcessDevices<O> {
    /// Makes a part for each slice of doorbells, without an address space yet.
    pub(crate) fn new(slices: &[u32], layout: &DoorbellLayout) -> Self {
        let part = |slice: &u32| ProcessDevice {
            acquired: None,
            doorbells: Doorbells::new(*slice, layout),
            mapped: BTreeMap::new(),
        };
        Self(slices.iter().map(part).collect())
    }

    /// Returns the part on a node.
    ///
    /// # Errors
    ///
    /// `EINVAL` for the number of a node that there is not.
    pub(crate) fn part(&self, node: u32) -> Result<&ProcessDevice<O>> {
        self.0.get(node as usize).ok_or(Errno::EINVAL)
    }

    /// Returns the part on a node, to change it.
    ///
    /// # Errors
    ///
    /// As [`ProcessDevices::part`].
    pub(crate) fn part_mut(&mut self, node: u32) -> Result<&mut ProcessDevice<O>> {
        self.0.get_mut(node as usize).ok_or(Errno::EINVAL)
    }

    /// Returns what a node was given.
    pub(crate) fn get(&self, node: u32) -> Option<&Acquired<O>> {
        self.0.get(node as usize)?.acquired.as_ref()
    }

    /// Returns the address space of a node.
    pub(crate) fn space(&self, node: u32) -> Option<&Arc<Space<O>>> {
        self.get(node).map(|acquired| &acquired.space)
    }

    /// Returns whether a node has an address space.
    pub(crate) fn has_space(&self, node: &Node) -> bool {
        self.get(node.number).is_some()
    }

    /// Gives an address space to a node that has none.
    pub(crate) fn put(&mut self, node: &Node, acquired: Acquired<O>) {
        if let Some(part) = self.0.get_mut(node.number as usize) {
            part.acquired = Some(acquired);
        }
    }

    /// Returns whether no node has an address space.
    pub(crate) fn has_no_space(&self) -> bool {
        self.0.iter().all(|part| part.acquired.is_none())
    }

    /// Returns the address space of a file, if a node has it.
    pub(crate) fn of_file(&self, file: u64) -> Option<&Arc<Space<O>>> {
        let mut acquired = self.0.iter().filter_map(|part| part.acquired.as_ref());
        acquired.find(|acquired| acquired.file.id() == file).map(|acquired| &acquired.space)
    }

    /// Returns the nodes that have an address space, one bit each.
    pub(crate) fn nodes_of(&self, space: &Arc<Space<O>>) -> u32 {
        self.each().filter(|(other, _)| Arc::ptr_eq(other, space)).fold(0, |bits, (_, node)| bits | node)
    }

    /// Forgets a buffer object that is mapped on no node any more.
    pub(crate) fn forget(&mut self, bo: u32) {
        for part in &mut self.0 {
            part.mapped.retain(|_, other| *other != bo);
        }
    }

    /// Gives the files back and keeps the address spaces, which a device may still use.
    pub(crate) fn leave(self) {
        for Acquired { space, file } in self.0.into_iter().filter_map(|part| part.acquired) {
            core::mem::forget(space);
            drop(file);
        }
    }

    /// Returns each address space, with the bit of the node that has it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arc<Space<O>>, u32)> + Clone {
        (0u32..).zip(&self.0).filter_map(|(number, part)| Some((&part.acquired.as_ref()?.space, 1 << number)))
    }
}
