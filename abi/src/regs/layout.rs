//! Places of registers in blocks of other versions.
//!
//! [`Register::AT`](super::Register::AT) is the place of a register in the blocks of Navi 31. All code names
//! a register by that place. Other versions of a block have some of their registers elsewhere: a [`Layout`]
//! says where. A register that Navi 31 does not have is named by a place in segments from [`OWN`] on, which
//! no chip has; the layout of a chip that has it leads from there to the segments of the block.

use super::{Ip, Offset};

/// First of the segments by which registers are known that Navi 31 does not have: `OWN + n` stands for segment n.
pub const OWN: u8 = 0x80;

/// The place of registers that the blocks of a layout do not have: no block has this segment.
pub const NOWHERE: Offset = Offset { segment: u8::MAX, dword: 0 };

/// Registers of a block that lie elsewhere, and follow each other in both places.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moved {
    /// The block.
    pub ip: Ip,
    /// Place of the first in the blocks of Navi 31.
    pub from: Offset,
    /// Number of registers.
    pub count: u32,
    /// Place of the first in this layout.
    pub to: Offset,
}

/// The places of registers in the blocks of one generation of chips.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Layout(&'static [Moved]);

impl Layout {
    /// Returns the place of the register whose place on Navi 31 is `at`.
    #[must_use]
    pub fn place(self, ip: Ip, at: Offset) -> Offset {
        self.0
            .iter()
            .filter(|moved| moved.ip == ip)
            .find_map(|moved| Some(moved.to.plus(at.element(moved.from, moved.count)?)))
            .unwrap_or(at)
    }

