//! GPU virtual memory: address spaces, their page tables, and access through them.
//!
//! Every fetch of the command processor and every TLB miss of a shader worker walks the tables of one [`AddressSpace`]:
//! a process's four levels, or VMID 0's flat GART beside the frame-buffer aperture. Workers cache results in their own
//! TLB; [`AddressSpace::invalidate`] changes the generation those caches carry and waits for the slices in progress.

#![expect(unsafe_code, reason = "promises the lifetime of the mappings it hands to the workers")]

mod atomics;
mod checks;
mod contexts;
mod debug;
mod faulty;
mod levels;
mod recent;
mod save;
mod slice;
mod values;
mod waits;
mod walk;
mod watched;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_isa::mem::{Access, Mapping, Mmu, Watch};
pub use belfry_isa::mem::{Fault, FaultKind};

use crate::chip::PteFormat;
use crate::memory::{Aperture, Memory, Quiescence, Slice as MemorySlice};
use crate::spent::{self, Part};
use crate::tools::Tools;
pub(crate) use contexts::{Contexts, FrameBuffer, ShaderMemory, Tables, VMIDS, fault_page};
pub use debug::{DebugSettings, LaunchControl, LaunchMode, WATCHES};
pub use levels::{Found, Level};
use recent::Recent;

pub(crate) use save::{SavedContexts, SavedRoot, SpaceList, Spaces};
pub(crate) use waits::Waits;
pub use walk::Translation;
use watched::Watched;

/// Bytes of the smallest page.
const PAGE: u64 = 1 << PAGE_SHIFT;
/// Deepest page directory: PDB2 -> PDB1 -> PDB0 -> PTB.
pub const MAX_DEPTH: u32 = 3;

/// Page-table registers of a VM context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// `PAGE_TABLE_BASE_ADDR`: where the top table is, in the form of a directory entry.
    pub base: u64,
    /// `PAGE_TABLE_DEPTH`: directory levels above the PTB; 0 is a flat table of PTEs, at most [`MAX_DEPTH`].
    pub depth: u32,
    /// log2 of the pages one PDB0 entry covers: the `PAGE_TABLE_BLOCK_SIZE` field plus 9.
    pub block_size: u32,
    /// First address translated, in bytes; the tables start here.
    pub start: u64,
    /// Last address translated, in bytes, inclusive.
    pub end: u64,
    /// Kind of the context.
    pub kind: RootKind,
    /// Format of the entries.
    pub format: PteFormat,
}

/// Kind of a VM context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RootKind {
    /// The kernel's context: addresses in `fb_start..=fb_end` are VRAM from `fb_offset` on, the tables hold the rest.
    Vmid0 {
        /// First byte of the frame-buffer aperture, `FB_LOCATION_BASE << 24`.
        fb_start: u64,
        /// Last byte of the aperture, inclusive.
        fb_end: u64,
        /// VRAM offset of the aperture's first byte.
        fb_offset: u64,
    },
    /// A process: only what its tables map.
    Process,
}

/// Reasons for refusing a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// More levels than the hardware has.
    #[error("page table depth {0} is more than {MAX_DEPTH}")]
    Depth(u32),
    /// A block size outside 9 to 24.
    #[error("page table block size {0} is not between 9 and 24")]
    BlockSize(u32),
}

/// Counts page-table walks of all address spaces that share it.
#[derive(Debug, Default)]
pub struct WalkCounter(AtomicU64);

impl WalkCounter {
    /// Walks so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// One virtual address space, shared by the queues and waves of a process.
pub struct AddressSpace {
    memory: Arc<Memory>,
    root: Root,
    walks: Arc<WalkCounter>,
    generation: AtomicU64,
    /// Slices of this space, which are slices of the memory, too.
    quiescence: Arc<Quiescence>,
    context: u64,
    debugger: debug::Debugger,
    waits: Waits,
    /// State that tools keep of it, if there are tools that change or check its translations.
    watched: Option<Box<Watched>>,
}

/// A span of work in an address space: while it lasts, translated addresses stay in place.
#[derive(Debug)]
pub struct Slice<'a> {
    space: &'a AddressSpace,
    memory: MemorySlice<'a>,
}

impl std::fmt::Debug for AddressSpace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AddressSpace")
            .field("number", &format_args!("{}", self.context))
            .field("root", &self.root)
            .field("flushes", &format_args!("{}", self.generation.load(Ordering::Relaxed) - 1))
            .field("walks", &format_args!("{}", self.walks.get()))
            .finish_non_exhaustive()
    }
}

static NEXT_CONTEXT: AtomicU64 = AtomicU64::new(1);

