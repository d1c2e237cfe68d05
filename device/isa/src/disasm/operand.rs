//! Registers and constants.

use std::fmt;
use std::fmt::Write as _;

use super::{Out, Printer};
use crate::encoding::{Decode, Imm, Kind, Name, Print};
use crate::inst::{FloatConst, Operand, WaveSize};
use crate::registers::RegisterFile;

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
            _ => kind.width,
        };
        match value {
            Operand::None => Ok(()),
            Operand::InlineInt(_) | Operand::InlineFloat(_) | Operand::Literal(_) => match kind.print {
                Print::U32ImmOperand => hex_literal(out, value),
                Print::U16ImmOperand => hex_literal(out, value),
                _ => constant(out, kind.imm, value),
            },
            _ => {
                if matches!(kind.decode, Decode::VgprT16 | Decode::SrcT16)
                    && let Operand::Vgpr(number) = value
                {
                    let half = if number & 0x80 != 0 { 'h' } else { 'l' };
                    return write!(out, "v{}.{half}", number & 0x7f);
                }
                // LLVM has no name for three trap temporaries, and takes the first.
                let one =
                    matches!(value, Operand::Sgpr(number) if self.file.keeps_number(number, width.into()));
                register(out, self.file, value, if one { 1 } else { width })?;
                if in_class(self.file, kind.class, value) {
                    return Ok(());
                }
                write!(out, "/*Invalid register, operand has '{}' register class*/", kind.class)
            }
        }
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
    let exec = |number: u8| number == file.exec || number == file.exec + 1;
    let scalar = |class: &str, number: u8| match class {
        "" | "SReg_32" | "SReg_64" | "SReg_1" | "VS_32" | "VS_64" | "VS_32_Lo128" | "VS_16_Lo128"
        | "SRegOrLds_32" => true,
        "SReg_32_XEXEC_HI" => number != file.exec + 1,
        "SReg_32_XM0_XEXEC" => number != file.m0 && !exec(number),
        "SReg_32_XEXEC" | "SReg_64_XEXEC" | "SReg_1_XEXEC" => !exec(number),
        "SReg_96" => file.bank(number).is_some_and(|bank| bank.start != file.ttmp0),
        "SReg_128" | "SReg_256" | "SReg_512" => file.bank(number).is_some(),
        _ => false,
    };
    match value {
        Operand::Vgpr(number) => match class {
            "VGPR_32_Lo128" | "VS_32_Lo128" | "VGPR_16_Lo128" | "VS_16_Lo128" => number < 128,
            _ => !class.starts_with("SReg") && !class.starts_with("AReg") && class != "AGPR_32",
        },
        Operand::Agpr(_) => class.starts_with('A'),
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

/// An inline constant or literal of type `imm`.
fn constant(out: Out<'_, '_>, imm: Imm, value: Operand) -> fmt::Result {
    match value {
        Operand::InlineInt(value) => write!(out, "{value}")?,
        // LLVM has no integer meaning for these and shows the half-precision bits.
        Operand::InlineFloat(value) if imm == Imm::Int16 => write!(out, "{:#x}", value.f16_bits())?,
        Operand::InlineFloat(value) => {
            out.write_str(float_text(value, matches!(imm, Imm::Int64 | Imm::Fp64)))?;
        }
        Operand::Literal(value) => literal(out, imm, value)?,
        _ => {}
    }
    if imm == Imm::None { out.write_str("/*Invalid immediate*/") } else { Ok(()) }
}

/// A literal of type `imm`: printed as the inline constant it could have been when it is one.
fn literal(out: Out<'_, '_>, imm: Imm, value: u32) -> fmt::Result {
    let low = value & 0xffff;
    let low_signed = (low as u16).cast_signed();
    let small = |value: i64| (-16..=64).contains(&value);
    let (signed, float, rest) = match imm {
        Imm::Int16 => (i64::from(value.cast_signed()), float_named(value, FloatConst::f32_bits), low),
        Imm::Int32 | Imm::Fp32 | Imm::V2Int16 | Imm::None => {
            (i64::from(value.cast_signed()), float_named(value, FloatConst::f32_bits), value)
        }
        Imm::Fp16 => (i64::from(low_signed), float_named(low, f16), low),
        Imm::Bf16 => (i64::from(low_signed), float_named(low, bf16), value),
        Imm::V2Fp16 => (i64::from(value.cast_signed()), float_named(value, f16), value),
        Imm::V2Bf16 => (i64::from(value.cast_signed()), float_named(value, bf16), value),
        Imm::Int64 => (i64::from(value), None, value),
        Imm::Fp64 => {
            let wide = u64::from(value) << 32;
            let float = FLOATS.into_iter().find(|constant| constant.f64_bits() == wide);
            (wide.cast_signed(), float, value)
        }
    };
    match float {
        _ if small(signed) => write!(out, "{signed}"),
        Some(constant) => out.write_str(float_text(constant, imm == Imm::Fp64)),
        None => write!(out, "{rest:#x}"),
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
