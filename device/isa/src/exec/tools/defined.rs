//! Tracks which bits of a wave's registers the program has written. The hardware initialises only a few registers of
//! a wave; the others hold values that an earlier wave left there. This engine gives zeros instead, so a kernel that
//! reads such a register always computes the same here, and may not on a card.
//!
//! Undefined bits may be copied and computed with. They are reported where they matter: in an address, in data that
//! is stored, and where they decide a branch or the active lanes. Results of operations across lanes, or on parts of
//! registers, count as defined.

mod scalar;
mod vector;

use super::pending::{Registers, registers};
use super::probe::About;
use super::touches::Touch;
use crate::exec::properties::{Effect, Family, Space, properties};
use crate::inst::{Arch, Inst, Operand, WaveSize};
use crate::registers::RegisterFile;
use crate::registers::slot;
use crate::tables::{OperandType, Place, operand_types};
use crate::wave::Wave;

/// Vector registers and, from 256 on, accumulation registers.
const VECTORS: usize = 512;

/// Use of a register that nothing has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The register is part of an address.
    Address,
    /// The register is stored.
    Data,
    /// The register decides where the wave goes on, or with which lanes.
    Branch,
}

/// A use of a register that nothing has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undefined {
    /// The register, of a vector or a scalar one; `None` is SCC.
    register: Option<(bool, u16)>,
    /// Use of the register.
    pub used: Use,
    /// First lane in which it is not defined.
    pub lane: Option<u8>,
}

impl Undefined {
    /// Returns the name of the register.
    #[must_use]
    pub fn register(&self, arch: Arch) -> String {
        match self.register {
            None => "scc".into(),
            Some((true, number @ 256..)) => format!("a{}", number - 256),
            Some((true, number)) => format!("v{number}"),
            Some((false, number)) => RegisterFile::of(arch).name(number as u8, 1).to_string(),
        }
    }
}

/// Defined bits of one wave's registers.
#[derive(Clone, Debug)]
pub struct Defined {
    arch: Arch,
    size: WaveSize,
    /// Lanes of each vector register.
    vectors: Box<[u64; VECTORS]>,
    /// Bits of each scalar register, by the place that a wave keeps it in.
    scalars: [u32; 128],
    scc: bool,
    /// Set once unknown registers were written: nothing is reported after that.
    lost: bool,
}

impl Defined {
    /// Defined bits of a wave that begins with `sgprs` scalar registers, `s0..`, and `v0`.
    #[must_use]
    pub fn new(arch: Arch, size: WaveSize, sgprs: usize) -> Self {
        let mut vectors = Box::new([0; VECTORS]);
        vectors[0] = u64::MAX;
        let mut scalars = [0; 128];
        let file = RegisterFile::of(arch);
        scalars.iter_mut().take(sgprs).for_each(|bits| *bits = u32::MAX);
        for first in
            [file.flat_scratch.map(|_| slot::FLAT_SCRATCH), file.xnack_mask.map(|_| slot::XNACK_MASK)]
        {
            first.into_iter().for_each(|first| scalars[first..first + 2].fill(u32::MAX));
        }
        scalars[slot::TTMP0..slot::M0].fill(u32::MAX);
        scalars[slot::EXEC..].fill(u32::MAX);
        Self { arch, size, vectors, scalars, scc: false, lost: false }
    }

    fn all_lanes(&self) -> u64 {
        match self.size {
            WaveSize::Wave32 => 0xffff_ffff,
            WaveSize::Wave64 => u64::MAX,
        }
    }

    fn slot(&self, number: u16) -> Option<usize> {
        RegisterFile::of(self.arch).slot(u8::try_from(number).ok()?).filter(|slot| *slot < 128)
    }

    /// Returns the defined bits of a scalar pair, or of one register. Numbers of no register count as defined.
    fn scalar(&self, first: u16, words: u16) -> u64 {
        let word = |at: u16| self.slot(first + at).map_or(u32::MAX, |slot| self.scalars[slot]);
        let high = if words >= 2 { word(1) } else { u32::MAX };
        u64::from(word(0)) | u64::from(high) << 32
    }

