//! Doorbells that wake: KVM turns a store into a signal of an eventfd and lets the guest run on.
//!
//! The value is dropped. That costs nothing if it is a copy of the queue's write pointer in memory, which producers
//! write first: the device reads that pointer. Each doorbell of a process's queue gets an eventfd. Doorbells for
//! which KVM's bus has no room, or which KVM refuses, trap.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, PoisonError, Weak};

use belfry_abi::doorbell::DoorbellOffset;
use belfry_device::Gpu;
use belfry_device::doorbell::DoorbellListener;
use belfry_lock::{Mutex, MutexGuard, rank};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::is_process;

/// Largest number of doorbells with an eventfd: KVM's bus takes about 1000 devices, a process by default 1024 files.
const LIMIT: usize = 256;
/// Number, in the epoll set, of the event that ends the thread; no doorbell has this offset.
const STOP: u64 = u64::MAX;

#[derive(Debug)]
struct Wakeup {
    event: EventFd,
    /// Address at which KVM signals it.
    at: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    /// Guest address of the BAR.
    base: Option<u64>,
    wakeups: BTreeMap<DoorbellOffset, Wakeup>,
    stopped: bool,
}

/// The doorbells that queues listen to.
#[derive(Debug)]
pub(in super::super) struct Wakeups {
    vm: Arc<VmFd>,
    gpu: Arc<Gpu>,
    epoll: Epoll,
    stop: EventFd,
    state: Mutex<State, rank::Wakeups>,
}

/// Receiver of the device's reports; it outlives the doorbells.
struct Ear(Weak<Wakeups>);

impl DoorbellListener for Ear {
    fn listens(&self, offset: DoorbellOffset, listening: bool) {
        if let Some(wakeups) = self.0.upgrade().filter(|_| is_process(offset.bytes())) {
            wakeups.listens(offset, listening);
        }
    }
}

impl Wakeups {
    pub(super) fn new(vm: Arc<VmFd>, gpu: &Arc<Gpu>) -> io::Result<Arc<Self>> {
        let (epoll, stop) = (Epoll::new()?, EventFd::new(EFD_NONBLOCK)?);
        epoll.ctl(ControlOperation::Add, stop.as_raw_fd(), EpollEvent::new(EventSet::IN, STOP))?;
        let wakeups = Arc::new(Self { vm, gpu: Arc::clone(gpu), epoll, stop, state: Mutex::default() });
        gpu.set_doorbell_listener(Arc::new(Ear(Arc::downgrade(&wakeups))));
        Ok(wakeups)
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Wakeups> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of doorbells that KVM signals.
    #[cfg(test)]
    pub(in super::super) fn registered(&self) -> usize {
        self.lock().wakeups.values().filter(|wakeup| wakeup.at.is_some()).count()
    }

    /// Takes the report that a queue begins or ceases to listen.
    pub(in super::super) fn listens(&self, offset: DoorbellOffset, listening: bool) {
        let mut state = self.lock();
        if !listening {
            if let Some(mut wakeup) = state.wakeups.remove(&offset) {
                self.unregister(offset, &mut wakeup);
            }
        } else if state.wakeups.len() >= LIMIT {
            log::debug!(target: "kvm", "doorbell {offset:#x} keeps trapping: {LIMIT} others do not");
        } else if !state.stopped {
            match self.wakeup(offset) {
                Ok(mut wakeup) => {
                    if let Some(base) = state.base {
                        self.register(base, offset, &mut wakeup);
                    }
                    state.wakeups.insert(offset, wakeup);
                }
                Err(error) => log::warn!(target: "kvm", "doorbell {offset:#x} keeps trapping: {error}"),
            }
        }
    }

    fn wakeup(&self, offset: DoorbellOffset) -> io::Result<Wakeup> {
        let event = EventFd::new(EFD_NONBLOCK)?;
        self.epoll.ctl(
            ControlOperation::Add,
            event.as_raw_fd(),
            EpollEvent::new(EventSet::IN, offset.bytes()),
        )?;
        Ok(Wakeup { event, at: None })
    }

    /// Lets KVM signal writes of any width to the doorbell's first byte; its upper half keeps trapping.
    fn register(&self, base: u64, offset: DoorbellOffset, wakeup: &mut Wakeup) {
        let at = base + offset.bytes();
        match self.vm.register_ioevent(&wakeup.event, &IoEventAddress::Mmio(at), NoDatamatch) {
            Ok(()) => wakeup.at = Some(at),
            Err(error) => {
                log::warn!(target: "kvm", "doorbell {offset:#x} at {at:#x} keeps trapping: {error}");
            }
        }
    }

    /// Makes the doorbell trap; earlier signals are passed on.
    fn unregister(&self, offset: DoorbellOffset, wakeup: &mut Wakeup) {
        if let Some(at) = wakeup.at.take()
            && let Err(error) =
                self.vm.unregister_ioevent(&wakeup.event, &IoEventAddress::Mmio(at), NoDatamatch)
        {
            log::error!(target: "kvm", "doorbell {offset:#x} cannot be made to trap at {at:#x}: {error}");
        }
        self.pass_on(offset, wakeup);
    }

    /// Passes the writes on: the eventfd counts them, and restarts from 0 when it is read.
    fn pass_on(&self, offset: DoorbellOffset, wakeup: &Wakeup) {
        if let Ok(writes) = wakeup.event.read() {
            self.gpu.doorbell_woken(offset, writes);
        }
    }

    pub(super) fn set_base(&self, base: Option<u64>) {
        let mut state = self.lock();
        if state.base == base {
            return;
        }
        state.base = base;
        for (&offset, wakeup) in &mut state.wakeups {
            self.unregister(offset, wakeup);
            if let Some(base) = base {
                self.register(base, offset, wakeup);
            }
        }
    }

    /// Passes on all signals so far.
    pub(super) fn settle(&self) {
        let state = self.lock();
        for (&offset, wakeup) in &state.wakeups {
            self.pass_on(offset, wakeup);
        }
    }

    /// Passes signals on until stopped.
    pub(super) fn wait(&self) {
        let mut events = [EpollEvent::default(); 16];
        loop {
            let count = match self.epoll.wait(-1, &mut events) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    log::error!(target: "kvm", "doorbells are not waited for, and trap: {error}");
                    self.stop();
                    return;
                }
            };
            let state = self.lock();
            for event in &events[..count] {
                if event.data() == STOP {
                    return;
                }
                // A doorbell that has gone in between has passed on its signals.
                let offset = DoorbellOffset::from_bytes(event.data());
                if let Some(wakeup) = state.wakeups.get(&offset) {
                    self.pass_on(offset, wakeup);
                }
            }
        }
    }

    pub(super) fn stop(&self) {
        self.set_base(None);
        let mut state = self.lock();
        state.stopped = true;
        state.wakeups.clear();
        drop(state);
        // If the counter is full, it has been signalled.
        let _ = self.stop.write(1);
    }
}
