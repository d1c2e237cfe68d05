//! LDS and global accesses addressed by the lane's number, and exchanges beyond the ordinary atomics.

use super::ds::clear;
use super::ds::pattern::{lane64, set_lane64};
use super::flat::lanes;
use crate::exec::di::{Di, Flow, Handler, Machine};
use crate::exec::vector::lane::{active, for_each_active};
use crate::lanes::words::highest_first;
use crate::mem::Word;
use crate::registers::slot;
use crate::wave::Wave;

/// Runs `f` for each active lane whose `N` addresses of `bytes` are all inside. Returns the lanes that have one
/// outside.
fn each<const N: usize>(
    w: &mut Wave,
    m: &mut Machine<'_>,
    bytes: u32,
    addresses: impl Fn(&Wave, u32) -> [u32; N],
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, [u32; N]),
) -> u64 {
    let mut missing = 0;
    for_each_active(w, |w, lane| {
        let at = addresses(w, lane);
        if at.into_iter().all(|at| m.lds.contains(at, bytes)) {
            f(w, m, lane, at);
        } else {
            missing |= 1 << lane;
        }
    });
    missing
}

/// As [`each`] for atomics, which write `registers` registers of zeros for the lanes outside; if an address is no
/// multiple of `bytes`, no lane is done.
fn each_atomic<const N: usize>(
    w: &mut Wave,
    m: &mut Machine<'_>,
    (bytes, dst, registers): (u32, u32, u32),
    addresses: impl Fn(&Wave, u32) -> [u32; N],
    f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, [u32; N]),
) -> Flow {
    let mut failed = None;
    for_each_active(w, |w, lane| {
        if let Some(at) = addresses(w, lane).into_iter().find(|at| !at.is_multiple_of(bytes)) {
            let (_, lanes) = failed.get_or_insert((at, 0_u64));
            *lanes |= 1 << lane;
        }
    });
    if let Some((address, lanes)) = failed {
        return m.lds_misaligned(address, bytes, lanes);
    }
    let missing = each(w, m, bytes, addresses, f);
    if missing != 0 {
        clear(w, dst, registers, missing);
    }
    Flow::NEXT
}

/// Address of a lane: `M0[15:0]`, the offset and four bytes for each lane before it.
pub(crate) fn by_thread(w: &Wave, d: &Di, lane: u32) -> [u32; 1] {
    [(w.s[slot::M0] & 0xffff).wrapping_add(d.imm + lane * 4)]
}

/// The lane's address with each offset.
fn with_offsets<const N: usize>(w: &Wave, d: &Di, lane: u32, offsets: [u32; N]) -> [u32; N] {
    let base = w.v.lane(d.src[0].value + lane / 32, lane & 31);
    offsets.map(|offset| base.wrapping_add(offset))
}

/// `ds_load_addtid_b32`.
fn load_addtid(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let missing = each(
        w,
        m,
        4,
        |w, lane| by_thread(w, d, lane),
        |w, m, lane, [at]| {
            w.v.set_lane(d.dst + lane / 32, lane & 31, u32::from_le_bytes(m.lds.get(at)));
        },
    );
    if missing != 0 {
        clear(w, d.dst, 1, missing);
    }
    Flow::NEXT
}

/// `ds_store_addtid_b32`.
fn store_addtid(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each(
        w,
        m,
        4,
        |w, lane| by_thread(w, d, lane),
        |w, m, lane, [at]| {
            m.lds.put(at, w.v.lane(d.src[1].value + lane / 32, lane & 31).to_le_bytes());
        },
    );
    Flow::NEXT
}

/// `ds_condxchg32_rtn_b64`: each word is replaced when bit 31 of its new value is set, without that bit.
fn conditional(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each_atomic(
        w,
        m,
        (8, d.dst, 2),
        |w, lane| with_offsets(w, d, lane, [d.imm]),
        |w, m, lane, [at]| {
            let (old, data) = (u64::from_le_bytes(m.lds.get(at)), lane64(w, d.src[1].value, lane));
            let word = |shift: u32| {
                let new = (data >> shift) as u32;
                if new >> 31 != 0 { new & 0x7fff_ffff } else { (old >> shift) as u32 }
            };
            m.lds.put(at, (u64::from(word(0)) | u64::from(word(32)) << 32).to_le_bytes());
            set_lane64(w, d.dst, lane, old);
        },
    )
}

/// `ds_storexchg_2addr_rtn_b32`: both exchanges, the second at the offset in `dst2`.
fn exchange32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each_atomic(
        w,
        m,
        (4, d.dst, 2),
        |w, lane| with_offsets(w, d, lane, [d.imm, d.dst2]),
        |w, m, lane, [first, second]| {
            let (half, lane) = (lane / 32, lane & 31);
            let data = [w.v.lane(d.src[1].value + half, lane), w.v.lane(d.src[2].value + half, lane)];
            let old = u32::from_le_bytes(m.lds.get(first));
            m.lds.put(first, data[0].to_le_bytes());
            w.v.set_lane(d.dst + half, lane, old);
            let old = u32::from_le_bytes(m.lds.get(second));
            m.lds.put(second, data[1].to_le_bytes());
            let row = d.dst + w.halves + half;
            w.v.set_lane(row, lane, old);
        },
    )
}