    /// Returns the defined bits of a mask.
    fn mask(&self, first: u16) -> u64 {
        self.scalar(first, if self.size == WaveSize::Wave32 { 1 } else { 2 })
    }

    fn set_scalars(&mut self, first: u16, bits: &[u32]) {
        for (at, bits) in (first..).zip(bits) {
            if let Some(slot) = self.slot(at) {
                self.scalars[slot] = *bits;
            }
        }
    }

    fn set_mask(&mut self, first: u16, bits: u64) {
        let words = [bits as u32, (bits >> 32) as u32];
        let count = if self.size == WaveSize::Wave32 { 1 } else { 2 };
        self.set_scalars(first, &words[..count]);
    }

    /// In which lanes an operand is defined, and the first of its registers that is not in some of `active`.
    fn lanes(&self, operand: Operand, kind: &OperandType, active: u64) -> (u64, Option<(bool, u16)>) {
        if operand == Operand::Scc {
            return (if self.scc { u64::MAX } else { 0 }, None);
        }
        let Some(Registers { vector, first, count }) = registers(operand, u16::from(kind.words), kind.halves)
        else {
            return (u64::MAX, None);
        };
        if kind.mask && !vector {
            let bits = self.mask(first);
            return (bits, Some((false, first)).filter(|_| active & !bits != 0));
        }
        let (mut all, mut missing) = (u64::MAX, None);
        for number in first..first + count {
            let bits = match vector {
                true => self.vectors.get(usize::from(number)).copied().unwrap_or(u64::MAX),
                false if self.slot(number).is_none_or(|slot| self.scalars[slot] == u32::MAX) => u64::MAX,
                false => 0,
            };
            if active & !bits != 0 && missing.is_none() {
                missing = Some((vector, number));
            }
            all &= bits;
        }
        (all, missing)
    }

    /// Takes note of an instruction that is about to be executed. Returns the first register that it uses and that
    /// nothing has written; each is reported once.
    pub fn before(&mut self, wave: &Wave, about: &About<'_>) -> Option<Undefined> {
        if self.lost {
            return None;
        }
        let inst = about.inst;
        let row = properties(inst.op);
        let types = operand_types(self.arch, inst);
        match row.family {
            Family::Absent | Family::Nothing | Family::GlobalWaveSync => None,
            Family::Relative | Family::ScalarRelative => {
                self.lost = true;
                None
            }
            Family::Scalar | Family::ScalarFloat(..) | Family::ScalarComparison(..) => {
                self.scalar_operation(wave, inst, &types)
            }
            Family::ExecMask(function, ..) => self.exec_mask(wave, inst, function, &types),
            Family::HalfLoop | Family::Control => self.control(wave, inst, &types),
            Family::ScalarMemory(_)
            | Family::NarrowScalarMemory(_)
            | Family::ScalarStore(_)
            | Family::ScalarAtomic(..) => {
                let told = self.uses(inst, &types, (&[Place::Src(0), Place::Src(1)], u64::MAX), Use::Address);
                self.define(inst, &types, u64::MAX);
                told
            }
            family if family.is_vector() => self.vector_operation(wave, inst, &types, family),
            _ => self.memory(wave, about, &types),
        }
    }

