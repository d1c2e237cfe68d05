//! Memory that goes away while the GPU uses it, other than through a call that this library sees: `free` unmaps inside
//! the C library, and a program may make system calls of its own.
//!
//! A kernel driver has MMU notifiers for this. Here, the kernel tells of each unmapping through a userfaultfd, and the
//! thread that unmaps goes on once that was read. So one thread reads and does nothing else; a second one tells the
//! driver, which may take its time. What the device touches in between is bridged (`bridge.rs`).

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use belfry_kfd_hosted::PinObserver;

use crate::gpu::Gpu;
use crate::real::raw;
use crate::userfault::{Event, Purpose, Read, Userfault};

/// Ranges on their way to the thread that tells the driver.
struct Mail {
    /// Start and length of each; a length of 0: free.
    slots: [(AtomicUsize, AtomicUsize); 256],
    /// Counts what was posted; the reader sleeps on it.
    posted: AtomicU32,
}

static MAIL: Mail =
    Mail { slots: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; 256], posted: AtomicU32::new(0) };

/// Says that a range is gone. Waits for nobody and allocates nothing, so that a signal handler can say it as well.
pub(crate) fn post(range: &Range<usize>) {
    loop {
        for (start, len) in &MAIL.slots {
            // The start holds the place until the length says that it is taken.
            if len.load(Ordering::Acquire) == 0
                && start.compare_exchange(0, range.start.max(1), Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                len.store(range.len().max(1), Ordering::Release);
                MAIL.posted.fetch_add(1, Ordering::Release);
                futex(libc::FUTEX_WAKE, 1);
                return;
            }
        }
        std::hint::spin_loop();
    }
}

#[expect(unsafe_code, reason = "a system call")]
fn futex(operation: i32, value: u32) {
    let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
    // SAFETY: the word is static.
    unsafe {
        raw::call(libc::SYS_futex, [MAIL.posted.as_ptr() as usize, operation, value as usize, 0, 0, 0]);
    }
}

/// Tells the driver of what is posted, for as long as the process lives.
fn deliver(gpu: &'static Gpu) {
    loop {
        let posted = MAIL.posted.load(Ordering::Acquire);
        let mut found = false;
        for (start, len) in &MAIL.slots {
            let length = len.load(Ordering::Acquire);
            if length > 0 {
                found = true;
                let first = start.load(Ordering::Acquire) & !0xfff;
                len.store(0, Ordering::Release);
                start.store(0, Ordering::Release);
                // It has happened already: there is nothing to do but to tell.
                let _ = gpu.process.replacing(first, length, || ());
            }
        }
        if !found {
            futex(libc::FUTEX_WAIT, posted);
        }
    }
}

/// In a forked child there is nothing to tell, and nobody to do it.
pub(crate) fn forget() {
    for (start, len) in &MAIL.slots {
        len.store(0, Ordering::Relaxed);
        start.store(0, Ordering::Relaxed);
    }
    crate::userfault::forget();
}

/// Watches what is pinned.
pub(crate) struct Notifier {
    userfault: OnceLock<Option<Userfault>>,
}

impl Notifier {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { userfault: OnceLock::new() })
    }

    fn userfault(&self) -> Option<&Userfault> {
        self.userfault.get_or_init(|| Userfault::new(Purpose::Unmapping)).as_ref()
    }

    /// Starts the threads.
    pub(crate) fn start(self: &Arc<Self>, gpu: &'static Gpu) {
        let notifier = self.clone();
        let read = move || {
            let Some(userfault) = notifier.userfault() else { return };
            loop {
                match userfault.read(None) {
                    Read::Event(Event::Unmapped(range)) => post(&range),
                    Read::Event(_) | Read::Nothing => {}
                    Read::Gone => return,
                }
            }
        };
        spawn("belfry-unmapped", read);
        spawn("belfry-unpin", move || deliver(gpu));
    }
}

impl PinObserver for Notifier {
    fn pinned(&self, range: Range<u64>) {
        if let Some(userfault) = self.userfault() {
            // Files that are mapped cannot be watched: then a fault of the device is the first to tell.
            userfault.register(&(range.start as usize..range.end as usize));
        }
    }

    fn unpinned(&self, range: Range<u64>) {
        if let Some(userfault) = self.userfault() {
            userfault.unregister(&(range.start as usize..range.end as usize));
        }
    }
}

/// Starts a thread of this library.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) {
    if let Err(error) = std::thread::Builder::new().name(name.to_owned()).spawn(run) {
        crate::notice::say(format_args!("the thread {name} cannot be started: {error}"));
    }
}
