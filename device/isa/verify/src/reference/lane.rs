//! One lane of a vector ALU instruction: its sources as the operation wants them and its result.

use belfry_isa::inst::{FloatConst, Format, Mods, Op, Operand, Sdwa};

use rustc_apfloat::Round;

use super::number::{self, F16, F32, F64, Rules};
use super::state::{State, float_constant};

/// `MODE.IEEE`.
const IEEE: u32 = 1 << 9;

/// A vector ALU operation with its operands: a whole instruction or half of a VOPD.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vector {
    /// The operation.
    pub(crate) op: Op,
    /// The encoding.
    pub(crate) format: Format,
    /// First destination.
    pub(crate) dst: Operand,
    /// Second destination.
    pub(crate) dst2: Operand,
    /// Sources.
    pub(crate) src: [Operand; 3],
    /// Modifiers.
    pub(crate) mods: Mods,
    /// Byte of the source or destination.
    pub(crate) byte: u32,
    /// Parts of registers.
    pub(crate) sdwa: Option<Sdwa>,
    /// A result of 16 bits leaves zeros above it.
    pub(crate) zeroes: bool,
}

/// Source of a lane's first operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// A lane.
    Lane(u32),
    /// Zero.
    Zero,
}

/// A lane of a vector operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane<'a> {
    /// Registers before the instruction.
    pub(crate) state: &'a State,
    /// The operation.
    pub(crate) vector: &'a Vector,
    /// Its number.
    pub(crate) lane: u32,
    /// Source of its first operand (DPP).
    pub(crate) from: From,
}

/// A result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Out {
    /// Half a register; the other half stays.
    B16(u64),
    /// A register.
    B32(u64),
    /// Two registers.
    B64(u64),
    /// Four registers.
    B128([u32; 4]),
}

/// Value of a source, before it has a type.
enum Raw {
    Bits(u64),
    Int(i8),
    Float(FloatConst),
    Literal(u32),
}

