//! Pages of the driver, pins and mirrors of user pages.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ptr::NonNull;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{Invalidate, ProcessKey, SystemPages, UserMirror, UserPage, UserPin};

use crate::ffi;
use crate::results::created;

/// Kernel pages with one mapping and a bus address each.
pub(crate) struct Pages {
    raw: NonNull<ffi::OsPages>,
    cpu: NonNull<u8>,
    count: usize,
}

// SAFETY: the memory is plain bytes and os_pages_* may be called from any thread.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Allocates zeroed pages.
    pub(crate) fn new(dev: *mut ffi::OsDevice, count: usize) -> Result<Pages> {
        // SAFETY: `dev` lives as long as the core and `out` is a valid place for the result.
        let raw = created(|out| unsafe { ffi::os_pages_alloc(dev, count, out) })?;
        // SAFETY: just made.
        let cpu = NonNull::new(unsafe { ffi::os_pages_cpu(raw.as_ptr()) }).ok_or(Errno::ENOMEM)?;
        Ok(Pages { raw, cpu, count })
    }
}

impl SystemPages for Pages {
    fn count(&self) -> usize {
        self.count
    }

    fn cpu(&self) -> NonNull<u8> {
        self.cpu
    }

    fn bus(&self, index: usize) -> u64 {
        // SAFETY: the pages live as long as self; the index is checked on the other side.
        unsafe { ffi::os_pages_bus(self.raw.as_ptr(), index) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: made by os_pages_alloc and dropped once.
        unsafe { ffi::os_pages_free(self.raw.as_ptr()) }
    }
}

/// Pinned user pages.
pub(crate) struct Pin {
    raw: NonNull<ffi::OsPin>,
    count: usize,
}

// SAFETY: os_pin_bus and os_unpin_user may be called from any thread.
unsafe impl Send for Pin {}
// SAFETY: as above.
unsafe impl Sync for Pin {}

impl Pin {
    /// Pins `count` pages from `va` of the address space `key`.
    pub(crate) fn new(
        dev: *mut ffi::OsDevice,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Pin> {
        let notify: *mut Arc<dyn Invalidate> = Box::into_raw(Box::new(notify));
        // SAFETY: `dev` lives as long as the core; `key` came from an open file, which holds the address space; the
        // callback is taken over in every case and comes back through belfry_invalidate_drop.
        created(|out| unsafe { ffi::os_pin_user(dev, key.0, va, count, writable, notify.cast(), out) })
            .map(|raw| Pin { raw, count })
    }
}

impl UserPin for Pin {
    fn count(&self) -> usize {
        self.count
    }

    fn bus(&self, index: usize) -> u64 {
        // SAFETY: the pin lives as long as self; the index is checked on the other side.
        unsafe { ffi::os_pin_bus(self.raw.as_ptr(), index) }
    }

    fn is_current(&self) -> bool {
        // SAFETY: the pin lives as long as self.
        unsafe { ffi::os_pin_is_current(self.raw.as_ptr()) }
    }

    fn renew(&self) -> Result<Pin> {
        // SAFETY: the pin lives as long as self, and `out` is a valid place for the result.
        created(|out| unsafe { ffi::os_pin_renew(self.raw.as_ptr(), out) })
            .map(|raw| Pin { raw, count: self.count })
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        // SAFETY: made by os_pin_user and dropped once.
        unsafe { ffi::os_unpin_user(self.raw.as_ptr()) }
    }
}

/// User pages that may be used until they change.
pub(crate) struct Mirror {
    raw: NonNull<ffi::OsMirror>,
    count: usize,
}

// SAFETY: os_mirror_* may be called from any thread.
unsafe impl Send for Mirror {}
// SAFETY: as above.
unsafe impl Sync for Mirror {}

impl Mirror {
    /// Looks `count` pages up from `va` of the address space `key`.
    pub(crate) fn new(
        dev: *mut ffi::OsDevice,
        key: ProcessKey,
        va: u64,
        count: usize,
        writable: bool,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        let notify: *mut Arc<dyn Invalidate> = Box::into_raw(Box::new(notify));
        // SAFETY: `dev` lives as long as the core; `key` came from an open file, which holds the address space; the
        // callback is taken over in every case and comes back through belfry_invalidate_drop.
        created(|out| unsafe { ffi::os_mirror_user(dev, key.0, va, count, writable, notify.cast(), out) })
            .map(|raw| Mirror { raw, count })
    }

    /// Watches `count` pages from `va` of the address space `key`, and has none of them.
    pub(crate) fn watch(
        dev: *mut ffi::OsDevice,
        key: ProcessKey,
        va: u64,
        count: usize,
        notify: Arc<dyn Invalidate>,
    ) -> Result<Mirror> {
        let notify: *mut Arc<dyn Invalidate> = Box::into_raw(Box::new(notify));
        // SAFETY: `dev` lives as long as the core; `key` came from an open file, which holds the address space; the
        // callback is taken over in every case and comes back through belfry_invalidate_drop.
        created(|out| unsafe { ffi::os_watch_user(dev, key.0, va, count, notify.cast(), out) })
            .map(|raw| Mirror { raw, count: 0 })
    }
}

impl UserMirror for Mirror {
    fn count(&self) -> usize {
        self.count
    }

    fn page(&self, index: usize) -> UserPage {
        let mut vram = false;
        // SAFETY: the mirror lives as long as self; the index is checked on the other side; `vram` takes the result.
        let address = unsafe { ffi::os_mirror_page(self.raw.as_ptr(), index, &mut vram) };
        if vram { UserPage::Vram(address) } else { UserPage::System(address) }
    }

    fn is_current(&self) -> bool {
        // SAFETY: the mirror lives as long as self.
        unsafe { ffi::os_mirror_is_current(self.raw.as_ptr()) }
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        // SAFETY: made by os_mirror_user and dropped once.
        unsafe { ffi::os_mirror_release(self.raw.as_ptr()) }
    }
}
