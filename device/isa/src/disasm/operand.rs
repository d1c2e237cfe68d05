//! Registers and constants.

use std::fmt;
use std::fmt::Write as _;

use super::{Out, Printer};
use crate::encoding::{Decode, Imm, Kind, Name, Print};
use crate::fields;
use crate::halves;
use crate::inst::{FloatConst, Op, Operand, WaveSize};
use crate::registers::RegisterFile;
use crate::tables::notation::Style;

impl Printer<'_> {
    /// A register or constant, with LLVM's comment when it is not one the operand may be.
    pub(super) fn operand(&self, out: Out<'_, '_>, name: Name, kind: &Kind) -> fmt::Result {
        let value = self.value(name, kind);
        let width = match kind.decode {
            Decode::Bool => match self.wave {
                WaveSize::Wave32 => 1,
                WaveSize::Wave64 => 2,
            },
            Decode::SdwaVopcDst => 2,
            _ => fields::width(self.inst, name, kind),
        };
        match value {
            Operand::None => Ok(()),
            Operand::InlineInt(_) | Operand::InlineFloat(_) | Operand::Literal(_) => match kind.print {
                Print::U32ImmOperand => hex_literal(out, value),
                Print::U16ImmOperand => hex_literal(out, value),
                _ => self.constant(out, kind, value),
            },
            _ => {
                if let Operand::Vgpr(number) = value
                    && let Some(high) = self.half(name, kind)
                {
                    let number = if kind.class.ends_with("_Lo128") { number & 0x7f } else { number };
                    return write!(out, "v{number}.{}", if high { 'h' } else { 'l' });
                }
                // LLVM has no name for three trap temporaries, and takes the first.
                let one =
                    matches!(value, Operand::Sgpr(number) if self.file.keeps_number(number, width.into()));
                register(out, self.file, value, if one { 1 } else { width })?;
                if kind.print == Print::First || in_class(self.file, kind.class, value) {
                    return Ok(());
                }
                write!(out, "/*Invalid register, operand has '{}' register class*/", kind.class)
            }
        }
    }

    /// True if a vector register is the high half of one, false if the low; `None` of operands that are whole registers.
    fn half(&self, name: Name, kind: &Kind) -> Option<bool> {
        let halves = matches!(kind.class, "VGPR_16" | "VS_16" | "VGPR_16_Lo128" | "VS_16_Lo128");
        halves.then(|| self.inst.mods.op_sel & halves::bit(self.inst.op, name) != 0)
    }

    /// An inline constant or literal.
    fn constant(&self, out: Out<'_, '_>, kind: &Kind, value: Operand) -> fmt::Result {
        let imm = kind.imm;
        match value {
            Operand::InlineInt(value) => write!(out, "{value}")?,
            // LLVM has no integer meaning for these and shows the half-precision bits.
            Operand::InlineFloat(value) if imm == Imm::Int16 => write!(out, "{:#x}", value.f16_bits())?,
            Operand::InlineFloat(value) => {
                out.write_str(float_text(value, matches!(imm, Imm::Int64 | Imm::Fp64)))?;
            }
            Operand::Literal(value) => {
                // From GFX11 on it has inline constants in both halves.
                let doubled = self.inst.op == Op::V_PK_FMAC_F16 && self.notation.style == Style::Gfx10;
                literal(out, kind, value, doubled)?;
            }
            _ => {}
        }
        if imm == Imm::None { out.write_str("/*Invalid immediate*/") } else { Ok(()) }
    }
}

/// Name of a register or special source that is `width` registers wide.
pub(super) fn register(
    out: Out<'_, '_>,
    file: &'static RegisterFile,
    value: Operand,
    width: u8,
) -> fmt::Result {
    match value {
        Operand::Vgpr(number) if width <= 1 => write!(out, "v{number}"),
        Operand::Vgpr(number) => write!(out, "v[{number}:{}]", u32::from(number) + u32::from(width) - 1),
        Operand::Agpr(number) if width <= 1 => write!(out, "a{number}"),
        Operand::Agpr(number) => write!(out, "a[{number}:{}]", u32::from(number) + u32::from(width) - 1),
        Operand::Sgpr(number) => write!(out, "{}", file.name(number, width)),
        Operand::SharedBase => out.write_str("src_shared_base"),
        Operand::SharedLimit => out.write_str("src_shared_limit"),
        Operand::PrivateBase => out.write_str("src_private_base"),
        Operand::PrivateLimit => out.write_str("src_private_limit"),
        Operand::PopsExitingWaveId => out.write_str("src_pops_exiting_wave_id"),
        Operand::Vccz => out.write_str("src_vccz"),
        Operand::Execz => out.write_str("src_execz"),
        Operand::Scc => out.write_str("src_scc"),
        Operand::LdsDirect => out.write_str("src_lds_direct"),
        Operand::None
        | Operand::Prepared(_)
        | Operand::InlineInt(_)
        | Operand::InlineFloat(_)
        | Operand::Literal(_) => Ok(()),
    }
}

