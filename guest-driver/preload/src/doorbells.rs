//! Doorbells: how a store to a mapped page reaches the device without a thread that polls the page all the time.
//!
//! While nothing is rung, the page is write-protected: the first store waits in the kernel, which reports it through a
//! userfaultfd. The protection is then removed and a thread polls the page until nothing has been rung for a while, as
//! Belfry's own machine does with pages of a guest ([`belfry_device::handover`] says why no store is lost). A store that is
//! reported has not happened yet: after the protection is removed, its value takes a moment to show.
#![expect(
    unsafe_code,
    reason = "keeps the trap behind a pointer that a forked child can drop without touching it"
)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_device::handover::{Handover, Page};
use belfry_kfd_hosted::HostedGpu;
use belfry_lock::{Mutex, MutexGuard, rank};

use crate::gpu::{self, Gpu};
use crate::unmapped::spawn;
use crate::userfault::{Event, Purpose, Read, Userfault};

/// Time after a ring at which a page without work is looked at.
const IDLE: Duration = Duration::from_millis(1);
/// Time after a ring at which a page whose queues have work is looked at; the queues look themselves whenever
/// a dispatch completes.
const BUSY: Duration = Duration::from_millis(10);
/// Shortest and longest time between two looks.
const NAP: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(250));
/// Longest wait for the value of a store that was let through.
const LANDING: Duration = Duration::from_micros(50);
/// Pause between two looks if stores can no longer be trapped.
const FALLBACK: Duration = Duration::from_millis(1);
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Doorbells and their values, in order.
type Values = Vec<(DoorbellOffset, u64)>;

/// A map of doorbells in the program.
#[derive(Debug)]
struct Map {
    range: Range<usize>,
    /// The GPU whose doorbells they are.
    owner: Arc<HostedGpu>,
    /// Offset at which it begins in the doorbell BAR.
    offset: u64,
    /// Values of the page, and the time of its last ring, while stores go to the page.
    held: Option<(Handover<Values>, Instant)>,
}

/// The maps, and the userfaultfd that tells of stores to them.
#[derive(Debug)]
pub(crate) struct Trap {
    userfault: Userfault,
    maps: Mutex<Vec<Map>, rank::TrapMaps>,
}

/// The trap of this process; never freed, and null in a forked child.
static TRAP: AtomicPtr<Trap> = AtomicPtr::new(std::ptr::null_mut());

/// A map as the handover wants it.
struct At<'a> {
    trap: &'a Trap,
    owner: &'a HostedGpu,
    range: &'a Range<usize>,
    offset: u64,
}

impl At<'_> {
    fn doorbells(&self) -> impl Iterator<Item = (DoorbellOffset, u64)> {
        let pages = self.offset..self.offset + self.range.len() as u64;
        pages.step_by(PAGE as usize).flat_map(|page| self.owner.device().doorbells(page))
    }

    fn has_work(&self) -> bool {
        let mut pages = (self.offset..self.offset + self.range.len() as u64).step_by(PAGE as usize);
        pages.any(|page| self.owner.device().has_work(page))
    }
}

impl Page for At<'_> {
    type Values = Values;

    fn values(&self) -> Values {
        self.doorbells().collect()
    }

    fn differs(&self, last: &mut Values) -> bool {
        let now = self.values();
        let differs = now.iter().any(|value| !last.contains(value));
        *last = now;
        differs
    }

    fn give(&mut self) -> bool {
        self.trap.userfault.protect(self.range, false)
    }

    fn take(&mut self) -> bool {
        self.trap.userfault.protect(self.range, true)
    }

    fn tell(&self) {
        self.owner.device().doorbell_hint();
    }
}

impl Trap {
    /// `None` where stores cannot be trapped: the device then looks at doorbells by itself.
    pub(crate) fn new() -> Option<Arc<Self>> {
        let userfault = Userfault::new(Purpose::Writing)?;
        Some(Arc::new(Self { userfault, maps: Mutex::default() }))
    }

    fn maps(&self) -> MutexGuard<'_, Vec<Map>, rank::TrapMaps> {
        self.maps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the thread that serves stores.
    pub(crate) fn start(self: Arc<Self>, gpu: &'static Gpu) {
        TRAP.store(Arc::into_raw(self.clone()).cast_mut(), Ordering::Release);
        spawn("belfry-bells", move || {
            sleep_exactly();
            self.run(gpu);
        });
    }