/// `ds_storexchg_2addr_rtn_b64`.
fn exchange64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    each_atomic(
        w,
        m,
        (8, d.dst, 4),
        |w, lane| with_offsets(w, d, lane, [d.imm, d.dst2]),
        |w, m, lane, [first, second]| {
            let data = [lane64(w, d.src[1].value, lane), lane64(w, d.src[2].value, lane)];
            let old = u64::from_le_bytes(m.lds.get(first));
            m.lds.put(first, data[0].to_le_bytes());
            set_lane64(w, d.dst, lane, old);
            let old = u64::from_le_bytes(m.lds.get(second));
            m.lds.put(second, data[1].to_le_bytes());
            set_lane64(w, d.dst + 2 * w.halves, lane, old);
        },
    )
}

/// Handler and operands of an LDS operation that exchanges, for lowering.
pub(crate) struct ExchangeEntry {
    pub(crate) handler: Handler,
    /// Registers of the result and of each data operand.
    pub(crate) dst: u32,
    pub(crate) data: u32,
    /// Bytes an offset of a two-address operation counts, 0 for one address.
    pub(crate) unit: u32,
}

/// Kind of an LDS operation that exchanges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// `ds_load_addtid_b32`.
    LoadByLane,
    /// `ds_store_addtid_b32`.
    StoreByLane,
    /// `ds_condxchg32_rtn_b64`.
    Conditional,
    /// An exchange of this many dwords at each of two addresses, whose offsets count units of this many bytes.
    Two { dwords: u32, unit: u32 },
}

/// Returns the entry of an operation; `None` if there is no such operation.
pub(crate) fn entry(operation: Operation) -> Option<ExchangeEntry> {
    let entry = |handler: Handler, dst: u32, data: u32, unit: u32| ExchangeEntry { handler, dst, data, unit };
    Some(match operation {
        Operation::LoadByLane => entry(load_addtid, 1, 0, 0),
        Operation::StoreByLane => entry(store_addtid, 0, 1, 0),
        Operation::Conditional => entry(conditional, 2, 2, 0),
        Operation::Two { dwords: 1, unit } => entry(exchange32, 2, 1, unit),
        Operation::Two { dwords: 2, unit } => entry(exchange64, 4, 2, unit),
        Operation::Two { .. } => return None,
    })
}

/// Address of lane 0's dword of `global_load_addtid_b32` and `global_store_addtid_b32`.
pub(crate) fn global_base(w: &Wave, d: &Di) -> u64 {
    d.src[2].scalar64(w).wrapping_add_signed(i64::from(d.imm.cast_signed()))
}

/// `global_load_addtid_b32` and, with `STORE`, `global_store_addtid_b32`: SADDR in `src[2]`, four bytes for each lane.
pub(crate) fn global_addtid<const STORE: bool>(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let base = global_base(w, d);
    let exec = active(w);
    let at = |lane: u32| base.wrapping_add(u64::from(lane) * u32::SIZE);
    let mut loaded = [0; 64];
    // Stores are done from the lowest lane up, loads from the highest down, and all of them before any register changes.
    let failed = if STORE {
        lanes(exec).find_map(|lane| {
            let done = m.global.store(at(lane), w.v.lane(d.dst + lane / 32, lane & 31));
            Some((lane, done.err()?))
        })
    } else {
        highest_first(exec).find_map(|lane| {
            let done = m.global.load(at(lane)).map(|value| loaded[lane as usize & 63] = value);
            Some((lane, done.err()?))
        })
    };
    if let Some((lane, fault)) = failed {
        let undone = if STORE { lane } else { 0 };
        let mut failures = lanes(exec)
            .filter(|lane| *lane >= undone)
            .filter_map(|lane| Some((lane, m.failure(at(lane), 4, fault.access)?)));
        let (first, first_fault) = failures.next().unwrap_or((lane, fault));
        let mask = failures.fold(1 << first, |mask, (lane, _)| mask | 1 << lane);
        w.did_lanes_below(undone);
        return m.memory_fault(first_fault, mask);
    }
    if !STORE {
        for lane in lanes(exec) {
            w.v.set_lane(d.dst + lane / 32, lane & 31, loaded[lane as usize & 63]);
        }
    }
    Flow::NEXT
}

/// Puts the words in the row `src[0]` side by side, from `M0[15:0]` plus `imm` on, as stores by DS instructions.
pub(crate) fn put_lanes(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let base = (w.s[slot::M0] & 0xffff).wrapping_add(d.imm);
    for_each_active(w, |w, lane| {
        let count = u32::from(d.aux.max(1));
        for n in 0..count {
            let at = base.wrapping_add((lane * count + n) * 4);
            if m.lds.contains(at, 4) {
                let value = w.v.lane(d.src[0].value + n * w.halves + lane / 32, lane & 31);
                m.lds.put(at, value.to_le_bytes());
            }
        }
    });
    Flow::NEXT
}
