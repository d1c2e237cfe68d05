//! Stores of one lane after the other, the lowest one first: of bytes, halves and several dwords, whose elements need not follow each
//! other. It has been looked before that all of them are where they may be.
//!
//! Addresses and data are in the wave's rows in memory, so that both back ends share the code.

use super::asm::{Condition, Element, Gpr, Integer, Label};
use super::atomic::of_lane;
use super::body::{Body, EXEC, scalar};
use crate::exec::memory::ds::narrow::Half;
use crate::exec::properties::Moves;

/// Offset of the lane's element from the base, and what is stored.
const PLACE: Gpr = Gpr::Rcx;
const DATA: Gpr = Gpr::Rax;
const OTHER: Gpr = Gpr::R11;

/// Places of the elements of lanes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets {
    /// The row of addresses, or of their low halves, and the offset that is added to each.
    pub(crate) row: u32,
    pub(crate) offset: u32,
    /// Register with the host address that an address of 0 means: none that a lane's code uses.
    pub(crate) base: Gpr,
}

impl Body<'_> {
    /// Goes to a place where no lane is active.
    pub(crate) fn leave_out_none(&mut self, done: Label) {
        if self.masked {
            self.a.compare_immediate(self.halves == 2, scalar(EXEC), 0);
            self.a.jump_if(Condition::Equal, done);
        }
    }

    /// Brings the rows of the element at hand to memory, on a way that others do not go.
    pub(crate) fn copy_rows_to_memory(&mut self) {
        self.rows.copy_to_memory(self.a, &self.touched[self.at - self.first]);
    }

    /// Stores an element of each active lane, of which there is one, from the rows from `data` on.
    pub(crate) fn store_each(&mut self, moves: Moves, targets: Targets, data: u32) {
        self.each_lane(|body| {
            body.a.load_element(Integer::Mov, false, PLACE, of_lane(targets.row));
            if targets.offset != 0 {
                body.a.immediate(Integer::Add, false, PLACE, targets.offset);
            }
            let at = |displacement| Element { base: targets.base, index: PLACE, scale: 0, displacement };
            match moves {
                Moves::Part(part) => {
                    body.a.load_element(Integer::Mov, false, DATA, of_lane(data));
                    if part.half == Some(Half::High) {
                        body.a.shift_by(5, false, DATA, 16);
                    }
                    body.a.store_part(part.bytes, at(0), DATA);
                }
                Moves::Dwords(dwords) => {
                    for first in (0..dwords).step_by(2) {
                        body.store_lane_dwords(at(first as i32 * 4), data, first..dwords.min(first + 2));
                    }
                }
                Moves::Atomic(..) => unreachable!("only stores"),
            }
        });
    }

    /// One or two dwords of a lane, which are one access.
    fn store_lane_dwords(&mut self, at: Element, data: u32, dwords: core::ops::Range<u32>) {
        let row = |n: u32| of_lane(data + n * self.halves);
        let (first, wide) = (row(dwords.start), dwords.len() == 2);
        let second = row(dwords.start + 1);
        self.a.load_element(Integer::Mov, false, DATA, first);
        if wide {
            self.a.load_element(Integer::Mov, false, OTHER, second);
            self.a.shift_by(4, true, OTHER, 32);
            self.a.integer(Integer::Or, true, DATA, OTHER);
        }
        self.a.change_element(Integer::Mov, wide, at, DATA);
    }
}
