//! Atomics.

use super::address::segment;
use super::failure::{Failure, active, fail};
use super::lane::{modify_lane, modify64};
use crate::exec::di::{Di, Flow, Machine, flag};
use crate::exec::memory::atomic::Function;
use crate::exec::memory::ds::pattern::{lane64, set_lane64};
use crate::mem::Segment;
use crate::wave::Wave;

pub(super) fn atomic32(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    for lane in active(w) {
        let (half, at_lane) = (lane / 32, lane & 31);
        let data = w.v.lane(d.src[1].value + half, at_lane);
        let other = w.v.lane(d.src[1].value + half + w.halves, at_lane);
        let old = match segment(w, m, d, lane) {
            Segment::Global(va) if function == Function::Add => {
                m.global.add_u32(va, data).map_err(Failure::Memory)
            }
            Segment::Global(va) => {
                m.global.update_u32(va, |old| function.apply32(old, data, other)).map_err(Failure::Memory)
            }
            at @ Segment::Shared(_) => {
                let mode = w.mode;
                modify_lane::<u32>(w, m, at, lane, |old| function.in_lds32(old, data, other, mode))
            }
            at => modify_lane::<u32>(w, m, at, lane, |old| function.apply32(old, data, other)),
        };
        match old {
            Ok(old) if d.flags & flag::RETURN != 0 => w.v.set_lane(d.dst + half, at_lane, old),
            Ok(_) => {}
            Err(failure) => return fail(w, m, d, (4, lane), (failure, 1 << lane)),
        }
    }
    Flow::NEXT
}

pub(super) fn atomic64(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let function = Function::from_number(d.aux);
    for lane in active(w) {
        let data = lane64(w, d.src[1].value, lane);
        let other = lane64(w, d.src[1].value + 2 * w.halves, lane);
        let old = match segment(w, m, d, lane) {
            Segment::Global(va) => {
                m.global.update_u64(va, |old| function.apply64(old, data, other)).map_err(Failure::Memory)
            }
            at => modify64(w, m, at, lane, |old| function.apply64(old, data, other)),
        };
        match old {
            Ok(old) if d.flags & flag::RETURN != 0 => set_lane64(w, d.dst, lane, old),
            Ok(_) => {}
            Err(failure) => return fail(w, m, d, (8, lane), (failure, 1 << lane)),
        }
    }
    Flow::NEXT
}
