//! An MQD in memory: the state of a queue that is on no hardware queue.

use belfry_isa::exec::GWS_RESOURCES;
use zerocopy::IntoBytes;

use super::{ContextArea, ContextOffsets, Hqd};
use crate::chip::{CuMask, MqdLayout};
use crate::guest_error::GuestError;
use crate::vm::AddressSpace;

const DWORDS: usize = 512;

/// An MQD, with the fields that firmware uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mqd {
    layout: &'static MqdLayout,
    dwords: [u32; DWORDS],
}

impl Mqd {
    /// Reads an MQD and checks that it is one.
    pub(crate) fn read(
        layout: &'static MqdLayout,
        space: &AddressSpace,
        address: u64,
    ) -> Result<Self, GuestError> {
        let mqd = Self::read_unchecked(layout, space, address)?;
        if mqd.dwords[0] != layout.header {
            return Err(GuestError::MqdHeader);
        }
        let mut hqd = Hqd::new();
        hqd.load(&mqd);
        if hqd.pq_base() == 0 {
            return Err(GuestError::MqdWithoutRing);
        }
        Ok(mqd)
    }

    /// Reads an MQD that has been checked before. The guest may have changed it since.
    pub(crate) fn read_unchecked(
        layout: &'static MqdLayout,
        space: &AddressSpace,
        address: u64,
    ) -> Result<Self, GuestError> {
        let mut dwords = [0; DWORDS];
        space.read_bytes(address, dwords.as_mut_bytes()).map_err(|_| GuestError::MqdUnmapped)?;
        Ok(Self { layout, dwords })
    }

    /// Writes it back. Returns false if it is not mapped.
    pub(crate) fn write(&self, space: &AddressSpace, address: u64) -> bool {
        space.write_bytes(address, self.dwords.as_bytes()).is_ok()
    }

    /// Returns a dword of it.
    pub(crate) fn dword(&self, at: usize) -> u32 {
        self.dwords.get(at).copied().unwrap_or(0)
    }

    /// Returns the registers of the hardware queue.
    pub(crate) fn hqd(&self) -> &[u32] {
        &self.dwords[self.layout.hqd_first..][..self.layout.hqd_dwords]
    }

    /// Returns the registers of the hardware queue, to change them.
    pub(crate) fn hqd_mut(&mut self) -> &mut [u32] {
        &mut self.dwords[self.layout.hqd_first..][..self.layout.hqd_dwords]
    }

    /// Returns the compute registers.
    pub(crate) fn compute(&self) -> &[u32] {
        &self.dwords[self.layout.compute_first..][..self.layout.compute_dwords]
    }

    /// Sets the compute registers, except the bits that let waves take traps, which are the driver's.
    pub(crate) fn set_compute(&mut self, registers: &[u32]) {
        let rsrc2 = self.dwords[self.layout.rsrc2];
        let target = &mut self.dwords[self.layout.compute_first..][..self.layout.compute_dwords];
        target.iter_mut().zip(registers).for_each(|(target, &value)| *target = value);
        let traps = &mut self.dwords[self.layout.rsrc2];
        *traps = *traps & !self.layout.traps | rsrc2 & self.layout.traps;
    }

    fn quad(&self, [lo, hi]: [usize; 2]) -> u64 {
        u64::from(self.dwords[hi]) << 32 | u64::from(self.dwords[lo])
    }

    /// Returns true if its waves take traps.
    pub(crate) fn takes_traps(&self) -> bool {
        self.dwords[self.layout.rsrc2] & self.layout.traps != 0
    }

    /// Returns the compute units that its waves may use.
    pub(crate) fn cus(&self) -> CuMask {
        let mut mask = CuMask::ALL;
        for (engine, &dword) in mask.0.iter_mut().zip(self.layout.thread_mgmt) {
            *engine = self.dwords[dword];
        }
        mask
    }

    /// Returns its context save area, if it has one.
    pub(crate) fn context_area(&self) -> Option<ContextArea> {
        let (base, size) = (self.quad(self.layout.save_base), self.dwords[self.layout.save_size]);
        let stack_size = self.dwords[self.layout.stack_size];
        (base != 0 && stack_size < size).then_some(ContextArea { base, size, stack_size })
    }

    /// Returns the parts of the area that are in use; `None` if no state is saved there.
    pub(crate) fn context(&self) -> Option<ContextOffsets> {
        let stack = self.dwords[self.layout.stack_offset];
        let offsets = ContextOffsets { stack, waves: self.dwords[self.layout.waves_offset] };
        (stack != self.dwords[self.layout.stack_size]).then_some(offsets)
    }

    /// Sets the parts of the area that are in use.
    pub(crate) fn set_context(&mut self, offsets: Option<ContextOffsets>) {
        let size = self.dwords[self.layout.stack_size];
        let offsets = offsets.unwrap_or(ContextOffsets { stack: size, waves: size });
        self.dwords[self.layout.stack_offset] = offsets.stack;
        self.dwords[self.layout.waves_offset] = offsets.waves;
    }

    /// Returns the counters of the global wave sync.
    pub(crate) fn gws(&self) -> [u32; GWS_RESOURCES as usize] {
        std::array::from_fn(|resource| self.dwords[self.layout.gws + resource])
    }

