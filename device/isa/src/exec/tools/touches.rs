//! Accesses of memory that waves share, global memory and LDS, which an instruction is about to make.
//!
//! Private memory belongs to a lane, and compilers make scalar loads for constants only: neither is among the
//! accesses. [`scalar_read`] tells the bytes that a scalar load reads.

use crate::exec::di::{Di, Machine};
use crate::exec::image;
use crate::exec::memory::atomic::Function;
use crate::exec::memory::buffer::{Buffer, field};
use crate::exec::memory::flat::{active, segment};
use crate::exec::memory::{ds, ds_exchange, mubuf, smem};
use crate::exec::properties::{Effect, Family, Moves, Space, properties};
use crate::inst::Inst;
use crate::mem::{Access, Segment};
use crate::registers::slot;
use crate::wave::Wave;

/// Place of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// GPU virtual address.
    Global(u64),
    /// Byte address in the workgroup's LDS, which may be outside of it.
    Lds(u32),
}

/// Access that one lane is about to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    /// The lane.
    pub lane: u8,
    /// Place of the access.
    pub place: Place,
    /// Bytes.
    pub bytes: u32,
    /// Kind of the access.
    pub access: Access,
    /// True if the access does not depend on the old value: stores, and atomic exchanges.
    pub replaces: bool,
}

/// Everything one instruction is about to access.
struct Collector<'a> {
    w: &'a Wave,
    access: Access,
    replaces: bool,
    into: &'a mut Vec<Touch>,
}

impl Collector<'_> {
    fn add(&mut self, lane: u32, place: Place, bytes: u32) {
        let Collector { access, replaces, .. } = *self;
        self.into.push(Touch { lane: lane as u8, place, bytes, access, replaces });
    }

    fn lds(&mut self, d: &Di, offsets: &[u32], bytes: u32) {
        for lane in active(self.w) {
            let base = self.w.v.lane(d.src[0].value + lane / 32, lane & 31);
            for offset in offsets {
                self.add(lane, Place::Lds(base.wrapping_add(*offset)), bytes);
            }
        }
    }

    fn flat(&mut self, m: &Machine<'_>, d: &Di, bytes: u32) {
        for lane in active(self.w) {
            match segment(self.w, m, d, lane) {
                Segment::Global(va) => self.add(lane, Place::Global(va), bytes),
                Segment::Shared(address) => self.add(lane, Place::Lds(address), bytes),
                Segment::Private(_) => {}
            }
        }
    }

    /// A dword for each lane, from `M0[15:0]` and an offset on.
    fn lds_of_lanes(&mut self, offset: u32) {
        let base = (self.w.s[slot::M0] & 0xffff).wrapping_add(offset);
        for lane in active(self.w) {
            self.add(lane, Place::Lds(base.wrapping_add(lane * 4)), 4);
        }
    }

    /// The elements of a buffer. Each part of one is inside of the buffer or not; parts side by side are one access.
    fn buffer(&mut self, d: &Di, operation: mubuf::Operation) {
        let buffer = Buffer::of(self.w, d);
        let (parts, bytes) = operation.parts(d, &buffer);
        for lane in active(self.w) {
            let place = buffer.place(self.w, d, lane);
            let mut together: Option<(u64, u32)> = None;
            for va in (0..parts).filter_map(|n| buffer.address(place, u64::from(n * bytes), bytes.into())) {
                together = match together {
                    Some((first, count)) if va == first.wrapping_add(count.into()) => {
                        Some((first, count + bytes))
                    }
                    before => {
                        self.add_some(lane, before);
                        Some((va, bytes))
                    }
                };
            }
            self.add_some(lane, together);
        }
    }

    fn add_some(&mut self, lane: u32, access: Option<(u64, u32)>) {
        if let Some((va, bytes)) = access {
            self.add(lane, Place::Global(va), bytes);
        }
    }

    /// A dword of global memory for each lane, from the address in `src[2]` and an offset on.
    fn by_lane(&mut self, d: &Di) {
        let base = ds_exchange::global_base(self.w, d);
        for lane in active(self.w) {
            self.add(lane, Place::Global(base.wrapping_add(u64::from(lane) * 4)), 4);
        }
    }
}

/// Bytes that something moves, for one lane.
pub(crate) fn bytes_of(moves: Moves) -> u32 {
    match moves {
        Moves::Dwords(count) => count * 4,
        Moves::Part(part) => part.bytes,
        Moves::Atomic(_, bits) => bits / 8,
    }
}