impl AddressSpace {
    /// An address space over the tables at `root`.
    ///
    /// # Errors
    ///
    /// [`Error::Depth`] for more levels than the hardware has, [`Error::BlockSize`] for a block size outside
    /// of 9 to 24.
    pub fn new(memory: Arc<Memory>, root: Root, walks: Arc<WalkCounter>) -> Result<AddressSpace, Error> {
        if root.depth > MAX_DEPTH {
            return Err(Error::Depth(root.depth));
        }
        if !(9..=24).contains(&root.block_size) {
            return Err(Error::BlockSize(root.block_size));
        }
        let quiescence = memory.counter();
        Ok(AddressSpace {
            memory,
            root,
            walks,
            generation: AtomicU64::new(1),
            quiescence,
            context: NEXT_CONTEXT.fetch_add(1, Ordering::Relaxed),
            debugger: debug::Debugger::default(),
            waits: Waits::default(),
            watched: None,
        })
    }

    /// Adds the tools that change or check translations.
    pub(crate) fn watched_by(self, tools: &Tools) -> AddressSpace {
        AddressSpace { watched: Watched::new(tools), ..self }
    }

    /// Sets whether waves and queues of this space wait for pages that they do not have.
    pub(crate) fn set_waiting(&self, on: bool) {
        self.waits.set(on);
    }

    /// The pages that waves and queues of this space wait for; `None` if they do not wait.
    pub(crate) fn waits(&self) -> Option<&Waits> {
        self.waits.is_on().then_some(&self.waits)
    }

    /// Returns `Some` if an access that failed like this is tried again, with true if the driver is to be
    /// told of it.
    pub(crate) fn tries_again(&self, fault: &Fault) -> Option<bool> {
        let waits = self.waits().filter(|_| Waits::may(fault))?;
        Some(waits.is_news(fault.va))
    }

    /// Sets a debugger's settings for the waves of this space: they apply to launches and turns that begin
    /// later.
    pub fn set_debug(&self, settings: &DebugSettings) {
        self.debugger.set(settings);
    }

    /// Control of wave launches.
    #[inline(always)]
    pub(crate) fn launch_control(&self) -> LaunchControl {
        self.debugger.launch()
    }

    /// The addresses that are watched; `None` if there are none.
    pub(crate) fn watches(&self) -> Option<[Option<Watch>; WATCHES]> {
        self.debugger.watches()
    }

    /// The root this space was made from.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Physical memory underneath.
    #[must_use]
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Begins a slice; see [`Memory::enter`]. Do not call [`AddressSpace::invalidate`] inside one.
    #[must_use]
    pub fn enter(&self) -> Slice<'_> {
        Slice { space: self, memory: self.memory.slice(&self.quiescence) }
    }

    /// Forgets cached translations; returns when no engine uses an old one any more.
    pub fn invalidate(&self) {
        if let Some(watched) = &self.watched {
            watched.invalidates(&self.root);
        }
        self.quiescence.wait_after(|| {
            self.generation.fetch_add(1, Ordering::SeqCst);
        });
        if let Some(watched) = &self.watched {
            watched.invalidated();
        }
        self.waits.forget();
    }

    /// Walks the page tables for `va`.
    ///
    /// # Errors
    ///
    /// A page that is not mapped, or that does not allow the access.
    pub fn translate(&self, va: u64, access: Access) -> Result<Translation, Fault> {
        self.translate_in(&self.enter(), va, access)
    }

    /// Walks the page tables for `va` without counting the walk, for tools that inspect the device.
    #[must_use]
    pub fn peek(&self, va: u64) -> Option<Translation> {
        let access = [Access::Read, Access::Execute, Access::Write];
        let slice = self.memory.enter();
        access.into_iter().find_map(|access| walk::walk(&self.memory, &slice, &self.root, va, access).ok())
    }

    fn translate_in(&self, slice: &Slice<'_>, va: u64, access: Access) -> Result<Translation, Fault> {
        self.walks.0.fetch_add(1, Ordering::Relaxed);
        if let Some(watched) = &self.watched
            && let Some(answer) = watched.before_walk(va, access)
        {
            return answer;
        }
        let _walk = spent::enter(Part::Walks);
        let translation = walk::walk(&self.memory, &slice.memory, &self.root, va, access)?;
        if let Some(watched) = &self.watched {
            watched.walked(&self.root, va, &translation);
        }
        Ok(translation)
    }

    /// Key of the blocks that this thread has [just used](recent); `None` if accesses are watched and have to
    /// walk.
    #[inline]
    fn known(&self) -> Option<recent::Known> {
        let watched = self.watched.as_ref().is_some_and(|watched| watched.sees_walks());
        let watched = watched || self.memory.is_mirrored();
        // An invalidation, or a change of the memory map, first changes the generation, and then waits for
        // the end of the slices that have begun before.
        (!watched).then(|| (self.context, Mmu::generation(self)))
    }

    /// Remembers the page at `va`, as far as memory is contiguous from its start.
    fn remember(&self, slice: &Slice<'_>, known: recent::Known, va: u64, translation: &Translation) {
        // Loads and stores of such a page are elsewhere.
        if translation.location.aperture == Aperture::Nowhere {
            return;
        }
        let page = va & !(PAGE - 1);
        let Some(before) = page.checked_sub(translation.va) else { return };
        let Some(location) = translation.locate(page) else { return };
        let Some(block) = self.memory.block(&slice.memory, location, Access::Read) else { return };
        let len = (translation.len - before).min(block.len());
        recent::put(known, va, Recent { va: page, host: block.host(), len, rights: translation.rights() });
    }

    /// Checks that `va` is mapped for an access: in a block that this thread has [just used](recent), or by a
    /// walk.
    fn reaches(&self, slice: &Slice<'_>, va: u64, access: Access) -> Result<(), Fault> {
        let known = self.known();
        if known.is_some_and(|known| recent::get(known, va, access).is_some()) {
            return Ok(());
        }
        let translation = self.translate_in(slice, va, access)?;
        if let Some(known) = known {
            self.remember(slice, known, va, &translation);
        }
        Ok(())
    }

    /// The block at `va`, and the number of its bytes that consecutive addresses map.
    #[inline]
    fn block_at<'a>(
        &self,
        slice: &'a Slice<'_>,
        va: u64,
        access: Access,
    ) -> Result<(crate::memory::Block<'a>, u64), Fault> {
        let known = self.known();
        if let Some(known) = known
            && let Some(Recent { host, len, .. }) = recent::get(known, va, access)
        {
            // SAFETY: `len` bytes were mapped at `host` in this generation, which was read inside of the
            // slice. A thread that takes the memory away changes the generation first, and then waits for the
            // end of the slice.
            return Ok((unsafe { crate::memory::Block::new(host, len) }, len));
        }
        self.walk_to(slice, known, va, access)
    }

    /// [`Self::block_at`] by a walk.
    #[inline(never)]
    fn walk_to<'a>(
        &self,
        slice: &'a Slice<'_>,
        known: Option<recent::Known>,
        va: u64,
        access: Access,
    ) -> Result<(crate::memory::Block<'a>, u64), Fault> {
        let bus = Fault::new(va, access, FaultKind::Bus);
        let translation = self.translate_in(slice, va, access)?;
        let location = translation.locate(va).ok_or(bus)?;
        let block = self.memory.block(&slice.memory, location, access).ok_or(bus)?;
        if let Some(known) = known {
            self.remember(slice, known, va, &translation);
        }
        Ok((block, (translation.len - (va - translation.va)).min(block.len())))
    }
}

