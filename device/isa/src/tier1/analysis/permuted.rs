//! Lanes that come from other lanes.

use crate::exec::di::{Di, Kind};
use crate::exec::form::Form;
use crate::exec::vector::lane::lane_of_row;

/// The numbers of ones of all nibbles, one in each byte.
pub(crate) const ONES: [u32; 4] = [0x0201_0100, 0x0302_0201, 0x0302_0201, 0x0403_0302];

/// Sixteen lanes that come from sixteen lanes.
pub(crate) struct Sixteen {
    /// Number of the sixteen that they come from.
    pub(crate) from: u32,
    /// Lane of that sixteen that each of them reads; 0 for lanes that have no source.
    pub(crate) index: [u32; 16],
    /// All bits for lanes that have a source, none for others.
    pub(crate) inside: [u32; 16],
}

impl Sixteen {
    /// Returns the sixteen from lane `16 * n` on, if all its lanes come from one sixteen.
    pub(crate) fn of(n: u32, source: impl Fn(u32) -> Option<u32>) -> Option<Sixteen> {
        let sources: [Option<u32>; 16] = core::array::from_fn(|lane| source(16 * n + lane as u32));
        let from = sources.iter().flatten().next().map_or(n, |lane| lane / 16);
        sources.iter().flatten().all(|lane| lane / 16 == from).then(|| Sixteen {
            from,
            index: sources.map(|source| source.unwrap_or_default() & 15),
            inside: sources.map(|source| if source.is_some() { u32::MAX } else { 0 }),
        })
    }
}

/// The constant that a source is, if it is one.
pub(crate) fn constant(d: &Di, n: usize) -> Option<u32> {
    matches!(d.src[n].kind, Kind::Constant | Kind::Signed).then_some(d.src[n].value)
}

/// The lane that a lane of a `v_permlane16_b32`, or of one of the other row, reads by constants.
pub(crate) fn selected(d: &Di, other: bool, lane: u32) -> Option<u32> {
    let select = u64::from(constant(d, 1)?) | u64::from(constant(d, 2)?) << 32;
    Some(lane_of_row(select, other, lane))
}

/// Returns true if there is code for such an element, provided that nothing about its result is unusual.
pub(crate) fn has(form: Form, d: &Di, halves: u32) -> bool {
    let from_row = d.src[0].kind == Kind::Vector;
    match form {
        Form::Permute(control) => {
            let one = |n| Sixteen::of(n, |lane| control.source(d, lane)).is_some();
            from_row && d.aux == 0 && (0..halves * 2).all(one)
        }
        Form::RestoreExec => true,
        Form::BackwardPermute => {
            let (from, to) = (&d.src[1], d.dst);
            let apart = |value: u32| value + halves <= to || to + halves <= value;
            from_row
                && from.kind == Kind::Vector
                && (d.aux == 31 || apart(from.value) && apart(d.src[0].value))
        }
        Form::Swizzle => from_row,
        Form::PermuteRow { .. } => from_row && selected(d, false, 0).is_some(),
        Form::CountBelow { .. } | Form::WriteLane => true,
        Form::ReadLane | Form::ReadFirstLane => from_row,
        _ => false,
    }
}

/// Returns true if the handler does an element that has code all the same, where EXEC may lack lanes.
pub(crate) fn is_by_handler(form: Form, d: &Di, masked: bool) -> bool {
    masked
        && match form {
            Form::BackwardPermute => d.aux != 31,
            // Lanes whose source is off keep what they have.
            Form::PermuteRow { .. } => d.aux & 3 == 0,
            Form::ReadFirstLane => true,
            _ => false,
        }
}
