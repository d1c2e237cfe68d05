//! Doorbell pages that change between trapping and being memory: no store is lost.
//!
//! A guest's access is one step: it goes to memory or traps, and taking a page away waits for accesses under way. KVM
//! promises this of memory slots; here it is a lock.

#[path = "../../../device/src/handover.rs"]
#[expect(unreachable_pub, reason = "public in the crate it belongs to")]
mod handover;

use handover::{Handover, Page};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Mutex, RwLock};
use loom::thread;

/// Deliberate mistake.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Mistake {
    None,
    /// The device is not told after the page was taken away.
    NoLastLook,
    /// The page becomes memory before its values are known.
    LateSnapshot,
}

/// Two doorbells on one page, each rung by a vCPU with ever larger values.
struct Model {
    bells: [AtomicUsize; 2],
    /// Values that the device has found.
    found: [AtomicUsize; 2],
    is_memory: RwLock<bool>,
    handover: Mutex<Option<Handover<[usize; 2]>>>,
    mistake: Mistake,
}

/// The page, as the holder of the lock on the handover sees it.
struct Bells<'a> {
    model: &'a Model,
    taken: bool,
}

impl Page for Bells<'_> {
    type Values = [usize; 2];

    fn values(&self) -> [usize; 2] {
        if self.model.mistake == Mistake::LateSnapshot {
            *self.model.is_memory.write().unwrap() = true;
        }
        [0, 1].map(|bell| self.model.bells[bell].load(Ordering::Acquire))
    }

    fn differs(&self, last: &mut [usize; 2]) -> bool {
        let now = [0, 1].map(|bell| self.model.bells[bell].load(Ordering::Acquire));
        std::mem::replace(last, now) != now
    }

    fn give(&mut self) -> bool {
        *self.model.is_memory.write().unwrap() = true;
        true
    }

    fn take(&mut self) -> bool {
        *self.model.is_memory.write().unwrap() = false;
        self.taken = true;
        true
    }

    fn tell(&self) {
        if !(self.taken && self.model.mistake == Mistake::NoLastLook) {
            self.model.look_at(0);
            self.model.look_at(1);
        }
    }
}

impl Model {
    fn new(mistake: Mistake) -> Self {
        Self {
            bells: [AtomicUsize::new(0), AtomicUsize::new(0)],
            found: [AtomicUsize::new(0), AtomicUsize::new(0)],
            is_memory: RwLock::new(false),
            handover: Mutex::new(None),
            mistake,
        }
    }

    fn page(&self) -> Bells<'_> {
        Bells { model: self, taken: false }
    }

    /// The device's look at a doorbell when it is told.
    fn look_at(&self, bell: usize) {
        self.found[bell].fetch_max(self.bells[bell].load(Ordering::Acquire), Ordering::AcqRel);
    }

    /// A vCPU's ring of a doorbell.
    fn ring(&self, bell: usize, value: usize) {
        {
            let is_memory = self.is_memory.read().unwrap();
            if *is_memory {
                self.bells[bell].store(value, Ordering::Release);
                return;
            }
        }
        // It traps: the device stores the value and looks, then the page becomes memory.
        self.bells[bell].store(value, Ordering::Release);
        self.look_at(bell);
        let mut handover = self.handover.lock().unwrap();
        if handover.is_none() {
            *handover = Handover::begin(&mut self.page());
        }
    }

    /// One look of the watching thread.
    fn watch(&self, is_idle: bool) {
        let mut handover = self.handover.lock().unwrap();
        let Some(held) = handover.as_mut() else { return };
        held.look(&self.page());
        if is_idle {
            assert!(held.end(&mut self.page()));
            *handover = None;
        }
    }

    /// Final check, once all vCPUs have stopped ringing: a value that the next look does not find is lost.
    fn check(&self, last: [usize; 2]) {
        if let Some(held) = self.handover.lock().unwrap().as_mut() {
            held.look(&self.page());
        }
        let found = [0, 1].map(|bell| self.found[bell].load(Ordering::Acquire));
        assert_eq!(found, last, "a doorbell was lost");
    }
}

/// A vCPU rings `rings` times while the watching thread looks and takes the page away as `watches` says.
fn one_vcpu(mistake: Mistake, rings: usize, watches: &'static [bool]) {
    loom::model(move || {
        let model = Arc::new(Model::new(mistake));
        let vcpu = thread::spawn({
            let model = Arc::clone(&model);
            move || (1..=rings).for_each(|value| model.ring(0, value))
        });
        watches.iter().for_each(|&is_idle| model.watch(is_idle));
        vcpu.join().unwrap();
        model.check([rings, 0]);
    });
}

/// Two vCPUs ring a doorbell each, `rings` times.
fn two_vcpus(mistake: Mistake, rings: usize, watches: &'static [bool]) {
    let mut builder = loom::model::Builder::new();
    // Everything three threads can do takes minutes; a lost ring shows with few preemptions.
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Arc::new(Model::new(mistake));
        let vcpus = [0, 1].map(|bell| {
            let model = Arc::clone(&model);
            thread::spawn(move || (1..=rings).for_each(|value| model.ring(bell, value)))
        });
        watches.iter().for_each(|&is_idle| model.watch(is_idle));
        vcpus.into_iter().for_each(|vcpu| vcpu.join().unwrap());
        model.check([rings; 2]);
    });
}

#[test]
fn no_doorbell_is_lost_while_a_page_comes_and_goes() {
    one_vcpu(Mistake::None, 3, &[true, false, true]);
}

#[test]
fn no_doorbell_is_lost_while_a_page_stays() {
    one_vcpu(Mistake::None, 4, &[false, false]);
}

#[test]
fn no_doorbell_is_lost_among_several_vcpus() {
    two_vcpus(Mistake::None, 2, &[true, false]);
}

#[test]
#[should_panic(expected = "a doorbell was lost")]
fn without_the_last_look_one_is_lost() {
    one_vcpu(Mistake::NoLastLook, 3, &[true, false, true]);
}

#[test]
#[should_panic(expected = "a doorbell was lost")]
fn with_a_late_snapshot_one_is_lost() {
    two_vcpus(Mistake::LateSnapshot, 1, &[]);
}
