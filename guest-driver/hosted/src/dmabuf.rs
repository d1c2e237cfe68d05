//! Memory that processes share, by descriptors they send each other.
//!
//! A descriptor refers to the file that holds all of a GPU's memory, opened for this purpose. Its position is
//! the offset of a *record* in the file: the size of the shared memory, its kind, and the parts of the file
//! that it consists of (`record.rs`). The process that receives the descriptor maps those parts: the pages
//! are the same, and so are atomics.
//!
//! A lock of the opened file on the record's first byte says that the descriptor, a copy of it or a mapping
//! made with it still exists (`F_OFD_SETLK`, fcntl(2)). The lock goes with the last of them, however
//! processes end. The exporter checks for such a lock before it answers a program: as long as there is one,
//! the memory counts as used.

mod descriptor;
mod foreign;
mod ipc;
mod metadata;
mod record;

pub use descriptor::Descriptor;
pub(crate) use descriptor::NAME;
pub(crate) use foreign::SharedFile;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io;
use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::sync::Arc;

use belfry_kfd_core::os::{AllocFlags, Backing, BoPage, DmaBuf, PAGE_SIZE, SharedMetadata, SystemPages as _};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};

use crate::arena::{Arena, Pages};
use crate::bars::Bars;
use crate::keeper::{Keeper, Kept};
use crate::ofd;
use crate::pins::Pins;
use crate::sync::lock;
pub(crate) use descriptor::Identity;
use foreign::Foreign;
use metadata::Attached;
use record::Record;

/// Memory that is shared.
#[derive(Clone)]
pub struct HostedDmaBuf(Memory);

#[derive(Clone)]
enum Memory {
    /// Of this GPU.
    Own(Arc<dyn Backing>),
    /// Of another process's GPU, or another GPU of this process.
    Foreign(Arc<Foreign>),
}

impl std::fmt::Debug for HostedDmaBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedDmaBuf").finish_non_exhaustive()
    }
}

impl HostedDmaBuf {
    pub(crate) fn own(backing: Arc<dyn Backing>) -> Self {
        Self(Memory::Own(backing))
    }
}

impl HostedDmaBuf {
    /// Returns true if both are the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Memory::Own(one), Memory::Own(other)) => Arc::ptr_eq(one, other),
            (Memory::Foreign(one), Memory::Foreign(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Returns true if the memory belongs to another GPU.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.0, Memory::Foreign(_))
    }
}

impl DmaBuf for HostedDmaBuf {
    fn backing(&self) -> Arc<dyn Backing> {
        match &self.0 {
            Memory::Own(backing) => backing.clone(),
            Memory::Foreign(foreign) => foreign.clone(),
        }
    }
}

/// Memory that has descriptors, and its record.
struct Export {
    backing: Arc<dyn Backing>,
    /// Pages of the record, kept while another process may read them.
    record: Pages,
    /// Place in the record of the metadata that programs attach.
    attached: Arc<dyn SharedMetadata>,
}

impl Export {
    /// Makes the record none.
    fn forget(&self) {
        self.record.write(0, &[0; record::NAME]);
    }
}

/// GPUs of the machine, by their numbers, whose VRAM a GPU reaches.
#[derive(Clone, Debug)]
pub(crate) struct Reached {
    /// Number of the GPU itself.
    pub(crate) own: u8,
    /// The others; `None` for all of them.
    pub(crate) others: Option<Vec<u8>>,
}

impl Reached {
    fn has(&self, gpu: u8) -> bool {
        gpu == self.own || self.others.as_ref().is_none_or(|others| others.contains(&gpu))
    }
}

/// Memory of this GPU that is shared.
pub(crate) struct Exports {
    keeper: Arc<Keeper>,
    memory: Arc<Kept>,
    identity: Identity,
    bars: Arc<Bars>,
    arena: Arc<Arena>,
    pins: Arc<Pins>,
    reached: Reached,
    /// By the places of the records in the file.
    table: Mutex<BTreeMap<u64, Export>, rank::Exports>,
}

impl std::fmt::Debug for Exports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exports").field("count", &lock(&self.table).len()).finish_non_exhaustive()
    }
}

fn errno(error: &io::Error) -> Errno {
    Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO))
}

impl Exports {
    /// `memory` is the file that `bars` and `arena` are mapped from.
    pub(crate) fn new(
        memory: &File,
        (bars, arena): (&Arc<Bars>, &Arc<Arena>),
        pins: &Arc<Pins>,
        reached: Reached,
    ) -> io::Result<Self> {
        let keeper = Keeper::start()?;
        Ok(Self {
            memory: Arc::new(keeper.keep(memory.as_raw_fd())?),
            keeper,
            identity: Identity::of(memory.as_raw_fd())?,
            bars: bars.clone(),
            arena: arena.clone(),
            pins: pins.clone(),
            reached,
            table: Mutex::default(),
        })
    }

    /// The file that VRAM and the driver's memory are mapped from, opened once more.
    pub(crate) fn memory(&self) -> io::Result<File> {
        self.memory.open()
    }

