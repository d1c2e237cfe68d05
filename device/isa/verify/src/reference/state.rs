//! Everything a wave can see, as plain arrays.

use belfry_isa::inst::{Arch, FloatConst, Operand, WaveSize};

use crate::target::Facts;

/// Number of `VCC`.
pub const VCC: u8 = 106;
/// Number of `EXEC`.
pub const EXEC: u8 = 126;

/// Start of the sandbox memory in the address space.
pub const BASE: u64 = 0x7_0000_0000;
/// `SHARED_BASE`.
pub const SHARED: u64 = 1 << 48;
/// `PRIVATE_BASE`.
pub const PRIVATE: u64 = 2 << 48;

/// Why a program ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// `s_endpgm`.
    Done,
    /// A memory access outside the sandbox.
    Memory,
    /// An LDS access out of range.
    Lds,
    /// A scalar or vector register that is not there.
    Register,
    /// An operation this reference has no definition of.
    Unknown,
    /// Not decodable.
    Illegal,
    /// Another stop of the engine.
    Stop(String),
}

/// A wave and its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Instruction set it executes.
    pub arch: Arch,
    /// 32 or 64.
    pub lanes: u32,
    /// Vector registers, lane by lane.
    pub v: Vec<[u32; 64]>,
    /// Scalar registers by hardware number.
    pub s: [u32; 128],
    /// `SCC`.
    pub scc: bool,
    /// Address of the next instruction.
    pub pc: u64,
    /// `MODE`.
    pub mode: u32,
    /// `TRAPSTS`; `None` once something has happened whose exceptions the reference does not know.
    pub trapsts: Option<u32>,
    /// LDS.
    pub lds: Vec<u8>,
    /// Memory at [`BASE`].
    pub memory: Vec<u8>,
    /// Start address of this wave's scratch.
    pub scratch: u64,
    /// Bytes of scratch of a lane.
    pub scratch_size: u32,
}

impl State {
    /// Returns the facts of the instruction set.
    pub fn facts(&self) -> Facts {
        Facts::of(self.arch)
    }

    /// `M0`.
    pub fn m0(&self) -> u32 {
        self.sgpr(self.facts().m0)
    }

    /// The number of `NULL`, or of no register.
    pub fn null(&self) -> u8 {
        self.facts().null
    }

    /// The number of an operand's first vector register: accumulation registers follow the others.
    pub fn vector_register(&self, operand: Operand) -> Option<u32> {
        match operand {
            Operand::Vgpr(register) => Some(u32::from(register)),
            Operand::Agpr(register) => {
                Some(u32::from(register) + (self.v.len() - self.facts().accumulators) as u32)
            }
            _ => None,
        }
    }

    /// The wave size.
    pub fn wave(&self) -> WaveSize {
        if self.lanes == 32 { WaveSize::Wave32 } else { WaveSize::Wave64 }
    }

    /// `EXEC`, the lanes there are.
    pub fn exec(&self) -> u64 {
        self.mask(EXEC)
    }

    /// Returns true if float operations record their exceptions.
    pub fn records(&self) -> bool {
        self.mode >> 12 & 0x7f != 0
    }

    /// Records the exceptions of an operation; `None` when they are not known.
    pub fn raise(&mut self, bits: Option<u32>) {
        if self.records() {
            self.trapsts = self.trapsts.zip(bits).map(|(old, new)| old | new);
        }
    }

    /// The active lanes in ascending order.
    pub fn active(&self) -> impl Iterator<Item = u32> + use<> {
        let exec = self.exec();
        (0..self.lanes).filter(move |lane| exec >> lane & 1 != 0)
    }

    /// A lane mask: one register in waves of 32, two in waves of 64.
    pub fn mask(&self, register: u8) -> u64 {
        if self.lanes == 32 { u64::from(self.sgpr(register)) } else { self.pair(register) }
    }

    /// Writes a lane mask.
    pub fn set_mask(&mut self, register: u8, value: u64) {
        self.set_sgpr(register, value as u32);
        if self.lanes == 64 && register != self.null() {
            self.set_sgpr(register + 1, (value >> 32) as u32);
        }
    }

    /// A scalar register; `NULL` is 0.
    pub fn sgpr(&self, register: u8) -> u32 {
        if register == self.null() { 0 } else { self.s[usize::from(register & 127)] }
    }

    /// Writes a scalar register; `NULL` stays 0.
    pub fn set_sgpr(&mut self, register: u8, value: u32) {
        if register != self.null() {
            self.s[usize::from(register & 127)] = value;
        }
    }

    /// Two scalar registers.
    pub fn pair(&self, register: u8) -> u64 {
        if register == self.null() {
            return 0;
        }
        u64::from(self.sgpr(register)) | u64::from(self.sgpr(register + 1)) << 32
    }

