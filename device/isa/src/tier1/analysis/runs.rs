//! Runs: elements that can be done for some lanes after the others.

use super::template;
use super::{EXEC, SCC};
use crate::exec::di::{Di, Kind};
use crate::exec::form::{Form, When};
use crate::registers::slot;

/// Most elements of a run.
pub(crate) const LONGEST: usize = 512;

/// Words that a back end has room for: the count of instructions, and scalar registers that the loop writes.
pub(crate) const ROOM: usize = 16;

/// Returns true if an element can be done for some lanes after the others: it never goes to its handler.
pub(crate) fn is_of_lanes(form: Form, d: &Di) -> bool {
    match form {
        Form::Vector(op) => template::vector(op, d).is_some_and(|template| !template.may_leave()),
        Form::Carry(op) => !template::is_division(op),
        form => form.is_arithmetic(),
    }
}

/// Scalar registers that an element of the lanes takes for all lanes, and those that it takes for masks.
pub(crate) fn scalars_of(form: Form, d: &Di) -> (Vec<u32>, Vec<u32>) {
    let (mut splats, mut masks) = (Vec::new(), Vec::new());
    let sources = if let Form::Pair(..) = form { 2 } else { 3 };
    for (n, source) in d.src[..sources].iter().enumerate().filter(|(_, source)| source.kind == Kind::Scalar) {
        if matches!(form, Form::Select | Form::SelectHalf) && n == 2 {
            masks.push(source.value);
            continue;
        }
        splats.push(source.value);
        if template::is_wide(form, d) {
            splats.push(source.value + 1);
        }
    }
    if let Form::Carry(op) = form
        && template::takes_carry(op)
    {
        masks.push(d.imm);
    }
    (splats, masks)
}

/// The mask that an element writes.
pub(crate) fn mask_of(form: Form, d: &Di) -> Option<u32> {
    match form {
        Form::Compare(_) => Some(d.dst),
        Form::Carry(_) if d.dst2 != slot::DUMP as u32 => Some(d.dst2),
        _ => None,
    }
}

/// Scalar registers that are read and written.
#[derive(Default)]
struct Scalars {
    splats: Vec<u32>,
    masks: Vec<u32>,
    written: Vec<u32>,
}

/// Elements that are done in one go: those of the lanes, and scalar ones that can as well be before them all.
#[derive(Default)]
pub(crate) struct Run {
    pub(crate) elements: usize,
    pub(crate) lanes: Vec<usize>,
    pub(crate) scalars: Vec<usize>,
}

/// The run from an element on, if one begins there; `elements` are those up to the end of the block, and `is_of_lanes` says which of
/// them, by their places, are what runs are made of.
pub(crate) fn run_of(
    elements: &[(Form, &Di)],
    halves: u32,
    mut is_of_lanes: impl FnMut(usize, Form, &Di) -> bool,
) -> Option<Run> {
    let mut run = Run::default();
    let mut of = Scalars::default();
    for (at, &(form, d)) in elements.iter().enumerate().take(LONGEST) {
        if let Form::Scalar(_) = form {
            if run.lanes.is_empty() || !of.is_apart(d) {
                break;
            }
            run.scalars.push(at);
        } else if is_of_lanes(at, form, d) && of.add(form, d, halves) {
            run.lanes.push(at);
            run.elements = at + 1;
        } else {
            break;
        }
    }
    // Scalar elements after the last one of the lanes are none of the run's.
    run.scalars.retain(|&at| at < run.elements);
    (!run.lanes.is_empty()).then_some(run)
}

fn near(a: u32, b: u32) -> bool {
    a.abs_diff(b) < 2
}

impl Scalars {
    /// Adds an element of the lanes; `false` if lanes may not be done after the others with it among them.
    fn add(&mut self, form: Form, d: &Di, halves: u32) -> bool {
        let (splats, masks) = scalars_of(form, d);
        let written = mask_of(form, d);
        let all_written = || self.written.iter().copied().chain(written);
        let within = |mask: u32, register: u32| register.wrapping_sub(mask) < halves;
        let overlap = |a: u32, b: u32| a != b && (within(a, b) || within(b, a));
        let splat_is_written =
            all_written().any(|mask| self.splats.iter().chain(&splats).any(|&splat| within(mask, splat)));
        let masks_overlap = all_written().any(|mask| {
            self.masks.iter().chain(&masks).chain(&self.written).any(|&other| overlap(mask, other))
        });
        // EXEC is a mask of every element that has lanes off.
        let exec = all_written().any(|mask| overlap(mask, EXEC));
        if splat_is_written || masks_overlap || exec {
            return false;
        }
        self.splats.extend(splats);
        self.masks.extend(masks);
        self.written.extend(written);
        true
    }

    /// Returns true if a scalar element can be done before all elements of the lanes so far.
    fn is_apart(&self, d: &Di) -> bool {
        let reads_mask = d
            .src
            .iter()
            .filter(|source| source.kind != Kind::Constant)
            .any(|source| self.written.iter().any(|&mask| near(mask, source.value)));
        let writes = |register: u32| near(d.dst, register) || register == SCC;
        let mut all = self.splats.iter().chain(&self.masks).chain(&self.written);
        !reads_mask && !all.any(|&register| writes(register)) && !near(d.dst, EXEC) && !near(d.dst, EXEC + 1)
    }
}

/// A block that is a loop of its own, all of whose rounds can be done for some lanes after the others.
pub(crate) struct Loop {
    /// Scalar registers that rounds write: they are set back before the next lanes.
    pub(crate) written: Vec<u32>,
    /// Masks that lanes write.
    pub(crate) masks: Vec<u32>,
}

/// Returns the loop that a block's elements, without its branch, make, if they do. Every few lanes then go through as
/// many rounds with the same scalars, because nothing that scalar elements or the branch read comes from lanes.
pub(crate) fn loop_of(
    elements: &[(Form, &Di)],
    when: When,
    halves: u32,
    is_of_lanes: impl Fn(Form, &Di) -> bool,
) -> Option<Loop> {
    if elements.len() > LONGEST {
        return None;
    }
    let mut of = Scalars::default();
    let mut written = Vec::new();
    let mut read = Vec::new();
    for &(form, d) in elements {
        if let Form::Scalar(_) = form {
            // Results are of up to 64 bits.
            written.extend([d.dst, d.dst + 1]);
            let sources = d.src.iter().filter(|source| source.kind != Kind::Constant);
            read.extend(sources.map(|source| source.value));
        } else if !is_of_lanes(form, d) || !of.add(form, d, halves) {
            return None;
        }
    }
    written.push(SCC);
    written.sort_unstable();
    written.dedup();
    let of_lanes = |register: u32| of.written.iter().any(|&mask| near(mask, register));
    let apart = matches!(when, When::Scc(_) | When::Always)
        && !written.iter().chain(&read).any(|&register| of_lanes(register))
        && written.len() + 2 <= ROOM;
    apart.then_some(Loop { written, masks: of.written })
}
