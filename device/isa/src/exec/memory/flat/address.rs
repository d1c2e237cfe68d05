//! Addresses of the elements of lanes.

use crate::exec::di::{Di, Kind, Machine};
use crate::exec::memory::ds::pattern::{Pattern, Steps, lane64, pattern};
use crate::lanes::Lanes;
use crate::mem::Segment;
use crate::wave::Wave;

/// Way in which an instruction's address is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Form {
    /// FLAT: a 64-bit VGPR pair; apertures apply.
    Flat,
    /// GLOBAL: a 64-bit VGPR pair.
    Global,
    /// GLOBAL with SADDR: a 64-bit SGPR pair plus a 32-bit VGPR, zero-extended.
    GlobalScalar,
    /// SCRATCH: an offset in the lane's private memory, from a VGPR, an SGPR, both or neither.
    Scratch,
}

impl Form {
    /// The form an element's `dst2` holds.
    #[inline(always)]
    pub(super) fn of(d: &Di) -> Form {
        match d.dst2 {
            0 => Form::Flat,
            1 => Form::Global,
            2 => Form::GlobalScalar,
            _ => Form::Scratch,
        }
    }
}

/// One lane's address.
#[inline(always)]
pub(crate) fn segment(w: &Wave, m: &Machine<'_>, d: &Di, lane: u32) -> Segment {
    let (half, at) = (lane / 32, lane & 31);
    let offset = i64::from(d.imm.cast_signed());
    match Form::of(d) {
        // The base alone says which segment it is.
        Form::Flat => moved(m.apertures.segment(lane64(w, d.src[0].value, lane)), d.imm.cast_signed()),
        Form::Global => Segment::Global(lane64(w, d.src[0].value, lane).wrapping_add_signed(offset)),
        Form::GlobalScalar => {
            let base = d.src[2].scalar64(w);
            let index = u64::from(w.v.lane(d.src[0].value + half, at));
            Segment::Global(base.wrapping_add(index).wrapping_add_signed(offset))
        }
        Form::Scratch => {
            let vector = d.src[0].lane(w, lane);
            let sum = vector.wrapping_add(d.src[2].scalar(w)).wrapping_add(d.imm);
            Segment::Private(sum)
        }
    }
}

/// An address in its segment, `offset` bytes on.
#[inline(always)]
fn moved(at: Segment, offset: i32) -> Segment {
    match at {
        Segment::Global(va) => Segment::Global(va.wrapping_add_signed(i64::from(offset))),
        Segment::Shared(address) => Segment::Shared(address.wrapping_add_signed(offset)),
        Segment::Private(address) => Segment::Private(address.wrapping_add_signed(offset)),
    }
}

/// Returns the addresses of sixteen lanes from `first_lane` on, if all of them, also those of lanes that are off, are
/// in global memory.
#[inline(always)]
pub(super) fn global_addresses(w: &Wave, m: &Machine<'_>, d: &Di, first_lane: u32) -> Option<[u64; 16]> {
    let (half, chunk) = (first_lane / 32, (first_lane >> 4 & 1) as usize);
    let low = &w.v.row(d.src[0].value + half)[chunk].0;
    let offset = i64::from(d.imm.cast_signed());
    let form = Form::of(d);
    let mut addresses = [0; 16];
    // No closures: these are not always part of the code around them.
    match form {
        Form::Global | Form::Flat => {
            let high = &w.v.row(d.src[0].value + half + w.halves)[chunk].0;
            for i in 0..16 {
                addresses[i] = u64::from(low[i]) | u64::from(high[i]) << 32;
            }
            if form == Form::Flat {
                for va in addresses {
                    if !matches!(m.apertures.segment(va), Segment::Global(_)) {
                        return None;
                    }
                }
            }
            for address in &mut addresses {
                *address = address.wrapping_add_signed(offset);
            }
        }
        Form::GlobalScalar => {
            let base = d.src[2].scalar64(w).wrapping_add_signed(offset);
            for i in 0..16 {
                addresses[i] = base.wrapping_add(u64::from(low[i]));
            }
        }
        Form::Scratch => return None,
    }
    Some(addresses)
}

/// Returns true if the upper sixteen lanes of a half have the addresses of the lower ones.
#[inline(always)]
pub(super) fn are_repeated<L: Lanes>(w: &Wave, d: &Di, half: u32) -> bool {
    let form = Form::of(d);
    if form == Form::Scratch {
        return false;
    }
    let low = w.v.row(d.src[0].value + half);
    if L::eq(L::load(&low[0]), L::load(&low[1])) != u16::MAX {
        return false;
    }
    if form == Form::GlobalScalar {
        return true;
    }
    let high = w.v.row(d.src[0].value + half + w.halves);
    L::eq(L::load(&high[0]), L::load(&high[1])) == u16::MAX
}