    /// Writes two scalar registers.
    pub fn set_pair(&mut self, register: u8, value: u64) {
        if register != self.null() {
            self.set_sgpr(register, value as u32);
            self.set_sgpr(register + 1, (value >> 32) as u32);
        }
    }

    /// One lane of a vector register.
    pub fn vgpr(&self, register: u32, lane: u32) -> u32 {
        self.v.get(register as usize).map_or(0, |lanes| lanes[lane as usize & 63])
    }

    /// Sets one lane of a vector register.
    pub fn set_vgpr(&mut self, register: u32, lane: u32, value: u32) {
        if let Some(lanes) = self.v.get_mut(register as usize) {
            lanes[lane as usize & 63] = value;
        }
    }

    /// One lane of two vector registers.
    pub fn vpair(&self, register: u32, lane: u32) -> u64 {
        u64::from(self.vgpr(register, lane)) | u64::from(self.vgpr(register + 1, lane)) << 32
    }

    /// Sets one lane of two vector registers.
    pub fn set_vpair(&mut self, register: u32, lane: u32, value: u64) {
        self.set_vgpr(register, lane, value as u32);
        self.set_vgpr(register + 1, lane, (value >> 32) as u32);
    }

    /// A scalar operand of 32 bits.
    pub fn scalar(&self, operand: Operand) -> u32 {
        match operand {
            Operand::InlineFloat(value) => value.f32_bits(),
            other => self.scalar64(other, true) as u32,
        }
    }

    /// A scalar operand of 64 bits; a literal is extended with its sign when `signed`.
    pub fn scalar64(&self, operand: Operand, signed: bool) -> u64 {
        match operand {
            Operand::Sgpr(number) if number == self.facts().m0 || number == 127 => {
                u64::from(self.sgpr(number))
            }
            Operand::Sgpr(number) => self.pair(number),
            Operand::InlineInt(value) => i64::from(value) as u64,
            Operand::InlineFloat(value) => value.f64_bits(),
            Operand::Literal(value) if signed => i64::from(value as i32) as u64,
            Operand::Literal(value) => u64::from(value),
            other => self.special(other),
        }
    }

    /// Sources that are neither registers nor constants.
    pub fn special(&self, operand: Operand) -> u64 {
        match operand {
            Operand::Scc => u64::from(self.scc),
            Operand::Vccz => u64::from(self.mask(VCC) == 0),
            Operand::Execz => u64::from(self.exec() == 0),
            Operand::SharedBase => SHARED,
            Operand::SharedLimit => SHARED + 0xffff_ffff,
            Operand::PrivateBase => PRIVATE,
            Operand::PrivateLimit => PRIVATE + 0xffff_ffff,
            _ => 0,
        }
    }

    /// Bytes of the sandbox.
    ///
    /// # Errors
    ///
    /// [`End::Memory`] outside of the sandbox.
    pub fn load(&self, va: u64, count: usize) -> Result<Vec<u8>, End> {
        let at = usize::try_from(va.wrapping_sub(BASE)).map_err(|_| End::Memory)?;
        Ok(self.memory.get(at..at.saturating_add(count)).ok_or(End::Memory)?.to_vec())
    }

    /// A little-endian number of up to eight bytes.
    ///
    /// # Errors
    ///
    /// [`End::Memory`] outside of the sandbox.
    pub fn load_number(&self, va: u64, count: usize) -> Result<u64, End> {
        Ok(number(&self.load(va, count)?))
    }

    /// Writes bytes of the sandbox.
    ///
    /// # Errors
    ///
    /// [`End::Memory`] outside of the sandbox; nothing is written then.
    pub fn store(&mut self, va: u64, bytes: &[u8]) -> Result<(), End> {
        let at = usize::try_from(va.wrapping_sub(BASE)).map_err(|_| End::Memory)?;
        let place = self.memory.get_mut(at..at.saturating_add(bytes.len())).ok_or(End::Memory)?;
        place.copy_from_slice(bytes);
        Ok(())
    }

    /// Bytes of LDS.
    ///
    /// # Errors
    ///
    /// [`End::Lds`] beyond the end of LDS.
    pub fn lds_load(&self, address: u32, count: usize) -> Result<Vec<u8>, End> {
        let at = address as usize;
        Ok(self.lds.get(at..at + count).ok_or(End::Lds)?.to_vec())
    }

    /// Writes bytes of LDS.
    ///
    /// # Errors
    ///
    /// [`End::Lds`] beyond the end of LDS; nothing is written then.
    pub fn lds_store(&mut self, address: u32, bytes: &[u8]) -> Result<(), End> {
        let at = address as usize;
        self.lds.get_mut(at..at + bytes.len()).ok_or(End::Lds)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// Little-endian bytes as a number.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// An inline constant in a format of `bits` bits.
pub fn float_constant(value: FloatConst, bits: u32) -> u64 {
    match bits {
        16 => u64::from(value.f16_bits()),
        32 => u64::from(value.f32_bits()),
        _ => value.f64_bits(),
    }
}
