//! Oracle e: what cards were seen to do, against the engine on every backend and tier.

pub mod case;
pub mod file;
mod row;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use belfry_isa::decode::decode_for;
use belfry_isa::encode::encode;
use belfry_isa::exec::{Coverage, coverage};
use belfry_isa::inst::{Arch, Inst, WaveSize};

use crate::engine::Engine;
use crate::reference::End;
use crate::tally::Tally;
use crate::target::{Facts, Target};
use case::Case;
use file::{Operation, Row, Set};
use row::Seen;

/// The sets of this repository: name and text.
const SETS: [(&str, &str); 31] = [
    ("amdgpu-sim-gfx1200", include_str!("../data/cards/amdgpu-sim-gfx1200.txt")),
    ("amdgpu-sim-gfx1200-arithmetic", include_str!("../data/cards/amdgpu-sim-gfx1200-arithmetic.txt")),
    ("amdgpu-sim-gfx1200-carry", include_str!("../data/cards/amdgpu-sim-gfx1200-carry.txt")),
    ("amdgpu-sim-gfx1200-carry-cases", include_str!("../data/cards/amdgpu-sim-gfx1200-carry-cases.txt")),
    ("amdgpu-sim-gfx1200-cases", include_str!("../data/cards/amdgpu-sim-gfx1200-cases.txt")),
    ("amdgpu-sim-gfx1200-compare", include_str!("../data/cards/amdgpu-sim-gfx1200-compare.txt")),
    ("amdgpu-sim-gfx1200-dot2", include_str!("../data/cards/amdgpu-sim-gfx1200-dot2.txt")),
    ("amdgpu-sim-gfx1200-ds", include_str!("../data/cards/amdgpu-sim-gfx1200-ds.txt")),
    ("amdgpu-sim-gfx1200-dual", include_str!("../data/cards/amdgpu-sim-gfx1200-dual.txt")),
    ("amdgpu-sim-gfx1200-images", include_str!("../data/cards/amdgpu-sim-gfx1200-images.txt")),
    ("amdgpu-sim-gfx1200-mem", include_str!("../data/cards/amdgpu-sim-gfx1200-mem.txt")),
    ("amdgpu-sim-gfx1200-mix", include_str!("../data/cards/amdgpu-sim-gfx1200-mix.txt")),
    ("amdgpu-sim-gfx1200-salu", include_str!("../data/cards/amdgpu-sim-gfx1200-salu.txt")),
    ("amdgpu-sim-gfx1200-scalar", include_str!("../data/cards/amdgpu-sim-gfx1200-scalar.txt")),
    ("amdgpu-sim-gfx1200-scratch", include_str!("../data/cards/amdgpu-sim-gfx1200-scratch.txt")),
    ("amdgpu-sim-gfx1200-vop2", include_str!("../data/cards/amdgpu-sim-gfx1200-vop2.txt")),
    ("amdgpu-sim-gfx1200-vop2-cases", include_str!("../data/cards/amdgpu-sim-gfx1200-vop2-cases.txt")),
    ("amdgpu-sim-gfx1200-vop3", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3.txt")),
    ("amdgpu-sim-gfx1200-vop3-omod", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3-omod.txt")),
    ("amdgpu-sim-gfx1200-vop3-one-two", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3-one-two.txt")),
    (
        "amdgpu-sim-gfx1200-vop3-one-two-omod",
        include_str!("../data/cards/amdgpu-sim-gfx1200-vop3-one-two-omod.txt"),
    ),
    (
        "amdgpu-sim-gfx1200-vop3-one-two-scalars",
        include_str!("../data/cards/amdgpu-sim-gfx1200-vop3-one-two-scalars.txt"),
    ),
    ("amdgpu-sim-gfx1200-vop3-sources", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3-sources.txt")),
    ("amdgpu-sim-gfx1200-vop3p", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3p.txt")),
    ("amdgpu-sim-gfx1200-vopc", include_str!("../data/cards/amdgpu-sim-gfx1200-vopc.txt")),
    ("rocjitsu-curves", include_str!("../data/cards/rocjitsu-curves.txt")),
    ("rocjitsu-gfx1100", include_str!("../data/cards/rocjitsu-gfx1100.txt")),
    ("rocjitsu-gfx1100-notes", include_str!("../data/cards/rocjitsu-gfx1100-notes.txt")),
    ("rocjitsu-gfx1201", include_str!("../data/cards/rocjitsu-gfx1201.txt")),
    ("rocjitsu-gfx1201-halves", include_str!("../data/cards/rocjitsu-gfx1201-halves.txt")),
    ("rocjitsu-gfx1201-notes", include_str!("../data/cards/rocjitsu-gfx1201-notes.txt")),
];

/// `s_endpgm` is behind the instruction.
const END_BYTES: usize = 4;

/// The sets, read.
///
/// # Errors
///
/// A committed set that cannot be read; the error names the set and the line.
pub fn sets() -> Result<Vec<Set>, file::Error> {
    SETS.iter().map(|(name, text)| file::parse(name, text)).collect()
}

/// The card whose results an operation was held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Captured {
    /// Results of a neighbour.
    OnNeighbour,
    /// Results of this chip.
    Here,
}

/// The outcome of the sets on one instruction set.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Results compared, per set.
    pub tally: Tally,
    /// Operations that were, by mnemonic, to the bit.
    pub captured: BTreeMap<String, Captured>,
    /// Operations that were to a precision.
    pub near: BTreeSet<String>,
    /// Operations that are lowered and not in any set.
    pub uncaptured: BTreeSet<String>,
    /// Operations of cases that the engine has not, with how many cases wait for them.
    pub absent: BTreeMap<String, usize>,
    /// Operations of sets that the instruction set has not.
    pub unknown: BTreeSet<String>,
}

impl Report {
    fn of(&self, captured: Captured) -> Vec<&str> {
        self.captured.iter().filter(|(_, is)| **is == captured).map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (here, there) = (self.of(Captured::Here), self.of(Captured::OnNeighbour));
        writeln!(out, "{}", self.tally)?;
        writeln!(out, "  captured on this chip: {} operations: {}", here.len(), here.join(" "))?;
        writeln!(out, "  captured on a neighbour: {} operations: {}", there.len(), there.join(" "))?;
        let absent: Vec<String> =
            self.absent.iter().map(|(name, cases)| format!("{name} ({cases})")).collect();
        writeln!(out, "  captured, absent here: {} operations (cases): {}", absent.len(), absent.join(" "))?;
        let near: Vec<&str> = self.near.iter().map(String::as_str).collect();
        writeln!(out, "  captured, held to a precision: {} operations: {}", near.len(), near.join(" "))?;
        write!(out, "  not captured: {} operations", self.uncaptured.len())
    }
}

/// Runs the sets of this repository on an instruction set, in waves of every size; with `fast` in waves of the first size.
///
/// # Errors
///
/// As for [`sets`].
pub fn run(arch: Arch, fast: bool) -> Result<Report, file::Error> {
    Ok(run_sets(&sets()?, arch, fast))
}

/// Runs sets as [`run`] does.
pub fn run_sets(sets: &[Set], arch: Arch, fast: bool) -> Report {
    let mut report = Report::default();
    let entries = coverage(arch);
    let names = |of: &dyn Fn(&Coverage) -> bool| -> BTreeSet<&str> {
        entries.iter().filter(|entry| of(entry)).map(|entry| entry.op.mnemonic()).collect()
    };
    let lowered = names(&|entry| entry.missing.is_empty());
    let absent = names(&is_absent);
    for set in sets {
        let own = set.chip == arch.name();
        let neighbour = set.also.iter().any(|name| name == arch.name());
        if !own && !neighbour {
            continue;
        }
        let captured = if own { Captured::Here } else { Captured::OnNeighbour };
        let mut cases: Vec<&Case> = Vec::new();
        for case in &set.cases {
            if let Some(why) = misnamed(arch, case) {
                report.tally.count(&set.name, Some(format!("line {}: {why}", case.line)));
            } else if absent.contains(case.name.as_str()) {
                *report.absent.entry(case.name.clone()).or_default() += 1;
            } else {
                cases.push(case);
            }
        }
        for target in Target::all(arch).take(if fast { 1 } else { 2 }) {
            let mut engines = Engine::all(arch);
            for operation in &set.operations {
                if !compare(&mut report, &set.name, target, &mut engines, operation) {
                    report.unknown.insert(operation.name.clone());
                } else if operation.within != 0 {
                    report.near.insert(operation.name.clone());
                } else {
                    let entry = report.captured.entry(operation.name.clone()).or_insert(captured);
                    *entry = captured.max(*entry);
                }
            }
            for case in &cases {
                compare_case(&mut report, &set.name, target, &mut engines, case);
                let entry = report.captured.entry(case.name.clone()).or_insert(captured);
                *entry = captured.max(*entry);
            }
        }
    }
    // Other results of the same operation are to a precision only.
    let Report { near, captured, .. } = &mut report;
    captured.retain(|name, _| !near.contains(name));
    let others = lowered.into_iter().map(str::to_owned);
    report.uncaptured =
        others.filter(|name| !report.captured.contains_key(name) && !report.near.contains(name)).collect();
    report
}

/// The fault in the name of a case, if any.
fn misnamed(arch: Arch, case: &Case) -> Option<String> {
    let code: Vec<u8> = case.code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut names = Vec::new();
    let mut at = 0;
    while at < code.len() {
        match decode_for(arch, WaveSize::Wave32, &code[at..]) {
            Ok(inst) if inst.op.mnemonic() == case.name => return None,
            Ok(inst) => {
                names.push(inst.op.mnemonic());
                at += usize::from(inst.size);
            }
            Err(error) => return Some(format!("{} is {error:?}", case.name)),
        }
    }
    Some(format!("{} is {}", case.name, names.join(" ")))
}

/// Tells whether the engine takes no form of an operation.
fn is_absent(entry: &Coverage) -> bool {
    let has = |missing| entry.missing.contains(&missing);
    has("all") || has("wave32") && has("wave64")
}

/// Compares all rows of an operation in each of its encodings; `false` when there is none.
fn compare(
    report: &mut Report,
    set: &str,
    target: Target,
    engines: &mut [Engine],
    operation: &Operation,
) -> bool {
    let instructions = row::instructions(target, operation);
    for inst in &instructions {
        let Ok(encoded) = encode(target.arch, inst) else { continue };
        let code = [encoded.bytes(), &Facts::of(target.arch).words.end.to_le_bytes()[..END_BYTES]].concat();
        let at_once = row::at_once(target, inst, operation);
        for rows in operation.rows.chunks(at_once) {
            let state = row::state(target, inst, operation, rows);
            for engine in &mut *engines {
                let (end, after) = engine.run(&state, &code);
                for (lane, row) in (0..).zip(rows) {
                    let got = if end == End::Done { Ok(Seen::of(inst, &after, lane)) } else { Err(&end) };
                    report.tally.count(set, failure(target, engine, operation, (inst, row), got));
                }
            }
        }
    }
    !instructions.is_empty()
}

/// Compares what a case leaves behind.
fn compare_case(report: &mut Report, set: &str, target: Target, engines: &mut [Engine], case: &Case) {
    let words = case.code.iter().flat_map(|word| word.to_le_bytes());
    let code: Vec<u8> = words
        .chain(Facts::of(target.arch).words.end.to_le_bytes())
        .take(case.code.len() * 4 + END_BYTES)
        .collect();
    // Dual instructions are of waves of 32 alone.
    if decode_for(target.arch, target.wave, &code).is_err() {
        return;
    }
    let before = case.state(target);
    for engine in engines {
        let (end, after) = engine.run(&before, &code);
        let wrong = match &end {
            End::Done => case
                .difference(&before, &after)
                .map(|(cell, got, seen)| format!("{cell:?}: {got:x}, the card {seen:x}")),
            end => Some(format!("{end:?}")),
        };
        let at = |why| {
            format!("line {}: {} ({:?} {:?}): {why}", case.line, case.name, engine.backend(), target.wave)
        };
        report.tally.count(set, wrong.map(at));
    }
}

/// The fault in a result, if any.
fn failure(
    target: Target,
    engine: &Engine,
    operation: &Operation,
    (inst, row): (&Inst, &Row),
    got: Result<Seen, &End>,
) -> Option<String> {
    let said = match got {
        Ok(got) if got.is(row, operation.within) => return None,
        Ok(got) => got.to_string(),
        Err(end) => format!("{end:?}"),
    };
    let sources: Vec<String> = row.sources.iter().map(|bits| format!("{bits:x}")).collect();
    Some(format!(
        "line {}: {} {:?} {} ({:?} {:?}): {said}, the card {}",
        row.line,
        operation.name,
        inst.format,
        sources.join(" "),
        engine.backend(),
        target.wave,
        Seen::on_card(row)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_whole_and_say_where_they_are_from() {
        let sets = sets().unwrap();
        assert!(sets.iter().map(|set| set.operations.len()).sum::<usize>() > 40);
        for set in &sets {
            assert!(set.licence.starts_with("MIT"), "{}", set.name);
            assert_eq!(set.source.split(' ').count(), 2, "{}: repository and file", set.name);
        }
    }
}
