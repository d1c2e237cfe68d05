//! Shared memory as this process has it: its file, and its pages where the device reaches them.
#![expect(unsafe_code, reason = "keeps a map")]

use std::fs::File;
use std::io;
use std::sync::Arc;

use belfry_kfd_core::Result;
use belfry_kfd_core::os::{AllocFlags, Backing, BoPage, Metadata, PAGE_SIZE, SharedMetadata};

use super::descriptor::{Descriptor, map};
use super::errno;
use super::metadata::Attached;
use super::record::Record;
use crate::keeper::{Keeper, Kept};
use crate::mapping;
use crate::ofd;
use crate::pins::{Added, Pins};

/// The file of shared memory, from which it is mapped and given on. It does not hold the memory.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: Arc<Kept>,
    /// Offset of the record in the file.
    at: u64,
    record: Record,
}

impl SharedFile {
    pub(crate) fn new(descriptor: &Descriptor, keeper: &Arc<Keeper>) -> io::Result<Self> {
        let file = Arc::new(keeper.keep(descriptor.fd())?);
        Ok(Self { file, at: descriptor.place(), record: descriptor.record().clone() })
    }

    /// Bytes of the memory.
    pub(crate) fn size(&self) -> u64 {
        self.record.size
    }

    /// One more open file, which holds the memory.
    pub(crate) fn open(&self) -> Result<File> {
        let file = self.file.open().map_err(|error| errno(&error))?;
        ofd::hold(&file, self.at).map_err(|error| errno(&error))?;
        Ok(file)
    }

    /// Maps a range of the memory, which the mapping holds.
    ///
    /// # Safety
    ///
    /// As for [`Descriptor::map`].
    pub(crate) unsafe fn map(
        &self,
        addr: Option<usize>,
        len: usize,
        prot: i32,
        offset: u64,
    ) -> Result<*mut u8> {
        let file = self.open()?;
        // SAFETY: the caller's contract.
        unsafe { map(std::os::fd::AsRawFd::as_raw_fd(&file), &self.record, addr, len, prot, offset) }
    }
}

/// A range of this process's addresses, unmapped when dropped.
struct Mapping {
    base: usize,
    len: usize,
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is the value's own, and the device reaches it no more.
        let _ = unsafe { mapping::unmap(self.base, self.len) };
    }
}

/// Shared memory of another GPU's: to this device it is system memory. Its mapping keeps the exporter from using the memory
/// for something else.
pub(super) struct Foreign {
    file: SharedFile,
    /// Place of the metadata that programs have attached.
    attached: Arc<dyn SharedMetadata>,
    /// Taken out of the device's map before the mapping goes.
    _added: Added,
    mapping: Mapping,
}

impl Foreign {
    pub(super) fn map(descriptor: &Descriptor, keeper: &Arc<Keeper>, pins: &Arc<Pins>) -> Result<Self> {
        let len = descriptor.size() as usize;
        let file = SharedFile::new(descriptor, keeper).map_err(|error| errno(&error))?;
        // SAFETY: no address is asked for.
        let base = unsafe { descriptor.map(None, len, libc::PROT_READ | libc::PROT_WRITE, 0) }? as usize;
        let mapping = Mapping { base, len };
        mapping::keep_private(base, len);
        let added = pins.add(base as u64..(base + len) as u64)?;
        let attached = Attached::of_record(file.file.clone(), file.at);
        Ok(Self { file, attached, _added: added, mapping })
    }

    /// One more open file of the memory.
    pub(super) fn open(&self) -> Result<File> {
        self.file.open()
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
        self.file.record.flags
    }

    fn metadata(&self) -> Result<Metadata> {
        self.attached.load()
    }

    fn set_metadata(&self, metadata: Metadata) -> Result<()> {
        self.attached.store(&metadata)
    }
}
