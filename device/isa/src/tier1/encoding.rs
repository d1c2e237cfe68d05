//! Opcodes of the vector and mask instructions that compiled regions use.

/// An instruction in EVEX encoding on 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Evex {
    /// Opcode map: 1 for `0F`, 2 for `0F 38`, 3 for `0F 3A`.
    pub(super) map: u8,
    /// Prefix: 1 for `66`, 2 for `F3`, 3 for `F2`.
    pub(super) prefix: u8,
    pub(super) wide: bool,
    pub(super) opcode: u8,
    /// Opcode extension in `ModRM.reg`.
    pub(super) extension: u8,
    pub(super) immediate: Option<u8>,
    /// Its memory operand is one element anyway (broadcasts).
    pub(super) scalar: bool,
    /// True if it is of 128 bits.
    pub(super) short: bool,
    /// Bytes of its memory operand, in which displacements count.
    pub(super) unit: i32,
    /// Rounding, if not as `MXCSR` says; its operands are registers then.
    pub(super) rounding: Option<u8>,
}

pub(super) const fn evex(map: u8, prefix: u8, opcode: u8) -> Evex {
    Evex {
        map,
        prefix,
        wide: false,
        opcode,
        extension: 0,
        immediate: None,
        scalar: false,
        short: false,
        unit: 64,
        rounding: None,
    }
}

impl Evex {
    /// The instruction on 64-bit elements.
    pub(super) const fn wide(self) -> Evex {
        Evex { wide: true, ..self }
    }

    /// The instruction with a constant.
    pub(super) const fn by(self, immediate: u8) -> Evex {
        Evex { immediate: Some(immediate), ..self }
    }

    /// The instruction rounded down (1), up (2) or towards zero (3).
    pub(super) const fn rounded(self, how: u8) -> Evex {
        Evex { rounding: Some(how), ..self }
    }

    const fn extended(self, extension: u8) -> Evex {
        Evex { extension, ..self }
    }

    /// The instruction with a memory operand of `unit` bytes.
    const fn of_bytes(self, unit: i32) -> Evex {
        Evex { unit, ..self }
    }
}

pub(super) const VMOVUPS_LOAD: Evex = evex(1, 0, 0x10);
pub(super) const VMOVUPS_STORE: Evex = evex(1, 0, 0x11);
pub(super) const VMOVDQA32: Evex = evex(1, 1, 0x6f);
pub(super) const VPBROADCASTD: Evex = Evex { scalar: true, ..evex(2, 1, 0x58) };
pub(super) const VPADDD: Evex = evex(1, 1, 0xfe);
pub(super) const VPSUBD: Evex = evex(1, 1, 0xfa);
pub(super) const VPANDD: Evex = evex(1, 1, 0xdb);
pub(super) const VPORD: Evex = evex(1, 1, 0xeb);
pub(super) const VPXORD: Evex = evex(1, 1, 0xef);
pub(super) const VPMULLD: Evex = evex(2, 1, 0x40);
pub(super) const VPMULUDQ: Evex = evex(1, 1, 0xf4).wide();
pub(super) const VPMINUD: Evex = evex(2, 1, 0x3b);
pub(super) const VPMAXUD: Evex = evex(2, 1, 0x3f);
pub(super) const VPMINSD: Evex = evex(2, 1, 0x39);
pub(super) const VPMAXSD: Evex = evex(2, 1, 0x3d);
pub(super) const VPRORD: Evex = evex(1, 1, 0x72);
pub(super) const VPSLLVD: Evex = evex(2, 1, 0x47);
pub(super) const VPSRLVD: Evex = evex(2, 1, 0x45);
pub(super) const VPSRAVD: Evex = evex(2, 1, 0x46);
pub(super) const VPSLLD: Evex = evex(1, 1, 0x72).extended(6);
pub(super) const VPSRLD: Evex = evex(1, 1, 0x72).extended(2);
pub(super) const VPSRAD: Evex = evex(1, 1, 0x72).extended(4);
pub(super) const VPSRLQ: Evex = evex(1, 1, 0x73).extended(2).wide();
pub(super) const VPSLLQ: Evex = evex(1, 1, 0x73).extended(6).wide();
pub(super) const VPTERNLOGD: Evex = evex(3, 1, 0x25);
pub(super) const VPCMPD: Evex = evex(3, 1, 0x1f);
pub(super) const VPCMPUD: Evex = evex(3, 1, 0x1e);
pub(super) const VCMPPS: Evex = evex(1, 0, 0xc2);
pub(super) const VPBLENDMD: Evex = evex(2, 1, 0x64);
pub(super) const VADDPS: Evex = evex(1, 0, 0x58);
/// Instruction on one lane.
pub(super) const VADDSS: Evex = Evex { short: true, ..evex(1, 2, 0x58) };
pub(super) const VADDSD: Evex = Evex { short: true, ..evex(1, 3, 0x58) };
pub(super) const VMOVSS_LOAD: Evex = Evex { short: true, ..evex(1, 2, 0x10) };
pub(super) const VMOVSS_STORE: Evex = Evex { short: true, ..evex(1, 2, 0x11) };
pub(super) const VMOVSD_LOAD: Evex = Evex { short: true, ..evex(1, 3, 0x10) };
pub(super) const VMOVSD_STORE: Evex = Evex { short: true, ..evex(1, 3, 0x11) };
pub(super) const VMULPS: Evex = evex(1, 0, 0x59);
pub(super) const VSUBPS: Evex = evex(1, 0, 0x5c);
pub(super) const VMINPS: Evex = evex(1, 0, 0x5d);
pub(super) const VMAXPS: Evex = evex(1, 0, 0x5f);
pub(super) const VFMADD132PS: Evex = evex(2, 1, 0x98);
pub(super) const VFMADD231PS: Evex = evex(2, 1, 0xb8);
pub(super) const VCVTDQ2PS: Evex = evex(1, 0, 0x5b);
pub(super) const VCVTUDQ2PS: Evex = evex(1, 3, 0x7a);

