//! Oracle e: what cards were seen to do, against the engine on every backend and tier.

pub mod case;
pub mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use belfry_isa::decode::decode_for;
use belfry_isa::encode::encode;
use belfry_isa::exec::coverage;
use belfry_isa::inst::{Arch, Format, Inst, Op, Operand, WaveSize};
use belfry_isa::tables::{Pattern, operand_types, patterns};

use crate::engine::{CODE, Engine};
use crate::random::Random;
use crate::reference::{End, State};
use crate::semantics::values;
use crate::tally::Tally;
use crate::target::{Facts, Target};
use case::Case;
use file::{Operation, Row, Set};

/// The sets of this repository: name and text.
const SETS: [(&str, &str); 15] = [
    ("amdgpu-sim-gfx1200", include_str!("../data/cards/amdgpu-sim-gfx1200.txt")),
    ("amdgpu-sim-gfx1200-arithmetic", include_str!("../data/cards/amdgpu-sim-gfx1200-arithmetic.txt")),
    ("amdgpu-sim-gfx1200-cases", include_str!("../data/cards/amdgpu-sim-gfx1200-cases.txt")),
    ("amdgpu-sim-gfx1200-dot2", include_str!("../data/cards/amdgpu-sim-gfx1200-dot2.txt")),
    ("amdgpu-sim-gfx1200-ds", include_str!("../data/cards/amdgpu-sim-gfx1200-ds.txt")),
    ("amdgpu-sim-gfx1200-salu", include_str!("../data/cards/amdgpu-sim-gfx1200-salu.txt")),
    ("amdgpu-sim-gfx1200-vop3", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3.txt")),
    ("amdgpu-sim-gfx1200-vop3p", include_str!("../data/cards/amdgpu-sim-gfx1200-vop3p.txt")),
    ("amdgpu-sim-gfx1200-vopc", include_str!("../data/cards/amdgpu-sim-gfx1200-vopc.txt")),
    ("rocjitsu-curves", include_str!("../data/cards/rocjitsu-curves.txt")),
    ("rocjitsu-gfx1201-halves", include_str!("../data/cards/rocjitsu-gfx1201-halves.txt")),
    ("rocjitsu-gfx1100", include_str!("../data/cards/rocjitsu-gfx1100.txt")),
    ("rocjitsu-gfx1100-notes", include_str!("../data/cards/rocjitsu-gfx1100-notes.txt")),
    ("rocjitsu-gfx1201", include_str!("../data/cards/rocjitsu-gfx1201.txt")),
    ("rocjitsu-gfx1201-notes", include_str!("../data/cards/rocjitsu-gfx1201-notes.txt")),
];

/// Register of the result, behind those of sources.
const RESULT: u8 = 16;
/// `s_endpgm` is behind the instruction.
const END_BYTES: usize = 4;

/// The sets, read.
pub fn sets() -> Result<Vec<Set>, file::Error> {
    SETS.iter().map(|(name, text)| file::parse(name, text)).collect()
}

/// Whose results an operation was held to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Captured {
    /// Those of a neighbour.
    OnNeighbour,
    /// Those of this chip.
    Here,
}

/// What came of the sets on one instruction set.
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
        let near: Vec<&str> = self.near.iter().map(String::as_str).collect();
        writeln!(out, "  captured, held to a precision: {} operations: {}", near.len(), near.join(" "))?;
        write!(out, "  not captured: {} operations", self.uncaptured.len())
    }
}

