//! Atomics.

use super::each_address;
use super::load::clear;
use super::pattern::{lane64, set_lane64};
use crate::exec::di::{Di, Flow, Machine, flag};
use crate::exec::memory::atomic::Function;
use crate::exec::vector::lane::for_each_active;
use crate::wave::Wave;

/// An atomic of `bytes` bytes by each active lane, which writes `registers` registers if it returns anything: calls `f`
/// with the addresses that are inside. The lanes before the first misaligned address are done.
#[inline(always)]
pub(super) fn each_atomic(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (bytes, registers): (u32, u32),
    mut f: impl FnMut(&mut Wave, &mut Machine<'_>, u32, u32),
) -> Flow {
    let (mut failed, mut missing) = (None, 0_u64);
    each_address(w, m, d, |w, m, lane, at| {
        if !at.is_multiple_of(bytes) {
            let (_, lanes) = failed.get_or_insert((at, 0_u64));
            *lanes |= 1 << lane;
        } else if failed.is_none() {
            if m.lds.contains(at, bytes) {
                f(w, m, lane, at);
            } else {
                missing |= 1 << lane;
            }
        }
    });
    if missing != 0 && d.flags & flag::RETURN != 0 {
        clear(w, d.dst, registers, missing);
    }
    match failed {
        Some((address, lanes)) => {
            w.did_lanes_below(lanes.trailing_zeros());
            m.lds_misaligned(address, bytes, lanes)
        }
        None => Flow::NEXT,
    }
}

pub(super) fn atomic32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    each_atomic(w, m, d, (4, 1), |w, m, lane, at| {
        let (half, lane) = (lane / 32, lane & 31);
        let old = u32::from_le_bytes(m.lds.get(at));
        let (data, other) = (w.v.lane(d.src[1].value + half, lane), w.v.lane(d.src[2].value + half, lane));
        let new = function.in_lds32(old, data, other, w.mode);
        m.lds.put(at, new.to_le_bytes());
        if d.flags & flag::RETURN != 0 {
            w.v.set_lane(d.dst + half, lane, old);
        }
    })
}

pub(super) fn atomic64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    each_atomic(w, m, d, (8, 2), |w, m, lane, at| {
        let old = u64::from_le_bytes(m.lds.get(at));
        let new = function.apply64(old, lane64(w, d.src[1].value, lane), lane64(w, d.src[2].value, lane));
        m.lds.put(at, new.to_le_bytes());
        if d.flags & flag::RETURN != 0 {
            set_lane64(w, d.dst, lane, old);
        }
    })
}

/// `ds_append` (`aux` 0) and `ds_consume` (1): the counter at `M0[31:16] + offset` moves by the number of active lanes.
pub(super) fn append_consume(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let exec = if w.halves == 1 { u64::from(w.exec() as u32) } else { w.exec() };
    let at = (w.m0() & 0xffff).wrapping_add(d.imm);
    if !at.is_multiple_of(4) && exec != 0 {
        return m.lds_misaligned(at, 4, exec);
    }
    let inside = m.lds.contains(at, 4);
    let old = if inside { u32::from_le_bytes(m.lds.get(at)) } else { 0 };
    let count = exec.count_ones();
    let new = if d.aux == 0 { old.wrapping_add(count) } else { old.wrapping_sub(count) };
    if inside {
        m.lds.put(at, new.to_le_bytes());
    }
    for_each_active(w, |w, lane| w.v.set_lane(d.dst + lane / 32, lane & 31, old));
    Flow::NEXT
}
