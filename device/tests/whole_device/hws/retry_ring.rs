//! Interrupt ring 1, which takes faults that are tried again (XNACK), and the retry filter behind it.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::ih::{Client, ENTRY_SIZE, IhEntry, Source};
use belfry_abi::pci::doorbell_layout1;
use belfry_abi::regs::gfx9::osssys as gfx9;
use belfry_abi::regs::{Register, osssys};
use vm_memory::{Bytes, GuestAddress};
use zerocopy::IntoBytes;

use super::SMALL;
use super::driver::Hws;
use super::xnack::{Rig, eventually_some, page_of};
use crate::driver::eventually;

/// Ring 1. The linux driver reads its registers to find its entries, as its write pointer is not reported in
/// memory.
struct RingOne {
    memory: u64,
    rptr: u32,
}

const ENTRIES: u32 = 8;

/// Doorbells of ring 1's read pointer and of the filter (linux `vega20_ih.c`).
fn behind_ring_zero(numbers: u32) -> DoorbellIndex {
    DoorbellIndex::from_dwords(doorbell_layout1::IH.dwords() + 2 * numbers)
}

fn enabled(doorbell: DoorbellIndex) -> u32 {
    let mut bell = osssys::IH_DOORBELL_RPTR::from_bits(0);
    bell.set_offset(doorbell.dwords());
    bell.set_enable(true);
    bell.bits()
}

impl RingOne {
    fn new(hws: &mut Hws) -> Self {
        let (memory, address) = hws.driver.gart_alloc(u64::from(ENTRIES * ENTRY_SIZE));
        hws.set(0, gfx9::IH_RB_BASE_RING1((address >> 8) as u32));
        hws.set(0, gfx9::IH_RB_BASE_HI_RING1((address >> 40) as u32));
        hws.set(0, osssys::IH_RB_WPTR_RING1(0));
        hws.set(0, osssys::IH_RB_RPTR_RING1(0));
        hws.set(0, gfx9::IH_DOORBELL_RPTR_RING1(enabled(behind_ring_zero(1))));
        let mut cntl = osssys::IH_RB_CNTL::from_bits(0);
        cntl.set_rb_size((ENTRIES * ENTRY_SIZE / 4).ilog2());
        cntl.set_wptr_overflow_enable(true);
        cntl.set_wptr_writeback_enable(true);
        cntl.set_rb_full_drain_enable(true);
        cntl.set_rb_enable(true);
        hws.set(0, osssys::IH_RB_CNTL_RING1(cntl.bits()));
        Self { memory, rptr: 0 }
    }

    /// Switches the filter on.
    fn filter(hws: &Hws) {
        hws.set(0, gfx9::IH_DOORBELL_RETRY_CAM(enabled(behind_ring_zero(3))));
        let mut control = gfx9::IH_RETRY_INT_CAM_CNTL::from_bits(0);
        control.set_enable(true);
        hws.set(0, control);
    }

    /// Entries that are not read yet.
    fn unread(&self, hws: &Hws) -> u32 {
        let wptr = hws.get::<osssys::IH_RB_WPTR_RING1>(0).bits();
        wptr.wrapping_sub(self.rptr) % (ENTRIES * ENTRY_SIZE) / ENTRY_SIZE
    }

    fn take(&mut self, hws: &mut Hws) -> Vec<IhEntry> {
        let mut entries = Vec::new();
        for _ in 0..self.unread(hws) {
            let mut entry = IhEntry::default();
            let at = GuestAddress(self.memory + u64::from(self.rptr));
            hws.driver.ram.read_slice(entry.as_mut_bytes(), at).unwrap();
            entries.push(entry);
            self.rptr = (self.rptr + ENTRY_SIZE) % (ENTRIES * ENTRY_SIZE);
        }
        hws.driver.ring(behind_ring_zero(1).offset().bytes(), self.rptr.into());
        entries
    }
}

#[test]
fn faults_that_are_tried_again_go_to_ring_one_and_ring_zero_says_so() {
    let mut rig = Rig::new(SMALL, true);
    let mut ring = RingOne::new(&mut rig.hws);
    let (target, done) = rig.begin();
    eventually("faults are told of", || ring.unread(&rig.hws) > 0);
    let own = eventually_some(|| rig.hws.driver.drain_interrupts().first().copied());
    assert_eq!((own.client(), own.source(), own.ring()), (Client::IH, Source(0), 1));
    let entries = ring.take(&mut rig.hws);
    assert_eq!((entries[0].client(), entries[0].pasid()), (Client::UTCL2, 0x8001));
    assert_eq!(rig.hws.get::<osssys::IH_RB_RPTR_RING1>(0).bits(), ring.rptr, "by its doorbell");
    rig.wanted.extend(entries.iter().map(page_of));
    // Later entries go to ring 0 again.
    rig.hws.set(0, osssys::IH_RB_CNTL_RING1(0));
    rig.map_until(target, done);
}

#[test]
fn filter_keeps_pages_back_until_their_entries_are_given_back() {
    for by_doorbell in [true, false] {
        let mut rig = Rig::new(SMALL, true);
        let mut ring = RingOne::new(&mut rig.hws);
        RingOne::filter(&rig.hws);
        let (target, _) = rig.begin();
        eventually("each page is told of", || ring.unread(&rig.hws) == 4);
        let entries = ring.take(&mut rig.hws);
        let mut indices: Vec<u32> = entries.iter().map(|entry| entry.data[2] & 0x3ff).collect();
        indices.sort_unstable();
        assert_eq!(indices, [0, 1, 2, 3]);
        // Changed tables would have pages reported again; here they do not, as the filter has the pages.
        for _ in 0..3 {
            rig.process.map_page(&mut rig.hws.driver, target + (1 << 21), 0x1000);
            rig.hws.driver.runner_passes();
        }
        assert_eq!(ring.unread(&rig.hws), 0);
        // One page is given back and still not mapped.
        let again = entries.iter().find(|entry| page_of(entry) == target).unwrap();
        let index = again.data[2] & 0x3ff;
        if by_doorbell {
            rig.hws.driver.ring(behind_ring_zero(3).offset().bytes(), index.into());
        } else {
            rig.hws.set(0, gfx9::IH_RETRY_CAM_ACK(index));
        }
        eventually("it is told of again", || ring.unread(&rig.hws) == 1);
        assert_eq!(page_of(&ring.take(&mut rig.hws)[0]), target);
        assert_eq!(rig.hws.driver.gpu.stats().errors, Default::default());
    }
}
