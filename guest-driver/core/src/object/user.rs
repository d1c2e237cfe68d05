//! Memory of a program as a GEM object of a file of the render node (`amdgpu_gem_userptr_ioctl`, `amdgpu_hmm.c`).
//!
//! Its pages are pinned from their first use on. When they change, the work that uses them is waited for, then they are pinned
//! again, and the page tables follow. What is not there any more is mapped no more, until a submission names the object again.

use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{Object, UserMemory};
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::fence::Wanted;
use crate::os::{AllocFlags, Backing, BoPage, Change, Invalidate, Os, PAGE_SIZE, ProcessKey, UserPin};
use crate::space::Space;
use crate::sync::Mutex;

/// Time that a change of the memory waits for the work that uses it, as long as amdgpu waits for a ring.
const CHANGE_NS: u64 = 10_000_000_000;

/// Time that a submission sleeps between two looks at a change that is on its way.
const LOOK_US: u64 = 100;

/// The file of the render node that has memory of a program mapped for the GPU.
pub(crate) trait Holder<O: Os>: Send + Sync {
    /// Returns its device.
    fn device(&self) -> &Arc<Device<O>>;

    /// Returns its address space.
    fn space(&self) -> &Space<O>;

    /// Returns whether it has been closed, and has released what it had.
    fn is_closed(&self) -> bool;

    /// Looks what of its work is over, and hands over what is next.
    fn pump(&self);
}

/// Memory of a program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UserArgs {
    pub(crate) key: ProcessKey,
    pub(crate) va: u64,
    pub(crate) count: usize,
    pub(crate) writable: bool,
    /// Memory of files is refused.
    pub(crate) anonymous: bool,
}

/// Pages of a program.
pub(crate) struct UserRange<O: Os> {
    args: UserArgs,
    /// File that has them mapped for the GPU.
    client: Weak<dyn Holder<O>>,
    pinned: Mutex<O, Option<Arc<UserMemory<O>>>>,
    /// Page tables that are being written, which may still lead to other pages than the pinned ones.
    writing: AtomicUsize,
    object: Weak<Object<O>>,
}

/// Tells the object that its memory changed.
struct Notice<O: Os>(Weak<Object<O>>);

impl<O: Os> Invalidate for Notice<O> {
    fn invalidated(&self, _: &Change) {
        if let Some(object) = self.0.upgrade()
            && let Some(range) = object.user()
        {
            range.changed(&object);
        }
    }
}

impl<O: Os> UserRange<O> {
    pub(super) fn new(
        client: Weak<dyn Holder<O>>,
        args: UserArgs,
        pinned: Mutex<O, Option<Arc<UserMemory<O>>>>,
        object: Weak<Object<O>>,
    ) -> Self {
        Self { args, client, pinned, writing: AtomicUsize::new(0), object }
    }

    /// Returns the address space that the memory is of.
    pub(crate) fn key(&self) -> ProcessKey {
        self.args.key
    }

