//! Where registers lie in blocks of other versions.
//!
//! [`Register::AT`](super::Register::AT) is the place of a register in the blocks of Navi 31, and by that place everybody
//! knows it. Later versions of a block have moved some of their registers: a [`Layout`] says where to.

use super::{Ip, Offset};

/// Registers of a block that lie elsewhere, and follow each other in both places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The block.
    pub ip: Ip,
    /// Place of the first in the blocks of Navi 31.
    pub from: Offset,
    /// How many there are.
    pub count: u32,
    /// Place of the first in this layout.
    pub to: Offset,
}

/// The places of registers in the blocks of one generation of chips.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout(&'static [Moved]);

impl Layout {
    /// Where the register lies whose place on Navi 31 is `at`.
    #[must_use]
    pub fn place(self, ip: Ip, at: Offset) -> Offset {
        self.0
            .iter()
            .filter(|moved| moved.ip == ip)
            .find_map(|moved| Some(moved.to.plus(at.element(moved.from, moved.count)?)))
            .unwrap_or(at)
    }

    /// Every run of registers that lies elsewhere.
    #[must_use]
    pub const fn moved(self) -> &'static [Moved] {
        self.0
    }
}

const fn moved(ip: Ip, (segment, from): (u8, u32), count: u32, to: u32) -> Moved {
    Moved { ip, from: Offset { segment, dword: from }, count, to: Offset { segment, dword: to } }
}

/// Navi 31: GC 11.0, MMHUB 3.0, OSSSYS 6.0.
pub const GFX11: Layout = Layout(&[]);

/// Navi 48: GC 12.0, MMHUB 4.1, OSSSYS 7.0, NBIF 6.3.
///
/// Source: linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_12_0_0_offset.h`, `mmhub_4_1_0_offset.h`,
/// `osssys_7_0_0_offset.h`, `nbif_6_3_1_offset.h`. `GCVM_L2_PROTECTION_FAULT_STATUS` is `GCVM_L2_PROTECTION_FAULT_STATUS_LO32` there.
pub const GFX12: Layout = Layout(&[
    // GCVM_L2_PROTECTION_FAULT_CNTL, _STATUS, _ADDR_LO32 and _ADDR_HI32.
    moved(Ip::GC, (0, 0x15c4), 1, 0x15cc),
    moved(Ip::GC, (0, 0x15c8), 1, 0x15d0),
    moved(Ip::GC, (0, 0x15c9), 2, 0x15d2),
    // GCMC_VM_FB_LOCATION_BASE to the last GCVM_CONTEXTn_PAGE_TABLE_END_ADDR.
    moved(Ip::GC, (0, 0x1678), 0xdb, 0x1614),
    // RLC_RLCS_BOOTLOAD_STATUS.
    moved(Ip::GC, (1, 0x4e82), 1, 0x4e7c),
    // MMVM_CONTEXT0_CNTL to the last MMVM_CONTEXTn_PAGE_TABLE_END_ADDR.
    moved(Ip::MMHUB, (0, 0x740), 0xcb, 0x564),
    // MMMC_VM_FB_OFFSET, MMMC_VM_FB_LOCATION_BASE and _TOP.
    moved(Ip::MMHUB, (0, 0x8d7), 1, 0x4c7),
    moved(Ip::MMHUB, (0, 0x8ec), 2, 0x554),
    // IH_RB_BASE and _HI have changed places with IH_RB_RPTR and _WPTR, for ring 1, too.
    moved(Ip::OSSSYS, (0, 0x81), 2, 0x83),
    moved(Ip::OSSSYS, (0, 0x83), 2, 0x81),
    moved(Ip::OSSSYS, (0, 0x8f), 2, 0x8d),
    // RCC_STRAP0_RCC_DEV0_EPF0_STRAP0.
    moved(Ip::NBIF, (2, 0x16), 1, 0x1c),
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::{Description, Register, gc, mmhub, osssys};

    #[test]
    fn registers_are_where_their_layout_has_them() {
        let place = |at| GFX12.place(Ip::GC, at);
        assert_eq!(place(gc::GRBM_STATUS::AT), gc::GRBM_STATUS::AT);
        assert_eq!(
            place(gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32::AT.plus(30)),
            Offset { segment: 0, dword: 0x16d0 + 30 }
        );
        assert_eq!(GFX12.place(Ip::MMHUB, gc::GCVM_L2_PROTECTION_FAULT_CNTL::AT).dword, 0x15c4);
        assert_eq!(GFX12.place(Ip::OSSSYS, osssys::IH_RB_RPTR::AT).dword, 0x81);
        assert_eq!(GFX11.place(Ip::OSSSYS, osssys::IH_RB_RPTR::AT), osssys::IH_RB_RPTR::AT);
    }

    #[test]
    fn no_two_registers_share_a_place() {
        let blocks: [(Ip, &[Description]); 3] =
            [(Ip::GC, gc::ALL), (Ip::MMHUB, mmhub::ALL), (Ip::OSSSYS, osssys::ALL)];
        for (ip, registers) in blocks {
            for register in registers {
                let place = GFX12.place(ip, register.at);
                let others = registers.iter().filter(|other| GFX12.place(ip, other.at) == place);
                assert_eq!(others.count(), 1, "{}", register.name);
            }
        }
    }
}