    pub(crate) fn set_gws(&mut self, counters: &[u32; GWS_RESOURCES as usize]) {
        self.dwords[self.layout.gws..][..counters.len()].copy_from_slice(counters);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use belfry_abi::mqd::ComputeMqd;
    use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MmapRegion};

    use super::*;
    use crate::chip::{PteFormat, gfx1100::GENERATION};
    use crate::memory::Memory;
    use crate::vm::{Root, RootKind};

    const LAYOUT: &MqdLayout = &GENERATION.mqd;
    const MQD: u64 = 0x1000;

    fn space() -> AddressSpace {
        let vram = MmapRegion::new(1 << 20).expect("anonymous memory");
        let memory = Arc::new(Memory::new(vram, GuestMemoryAtomic::new(GuestMemoryMmap::new())));
        let kind = RootKind::Vmid0 { fb_start: 0, fb_end: (1 << 20) - 1, fb_offset: 0 };
        let format = PteFormat::Gfx11;
        let root = Root { base: 0, depth: 0, block_size: 9, start: 1, end: 0, kind, format };
        AddressSpace::new(memory, root, Arc::default()).expect("valid root")
    }

    #[test]
    fn an_mqd_survives_loading_and_saving() {
        let space = space();
        let mut mqd = ComputeMqd::new();
        mqd.set_pq_base(0x7f12_3456_7800);
        mqd.set_pq_wptr(0x1_0000_0001);
        mqd.set_pq_rptr_report_addr(0x7f00_0000_1080);
        mqd.cp_hqd_pq_doorbell_control = 0x800 << 2;
        mqd.cp_hqd_pq_control = 13;
        mqd.cp_hqd_aql_control = 1;
        mqd.compute_pgm_rsrc1 = 77;
        space.write(MQD, &mqd).expect("in VRAM");
        let mut image = Mqd::read(LAYOUT, &space, MQD).expect("an MQD");
        let mut hqd = Hqd::new();
        hqd.load(&image);
        assert_eq!(hqd.pq_base(), 0x7f12_3456_7800);
        assert_eq!(hqd.pq_dwords(), Some(1 << 14));
        assert_eq!(hqd.doorbell().dwords(), 0x800);
        assert_eq!(hqd.rptr_report_addr(), 0x7f00_0000_1080);
        assert!(hqd.is_aql() && !hqd.is_active());
        hqd.set_pointers(5, 6);
        hqd.save(&mut image);
        assert!(image.write(&space, MQD));
        let saved: ComputeMqd = space.read(MQD).expect("in VRAM");
        assert_eq!((saved.cp_hqd_pq_rptr, saved.pq_wptr()), (5, 6));
        assert_eq!((saved.pq_base(), saved.compute_pgm_rsrc1), (mqd.pq_base(), 77));
    }

    #[test]
    fn fields_of_the_wave_state_are_where_the_driver_has_them() {
        let space = space();
        let mut mqd = ComputeMqd::new();
        mqd.set_pq_base(0x1000);
        mqd.cp_hqd_ctx_save_base_addr_hi = 7;
        space.write(MQD, &mqd).expect("in VRAM");
        let mut image = Mqd::read(LAYOUT, &space, MQD).expect("an MQD");
        assert!(image.context_area().is_none(), "its size is 0");
        assert!(image.context().is_none() && !image.takes_traps());
        image.set_context(Some(ContextOffsets { stack: 0x800, waves: 0x3000 }));
        let mut counters = [0; 64];
        counters[63] = 9;
        image.set_gws(&counters);
        assert!(image.write(&space, MQD));
        let mut mqd: ComputeMqd = space.read(MQD).expect("in VRAM");
        assert_eq!(
            (mqd.cp_hqd_cntl_stack_offset, mqd.cp_hqd_wg_state_offset, mqd.gws[63]),
            (0x800, 0x3000, 9)
        );
        (mqd.cp_hqd_ctx_save_size, mqd.cp_hqd_cntl_stack_size) = (0x4000, 0x1000);
        mqd.compute_pgm_rsrc2 = 1 << 6;
        space.write(MQD, &mqd).expect("in VRAM");
        let mut image = Mqd::read(LAYOUT, &space, MQD).expect("an MQD");
        let area = ContextArea { base: 7 << 32, size: 0x4000, stack_size: 0x1000 };
        assert_eq!((image.context_area(), image.takes_traps()), (Some(area), true));
        assert_eq!(image.context(), Some(ContextOffsets { stack: 0x800, waves: 0x3000 }));
        image.set_context(None);
        assert_eq!((image.context(), image.gws()), (None, counters));
    }

    #[test]
    fn what_is_not_an_mqd_is_refused() {
        let space = space();
        for byte in [0u8, 0xff] {
            space.write_bytes(MQD, &[byte; 2048]).expect("in VRAM");
            assert_eq!(Mqd::read(LAYOUT, &space, MQD).err(), Some(GuestError::MqdHeader));
        }
        space.write(MQD, &ComputeMqd::new()).expect("in VRAM");
        assert_eq!(Mqd::read(LAYOUT, &space, MQD).err(), Some(GuestError::MqdWithoutRing));
        let edge = (1 << 20) - 1024;
        assert_eq!(Mqd::read(LAYOUT, &space, edge).err(), Some(GuestError::MqdUnmapped));
    }
}
