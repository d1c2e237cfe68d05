//! Moves between registers whose numbers `M0` shifts.

use super::lane::for_each_active;
use crate::exec::FaultCause;
use crate::exec::di::{Di, Flow, Kind, Machine};
use crate::registers::slot;
use crate::wave::Wave;

/// Register numbers that `M0` is added to, in [`Di::aux`].
pub(crate) mod shifts {
    /// The source.
    pub(crate) const SOURCE: u8 = 1;
    /// The destination.
    pub(crate) const DESTINATION: u8 = 2;
    /// The source by bits 9:0, the destination by bits 25:16.
    pub(crate) const TWO: u8 = 4;
    /// The destination by bits 25:16.
    pub(crate) const DESTINATION_OF_TWO: u8 = 8;
}

/// Shifts of source and destination.
fn amounts(w: &Wave, d: &Di) -> (u32, u32) {
    let m0 = w.s[slot::M0];
    if d.aux & shifts::TWO != 0 {
        return (m0 & 0x3ff, m0 >> 16 & 0x3ff);
    }
    if d.aux & shifts::DESTINATION_OF_TWO != 0 {
        return (0, m0 >> 16 & 0x3ff);
    }
    let shift = |bit: u8| if d.aux & bit != 0 { m0 } else { 0 };
    (shift(shifts::SOURCE), shift(shifts::DESTINATION))
}

/// First row of the vector register `shift` after the one at `row`; the fault when the wave has none such.
fn vector(w: &Wave, row: u32, shift: u32) -> Result<u32, FaultCause> {
    if shift == 0 {
        // Checked with the program, or a scratch row.
        return Ok(row);
    }
    let register = u64::from(row / w.halves) + u64::from(shift);
    if register < u64::from(w.registers) {
        return Ok(register as u32 * w.halves);
    }
    Err(FaultCause::RegisterOutOfRange {
        register: u16::try_from(register).unwrap_or(u16::MAX),
        allocated: w.registers,
        text: String::from("relative to M0"),
    })
}

/// Rows of source and destination; a scalar source has none and is not shifted.
fn rows(w: &Wave, d: &Di) -> Result<(Option<u32>, u32), FaultCause> {
    let (source, destination) = amounts(w, d);
    let from = match d.src[0].kind {
        Kind::Vector => Some(vector(w, d.src[0].value, source)?),
        _ => None,
    };
    Ok((from, vector(w, d.dst, destination)?))
}

/// `v_movrels_b32`, `v_movreld_b32`, `v_movrelsd_b32`, `v_movrelsd_2_b32`.
pub(crate) fn mov(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (from, to) = match rows(w, d) {
        Ok(rows) => rows,
        Err(fault) => return m.fault(fault),
    };
    for_each_active(w, |w, lane| {
        let value = match from {
            Some(row) => w.v.lane(row + lane / 32, lane & 31),
            None => d.src[0].scalar(w),
        };
        w.v.set_lane(to + lane / 32, lane & 31, value);
    });
    Flow::NEXT
}

/// Copies the shifted source, all lanes of it, to the row `dst`, where DPP finds it.
pub(crate) fn fetch(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (source, _) = amounts(w, d);
    match vector(w, d.src[0].value, source) {
        Ok(row) => {
            for half in 0..w.halves {
                *w.v.row_mut(d.dst + half) = *w.v.row(row + half);
            }
            Flow::NEXT
        }
        Err(fault) => m.fault(fault),
    }
}

/// `v_swaprel_b32`.
pub(crate) fn swap(w: &mut Wave, m: &mut Machine<'_>, d: &Di) -> Flow {
    let (from, to) = match rows(w, d) {
        Ok((Some(from), to)) => (from, to),
        Ok((None, _)) => return Flow::NEXT,
        Err(fault) => return m.fault(fault),
    };
    for_each_active(w, |w, lane| {
        let (half, at) = (lane / 32, lane & 31);
        let (first, second) = (w.v.lane(from + half, at), w.v.lane(to + half, at));
        w.v.set_lane(from + half, at, second);
        w.v.set_lane(to + half, at, first);
    });
    Flow::NEXT
}

/// A scalar register `shift` after another, `None` beyond the last.
fn scalar(w: &Wave, register: u32, shift: u32, count: u32) -> Option<usize> {
    let register = register.checked_add(shift)?;
    (register + count <= u32::from(w.file.sgprs)).then_some(register as usize)
}

/// `s_movrels_*`, `s_movreld_*`, `s_movrelsd_2_b32` of `COUNT` registers: registers beyond the last one read as 0 and
/// are not written.
pub(crate) fn scalar_mov<const COUNT: u32>(w: &mut Wave, _m: &mut Machine<'_>, d: &Di) -> Flow {
    let (source, destination) = amounts(w, d);
    let value = if source == 0 || d.src[0].kind != Kind::Scalar {
        if COUNT == 2 { d.src[0].scalar64(w) } else { u64::from(d.src[0].scalar(w)) }
    } else {
        scalar(w, d.src[0].value, source, COUNT).map_or(0, |register| w.pair(register))
    };
    let to = if destination == 0 { Some(d.dst as usize) } else { scalar(w, d.dst, destination, COUNT) };
    if let Some(to) = to {
        w.s[to & 255] = value as u32;
        if COUNT == 2 {
            w.s[(to + 1) & 255] = (value >> 32) as u32;
        }
    }
    Flow::NEXT
}
