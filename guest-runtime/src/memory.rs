//! Memory: pools, raw allocations, and typed buffers over them.
//!
//! An allocation has one address for processor and GPU. The host never holds references into it, because the GPU
//! may change it at any time: data is copied in and out, shared words are accessed atomically.
#![expect(unsafe_code, reason = "copies to and from memory shared with the GPU")]

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use belfry_abi::kfd::memory::AllocFlags;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::kfd::{Kfd, KfdError};
use crate::reservation::{PAGE, Reservation};
use crate::transport::{Errno, Node, Protection};

/// Allocations of this size and more are aligned to it, so that the driver can map them with huge pages.
const HUGE_PAGE: usize = 2 << 20;

/// Why an allocation or a copy failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// Zero bytes, or more than there are addresses for.
    #[error("cannot allocate {count} elements of {size} bytes")]
    Size {
        /// Elements asked for.
        count: usize,
        /// Bytes of one.
        size: usize,
    },
    /// The process has no address space or memory left.
    #[error("cannot reserve {size:#x} bytes of address space: {errno}")]
    Reserve {
        /// Bytes asked for.
        size: usize,
        /// Errno of mmap.
        errno: Errno,
    },
    /// The driver refused.
    #[error("cannot allocate {size:#x} bytes of {kind}: {error}")]
    Driver {
        /// The pool's name.
        kind: MemoryKind,
        /// Bytes asked for.
        size: usize,
        /// The request that failed.
        error: KfdError,
    },
    /// A copy would leave the buffer.
    #[error("elements {start}..{end} do not lie in a buffer of {len}")]
    OutOfRange {
        /// First element.
        start: usize,
        /// Index after the last element.
        end: usize,
        /// Elements of the buffer.
        len: usize,
    },
}

/// Place of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryKind {
    /// The GPU's own memory, mapped for the processor as well.
    Vram,
    /// System memory of the driver, coherent with the processor (fine-grained).
    Gtt,
    /// This process's own pages, pinned for the GPU.
    UserPtr,
}

impl std::fmt::Display for MemoryKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Vram => "VRAM",
            Self::Gtt => "GTT",
            Self::UserPtr => "user memory",
        })
    }
}

/// Access of the processor to an allocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostAccess {
    /// Mapped readable and writable.
    ReadWrite,
    /// Addresses only: reserved, not mapped.
    None,
}

/// A buffer object, mapped at one address for the GPUs and (unless it has no host access) the processor.
#[derive(Debug)]
pub(crate) struct Allocation {
    kfd: Arc<Kfd>,
    gpus: Vec<u32>,
    handle: u64,
    range: Reservation,
    access: HostAccess,
    kind: MemoryKind,
    /// The driver keeps it for the life of the process: do not free.
    immortal: bool,
}

impl Allocation {
    /// Allocates `size` bytes (rounded up to pages) on the first of `gpus` and maps them on all of them.
    pub(crate) fn new(
        kfd: &Arc<Kfd>,
        gpus: &[u32],
        kind: MemoryKind,
        access: HostAccess,
        size: usize,
    ) -> Result<Self, MemoryError> {
        let len = size.checked_next_multiple_of(PAGE).filter(|len| *len > 0);
        let len = len.ok_or(MemoryError::Size { count: size, size: 1 })?;
        // Memory of VRAM is in blocks that are aligned to their size: where addresses are as well, few translations cover it.
        let align = (1 << len.ilog2()).clamp(PAGE, HUGE_PAGE);
        let range = Reservation::new(len, align, kind == MemoryKind::UserPtr)
            .map_err(|errno| MemoryError::Reserve { size: len, errno })?;
        let common = AllocFlags::WRITABLE | AllocFlags::EXECUTABLE | AllocFlags::NO_SUBSTITUTE;
        let fine = AllocFlags::COHERENT | AllocFlags::UNCACHED;
        let flags = match (kind, access) {
            (MemoryKind::Vram, HostAccess::ReadWrite) => common | AllocFlags::VRAM | AllocFlags::PUBLIC,
            (MemoryKind::Vram, HostAccess::None) => common | AllocFlags::VRAM,
            (MemoryKind::Gtt, _) => common | fine | AllocFlags::GTT,
            (MemoryKind::UserPtr, _) => common | fine | AllocFlags::USERPTR,
        };
        let driver = |error| MemoryError::Driver { kind, size: len, error };
        if (kind, access) == (MemoryKind::Vram, HostAccess::ReadWrite) {
            kfd.host_path().prepare(kfd, gpus[0]).map_err(driver)?;
        }
        let va = range.addr().as_ptr().expose_provenance() as u64;
        // The driver takes whole pages, and may need the exact size that is asked for.
        let (handle, offset) = kfd.alloc(gpus[0], va, size as u64, flags).map_err(driver)?;
        // From here on, drop undoes the steps before.
        let gpus = gpus.to_vec();
        let allocation = Self { kfd: Arc::clone(kfd), gpus, handle, range, access, kind, immortal: false };
        if access == HostAccess::ReadWrite && kind != MemoryKind::UserPtr {
            let protection = Protection::READ | Protection::WRITE;
            // SAFETY: the range is this allocation's own reservation, which nothing uses yet.
            unsafe {
                kfd.transport().mmap(
                    Node::Render(allocation.gpus[0]),
                    Some(va as usize),
                    len,
                    protection,
                    offset,
                )
            }
            .map_err(|errno| driver(KfdError { operation: "mmap", errno }))?;
        }
        kfd.map(handle, &allocation.gpus).map_err(driver)?;
        Ok(allocation)
    }