pub(super) const VCVTTPS2DQ: Evex = evex(1, 2, 0x5b);
pub(super) const VCVTTPS2UDQ: Evex = evex(1, 0, 0x78);

/// `vmovd` from a general register.
pub(super) const VMOVD_FROM: Evex = Evex { short: true, ..evex(1, 1, 0x6e) };
/// `vmovd` to a general register.
pub(super) const VMOVD: Evex = Evex { short: true, ..evex(1, 1, 0x7e) };
/// `vmovq` to a general register.
pub(super) const VMOVQ: Evex = VMOVD.wide();
/// Lanes of the last operand by the numbers in the second one.
pub(super) const VPERMD: Evex = evex(2, 1, 0x36);
pub(super) const VPERMI2D: Evex = evex(2, 1, 0x76);
/// Dwords within each four.
pub(super) const VPSHUFD: Evex = evex(1, 1, 0x70);
pub(super) const VSHUFI64X2: Evex = evex(3, 1, 0x43).wide();

/// A quarter of a register, to memory.
pub(super) const VEXTRACTI32X4: Evex = evex(3, 1, 0x39).of_bytes(16);

/// `vpbroadcastd` from a general register, whose number stands for a vector register's.
pub(super) const VPBROADCASTD_FROM: Evex = evex(2, 1, 0x7c);
/// The lanes of a mask side by side; the destination is in `ModRM.rm`.
pub(super) const VPCOMPRESSD: Evex = evex(2, 1, 0x8b);
pub(super) const VPGATHERDD: Evex = evex(2, 1, 0x90);
/// Instruction on eight elements.
pub(super) const VPGATHERDQ: Evex = VPGATHERDD.wide();
pub(super) const VPSCATTERDD: Evex = evex(2, 1, 0xa0);
pub(super) const VPMOVSXBD: Evex = evex(2, 1, 0x21).of_bytes(16);
pub(super) const VPMOVSXWD: Evex = evex(2, 1, 0x23).of_bytes(32);
pub(super) const VPMOVZXBD: Evex = evex(2, 1, 0x31).of_bytes(16);
pub(super) const VPMOVZXWD: Evex = evex(2, 1, 0x33).of_bytes(32);
/// Instruction that stores to memory.
pub(super) const VPMOVDB: Evex = evex(2, 2, 0x31).of_bytes(16);
pub(super) const VPMOVDW: Evex = evex(2, 2, 0x33).of_bytes(32);

