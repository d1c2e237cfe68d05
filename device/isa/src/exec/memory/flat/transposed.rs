//! Loads that transpose a matrix: each lane loads a part of a row, and gets a part of a column.
//!
//! `docs/isa-choices.md`, "Loads that transpose", has the places of the elements.

use crate::exec::di::{Di, Flow, Machine};
use crate::wave::Wave;

/// Lanes of a wave that can do it.
const LANES: usize = 32;

/// Moves what the lanes of a wave32 have loaded to `dst`, of `imm` dwords each.
pub(crate) fn transpose(w: &mut Wave, _: &mut Machine<'_>, d: &Di) -> Flow {
    let exec = w.exec() as u32;
    let dwords = d.imm;
    // Elements of lanes that are off are zero.
    let mut loaded = [[0u32; 4]; LANES];
    for (lane, words) in (0..).zip(&mut loaded).filter(|(lane, _)| exec >> lane & 1 != 0) {
        for (n, word) in (0..dwords).zip(words) {
            *word = w.v.lane(d.dst + n, lane);
        }
    }
    let halves = dwords == 4;
    let element = |lane: usize, at: usize| {
        let words = &loaded[lane];
        if halves { words[at / 2] >> (at % 2 * 16) & 0xffff } else { words[at / 4] >> (at % 4 * 8) & 0xff }
    };
    for lane in (0..LANES).filter(|lane| exec >> lane & 1 != 0) {
        let mut words = [0u32; 4];
        for at in 0..8 {
            if halves {
                words[at / 2] |= element(lane / 8 * 8 + at, lane % 8) << (at % 2 * 16);
            } else {
                let from = lane / 16 * 16 + at / 4 * 8 + lane / 8 % 2 * 4 + at % 4;
                words[at / 4] |= element(from, lane % 8) << (at % 4 * 8);
            }
        }
        for (n, word) in (0..dwords).zip(words) {
            w.v.set_lane(d.dst + n, lane as u32, word);
        }
    }
    Flow::NEXT
}
