//! Blocks that are loops of their own: all rounds of the loop are done for eight lanes, then for the next eight. So rows stay in
//! registers from round to round.
//!
//! Every eight lanes must go through as many rounds with the same scalars. So nothing that scalar elements or the
//! branch read may come from lanes, and the scalars that are written are set back between the passes.

use crate::exec::di::{Di, Kind};
use crate::exec::form::{Form, When};
use crate::tier1::analysis::runs::{Loop, loop_of, mask_of};
use crate::tier1::analysis::template::{self, Template};
use crate::tier1::scalar as scalars;
use crate::tier1::x86::asm::{At, Condition, Gpr, Integer, Label};
use crate::tier1::x86::avx512::rows::ROWS;
use crate::tier1::x86::body::{Body, SCC};
use crate::tier1::x86::loops;

use super::cache::{Cache, Key, Lanes};
use super::pass::{LAST, MASKS, Pass, is_of_lanes};
use super::uses::Uses;

/// Register that says whether instructions were used up in the last round.
const USED_UP: Gpr = Gpr::R8;

/// A loop that is done so.
pub(crate) struct Rounds {
    /// Contents that stay in registers.
    held: Vec<Key>,
    /// Scalar registers that are written.
    written: Vec<u32>,
    uses: Vec<Uses>,
}

/// Returns true if a content changes when these scalar registers are written.
fn changes(key: Key, written: &[u32], halves: u32) -> bool {
    match key {
        Key::Splat(register) => written.contains(&register),
        Key::Mask(register) => (register..register + halves).any(|register| written.contains(&register)),
        Key::Row(_) | Key::Constant(_) => false,
    }
}

/// Registers that an element may need besides those for its rows.
fn others(form: Form, d: &Di, uses: &[Key]) -> usize {
    let (sources, wide) = match form {
        Form::Vector(_) | Form::Saturating(_) | Form::Part => {
            (template::template(form, d).map_or(3, Template::arity), template::is_wide(form, d))
        }
        Form::Carry(_) => (3, template::is_wide(form, d)),
        Form::Compare(_) => (2, template::is_wide(form, d)),
        Form::Select | Form::SelectHalf | Form::Pair(..) => (2, false),
        Form::Packed(_) | Form::Mixed(_) => (3, false),
        _ => (0, false),
    };
    let of_uses = uses.iter().filter(|key| !matches!(key, Key::Row(_))).count();
    let constants =
        d.src[..sources].iter().filter(|source| !matches!(source.kind, Kind::Vector | Kind::Scalar)).count();
    of_uses + constants * if wide { 2 } else { 1 } + usize::from(mask_of(form, d).is_some())
}

/// Returns the loop that a block's elements make without its branch, if it can be done in this way.
pub(crate) fn rounds_of(
    elements: &[(Form, &Di)],
    when: When,
    (halves, masked): (u32, bool),
) -> Option<Rounds> {
    let Loop { written, masks } = loop_of(elements, when, halves, is_of_lanes)?;
    let uses: Vec<Uses> = elements
        .iter()
        .map(
            |&(form, d)| {
                if is_of_lanes(form, d) { Uses::new(form, d, halves, masked) } else { Uses::nothing() }
            },
        )
        .collect();
    let mut held: Vec<Key> = Vec::new();
    // What elements need besides their rows.
    let others = elements.iter().zip(&uses).map(|(&(form, d), uses)| others(form, d, &uses.keys));
    let room = Cache::room(masked).checked_sub(others.max().unwrap_or_default())?;
    let is_row = |key: &&Key| matches!(key, Key::Row(_));
    for key in uses.iter().flat_map(|uses| &uses.keys).filter(is_row) {
        if !held.contains(key) {
            held.push(*key);
        }
    }
    if held.len() > room {
        return None;
    }
    // What stays the same.
    for key in uses.iter().flat_map(|uses| &uses.keys).filter(|key| !is_row(key)) {
        let same = !changes(*key, &written, halves) && !changes(*key, &masks, halves);
        if same && held.len() < room && !held.contains(key) {
            held.push(*key);
        }
    }
    Some(Rounds { held, written, uses })
}

impl Body<'_> {
    /// The whole loop; instructions are counted by `count`, and `unless` jumps where the branch is not taken. Ends with a jump to
    /// the second label if instructions were used up, and otherwise goes on.
    pub(crate) fn rounds(
        &mut self,
        rounds: &Rounds,
        elements: &[(Form, &Di)],
        (instructions, executed, limit): (u32, Gpr, Gpr),
        (unless, used_up): (impl Fn(&mut crate::tier1::x86::asm::Assembler, Label), Label),
    ) {
        let passes = self.halves as i32 * 4;
        let (next_pass, next_round, last_round, end, finished) =
            (self.a.label(), self.a.label(), self.a.label(), self.a.label(), self.a.label());
        let a = &mut *self.a;
        loops::keep(a, &rounds.written, executed);
        a.address(LAST, At(ROWS, passes * 32));
        a.integer(Integer::Mov, true, MASKS, crate::tier1::x86::body::WAVE);
        a.bind(next_pass);
        let cache = Cache::new(Lanes { eight: 0, masks: MASKS }, self.masked);
        let mut pass = Pass::new(a, cache, (self.halves, self.masked), &rounds.uses);
        pass.hold(&rounds.held);
        pass.a.bind(next_round);
        for (at, &(form, d)) in elements.iter().enumerate() {
            pass.begin(at);
            if let Form::Scalar(op) = form {
                scalars::emit(pass.a, op, d);
                let written = [d.dst, d.dst + 1, SCC];
                let halves = pass.halves;
                pass.cache.forget(|key| changes(key, &written, halves));
            } else {
                pass.element(form, d);
            }
        }
        pass.cache.forget_what_is_not_held(pass.a);
        let a = &mut *pass.a;
        if instructions > 0 {
            a.immediate(Integer::Add, true, executed, instructions);
        }
        unless(a, last_round);
        a.integer(Integer::Cmp, true, executed, limit);
        a.jump_if(Condition::Below, next_round);
        a.immediate(Integer::Mov, false, USED_UP, 1);
        a.jump(end);
        a.bind(last_round);
        a.immediate(Integer::Mov, false, USED_UP, 0);
        a.bind(end);
        pass.cache.write_back(pass.a);
        let a = &mut *pass.a;
        a.address(ROWS, At(ROWS, 32));
        a.address(MASKS, At(MASKS, 1));
        a.integer(Integer::Cmp, true, ROWS, LAST);
        a.jump_if(Condition::AboveOrEqual, finished);
        loops::set_back(a, &rounds.written, executed);
        a.jump(next_pass);
        let asides = core::mem::take(&mut pass.asides);
        asides.iter().for_each(|aside| aside.emit(self.a));
        let a = &mut *self.a;
        a.bind(finished);
        a.address(ROWS, At(ROWS, -passes * 32));
        a.test(false, USED_UP);
        a.jump_if(Condition::NotEqual, used_up);
    }
}
