//! The interrupt handler as plain values.

use belfry_abi::regs::Register as _;
use belfry_abi::regs::gfx9::osssys::IH_RETRY_INT_CAM_CNTL;
use belfry_abi::regs::osssys::{IH_DOORBELL_RPTR, IH_RB_CNTL};
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Interrupts;
use super::ih_ring::IhRing;
use super::retry::{Retry, Told};
use crate::pci::{Msix, SavedMsix};
use crate::save::{Broken, check};

/// Ring 0, by its registers.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct SavedRing {
    cntl: u32,
    base: (u32, u32),
    rptr: u32,
    wptr: u32,
    overflow: bool,
    wptr_addr: (u32, u32),
    doorbell: u32,
    armed: bool,
}

/// Ring 1 and the retry filter.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct SavedRetry {
    ring: SavedRing,
    control: u32,
    doorbell: u32,
    /// Entries of the filter: number, VMID, PASID, page.
    told: Vec<(u32, u8, u16, u64)>,
}

impl Retry {
    fn save(&self) -> SavedRetry {
        let told = (0..).zip(&self.told).filter_map(|(n, entry)| entry.map(|told| (n, told)));
        SavedRetry {
            ring: self.ring.save(),
            control: self.control.bits(),
            doorbell: self.doorbell.bits(),
            told: told.map(|(n, told)| (n, told.vmid, told.pasid, told.page)).collect(),
        }
    }

    fn restored(saved: &SavedRetry) -> Result<Self, Broken> {
        let mut retry = Self {
            ring: IhRing { reports: false, ..IhRing::restored(&saved.ring) },
            control: IH_RETRY_INT_CAM_CNTL::from_bits(saved.control),
            doorbell: IH_DOORBELL_RPTR::from_bits(saved.doorbell),
            ..Self::default()
        };
        for &(n, vmid, pasid, page) in &saved.told {
            check("an entry of the retry filter", n, retry.restore(n, Told { vmid, pasid, page }))?;
        }
        Ok(retry)
    }
}

/// The interrupt handler, and the state of its vectors and its pin.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct SavedInterrupts {
    ring: SavedRing,
    retry: Option<SavedRetry>,
    msix: SavedMsix,
    /// True if the pin is asserted.
    pin: bool,
    pin_pending: bool,
}

impl IhRing {
    fn save(&self) -> SavedRing {
        SavedRing {
            cntl: self.cntl.bits(),
            base: (self.base_lo, self.base_hi),
            rptr: self.rptr,
            wptr: self.wptr,
            overflow: self.overflow,
            wptr_addr: (self.wptr_addr_lo, self.wptr_addr_hi),
            doorbell: self.doorbell.bits(),
            armed: self.armed,
        }
    }

    /// Makes a ring with these registers. Values that a driver could not have written are corrected, as writes would
    /// be.
    fn restored(saved: &SavedRing) -> Self {
        let mut ring = Self {
            cntl: IH_RB_CNTL::from_bits(saved.cntl),
            base_lo: saved.base.0,
            base_hi: saved.base.1 & 0xff,
            overflow: saved.overflow,
            wptr_addr_lo: saved.wptr_addr.0 & !3,
            wptr_addr_hi: saved.wptr_addr.1 & 0xffff,
            doorbell: IH_DOORBELL_RPTR::from_bits(saved.doorbell),
            armed: saved.armed,
            ..Self::default()
        };
        ring.set_pointers(saved.rptr, saved.wptr);
        ring
    }
}

impl Interrupts {
    /// Saves the handler's state.
    pub(crate) fn save(&self) -> SavedInterrupts {
        let state = self.lock();
        SavedInterrupts {
            ring: state.ring.save(),
            retry: state.retry.as_ref().map(Retry::save),
            msix: state.msix.save(),
            pin: state.pin,
            pin_pending: self.pin_pending(),
        }
    }

    /// Takes over the state of another handler. A pin that was asserted is asserted here; it does not count as another
    /// interrupt.
    pub(crate) fn restore(&self, saved: &SavedInterrupts) -> Result<(), Broken> {
        let msix = Msix::restored(&saved.msix)?;
        let retry = saved.retry.as_ref().map(Retry::restored).transpose()?;
        let mut state = self.lock();
        state.ring = IhRing::restored(&saved.ring);
        // A chip with the retry ring has it in both states.
        if let Some(own) = &mut state.retry {
            *own = retry.unwrap_or_default();
        }
        state.msix = msix;
        self.own_doorbells(&state);
        self.pin_pending.store(self.has_pin && saved.pin_pending, Ordering::SeqCst);
        let pin = self.has_pin && saved.pin;
        if pin != state.pin {
            state.pin = pin;
            self.sink.set_pin(pin);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs::osssys::{IH_RB_BASE, IH_RB_BASE_HI, IH_RB_RPTR, IH_RB_WPTR, IH_RB_WPTR_ADDR_LO};

    use super::*;

    #[test]
    fn ring_goes_through_its_registers_and_back_unchanged() {
        let mut ring = IhRing::default();
        let mut cntl = IH_RB_CNTL::default();
        cntl.set_rb_size(8);
        cntl.set_rb_enable(true);
        cntl.set_enable_intr(true);
        for (at, value) in [
            (IH_RB_CNTL::AT, cntl.bits()),
            (IH_RB_BASE::AT, 0x8000_0010),
            (IH_RB_BASE_HI::AT, 0x7f),
            (IH_RB_WPTR::AT, 64 | 1),
            (IH_RB_RPTR::AT, 32),
            (IH_RB_WPTR_ADDR_LO::AT, 0x1000),
            (IH_DOORBELL_RPTR::AT, 0x1000_0055),
        ] {
            assert!(ring.write(at, value));
        }
        let saved = ring.save();
        assert_eq!(IhRing::restored(&saved).save(), saved);
        assert_eq!((saved.rptr, saved.wptr, saved.overflow), (32, 64, true));
        let absurd = SavedRing { rptr: u32::MAX, wptr: u32::MAX, base: (0, u32::MAX), ..saved };
        let formed = IhRing::restored(&absurd).save();
        assert_eq!((formed.rptr, formed.wptr, formed.base.1), (0x3_ffe0, 0x3_ffe0, 0xff));
    }
}
