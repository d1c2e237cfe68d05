//! Guest memory as a wave sees it: address translation, its cache, and access by raw pointer.
//!
//! Guest memory is shared with the guest's CPUs and with other workers, so nothing here ever makes a Rust reference
//! to it: every access is one volatile or atomic access, or those of `words.rs`, through the host pointer a
//! [`Mapping`] gives. A racing writer can tear an access that is wider than eight bytes or not aligned; it cannot
//! make it unsound.

#![expect(
    unsafe_code,
    reason = "guest memory is shared and changes under us: raw pointers, never references"
)]

mod code;
mod each;
mod tlb;
mod watch;
mod words;

use crate::lanes::words::Unaligned;
pub(crate) use tlb::Known;
pub(crate) use tlb::PAGE_SIZE;
pub use tlb::Tlb;
#[cfg(target_arch = "x86_64")]
pub(crate) use tlb::{Entry as TlbEntry, Span};
pub use watch::{Watch, WatchMode};

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Kind of a memory access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Load.
    Read,
    /// Store.
    Write,
    /// Read-modify-write.
    Atomic,
    /// Instruction fetch.
    Execute,
}

impl Access {
    /// Returns true if the access changes memory.
    #[inline]
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::Atomic)
    }
}

/// A piece of GPU virtual memory that is contiguous on the host.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    /// First GPU virtual address.
    pub va: u64,
    /// Bytes. `va..va + len` is contiguous at `host`.
    pub len: u64,
    /// Host address of `va`, valid for `len` bytes until the [`Mmu::generation`] it was read under has passed.
    pub host: *mut u8,
    /// Stores and atomics are allowed.
    pub writable: bool,
    /// Instruction fetch is allowed.
    pub executable: bool,
    /// True if `host` points at a copy of the memory, kept by the owner of the [`Mmu`]: each store is then translated
    /// anew, and [`Mmu::update`] does the atomics.
    pub mirrored: bool,
    /// True if it serves one access of its kind by the thread that has asked, and is not to be kept.
    pub alone: bool,
}

/// Why an access of memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// No valid entry.
    NotPresent,
    /// Loads are not allowed.
    NoRead,
    /// Stores are not allowed.
    ReadOnly,
    /// Instruction fetch is not allowed.
    NoExecute,
    /// The tables or the page point at nothing the device can reach, or the atomic is misaligned.
    Bus,
    /// Outside the memory of the shared or the private aperture; no page table has been asked.
    Aperture,
    /// The memory holds an error that cannot be corrected (ECC).
    Poison,
}

impl FaultKind {
    /// Returns the fault of a page that does not allow this access.
    #[must_use]
    pub const fn refusal(access: Access) -> Self {
        match access {
            Access::Read => Self::NoRead,
            Access::Write | Access::Atomic => Self::ReadOnly,
            Access::Execute => Self::NoExecute,
        }
    }

    /// Returns true if there is a page, and it does not allow the access.
    #[must_use]
    pub const fn is_permission(self) -> bool {
        matches!(self, Self::NoRead | Self::ReadOnly | Self::NoExecute)
    }
}

/// A refused access of memory, as the page walk found it, or the memory that the translation leads to.
///
/// This is the one description of a fault, for engines, interrupts and logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{access:?} of {va:#x}: {kind:?}{}", place(*.level))]
pub struct Fault {
    /// GPU virtual address.
    pub va: u64,
    /// Kind of the access that failed.
    pub access: Access,
    /// Reason of the fault.
    pub kind: FaultKind,
    /// Level of the table that refused it, 0 for the PTB; `None` where the tables were not asked, or had translated the
    /// address and there is no memory behind it.
    pub level: Option<u8>,
}

// A look-up in the TLB comes back in two registers: every access of memory goes through one.
const _: () = assert!(size_of::<Result<*mut u8, Fault>>() == 2 * size_of::<u64>());

/// Returns the level that refused the access, as words for the fault's text.
fn place(level: Option<u8>) -> String {
    level.map_or_else(String::new, |level| format!(" at level {level}"))
}

impl Fault {
    /// A fault that no table refused.
    #[must_use]
    pub const fn new(va: u64, access: Access, kind: FaultKind) -> Self {
        Self { va, access, kind, level: None }
    }
}

