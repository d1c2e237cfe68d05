//! The rings that the device writes interrupts to (`amdgpu_ih.c`).

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use belfry_abi::ih::{ENTRY_SIZE, IhEntry};
use belfry_abi::regs::osssys;
use zerocopy::IntoBytes;

use self::retry::RetryRing;
use crate::errno::Result;
use crate::gart::{Gart, KernelBuffer};
use crate::hw::Hw;
use crate::os::{Os, PAGE_SIZE};

/// Bytes of the ring.
pub(crate) const RING_SIZE: u32 = 64 << 10;
/// Offset at which the device reports the write pointer, behind the ring.
const WPTR: usize = RING_SIZE as usize;
/// Entries taken at once: the ring's lock is short, and they fit on a kernel's stack.
pub(crate) const BATCH: usize = 16;
/// Batches of one pass: as much as a full ring holds.
pub(crate) const BATCHES: usize = (RING_SIZE / ENTRY_SIZE) as usize / BATCH;
/// Bit of the reported write pointer: entries were overwritten (`IH_RB_WPTR.RB_OVERFLOW`).
const RB_OVERFLOW: u32 = 1;

/// Interrupt ring 0, and ring 1 where there is one.
pub(crate) struct IhRing<O: Os> {
    retry: Option<RetryRing<O>>,
    hw: Arc<Hw<O>>,
    buffer: KernelBuffer<O>,
    rptr: u32,
}

impl<O: Os> IhRing<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>) -> Result<Self> {
        let buffer = gart.allocate(RING_SIZE as usize / PAGE_SIZE as usize + 1)?;
        let retry = RetryRing::new(&hw, gart)?;
        Ok(Self { retry, hw, buffer, rptr: 0 })
    }

    fn control(&self) -> osssys::IH_RB_CNTL {
        let mut cntl = osssys::IH_RB_CNTL(0);
        cntl.set_rb_size((RING_SIZE / 4).ilog2());
        cntl.set_wptr_writeback_enable(true);
        cntl.set_wptr_overflow_enable(true);
        cntl.set_enable_intr(true);
        cntl.set_rptr_rearm(true);
        cntl.set_mc_snoop(true);
        // The ring's address is one of VMID 0, not of the bus.
        cntl.set_mc_space(4);
        cntl
    }

    /// Programs and enables the rings.
    pub(crate) fn start(&mut self) {
        if let Some(retry) = &mut self.retry {
            retry.start();
        }
        let hw = &self.hw;
        hw.write(osssys::IH_RB_CNTL(0));
        self.rptr = 0;
        self.buffer.word(WPTR).store(0, Ordering::Relaxed);
        let base = self.buffer.gpu_address();
        hw.write(osssys::IH_RB_BASE((base >> 8) as u32));
        hw.write(osssys::IH_RB_BASE_HI((base >> 40) as u32));
        let wptr = base + WPTR as u64;
        hw.write(osssys::IH_RB_WPTR_ADDR_LO(wptr as u32));
        hw.write(osssys::IH_RB_WPTR_ADDR_HI((wptr >> 32) as u32 & 0xffff));
        hw.write(osssys::IH_RB_RPTR(0));
        hw.write(osssys::IH_RB_WPTR(0));
        // The read pointer goes back by register, which cannot be missed as a polled doorbell can.
        hw.write(osssys::IH_DOORBELL_RPTR(0));
        let mut cntl = self.control();
        cntl.set_rb_enable(true);
        hw.write(cntl);
    }

    /// Addresses of the ring and of its write pointer, as a device finds them.
    #[cfg(test)]
    pub(crate) fn addresses(&self) -> (usize, usize) {
        let address = |offset| core::ptr::from_ref(self.buffer.word(offset)).addr();
        (address(0), address(WPTR))
    }

    /// Takes up to a batch of entries of ring 1; returns how many, `None` for a device without it.
    pub(crate) fn take_retries(&mut self, entries: &mut [IhEntry; BATCH]) -> Option<usize> {
        self.retry.as_mut().map(|ring| ring.take(entries))
    }

    /// Disables the rings.
    pub(crate) fn stop(&self) {
        if let Some(retry) = &self.retry {
            retry.stop();
        }
        self.hw.write(osssys::IH_RB_CNTL(0));
    }

    /// Takes up to a batch of entries; returns how many, and whether entries were lost before them.
    pub(crate) fn take(&mut self, entries: &mut [IhEntry; BATCH]) -> (usize, bool) {
        let mut wptr = self.buffer.word(WPTR).load(Ordering::Acquire);
        let overflow = wptr & RB_OVERFLOW != 0;
        wptr = wptr & !(ENTRY_SIZE - 1) & (RING_SIZE - 1);
        if overflow {
            // The oldest entry that is whole lies just behind the write pointer.
            self.rptr = (wptr + ENTRY_SIZE) & (RING_SIZE - 1);
            let mut cntl = self.control();
            cntl.set_rb_enable(true);
            cntl.set_wptr_overflow_clear(true);
            self.hw.write(cntl);
            cntl.set_wptr_overflow_clear(false);
            self.hw.write(cntl);
            self.buffer.word(WPTR).fetch_and(!RB_OVERFLOW, Ordering::AcqRel);
        }
        let mut count = 0;
        for entry in entries {
            if self.rptr == wptr {
                break;
            }
            self.buffer.read(self.rptr as usize, entry.as_mut_bytes());
            self.rptr = (self.rptr + ENTRY_SIZE) & (RING_SIZE - 1);
            count += 1;
        }
        if count > 0 || overflow {
            self.hw.write(osssys::IH_RB_RPTR(self.rptr));
        }
        (count, overflow)
    }
}

mod retry;
