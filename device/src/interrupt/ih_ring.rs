//! An interrupt ring: registers, entries, overflow and rearming.
//!
//! Behaviour as Linux `drivers/gpu/drm/amd/amdgpu/ih_v6_0.c` relies on it: the driver reads the write pointer from
//! memory only, and acknowledges by writing the read pointer to its doorbell. If entries are left then, it wants a new
//! interrupt (`RPTR_REARM`). On overflow it finds `RB_OVERFLOW` set and goes on one entry after the write pointer.

use std::fmt;

use belfry_abi::doorbell::{DoorbellIndex, DoorbellOffset};
use belfry_abi::ih::{ENTRY_SIZE, IhEntry};
use belfry_abi::regs::osssys::{
    self, IH_DOORBELL_RPTR, IH_RB_BASE, IH_RB_BASE_HI, IH_RB_CNTL, IH_RB_RPTR, IH_RB_WPTR,
    IH_RB_WPTR_ADDR_HI, IH_RB_WPTR_ADDR_LO,
};
use belfry_abi::regs::{Offset, Register};
use zerocopy::IntoBytes as _;

use crate::vm::AddressSpace;

/// Flag of the write pointer for lost entries.
const OVERFLOW: u32 = 1;
/// Largest ring that the pointers can count, log2 of dwords.
const MAX_SIZE: u32 = 16;
/// Smallest ring that holds two entries, log2 of dwords.
const MIN_SIZE: u32 = 4;

/// Result of adding an entry.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Pushed {
    /// The entry is in the ring; `interrupt` is true if the driver has to be informed.
    Stored { interrupt: bool },
    /// The entry is lost.
    Lost(Lost),
}

/// Reason that an entry is lost.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub(super) enum Lost {
    #[error("the function is not bus master")]
    NotBusMaster,
    #[error("the interrupt ring is off")]
    Off,
    #[error("the interrupt ring has an impossible size")]
    Size,
    #[error("the interrupt ring is full")]
    Full,
    #[error("the interrupt ring is not mapped")]
    RingUnmapped,
    #[error("the write pointer's address is not mapped")]
    WriteBackUnmapped,
}

/// Registers of a ring, by the names of ring 0.
pub(super) struct IhRing {
    pub(super) cntl: IH_RB_CNTL,
    pub(super) base_lo: u32,
    pub(super) base_hi: u32,
    pub(super) rptr: u32,
    pub(super) wptr: u32,
    pub(super) overflow: bool,
    pub(super) wptr_addr_lo: u32,
    pub(super) wptr_addr_hi: u32,
    pub(super) doorbell: IH_DOORBELL_RPTR,
    /// True if its write pointer is reported to memory and its entries raise the vector: only for ring 0.
    pub(super) reports: bool,
    /// True if the driver knows of all entries or has acknowledged since: the next entry interrupts.
    pub(super) armed: bool,
}

/// State of the ring, then its registers.
impl fmt::Debug for IhRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.size() {
            _ if !self.cntl.rb_enable() => "off",
            None => "of an impossible size",
            Some(_) if !self.cntl.enable_intr() => "on without interrupts",
            Some(_) if self.armed => "on, the next entry interrupts",
            Some(_) => "on, waiting for the driver to acknowledge",
        };
        let size = self.size().unwrap_or(0);
        let unread = self.wptr.wrapping_sub(self.rptr).checked_rem(size).unwrap_or(0) / ENTRY_SIZE;
        f.debug_struct("IhRing")
            .field("state", &format_args!("{state}"))
            .field("entries", &format_args!("{unread} unread of {}", size / ENTRY_SIZE))
            .field("overflow", &self.overflow)
            .field("registers", &Registers(self))
            .finish()
    }
}

/// The registers by name.
struct Registers<'a>(&'a IhRing);

impl fmt::Debug for Registers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = osssys::ALL.iter().filter_map(|register| Some((register.name, self.0.read(register.at)?)));
        let mut map = f.debug_map();
        for (name, value) in held {
            map.entry(&format_args!("{name}"), &format_args!("{value:#010x}"));
        }
        map.finish()
    }
}