// SAFETY: a mapping lies in VRAM, which lives as long as this space, or in the guest's memory map in use, which
// `Memory::changed` drops only after changing the generation and waiting for every slice (`enter`) that began before. The
// shader workers, the only callers of `run`, hold a slice of this space around each `run`.
unsafe impl Mmu for AddressSpace {
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault> {
        // No TLB has the code that is executed: the code of each dispatch is compared with the earlier one.
        let known = self.known().filter(|_| access == Access::Execute);
        if let Some(known) = known
            && let Some(Recent { va, host, len, rights }) = recent::get(known, va & !(PAGE - 1), access)
        {
            let writable = rights.allow(Access::Atomic);
            let executable = rights.executable;
            return Ok(Mapping { va, len, host, writable, executable, mirrored: false, alone: false });
        }
        let slice = self.enter();
        let bus = Fault::new(va, access, FaultKind::Bus);
        let translation = self.translate_in(&slice, va, access)?;
        if let Some(known) = known {
            self.remember(&slice, known, va, &translation);
        }
        let location = translation.locate(va).ok_or(bus)?;
        if let Some(watched) = &self.watched {
            watched.accessed(&self.root, va, access, location)?;
        }
        let (before, host, after) = self.memory.surroundings(&slice.memory, location, access).ok_or(bus)?;
        let nowhere = location.aperture == Aperture::Nowhere;
        // Contiguous both in the translation and in the host's mapping of the physical memory.
        let before = before.min(va - translation.va);
        let after = after.min(translation.len - (va - translation.va));
        let (before, after) = match &self.watched {
            None => (before, after),
            Some(watched) => watched.moment_of(va, location, (before, after)),
        };
        Ok(Mapping {
            va: va - before,
            len: before + after,
            host: host.wrapping_sub(before as usize),
            writable: translation.writable && translation.readable && !(nowhere && access == Access::Read),
            executable: translation.executable,
            mirrored: self.memory.is_mirrored(),
            alone: nowhere && access.is_write(),
        })
    }

    fn update(&self, va: u64, size: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        self.update_mirrored(va, size, update)?.ok_or(Fault::new(va, Access::Atomic, FaultKind::Bus))
    }

    fn generation(&self) -> u64 {
        // Both only grow, so the sum changes whenever one of them does.
        self.generation.load(Ordering::SeqCst).wrapping_add(self.memory.generation())
    }

    fn context(&self) -> u64 {
        self.context
    }
}