    /// Pins the pages, if they are not; page tables that map the object then lead to them. The program calls.
    ///
    /// # Errors
    ///
    /// `EFAULT` for memory that is not there, `EPERM` for memory of a file that was not to be one and for memory that the
    /// program does not write to, `ENOMEM`.
    pub(crate) fn populate(&self) -> Result<()> {
        let client = self.client.upgrade().ok_or(Errno::ENODEV)?;
        let device = client.device();
        let start = device.hw.now_ns();
        loop {
            // Another reference, which may be the last one when it is dropped: without the lock.
            let pinned = self.pinned.lock().clone();
            match pinned {
                None => break,
                Some(memory) if memory.pin.is_current() && self.writing.load(Ordering::Acquire) == 0 => {
                    return Ok(());
                }
                // The driver is about to hear of a change, or its page tables do not have it yet.
                Some(_) if device.hw.now_ns().saturating_sub(start) < CHANGE_NS => {
                    device.hw.os().sleep_us(LOOK_US);
                }
                Some(_) => return Err(Errno::EFAULT),
            }
        }
        let UserArgs { key, va, count, writable, anonymous } = self.args;
        match device.hw.os().user_area(key, va) {
            Ok(None) => return Err(Errno::EFAULT),
            Ok(Some(area)) if anonymous && area.file || writable && !area.writable => {
                return Err(Errno::EPERM);
            }
            // A kernel that cannot say pins all the same.
            Ok(Some(_)) | Err(Errno::EOPNOTSUPP) => {}
            Err(error) => return Err(error),
        }
        let bytes = count as u64 * PAGE_SIZE;
        device.charge_gtt(bytes)?;
        let notice = Arc::new(Notice(self.object.clone()));
        let pin = device.hw.os().pin_user(key, va, count, writable, notice);
        let pin = pin.inspect_err(|_| device.uncharge_gtt(bytes))?;
        let memory = Arc::new(UserMemory { device: device.clone(), pin });
        self.writing.fetch_add(1, Ordering::AcqRel);
        // Another thread may have been first. Neither pin is dropped under a lock.
        let unused = {
            let mut pinned = self.pinned.lock();
            if pinned.is_some() { Some(memory) } else { pinned.replace(memory) }
        };
        drop(unused);
        let written = if client.is_closed() {
            // The file has released what it had when it was closed. These pages came later.
            self.release(&*client);
            Err(Errno::ENODEV)
        } else {
            self.refresh(&*client)
        };
        self.writing.fetch_sub(1, Ordering::AcqRel);
        written
    }

    /// Gives the pages back: no work will use them any more.
    pub(crate) fn release(&self, client: &dyn Holder<O>) {
        let pinned = self.pinned.lock().take();
        if pinned.is_some() && self.refresh(client).is_err() && client.device().hw.alive() {
            // The device may still use them.
            core::mem::forget(pinned);
        }
    }

    /// Writes the page tables anew that map the object.
    fn refresh(&self, client: &dyn Holder<O>) -> Result<()> {
        let Some(object) = self.object.upgrade() else { return Ok(()) };
        let backing: Arc<dyn Backing> = object;
        client.space().refresh(&backing)
    }

    /// The memory has changed, or is about to.
    fn changed(&self, object: &Object<O>) {
        let Some(client) = self.client.upgrade() else { return };
        let Some(old) = self.pinned.lock().clone() else { return };
        let device = client.device();
        let _ = device.wait_fences(&object.users(), Wanted::All, Some(CHANGE_NS), || client.pump());
        // Before the renewal, from whose beginning on the old pin counts as current again.
        self.writing.fetch_add(1, Ordering::AcqRel);
        let renewed = match old.pin.renew() {
            // The program is about to end. Until its file is closed its pages stay pinned.
            Err(Errno::ESRCH) => {
                self.writing.fetch_sub(1, Ordering::AcqRel);
                return;
            }
            renewed => renewed.ok().map(|pin| {
                // The charge moves from the old pin to the new one.
                device.charge_gtt_again(pin.count() as u64 * PAGE_SIZE);
                Arc::new(UserMemory { device: device.clone(), pin })
            }),
        };
        let unused = {
            let mut pinned = self.pinned.lock();
            match &*pinned {
                Some(current) if Arc::ptr_eq(current, &old) => core::mem::replace(&mut *pinned, renewed),
                _ => renewed,
            }
        };
        if self.refresh(&*client).is_err() {
            // The device may still use the old pages: they are left to it.
            core::mem::forget(old.clone());
        }
        self.writing.fetch_sub(1, Ordering::AcqRel);
        drop((unused, old));
    }
}

impl<O: Os> Backing for UserRange<O> {
    fn size(&self) -> u64 {
        self.args.count as u64 * PAGE_SIZE
    }

    fn flags(&self) -> AllocFlags {
        AllocFlags::GTT
    }

    fn page(&self, index: u64) -> Option<BoPage> {
        let index = usize::try_from(index).ok().filter(|&index| index < self.args.count)?;
        Some(BoPage::User(self.pinned.lock().as_ref().map(|memory| memory.pin.bus(index))))
    }
}