/// Address translation of one address space.
///
/// # Safety
///
/// The memory behind a returned [`Mapping`] is `len` bytes of host memory, writable if the mapping says so, and stays so
/// until every `run` that began under the same generation has returned: change the generation first, wait for the
/// runs in progress to end, and only then unmap. No Rust reference to that memory may exist meanwhile.
pub unsafe trait Mmu: Send + Sync {
    /// Translates `va`; the mapping returned contains `va` and allows `access`.
    ///
    /// # Errors
    ///
    /// A page that is not mapped, or that does not allow the access.
    fn translate(&self, va: u64, access: Access) -> Result<Mapping, Fault>;

    /// Changes whenever cached mappings have become stale. Read at the start of every [`run`](crate::exec::run).
    fn generation(&self) -> u64;

    /// Tells address spaces apart that share a worker's [`Tlb`]; unique for the life of the process.
    fn context(&self) -> u64;

    /// Atomically replaces the naturally aligned word of `size` bytes (4 or 8) at `va` by `update(old)` and returns the old one,
    /// where mappings are [mirrored](Mapping::mirrored): in the memory and in its copy.
    ///
    /// # Errors
    ///
    /// Faults as [`Self::translate`] does; a bus fault if nothing is mirrored.
    fn update(&self, va: u64, _size: u64, _update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        Err(Fault::new(va, Access::Atomic, FaultKind::Bus))
    }
}

/// Bases of the shared (LDS) and private (scratch) windows of the flat address space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub struct Apertures {
    /// `SH_MEM_BASES.SHARED_BASE << 48`: 4 GiB from here are LDS. 0: there is no shared window.
    pub shared_base: u64,
    /// `SH_MEM_BASES.PRIVATE_BASE << 48`: 4 GiB from here are scratch. 0: there is no private window.
    pub private_base: u64,
}

/// Memory that a flat address means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Segment {
    /// GPU virtual memory.
    Global(u64),
    /// LDS byte offset.
    Shared(u32),
    /// Byte offset in the lane's private memory.
    Private(u32),
}

impl Apertures {
    /// Decodes a flat address.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the offset within a 4 GiB window")]
    pub(crate) fn segment(self, va: u64) -> Segment {
        let window = va >> 32;
        if window != 0 && window == self.shared_base >> 32 {
            Segment::Shared(va as u32)
        } else if window != 0 && window == self.private_base >> 32 {
            Segment::Private(va as u32)
        } else {
            Segment::Global(va)
        }
    }
}

/// A value memory instructions move: 8 to 64 bits.
pub(crate) trait Word: Copy + Default + 'static {
    /// Bytes.
    const SIZE: u64;
    /// From the low bits of `bits`.
    fn from_u64(bits: u64) -> Self;
    /// Zero-extended.
    fn to_u64(self) -> u64;
}

macro_rules! word {
    ($($type:ty)*) => {$(
        impl Word for $type {
            const SIZE: u64 = size_of::<$type>() as u64;
            #[inline(always)]
            #[allow(clippy::cast_possible_truncation, clippy::unnecessary_cast, reason = "one macro for all widths")]
            fn from_u64(bits: u64) -> Self {
                bits as $type
            }
            #[inline(always)]
            #[allow(clippy::cast_lossless, clippy::unnecessary_cast, reason = "one macro for all widths")]
            fn to_u64(self) -> u64 {
                self as u64
            }
        }
    )*};
}
word!(u8 u16 u32 u64);

/// The address space of the wave being run: translation plus its cache.
pub(crate) struct Global<'a> {
    pub(crate) mmu: &'a dyn Mmu,
    pub(crate) tlb: &'a mut Tlb,
}