    fn run(&self, gpu: &'static Gpu) {
        let mut nap = None;
        loop {
            match self.userfault.read(nap) {
                Read::Event(Event::Write(address)) => self.rung(gpu, address),
                Read::Event(_) | Read::Nothing => {}
                Read::Gone => {
                    // Without its descriptor the trap is off, and all pages are memory.
                    std::thread::sleep(FALLBACK);
                    hint_all(gpu);
                    continue;
                }
            }
            nap = self.look();
        }
    }

    /// A store waits: it is let through, and served.
    fn rung(&self, gpu: &'static Gpu, address: usize) {
        let address = address & !7;
        let before = value_at(gpu, address);
        {
            let mut maps = self.maps();
            let Some(map) = maps.iter_mut().find(|map| map.range.contains(&address)) else {
                // No map has this page any more: the thread must not wait for ever.
                let page = address & !0xfff;
                self.userfault.protect(&(page..page + PAGE as usize), false);
                return;
            };
            let mut at = At { trap: self, owner: &map.owner, range: &map.range, offset: map.offset };
            match &mut map.held {
                Some((_, rung)) => {
                    *rung = Instant::now();
                    at.give();
                }
                None => map.held = Handover::begin(&mut at).map(|handover| (handover, Instant::now())),
            }
        }
        let until = Instant::now() + LANDING;
        while value_at(gpu, address) == before && Instant::now() < until {
            std::thread::yield_now();
        }
        gpu.process.doorbell_written(address as *mut u64);
    }

    /// Looks at pages that are memory, and has those trap again that were not rung for a while; when to look next.
    fn look(&self) -> Option<Duration> {
        let mut nap = None;
        self.maps().retain_mut(|map| {
            let mut at = At { trap: self, owner: &map.owner, range: &map.range, offset: map.offset };
            let Some((handover, rung)) = &mut map.held else { return true };
            let now = Instant::now();
            if handover.look(&at) {
                *rung = now;
            }
            let quiet = now.duration_since(*rung);
            if quiet < if at.has_work() { BUSY } else { IDLE } {
                let next = (quiet / 4).clamp(NAP.0, NAP.1);
                nap = Some(nap.map_or(next, |nap: Duration| nap.min(next)));
                return true;
            }
            // A map that cannot be protected is no map any more.
            let kept = handover.end(&mut at);
            map.held = None;
            kept
        });
        nap
    }
}

/// The value of the doorbell at an address of the program's map, from the device's side: the map may be gone.
fn value_at(gpu: &Gpu, address: usize) -> Option<u64> {
    let (range, owner, offset) = gpu.process.doorbells_at(address)?;
    let wanted = offset + (address - range.start) as u64;
    let mut doorbells = owner.device().doorbells(wanted & !(PAGE - 1));
    doorbells.find_map(|(offset, value)| (offset.bytes() == wanted).then_some(value))
}

/// Has this thread's short sleeps take as long as they say.
fn sleep_exactly() {
    // SAFETY: changes the calling thread's timer slack and nothing else.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// A thread looks at doorbells that cannot be trapped.
static LOOKING: AtomicBool = AtomicBool::new(false);

/// Has all GPUs look at their doorbells.
fn hint_all(gpu: &Gpu) {
    gpu.machine.gpus().iter().for_each(|gpu| gpu.device().doorbell_hint());
}

/// A map of a GPU's doorbells was made: stores to it are to be told of.
pub(crate) fn mapped(range: Range<usize>, owner: &Arc<HostedGpu>, offset: u64) {
    // SAFETY: null, or leaked by `start`.
    let (Some(trap), Some(gpu)) = (unsafe { TRAP.load(Ordering::Acquire).as_ref() }, gpu::running()) else {
        return;
    };
    let mut maps = trap.maps();
    maps.retain(|map| map.range.end <= range.start || range.end <= map.range.start);
    static SAID: AtomicBool = AtomicBool::new(false);
    if !trap.userfault.register(&range) || !trap.userfault.protect(&range, true) {
        crate::notice::say_once(
            &SAID,
            format_args!("stores to doorbells cannot be trapped; they are looked for every millisecond"),
        );
        if !LOOKING.swap(true, Ordering::Relaxed) {
            spawn("belfry-look", move || {
                loop {
                    std::thread::sleep(FALLBACK);
                    hint_all(gpu);
                }
            });
        }
        return;
    }
    maps.push(Map { range, owner: Arc::clone(owner), offset, held: None });
    // What was stored before the page trapped.
    owner.device().doorbell_hint();
}

/// In a forked child there are no maps.
pub(crate) fn forget() {
    TRAP.store(std::ptr::null_mut(), Ordering::Release);
    LOOKING.store(false, Ordering::Relaxed);
}
