//! Places of the device's registers: the segment bases that its discovery table lists, as amdgpu's `reg_offset`.

use alloc::vec::Vec;

use belfry_abi::regs::layout::Layout;
use belfry_abi::regs::{Description, Ip, Offset, Register, gc, gfx9, mmhub, nbio, osssys, smuio};

use crate::errno::{Errno, Result};

/// Segments kept of a block; no block the driver uses has registers in later ones.
const SEGMENTS: usize = 8;
/// Most registers of an array that begins at a declared one: two for each of 16 VMIDs.
const LONGEST_ARRAY: u32 = 32;

/// Registers of a block, in several tables.
pub(crate) type Tables = &'static [&'static [Description]];

/// Dword bases of a block's segments; those that it does not have are 0.
type Bases = [u32; SEGMENTS];

/// Bases of the blocks the driver uses, and where registers lie in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterMap {
    layout: Layout,
    /// Registers behind the BAR.
    end: u32,
    /// By instance: those that are fused off do not count.
    gc: Vec<Bases>,
    mmhub: Vec<Bases>,
    osssys: Vec<Bases>,
    nbif: Vec<Bases>,
    smuio: Vec<Bases>,
    athub: Vec<Bases>,
    umc: Vec<Bases>,
    sdma: Vec<Bases>,
}

impl RegisterMap {
    /// The blocks the map has, and the registers of each that the driver knows.
    pub(crate) const BLOCKS: [(Ip, Tables); 8] = [
        (gc::IP, &[gc::ALL, gfx9::gc::ALL]),
        (mmhub::IP, &[mmhub::ALL, gfx9::mmhub::ALL]),
        (osssys::IP, &[osssys::ALL, gfx9::osssys::ALL]),
        (nbio::IP, &[nbio::ALL, gfx9::nbio::ALL]),
        (smuio::IP, &[smuio::ALL]),
        (gfx9::athub::IP, &[gfx9::athub::ALL]),
        (gfx9::umc::IP, &[gfx9::umc::ALL]),
        (gfx9::sdma::IP, &[gfx9::sdma::ALL]),
    ];

    /// A map of blocks that have no bases yet, with registers in a BAR of `bytes`.
    pub(crate) fn new(layout: Layout, bytes: u64) -> Self {
        let end = u32::try_from(bytes / 4).unwrap_or(u32::MAX);
        let none = Vec::new;
        Self {
            layout,
            end,
            gc: none(),
            mmhub: none(),
            osssys: none(),
            nbif: none(),
            smuio: none(),
            athub: none(),
            umc: none(),
            sdma: none(),
        }
    }

    /// Returns whether any of these registers is in the device.
    pub(crate) fn needs(&self, ip: Ip, tables: Tables) -> bool {
        tables.iter().copied().flatten().any(|register| self.layout.has(ip, register.at))
    }

    /// Adds the bases of the next instance of one of [`BLOCKS`](Self::BLOCKS).
    ///
    /// # Errors
    ///
    /// `EINVAL` unless every register the driver knows of the block has a segment, and lies in the BAR; `ENOMEM`.
    pub(crate) fn add(&mut self, ip: Ip, tables: Tables, bases: &[u32]) -> Result<()> {
        for register in tables.iter().copied().flatten().filter(|register| self.layout.has(ip, register.at)) {
            let at = self.layout.place(ip, register.at);
            let base = bases.iter().take(SEGMENTS).nth(usize::from(at.segment));
            let base = *base.ok_or(Errno::EINVAL)?;
            let end = base.checked_add(at.dword).and_then(|at| at.checked_add(LONGEST_ARRAY));
            if end.is_none_or(|end| end > self.end) {
                return Err(Errno::EINVAL);
            }
        }
        let instances = self.instances_mut(ip).ok_or(Errno::EINVAL)?;
        let mut kept = Bases::default();
        kept.iter_mut().zip(bases).for_each(|(kept, base)| *kept = *base);
        instances.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        instances.push(kept);
        Ok(())
    }

