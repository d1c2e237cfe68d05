//! A client's file, mapped as a whole; it stays usable for the server even if the client breaks it.
//!
//! If a client shrinks its file, or if the file cannot get another page, the next access to it raises SIGBUS. That
//! must not end the server: its handler puts empty memory of this process in the file's place, marks the file as lost
//! and wakes the server, which drops the client. So no seal is needed, and unsealable files work as well.
#![expect(unsafe_code, reason = "maps files, and handles the signal of a map that has lost its file")]

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::os::unix::fs::MetadataExt as _;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use vm_memory::mmap::MmapRegionBuilder;
use vm_memory::{GuestAddress, GuestRegionMmap};

/// Largest number of files mapped at a time, over all servers of the process; each takes one of the kernel's maps
/// (65530 by default).
pub(super) const MAX_FILES: usize = 32768;
/// Largest number of bytes mapped at a time, over all servers of the process: a part of the address space, so that
/// some always stays free.
const MAX_BYTES: usize = 1 << 44;

const PAGE: usize = 4096;
/// `TMPFS_MAGIC`, which memfds have too, and `HUGETLBFS_MAGIC` (linux/magic.h).
const TMPFS_MAGIC: u64 = 0x0102_1994;
const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;

/// Reason why a file cannot be the memory of a guest.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Its pages come from a disk or from another process, which could keep the device waiting for ever.
    #[error(
        "memory in a file of file system {0:#x} is not taken; give QEMU memory-backend-memfd,share=on, or a \
         memory-backend-file,share=on in /dev/shm or on hugetlbfs"
    )]
    Kind(u64),
    /// The descriptor is open only for reading, or only for writing.
    #[error("the descriptor of the memory is not open for reading and writing")]
    Access,
    /// The file is empty, or larger than all that one process maps.
    #[error("a file of {0} bytes cannot be mapped; 1 byte to 16 TiB can, over all files of the client")]
    Size(u64),
    /// Too many files are mapped.
    #[error("{MAX_FILES} files of memory are mapped already")]
    Files,
    /// The kernel refused.
    #[error("cannot map the file: {0}")]
    Map(#[from] io::Error),
}

/// Device and inode of a file, which identify it as long as it is mapped.
pub(super) type FileId = (u64, u64);

/// Returns the identity and the size of a descriptor's file, by `fstat`.
pub(super) fn identify(file: &File) -> io::Result<(FileId, u64)> {
    let metadata = file.metadata()?;
    Ok(((metadata.dev(), metadata.ino()), metadata.len()))
}

/// A mapped file.
#[derive(Debug)]
pub(super) struct SharedFile {
    id: FileId,
    address: usize,
    length: usize,
    slot: usize,
}

impl SharedFile {
    /// Maps the whole of `file`, which is `size` bytes long; `wake` is signalled if the file is lost.
    ///
    /// The descriptor of `wake` has to stay open as long as the result exists.
    pub(super) fn new(file: &File, id: FileId, size: u64, wake: BorrowedFd<'_>) -> Result<Self, FileError> {
        let kind = rustix::fs::fstatfs(file).map_err(io::Error::from)?.f_type.cast_unsigned();
        if kind != TMPFS_MAGIC && kind != HUGETLBFS_MAGIC {
            return Err(FileError::Kind(kind));
        }
        let flags = rustix::fs::fcntl_getfl(file).map_err(io::Error::from)?;
        if flags & rustix::fs::OFlags::ACCMODE != rustix::fs::OFlags::RDWR {
            return Err(FileError::Access);
        }
        let length = usize::try_from(size).ok().and_then(|size| size.checked_next_multiple_of(PAGE));
        let length = length.filter(|length| *length > 0).ok_or(FileError::Size(size))?;
        install()?;
        let slot = reserve(length, size)?;
        // SAFETY: the kernel chooses the address, so that no existing map is replaced.
        let address = unsafe {
            libc::mmap(
                ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                file.as_raw_fd(),
                0,
            )
        };
        if address == libc::MAP_FAILED {
            let error = io::Error::last_os_error();
            release(slot, length);
            return Err(error.into());
        }
        let address = address.addr();
        SLOTS[slot].lost.store(false, Ordering::SeqCst);
        SLOTS[slot].wake.store(wake.as_raw_fd(), Ordering::SeqCst);
        SLOTS[slot].length.store(length, Ordering::SeqCst);
        SLOTS[slot].start.store(address, Ordering::SeqCst);
        Ok(Self { id, address, length, slot })
    }

    pub(super) fn id(&self) -> FileId {
        self.id
    }

    /// Returns the number of usable bytes.
    pub(super) fn length(&self) -> u64 {
        self.length as u64
    }

    /// Returns true if the file could not be read any more, so that empty memory has taken its place.
    pub(super) fn is_lost(&self) -> bool {
        SLOTS[self.slot].lost.load(Ordering::SeqCst)
    }

