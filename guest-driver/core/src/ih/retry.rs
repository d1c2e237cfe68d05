//! Interrupt ring 1 and the retry filter, for faults that waves retry (`vega20_ih.c`).
//!
//! Ring 1 reports no write pointer to memory and has no vector of its own: entries of ring 0 say when there is something in it. A full
//! one takes no more entries, and their faults come again. The filter tells of a page once, until the driver gives its entry back.

use alloc::sync::Arc;

use belfry_abi::ih::{ENTRY_SIZE, IhEntry};
use belfry_abi::regs::Register;
use belfry_abi::regs::gfx9::osssys::{
    IH_DOORBELL_RETRY_CAM, IH_DOORBELL_RPTR_RING1, IH_RB_BASE_HI_RING1, IH_RB_BASE_RING1,
    IH_RETRY_INT_CAM_CNTL,
};
use belfry_abi::regs::osssys::{IH_RB_CNTL, IH_RB_CNTL_RING1, IH_RB_RPTR_RING1, IH_RB_WPTR_RING1};
use zerocopy::IntoBytes;

use super::BATCH;
use crate::errno::Result;
use crate::gart::{Gart, KernelBuffer};
use crate::hw::Hw;
use crate::os::{Os, PAGE_SIZE};

/// Bytes of the ring, as many as amdgpu gives it.
const RING_SIZE: u32 = PAGE_SIZE as u32;

/// Interrupt ring 1.
pub(super) struct RetryRing<O: Os> {
    hw: Arc<Hw<O>>,
    buffer: KernelBuffer<O>,
    rptr: u32,
}

impl<O: Os> RetryRing<O> {
    /// The ring, `None` for a chip whose waves do not wait.
    pub(super) fn new(hw: &Arc<Hw<O>>, gart: &Arc<Gart<O>>) -> Result<Option<Self>> {
        if hw.asic().retry.is_none() {
            return Ok(None);
        }
        Ok(Some(Self { hw: hw.clone(), buffer: gart.allocate(1)?, rptr: 0 }))
    }

    pub(super) fn start(&mut self) {
        let hw = &self.hw;
        hw.write(IH_RB_CNTL_RING1(0));
        self.rptr = 0;
        let base = self.buffer.gpu_address();
        hw.write(IH_RB_BASE_RING1((base >> 8) as u32));
        hw.write(IH_RB_BASE_HI_RING1((base >> 40) as u32));
        hw.write(IH_RB_WPTR_RING1(0));
        hw.write(IH_RB_RPTR_RING1(0));
        // Registers, and no doorbells: one that is polled can be missed.
        hw.write(IH_DOORBELL_RPTR_RING1(0));
        hw.write(IH_DOORBELL_RETRY_CAM(0));
        // What the filter had told another driver of is forgotten.
        hw.write(IH_RETRY_INT_CAM_CNTL(0));
        let mut filter = IH_RETRY_INT_CAM_CNTL(0);
        filter.set_enable(true);
        hw.write(filter);
        let mut cntl = IH_RB_CNTL(0);
        cntl.set_rb_size((RING_SIZE / 4).ilog2());
        cntl.set_rb_full_drain_enable(true);
        cntl.set_mc_snoop(true);
        cntl.set_mc_space(4);
        cntl.set_rb_enable(true);
        hw.write(IH_RB_CNTL_RING1(cntl.bits()));
    }

    pub(super) fn stop(&self) {
        self.hw.write(IH_RB_CNTL_RING1(0));
        self.hw.write(IH_RETRY_INT_CAM_CNTL(0));
    }

    /// Takes up to a batch of entries; returns how many.
    pub(super) fn take(&mut self, entries: &mut [IhEntry; BATCH]) -> usize {
        let wptr = self.hw.read::<IH_RB_WPTR_RING1>().bits() & !(ENTRY_SIZE - 1) & (RING_SIZE - 1);
        let mut count = 0;
        for entry in entries {
            if self.rptr == wptr {
                break;
            }
            self.buffer.read(self.rptr as usize, entry.as_mut_bytes());
            self.rptr = (self.rptr + ENTRY_SIZE) & (RING_SIZE - 1);
            count += 1;
        }
        if count > 0 {
            self.hw.write(IH_RB_RPTR_RING1(self.rptr));
        }
        count
    }
}
