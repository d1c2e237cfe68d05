//! Doorbells: trapped one by one, or as plain memory while they are rung often.
//!
//! A page of doorbells that is rung becomes memory of the guest, so that the next ring costs a store; one thread looks
//! at such pages and tells the device. A page nobody has rung for a while traps again, and the thread sleeps.
//!
//! Why no doorbell is lost: a page is compared with what it held before it became memory, so that a store at any time
//! after that is a change. When a page is to trap again it is taken away first (KVM returns when no vCPU can reach it any
//! more) and the device is told to look once more, whatever was seen: a store either came before, and is found then, or
//! traps. The device looks at values, so that being told once too often costs time only.
//!
//! The kernel's own slice always traps: its interrupt read pointer has to take effect when it is written.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belfry_abi::pci::{DOORBELL_BAR_SIZE, DOORBELL_SIZE, DOORBELL_SLICE_SIZE};
use belfry_device::Gpu;
use kvm_ioctls::VmFd;
use vm_memory::{Bytes as _, MmapRegion, VolatileMemory as _};

use super::memory::{SharedMemory, Window};

const PAGE: u64 = 4096;
const WORDS: usize = (PAGE / DOORBELL_SIZE) as usize;
/// Pages that are memory at the same time.
const WINDOWS: u32 = 8;
/// How long a page stays memory after it was last rung.
const IDLE: Duration = Duration::from_millis(1);

/// A page that is memory.
#[derive(Debug)]
struct Page {
    offset: u64,
    seen: [u64; WORDS],
    rung: Instant,
}

#[derive(Debug)]
struct State {
    /// Guest address of the BAR.
    base: Option<u64>,
    windows: Vec<(Window, Option<Page>)>,
    stopped: bool,
}

/// The pages of the doorbell BAR.
#[derive(Debug)]
pub(super) struct Doorbells {
    gpu: Arc<Gpu>,
    values: MmapRegion,
    state: Mutex<State>,
    changed: Condvar,
}

impl Doorbells {
    /// Doorbells whose pages take the slots from `first_slot` on.
    pub(super) fn new(
        vm: &Arc<VmFd>,
        gpu: Arc<Gpu>,
        memory: &SharedMemory,
        first_slot: u32,
    ) -> io::Result<Arc<Self>> {
        let windows = (first_slot..first_slot + WINDOWS)
            .map(|slot| Ok((Window::new(Arc::clone(vm), slot, memory.map()?), None)))
            .collect::<io::Result<_>>()?;
        let state = Mutex::new(State { base: None, windows, stopped: false });
        Ok(Arc::new(Self { gpu, values: memory.map()?, state, changed: Condvar::new() }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every page away and lets the device look at what was rung; pages come back at `base`.
    pub(super) fn set_base(&self, base: Option<u64>) {
        let mut state = self.lock();
        if state.base == base {
            return;
        }
        state.base = base;
        for (window, page) in &mut state.windows {
            if page.take().is_some() {
                take_away(window);
            }
        }
        self.gpu.doorbell_hint();
    }

    /// A doorbell was written and trapped; the device knows its value.
    pub(super) fn rung(&self, offset: u64) {
        let page = offset & !(PAGE - 1);
        if !(DOORBELL_SLICE_SIZE..DOORBELL_BAR_SIZE).contains(&page) {
            return;
        }
        let mut state = self.lock();
        let Some(base) = state.base.filter(|_| !state.stopped) else { return };
        let mapped =
            |(_, held): &(Window, Option<Page>)| held.as_ref().is_some_and(|held| held.offset == page);
        if state.windows.iter().any(mapped) {
            return;
        }
        let Some((window, held)) = state.windows.iter_mut().find(|(_, held)| held.is_none()) else { return };
        // What is there before the page becomes memory: every store from then on differs from it.
        let seen = self.read(page);
        match window.place(Some((base + page, page, PAGE))) {
            Ok(()) => *held = Some(Page { offset: page, seen, rung: Instant::now() }),
            Err(error) => log::debug!(target: "kvm", "doorbells keep trapping: {error}"),
        }
        self.changed.notify_one();
    }

    fn read(&self, page: u64) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        if let Ok(slice) = self.values.get_slice(page as usize, PAGE as usize) {
            for (at, word) in words.iter_mut().enumerate() {
                *word = slice.load(at * DOORBELL_SIZE as usize, Ordering::Acquire).unwrap_or_default();
            }
        }
        words
    }

    /// Looks at the pages that are memory; whether there are any.
    fn look(&self, state: &mut State) -> bool {
        let (mut any, mut hint) = (false, false);
        let now = Instant::now();
        for (window, held) in &mut state.windows {
            let Some(page) = held else { continue };
            let words = self.read(page.offset);
            if words != page.seen {
                (page.seen, page.rung, hint) = (words, now, true);
            } else if now.duration_since(page.rung) >= IDLE {
                take_away(window);
                // Whatever was stored until then is in the page, and looked at now.
                (*held, hint) = (None, true);
                continue;
            }
            any = true;
        }
        if hint {
            self.gpu.doorbell_hint();
        }
        any
    }

    fn watch(&self) {
        let mut state = self.lock();
        while !state.stopped {
            if self.look(&mut state) {
                drop(state);
                std::thread::yield_now();
                state = self.lock();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Starts the thread that looks.
    pub(super) fn start(self: &Arc<Self>) -> io::Result<Watcher> {
        let doorbells = Arc::clone(self);
        let thread = std::thread::Builder::new().name("doorbells".into()).spawn(move || doorbells.watch())?;
        Ok(Watcher { doorbells: Arc::clone(self), thread: Some(thread) })
    }
}

fn take_away(window: &mut Window) {
    if let Err(error) = window.place(None) {
        log::error!(target: "kvm", "a page of doorbells cannot be made to trap: {error}");
    }
}

/// Ends the thread when dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    doorbells: Arc<Doorbells>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.doorbells.lock().stopped = true;
        self.doorbells.set_base(None);
        self.doorbells.changed.notify_one();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "kvm", "the doorbell thread panicked");
        }
    }
}
