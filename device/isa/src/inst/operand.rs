//! Operands: registers, constants and the values that the hardware provides.

/// Register or constant that an operand is read from or written to.
///
/// A number names the first register; the operation (and the form table) tells how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand {
    /// Absent.
    None,
    /// `v0..v255`.
    Vgpr(u8),
    /// `a0..a255`: an accumulation register, where the architecture has them.
    Agpr(u8),
    /// A register that lowering has prepared: no instruction names it.
    #[doc(hidden)]
    Prepared(u8),
    /// A scalar register by its number in the architecture, which is below 128. On gfx11: 0-105 `s0`-`s105`, 106 and 107
    /// `VCC`, 108-123 `ttmp0`-`ttmp15`, 124 `NULL`, 125 `M0`, 126 and 127 `EXEC`.
    Sgpr(u8),
    /// Inline integer `-16..=64`, sign-extended to the operand's width.
    InlineInt(i8),
    /// Inline floating-point constant, in the operand's own type; 16- and 32-bit integer operands get the f32 bits.
    InlineFloat(FloatConst),
    /// 32-bit literal as encoded. A 64-bit float operand has it as its high half, a 64-bit signed integer operand
    /// sign-extends it, an unsigned one zero-extends it, a 16-bit operand uses the low half.
    Literal(u32),
    /// `src_scc` (253).
    Scc,
    /// `src_vccz` (251).
    Vccz,
    /// `src_execz` (252).
    Execz,
    /// `src_shared_base` (235): the LDS aperture.
    SharedBase,
    /// `src_shared_limit` (236).
    SharedLimit,
    /// `src_private_base` (237): the scratch aperture.
    PrivateBase,
    /// `src_private_limit` (238).
    PrivateLimit,
    /// `src_pops_exiting_wave_id` (239).
    PopsExitingWaveId,
    /// `src_lds_direct` (254), absent from gfx11 and gfx12.
    LdsDirect,
}

impl Operand {
    /// Returns true if there is an operand.
    pub const fn is_some(self) -> bool {
        !matches!(self, Operand::None)
    }

    /// Returns true if it is [`Operand::None`].
    pub const fn is_none(self) -> bool {
        matches!(self, Operand::None)
    }
}

/// The inline floating-point constants, source numbers 240 to 248.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FloatConst {
    /// 0.5
    Half,
    /// -0.5
    MinusHalf,
    /// 1.0
    One,
    /// -1.0
    MinusOne,
    /// 2.0
    Two,
    /// -2.0
    MinusTwo,
    /// 4.0
    Four,
    /// -4.0
    MinusFour,
    /// 1/(2π), rounded to the operand's type.
    InvTwoPi,
}

impl FloatConst {
    /// The constant behind source number `240 + index`.
    pub const fn from_index(index: u8) -> Option<FloatConst> {
        use FloatConst::{Four, Half, InvTwoPi, MinusFour, MinusHalf, MinusOne, MinusTwo, One, Two};
        Some(match index {
            0 => Half,
            1 => MinusHalf,
            2 => One,
            3 => MinusOne,
            4 => Two,
            5 => MinusTwo,
            6 => Four,
            7 => MinusFour,
            8 => InvTwoPi,
            _ => return None,
        })
    }

    /// IEEE half-precision bits.
    pub const fn f16_bits(self) -> u16 {
        const BITS: [u16; 9] = [0x3800, 0xb800, 0x3c00, 0xbc00, 0x4000, 0xc000, 0x4400, 0xc400, 0x3118];
        BITS[self as usize]
    }

    /// bfloat16 bits.
    pub const fn bf16_bits(self) -> u16 {
        const BITS: [u16; 9] = [0x3f00, 0xbf00, 0x3f80, 0xbf80, 0x4000, 0xc000, 0x4080, 0xc080, 0x3e22];
        BITS[self as usize]
    }

    /// IEEE single-precision bits.
    pub const fn f32_bits(self) -> u32 {
        const BITS: [u32; 9] = [
            0x3f00_0000,
            0xbf00_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x4000_0000,
            0xc000_0000,
            0x4080_0000,
            0xc080_0000,
            0x3e22_f983,
        ];
        BITS[self as usize]
    }

    /// IEEE double-precision bits.
    pub const fn f64_bits(self) -> u64 {
        const BITS: [u64; 9] = [
            0x3fe0_0000_0000_0000,
            0xbfe0_0000_0000_0000,
            0x3ff0_0000_0000_0000,
            0xbff0_0000_0000_0000,
            0x4000_0000_0000_0000,
            0xc000_0000_0000_0000,
            0x4010_0000_0000_0000,
            0xc010_0000_0000_0000,
            0x3fc4_5f30_6dc9_c882,
        ];
        BITS[self as usize]
    }
}
