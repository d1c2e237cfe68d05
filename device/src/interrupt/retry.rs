//! Faults that are tried again: interrupt ring 1, which takes them while it is on, and the filter in front of it, the
//! retry CAM.
//!
//! Linux `drivers/gpu/drm/amd/amdgpu/vega20_ih.c` sets both up, and `gmc_v9_0.c` (`gmc_v9_0_process_interrupt`) uses
//! them. The filter has an entry for each page that was reported to the driver; the number of the entry is in context
//! word 2, and the driver gives it back by a doorbell. Until then the page is not reported again. Ring 1 reports no
//! write pointer to memory and raises no vector: for each entry in it, ring 0 gets one of the interrupt handler's own
//! (`vega20_ih_self_irq`).

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_abi::regs::gfx9::osssys::{
    IH_DOORBELL_RETRY_CAM, IH_DOORBELL_RPTR_RING1, IH_RB_BASE_HI_RING1, IH_RB_BASE_RING1,
    IH_RETRY_INT_CAM_CNTL,
};
use belfry_abi::regs::osssys::{
    IH_DOORBELL_RPTR, IH_RB_BASE, IH_RB_BASE_HI, IH_RB_CNTL, IH_RB_CNTL_RING1, IH_RB_RPTR, IH_RB_RPTR_RING1,
    IH_RB_WPTR, IH_RB_WPTR_RING1,
};
use belfry_abi::regs::{Offset, Register};

use super::ih_ring::IhRing;

/// Entries of the filter: as many as the ten bits of context word 2 count.
const ENTRIES: usize = 1 << 10;

/// A page that was reported to the driver.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Told {
    pub(crate) vmid: u8,
    pub(crate) pasid: u16,
    /// Number of the page.
    pub(crate) page: u64,
}

/// The registers of ring 1, by those of ring 0.
const REGISTERS: [(Offset, Offset); 6] = [
    (IH_RB_CNTL_RING1::AT, IH_RB_CNTL::AT),
    (IH_RB_BASE_RING1::AT, IH_RB_BASE::AT),
    (IH_RB_BASE_HI_RING1::AT, IH_RB_BASE_HI::AT),
    (IH_RB_RPTR_RING1::AT, IH_RB_RPTR::AT),
    (IH_RB_WPTR_RING1::AT, IH_RB_WPTR::AT),
    (IH_DOORBELL_RPTR_RING1::AT, IH_DOORBELL_RPTR::AT),
];

fn of_ring(at: Offset) -> Option<Offset> {
    REGISTERS.iter().find(|(own, _)| *own == at).map(|(_, first)| *first)
}

/// Ring 1 and the filter.
#[derive(Debug)]
pub(super) struct Retry {
    pub(super) ring: IhRing,
    pub(super) control: IH_RETRY_INT_CAM_CNTL,
    pub(super) doorbell: IH_DOORBELL_RPTR,
    /// Reported pages by the number of their entry; the list is as long as the most entries that were ever in use.
    pub(super) told: Vec<Option<Told>>,
}

impl Default for Retry {
    fn default() -> Self {
        let ring = IhRing { reports: false, ..IhRing::default() };
        let control = IH_RETRY_INT_CAM_CNTL::default();
        Self { ring, control, doorbell: IH_DOORBELL_RPTR::default(), told: Vec::new() }
    }
}

impl Retry {
    pub(super) fn read(&self, at: Offset) -> Option<u32> {
        match at {
            IH_RETRY_INT_CAM_CNTL::AT => Some(self.control.bits()),
            IH_DOORBELL_RETRY_CAM::AT => Some(self.doorbell.bits()),
            _ => self.ring.read(of_ring(at)?),
        }
    }

    pub(super) fn write(&mut self, at: Offset, value: u32) -> bool {
        match at {
            IH_RETRY_INT_CAM_CNTL::AT => {
                self.control = IH_RETRY_INT_CAM_CNTL::from_bits(value);
                if !self.control.enable() {
                    self.told.clear();
                }
                true
            }
            IH_DOORBELL_RETRY_CAM::AT => {
                self.doorbell = IH_DOORBELL_RPTR::from_bits(value);
                true
            }
            _ => of_ring(at).is_some_and(|at| self.ring.write(at, value)),
        }
    }

    /// Returns the doorbell by which entries of the filter are given back.
    pub(super) fn acknowledge_doorbell(&self) -> Option<DoorbellOffset> {
        self.doorbell.enable().then(|| DoorbellIndex::from_dwords(self.doorbell.offset()).offset())
    }

    /// Takes the fault of a page. Returns the number of its entry, 0 if the filter is off, and `None` if the page was
    /// reported already or the filter has no room. Faults that are dropped come again.
    pub(super) fn admit(&mut self, fault: Told) -> Option<u32> {
        if !self.control.enable() {
            return Some(0);
        }
        if self.told.contains(&Some(fault)) {
            return None;
        }
        let free = self.told.iter().position(Option::is_none).unwrap_or(self.told.len());
        if free >= ENTRIES {
            return None;
        }
        if free == self.told.len() {
            self.told.push(None);
        }
        self.told[free] = Some(fault);
        Some(free as u32)
    }

    /// Gives an entry back. Returns the page of it, if there is one.
    pub(super) fn release(&mut self, index: u32) -> Option<Told> {
        self.told.get_mut(index as usize & (ENTRIES - 1))?.take()
    }

    /// Puts an entry where it was in another filter. Returns false if there cannot be one.
    pub(super) fn restore(&mut self, index: u32, fault: Told) -> bool {
        let index = index as usize;
        if index >= ENTRIES || self.told.contains(&Some(fault)) {
            return false;
        }
        if index >= self.told.len() {
            self.told.resize(index + 1, None);
        }
        self.told[index].replace(fault).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(page: u64) -> Told {
        Told { vmid: 3, pasid: 0x8001, page }
    }

    #[test]
    fn page_is_told_of_once_until_its_entry_is_given_back() {
        let mut retry = Retry::default();
        assert_eq!((retry.admit(fault(1)), retry.admit(fault(1))), (Some(0), Some(0)), "nothing is filtered");
        let mut control = IH_RETRY_INT_CAM_CNTL::default();
        control.set_enable(true);
        assert!(retry.write(IH_RETRY_INT_CAM_CNTL::AT, control.bits()));
        assert_eq!([1, 2, 1].map(|page| retry.admit(fault(page))), [Some(0), Some(1), None]);
        assert_eq!(retry.admit(Told { pasid: 0x8002, ..fault(1) }), Some(2), "of another process");
        assert_eq!(retry.release(0), Some(fault(1)));
        assert_eq!((retry.release(0), retry.release(77), retry.release(u32::MAX)), (None, None, None));
        assert_eq!(retry.admit(fault(1)), Some(0));
        // Off and on again: no page was reported.
        retry.write(IH_RETRY_INT_CAM_CNTL::AT, 0);
        retry.write(IH_RETRY_INT_CAM_CNTL::AT, control.bits());
        assert_eq!(retry.admit(fault(2)), Some(0));
    }

    #[test]
    fn filter_without_room_drops_faults() {
        let mut retry = Retry::default();
        retry.write(IH_RETRY_INT_CAM_CNTL::AT, u32::MAX);
        let admitted = (0..2000).filter(|page| retry.admit(fault(*page)).is_some()).count();
        assert_eq!(admitted, ENTRIES);
        assert_eq!(retry.release(5), Some(fault(5)));
        assert_eq!(retry.admit(fault(5000)), Some(5));
    }
}
