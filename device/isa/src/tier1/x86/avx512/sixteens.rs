//! Runs of elements, and loops of one block, that are done for sixteen lanes after the others, with AVX-512.
//!
//! Sixteen lanes of a row are one register: twice as many rows of a wave of 32 lanes are in registers so, and four times as many of
//! one of 64. That pays where a block uses more rows than fit whole. In between everything is in memory.

use super::masks::UNORDERED;
use super::rows::{CAPACITY, ROWS, Rows, SIXTEENS};
use super::run_loads::{Addresses, Guessed, load};
use crate::exec::di::Di;
use crate::exec::form::{Form, When};
use crate::tier1::analysis::runs::{self, Loop, Run, is_of_lanes};
use crate::tier1::x86::asm::{Assembler, At, Condition, Gpr, Integer, K0, Label, Mask};
use crate::tier1::x86::body::{Body, Lanes, SCRATCH};
use crate::tier1::x86::encoding::{KORTESTW, KORW, VCMPPS};
use crate::tier1::x86::loops;
use crate::tier1::x86::sums::{self, ORDERED, Sums};

/// Fewest elements of a run that is worth it, and of one that loads from LDS, which is looked at beforehand.
const WORTH: usize = 4;
const WORTH_WITH_LOADS: usize = 8;

/// Elements from which on code for one sixteen is gone through for all of them: code that is executed once is fetched from further away.
const IN_TURN: usize = 32;
/// Bytes of a row in memory that sixteen lanes take.
const SIXTEEN: i32 = 64;
/// Address of the rows of the last sixteen, meanwhile.
const LAST: Gpr = Gpr::R10;

/// Returns true if the code of an element names the lanes that it is for, because it has masks of them.
fn names_lanes(form: Form) -> bool {
    matches!(form, Form::Compare(_) | Form::Select | Form::SelectHalf | Form::Carry(_))
}

/// The run from an element on, if one begins there that is worth it. Loads from LDS are in it if it is known beforehand where from.
pub(crate) fn run_of(elements: &[(Form, &Di)], halves: u32, masked: bool) -> Option<Run> {
    for with_loads in [true, false] {
        let mut addresses = Addresses::default();
        let mut loads = 0;
        let run = runs::run_of(elements, halves, |_, form, d| {
            let loaded = with_loads && !masked && addresses.end(form, d).is_some();
            let taken = loaded || is_of_lanes(form, d);
            if taken {
                addresses.note(form, d, halves);
                loads += usize::from(loaded);
            }
            taken
        });
        let worth = if loads > 0 { WORTH_WITH_LOADS } else { WORTH };
        if let Some(run) = run.filter(|run| run.lanes.len() >= worth) {
            return Some(run);
        }
    }
    None
}

/// A loop of one block, all of whose rows fit into registers by sixteens; `touched` are the rows of its elements.
pub(crate) fn loop_of(
    elements: &[(Form, &Di)],
    when: When,
    halves: u32,
    touched: &[Vec<u32>],
) -> Option<(Loop, Vec<u32>)> {
    let mut rows: Vec<u32> =
        touched.iter().flatten().copied().filter(|row| row.is_multiple_of(halves)).collect();
    rows.sort_unstable();
    rows.dedup();
    if rows.len() > SIXTEENS {
        return None;
    }
    Some((runs::loop_of(elements, when, halves, is_of_lanes)?, rows))
}

/// Instruction counts of a loop.
pub(crate) struct Counts {
    /// Instructions of a round.
    pub(crate) round: u32,
    pub(crate) executed: Gpr,
    pub(crate) limit: Gpr,
}