impl Global<'_> {
    /// Loads one value.
    #[inline(always)]
    pub(crate) fn load<T: Word>(&mut self, va: u64) -> Result<T, Fault> {
        if T::SIZE > 1 && crosses(va, T::SIZE) {
            return self.load_bytes(va);
        }
        let host = self.tlb.lookup(self.mmu, va, Access::Read)?;
        // SAFETY: the TLB gave a pointer good to the end of the page, and the access does not cross it.
        Ok(unsafe { host.cast::<Unaligned<T>>().read_volatile() }.0)
    }

    /// Stores one value.
    #[inline(always)]
    pub(crate) fn store<T: Word>(&mut self, va: u64, value: T) -> Result<(), Fault> {
        if T::SIZE > 1 && crosses(va, T::SIZE) {
            return self.store_bytes(va, value);
        }
        let host = self.tlb.lookup(self.mmu, va, Access::Write)?;
        // SAFETY: as in `load`, and the entry is for a writable page.
        unsafe { host.cast::<Unaligned<T>>().write_volatile(Unaligned(value)) };
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn load_bytes<T: Word>(&mut self, va: u64) -> Result<T, Fault> {
        let mut bits = 0;
        for byte in 0..T::SIZE {
            bits |= u64::from(self.load::<u8>(va.wrapping_add(byte))?) << (byte * 8);
        }
        Ok(T::from_u64(bits))
    }

    #[cold]
    #[inline(never)]
    fn store_bytes<T: Word>(&mut self, va: u64, value: T) -> Result<(), Fault> {
        // Both pages must be writable before either byte changes.
        self.tlb.lookup(self.mmu, va.wrapping_add(T::SIZE - 1), Access::Write)?;
        for byte in 0..T::SIZE {
            self.store::<u8>(va.wrapping_add(byte), u8::from_u64(value.to_u64() >> (byte * 8)))?;
        }
        Ok(())
    }

    /// Checks that a store of `bytes` bytes at `va`, at most a page, can be done as a whole. Only a store that
    /// reaches into a second page is looked up: within one page, the store itself is done as a whole or not at all.
    #[inline(always)]
    pub(crate) fn reaches(&mut self, va: u64, bytes: u64) -> Result<(), Fault> {
        if !crosses(va, bytes) {
            return Ok(());
        }
        self.tlb.lookup(self.mmu, va, Access::Write)?;
        self.tlb.lookup(self.mmu, va.wrapping_add(bytes - 1), Access::Write)?;
        Ok(())
    }

    /// Atomically replaces the word at `va` by `update(old)` and returns the old one.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "words of 32 bits, zero-extended")]
    pub(crate) fn update_u32(&mut self, va: u64, update: impl Fn(u32) -> u32) -> Result<u32, Fault> {
        let host = self.atomic_pointer(va, 4)?;
        if self.tlb.is_mirrored() {
            return Ok(self.update_mirrored(va, 4, &|old| update(old as u32).into())? as u32);
        }
        // SAFETY: aligned, inside a writable page, and only ever accessed atomically or by volatile accesses.
        let word = unsafe { AtomicU32::from_ptr(host.cast()) };
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(update(old)))
            .unwrap_or_else(|old| old))
    }

    /// Atomically adds to the word at `va` and returns the old one.
    #[inline(always)]
    pub(crate) fn add_u32(&mut self, va: u64, value: u32) -> Result<u32, Fault> {
        let host = self.atomic_pointer(va, 4)?;
        if self.tlb.is_mirrored() {
            return self.update_u32(va, |old| old.wrapping_add(value));
        }
        // SAFETY: as in `update_u32`.
        Ok(unsafe { AtomicU32::from_ptr(host.cast()) }.fetch_add(value, Ordering::SeqCst))
    }

    /// Atomically replaces the 64-bit word at `va` by `update(old)` and returns the old one.
    #[inline(always)]
    pub(crate) fn update_u64(&mut self, va: u64, update: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let host = self.atomic_pointer(va, 8)?;
        if self.tlb.is_mirrored() {
            return self.update_mirrored(va, 8, &update);
        }
        // SAFETY: as in `update_u32`.
        let word = unsafe { AtomicU64::from_ptr(host.cast()) };
        Ok(word
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |old| Some(update(old)))
            .unwrap_or_else(|old| old))
    }

    /// Executes an atomic on memory that is mirrored. The value found may be newer than every cached page, so the TLB
    /// is brought up to date after it.
    #[cold]
    #[inline(never)]
    fn update_mirrored(&mut self, va: u64, size: u64, update: &dyn Fn(u64) -> u64) -> Result<u64, Fault> {
        let old = self.mmu.update(va, size, update)?;
        self.tlb.synchronise(self.mmu);
        Ok(old)
    }

    /// Host pointer for an atomic, which hardware wants naturally aligned.
    #[inline(always)]
    fn atomic_pointer(&mut self, va: u64, size: u64) -> Result<*mut u8, Fault> {
        if !va.is_multiple_of(size) {
            return Err(Fault::new(va, Access::Atomic, FaultKind::Bus));
        }
        let host = self.tlb.lookup(self.mmu, va, Access::Atomic)?;
        if !(host as u64).is_multiple_of(size) {
            return Err(Fault::new(va, Access::Atomic, FaultKind::Bus));
        }
        Ok(host)
    }
}

/// Returns true if `size` bytes at `va` reach into the next page.
#[inline(always)]
fn crosses(va: u64, size: u64) -> bool {
    va % PAGE_SIZE > PAGE_SIZE - size
}
