//! Loads from LDS that transpose a matrix (gfx950): sixteen lanes load rows of sixteen elements, and each gets a column.
//!
//! `docs/isa-choices.md`, "gfx950", has the places of the elements.

use crate::exec::di::{Di, Flow, Machine};
use crate::wave::Wave;

/// Lanes that exchange elements with each other, and elements of a row.
const LANES: usize = 16;

/// Dwords of a lane for elements of this many bits.
pub(crate) const fn dwords(bits: u32) -> u32 {
    if bits == 6 { 3 } else { 2 }
}

/// Moves what the lanes of a wave64 have loaded to `dst`; elements have `imm` bits.
pub(crate) fn transpose(w: &mut Wave, _: &mut Machine<'_>, d: &Di) -> Flow {
    let (exec, bits, dwords) = (w.exec(), d.imm, dwords(d.imm));
    let own = (dwords * 32 / bits.max(1)) as usize;
    let across = (LANES / own.clamp(1, LANES)).max(1);
    // Elements of lanes that are off are zero.
    let mut loaded = [0u128; 64];
    for (lane, all) in (0..).zip(&mut loaded).filter(|(lane, _)| exec >> lane & 1 != 0) {
        *all = (0..dwords).rev().fold(0, |all, n| all << 32 | u128::from(word(w, d.dst + n * 2, lane)));
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let (group, column) = (lane / LANES * LANES, lane % LANES);
        let mut all = 0u128;
        for row in 0..own {
            // A row is in as many lanes as its elements need.
            let from = loaded[group + (row * across + column / own) % LANES];
            let element = from >> (column % own * bits as usize) & ((1 << bits) - 1);
            all |= element << (row * bits as usize);
        }
        for n in 0..dwords {
            w.v.set_lane(d.dst + n * 2 + lane as u32 / 32, lane as u32 & 31, (all >> (32 * n)) as u32);
        }
    }
    Flow::NEXT
}

fn word(w: &Wave, row: u32, lane: u32) -> u32 {
    w.v.lane(row + lane / 32, lane & 31)
}