impl Body<'_> {
    /// The elements of a run, which are the first of `elements`; instructions of all but the first one are still to be counted.
    pub(crate) fn run_by_sixteens(&mut self, run: &Run, elements: &[(Form, &Di)]) {
        self.rows.flush(self.a);
        let start = self.at;
        let elements = &elements[..run.elements];
        let slow = self.look_at_loads(elements);
        let guesses = self.guesses(elements);
        let done = self.a.label();
        if !guesses.is_empty() {
            let others = self.a.label();
            self.leave_unless_guessed(&guesses, others);
            self.all_sixteens(start, (run, elements), &guesses);
            self.a.jump(done);
            self.a.bind(others);
        }
        self.all_sixteens(start, (run, elements), &[]);
        let Some(slow) = slow else { return };
        self.a.jump(done);
        self.a.bind(slow);
        let uncounted = self.uncounted;
        for (n, &(form, d)) in elements.iter().enumerate() {
            self.at = start + n;
            self.uncounted += if n > 0 { u32::from(d.count) } else { 0 };
            self.rows.unlock();
            self.straight(form, d);
        }
        self.rows.flush(self.a);
        self.at = start;
        self.uncounted = uncounted;
        self.a.bind(done);
    }

    /// All lanes of a run's elements; loads whose addresses are as guessed.
    fn all_sixteens(
        &mut self,
        start: usize,
        (run, elements): (&Run, &[(Form, &Di)]),
        guesses: &[(u32, u32)],
    ) {
        for &at in &run.scalars {
            self.straight(elements[at].0, elements[at].1);
        }
        let in_turn = !self.masked
            && run.lanes.len() >= IN_TURN
            && run.lanes.iter().all(|&at| !names_lanes(elements[at].0));
        let all = self.halves as i32 * 2 * SIXTEEN;
        let before = self.a.stored.len();
        let round = in_turn.then(|| {
            self.a.address(LAST, At(ROWS, all - SIXTEEN));
            let label = self.a.label();
            self.a.bind(label);
            label
        });
        self.sums = sums::of_run(run.lanes.iter().map(|&at| elements[at]), self.halves);
        let mut again = Vec::new();
        for (half, chunk) in self.sixteens().take(if in_turn { 1 } else { usize::MAX }) {
            let lanes = Lanes { half, sixteen: Some(chunk) };
            self.begin_lanes(lanes);
            self.sixteen(start, (run, elements), guesses);
            let (entry, back) = (self.a.label(), self.a.label());
            if self.look_at_sums(lanes, entry) {
                again.push((entry, back, lanes, self.rows.clone()));
            }
            self.rows.flush(self.a);
            self.a.bind(back);
        }
        if let Some(round) = round {
            // What is named is the first half's.
            for half in 1..self.halves {
                let rows: Vec<u32> = self.a.stored[before..].iter().map(|row| row + half).collect();
                self.a.stored.extend(rows);
            }
            self.a.immediate(Integer::Add, true, ROWS, SIXTEEN as u32);
            self.a.integer(Integer::Cmp, true, ROWS, LAST);
            self.a.jump_if(Condition::BelowOrEqual, round);
            self.a.immediate(Integer::Sub, true, ROWS, all as u32);
        }
        if !again.is_empty() {
            let behind = self.a.label();
            self.a.jump(behind);
            let stored = self.a.stored.len();
            self.sums.again = true;
            for (entry, back, lanes, rows) in again {
                self.a.bind(entry);
                rows.write_back(self.a);
                self.begin_lanes(lanes);
                self.sixteen(start, (run, elements), guesses);
                self.rows.flush(self.a);
                self.a.jump(back);
            }
            // The rows are those of the usual way.
            self.a.stored.truncate(stored);
            self.a.bind(behind);
        }
        self.sums = Sums::default();
        self.end_lanes(start);
    }

    /// The elements of a run for the lanes at hand.
    fn sixteen(&mut self, start: usize, (run, elements): (&Run, &[(Form, &Di)]), guesses: &[(u32, u32)]) {
        let mut guessed = Guessed::default();
        for &at in &run.lanes {
            let (form, d) = elements[at];
            self.at = start + at;
            self.rows.unlock();
            match load(form, d) {
                Some((dwords, offsets)) => {
                    let parts = (dwords, &*offsets);
                    if !self.load_guessed((&mut guessed, guesses), parts, d) {
                        self.load_by_sixteens(dwords, d, &offsets);
                    }
                }
                None => self.straight(form, d),
            }
            guessed.addresses.note(form, d, self.halves);
        }
    }

    /// Looks at the sums of a run for some lanes; jumps to `entry` where one is a NaN. Returns false if there are none to look at.
    fn look_at_sums(&mut self, Lanes { half, sixteen }: Lanes, entry: Label) -> bool {
        let ([all, these], chunk) = (SCRATCH, sixteen.unwrap_or_default());
        let rows = core::mem::take(&mut self.sums.rows);
        for (n, two) in rows.chunks(2).enumerate() {
            self.rows.unlock();
            let [a, b] = [two[0], two[two.len() - 1]].map(|row| self.load_row(row + half).chunk(chunk));
            if !self.masked {
                // Lanes with numbers alone, of those that had no more before.
                self.a.compare(VCMPPS.by(ORDERED), all, a, b, if n == 0 { K0 } else { all });
                continue;
            }
            let to = if n == 0 { all } else { these };
            self.a.compare(VCMPPS.by(UNORDERED), to, a, b, self.exec(half, chunk));
            if n > 0 {
                self.a.mask(KORW, all, all, these);
            }
        }
        let any = !rows.is_empty();
        if any && self.masked {
            self.leave_if_unlike(entry);
        } else if any {
            // The carry says that all bits are set.
            self.a.mask(KORTESTW, all, Mask(0), all);
            self.a.jump_if(Condition::AboveOrEqual, entry);
        }
        self.sums.rows = rows;
        any
    }

    fn begin_lanes(&mut self, lanes: Lanes) {
        self.only = Some(lanes);
        self.rows = Rows::of_lanes(lanes.sixteen);
    }

    fn end_lanes(&mut self, at: usize) {
        self.only = None;
        self.rows = Rows::default();
        self.at = at;
    }

    /// A loop whose elements are those of the block but for its branch: all rounds for each sixteen, or for each half where the rows of one
    /// fit. `unless` jumps where the branch is not taken; ends with a jump to a label if instructions were used up, and otherwise goes on.
    pub(crate) fn rounds_by_lanes(
        &mut self,
        (of, rows): &(Loop, Vec<u32>),
        elements: &[(Form, &Di)],
        counts: &Counts,
        (unless, used_up): (impl Fn(&mut Assembler, Label), Label),
    ) {
        loops::keep(self.a, &of.written, counts.executed);
        let first = self.at;
        // Halves have twice as many results under way at a time.
        let by_halves = rows.len() <= CAPACITY;
        let all: Vec<Lanes> = self
            .sixteens()
            .filter(|(_, chunk)| *chunk == 0 || !by_halves)
            .map(|(half, chunk)| Lanes { half, sixteen: (!by_halves).then_some(chunk) })
            .collect();
        for (n, &lanes) in all.iter().enumerate() {
            let half = lanes.half;
            if n > 0 {
                loops::set_back(self.a, &of.written, counts.executed);
            }
            self.begin_lanes(lanes);
            let held: Vec<u32> = rows.iter().map(|row| row + half).collect();
            self.rows.hold(self.a, &held);
            let (next_round, last_round) = (self.a.label(), self.a.label());
            self.a.bind(next_round);
            for (at, &element) in elements.iter().enumerate() {
                self.at = first + at;
                self.rows.unlock();
                self.straight(element.0, element.1);
            }
            if counts.round > 0 {
                self.a.immediate(Integer::Add, true, counts.executed, counts.round);
            }
            unless(self.a, last_round);
            self.a.integer(Integer::Cmp, true, counts.executed, counts.limit);
            self.a.jump_if(Condition::Below, next_round);
            // All have as many rounds: the last one goes where all do.
            if n + 1 == all.len() {
                self.rows.write_back(self.a);
                self.a.jump(used_up);
            }
            self.a.bind(last_round);
            self.rows.write_back(self.a);
        }
        self.end_lanes(first);
    }
}