/// Returns true if LLVM's register class `class` holds the register.
fn in_class(file: &RegisterFile, class: &str, value: Operand) -> bool {
    // Of lane masks LLVM says nothing, as they may be those of another wave size.
    if matches!(class, "SReg_1" | "SReg_1_XEXEC") {
        return true;
    }
    let exec = |number: u8| number == file.exec || number == file.exec + 1;
    let scalar = |class: &str, number: u8| match class {
        "" | "SReg_32" | "SReg_64" | "SReg_64_Encodable" | "VS_32" | "VS_64" | "VS_64_Align2"
        | "VS_32_Lo128" | "VS_16" | "VS_16_Lo128" | "SRegOrLds_32" => true,
        "SReg_32_XEXEC_HI" => number != file.exec + 1,
        "SReg_32_XM0" => number != file.m0,
        "SReg_32_XM0_XEXEC" => number != file.m0 && !exec(number),
        "SReg_32_XEXEC" | "SReg_64_XEXEC" | "SReg_64_XEXEC_XNULL" => !exec(number),
        "SReg_96" => file.bank(number).is_some_and(|bank| bank.start != file.ttmp0),
        "SReg_128" | "SReg_128_XNULL" | "SReg_256" | "SReg_256_XNULL" | "SReg_512" => {
            file.bank(number).is_some()
        }
        _ => false,
    };
    let aligned = |number: u8| number.is_multiple_of(2) || !class.ends_with("_Align2");
    match value {
        Operand::Vgpr(number) => match class {
            "VGPR_32_Lo128" | "VS_32_Lo128" | "VGPR_16_Lo128" | "VS_16_Lo128" => number < 128,
            _ => {
                let accumulation = class.starts_with("AReg") || class == "AGPR_32";
                !class.starts_with("SReg") && !accumulation && aligned(number)
            }
        },
        Operand::Agpr(number) => class.starts_with('A') && aligned(number),
        Operand::Sgpr(number) if file.is_null(number) => true,
        Operand::Sgpr(number) => scalar(class, number),
        Operand::LdsDirect => class.is_empty() || class.starts_with("VS_") || class.ends_with("OrLds_32"),
        _ => true,
    }
}

fn hex_literal(out: Out<'_, '_>, value: Operand) -> fmt::Result {
    match value {
        Operand::Literal(value) => write!(out, "{value:#x}"),
        _ => Ok(()),
    }
}

/// `0x…` with the sign in front.
pub(super) fn signed_hex(out: Out<'_, '_>, value: i32) -> fmt::Result {
    if value < 0 {
        out.write_char('-')?;
    }
    write!(out, "{:#x}", value.unsigned_abs())
}

/// A 32-bit immediate that is no register: decimal for the inline integers, a float's name, otherwise hexadecimal.
pub(super) fn integer(out: Out<'_, '_>, signed: i64, value: u32) -> fmt::Result {
    if (-16..=64).contains(&signed) {
        return write!(out, "{signed}");
    }
    match float_named(value, FloatConst::f32_bits) {
        Some(constant) => out.write_str(float_text(constant, false)),
        None => write!(out, "{value:#x}"),
    }
}

/// A literal: `lit(…)` around one that an inline constant could be in its place.
fn literal(out: Out<'_, '_>, kind: &Kind, value: u32, doubled: bool) -> fmt::Result {
    let (low, signed) = (value & 0xffff, i64::from(value.cast_signed()));
    let small = |value: i64| (-16..=64).contains(&value);
    let half = |bits: fn(FloatConst) -> u32| {
        small(i64::from((low as u16).cast_signed())) || float_named(low, bits).is_some()
    };
    let pair = |bits: fn(FloatConst) -> u32| small(signed) || float_named(value, bits).is_some();
    let (inline, rest) = match kind.imm {
        Imm::Int16 => (pair(FloatConst::f32_bits), low),
        Imm::Int32 | Imm::Fp32 | Imm::V2Int16 => (pair(FloatConst::f32_bits), value),
        Imm::Fp16 => (half(f16), low),
        Imm::V2Fp16 if kind.inline => (half(f16), value),
        Imm::V2Fp16 if doubled => {
            (small(signed) || low == value >> 16 && float_named(low, f16).is_some(), value)
        }
        Imm::V2Fp16 => (pair(f16), value),
        Imm::Bf16 => (half(bf16), value),
        Imm::V2Bf16 if kind.inline => (half(bf16), value),
        Imm::V2Bf16 => (pair(bf16), value),
        Imm::Int64 => (small(i64::from(value)), value),
        Imm::Fp64 => return high_dword(out, value),
        Imm::None => return integer(out, signed, value),
    };
    if inline { write!(out, "lit({value:#x})") } else { write!(out, "{rest:#x}") }
}

/// The upper half of a double whose lower one is 0.
fn high_dword(out: Out<'_, '_>, value: u32) -> fmt::Result {
    let wide = u64::from(value) << 32;
    match FLOATS.into_iter().find(|constant| constant.f64_bits() == wide) {
        _ if wide == 0 => out.write_char('0'),
        Some(constant) => out.write_str(float_text(constant, true)),
        None => write!(out, "{value:#x}"),
    }
}

const FLOATS: [FloatConst; 9] = [
    FloatConst::Half,
    FloatConst::MinusHalf,
    FloatConst::One,
    FloatConst::MinusOne,
    FloatConst::Two,
    FloatConst::MinusTwo,
    FloatConst::Four,
    FloatConst::MinusFour,
    FloatConst::InvTwoPi,
];

fn f16(constant: FloatConst) -> u32 {
    u32::from(constant.f16_bits())
}

fn bf16(constant: FloatConst) -> u32 {
    u32::from(constant.bf16_bits())
}

/// The constant whose bits are `value`.
fn float_named(value: u32, bits: impl Fn(FloatConst) -> u32) -> Option<FloatConst> {
    FLOATS.into_iter().find(|&constant| bits(constant) == value)
}

fn float_text(constant: FloatConst, double: bool) -> &'static str {
    match constant {
        FloatConst::Half => "0.5",
        FloatConst::MinusHalf => "-0.5",
        FloatConst::One => "1.0",
        FloatConst::MinusOne => "-1.0",
        FloatConst::Two => "2.0",
        FloatConst::MinusTwo => "-2.0",
        FloatConst::Four => "4.0",
        FloatConst::MinusFour => "-4.0",
        FloatConst::InvTwoPi if double => "0.15915494309189532",
        FloatConst::InvTwoPi => "0.15915494",
    }
}
