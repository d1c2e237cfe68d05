//! Stops of a wave after a failed access.

use super::address::{scratch_address, segment};
use crate::exec::di::{Di, Flow, Machine};
use crate::mem::{Access, Fault, FaultKind, Segment};
use crate::wave::Wave;

/// Why an access failed.
pub(super) enum Failure {
    Memory(Fault),
    Lds(u32),
    /// An atomic of LDS at an address that is no multiple of its size.
    LdsMisaligned(u32),
}

/// Stops the wave for a failure at one of `lanes`, an access of `bytes` by each lane.
///
/// The report names every lane from `undone` on whose access fails. Those below are done.
#[cold]
#[inline(never)]
pub(super) fn fail(
    w: &mut Wave,
    m: &mut Machine<'_>,
    d: &Di,
    (bytes, undone): (u32, u32),
    (failure, lanes): (Failure, u64),
) -> Flow {
    w.did_lanes_below(undone);
    let mut failing = 0;
    let mut first = None;
    for lane in active(w).filter(|lane| *lane >= undone) {
        let Some(cause) = probe(w, m, segment(w, m, d, lane), lane, bytes, &failure) else { continue };
        // One report is of one kind of memory.
        if core::mem::discriminant(&cause) == core::mem::discriminant(&failure) {
            failing |= 1 << lane;
            first = first.or(Some(cause));
        }
    }
    match first.unwrap_or(failure) {
        Failure::Memory(fault) => m.memory_fault(fault, if failing == 0 { lanes } else { failing }),
        Failure::Lds(address) => m.lds_fault(address, if failing == 0 { lanes } else { failing }),
        Failure::LdsMisaligned(address) => {
            m.lds_misaligned(address, bytes, if failing == 0 { lanes } else { failing })
        }
    }
}

/// Why an access like the one of `failure` fails at `at`, if it does.
pub(super) fn probe(
    w: &Wave,
    m: &mut Machine<'_>,
    at: Segment,
    lane: u32,
    bytes: u32,
    failure: &Failure,
) -> Option<Failure> {
    let access = match failure {
        Failure::Memory(fault) => fault.access,
        Failure::Lds(_) | Failure::LdsMisaligned(_) => Access::Read,
    };
    let mut translated = |va: u64, bytes: u32| m.failure(va, bytes, access).map(Failure::Memory);
    match at {
        Segment::Global(va) => translated(va, bytes),
        Segment::Shared(address) if matches!(failure, Failure::LdsMisaligned(_)) => {
            (!address.is_multiple_of(bytes)).then_some(Failure::LdsMisaligned(address))
        }
        Segment::Shared(address) => (!m.lds.contains(address, bytes)).then_some(Failure::Lds(address)),
        Segment::Private(offset) => match check_scratch(w, offset, bytes, access) {
            Err(failure) => Some(failure),
            // Its dwords are far apart.
            Ok(()) => (0..bytes).find_map(|n| translated(scratch_address(w, lane, offset + n), 1)),
        },
    }
}

pub(super) fn check_scratch(w: &Wave, offset: u32, bytes: u32, access: Access) -> Result<(), Failure> {
    if u64::from(offset) + u64::from(bytes) <= u64::from(w.scratch_size) {
        return Ok(());
    }
    let va = w.scratch_base.wrapping_add(u64::from(offset) * u64::from(w.halves * 32));
    Err(Failure::Memory(Fault::new(va, access, FaultKind::Aperture)))
}

/// Lanes in EXEC, lowest first.
#[inline(always)]
pub(crate) fn active(w: &Wave) -> impl Iterator<Item = u32> + use<> {
    lanes(crate::exec::vector::lane::active(w))
}

/// Lanes in a mask, lowest first.
#[inline(always)]
pub(crate) fn lanes(mut mask: u64) -> impl Iterator<Item = u32> {
    core::iter::from_fn(move || {
        (mask != 0).then(|| {
            let lane = mask.trailing_zeros();
            mask &= mask - 1;
            lane
        })
    })
}
