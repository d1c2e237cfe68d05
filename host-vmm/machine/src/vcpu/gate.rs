//! The gate at which vCPUs stand still while their machine is saved: outside of KVM_RUN, with their last access
//! completed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use belfry_lock::{Condvar, Mutex, MutexGuard, rank};
use belfry_snapshot::SavedVcpu;
use kvm_ioctls::VcpuFd;

use super::Thread;

/// Time between two signals to a vCPU that is still inside of the guest.
const AGAIN: Duration = Duration::from_micros(200);

#[derive(Debug, Default)]
struct State {
    threads: BTreeMap<u8, Thread>,
    parked: BTreeSet<u8>,
    /// True if the parked vCPUs have to report their state.
    asked: bool,
    answers: BTreeMap<u8, Result<SavedVcpu, kvm_ioctls::Error>>,
    /// True once the machine ends.
    closed: bool,
}

/// The gate of a machine's vCPUs.
#[derive(Debug)]
pub(crate) struct Gate {
    cpus: usize,
    /// Model-specific registers that the host's KVM saves.
    msrs: Vec<u32>,
    wanted: AtomicBool,
    state: Mutex<State, rank::VcpuGate>,
    changed: Condvar,
}

impl Gate {
    pub(crate) fn new(cpus: usize, msrs: Vec<u32>) -> Self {
        let (wanted, state) = (AtomicBool::new(false), Mutex::default());
        Self { cpus, msrs, wanted, state, changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::VcpuGate> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers the calling thread as a vCPU's.
    pub(crate) fn enter(&self, number: u8) {
        self.lock().threads.insert(number, Thread::current());
        self.changed.notify_all();
    }

    /// Removes the thread; no other thread signals it after this.
    pub(crate) fn leave(&self, number: u8) {
        let mut state = self.lock();
        state.threads.remove(&number);
        state.closed = true;
        self.changed.notify_all();
    }

    /// Closes the gate for good: no vCPU comes any more.
    pub(crate) fn shut(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns true if vCPUs have to stand still.
    pub(crate) fn wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Stands still until the gate opens; the vCPU has no access that is not completed.
    pub(crate) fn park(&self, number: u8, vcpu: &VcpuFd) {
        let mut state = self.lock();
        state.parked.insert(number);
        self.changed.notify_all();
        while self.wanted() {
            if state.asked && !state.answers.contains_key(&number) {
                let answer = super::save(vcpu, &self.msrs);
                state.answers.insert(number, answer);
                self.changed.notify_all();
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        state.parked.remove(&number);
        self.changed.notify_all();
    }

    /// Makes all vCPUs stand still until the returned value is dropped; `None` for a machine that does not run, or
    /// ends meanwhile.
    ///
    /// One caller at a time.
    pub(crate) fn close(&self) -> Option<Closed<'_>> {
        self.wanted.store(true, Ordering::SeqCst);
        let closed = Closed(self);
        let mut state = self.lock();
        loop {
            // A machine that has just been made has not started its threads yet.
            if state.closed {
                return None;
            }
            if state.threads.len() == self.cpus && state.parked.len() == self.cpus {
                return Some(closed);
            }
            for (number, thread) in &state.threads {
                if !state.parked.contains(number) {
                    thread.call_out();
                }
            }
            let waited = self.changed.wait_timeout(state, AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// All vCPUs stand still; they go on when this is dropped.
#[derive(Debug)]
pub(crate) struct Closed<'a>(&'a Gate);

impl Closed<'_> {
    /// Returns the states of the vCPUs, by number; `None` if the machine ends.
    pub(crate) fn states(&self) -> Option<Result<Vec<SavedVcpu>, kvm_ioctls::Error>> {
        let mut state = self.0.lock();
        state.asked = true;
        self.0.changed.notify_all();
        while state.answers.len() < self.0.cpus {
            if state.closed {
                return None;
            }
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.asked = false;
        Some(std::mem::take(&mut state.answers).into_values().collect())
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        (state.asked, state.answers) = (false, BTreeMap::new());
        self.0.wanted.store(false, Ordering::SeqCst);
        self.0.changed.notify_all();
        // The next caller that closes the gate finds it empty: all vCPUs have left.
        while !state.parked.is_empty() {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