    /// Returns true if the blocks have the register whose place on Navi 31 is `at`.
    #[must_use]
    pub fn has(self, ip: Ip, at: Offset) -> bool {
        self.place(ip, at).segment < OWN
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

const fn elsewhere(ip: Ip, (segment, from): (u8, u32), count: u32, to: (u8, u32)) -> Moved {
    let to = Offset { segment: to.0, dword: to.1 };
    Moved { ip, from: Offset { segment, dword: from }, count, to }
}

const fn absent(ip: Ip, (segment, dword): (u8, u32)) -> Moved {
    Moved { ip, from: Offset { segment, dword }, count: 1, to: NOWHERE }
}

/// A segment of registers that Navi 31 does not have.
const fn own(ip: Ip, segment: u8) -> Moved {
    let from = Offset { segment: OWN + segment, dword: 0 };
    Moved { ip, from, count: 0x10000, to: Offset { segment, dword: 0 } }
}

/// Navi 31: GC 11.0, MMHUB 3.0, OSSSYS 6.0.
pub const GFX11: Layout = Layout(&[]);

/// Strix Halo: GC 11.5, MMHUB 3.3, OSSSYS 6.1. The registers of NBIO are those of NBIO 4.3.
///
/// Source: linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_11_5_0_offset.h`, `mmhub_3_3_0_offset.h`, `osssys_6_1_0_offset.h`;
/// `RLC_RLCS_BOOTLOAD_STATUS`, `gfx_v11_0.c` (`regRLC_RLCS_BOOTLOAD_STATUS_gc_11_0_1`).
pub const GFX11_5: Layout = Layout(&[
    // GCVM_L2_PROTECTION_FAULT_CNTL, _STATUS, _ADDR_LO32 and _ADDR_HI32.
    moved(Ip::GC, (0, 0x15c4), 1, 0x15c8),
    moved(Ip::GC, (0, 0x15c8), 3, 0x15cc),
    // GCMC_VM_FB_LOCATION_BASE to the last GCVM_CONTEXTn_PAGE_TABLE_END_ADDR.
    moved(Ip::GC, (0, 0x1678), 0xdb, 0x167c),
    // RLC_RLCS_BOOTLOAD_STATUS.
    moved(Ip::GC, (1, 0x4e82), 1, 0x4e7e),
    // MMVM_CONTEXT0_CNTL to the last MMVM_CONTEXTn_PAGE_TABLE_END_ADDR.
    elsewhere(Ip::MMHUB, (0, 0x740), 0xcb, (1, 0x840)),
    // MMMC_VM_FB_OFFSET, MMMC_VM_FB_LOCATION_BASE and _TOP.
    elsewhere(Ip::MMHUB, (0, 0x8d7), 1, (1, 0x9d7)),
    elsewhere(Ip::MMHUB, (0, 0x8ec), 2, (1, 0x9ec)),
    // IH_RB_BASE and _HI have changed places with IH_RB_RPTR and _WPTR, for ring 1, too.
    moved(Ip::OSSSYS, (0, 0x81), 2, 0x83),
    moved(Ip::OSSSYS, (0, 0x83), 2, 0x81),
    moved(Ip::OSSSYS, (0, 0x8f), 2, 0x8d),
]);

/// Navi 48: GC 12.0, MMHUB 4.1, OSSSYS 7.0, NBIF 6.3.
///
/// Source: linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_12_0_0_offset.h`, `mmhub_4_1_0_offset.h`,
/// `osssys_7_0_0_offset.h`, `nbif_6_3_1_offset.h`. `GCVM_L2_PROTECTION_FAULT_STATUS` is `GCVM_L2_PROTECTION_FAULT_STATUS_LO32` there.
pub const GFX12: Layout = Layout(&[
    // SDMA0_STATUS_REG, SDMA1_STATUS_REG.
    moved(Ip::GC, (0, 0x25), 1, 0x24),
    moved(Ip::GC, (0, 0x625), 1, 0x624),
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

/// MI300X: GC 9.4.3, MMHUB 1.8, OSSSYS 4.4.2, NBIO 7.9, ATHUB 1.8, UMC 12.0, SMUIO 13.0.3.
///
/// Source: linux `drivers/gpu/drm/amd/include/asic_reg`, `gc_9_4_3_offset.h`, `mmhub_1_8_0_offset.h`, `osssys_4_4_2_offset.h`,
/// `nbio_7_9_0_offset.h`, `athub_1_8_0_offset.h`, `umc_12_0_0_offset.h`, `smuio_13_0_3_offset.h`. Registers of the hubs have no prefix there
/// (`VM_CONTEXT0_CNTL`, `MC_VM_FB_LOCATION_BASE`).
pub const GFX9: Layout = Layout(&[
    own(Ip::GC, 0),
    own(Ip::GC, 1),
    own(Ip::MMHUB, 0),
    own(Ip::OSSSYS, 0),
    own(Ip::ATHUB, 0),
    own(Ip::UMC, 0),
    own(Ip::NBIF, 0),
    own(Ip::NBIF, 2),
    own(Ip::SDMA0, 0),
    // SDMA engines are blocks of their own.
    absent(Ip::GC, (0, 0x25)),
    absent(Ip::GC, (0, 0x625)),
    // GRBM_STATUS2 to GRBM_STATUS_SE3.
    moved(Ip::GC, (0, 0xda2), 0xe, 0x2),
    // CP_CPC_STATUS to CP_CPF_STALLED_STAT1, CP_STALLED_STAT3 to CP_STAT.
    moved(Ip::GC, (0, 0xe24), 6, 0x84),
    moved(Ip::GC, (0, 0xf3c), 5, 0x19c),
    // DB_DEBUG2.
    moved(Ip::GC, (0, 0x13ad), 1, 0x60d),
    // Fuses of shader arrays, which gfx9 has in one register.
    absent(Ip::GC, (0, 0xfe9)),
    moved(Ip::GC, (0, 0x100f), 1, 0x26f),
    // CC_RB_BACKEND_DISABLE, GB_ADDR_CONFIG.
    moved(Ip::GC, (0, 0x13dd), 2, 0x63d),
    // MC_VM_FB_OFFSET.
    moved(Ip::GC, (0, 0x15a7), 1, 0x947),
    // VM_L2_PROTECTION_FAULT_CNTL to _ADDR_HI32.
    moved(Ip::GC, (0, 0x15c4), 7, 0x827),
    // MC_VM_FB_LOCATION_BASE and _TOP.
    moved(Ip::GC, (0, 0x1678), 2, 0x95c),
    // VM_CONTEXT0_CNTL to the last VM_CONTEXTn_PAGE_TABLE_END_ADDR.
    moved(Ip::GC, (0, 0x1688), 0xcb, 0x860),
    // CP_MEC_DOORBELL_RANGE_LOWER and _UPPER, CP_PQ_WPTR_POLL_CNTL, CP_PQ_STATUS.
    moved(Ip::GC, (0, 0x1dfc), 2, 0x105c),
    moved(Ip::GC, (0, 0x1e23), 1, 0x1083),
    moved(Ip::GC, (0, 0x1e58), 1, 0x10b8),
    // CP_MQD_BASE_ADDR to CP_HQD_PQ_WPTR_HI.
    moved(Ip::GC, (0, 0x1fa9), 0x38, 0x1245),
    // TCP_WATCH0_ADDR_H to TCP_WATCH3_ADDR_L.
    moved(Ip::GC, (0, 0x2048), 0xb, 0x12a0),
    // GRBM_GFX_CNTL, RLC_SAFE_MODE, RLC_CP_SCHEDULERS, SH_MEM_BASES, SH_MEM_CONFIG.
    elsewhere(Ip::GC, (1, 0x900), 1, (0, 0x22)),
    moved(Ip::GC, (1, 0x980), 1, 0x4c05),
    moved(Ip::GC, (1, 0x98a), 1, 0x4caa),
    elsewhere(Ip::GC, (1, 0x9e3), 1, (0, 0x30a)),
    elsewhere(Ip::GC, (1, 0x9e4), 1, (0, 0x30d)),
    // There is no MES, and the RLC loads no other firmware.
    absent(Ip::GC, (1, 0x2807)),
    absent(Ip::GC, (1, 0x2849)),
    absent(Ip::GC, (1, 0x4e82)),
    // VM_CONTEXT0_CNTL to the last VM_CONTEXTn_PAGE_TABLE_END_ADDR.
    moved(Ip::MMHUB, (0, 0x740), 0xcb, 0xba0),
    // MC_VM_FB_OFFSET, MC_VM_FB_LOCATION_BASE and _TOP.
    moved(Ip::MMHUB, (0, 0x8d7), 1, 0xc87),
    moved(Ip::MMHUB, (0, 0x8ec), 2, 0xc9c),
    // No public header says where ROM_INDEX and ROM_DATA are.
    absent(Ip::SMUIO, (0, 0xe4)),
    absent(Ip::SMUIO, (0, 0xe5)),
    // GOLDEN_TSC_COUNT_UPPER and _LOWER.
    elsewhere(Ip::SMUIO, (1, 0x2d), 2, (2, 0x2d)),
]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regs::{Description, Register, gc, gfx9, mmhub, nbio, osssys, smuio};

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
    fn registers_of_mi300x_are_where_its_headers_have_them() {
        let gc = |at| GFX9.place(Ip::GC, at);
        let at = |segment, dword| Offset { segment, dword };
        assert_eq!(gc(gc::GRBM_GFX_CNTL::AT), at(0, 0x22));
        assert_eq!(gc(gc::CP_HQD_PQ_WPTR_HI::AT), at(0, 0x127c));
        assert_eq!(gc(gc::GCVM_INVALIDATE_ENG0_ACK::AT.plus(17)), at(0, 0x8a6));
        assert_eq!(gc(gc::GCVM_CONTEXT0_PAGE_TABLE_END_ADDR_HI32::AT.plus(30)), at(0, 0x92a));
        assert_eq!(gc(gfx9::gc::CP_HYP_XCP_CTL::AT), at(1, 0x5828));
        assert_eq!(gc(gc::GRBM_STATUS2::AT), at(0, 0x2));
        assert_eq!(gc(gc::GRBM_STATUS_SE3::AT), at(0, 0xf));
        assert_eq!(gc(gc::CP_CPF_STALLED_STAT1::AT), at(0, 0x89));
        assert_eq!(gc(gc::CP_STAT::AT), at(0, 0x1a0));
        assert_eq!(gc(gc::GRBM_PERFCOUNTER0_LO::AT), at(1, 0x3040));
        assert_eq!(GFX9.place(Ip::SDMA0, gfx9::sdma::SDMA_STATUS_REG::AT), at(0, 0x25));
        assert_eq!(GFX9.place(Ip::ATHUB, gfx9::athub::ATC_VMID0_PASID_MAPPING::AT), at(0, 0x3f));
        assert!(!GFX9.has(Ip::GC, gc::CP_MES_CNTL::AT) && GFX11.has(Ip::GC, gc::CP_MES_CNTL::AT));
        assert!(!GFX11.has(Ip::GC, gfx9::gc::CP_MEC_CNTL::AT) && GFX9.has(Ip::GC, gfx9::gc::CP_MEC_CNTL::AT));
    }

    #[test]
    fn no_two_registers_share_a_place() {
        let blocks: [(Ip, &[&[Description]]); 5] = [
            (Ip::GC, &[gc::ALL, gfx9::gc::ALL]),
            (Ip::MMHUB, &[mmhub::ALL, gfx9::mmhub::ALL]),
            (Ip::OSSSYS, &[osssys::ALL, gfx9::osssys::ALL]),
            (Ip::NBIF, &[nbio::ALL, gfx9::nbio::ALL]),
            (Ip::SMUIO, &[smuio::ALL]),
        ];
        for layout in [GFX11, GFX12, GFX9] {
            for (ip, tables) in blocks {
                let registers = || tables.iter().copied().flatten().filter(|row| layout.has(ip, row.at));
                for register in registers() {
                    let place = layout.place(ip, register.at);
                    let others = registers().filter(|other| layout.place(ip, other.at) == place);
                    assert_eq!(others.count(), 1, "{}", register.name);
                }
            }
        }
    }
}