impl Lane<'_> {
    fn raw(&self, n: usize) -> Raw {
        if let (Some(sdwa), Operand::Vgpr(_) | Operand::Sgpr(_), 0..=1) =
            (self.vector.sdwa, self.vector.src[n], n)
        {
            let word = match self.vector.src[n] {
                Operand::Vgpr(register) => self.state.vgpr(u32::from(register), self.lane),
                other => self.state.scalar(other),
            };
            return Raw::Bits(u64::from(super::gfx9::source_part(sdwa, n, word)));
        }
        match self.vector.src[n] {
            operand @ (Operand::Vgpr(_) | Operand::Agpr(_)) => {
                let register = self.state.vector_register(operand).unwrap_or_default();
                let lane = match (n, self.from) {
                    (0, From::Zero) => return Raw::Bits(0),
                    (0, From::Lane(lane)) => lane,
                    _ => self.lane,
                };
                Raw::Bits(self.state.vpair(register, lane))
            }
            Operand::InlineInt(value) => Raw::Int(value),
            Operand::InlineFloat(value) => Raw::Float(value),
            Operand::Literal(value) => Raw::Literal(value),
            other => Raw::Bits(self.state.scalar64(other, true)),
        }
    }

    /// Source `n` as 32 bits.
    pub(crate) fn u32(&self, n: usize) -> u32 {
        match self.raw(n) {
            Raw::Bits(bits) => bits as u32,
            Raw::Int(value) => i32::from(value) as u32,
            Raw::Float(value) => value.f32_bits(),
            Raw::Literal(value) => value,
        }
    }

    /// The same, signed.
    pub(crate) fn i32(&self, n: usize) -> i32 {
        self.u32(n) as i32
    }

    /// Source `n` as 16 bits, the half that `op_sel` says.
    pub(crate) fn u16(&self, n: usize) -> u16 {
        (self.u32(n) >> self.half(n)) as u16
    }

    /// The same, signed.
    pub(crate) fn i16(&self, n: usize) -> i16 {
        self.u16(n) as i16
    }

    fn half(&self, n: usize) -> u32 {
        // What is added to is the half that is written.
        let bit = if n == 2 && self.vector.op == Op::V_FMAC_F16 { 3 } else { n };
        (u32::from(self.vector.mods.op_sel) >> bit & 1) * 16
    }

    /// Source `n` as 64 bits, a literal extended without sign.
    pub(crate) fn u64(&self, n: usize) -> u64 {
        match self.raw(n) {
            Raw::Bits(bits) => bits,
            Raw::Int(value) => i64::from(value) as u64,
            Raw::Float(value) => value.f64_bits(),
            Raw::Literal(value) => u64::from(value),
        }
    }

    /// Source `n` as 64 bits, a literal extended with its sign.
    pub(crate) fn i64(&self, n: usize) -> i64 {
        match self.raw(n) {
            Raw::Literal(value) => i64::from(value as i32),
            _ => self.u64(n) as i64,
        }
    }

    /// Applies `abs` and `neg` of source `n`.
    fn modified(&self, n: usize, bits: u64, sign: u64) -> u64 {
        let mods = &self.vector.mods;
        let bits = if mods.abs >> n & 1 != 0 { bits & !sign } else { bits };
        if mods.neg >> n & 1 != 0 { bits ^ sign } else { bits }
    }

    /// Source `n` of a float operation as an integer, whose highest bit `abs` clears and `neg` flips.
    pub(crate) fn integer(&self, n: usize) -> u32 {
        self.modified(n, u64::from(self.u32(n)), 0x8000_0000) as u32
    }

    /// Source `n` as half precision.
    pub(crate) fn f16(&self, n: usize) -> u64 {
        let bits = match self.raw(n) {
            Raw::Float(value) => float_constant(value, 16),
            _ => u64::from(self.u32(n)),
        };
        self.modified(n, bits >> self.half(n) & 0xffff, 0x8000)
    }

    /// Source `n` as single precision.
    pub(crate) fn f32(&self, n: usize) -> u64 {
        self.modified(n, u64::from(self.u32(n)), 0x8000_0000)
    }

    /// Source `n` as double precision.
    pub(crate) fn f64(&self, n: usize) -> u64 {
        let bits = match self.raw(n) {
            Raw::Literal(value) => u64::from(value) << 32,
            _ => self.u64(n),
        };
        self.modified(n, bits, 1 << 63)
    }

    /// Bit of a lane mask.
    pub(crate) fn bit(&self, n: usize) -> bool {
        let mask = match self.vector.src[n] {
            Operand::Sgpr(register) => self.state.mask(register),
            other => self.state.scalar64(other, true),
        };
        mask >> self.lane & 1 != 0
    }

    /// Returns the old value of the destination.
    pub(crate) fn old(&self) -> u32 {
        match self.vector.dst {
            Operand::Vgpr(register) => self.state.vgpr(u32::from(register), self.lane),
            _ => 0,
        }
    }

    /// Rounding and denormals of single precision.
    pub(crate) fn single(&self) -> Rules {
        Rules { signals: self.signals(), ..Rules::of(self.state.mode, false) }
    }

    /// Rounding and denormals of half and double precision.
    pub(crate) fn wide(&self) -> Rules {
        Rules { signals: self.signals(), ..Rules::of(self.state.mode, true) }
    }

    /// Returns true if signalling NaNs stay signalling: `MODE.IEEE` exists and is not set.
    fn signals(&self) -> bool {
        self.has_ieee() && self.state.mode & IEEE == 0
    }

    /// Returns true if there is a `MODE.IEEE`.
    fn has_ieee(&self) -> bool {
        self.state.facts().fixed_mode.1 & IEEE == 0
    }

    /// Returns true if the instruction clamps.
    pub(crate) fn clamp(&self) -> bool {
        self.vector.mods.clamp
    }

    /// An integer result of 16 or 32 bits: with `clamp` it saturates, without it wraps.
    pub(crate) fn int(&self, value: i128, bits: u32, signed: bool) -> Out {
        let (low, high) = if signed {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        } else {
            (0, (1i128 << bits) - 1)
        };
        let value = if self.clamp() { value.clamp(low, high) } else { value };
        match bits {
            16 => Out::B16(value as u64 & 0xffff),
            32 => Out::B32(value as u64 & 0xffff_ffff),
            _ => Out::B64(value as u64),
        }
    }

    /// A half-precision result after `MODE.FP16_OVFL`: one that is infinite though no source is, and not for a division by
    /// zero, becomes the largest number.
    pub(crate) fn limited(&self, value: u64, is_exempt: bool) -> u64 {
        const FP16_OVFL: u32 = 1 << 23;
        let overflows = value & 0x7fff == 0x7c00 && !is_exempt;
        if overflows && self.state.mode & FP16_OVFL != 0 { value - 1 } else { value }
    }

    /// A half-precision result with `omod` and `clamp`.
    pub(crate) fn out16(&self, value: u64) -> Out {
        Out::B16(self.output::<F16>(value, self.wide()))
    }

    /// A single-precision result with `omod` and `clamp`.
    pub(crate) fn out32(&self, value: u64) -> Out {
        Out::B32(self.output::<F32>(value, self.single()))
    }

    /// A double-precision result with `omod` and `clamp`.
    pub(crate) fn out64(&self, value: u64) -> Out {
        Out::B64(self.output::<F64>(value, self.wide()))
    }

    /// `omod` is ignored with `MODE.IEEE` and where denormal results are kept, on chips that have `MODE.IEEE`. It knows no denormals,
    /// and leaves infinities and NaNs.
    fn output<F: number::Format>(&self, value: u64, rules: Rules) -> u64 {
        const DX10_CLAMP: u32 = 1 << 8;
        const FP16_OVFL: u32 = 1 << 23;
        let mods = &self.vector.mods;
        let mut value = value;
        // The one operation on pairs whose encoding has it.
        let pair = self.vector.op == Op::V_PK_FMAC_F16;
        let ignored = pair || self.has_ieee() && (!rules.flush_out || self.state.mode & IEEE != 0);
        let result = number::of::<F>(value);
        if mods.omod != 0 && !ignored && result.is_finite() {
            let power = [0, 1, 2, -1][usize::from(mods.omod & 3)];
            let limited = F::WIDTH == 16 && self.state.mode & FP16_OVFL != 0;
            let round = if limited { Round::TowardZero } else { rules.round };
            value = if result.is_zero() || result.is_denormal() {
                0
            } else if power < 0 && result.abs() < F::smallest_normalized().scalbn(1) {
                value & number::sign::<F>()
            } else {
                number::bits(result.scalbn_r(power, round))
            };
        }
        if !mods.clamp {
            return value;
        }
        if number::is_nan::<F>(value) {
            return if self.state.mode & DX10_CLAMP != 0 { 0 } else { value };
        }
        let float = number::of::<F>(value);
        if float.is_negative() || float.is_zero() {
            0
        } else if float > number::of::<F>(number::one::<F>()) {
            number::one::<F>()
        } else {
            value
        }
    }
}
