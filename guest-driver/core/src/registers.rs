//! Where the device has its registers: the segment bases that its discovery table lists, as amdgpu's `reg_offset`.

use belfry_abi::pci::REGISTER_BAR_SIZE;
use belfry_abi::regs::layout::Layout;
use belfry_abi::regs::{Description, Ip, Register, gc, mmhub, nbio, osssys, smuio};

use crate::errno::{Errno, Result};

/// Segments kept of a block; no block the driver uses has registers in later ones.
const SEGMENTS: usize = 8;
/// Most registers of an array that begins at a declared one: two for each of 16 VMIDs.
const LONGEST_ARRAY: u32 = 32;
/// Registers behind the BAR.
const REGISTERS: u32 = (REGISTER_BAR_SIZE / 4) as u32;

/// Dword bases of a block's segments; those that it does not have are 0.
type Bases = [u32; SEGMENTS];

/// Bases of the blocks the driver uses, and where registers lie in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterMap {
    layout: Layout,
    gc: Bases,
    mmhub: Bases,
    osssys: Bases,
    nbif: Bases,
    smuio: Bases,
}

impl RegisterMap {
    /// The blocks the map has, and the registers of each that the driver knows.
    pub(crate) const BLOCKS: [(Ip, &'static [Description]); 5] = [
        (gc::IP, gc::ALL),
        (mmhub::IP, mmhub::ALL),
        (osssys::IP, osssys::ALL),
        (nbio::IP, nbio::ALL),
        (smuio::IP, smuio::ALL),
    ];

    /// A map of blocks that have no bases yet.
    pub(crate) fn new(layout: Layout) -> Self {
        let bases = Bases::default();
        Self { layout, gc: bases, mmhub: bases, osssys: bases, nbif: bases, smuio: bases }
    }

    /// Keeps the bases of one of [`BLOCKS`](Self::BLOCKS).
    ///
    /// # Errors
    ///
    /// `EINVAL` unless every register the driver knows of the block has a segment, and lies in the BAR.
    pub(crate) fn set(&mut self, ip: Ip, registers: &[Description], bases: &[u32]) -> Result<()> {
        for register in registers {
            let at = self.layout.place(ip, register.at);
            let base = bases.iter().take(SEGMENTS).nth(usize::from(at.segment));
            let base = *base.ok_or(Errno::EINVAL)?;
            let end = base.checked_add(at.dword).and_then(|at| at.checked_add(LONGEST_ARRAY));
            if end.is_none_or(|end| end > REGISTERS) {
                return Err(Errno::EINVAL);
            }
        }
        let kept = self.bases_mut(ip).ok_or(Errno::EINVAL)?;
        *kept = [0; SEGMENTS];
        kept.iter_mut().zip(bases).for_each(|(kept, base)| *kept = *base);
        Ok(())
    }

    fn bases_mut(&mut self, ip: Ip) -> Option<&mut Bases> {
        Some(match ip {
            Ip::GC => &mut self.gc,
            Ip::MMHUB => &mut self.mmhub,
            Ip::OSSSYS => &mut self.osssys,
            Ip::NBIF => &mut self.nbif,
            Ip::SMUIO => &mut self.smuio,
            _ => return None,
        })
    }

    /// Dword bases of a block's segments; all 0 for a block the driver does not use.
    pub(crate) fn bases(&self, ip: Ip) -> &Bases {
        match ip {
            Ip::GC => &self.gc,
            Ip::MMHUB => &self.mmhub,
            Ip::OSSSYS => &self.osssys,
            Ip::NBIF => &self.nbif,
            Ip::SMUIO => &self.smuio,
            _ => &[0; SEGMENTS],
        }
    }

    /// Dword index of a register in BAR5.
    pub(crate) fn dword<R: Register>(&self) -> u32 {
        let at = self.layout.place(R::IP, R::AT);
        self.bases(R::IP)[usize::from(at.segment) % SEGMENTS] + at.dword
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs::layout;

    use super::*;

    #[test]
    fn registers_are_where_the_layout_has_them() {
        let mut map = RegisterMap::new(layout::GFX12);
        map.set(Ip::GC, gc::ALL, &[0x1260, 0xa000]).unwrap();
        assert_eq!(map.dword::<gc::GRBM_GFX_CNTL>(), 0xa900);
        assert_eq!(map.dword::<gc::GCVM_CONTEXT0_CNTL>(), 0x1260 + 0x1624);
    }

    #[test]
    fn bases_that_leave_a_register_without_a_place_are_refused() {
        let mut map = RegisterMap::new(layout::GFX11);
        let mut set = |bases: &[u32]| map.set(Ip::GC, gc::ALL, bases);
        assert_eq!(set(&[0x1260, 0xa000]), Ok(()));
        assert_eq!(set(&[0x1260]), Err(Errno::EINVAL), "no second segment");
        assert_eq!(set(&[0x1260, 0x3_f000]), Err(Errno::EINVAL), "outside of the BAR");
        assert_eq!(set(&[u32::MAX, 0xa000]), Err(Errno::EINVAL));
        // Segments without a register the driver knows may lie anywhere.
        assert_eq!(set(&[0x2000, 0xb000, u32::MAX]), Ok(()));
        assert_eq!(map.dword::<gc::GRBM_GFX_CNTL>(), 0xb900);
        assert_eq!(map.dword::<gc::GRBM_STATUS>(), 0x2da4);
        assert_eq!(map.set(Ip::VCN, &[], &[0]), Err(Errno::EINVAL), "not one of the driver's");
    }
}
