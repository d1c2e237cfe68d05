//! Memory of programs, as the operating system shows it to the driver.

use super::Os;
use crate::errno::{Errno, Result};

/// A change of an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// First byte of what changes, at the start of a page.
    pub start: u64,
    /// One past its last byte.
    pub end: u64,
    /// All of it is unmapped. It may have been mapped anew since, as something else.
    pub unmapped: bool,
    /// Set for a change that is about to happen, and happens when [`Invalidate::invalidated`] returns.
    ///
    /// The thread that tells it may hold locks of the address space: the driver neither asks for user memory nor drops a mirror before it
    /// returns, and the device then uses nothing of the range any more. Mirrors stay good for what is not in the range.
    pub held: bool,
}

/// Memory of an address space that has the same properties up to `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserArea {
    /// One past its last byte.
    pub end: u64,
    /// The program may write to it.
    pub writable: bool,
    /// Set for memory of a file.
    pub file: bool,
}

/// Place of a program's page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserPage {
    /// In system memory, at this bus address.
    System(u64),
    /// In VRAM, at this byte offset: [`Os::move_to_vram`] has put it there.
    Vram(u64),
}

impl UserPage {
    /// Returns what lies `len` bytes further in the same memory.
    #[must_use]
    pub fn after(self, len: u64) -> Self {
        match self {
            Self::System(bus) => Self::System(bus.wrapping_add(len)),
            Self::Vram(offset) => Self::Vram(offset.wrapping_add(len)),
        }
    }
}

/// Told when a range that is pinned or mirrored stops meaning what it meant.
pub trait Invalidate: Send + Sync {
    /// The range was unmapped, remapped or re-protected in its address space, or is about to be.
    ///
    /// `change` may reach out of the range. Called from a thread that may sleep and, unless [`Change::held`], holds no lock of
    /// the address space (pinned pages cannot go away under the device, so the notice may be late).
    fn invalidated(&self, change: &Change);
}

/// Pinned pages of a user's address space.
///
/// Dropping it unpins the pages, and may wait for a running [`Invalidate::invalidated`]: the driver drops no pin while
/// it holds a lock.
pub trait UserPin: Send + Sync {
    /// Returns the number of pages.
    fn count(&self) -> usize;

    /// Returns the bus address of page `index`, which is below `count()`.
    fn bus(&self, index: usize) -> u64;

    /// Returns whether no change is known that [`Invalidate::invalidated`] has not been told of yet.
    fn is_current(&self) -> bool {
        true
    }

    /// Pins the same range again and moves the notification to the new pin; called from [`Invalidate::invalidated`] only.
    ///
    /// The old pin keeps its pages until it is dropped, and dropping it then waits for nothing. This may take as long as
    /// another thread takes to bring a page in, so the driver holds no lock here.
    ///
    /// # Errors
    ///
    /// `EFAULT` when the range is no longer mapped, `ESRCH` when the address space is going away, of which the driver
    /// hears by [`crate::Kfd::exit`].
    fn renew(&self) -> Result<Self>
    where
        Self: Sized;
}

/// Pages of a user's address space that the device may reach until they change.
///
/// Dropping it may wait for a running [`Invalidate::invalidated`]: the driver drops none while it holds a lock, and none in
/// there if the change is [`Change::held`].
pub trait UserMirror: Send + Sync {
    /// Returns the number of pages.
    fn count(&self) -> usize;

    /// Returns where page `index` is, which is below `count()`.
    fn page(&self, index: usize) -> UserPage;

    /// Returns whether nothing has changed since the pages were looked up. Of a change that this does not show yet, the driver
    /// will be told: it asks under the lock that it takes when it is told, and then relies on the pages.
    fn is_current(&self) -> bool;
}

/// Fails with `EFAULT` for an address range that wraps or leaves user space.
///
/// # Errors
///
/// `EFAULT`.
pub(crate) fn check_user_range<O: Os>(os: &O, va: u64, len: u64) -> Result<()> {
    if va.checked_add(len).is_some() && os.user_range_ok(va, len) { Ok(()) } else { Err(Errno::EFAULT) }
}