/// Halves side by side in half of a register to singles.
pub(super) const VCVTPH2PS: Evex = evex(2, 1, 0x13);
/// The inverse; the destination is in `ModRM.rm`.
pub(super) const VCVTPS2PH: Evex = evex(3, 1, 0x1d);
pub(super) const VPTESTMD: Evex = evex(2, 1, 0x27);
pub(super) const VPBROADCASTQ: Evex = Evex { scalar: true, ..evex(2, 1, 0x59).wide() };
pub(super) const VADDPD: Evex = evex(1, 1, 0x58).wide();
pub(super) const VMULPD: Evex = evex(1, 1, 0x59).wide();
pub(super) const VFMADD132PD: Evex = evex(2, 1, 0x98).wide();
pub(super) const VSQRTPS: Evex = evex(1, 0, 0x51);
pub(super) const VDIVPS: Evex = evex(1, 0, 0x5e);
/// `b * a - c` where `a` is overwritten, the second is `b` and the last `c`.
pub(super) const VFMSUB213PS: Evex = evex(2, 1, 0xaa);
/// `c - b * a` of the same.
pub(super) const VFNMADD213PS: Evex = evex(2, 1, 0xac);
/// `a - b * c` of the same.
pub(super) const VFNMADD231PS: Evex = evex(2, 1, 0xbc);
/// Mask of the lanes that are numbers of some classes.
pub(super) const VFPCLASSPS: Evex = evex(3, 1, 0x66);
pub(super) const VRNDSCALEPS: Evex = evex(3, 1, 0x08);
pub(super) const VPADDW: Evex = evex(1, 1, 0xfd);
pub(super) const VPSUBW: Evex = evex(1, 1, 0xf9);
pub(super) const VPMULLW: Evex = evex(1, 1, 0xd5);
pub(super) const VPMINUW: Evex = evex(2, 1, 0x3a);
pub(super) const VPMAXUW: Evex = evex(2, 1, 0x3e);
pub(super) const VPMINSW: Evex = evex(1, 1, 0xea);
pub(super) const VPMAXSW: Evex = evex(1, 1, 0xee);

/// An instruction on masks, in VEX encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vex {
    pub(super) map: u8,
    prefix: u8,
    wide: bool,
    long: bool,
    pub(super) opcode: u8,
}

impl Vex {
    /// The third byte, with the second operand.
    pub(super) const fn third(self, second: u8) -> u8 {
        (self.wide as u8) << 7 | (!second & 15) << 3 | (self.long as u8) << 2 | self.prefix
    }
}

const fn vex(prefix: u8, wide: bool, long: bool, opcode: u8) -> Vex {
    Vex { map: 1, prefix, wide, long, opcode }
}

/// `kmovw`, from a mask or memory.
pub(super) const KMOVW: Vex = vex(0, false, false, 0x90);
/// `kmovw` to memory.
pub(super) const KMOVW_STORE: Vex = vex(0, false, false, 0x91);
/// `kmovd` to memory.
pub(super) const KMOVD_STORE: Vex = vex(1, true, false, 0x91);
pub(super) const KUNPCKWD: Vex = vex(0, false, true, 0x4b);
pub(super) const KORTESTW: Vex = vex(0, false, false, 0x98);
pub(super) const KORW: Vex = vex(0, false, true, 0x45);
pub(super) const KANDW: Vex = vex(0, false, true, 0x41);
/// `kunpckdq`.
pub(super) const KUNPCKDQ: Vex = vex(0, true, true, 0x4b);
/// `kmovq` to memory.
pub(super) const KMOVQ_STORE: Vex = vex(0, true, false, 0x91);
/// `kmovw` from a general register, whose number stands for a mask's.
pub(super) const KMOVW_FROM: Vex = vex(0, false, false, 0x92);
/// `kmovw` to a general register, whose number stands for the first mask's.
pub(super) const KMOVW_TO: Vex = vex(0, false, false, 0x93);
/// `kshiftrw`, by a constant.
pub(super) const KSHIFTRW: Vex = Vex { map: 3, ..vex(1, true, false, 0x30) };
/// All lanes, of three times the same mask.
pub(super) const KXNORW: Vex = vex(0, false, true, 0x46);
