//! The doorbells that queues listen to, for tools that inspect the device.

use std::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::pci::DOORBELL_BAR_SIZE;

use super::{Doorbells, PAGE, offset};

/// One doorbell.
#[derive(Clone, Copy, Debug)]
pub struct SeenDoorbell {
    /// Its place in BAR2.
    pub offset: DoorbellOffset,
    /// Its value.
    pub value: u64,
    /// True if a process's queue listens, not a ring of the kernel's own.
    pub of_process: bool,
    /// True if the doorbell was rung and its queue has not looked.
    pub rung: bool,
    /// True if its queue has work.
    pub busy: bool,
}

impl Doorbells {
    /// Returns the doorbells that have an owner.
    pub(crate) fn seen(&self) -> Vec<SeenDoorbell> {
        let pages = (0..DOORBELL_BAR_SIZE).step_by(PAGE as usize);
        pages
            .flat_map(|page| self.owned.of_page(page))
            .map(|at| SeenDoorbell {
                offset: offset(at),
                value: self.value(at).load(Ordering::Acquire),
                of_process: self.announced.get(at),
                rung: self.is_rung_at(at),
                busy: self.busy.get(at),
            })
            .collect()
    }
}
