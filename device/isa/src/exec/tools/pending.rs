//! Registers that a wave has loaded and not waited for: on hardware they may still hold their old values.
//!
//! This engine finishes each instruction before the next, so such registers do not change what a kernel computes
//! here. The rules are those that LLVM places waits by (`SIInsertWaitcnts.cpp`). Loads of one kind come back in
//! order. Scalar loads, messages and flat accesses do not: only a wait until none is left says anything about them.

use crate::registers::RegisterFile;
use std::collections::VecDeque;

use super::probe::About;
use super::touches::Place;
use crate::exec::properties::{Effect, Family, Space, properties};
use crate::inst::{Arch, Format, Inst, Op, Operand, WaveSize};
use crate::tables::notation::Notation;
use crate::tables::{self, operand_types};

/// Loads that are kept for each counter: more than any counter counts.
const MAX_EVENTS: usize = 64;

/// A register that an instruction uses, and that may not hold the loaded value yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hazard {
    /// True for a vector register (accumulation registers have numbers from 256 on), false for a scalar one.
    is_vector: bool,
    number: u16,
    /// Address of the load.
    pub load: u64,
}

impl Hazard {
    /// Returns the name of the register.
    #[must_use]
    pub fn register(&self, arch: Arch) -> String {
        match (self.is_vector, self.number) {
            (true, 256..) => format!("a{}", self.number - 256),
            (true, _) => format!("v{}", self.number),
            (false, _) => RegisterFile::of(arch).name(self.number as u8, 1).to_string(),
        }
    }
}

/// Kind of an operation that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Vector,
    Lds,
    Scalar,
    Flat,
    Message,
}

impl Kind {
    fn is_in_order(self) -> bool {
        matches!(self, Self::Vector | Self::Lds)
    }
}

/// Registers one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registers {
    pub(crate) vector: bool,
    pub(crate) first: u16,
    pub(crate) count: u16,
}

impl Registers {
    fn overlap(self, other: Self) -> bool {
        self.vector == other.vector
            && self.first < other.first + other.count
            && other.first < self.first + self.count
    }
}

/// Something a counter counts.
#[derive(Clone, Copy, Debug)]
struct Event {
    kind: Kind,
    pc: u64,
    /// Registers that it writes; `None` once a use of them was reported.
    into: Option<Registers>,
}

/// A counter: `vmcnt`, `lgkmcnt`, and on later architectures `loadcnt`, `dscnt` and `kmcnt`.
#[derive(Clone, Debug, Default)]
struct Counter(VecDeque<Event>);

impl Counter {
    fn count(&mut self, event: Event) {
        if self.0.len() == MAX_EVENTS {
            self.0.pop_front();
        }
        self.0.push_back(event);
    }

    /// A wait until at most `left` are on their way.
    fn wait(&mut self, left: usize) {
        let first = self.0.front().map(|event| event.kind);
        let in_order = first.is_some_and(|kind| kind.is_in_order() && self.0.iter().all(|e| e.kind == kind));
        if left == 0 {
            self.0.clear();
        } else if in_order {
            self.0.drain(..self.0.len().saturating_sub(left));
        }
    }
}

/// Loads of one wave that it has not waited for.
#[derive(Clone, Debug)]
pub struct Pending {
    arch: Arch,
    wave: WaveSize,
    /// Vector memory; LDS, with all of `lgkmcnt` where that is one counter; scalar memory where it has its own.
    vector: Counter,
    lds: Counter,
    scalar: Counter,
}

impl Pending {
    /// The loads of a wave that begins: none.
    #[must_use]
    pub fn new(arch: Arch, wave: WaveSize) -> Self {
        let [vector, lds, scalar] = [(); 3].map(|()| Counter::default());
        Self { arch, wave, vector, lds, scalar }
    }

    /// Counts an instruction that is about to be executed, and says which register it uses too early, the first of them.
    pub fn before(&mut self, About { pc, inst, touches, .. }: &About<'_>) -> Option<Hazard> {
        if self.waits(inst) {
            return None;
        }
        let event = self.event(*pc, inst);
        let hazard = if self.vector.0.is_empty() && self.lds.0.is_empty() && self.scalar.0.is_empty() {
            None
        } else {
            self.hazard(inst, event.map(|(event, _)| event.kind))
        };
        if let Some((event, counters)) = event {
            // Both counters count a flat access; its registers are there when the counter of the memory that it went
            // to says so.
            let is_flat = event.kind == Kind::Flat;
            let in_lds = touches.iter().any(|touch| matches!(touch.place, Place::Lds(_)));
            let elsewhere = !in_lds || touches.iter().any(|touch| matches!(touch.place, Place::Global(_)));
            let loads = [elsewhere, in_lds, true].map(|loads| loads || !is_flat);
            let all =
                [&mut self.vector, &mut self.lds, &mut self.scalar].into_iter().zip(counters).zip(loads);
            for ((counter, _), loads) in all.filter(|((_, counts), _)| *counts) {
                counter.count(Event { into: event.into.filter(|_| loads), ..event });
            }
        }
        hazard
    }

