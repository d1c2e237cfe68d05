//! The address spaces of a process: that of each node, which is the one of a file of the node's render node
//! (`struct kfd_process_device`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::node::Node;
use crate::os::{DrmFile as _, Os};
use crate::space::Space;

/// Address space and file that ACQUIRE_VM has given a node.
pub(crate) struct Acquired<O: Os> {
    pub(crate) space: Arc<Space<O>>,
    pub(crate) file: O::DrmFile,
}

/// By node.
pub(crate) struct Spaces<O: Os>(Vec<Option<Acquired<O>>>);

impl<O: Os> Spaces<O> {
    /// None yet.
    pub(crate) fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| None).collect())
    }

    /// Returns what a node was given.
    pub(crate) fn get(&self, node: u32) -> Option<&Acquired<O>> {
        self.0.get(node as usize)?.as_ref()
    }

    /// The space of a node.
    pub(crate) fn of(&self, node: u32) -> Option<&Arc<Space<O>>> {
        self.get(node).map(|acquired| &acquired.space)
    }

    /// Returns whether a node has one.
    pub(crate) fn has(&self, node: &Node) -> bool {
        self.get(node.number).is_some()
    }

    /// Gives one to a node that has none.
    pub(crate) fn put(&mut self, node: &Node, acquired: Acquired<O>) {
        if let Some(place) = self.0.get_mut(node.number as usize) {
            *place = Some(acquired);
        }
    }

    /// Returns whether no node has one.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The space of a file, if a node has it.
    pub(crate) fn of_file(&self, file: u64) -> Option<&Arc<Space<O>>> {
        self.0.iter().flatten().find(|acquired| acquired.file.id() == file).map(|acquired| &acquired.space)
    }

    /// Nodes that have a space, one bit each.
    pub(crate) fn nodes_of(&self, space: &Arc<Space<O>>) -> u32 {
        let has = |place: &Option<Acquired<O>>| {
            place.as_ref().is_some_and(|acquired| Arc::ptr_eq(&acquired.space, space))
        };
        (0u32..).zip(&self.0).filter(|(_, place)| has(place)).fold(0, |bits, (number, _)| bits | 1 << number)
    }

    /// Gives the files back and keeps the spaces, which a device may still use.
    pub(crate) fn leave(self) {
        for Acquired { space, file } in self.0.into_iter().flatten() {
            core::mem::forget(space);
            drop(file);
        }
    }

    /// Each space, with the bit of the node that has it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (&Arc<Space<O>>, u32)> + Clone {
        (0u32..).zip(&self.0).filter_map(|(number, place)| Some((&place.as_ref()?.space, 1 << number)))
    }
}