    /// The parts of the file that memory of this GPU is.
    fn parts(&self, backing: &dyn Backing) -> Result<Vec<(u64, u64)>> {
        let system = self.arena.memory();
        let mut parts: Vec<(u64, u64)> = Vec::new();
        for index in 0..backing.size() / PAGE_SIZE {
            let at = match backing.page(index).ok_or(Errno::ENODEV)? {
                BoPage::Vram(offset) => self.bars.vram.in_file(offset),
                BoPage::System { cpu, .. } => system.in_file(cpu as u64 - system.address()),
                BoPage::User(_) => return Err(Errno::EPERM),
            };
            match parts.last_mut() {
                Some((start, len)) if *start + *len == at => *len += PAGE_SIZE,
                _ => parts.push((at, PAGE_SIZE)),
            }
        }
        Ok(parts)
    }

    /// Writes the record of memory of this GPU.
    fn describe(&self, backing: &dyn Backing) -> Result<(u64, Pages)> {
        let record = Record {
            size: backing.size(),
            flags: backing.flags(),
            key: RandomState::new().build_hasher().finish() as u32,
            ipc_flags: 0,
            gpu: self.reached.own,
            parts: self.parts(backing)?,
        };
        let bytes = record.encode().ok_or(Errno::ENOMEM)?;
        let pages = self.arena.allocate(bytes.len().div_ceil(PAGE_SIZE as usize))?;
        pages.write(0, &bytes);
        let system = self.arena.memory();
        Ok((system.in_file(pages.cpu().as_ptr() as u64 - system.address()), pages))
    }

    /// Makes a descriptor.
    pub(crate) fn descriptor(&self, dmabuf: &HostedDmaBuf, flags: u32) -> Result<i32> {
        let file = match &dmabuf.0 {
            Memory::Own(backing) => self.open_own(backing)?,
            Memory::Foreign(foreign) => foreign.open()?,
        };
        if flags & libc::O_CLOEXEC as u32 == 0 {
            descriptor::inherit(&file).map_err(|error| errno(&error))?;
        }
        Ok(file.into_raw_fd())
    }

    fn open_own(&self, backing: &Arc<dyn Backing>) -> Result<File> {
        let file = self.memory.open().map_err(|error| errno(&error))?;
        // The lock is held until the record's lock is there: no other thread finds the record without one.
        let mut table = lock(&self.table);
        let same = |export: &Export| Arc::ptr_eq(&export.backing, backing);
        let (at, attached) = match table.iter().find(|(_, export)| same(export)) {
            Some((&at, export)) => (at, export.attached.clone()),
            None => {
                let (at, record) = self.describe(&**backing)?;
                let attached = Attached::of_record(self.memory.clone(), at);
                table.insert(at, Export { backing: backing.clone(), record, attached: attached.clone() });
                (at, attached)
            }
        };
        ofd::hold(&file, at).map_err(|error| errno(&error))?;
        drop(table);
        // Does nothing if the metadata is shared already.
        backing.share_metadata(&attached)?;
        Ok(file)
    }

    /// Finds the shared memory that a descriptor of the calling process refers to.
    pub(crate) fn get(&self, fd: i32) -> Result<HostedDmaBuf> {
        let descriptor = Descriptor::of(fd)?;
        if descriptor.identity() == self.identity {
            let table = lock(&self.table);
            let export = table.get(&descriptor.place()).ok_or(Errno::EINVAL)?;
            return Ok(HostedDmaBuf::own(export.backing.clone()));
        }
        // Also that of another process, whose GPU of this number is the same card.
        let Record { flags, gpu, .. } = *descriptor.record();
        if flags.contains(AllocFlags::VRAM) && !self.reached.has(gpu) {
            return Err(Errno::EINVAL);
        }
        let foreign = Foreign::map(&descriptor, &self.keeper, &self.pins)?;
        Ok(HostedDmaBuf(Memory::Foreign(Arc::new(foreign))))
    }

    /// Notes in the record the flags that importers of a handle see.
    fn set_ipc_flags(&self, descriptor: &Descriptor, flags: u32) {
        // Of memory that was imported itself, it is the exporter's to say.
        if let Some(export) = lock(&self.table).get(&descriptor.place())
            && descriptor.identity() == self.identity
        {
            export.record.write(record::IPC_FLAGS, &flags.to_le_bytes());
        }
    }

    /// Gives back memory of which no process has a descriptor or a mapping any more.
    pub(crate) fn reap(&self) {
        let gone: Vec<Export> = {
            let mut table = lock(&self.table);
            if table.is_empty() {
                return;
            }
            // Without a descriptor nothing is known, and all exports stay until the next call.
            let Ok(file) = self.memory.open() else { return };
            let unused: Vec<u64> =
                table.keys().copied().filter(|&at| ofd::claim(&file, at).is_ok()).collect();
            let gone = unused.iter().filter_map(|at| table.remove(at)).inspect(Export::forget).collect();
            // Not left to the closing of the file: a process that was forked meanwhile has it open, and the next record
            // may lie in the same place. Who has a handle can hold the place from here on, and finds no record in it.
            unused.iter().for_each(|&at| ofd::release(&file, at));
            gone
        };
        // Memory is given back without the lock.
        for export in gone {
            export.backing.unshare_metadata(&export.attached);
        }
    }

    /// Forgets all of it: the driver is going away. What others have is left to them, record and all.
    pub(crate) fn leave(&self) {
        self.reap();
        std::mem::take(&mut *lock(&self.table)).into_values().for_each(std::mem::forget);
    }
}