/// Runs all sets on an instruction set, in waves of every size; with `fast` each form of an operation on one backend and tier of each
/// kind, in waves of the first size.
pub fn run(arch: Arch, fast: bool) -> Result<Report, file::Error> {
    let mut report = Report::default();
    for set in sets()? {
        let own = set.chip == arch.name();
        let neighbour = set.also.iter().any(|name| name == arch.name());
        if !own && !neighbour {
            continue;
        }
        let captured = if own { Captured::Here } else { Captured::OnNeighbour };
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
            for case in &set.cases {
                compare_case(&mut report, &set.name, target, &mut engines, case);
                let entry = report.captured.entry(case.name.clone()).or_insert(captured);
                *entry = captured.max(*entry);
            }
        }
    }
    // Other results of the same operation are to a precision only.
    let Report { near, captured, .. } = &mut report;
    captured.retain(|name, _| !near.contains(name));
    let lowered = coverage(arch).into_iter().filter(|entry| entry.missing.is_empty());
    let others = lowered.map(|entry| entry.op.mnemonic().to_owned());
    report.uncaptured =
        others.filter(|name| !report.captured.contains_key(name) && !report.near.contains(name)).collect();
    Ok(report)
}

/// Compares all rows of an operation in each of its encodings; `false` when there is none.
fn compare(
    report: &mut Report,
    set: &str,
    target: Target,
    engines: &mut [Engine],
    operation: &Operation,
) -> bool {
    let instructions = instructions(target, operation);
    for inst in &instructions {
        let Ok(encoded) = encode(target.arch, inst) else { continue };
        let code = [encoded.bytes(), &Facts::of(target.arch).words.end.to_le_bytes()[..END_BYTES]].concat();
        let at_once = if matches!(inst.dst, Operand::Sgpr(_)) { 1 } else { lanes(target) };
        for rows in operation.rows.chunks(at_once) {
            let state = state(target, inst, operation, rows);
            for engine in &mut *engines {
                let (end, after) = engine.run(&state, &code);
                for (lane, row) in (0..).zip(rows) {
                    let got = if end == End::Done { Ok(result(inst, &after, lane)) } else { Err(&end) };
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
    let named = decode_for(target.arch, target.wave, &code).map(|inst| inst.op.mnemonic());
    // Dual instructions are of waves of 32 alone.
    if named.is_err() && decode_for(target.arch, WaveSize::Wave32, &code).is_ok() {
        return;
    }
    let before = case.state(target);
    for engine in engines {
        let (end, after) = engine.run(&before, &code);
        let wrong = match (&named, &end) {
            (Ok(name), _) if *name != case.name => Some(format!("the code is {name}")),
            (Err(error), _) => Some(format!("{error:?}")),
            (_, End::Done) => case
                .difference(&before, &after)
                .map(|(cell, got, seen)| format!("{cell:?}: {got:x}, the card {seen:x}")),
            (_, end) => Some(format!("{end:?}")),
        };
        let at = |why| {
            format!("line {}: {} ({:?} {:?}): {why}", case.line, case.name, engine.backend(), target.wave)
        };
        report.tally.count(set, wrong.map(at));
    }
}

fn lanes(target: Target) -> usize {
    match target.wave {
        WaveSize::Wave32 => 32,
        WaveSize::Wave64 => 64,
    }
}

/// What is wrong with a result, if anything.
fn failure(
    target: Target,
    engine: &Engine,
    operation: &Operation,
    (inst, row): (&Inst, &Row),
    got: Result<u64, &End>,
) -> Option<String> {
    let said = match got {
        Ok(got) if got.abs_diff(row.result) <= operation.within => return None,
        Ok(got) => format!("{got:x}"),
        Err(end) => format!("{end:?}"),
    };
    let sources: Vec<String> = row.sources.iter().map(|bits| format!("{bits:x}")).collect();
    Some(format!(
        "line {}: {} {:?} {} ({:?} {:?}): {said}, the card {:x}",
        row.line,
        operation.name,
        inst.format,
        sources.join(" "),
        engine.backend(),
        target.wave,
        row.result
    ))
}

/// The operation in each encoding that takes its modifiers, sources in registers.
fn instructions(target: Target, operation: &Operation) -> Vec<Inst> {
    let Some(&op) = Op::ALL.iter().find(|op| op.mnemonic() == operation.name) else { return Vec::new() };
    let sources = operation.rows.first().map_or(0, |row| row.sources.len());
    let plain = operation.mods == belfry_isa::inst::Mods { op_sel_hi: 7, ..Default::default() };
    let fits = |pattern: &Pattern| {
        pattern.op == op
            && match pattern.format {
                Format::Vop3 | Format::Vop3Sd | Format::Vop3P => true,
                Format::Vop1 | Format::Vop2 => plain,
                _ => false,
            }
    };
    let mut found: Vec<Inst> = Vec::new();
    for pattern in patterns(target.arch).filter(fits) {
        let Some(inst) = instruction(target, operation, &pattern, sources) else { continue };
        if !found.contains(&inst) {
            found.push(inst);
        }
    }
    found
}

fn instruction(target: Target, operation: &Operation, pattern: &Pattern, sources: usize) -> Option<Inst> {
    let mut inst = decode_for(target.arch, target.wave, &pattern.value.to_le_bytes()).ok()?;
    if inst.op != pattern.op || inst.format != pattern.format || inst.dpp.is_some() || inst.sdwa.is_some() {
        return None;
    }
    let scalar = matches!(inst.dst, Operand::Sgpr(_));
    let register = |number: u8| if scalar { Operand::Sgpr(number) } else { Operand::Vgpr(number) };
    let accumulates = inst.src[2].is_some() && inst.src[2] == inst.dst && inst.format == Format::Vop2;
    for n in 0..sources {
        inst.src[n] = register(n as u8 * 4);
    }
    inst.dst = register(RESULT);
    if accumulates {
        inst.src[2] = inst.dst;
    }
    if matches!(inst.format, Format::Vop3 | Format::Vop3Sd | Format::Vop3P) {
        let op_sel_hi =
            if inst.format == Format::Vop3P { operation.mods.op_sel_hi } else { inst.mods.op_sel_hi };
        inst.mods = belfry_isa::inst::Mods { op_sel_hi, ..operation.mods };
    }
    let encoded = encode(target.arch, &inst).ok()?;
    let again = decode_for(target.arch, target.wave, encoded.bytes()).ok()?;
    let used = again.src.iter().take(3).filter(|source| source.is_some()).count();
    (again.op == pattern.op && used == sources).then_some(again)
}

/// A wave with the sources of a row in each lane.
fn state(target: Target, inst: &Inst, operation: &Operation, rows: &[Row]) -> State {
    let mut state = values::state(&mut Random::new(1), target);
    let (set, clear) = Facts::of(target.arch).fixed_mode;
    state.mode = operation.mode & !clear | set;
    (state.pc, state.s[126], state.s[127]) = (CODE, u32::MAX, u32::MAX);
    for (lane, row) in (0..).zip(rows) {
        for (source, &bits) in inst.src.iter().zip(&row.sources) {
            match *source {
                Operand::Vgpr(register) => state.set_vpair(u32::from(register), lane, bits),
                Operand::Sgpr(register) => state.set_pair(register, bits),
                _ => {}
            }
        }
    }
    state
}

/// The result in a lane.
fn result(inst: &Inst, after: &State, lane: u32) -> u64 {
    let words = match inst.dst {
        Operand::Sgpr(register) => u64::from(after.sgpr(register)),
        _ => after.vpair(u32::from(RESULT), lane),
    };
    let wide = operand_types(after.arch, inst)
        .iter()
        .any(|operand| operand.place == belfry_isa::tables::Place::Dst && operand.words == 2);
    let half = ["_f16", "_bf16", "_f16_f32", "_i16_f16", "_u16_f16", "_f16_u16", "_f16_i16"];
    let narrow = half.iter().any(|end| inst.op.mnemonic().ends_with(end)) && is_half(inst.op);
    match (wide, narrow) {
        (true, _) => words,
        (false, true) => words & 0xffff,
        (false, false) => words & 0xffff_ffff,
    }
}

/// Whether the result of an operation is a half.
fn is_half(op: Op) -> bool {
    let name = op.mnemonic();
    !name.contains("_f32_f16")
        && !name.contains("_f32_bf16")
        && !name.contains("_pk_")
        && !name.contains("_i32_")
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