impl Default for IhRing {
    fn default() -> Self {
        Self {
            cntl: IH_RB_CNTL::default(),
            base_lo: 0,
            base_hi: 0,
            rptr: 0,
            wptr: 0,
            overflow: false,
            wptr_addr_lo: 0,
            wptr_addr_hi: 0,
            doorbell: IH_DOORBELL_RPTR::default(),
            reports: true,
            armed: true,
        }
    }
}

impl IhRing {
    pub(super) fn size(&self) -> Option<u32> {
        let log2 = self.cntl.rb_size();
        (MIN_SIZE..=MAX_SIZE).contains(&log2).then(|| 4 << log2)
    }

    /// Returns the address of the first entry, in VMID 0.
    pub(super) fn base(&self) -> u64 {
        u64::from(self.base_hi) << 40 | u64::from(self.base_lo) << 8
    }

    fn wptr_register(&self) -> u32 {
        self.wptr | if self.overflow { OVERFLOW } else { 0 }
    }

    pub(super) fn interrupts_enabled(&self) -> bool {
        self.cntl.enable_intr()
    }

    /// Returns true if entries are taken.
    pub(super) fn is_on(&self) -> bool {
        self.cntl.rb_enable()
    }

    /// Returns the number of entries that it has room for; `None` if it is off or its size is not possible.
    pub(super) fn entries(&self) -> Option<u32> {
        self.size().filter(|_| self.is_on()).map(|size| size / ENTRY_SIZE)
    }

    /// Returns true if entries wait to be read.
    pub(super) fn has_entries(&self) -> bool {
        self.cntl.rb_enable() && self.rptr != self.wptr
    }

    pub(super) fn read(&self, at: Offset) -> Option<u32> {
        Some(match at {
            IH_RB_CNTL::AT => self.cntl.bits(),
            IH_RB_BASE::AT => self.base_lo,
            IH_RB_BASE_HI::AT => self.base_hi,
            IH_RB_RPTR::AT => self.rptr,
            IH_RB_WPTR::AT => self.wptr_register(),
            IH_RB_WPTR_ADDR_LO::AT => self.wptr_addr_lo,
            IH_RB_WPTR_ADDR_HI::AT => self.wptr_addr_hi,
            IH_DOORBELL_RPTR::AT => self.doorbell.bits(),
            _ => return None,
        })
    }

    pub(super) fn write(&mut self, at: Offset, value: u32) -> bool {
        match at {
            IH_RB_CNTL::AT => {
                let cntl = IH_RB_CNTL::from_bits(value);
                if cntl.wptr_overflow_clear() {
                    self.overflow = false;
                }
                if cntl.rb_enable() && !self.cntl.rb_enable() {
                    self.armed = true;
                }
                self.cntl = cntl;
            }
            IH_RB_BASE::AT => self.base_lo = value,
            IH_RB_BASE_HI::AT => self.base_hi = value & 0xff,
            // `wants_interrupt_after_rptr` tells, once, if the ring interrupts again.
            IH_RB_RPTR::AT => self.acknowledge(value),
            IH_RB_WPTR::AT => {
                self.wptr = self.wrap(value & !(ENTRY_SIZE - 1));
                self.overflow = value & OVERFLOW != 0;
            }
            IH_RB_WPTR_ADDR_LO::AT => self.wptr_addr_lo = value & !3,
            IH_RB_WPTR_ADDR_HI::AT => self.wptr_addr_hi = value & 0xffff,
            IH_DOORBELL_RPTR::AT => self.doorbell = IH_DOORBELL_RPTR::from_bits(value),
            _ => return false,
        }
        true
    }

    /// Returns true if the write to this register has to interrupt at once.
    pub(super) fn wants_interrupt_after_rptr(&mut self, at: Offset) -> bool {
        at == IH_RB_RPTR::AT && self.rearmed()
    }

    pub(super) fn rptr_doorbell(&self) -> Option<DoorbellOffset> {
        self.doorbell.enable().then(|| DoorbellIndex::from_dwords(self.doorbell.offset()).offset())
    }

    /// Takes a read pointer. Returns true if entries are left of which the driver has to be informed again.
    pub(super) fn set_rptr(&mut self, rptr: u32) -> bool {
        self.acknowledge(rptr);
        self.rearmed()
    }

    fn acknowledge(&mut self, rptr: u32) {
        self.rptr = self.wrap(rptr & !(ENTRY_SIZE - 1));
        self.armed = true;
    }