    fn instances_mut(&mut self, ip: Ip) -> Option<&mut Vec<Bases>> {
        Some(match ip {
            Ip::GC => &mut self.gc,
            Ip::MMHUB => &mut self.mmhub,
            Ip::OSSSYS => &mut self.osssys,
            Ip::NBIF => &mut self.nbif,
            Ip::SMUIO => &mut self.smuio,
            Ip::ATHUB => &mut self.athub,
            Ip::UMC => &mut self.umc,
            Ip::SDMA0 => &mut self.sdma,
            _ => return None,
        })
    }

    fn instances(&self, ip: Ip) -> &[Bases] {
        match ip {
            Ip::GC => &self.gc,
            Ip::MMHUB => &self.mmhub,
            Ip::OSSSYS => &self.osssys,
            Ip::NBIF => &self.nbif,
            Ip::SMUIO => &self.smuio,
            Ip::ATHUB => &self.athub,
            Ip::UMC => &self.umc,
            Ip::SDMA0 => &self.sdma,
            _ => &[],
        }
    }

    /// Returns the number of instances of a block.
    pub(crate) fn count(&self, ip: Ip) -> usize {
        self.instances(ip).len()
    }

    /// Dword bases of the segments of a block's first instance; all 0 for a block the driver does not use.
    pub(crate) fn bases(&self, ip: Ip) -> &Bases {
        self.instances(ip).first().unwrap_or(&[0; SEGMENTS])
    }

    /// Dword index in BAR5 of a register in the first instance of its block.
    pub(crate) fn dword<R: Register>(&self) -> u32 {
        self.dword_in::<R>(0)
    }

    /// Dword index in BAR5 of a register in an instance of its block.
    pub(crate) fn dword_in<R: Register>(&self, instance: usize) -> u32 {
        self.place((R::IP, R::AT), instance)
    }

    /// Dword index in BAR5 of a register in the first instance of its block, by its [place on Navi 31](Register::AT); `None` where the
    /// device does not have it.
    pub(crate) fn dword_of(&self, (ip, at): (Ip, Offset)) -> Option<u32> {
        let there = self.layout.has(ip, at) && !self.instances(ip).is_empty();
        there.then(|| self.place((ip, at), 0))
    }

    fn place(&self, (ip, at): (Ip, Offset), instance: usize) -> u32 {
        let at = self.layout.place(ip, at);
        let bases = self.instances(ip).get(instance).unwrap_or(&[0; SEGMENTS]);
        bases[usize::from(at.segment) % SEGMENTS] + at.dword
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::pci::REGISTER_BAR_SIZE;
    use belfry_abi::regs::layout;

    use super::*;

    #[test]
    fn registers_are_where_the_layout_has_them() {
        let mut map = RegisterMap::new(layout::GFX12, REGISTER_BAR_SIZE);
        map.add(Ip::GC, &[gc::ALL], &[0x1260, 0xa000]).unwrap();
        assert_eq!(map.dword::<gc::GRBM_GFX_CNTL>(), 0xa900);
        assert_eq!(map.dword::<gc::GCVM_CONTEXT0_CNTL>(), 0x1260 + 0x1624);
    }

    #[test]
    fn bases_that_leave_a_register_without_a_place_are_refused() {
        let mut map = RegisterMap::new(layout::GFX11, REGISTER_BAR_SIZE);
        let mut add = |bases: &[u32]| {
            map = RegisterMap::new(layout::GFX11, REGISTER_BAR_SIZE);
            map.add(Ip::GC, &[gc::ALL], bases)
        };
        assert_eq!(add(&[0x1260, 0xa000]), Ok(()));
        assert_eq!(add(&[0x1260]), Err(Errno::EINVAL), "no second segment");
        assert_eq!(add(&[0x1260, 0x3_f000]), Err(Errno::EINVAL), "outside of the BAR");
        assert_eq!(add(&[u32::MAX, 0xa000]), Err(Errno::EINVAL));
        // Segments without a register the driver knows may lie anywhere.
        assert_eq!(add(&[0x2000, 0xb000, u32::MAX]), Ok(()));
        assert_eq!(map.dword::<gc::GRBM_GFX_CNTL>(), 0xb900);
        assert_eq!(map.dword::<gc::GRBM_STATUS>(), 0x2da4);
        assert_eq!(map.add(Ip::VCN, &[], &[0]), Err(Errno::EINVAL), "not one of the driver's");
    }
}