    /// Keeps the buffer object when this value goes: the driver holds on to it.
    pub(crate) fn into_immortal(mut self) -> Self {
        self.immortal = true;
        self
    }

    pub(crate) fn address(&self) -> u64 {
        self.range.addr().as_ptr().expose_provenance() as u64
    }

    pub(crate) fn len(&self) -> usize {
        self.range.len()
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    pub(crate) fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// The pointer to `size` bytes at `offset`.
    ///
    /// # Panics
    ///
    /// When the range leaves the allocation or the host has no access: offsets are computed here in the crate, and
    /// offsets that come from a program are checked before.
    fn pointer(&self, offset: usize, size: usize) -> NonNull<u8> {
        let inside = offset.checked_add(size).is_some_and(|end| end <= self.len());
        assert!(inside && self.access == HostAccess::ReadWrite, "{offset:#x}+{size:#x} of {:#x}", self.len());
        // SAFETY: the offset lies inside the reservation.
        unsafe { self.range.addr().add(offset) }
    }

    pub(crate) fn write_bytes(&self, offset: usize, bytes: &[u8]) {
        let target = self.pointer(offset, bytes.len());
        // SAFETY: the range is mapped and writable, and `bytes` cannot overlap it, since no reference into the
        // allocation exists.
        unsafe { target.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        self.written();
    }

    /// Notes that the processor has written to it. Atomic stores do not note this themselves: call it after them.
    pub(crate) fn written(&self) {
        if self.kind == MemoryKind::Vram {
            self.kfd.host_path().written();
        }
    }

    pub(crate) fn read_bytes(&self, offset: usize, bytes: &mut [u8]) {
        let source = self.pointer(offset, bytes.len());
        // SAFETY: as in `write_bytes`.
        unsafe { source.as_ptr().copy_to_nonoverlapping(bytes.as_mut_ptr(), bytes.len()) };
    }

    pub(crate) fn zero(&self, offset: usize, size: usize) {
        let target = self.pointer(offset, size);
        // SAFETY: the range is mapped and writable.
        unsafe { target.as_ptr().write_bytes(0, size) };
        self.written();
    }

    pub(crate) fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) {
        self.write_bytes(offset, value.as_bytes());
    }

    fn aligned<T>(&self, offset: usize) -> *mut T {
        let pointer = self.pointer(offset, size_of::<T>()).as_ptr().cast::<T>();
        assert!(pointer.is_aligned(), "{offset:#x} is not aligned");
        pointer
    }

    pub(crate) fn atomic_u32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: in range, aligned, mapped as long as `self` lives; such words are only accessed atomically.
        unsafe { AtomicU32::from_ptr(self.aligned(offset)) }
    }

    pub(crate) fn atomic_u64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: as for `atomic_u32`.
        unsafe { AtomicU64::from_ptr(self.aligned(offset)) }
    }

    pub(crate) fn atomic_i64(&self, offset: usize) -> &AtomicI64 {
        // SAFETY: as for `atomic_u32`.
        unsafe { AtomicI64::from_ptr(self.aligned(offset)) }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if !self.immortal {
            // A driver that is being removed fails these; the file's close releases the rest.
            let result = self.kfd.unmap(self.handle, &self.gpus).and_then(|()| self.kfd.free(self.handle));
            if let Err(error) = result {
                log::warn!("freeing {:#x} bytes of {} failed: {error}", self.len(), self.kind);
            }
        }
        // The map goes with the reservation in any case, so the transport has to know: hosted, the addresses are
        // another process's at once.
        if self.access == HostAccess::ReadWrite && self.kind != MemoryKind::UserPtr {
            // SAFETY: this value owned the map, and nothing refers to it any more.
            match unsafe { self.kfd.transport().munmap(self.range.addr().as_ptr(), self.len()) } {
                Ok(()) => self.range.forget(),
                Err(errno) => {
                    log::warn!("unmapping {:#x} bytes of {} failed: {errno}", self.len(), self.kind);
                }
            }
        }
    }
}

/// Types whose values are plain bytes, so that the GPU may write any of them.
///
/// Implemented for every type with zerocopy's `FromBytes`, `IntoBytes` and `Immutable`: numbers, arrays of them,
/// `#[repr(C)]` structs without padding that derive them.
pub trait Pod: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static {}

impl<T: FromBytes + IntoBytes + Immutable + Copy + Send + Sync + 'static> Pod for T {}

