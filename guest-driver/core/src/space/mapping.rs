//! Memory that files map, at one address each.

use alloc::sync::Arc;

use super::{identity, map_backing};
use crate::asic::PageRights;
use crate::errno::Result;
use crate::os::{Backing, Os};
use crate::vm::{HUGE, Vm};

/// Memory that GEM_VA has mapped at an address.
#[derive(Clone)]
pub(crate) struct Mapping {
    pub(crate) len: u64,
    /// The buffer object, and where in it the range begins; `None` for pages that are not resident (`AMDGPU_VM_PAGE_PRT`).
    pub(crate) backing: Option<Arc<dyn Backing>>,
    pub(crate) offset: u64,
    pub(crate) rights: PageRights,
}

impl Mapping {
    /// The part from `skip` on, `len` bytes of it.
    pub(super) fn part(&self, skip: u64, len: u64) -> Self {
        Self { len, offset: self.offset + skip, ..self.clone() }
    }

    pub(super) fn is_of(&self, backing: &Arc<dyn Backing>) -> bool {
        self.backing.as_ref().is_some_and(|own| identity(own) == identity(backing))
    }

    /// Writes the page tables.
    pub(super) fn write<O: Os>(&self, va: u64, vm: &mut Vm<O>) -> Result<()> {
        match self.backing.as_deref() {
            Some(backing) => map_backing(vm, va, backing, self.offset..self.offset + self.len, self.rights),
            // The address leads nowhere; it is aligned as the other one, so that huge pages are.
            None => vm.map(va, va % HUGE, self.len, vm.not_resident_bits()),
        }
    }
}
