//! Stress test of the real watching thread: a guest in a thread of its own rings a million times, in bursts and
//! pauses of many lengths.
//!
//! The guest's access is as under KVM: it goes to memory or traps, in one step, and taking a page away waits for
//! accesses under way. Each burst waits until the device has found its last ring; a lost ring would never be found.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};
use std::thread::Thread;
use std::time::{Duration, Instant};

use belfry_abi::doorbell::DoorbellOffset;

use super::pages::{Device, Pace, Pages, Slot};

const RINGS: u64 = 1_000_000;
/// The page that is rung, and two doorbells on it.
const PAGE: u64 = 0x2000;
const BELLS: [u64; 2] = [PAGE, PAGE + 0x58];
const BASE: u64 = 0xc800_0000;
/// Time limit for finding a doorbell; working code never takes so long.
const LOST: Duration = Duration::from_secs(30);

/// Destination of the guest's accesses to the page, and the number of times that it became memory.
#[derive(Debug, Default)]
struct Translation {
    is_memory: RwLock<bool>,
    given: AtomicU64,
}

#[derive(Debug)]
struct FakeSlot(Arc<Translation>);

impl Slot for FakeSlot {
    fn place(&mut self, at: Option<(u64, u64, u64)>) -> io::Result<()> {
        if let Some(at) = at {
            assert_eq!(at, (BASE + PAGE, PAGE, 4096));
            self.0.given.fetch_add(1, Ordering::Relaxed);
        }
        *self.0.is_memory.write().unwrap() = at.is_some();
        Ok(())
    }
}

/// A device that looks only when it is told to.
#[derive(Debug)]
struct FakeDevice {
    values: [AtomicU64; 2],
    found: [AtomicU64; 2],
    works: AtomicBool,
    told: AtomicBool,
    thread: std::sync::OnceLock<Thread>,
}

impl Device for Arc<FakeDevice> {
    fn doorbells(&self, page: u64) -> impl Iterator<Item = (DoorbellOffset, u64)> {
        let values = self.values.iter().map(|value| value.load(Ordering::Acquire));
        BELLS.into_iter().map(DoorbellOffset::from_bytes).zip(values).filter(move |_| page == PAGE)
    }

    fn has_work(&self, _: u64) -> bool {
        self.works.load(Ordering::Relaxed)
    }

    fn look(&self) {
        if !self.told.swap(true, Ordering::SeqCst)
            && let Some(thread) = self.thread.get()
        {
            thread.unpark();
        }
    }
}

impl FakeDevice {
    fn run(&self, stopped: &AtomicBool) {
        while !stopped.load(Ordering::SeqCst) {
            if !self.told.swap(false, Ordering::SeqCst) {
                std::thread::park();
                continue;
            }
            for (found, value) in self.found.iter().zip(&self.values) {
                found.store(value.load(Ordering::Acquire), Ordering::Release);
            }
        }
    }
}

struct Guest<'a> {
    pages: &'a Pages<FakeSlot, Arc<FakeDevice>>,
    device: &'a Arc<FakeDevice>,
    translation: &'a Translation,
    trapped: u64,
}

impl Guest<'_> {
    fn ring(&mut self, bell: usize, value: u64) {
        {
            let is_memory = self.translation.is_memory.read().unwrap();
            if *is_memory {
                self.device.values[bell].store(value, Ordering::Release);
                return;
            }
        }
        self.trapped += 1;
        self.device.values[bell].store(value, Ordering::Release);
        self.device.look();
        self.pages.rung(BELLS[bell]);
    }

    fn wait(&self, what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + LOST;
        while !done() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }
}

#[test]
fn a_million_rings_in_bursts_and_pauses_are_all_found() {
    let device = Arc::new(FakeDevice {
        values: Default::default(),
        found: Default::default(),
        works: AtomicBool::new(false),
        told: AtomicBool::new(false),
        thread: Default::default(),
    });
    let translation = Arc::new(Translation::default());
    let pace = Pace {
        eager: Duration::from_micros(5),
        nap: Duration::from_micros(10),
        idle: Duration::from_micros(10),
        busy: Duration::from_micros(100),
    };
    let pages = Pages::new(vec![FakeSlot(Arc::clone(&translation))], Arc::clone(&device), pace);
    pages.set_base(Some(BASE));
    let stopped = AtomicBool::new(false);
    let trapped = std::thread::scope(|scope| {
        let watching = scope.spawn(|| pages.watch());
        let looking = scope.spawn(|| device.run(&stopped));
        device.thread.set(looking.thread().clone()).unwrap();
        let mut guest = Guest { pages: &pages, device: &device, translation: &translation, trapped: 0 };
        let (mut rung, mut random) = ([0u64; 2], 0x9e37_79b9_7f4a_7c15_u64);
        while rung[0] + rung[1] < RINGS {
            // Marsaglia's xorshift: every run has these bursts.
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            device.works.store(random >> 60 == 0, Ordering::Relaxed);
            for ring in 0..=(random >> 32) % 20 {
                let bell = usize::from(random >> (ring % 32) & 3 == 0);
                rung[bell] += 1;
                guest.ring(bell, rung[bell]);
            }
            guest.wait("a doorbell was lost", || {
                [0, 1].iter().all(|&bell| device.found[bell].load(Ordering::Acquire) == rung[bell])
            });
            match random >> 8 & 15 {
                // The guest waits until the page has gone, so that the next ring traps, or rings just during the
                // change.
                0..8 => {
                    device.works.store(false, Ordering::Relaxed);
                    guest.wait("the page stays memory", || !*translation.is_memory.read().unwrap());
                }
                8..12 => (0..random >> 16 & 0xfff).for_each(|_| std::hint::spin_loop()),
                _ => {}
            }
        }
        stopped.store(true, Ordering::SeqCst);
        pages.stop();
        looking.thread().unpark();
        watching.join().unwrap();
        looking.join().unwrap();
        guest.trapped
    });
    let given = translation.given.load(Ordering::Relaxed);
    println!("{RINGS} rings, {trapped} of them trapped; the page became memory {given} times");
    assert!(!*translation.is_memory.read().unwrap(), "the page is memory at the end");
    assert!(given > 10_000 && trapped >= given, "{given} changes, {trapped} traps");
}
