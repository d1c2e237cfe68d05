//! Doorbells: three ways from a guest's store to the device.
//!
//! | mode | a store | the value | file |
//! | --- | --- | --- | --- |
//! | trapped | exits to this process | is that of the access | |
//! | ioeventfd | exits to KVM, which signals an eventfd | is read from the queue's write pointer | `wakeups.rs` |
//! | adaptive | is a store, while the page is rung often | is found in the page | `pages.rs`, `belfry_device::handover` |
//!
//! The first slice of the BAR is the kernel's own and always traps: the values of its rings and the read pointer of its
//! interrupt ring have to take effect as they are written.

mod pages;
#[cfg(test)]
mod stress;
mod wakeups;

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

use belfry_abi::pci::{DOORBELL_BAR_SIZE, DOORBELL_SLICE_SIZE};
use belfry_device::Gpu;
use kvm_ioctls::VmFd;

use super::config::DoorbellMode;
use super::memory::{SharedMemory, Window};
use pages::{Pace, Pages};
use wakeups::Wakeups;

/// Work for doorbells beyond trapping them.
#[derive(Clone, Debug)]
pub(super) enum Doorbells {
    /// Stores wake the device.
    Wakeups(Arc<Wakeups>),
    /// Pages are memory at times.
    Pages(Arc<Pages<Window, Arc<Gpu>>>),
}

impl Doorbells {
    /// Slots of the VM that the doorbells of a GPU take at most.
    pub(super) const SLOTS: u32 = pages::WINDOWS;

    /// Makes the doorbells over `memory`; if they need slots of the VM, they take those from `first_slot` on.
    pub(super) fn new(
        mode: DoorbellMode,
        vm: &Arc<VmFd>,
        gpu: &Arc<Gpu>,
        memory: &SharedMemory,
        first_slot: u32,
    ) -> io::Result<Option<Self>> {
        Ok(match mode {
            DoorbellMode::Trapped => None,
            DoorbellMode::Ioeventfd => Some(Self::Wakeups(Wakeups::new(Arc::clone(vm), gpu)?)),
            DoorbellMode::Adaptive => {
                pages::keep_other_translations(vm);
                let slots = (first_slot..first_slot + Self::SLOTS)
                    .map(|slot| Ok(Window::new(Arc::clone(vm), slot, memory.map()?)))
                    .collect::<io::Result<_>>()?;
                Some(Self::Pages(Pages::new(slots, Arc::clone(gpu), Pace::default())))
            }
        })
    }

    /// Sets the address of the BAR; when this returns, nothing is left at its old address.
    pub(super) fn set_base(&self, base: Option<u64>) {
        match self {
            Self::Wakeups(wakeups) => wakeups.set_base(base),
            Self::Pages(pages) => pages.set_base(base),
        }
    }

    /// Tells the device all rings so far, while no vCPU runs; pages that were memory trap afterwards.
    pub(super) fn settle(&self) {
        match self {
            Self::Wakeups(wakeups) => wakeups.settle(),
            Self::Pages(pages) => pages.settle(),
        }
    }

    /// Reports a doorbell that was written and trapped; the device knows its value.
    pub(super) fn rung(&self, offset: u64) {
        match self {
            Self::Wakeups(_) => {}
            Self::Pages(pages) => pages.rung(offset),
        }
    }

    /// Starts the thread that waits for signals, or looks at pages.
    pub(super) fn start(&self) -> io::Result<Watcher> {
        let doorbells = self.clone();
        let run = move || match doorbells {
            Self::Wakeups(wakeups) => wakeups.wait(),
            Self::Pages(pages) => pages.watch(),
        };
        let thread = std::thread::Builder::new().name("doorbells".into()).spawn(run)?;
        Ok(Watcher { doorbells: self.clone(), thread: Some(thread) })
    }

    fn stop(&self) {
        match self {
            Self::Wakeups(wakeups) => wakeups.stop(),
            Self::Pages(pages) => pages.stop(),
        }
    }
}

/// Returns true if a byte offset in the BAR is that of a process's doorbell.
fn is_process(offset: u64) -> bool {
    (DOORBELL_SLICE_SIZE..DOORBELL_BAR_SIZE).contains(&offset)
}

/// Ends the thread when dropped.
#[derive(Debug)]
pub(super) struct Watcher {
    doorbells: Doorbells,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.doorbells.stop();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            log::error!(target: "kvm", "the doorbell thread panicked");
        }
    }
}
