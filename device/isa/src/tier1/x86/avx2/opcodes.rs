//! Opcodes that AVX-512 has not, or has with another width of elements.

use crate::tier1::x86::encoding::{Evex, VPBROADCASTD, VPBROADCASTQ, VPMULUDQ, evex};

pub(super) const VPBLENDD: Evex = evex(3, 1, 0x02);
/// Its fourth operand is in the upper half of the immediate.
pub(super) const VBLENDVPS: Evex = evex(3, 1, 0x4a);
pub(super) const VPCMPEQD: Evex = evex(1, 1, 0x76);
pub(super) const VPCMPGTD: Evex = evex(1, 1, 0x66);
pub(super) const VPANDN: Evex = evex(1, 1, 0xdf);
pub(super) const VMOVMSKPS: Evex = evex(1, 0, 0x50);
pub(super) const VPBROADCASTB: Evex = evex(2, 1, 0x78);
pub(super) const VPMULUDQ_VEX: Evex = Evex { wide: false, ..VPMULUDQ };
pub(super) const VPBROADCASTQ_VEX: Evex = Evex { wide: false, ..VPBROADCASTQ };
/// Of quarters of a register; its width is part of the opcode.
pub(super) const VPERMPD: Evex = Evex { wide: true, ..evex(3, 1, 0x01) };
pub(super) const VROUNDPS: Evex = evex(3, 1, 0x08);
pub(super) const VROUNDPD: Evex = evex(3, 1, 0x09);
/// Dwords as words, within each half of a register.
pub(super) const VPACKUSDW: Evex = evex(2, 1, 0x2b);
pub(super) const VSHUFPS: Evex = evex(1, 0, 0xc6);
pub(super) const VUNPCKLPS: Evex = evex(1, 0, 0x14);
pub(super) const VUNPCKHPS: Evex = evex(1, 0, 0x15);
pub(super) const VUNPCKLPD: Evex = evex(1, 1, 0x14);
pub(super) const VUNPCKHPD: Evex = evex(1, 1, 0x15);
pub(super) const VINSERTF128: Evex = evex(3, 1, 0x18);
/// To both halves of a register.
pub(super) const VBROADCASTF128: Evex = evex(2, 1, 0x1a);
/// The destination is in `ModRM.rm`.
pub(super) const VEXTRACTF128: Evex = evex(3, 1, 0x19);
/// Of 128 bits.
pub(super) const VMOVUPS_SHORT_LOAD: Evex = Evex { short: true, ..evex(1, 0, 0x10) };
pub(super) const VMOVUPS_SHORT_STORE: Evex = Evex { short: true, ..evex(1, 0, 0x11) };
pub(super) const VPBROADCASTD_VEX: Evex = VPBROADCASTD;

impl Evex {
    /// The instruction for doubles in VEX encoding, where the width is part of the opcode unless it is a fused one.
    pub(super) const fn narrow(self) -> Evex {
        Evex { wide: false, ..self }
    }
}

pub(super) const VPBLENDW: Evex = evex(3, 1, 0x0e);
pub(super) const VPTEST: Evex = evex(2, 1, 0x17);
/// Eight bytes: the lower or the upper ones of a register of 128 bits.
/// To both halves of a register of 128 bits.
pub(super) const VMOVDDUP_LOAD: Evex = Evex { short: true, ..evex(1, 3, 0x12) };
pub(super) const VMOVLPS_LOAD: Evex = Evex { short: true, ..evex(1, 0, 0x12) };
pub(super) const VMOVLPS_STORE: Evex = Evex { short: true, ..evex(1, 0, 0x13) };
pub(super) const VMOVHPS_STORE: Evex = Evex { short: true, ..evex(1, 0, 0x17) };
/// One dword of a register of 128 bits to memory.
pub(super) const VEXTRACTPS: Evex = Evex { short: true, ..evex(3, 1, 0x17) };
pub(super) const VPINSRD: Evex = Evex { short: true, ..evex(3, 1, 0x22) };