/// A source of memory of one kind on one GPU.
///
/// ```no_run
/// # fn main() -> Result<(), belfry_runtime::Error> {
/// let runtime = belfry_runtime::Runtime::open()?;
/// let input = runtime.gpu().vram().buffer_from(&[1.0f32, 2.0, 3.0])?;
/// assert_eq!(input.to_vec()[1], 2.0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Pool {
    pub(crate) kfd: Arc<Kfd>,
    /// The GPU that it is of, and those that reach it as well.
    pub(crate) gpus: Vec<u32>,
    pub(crate) kind: MemoryKind,
}

impl Pool {
    /// The kind of memory.
    pub fn kind(&self) -> MemoryKind {
        self.kind
    }

    /// A buffer of `len` elements, all zero bytes.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] for no elements at all, and when memory or addresses run out.
    pub fn buffer<T: Pod>(&self, len: usize) -> Result<Buffer<T>, MemoryError> {
        let buffer = self.raw(len)?;
        buffer.allocation.zero(0, buffer.allocation.len());
        Ok(buffer)
    }

    /// A buffer of `len` elements that was not written: its bytes are undefined.
    ///
    /// # Errors
    ///
    /// As [`buffer`](Self::buffer).
    pub fn unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, MemoryError> {
        self.raw(len)
    }

    /// A buffer that holds a copy of `data`.
    ///
    /// # Errors
    ///
    /// As [`buffer`](Self::buffer).
    pub fn buffer_from<T: Pod>(&self, data: &[T]) -> Result<Buffer<T>, MemoryError> {
        let buffer = self.raw(data.len())?;
        buffer.allocation.write_bytes(0, data.as_bytes());
        Ok(buffer)
    }

    fn raw<T: Pod>(&self, len: usize) -> Result<Buffer<T>, MemoryError> {
        let size = size_of::<T>();
        let bytes = len.checked_mul(size).filter(|bytes| *bytes > 0);
        let bytes = bytes.ok_or(MemoryError::Size { count: len, size })?;
        let allocation = Allocation::new(&self.kfd, &self.gpus, self.kind, HostAccess::ReadWrite, bytes)?;
        Ok(Buffer { allocation: Arc::new(allocation), len, element: PhantomData })
    }
}

/// `len` elements of `T` that processor and GPU share; the memory is freed with the last clone and the last launch
/// that uses it.
///
/// Host access copies. Order it after GPU work by waiting for the work's completion first.
#[derive(Debug)]
pub struct Buffer<T> {
    allocation: Arc<Allocation>,
    len: usize,
    element: PhantomData<T>,
}

impl<T> Clone for Buffer<T> {
    fn clone(&self) -> Self {
        Self { allocation: Arc::clone(&self.allocation), len: self.len, element: PhantomData }
    }
}

impl<T> Buffer<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// False: buffers have at least one element.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Address, the same for processor and GPU.
    pub fn address(&self) -> u64 {
        self.allocation.address()
    }

    /// Place of the memory.
    pub fn kind(&self) -> MemoryKind {
        self.allocation.kind()
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }

    fn check(&self, start: usize, count: usize) -> Result<(), MemoryError> {
        let end = start.saturating_add(count);
        if end <= self.len { Ok(()) } else { Err(MemoryError::OutOfRange { start, end, len: self.len }) }
    }
}

impl<T: Pod> Buffer<T> {
    /// Copies the whole buffer out.
    pub fn to_vec(&self) -> Vec<T> {
        let mut data = vec![T::new_zeroed(); self.len];
        self.allocation.read_bytes(0, data.as_mut_bytes());
        data
    }

    /// Copies elements from `start` on into `data`.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`].
    pub fn read(&self, start: usize, data: &mut [T]) -> Result<(), MemoryError> {
        self.check(start, data.len())?;
        self.allocation.read_bytes(start * size_of::<T>(), data.as_mut_bytes());
        Ok(())
    }

    /// Copies `data` into the buffer from element `start` on.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`].
    pub fn write(&self, start: usize, data: &[T]) -> Result<(), MemoryError> {
        self.check(start, data.len())?;
        self.allocation.write_bytes(start * size_of::<T>(), data.as_bytes());
        Ok(())
    }

    /// One element.
    ///
    /// # Errors
    ///
    /// [`MemoryError::OutOfRange`].
    pub fn get(&self, index: usize) -> Result<T, MemoryError> {
        let mut one = [T::new_zeroed()];
        self.read(index, &mut one)?;
        Ok(one[0])
    }

    /// Sets every element.
    pub fn fill(&self, value: T) {
        // In pieces, so that a large buffer needs no second copy of itself.
        let piece = vec![value; self.len.min(1 << 14)];
        for start in (0..self.len).step_by(piece.len().max(1)) {
            let count = piece.len().min(self.len - start);
            self.allocation.write_bytes(start * size_of::<T>(), piece[..count].as_bytes());
        }
    }
}