    /// Returns `size` bytes from `offset` on as the guest's memory at `start`; `None` beyond the file.
    ///
    /// # Safety
    ///
    /// The file has to be dropped after the region, and after every pointer that was taken from it.
    pub(super) unsafe fn region(&self, offset: u64, start: u64, size: u64) -> Option<GuestRegionMmap> {
        let (offset, size) = (usize::try_from(offset).ok()?, usize::try_from(size).ok()?);
        offset.checked_add(size).filter(|end| *end <= self.length)?;
        let pointer = ptr::with_exposed_provenance_mut(self.address + offset);
        // SAFETY: the range is a part of the map, as was just checked, and the caller keeps the map alive.
        let builder = unsafe { MmapRegionBuilder::new(size).with_raw_mmap_pointer(pointer) };
        let region = builder
            .with_mmap_prot(libc::PROT_READ | libc::PROT_WRITE)
            .with_mmap_flags(libc::MAP_SHARED | libc::MAP_NORESERVE)
            .build();
        GuestRegionMmap::new(region.ok()?, GuestAddress(start))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        let slot = &SLOTS[self.slot];
        slot.start.store(0, Ordering::SeqCst);
        slot.length.store(0, Ordering::SeqCst);
        slot.wake.store(-1, Ordering::SeqCst);
        // SAFETY: the range was mapped by `new`, and is in use no more: that is the contract of `region`.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(self.address), self.length) };
        release(self.slot, self.length);
    }
}

/// Facts of a mapped file for the signal handler.
struct Slot {
    start: AtomicUsize,
    length: AtomicUsize,
    lost: AtomicBool,
    wake: AtomicI32,
}

static SLOTS: [Slot; MAX_FILES] = [const {
    Slot {
        start: AtomicUsize::new(0),
        length: AtomicUsize::new(0),
        lost: AtomicBool::new(false),
        wake: AtomicI32::new(0),
    }
}; MAX_FILES];
/// Slots from here on have never been used.
static USED: AtomicUsize = AtomicUsize::new(0);
static TAKEN: Mutex<Taken> = Mutex::new(Taken { free: Vec::new(), bytes: 0 });

/// Slots that are free again, and bytes that all files have mapped.
struct Taken {
    free: Vec<usize>,
    bytes: usize,
}

fn reserve(length: usize, size: u64) -> Result<usize, FileError> {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let bytes = taken.bytes.checked_add(length).filter(|bytes| *bytes <= MAX_BYTES);
    let bytes = bytes.ok_or(FileError::Size(size))?;
    let slot = match taken.free.pop() {
        Some(slot) => slot,
        None => {
            let next = USED.load(Ordering::SeqCst);
            if next == MAX_FILES {
                return Err(FileError::Files);
            }
            USED.store(next + 1, Ordering::SeqCst);
            next
        }
    };
    taken.bytes = bytes;
    Ok(slot)
}

fn release(slot: usize, length: usize) {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    taken.free.push(slot);
    taken.bytes -= length;
}

/// Action of SIGBUS before; it is set before the handler can run.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();
static INSTALLED: Mutex<bool> = Mutex::new(false);

/// Installs the handler, once.
fn install() -> io::Result<()> {
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    let mut before = MaybeUninit::uninit();
    // SAFETY: a null action changes nothing; the other pointer is to a `sigaction` of this frame.
    if unsafe { libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has succeeded and filled it in.
    BEFORE.get_or_init(|| unsafe { before.assume_init() });
    // SAFETY: all zeros are a valid `sigaction`: no flags, an empty mask, the default action.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction =
        handle as extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    // SAFETY: `handle` has the signature that SA_SIGINFO needs, and does only what handlers may.
    if unsafe { libc::sigaction(libc::SIGBUS, &raw const action, ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    *installed = true;
    Ok(())
}

extern "C" fn handle(number: libc::c_int, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: the address of this thread's `errno`, which lives as long as the thread.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the kernel passes the information of the signal. A fault has an address; a signal of any other origin
    // has some value, which is in none of the maps unless its sender wants this very handling of it.
    let address = unsafe { (*info).si_addr() }.addr();
    if !replace(address)
        && let Some(before) = BEFORE.get()
    {
        // The fault repeats itself, and then ends as it would have without this handler.
        // SAFETY: the action was in place before this one.
        unsafe { libc::sigaction(number, before, ptr::null_mut()) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// Puts empty memory in the place of the file that is mapped around `address`; returns false if there is none.
fn replace(address: usize) -> bool {
    let used = USED.load(Ordering::SeqCst).min(MAX_FILES);
    let found = SLOTS[..used].iter().find_map(|slot| {
        let (start, length) = (slot.start.load(Ordering::SeqCst), slot.length.load(Ordering::SeqCst));
        let inside = start != 0 && address.checked_sub(start).is_some_and(|offset| offset < length);
        inside.then_some((slot, start, length))
    });
    let Some((slot, start, length)) = found else { return false };
    // All of the map is replaced: parts of huge pages cannot be, and the client will be dropped anyway.
    // SAFETY: the range is that of a map that the faulting access is using, so it exists, and every thread that uses
    // it expects memory that others change at any time.
    let memory = unsafe {
        libc::mmap(
            ptr::with_exposed_provenance_mut(start),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    if memory == libc::MAP_FAILED {
        return false;
    }
    slot.lost.store(true, Ordering::SeqCst);
    let one = 1u64;
    // SAFETY: eight bytes of this frame are read. The descriptor is an eventfd that does not block, and it is open as
    // long as the file is mapped.
    unsafe { libc::write(slot.wake.load(Ordering::SeqCst), (&raw const one).cast(), size_of::<u64>()) };
    true
}
