//! Going on with a memory instruction that faulted in the middle.
//!
//! Lanes are done one after the other, and the first that cannot be done ends the instruction: the lanes below are
//! done, the others have written nothing. The wave remembers which are done. When it comes back to the instruction,
//! because the host has mapped the missing page or because a trap handler returns to it, only the lanes that are left
//! take part.

use crate::exec::code_cache::Region;
use crate::exec::di::{Flow, Role};
use crate::exec::properties::properties;
use crate::registers::slot;
use crate::wave::Wave;
use crate::wave::partly_done::PartlyDone;

/// State that [`begin`] took away.
pub(crate) struct Rest {
    exec: u64,
    done: u64,
}

/// Leaves EXEC the lanes that the instruction at element `at` has not done yet, if it is the one that faulted.
pub(crate) fn begin(w: &mut Wave, region: &Region, at: usize) -> Option<Rest> {
    let privileged = usize::from(w.is_privileged());
    // The note is used up here, even if the wave has come to another instruction.
    let PartlyDone { pc, lanes } = core::mem::take(&mut w.partly_done[privileged]);
    let offset = region.offsets.get(at)?;
    let elements =
        region.roles.iter().zip(&region.offsets).skip(at).take_while(|(_, other)| *other == offset);
    let accesses = |role: &Role| matches!(role, Role::Operation(op) if properties(*op).memory.is_some());
    if lanes == 0 || pc != region.pc_of(at) || !elements.into_iter().any(|(role, _)| accesses(role)) {
        return None;
    }
    let rest = Rest { exec: w.exec(), done: lanes };
    w.set_pair(slot::EXEC, rest.exec & !lanes);
    Some(rest)
}

/// Gives EXEC back after the instruction, which may have faulted again.
pub(crate) fn end(w: &mut Wave, rest: &Rest, flow: Flow) {
    w.set_pair(slot::EXEC, rest.exec);
    if flow == Flow::FAULT {
        w.done |= rest.done;
    }
}