    fn memory(&mut self, wave: &Wave, about: &About<'_>, types: &[OperandType]) -> Option<Undefined> {
        let inst = about.inst;
        let active = wave.exec() & self.all_lanes();
        let row = properties(inst.op);
        let is_exchange = matches!(row.family, Family::LdsExchange(_));
        let mut told = None;
        if !is_exchange && let Some((space, effect)) = row.memory {
            let addresses: &[Place] = match space {
                Space::Buffer | Space::Image => &[Place::Src(0), Place::Src(1), Place::Src(2)],
                Space::Lds => &[Place::Src(0)],
                _ => &[Place::Src(0), Place::Src(2)],
            };
            told = self.uses(inst, types, (addresses, active), Use::Address);
            if told.is_none() && effect != Effect::Load {
                let data: &[Place] = match space {
                    Space::Buffer | Space::Image => &[Place::Src(3)],
                    Space::Lds => &[Place::Src(1), Place::Src(2)],
                    _ => &[Place::Src(1)],
                };
                // Functions save registers in private memory, also unwritten ones: no lane that stores there counts.
                let shared = |mask: u64, touch: &Touch| mask | 1 << (touch.lane & 63);
                let lanes = about.touches.iter().fold(0, shared);
                told = self.uses(inst, types, (data, lanes & active), Use::Data);
            }
        }
        self.define(inst, types, active);
        told
    }

    /// Returns the first use of an operand at one of `places` that is not defined in some of the active lanes. That
    /// operand counts as defined from then on.
    fn uses(
        &mut self,
        inst: &Inst,
        types: &[OperandType],
        (places, active): (&[Place], u64),
        used: Use,
    ) -> Option<Undefined> {
        for kind in types.iter().filter(|kind| places.contains(&kind.place)) {
            let operand = value(inst, kind.place);
            let (lanes, missing) = self.lanes(operand, kind, active);
            let is_vector = matches!(operand, Operand::Vgpr(_) | Operand::Agpr(_));
            if active != 0
                && let Some(register) = missing
            {
                let lane = is_vector.then(|| (active & !lanes).trailing_zeros() as u8);
                self.set(operand, kind, u64::MAX, u64::MAX);
                return Some(Undefined { register: Some(register), used, lane });
            }
        }
        None
    }

    /// Sets the lanes, of `active` ones, in which an operand's registers are defined.
    fn set(&mut self, operand: Operand, kind: &OperandType, active: u64, lanes: u64) {
        let Some(Registers { vector, first, count }) = registers(operand, u16::from(kind.words), kind.halves)
        else {
            return;
        };
        if !vector && kind.mask {
            self.set_mask(first, lanes | !active);
            return;
        }
        for number in first..first + count {
            if !vector {
                self.set_scalars(number, &[if active & !lanes == 0 { u32::MAX } else { 0 }]);
            } else if let Some(bits) = self.vectors.get_mut(usize::from(number)) {
                *bits = *bits & !active | lanes & active;
            }
        }
    }

    /// Marks everything that an instruction writes as defined.
    fn define(&mut self, inst: &Inst, types: &[OperandType], active: u64) {
        for kind in types.iter().filter(|kind| is_destination(kind.place)) {
            self.set(value(inst, kind.place), kind, active, u64::MAX);
        }
        if types.iter().all(|kind| kind.place != Place::Dst) && matches!(inst.dst, Operand::Sgpr(_)) {
            self.set_implied(inst.dst, u64::MAX, u64::MAX);
        }
    }

    /// Sets the lanes, of `active` ones, in which a lane mask that the encoding implies is defined.
    fn set_implied(&mut self, operand: Operand, active: u64, lanes: u64) {
        if let Operand::Sgpr(number) = operand {
            self.set_mask(u16::from(number), lanes | !active);
        }
    }
}

fn is_destination(place: Place) -> bool {
    matches!(place, Place::Dst | Place::Dst2 | Place::DualDst)
}

fn value(inst: &Inst, place: Place) -> Operand {
    match place {
        Place::Dst => inst.dst,
        Place::Dst2 => inst.dst2,
        Place::Src(at) => inst.src.get(at).copied().unwrap_or(Operand::None),
        Place::DualDst => inst.dual.map_or(Operand::None, |dual| dual.dst),
        Place::DualSrc(at) => inst.dual.and_then(|dual| dual.src.get(at).copied()).unwrap_or(Operand::None),
    }
}