    /// Carries out a wait. Returns true if the instruction was one.
    fn waits(&mut self, inst: &Inst) -> bool {
        let imm = inst.imm as usize;
        let low = imm & 0x3f;
        match inst.op {
            Op::S_WAITCNT => {
                let [(_, vector), _, (_, lds)] = Notation::of(self.arch).wait_counters;
                let field = |[low, bits, high, more]: [u8; 4]| {
                    let part = |at: u8, bits: u8| imm >> at & ((1 << bits) - 1);
                    part(low, bits) | part(high, more) << bits
                };
                self.vector.wait(field(vector));
                self.lds.wait(field(lds));
            }
            Op::S_WAITCNT_VMCNT | Op::S_WAIT_LOADCNT => self.vector.wait(low),
            Op::S_WAITCNT_LGKMCNT | Op::S_WAIT_DSCNT | Op::S_WAIT_STORECNT_DSCNT => self.lds.wait(low),
            Op::S_WAIT_KMCNT => self.scalar.wait(imm & 0x1f),
            Op::S_WAIT_LOADCNT_DSCNT => {
                self.vector.wait(imm >> 8 & 0x3f);
                self.lds.wait(low);
            }
            Op::S_WAIT_IDLE => {
                for counter in [&mut self.vector, &mut self.lds, &mut self.scalar] {
                    counter.wait(0);
                }
            }
            _ => return false,
        }
        true
    }

    /// Returns the event that an instruction adds, and the counters that it is added to: vector memory, LDS, scalar
    /// memory.
    fn event(&self, pc: u64, inst: &Inst) -> Option<(Event, [bool; 3])> {
        let row = properties(inst.op);
        let notation = Notation::of(self.arch);
        let own_scalar = notation.scalar_counter;
        let into = self.written(inst);
        let event = |kind: Kind, into: Option<Registers>| Event { kind, pc, into };
        let scalar = [false, !own_scalar, own_scalar];
        if inst.format == Format::Smem {
            return Some((event(Kind::Scalar, into), scalar));
        }
        if matches!(inst.op, Op::S_SENDMSG_RTN_B32 | Op::S_SENDMSG_RTN_B64) {
            return Some((event(Kind::Message, into), scalar));
        }
        if matches!(
            row.family,
            Family::Lds(_) | Family::LdsTransposed(_) | Family::LdsExchange(_) | Family::GlobalWaveSync
        ) {
            return Some((event(Kind::Lds, into), [false, true, false]));
        }
        let (space, effect) = row.memory?;
        // Stores and atomics that return nothing have a counter of their own since GFX10.
        let returns = effect == Effect::Load || inst.mem.glc;
        let counts = returns || notation.stores_count;
        let into = into.filter(|_| returns && !matches!(row.family, Family::FlatToLds(_)));
        match space {
            Space::Flat => Some((event(Kind::Flat, into), [counts, true, false])),
            Space::Global | Space::Scratch | Space::Buffer | Space::Image if counts => {
                Some((event(Kind::Vector, into), [true, false, false]))
            }
            _ => None,
        }
    }

    fn written(&self, inst: &Inst) -> Option<Registers> {
        let types = operand_types(self.arch, inst);
        let dst = types.iter().find(|operand| operand.place == tables::Place::Dst)?;
        registers(inst.dst, u16::from(dst.words), dst.halves)
    }

    /// Returns the first register of an instruction that is still being loaded; each load is reported once.
    fn hazard(&mut self, inst: &Inst, kind: Option<Kind>) -> Option<Hazard> {
        let mask = match self.wave {
            WaveSize::Wave32 => 1,
            WaveSize::Wave64 => 2,
        };
        for operand in operand_types(self.arch, inst) {
            let value = match operand.place {
                tables::Place::Dst => inst.dst,
                tables::Place::Dst2 => inst.dst2,
                tables::Place::Src(n) => inst.src.get(n).copied().unwrap_or(Operand::None),
                tables::Place::DualDst => inst.dual.map_or(Operand::None, |dual| dual.dst),
                tables::Place::DualSrc(n) => {
                    inst.dual.and_then(|dual| dual.src.get(n).copied()).unwrap_or(Operand::None)
                }
            };
            let words = if operand.mask { mask } else { u16::from(operand.words) };
            let Some(used) = registers(value, words, operand.halves) else { continue };
            for counter in [&mut self.vector, &mut self.lds, &mut self.scalar] {
                for event in &mut counter.0 {
                    // What comes back in order also overwrites in order.
                    let in_order = operand.place == tables::Place::Dst
                        && event.kind.is_in_order()
                        && kind == Some(event.kind);
                    if let Some(into) = event.into
                        && into.overlap(used)
                        && !in_order
                    {
                        event.into = None;
                        let number = into.first.max(used.first);
                        return Some(Hazard { is_vector: used.vector, number, load: event.pc });
                    }
                }
            }
        }
        None
    }
}

/// The registers of an operand; `halves`: bit 7 of a vector register's number names its half.
pub(crate) fn registers(operand: Operand, count: u16, halves: bool) -> Option<Registers> {
    let (vector, first) = match operand {
        Operand::Vgpr(number) if halves => (true, u16::from(number & 0x7f)),
        Operand::Vgpr(number) => (true, u16::from(number)),
        Operand::Agpr(number) => (true, 256 + u16::from(number)),
        Operand::Sgpr(number) => (false, u16::from(number)),
        _ => return None,
    };
    Some(Registers { vector, first, count: count.max(1) })
}