    fn rearmed(&mut self) -> bool {
        let again = self.armed
            && self.rptr != self.wptr
            && self.cntl.rb_enable()
            && self.cntl.enable_intr()
            && self.cntl.rptr_rearm();
        if again {
            self.armed = false;
        }
        again
    }

    /// Sets both pointers, limited to values that are possible in some ring: its size may have changed since they were
    /// written.
    pub(super) fn set_pointers(&mut self, rptr: u32, wptr: u32) {
        [self.rptr, self.wptr] = [rptr, wptr].map(|pointer| pointer & ((4 << MAX_SIZE) - ENTRY_SIZE));
    }

    fn wrap(&self, pointer: u32) -> u32 {
        pointer & (self.size().unwrap_or(4 << MAX_SIZE) - 1)
    }

    pub(super) fn push(&mut self, space: &AddressSpace, entry: &IhEntry) -> Pushed {
        if !self.cntl.rb_enable() {
            return Pushed::Lost(Lost::Off);
        }
        let Some(size) = self.size() else {
            return Pushed::Lost(Lost::Size);
        };
        let next = (self.wptr + ENTRY_SIZE) & (size - 1);
        if next == self.rptr {
            // A drained ring keeps its entries (`RB_FULL_DRAIN_ENABLE`). Only rings of faults that are tried again are
            // drained.
            let keeps = !self.reports && self.cntl.rb_full_drain_enable();
            if keeps || !self.cntl.wptr_overflow_enable() {
                return Pushed::Lost(Lost::Full);
            }
            // The oldest entry is overwritten, and the driver finds that it has to start one entry after the write
            // pointer.
            self.overflow = true;
            self.rptr = (self.rptr + ENTRY_SIZE) & (size - 1);
        }
        let slice = space.enter();
        let base = self.base();
        if slice.write_bytes(base + u64::from(self.wptr), entry.as_bytes()).is_err() {
            return Pushed::Lost(Lost::RingUnmapped);
        }
        self.wptr = next;
        if self.reports && self.cntl.wptr_writeback_enable() {
            let address = u64::from(self.wptr_addr_hi) << 32 | u64::from(self.wptr_addr_lo);
            if slice.store_u32(address, self.wptr_register()).is_err() {
                return Pushed::Lost(Lost::WriteBackUnmapped);
            }
        }
        let interrupt = self.reports && self.cntl.enable_intr() && self.armed;
        if interrupt {
            self.armed = false;
        }
        Pushed::Stored { interrupt }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use belfry_abi::ih::{Client, Source};
    use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;
    use crate::chip::PteFormat;
    use crate::memory::Memory;
    use crate::vm::{Root, RootKind};

    const FB: u64 = 0x80_0000_0000;
    const RING: u64 = 0x1000;
    const WPTR: u64 = 0x100;

    fn space() -> AddressSpace {
        let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
        let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new())));
        let kind = RootKind::Vmid0 { fb_start: FB, fb_end: FB + (1 << 20) - 1, fb_offset: 0 };
        let root =
            Root { base: 0, depth: 0, block_size: 9, start: 1, end: 0, kind, format: PteFormat::Gfx11 };
        AddressSpace::new(memory, root, Arc::default()).expect("valid root")
    }

    /// A ring of `entries` entries with write-back, interrupts and rearming.
    fn ring(entries: u32) -> IhRing {
        let mut ring = IhRing::default();
        let base = FB + RING;
        ring.write(IH_RB_BASE::AT, (base >> 8) as u32);
        ring.write(IH_RB_BASE_HI::AT, (base >> 40) as u32);
        ring.write(IH_RB_WPTR_ADDR_LO::AT, (FB + WPTR) as u32);
        ring.write(IH_RB_WPTR_ADDR_HI::AT, ((FB + WPTR) >> 32) as u32);
        let mut cntl = IH_RB_CNTL::default();
        cntl.set_rb_size((entries * ENTRY_SIZE / 4).ilog2());
        cntl.set_wptr_writeback_enable(true);
        cntl.set_wptr_overflow_enable(true);
        cntl.set_enable_intr(true);
        cntl.set_rptr_rearm(true);
        cntl.set_rb_enable(true);
        ring.write(IH_RB_CNTL::AT, cntl.bits());
        ring
    }

    fn entry(data: u32) -> IhEntry {
        let mut entry = IhEntry::new(Client::GRBM_CP, Source::CP_EOP_INTERRUPT, 0, 8, 0x8001);
        entry.data[0] = data;
        entry
    }

    #[test]
    fn entries_pointer_and_interrupt_reach_the_driver() {
        let space = space();
        let mut ring = ring(8);
        assert_eq!(ring.push(&space, &entry(7)), Pushed::Stored { interrupt: true });
        assert_eq!(space.read::<IhEntry>(FB + RING).expect("in VRAM").data[0], 7);
        assert_eq!(space.load_u32(FB + WPTR), Ok(32));
        assert_eq!(ring.read(IH_RB_WPTR::AT), Some(32));
        // Not acknowledged yet: no second interrupt.
        assert_eq!(ring.push(&space, &entry(8)), Pushed::Stored { interrupt: false });
        // Acknowledged up to the first: one is left.
        assert!(ring.set_rptr(32));
        assert!(!ring.set_rptr(64), "nothing left");
        assert_eq!(ring.push(&space, &entry(9)), Pushed::Stored { interrupt: true });
    }

    #[test]
    fn acknowledging_by_register_interrupts_again_for_what_is_left() {
        let space = space();
        let mut ring = ring(16);
        assert_eq!(ring.push(&space, &entry(7)), Pushed::Stored { interrupt: true });
        assert_eq!(ring.push(&space, &entry(8)), Pushed::Stored { interrupt: false });
        assert!(ring.write(IH_RB_RPTR::AT, 32));
        assert!(ring.wants_interrupt_after_rptr(IH_RB_RPTR::AT), "one entry is left");
        assert!(!ring.wants_interrupt_after_rptr(IH_RB_RPTR::AT), "told once");
        assert!(ring.write(IH_RB_RPTR::AT, 64));
        assert!(!ring.wants_interrupt_after_rptr(IH_RB_RPTR::AT), "nothing left");
        assert_eq!(ring.push(&space, &entry(9)), Pushed::Stored { interrupt: true });
    }

    #[test]
    fn overflow_keeps_the_newest_and_is_flagged_until_cleared() {
        let space = space();
        let mut ring = ring(4);
        for data in 0..5 {
            assert!(matches!(ring.push(&space, &entry(data)), Pushed::Stored { .. }));
        }
        let wptr = space.load_u32(FB + WPTR).expect("in VRAM");
        assert_eq!(wptr, 32 | OVERFLOW);
        // The driver goes on one entry after the write pointer, at the oldest entry that is left.
        let oldest = (wptr & !OVERFLOW) + 32;
        assert_eq!(space.read::<IhEntry>(FB + RING + u64::from(oldest)).expect("in VRAM").data[0], 2);
        let mut cntl = IH_RB_CNTL::from_bits(ring.read(IH_RB_CNTL::AT).expect("known"));
        cntl.set_wptr_overflow_clear(true);
        ring.write(IH_RB_CNTL::AT, cntl.bits());
        assert_eq!(ring.read(IH_RB_WPTR::AT), Some(32));
    }

    #[test]
    fn a_ring_that_is_off_unmapped_or_absurd_loses_entries_by_name() {
        let space = space();
        assert!(matches!(IhRing::default().push(&space, &entry(0)), Pushed::Lost(_)));
        let mut unmapped = ring(8);
        unmapped.write(IH_RB_BASE_HI::AT, 0x3);
        assert!(matches!(unmapped.push(&space, &entry(0)), Pushed::Lost(_)));
        for size in [0, 3, 17, 31] {
            let mut absurd = ring(8);
            let mut cntl = IH_RB_CNTL::from_bits(absurd.read(IH_RB_CNTL::AT).expect("known"));
            cntl.set_rb_size(size);
            absurd.write(IH_RB_CNTL::AT, cntl.bits());
            assert!(matches!(absurd.push(&space, &entry(0)), Pushed::Lost(_)), "size {size}");
        }
    }

    #[test]
    fn pointers_wrap_at_any_value_written() {
        let space = space();
        let mut ring = ring(4);
        ring.write(IH_RB_WPTR::AT, u32::MAX);
        ring.set_rptr(u32::MAX);
        assert!(matches!(ring.push(&space, &entry(0)), Pushed::Stored { .. }));
        assert!(ring.read(IH_RB_WPTR::AT).expect("known") < 4 * 32 + 1);
    }
}
