//! Opcodes of the vector and mask instructions that compiled regions use.

/// An instruction in EVEX encoding on 512 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tier1) struct Evex {
    /// Opcode map: 1 for `0F`, 2 for `0F 38`, 3 for `0F 3A`.
    pub(in crate::tier1) map: u8,
    /// Prefix: 1 for `66`, 2 for `F3`, 3 for `F2`.
    pub(in crate::tier1) prefix: u8,
    pub(in crate::tier1) wide: bool,
    pub(in crate::tier1) opcode: u8,
    /// Opcode extension in `ModRM.reg`.
    pub(in crate::tier1) extension: u8,
    pub(in crate::tier1) immediate: Option<u8>,
    /// Its memory operand is one element anyway (broadcasts).
    pub(in crate::tier1) scalar: bool,
    /// True if it is of 128 bits.
    pub(in crate::tier1) short: bool,
    /// Bytes of its memory operand, in which displacements count.
    pub(in crate::tier1) unit: i32,
    /// Rounding, if not as `MXCSR` says; its operands are registers then.
    pub(in crate::tier1) rounding: Option<u8>,
}

pub(in crate::tier1) const fn evex(map: u8, prefix: u8, opcode: u8) -> Evex {
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
    pub(in crate::tier1) const fn wide(self) -> Evex {
        Evex { wide: true, ..self }
    }

    /// The instruction with a constant.
    pub(in crate::tier1) const fn by(self, immediate: u8) -> Evex {
        Evex { immediate: Some(immediate), ..self }
    }

    /// The instruction rounded down (1), up (2) or towards zero (3).
    pub(in crate::tier1) const fn rounded(self, how: u8) -> Evex {
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

pub(in crate::tier1) const VMOVUPS_LOAD: Evex = evex(1, 0, 0x10);
pub(in crate::tier1) const VMOVUPS_STORE: Evex = evex(1, 0, 0x11);
pub(in crate::tier1) const VMOVDQA32: Evex = evex(1, 1, 0x6f);
pub(in crate::tier1) const VPBROADCASTD: Evex = Evex { scalar: true, ..evex(2, 1, 0x58) };
pub(in crate::tier1) const VPADDD: Evex = evex(1, 1, 0xfe);
pub(in crate::tier1) const VPSUBD: Evex = evex(1, 1, 0xfa);
pub(in crate::tier1) const VPANDD: Evex = evex(1, 1, 0xdb);
pub(in crate::tier1) const VPORD: Evex = evex(1, 1, 0xeb);
pub(in crate::tier1) const VPXORD: Evex = evex(1, 1, 0xef);
pub(in crate::tier1) const VPXORQ: Evex = VPXORD.wide();
/// Bits of the last operand that the other one has not.
pub(in crate::tier1) const VPANDND: Evex = evex(1, 1, 0xdf);
pub(in crate::tier1) const VPMULLD: Evex = evex(2, 1, 0x40);
pub(in crate::tier1) const VPMULUDQ: Evex = evex(1, 1, 0xf4).wide();
pub(in crate::tier1) const VPMINUD: Evex = evex(2, 1, 0x3b);
pub(in crate::tier1) const VPMAXUD: Evex = evex(2, 1, 0x3f);
pub(in crate::tier1) const VPMINSD: Evex = evex(2, 1, 0x39);
pub(in crate::tier1) const VPMAXSD: Evex = evex(2, 1, 0x3d);
pub(in crate::tier1) const VPRORD: Evex = evex(1, 1, 0x72);
pub(in crate::tier1) const VPSLLVD: Evex = evex(2, 1, 0x47);
pub(in crate::tier1) const VPSRLVD: Evex = evex(2, 1, 0x45);
pub(in crate::tier1) const VPSRAVD: Evex = evex(2, 1, 0x46);
pub(in crate::tier1) const VPSLLD: Evex = evex(1, 1, 0x72).extended(6);
pub(in crate::tier1) const VPSRLD: Evex = evex(1, 1, 0x72).extended(2);
pub(in crate::tier1) const VPSRAD: Evex = evex(1, 1, 0x72).extended(4);
pub(in crate::tier1) const VPSRLQ: Evex = evex(1, 1, 0x73).extended(2).wide();
pub(in crate::tier1) const VPSLLQ: Evex = evex(1, 1, 0x73).extended(6).wide();
pub(in crate::tier1) const VPTERNLOGD: Evex = evex(3, 1, 0x25);
pub(in crate::tier1) const VPCMPD: Evex = evex(3, 1, 0x1f);
pub(in crate::tier1) const VPCMPUD: Evex = evex(3, 1, 0x1e);
pub(in crate::tier1) const VCMPPS: Evex = evex(1, 0, 0xc2);
pub(in crate::tier1) const VCMPPD: Evex = evex(1, 1, 0xc2).wide();
pub(in crate::tier1) const VPBLENDMD: Evex = evex(2, 1, 0x64);
pub(in crate::tier1) const VADDPS: Evex = evex(1, 0, 0x58);
/// Instruction on one lane.
pub(in crate::tier1) const VADDSS: Evex = Evex { short: true, ..evex(1, 2, 0x58) };
pub(in crate::tier1) const VADDSD: Evex = Evex { short: true, ..evex(1, 3, 0x58) };
pub(in crate::tier1) const VMOVSS_LOAD: Evex = Evex { short: true, ..evex(1, 2, 0x10) };
pub(in crate::tier1) const VMOVSS_STORE: Evex = Evex { short: true, ..evex(1, 2, 0x11) };
pub(in crate::tier1) const VMOVSD_LOAD: Evex = Evex { short: true, ..evex(1, 3, 0x10) };
pub(in crate::tier1) const VMOVSD_STORE: Evex = Evex { short: true, ..evex(1, 3, 0x11) };
pub(in crate::tier1) const VMULPS: Evex = evex(1, 0, 0x59);
pub(in crate::tier1) const VSUBPS: Evex = evex(1, 0, 0x5c);
pub(in crate::tier1) const VMINPS: Evex = evex(1, 0, 0x5d);
pub(in crate::tier1) const VMAXPS: Evex = evex(1, 0, 0x5f);
pub(in crate::tier1) const VFMADD132PS: Evex = evex(2, 1, 0x98);
pub(in crate::tier1) const VFMADD231PS: Evex = evex(2, 1, 0xb8);
pub(in crate::tier1) const VCVTDQ2PS: Evex = evex(1, 0, 0x5b);
pub(in crate::tier1) const VCVTUDQ2PS: Evex = evex(1, 3, 0x7a);

/// Eight numbers of 32 bits to doubles.
pub(in crate::tier1) const VCVTDQ2PD: Evex = evex(1, 2, 0xe6);
pub(in crate::tier1) const VCVTUDQ2PD: Evex = evex(1, 2, 0x7a);
pub(in crate::tier1) const VCVTPS2PD: Evex = evex(1, 0, 0x5a);
/// The opposite, to the lower half of a register.
pub(in crate::tier1) const VCVTPD2PS: Evex = evex(1, 1, 0x5a).wide();
/// Half of a register from the lower half of another one.
pub(in crate::tier1) const VINSERTF64X4: Evex = evex(3, 1, 0x1a).wide();
pub(in crate::tier1) const VCVTTPS2DQ: Evex = evex(1, 2, 0x5b);
pub(in crate::tier1) const VCVTTPS2UDQ: Evex = evex(1, 0, 0x78);

/// `vmovd` from a general register.
pub(in crate::tier1) const VMOVD_FROM: Evex = Evex { short: true, ..evex(1, 1, 0x6e) };
/// `vmovd` to a general register.
pub(in crate::tier1) const VMOVD: Evex = Evex { short: true, ..evex(1, 1, 0x7e) };
/// `vmovq` to a general register.
pub(in crate::tier1) const VMOVQ: Evex = VMOVD.wide();
/// Lanes of the last operand by the numbers in the second one.
pub(in crate::tier1) const VPERMD: Evex = evex(2, 1, 0x36);
pub(in crate::tier1) const VPERMI2D: Evex = evex(2, 1, 0x76);
/// Dwords within each four.
pub(in crate::tier1) const VPSHUFD: Evex = evex(1, 1, 0x70);
pub(in crate::tier1) const VSHUFI64X2: Evex = evex(3, 1, 0x43).wide();

/// A quarter of a register, to memory.
pub(in crate::tier1) const VEXTRACTI32X4: Evex = evex(3, 1, 0x39).of_bytes(16);

/// `vpbroadcastd` from a general register, whose number stands for a vector register's.
pub(in crate::tier1) const VPBROADCASTD_FROM: Evex = evex(2, 1, 0x7c);
/// The lanes of a mask side by side; the destination is in `ModRM.rm`.
pub(in crate::tier1) const VPCOMPRESSD: Evex = evex(2, 1, 0x8b);
pub(in crate::tier1) const VPGATHERDD: Evex = evex(2, 1, 0x90);
/// Instruction on eight elements.
pub(in crate::tier1) const VPGATHERDQ: Evex = VPGATHERDD.wide();
pub(in crate::tier1) const VPSCATTERDD: Evex = evex(2, 1, 0xa0);
pub(in crate::tier1) const VPMOVSXBD: Evex = evex(2, 1, 0x21).of_bytes(16);
pub(in crate::tier1) const VPMOVSXWD: Evex = evex(2, 1, 0x23).of_bytes(32);
pub(in crate::tier1) const VPMOVZXBD: Evex = evex(2, 1, 0x31).of_bytes(16);
pub(in crate::tier1) const VPMOVZXWD: Evex = evex(2, 1, 0x33).of_bytes(32);
/// Instruction that stores to memory.
pub(in crate::tier1) const VPMOVDB: Evex = evex(2, 2, 0x31).of_bytes(16);
pub(in crate::tier1) const VPMOVDW: Evex = evex(2, 2, 0x33).of_bytes(32);

/// Halves side by side in half of a register to singles.
pub(in crate::tier1) const VCVTPH2PS: Evex = evex(2, 1, 0x13);
/// The inverse; the destination is in `ModRM.rm`.
pub(in crate::tier1) const VCVTPS2PH: Evex = evex(3, 1, 0x1d);
pub(in crate::tier1) const VPTESTMD: Evex = evex(2, 1, 0x27);
pub(in crate::tier1) const VPBROADCASTQ: Evex = Evex { scalar: true, ..evex(2, 1, 0x59).wide() };
pub(in crate::tier1) const VADDPD: Evex = evex(1, 1, 0x58).wide();
pub(in crate::tier1) const VMULPD: Evex = evex(1, 1, 0x59).wide();
pub(in crate::tier1) const VFMADD132PD: Evex = evex(2, 1, 0x98).wide();
pub(in crate::tier1) const VSQRTPS: Evex = evex(1, 0, 0x51);
pub(in crate::tier1) const VDIVPS: Evex = evex(1, 0, 0x5e);
/// `b * a - c` where `a` is overwritten, the second is `b` and the last `c`.
pub(in crate::tier1) const VFMSUB213PS: Evex = evex(2, 1, 0xaa);
/// `c - b * a` of the same.
pub(in crate::tier1) const VFNMADD213PS: Evex = evex(2, 1, 0xac);
/// `a - b * c` of the same.
pub(in crate::tier1) const VFNMADD231PS: Evex = evex(2, 1, 0xbc);
/// Mask of the lanes that are numbers of some classes.
pub(in crate::tier1) const VFPCLASSPS: Evex = evex(3, 1, 0x66);
pub(in crate::tier1) const VFPCLASSPD: Evex = VFPCLASSPS.wide();
/// A single times two to the power of another one.
pub(in crate::tier1) const VSCALEFPS: Evex = evex(2, 1, 0x2c);
pub(in crate::tier1) const VSCALEFPD: Evex = VSCALEFPS.wide();
pub(in crate::tier1) const VRNDSCALEPS: Evex = evex(3, 1, 0x08);
pub(in crate::tier1) const VRNDSCALEPD: Evex = evex(3, 1, 0x09).wide();
pub(in crate::tier1) const VSUBPD: Evex = evex(1, 1, 0x5c).wide();
pub(in crate::tier1) const VMINPD: Evex = evex(1, 1, 0x5d).wide();
pub(in crate::tier1) const VMAXPD: Evex = evex(1, 1, 0x5f).wide();
pub(in crate::tier1) const VPADDQ: Evex = evex(1, 1, 0xd4).wide();
pub(in crate::tier1) const VPSUBQ: Evex = evex(1, 1, 0xfb).wide();
pub(in crate::tier1) const VPANDQ: Evex = VPANDD.wide();
pub(in crate::tier1) const VPORQ: Evex = VPORD.wide();
pub(in crate::tier1) const VMOVDQA64: Evex = VMOVDQA32.wide();
pub(in crate::tier1) const VPCMPUQ: Evex = VPCMPUD.wide();
pub(in crate::tier1) const VPTESTMQ: Evex = VPTESTMD.wide();
/// Lanes without common bits.
pub(in crate::tier1) const VPTESTNMQ: Evex = evex(2, 2, 0x27).wide();
/// Both parts of floats, as floats.
pub(in crate::tier1) const VGETMANTPS: Evex = evex(3, 1, 0x26);
pub(in crate::tier1) const VGETMANTPD: Evex = VGETMANTPS.wide();
pub(in crate::tier1) const VGETEXPPS: Evex = evex(2, 1, 0x42);
pub(in crate::tier1) const VGETEXPPD: Evex = VGETEXPPS.wide();
/// Eight doubles as integers of 32 bits, to the lower half of a register.
pub(in crate::tier1) const VCVTTPD2DQ: Evex = evex(1, 1, 0xe6).wide();
pub(in crate::tier1) const VPADDW: Evex = evex(1, 1, 0xfd);
pub(in crate::tier1) const VPSUBW: Evex = evex(1, 1, 0xf9);
pub(in crate::tier1) const VPMULLW: Evex = evex(1, 1, 0xd5);
pub(in crate::tier1) const VPMINUW: Evex = evex(2, 1, 0x3a);
pub(in crate::tier1) const VPMAXUW: Evex = evex(2, 1, 0x3e);
pub(in crate::tier1) const VPMINSW: Evex = evex(1, 1, 0xea);
pub(in crate::tier1) const VPMAXSW: Evex = evex(1, 1, 0xee);
pub(in crate::tier1) const VPSLLW: Evex = evex(1, 1, 0x71).extended(6);
pub(in crate::tier1) const VPSRLW: Evex = evex(1, 1, 0x71).extended(2);
pub(in crate::tier1) const VPSRAW: Evex = evex(1, 1, 0x71).extended(4);
/// Bytes of the second operand within each sixteen, by the numbers in the last one.
pub(in crate::tier1) const VPSHUFB: Evex = evex(2, 1, 0x00);
/// Sums of both products of signed halves.
pub(in crate::tier1) const VPMADDWD: Evex = evex(1, 1, 0xf5);

/// An instruction on masks, in VEX encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::tier1) struct Vex {
    pub(in crate::tier1) map: u8,
    prefix: u8,
    wide: bool,
    long: bool,
    pub(in crate::tier1) opcode: u8,
}

impl Vex {
    /// The third byte, with the second operand.
    pub(in crate::tier1) const fn third(self, second: u8) -> u8 {
        (self.wide as u8) << 7 | (!second & 15) << 3 | (self.long as u8) << 2 | self.prefix
    }
}

const fn vex(prefix: u8, wide: bool, long: bool, opcode: u8) -> Vex {
    Vex { map: 1, prefix, wide, long, opcode }
}

/// `kmovw`, from a mask or memory.
pub(in crate::tier1) const KMOVW: Vex = vex(0, false, false, 0x90);
/// `kmovw` to memory.
pub(in crate::tier1) const KMOVW_STORE: Vex = vex(0, false, false, 0x91);
/// `kmovd` to memory.
pub(in crate::tier1) const KMOVD_STORE: Vex = vex(1, true, false, 0x91);
pub(in crate::tier1) const KUNPCKWD: Vex = vex(0, false, true, 0x4b);
pub(in crate::tier1) const KNOTW: Vex = vex(0, false, false, 0x44);
/// `kunpckbw`.
pub(in crate::tier1) const KUNPCKBW: Vex = vex(1, false, true, 0x4b);
pub(in crate::tier1) const KORTESTW: Vex = vex(0, false, false, 0x98);
pub(in crate::tier1) const KORW: Vex = vex(0, false, true, 0x45);
pub(in crate::tier1) const KANDW: Vex = vex(0, false, true, 0x41);
/// `kunpckdq`.
pub(in crate::tier1) const KUNPCKDQ: Vex = vex(0, true, true, 0x4b);
/// `kmovq` to memory.
pub(in crate::tier1) const KMOVQ_STORE: Vex = vex(0, true, false, 0x91);
/// `kmovw` from a general register, whose number stands for a mask's.
pub(in crate::tier1) const KMOVW_FROM: Vex = vex(0, false, false, 0x92);
/// `kmovw` to a general register, whose number stands for the first mask's.
pub(in crate::tier1) const KMOVW_TO: Vex = vex(0, false, false, 0x93);
/// `kshiftrw`, by a constant.
pub(in crate::tier1) const KSHIFTRW: Vex = Vex { map: 3, ..vex(1, true, false, 0x30) };
/// All lanes, of three times the same mask.
pub(in crate::tier1) const KXNORW: Vex = vex(0, false, true, 0x46);
