//! A ring of dwords of the kernel's own (KIQ, MES), in VMID 0: pointers, fetching, reporting.
//!
//! The write pointer is a 64-bit monotonic count of dwords, taken from the doorbell; the read pointer is reported in 32
//! bits, modulo the ring's size.

use belfry_abi::doorbell::DoorbellIndex;

use crate::doorbell::Doorbells;
use crate::guest_error::GuestError;
use crate::queue::Hqd;
use crate::save::{Broken, check};
use crate::vm::{AddressSpace, Fault};

/// Pointers and address of one ring.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub(crate) struct Ring {
    base: u64,
    dwords: u64,
    rptr: u64,
    wptr: u64,
    rptr_report: u64,
    #[serde(with = "crate::save::doorbell")]
    doorbell: DoorbellIndex,
}

impl Ring {
    /// Makes the ring that a queue's registers describe.
    pub(crate) fn new(hqd: &Hqd) -> Result<Self, GuestError> {
        let dwords = hqd.pq_dwords().ok_or(GuestError::RingTooLarge)?;
        if hqd.pq_base() == 0 {
            return Err(GuestError::RingWithoutAddress);
        }
        if hqd.is_aql() {
            return Err(GuestError::KernelRingOfAql);
        }
        let wptr = hqd.pq_wptr();
        Ok(Self {
            base: hqd.pq_base(),
            dwords,
            rptr: u64::from(hqd.pq_rptr()),
            wptr,
            rptr_report: hqd.rptr_report_addr(),
            doorbell: hqd.doorbell(),
        })
    }

    /// Checks that a queue's registers could describe it.
    pub(crate) fn check(&self) -> Result<(), Broken> {
        let possible = self.dwords.is_power_of_two() && (2..=1 << 31).contains(&self.dwords);
        check("size of a kernel's ring", self.dwords, possible)
    }

    pub(crate) fn doorbell(&self) -> DoorbellIndex {
        self.doorbell
    }

    /// Takes the doorbell's value as the write pointer. Returns an error if it is behind the read pointer, or more than
    /// a ring ahead.
    pub(crate) fn look(&mut self, doorbells: &Doorbells) -> Result<(), GuestError> {
        let value = doorbells.load(self.doorbell.offset());
        if value.wrapping_sub(self.rptr) > self.dwords {
            return Err(GuestError::WritePointer);
        }
        self.wptr = value;
        Ok(())
    }

    /// Returns the dwords written and not consumed yet.
    pub(crate) fn available(&self) -> u64 {
        self.wptr.wrapping_sub(self.rptr)
    }

    /// Returns the read and the write pointer.
    pub(crate) fn pointers(&self) -> (u64, u64) {
        (self.rptr, self.wptr)
    }

    /// Copies dwords from `ahead` of the read pointer on.
    pub(crate) fn peek(&self, space: &AddressSpace, ahead: u64, out: &mut [u32]) -> Result<(), Fault> {
        for (i, dword) in out.iter_mut().enumerate() {
            let at = self.rptr.wrapping_add(ahead).wrapping_add(i as u64) & (self.dwords - 1);
            *dword = space.load_u32(self.base.wrapping_add(at * 4))?;
        }
        Ok(())
    }

    /// Moves the read pointer, at most up to the write pointer.
    pub(crate) fn consume(&mut self, dwords: u64) {
        self.rptr = self.rptr.wrapping_add(dwords.min(self.available()));
    }

    /// Moves the read pointer back over the dwords that were consumed last.
    pub(crate) fn go_back(&mut self, dwords: u64) {
        self.rptr = self.rptr.wrapping_sub(dwords);
    }

    /// Writes the read pointer to the address that the driver wants it at.
    pub(crate) fn report(&self, space: &AddressSpace) -> Result<(), Fault> {
        if self.rptr_report == 0 {
            return Ok(());
        }
        space.store_u32(self.rptr_report & !3, (self.rptr & (self.dwords - 1)) as u32)
    }
}

/// Stores a first write pointer into the doorbell of a queue that is being mapped.
///
/// The doorbell may hold the value of an earlier owner. The write pointer in memory, which drivers write before they
/// ring, is the right one then; a doorbell rung meanwhile wins.
pub(crate) fn seed_doorbell(hqd: &Hqd, space: Option<&AddressSpace>, doorbells: &Doorbells) {
    let offset = hqd.doorbell().offset();
    let before = doorbells.load(offset);
    let poll = hqd.wptr_poll_addr();
    let in_memory = space.filter(|_| poll != 0).and_then(|space| space.load_u64(poll).ok());
    let dwords = hqd.pq_dwords().unwrap_or(0);
    let plausible = in_memory.filter(|wptr| wptr.wrapping_sub(u64::from(hqd.pq_rptr())) <= dwords);
    doorbells.replace(offset, before, plausible.unwrap_or_else(|| hqd.pq_wptr()));
}
