//! Memory of another GPU's, mapped into this process: to this device it is system memory.
#![expect(unsafe_code, reason = "keeps a map")]

use std::ffi::c_void;
use std::fs::File;
use std::sync::Arc;

use belfry_kfd_core::os::{AllocFlags, Backing, BoPage, PAGE_SIZE};
use belfry_kfd_core::{Errno, Result};

use super::descriptor::{Descriptor, ofd};
use super::errno;
use crate::keeper::{Keeper, Kept};
use crate::pins::{Added, Pins};

/// A range of this process's addresses, unmapped when dropped.
struct Mapping {
    base: usize,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own, and the device reaches it no more.
        unsafe { libc::munmap(self.base as *mut c_void, self.len) };
    }
}

/// Shared memory of another GPU's. Its mapping keeps the exporter from using the memory for something else.
pub(super) struct Foreign {
    flags: AllocFlags,
    /// The exporter's file, for further descriptors.
    file: Kept,
    /// Where in it the record lies.
    record: u64,
    /// Taken out of the device's map before the mapping goes.
    _added: Added,
    mapping: Mapping,
}

impl Foreign {
    pub(super) fn map(descriptor: &Descriptor, keeper: &Arc<Keeper>, pins: &Arc<Pins>) -> Result<Self> {
        let len = usize::try_from(descriptor.size()).map_err(|_| Errno::ENOMEM)?;
        let file = keeper.keep(descriptor.fd()).map_err(|error| errno(&error))?;
        // SAFETY: no address is asked for.
        let base = unsafe { descriptor.map(None, len, libc::PROT_READ | libc::PROT_WRITE, 0) }? as usize;
        let mapping = Mapping { base, len };
        for advice in [libc::MADV_DONTFORK, libc::MADV_DONTDUMP] {
            // SAFETY: the mapping is this function's own; neither advice changes what it holds.
            unsafe { libc::madvise(base as *mut c_void, len, advice) };
        }
        let added = pins.add(base as u64..(base + len) as u64)?;
        let (flags, record) = (descriptor.flags(), descriptor.place());
        Ok(Self { flags, file, record, _added: added, mapping })
    }

    /// One more open file of the memory.
    pub(super) fn open(&self) -> Result<File> {
        let file = self.file.open().map_err(|error| errno(&error))?;
        ofd::hold(&file, self.record).map_err(|error| errno(&error))?;
        Ok(file)
    }
}

impl Backing for Foreign {
    fn size(&self) -> u64 {
        self.mapping.len as u64
    }

    fn page(&self, index: u64) -> Option<BoPage> {
        let offset = index.checked_mul(PAGE_SIZE).filter(|&offset| offset < self.size())?;
        let cpu = self.mapping.base + offset as usize;
        // Physical addresses are the process's own.
        Some(BoPage::System { cpu, bus: cpu as u64 })
    }

    fn flags(&self) -> AllocFlags {
        self.flags
    }
}