/// Collects the accesses that an instruction, whose operation is lowered to `d`, is about to make.
pub(crate) fn collect(w: &Wave, m: &Machine<'_>, inst: &Inst, d: &Di, into: &mut Vec<Touch>) {
    let row = properties(inst.op);
    let Some((_, effect)) = row.memory else { return };
    let access = match effect {
        Effect::Load => Access::Read,
        Effect::Store => Access::Write,
        Effect::Atomic => Access::Atomic,
    };
    let exchanges = |moves: Moves| matches!(moves, Moves::Atomic(Function::Exchange, _));
    let replaces = effect == Effect::Store;
    let mut all = Collector { w, access, replaces, into };
    match row.family {
        Family::Flat(moves) => {
            all.replaces |= exchanges(moves);
            all.flat(m, d, bytes_of(moves));
        }
        Family::Transposed(dwords) => all.flat(m, d, dwords * 4),
        Family::LdsTransposed(bits) => all.lds(d, &[d.imm], ds::transposed_dwords(bits) * 4),
        Family::RegisterBlock => {
            for n in (0..32).filter(|n| w.s[slot::M0] >> n & 1 != 0) {
                all.flat(m, &Di { imm: d.imm.wrapping_add(n * 4), ..*d }, 4);
            }
        }
        Family::FlatToLds(moves) => {
            all.flat(m, d, bytes_of(moves));
            (all.access, all.replaces) = (Access::Write, true);
            all.lds_of_lanes(d.imm);
        }
        Family::ByLane => all.by_lane(d),
        Family::Buffer(operation) => {
            let operation = operation.to_lds().filter(|_| inst.mem.lds).unwrap_or(operation);
            if let mubuf::Operation::Moves(moves) = operation {
                all.replaces |= exchanges(moves);
            }
            all.buffer(d, operation);
            if operation.has_lds() {
                (all.access, all.replaces) = (Access::Write, true);
                all.lds_of_lanes(d.imm & field::OFFSET);
            }
        }
        Family::Image(operation) => {
            all.replaces |= operation == image::Operation::Atomic(Function::Exchange);
            image::touched(w, d, operation, |lane, va, bytes| all.add(lane, Place::Global(va), bytes));
        }
        Family::Lds(ds::Operation::Moves(moves)) => {
            all.replaces |= exchanges(moves);
            all.lds(d, &[d.imm], bytes_of(moves));
        }
        Family::Lds(ds::Operation::Returning(function, bits)) => {
            all.replaces |= function == Function::Exchange;
            all.lds(d, &[d.imm], bits / 8);
        }
        Family::Lds(ds::Operation::Two { dwords, unit }) => {
            // Two dwords side by side are lowered as one element: the offsets are the instruction's own.
            let first = inst.mem.offset.cast_unsigned() & 0xff;
            all.lds(d, &[first * unit, u32::from(inst.mem.offset1) * unit], dwords * 4);
        }
        Family::LdsExchange(operation) => exchange(&mut all, d, operation),
        // The others access neither global memory by vector addresses nor LDS by such.
        Family::Lds(_)
        | Family::GlobalWaveSync
        | Family::Vector(_)
        | Family::Carry
        | Family::Comparison(..)
        | Family::Packed
        | Family::Pair
        | Family::Relative
        | Family::Special
        | Family::Matrix
        | Family::Absent
        | Family::Nothing
        | Family::Scalar
        | Family::ScalarFloat(..)
        | Family::ScalarComparison(..)
        | Family::ExecMask(..)
        | Family::ScalarRelative
        | Family::HalfLoop
        | Family::Control
        | Family::ScalarMemory(_)
        | Family::ScalarStore(_)
        | Family::ScalarAtomic(..)
        | Family::NarrowScalarMemory(_) => {}
    }
}

/// The bytes that a scalar load of whole dwords is about to read, as their address and how many.
pub(crate) fn scalar_read(w: &Wave, inst: &Inst, d: &Di) -> Option<(u64, u32)> {
    let row = properties(inst.op);
    let Family::ScalarMemory(dwords) = row.family else { return None };
    let bytes = dwords * 4;
    match row.memory?.0 {
        Space::ScalarBuffer => {}
        Space::ScalarScratch => return Some((smem::scratch_address(w, d), bytes)),
        _ => return Some((smem::address(w, d), bytes)),
    }
    let ((base, size), offset) = (smem::range(w, d), smem::offset(w, d));
    let inside = u64::from(bytes).min(size.saturating_sub(offset)) as u32 & !3;
    (inside > 0).then(|| (base.wrapping_add(offset), inside))
}

fn exchange(all: &mut Collector<'_>, d: &Di, operation: ds_exchange::Operation) {
    use ds_exchange::Operation;
    match operation {
        Operation::LoadByLane | Operation::StoreByLane => {
            for lane in active(all.w) {
                let [at] = ds_exchange::by_thread(all.w, d, lane);
                all.add(lane, Place::Lds(at), 4);
            }
        }
        Operation::Conditional => all.lds(d, &[d.imm], 8),
        Operation::Two { dwords, .. } => {
            all.replaces = true;
            all.lds(d, &[d.imm, d.dst2], dwords * 4);
        }
    }
}