/// GPU virtual address of a byte of a lane's private memory.
#[inline(always)]
pub(super) fn scratch_address(w: &Wave, lane: u32, offset: u32) -> u64 {
    w.private_address(lane, offset)
}

/// The address `n` dwords on.
#[inline(always)]
pub(super) fn advance(at: Segment, n: usize) -> Segment {
    match at {
        Segment::Global(va) => Segment::Global(va.wrapping_add(n as u64 * 4)),
        Segment::Shared(address) => Segment::Shared(address.wrapping_add(n as u32 * 4)),
        Segment::Private(offset) => Segment::Private(offset.wrapping_add(n as u32 * 4)),
    }
}

/// Place of the elements of active lanes, if they are in one piece.
pub(super) enum Block {
    Contiguous(u64),
    Uniform(u64),
    /// Private memory at one offset: the lanes' dwords are side by side.
    Private(u64),
    None,
}

#[inline(always)]
pub(super) fn block<L: Lanes, const N: usize>(
    w: &Wave,
    m: &Machine<'_>,
    d: &Di,
    half: u32,
    chunk: usize,
) -> Block {
    let bytes = N as u32 * 4;
    let form = Form::of(d);
    let offset = i64::from(d.imm.cast_signed());
    if form == Form::Scratch {
        let vector = match d.src[0].kind {
            Kind::Vector => {
                let row = &w.v.row(d.src[0].value + half)[chunk];
                if L::eq(L::load(row), L::splat(row.0[0])) != u16::MAX {
                    return Block::None;
                }
                row.0[0]
            }
            _ => d.src[0].scalar(w),
        };
        let sum = vector.wrapping_add(d.src[2].scalar(w)).wrapping_add(d.imm);
        if sum % 4 != 0 || u64::from(sum) + u64::from(bytes) > u64::from(w.scratch_size) {
            return Block::None;
        }
        return Block::Private(scratch_address(w, half * 32 + chunk as u32 * 16, sum));
    }
    let low = &w.v.row(d.src[0].value + half)[chunk];
    let first = low.0[0];
    // A run of elements must not wrap around the low 32 bits.
    let room = first <= u32::MAX - 16 * bytes;
    let base = if form == Form::GlobalScalar {
        d.src[2].scalar64(w).wrapping_add(u64::from(first)).wrapping_add_signed(offset)
    } else {
        let high = &w.v.row(d.src[0].value + half + w.halves)[chunk];
        if L::eq(L::load(high), L::splat(high.0[0])) != u16::MAX {
            return Block::None;
        }
        let base = u64::from(first) | u64::from(high.0[0]) << 32;
        let va = base.wrapping_add_signed(offset);
        if form == Form::Flat {
            let last = base.wrapping_add(u64::from(16 * bytes));
            if !matches!(
                (m.apertures.segment(base), m.apertures.segment(last)),
                (Segment::Global(_), Segment::Global(_))
            ) {
                return Block::None;
            }
        }
        va
    };
    match pattern::<L, N>(L::load(low), first) {
        Pattern::Contiguous(_) if room => Block::Contiguous(base),
        Pattern::Uniform(_) => Block::Uniform(base),
        _ => Block::None,
    }
}

/// Returns the place of the dwords of 32 active lanes, if they are one piece of global memory.
#[inline(always)]
pub(super) fn block32<L: Lanes>(w: &Wave, d: &Di, half: u32) -> Block {
    let form = Form::of(d);
    let low = w.v.row(d.src[0].value + half);
    let first = low[0].0[0];
    let base = match form {
        Form::GlobalScalar => d.src[2].scalar64(w).wrapping_add(u64::from(first)),
        Form::Global => {
            let high = w.v.row(d.src[0].value + half + w.halves);
            let word = high[0].0[0];
            let same = L::splat(word);
            if L::eq(L::load(&high[0]), same) & L::eq(L::load(&high[1]), same) != u16::MAX {
                return Block::None;
            }
            u64::from(first) | u64::from(word) << 32
        }
        // Apertures and private memory take the general way.
        Form::Flat | Form::Scratch => return Block::None,
    };
    let va = base.wrapping_add_signed(i64::from(d.imm.cast_signed()));
    let relative = [L::sub(L::load(&low[0]), L::splat(first)), L::sub(L::load(&low[1]), L::splat(first))];
    let steps = L::load(&Steps::<1>::CHUNK);
    let contiguous = L::eq(relative[0], steps) & L::eq(relative[1], L::add(steps, L::splat(64)));
    // A run must not wrap around the low 32 bits.
    if contiguous == u16::MAX && first <= u32::MAX - 128 {
        return Block::Contiguous(va);
    }
    let zero = L::splat(0);
    if L::eq(relative[0], zero) & L::eq(relative[1], zero) == u16::MAX {
        return Block::Uniform(va);
    }
    Block::None
}
