//! Split barriers (gfx12): waves signal that they have come, and wait for the others later.
//!
//! A workgroup has two, one for its program (−1) and one for its trap handler (−2). Each is complete when as many signals have
//! come as it has members, and begins anew. A wave sees that in a bit of its own, `STATE_PRIV.BARRIER_COMPLETE`, which waiting
//! clears: here it is the number of completions that the wave has waited for.
//!
//! Sources: AMD "RDNA4 Instruction Set Architecture", `S_BARRIER_*`; linux `amdkfd/cwsr_trap_handler_gfx12.asm`.

use crate::exec::Stop;
use crate::exec::di::{Di, Flow, Machine};
use crate::registers::slot;
use crate::wave::Wave;
use crate::wave::trap::status;

/// The number of the trap handler's barrier, the lowest there is.
pub(crate) const OF_HANDLER: i32 = -2;
/// The highest number that is not a named barrier's: nothing happens to barrier 0.
pub(crate) const MAX_NUMBER: i32 = 0;
/// Bits of `M0` that are the number of a barrier; none of those below 0 can be there.
const M0_NUMBER: u32 = 31;

/// Further effects of a barrier instruction, in [`Di::aux`].
pub(crate) mod flag {
    /// Says in SCC whether it is the first signal.
    pub(crate) const IS_FIRST: u8 = 1;
}

/// The barrier that a wave outside its trap handler, or in it, reaches by the number −1 or −2. A wave that is alone in its workgroup
/// reaches none.
fn barrier(w: &Wave, number: u32) -> Option<usize> {
    match number.cast_signed() {
        -1 => Some(0),
        OF_HANDLER if w.is_privileged() => Some(1),
        _ => None,
    }
}

/// `s_barrier_signal`, and with [`flag::IS_FIRST`] `s_barrier_signal_isfirst`.
pub(crate) fn signal(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let number = barrier(w, d.imm).filter(|_| w.status & status::IN_TG != 0);
    let is_first = number.is_some_and(|number| m.lds.barriers.signal(number));
    if d.aux & flag::IS_FIRST != 0 {
        w.s[slot::SCC] = u32::from(is_first);
    }
    Flow::NEXT
}

/// `s_barrier_wait` at the address in `dst2:dst`.
pub(crate) fn wait(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let Some(number) = barrier(w, d.imm) else { return Flow::NEXT };
    if number == 0 {
        w.is_at_barrier();
    }
    let barriers = &m.lds.barriers;
    // A wave alone is in no workgroup, and has nothing to wait for.
    if barriers.is_complete(w, number) || barriers.members() <= 1 {
        barriers.set_complete(w, number, false);
        return Flow::NEXT;
    }
    w.barriers_taken[number] = w.barriers_taken[number].wrapping_add(1);
    w.waits_at = Some(number as u8);
    w.stopped_at = u64::from(d.dst) | u64::from(d.dst2) << 32;
    m.stop(Stop::Barrier)
}

/// Before an instruction that has the number of its barrier in `M0`: the wave stops with fault `imm` if it is a named one.
pub(crate) fn check_m0(w: &mut Wave, _m: &mut Machine<'_>, _d: &Di) -> Flow {
    if w.s[slot::M0] & M0_NUMBER == 0 { Flow::NEXT } else { Flow::RAISE }
}

/// `s_get_barrier_state`; 0 of barrier 0, which is none.
pub(crate) fn state(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let known = match d.imm.cast_signed() {
        -1 => Some(0),
        OF_HANDLER => Some(1),
        _ => None,
    };
    w.s[d.dst as usize & 255] = known.map_or(0, |number| m.lds.barriers.state(number));
    Flow::NEXT
}
