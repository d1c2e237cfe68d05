//! Oracle b: every operation that the engine has semantics for, against the reference and across the backends.

mod addresses;
pub(crate) mod case;
mod images;
mod matrix;
pub(crate) mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use belfry_isa::decode::decode_for;
use belfry_isa::disasm::Disassembly;
use belfry_isa::encode::encode;
use belfry_isa::exec::{Coverage, coverage};
use belfry_isa::inst::{Arch, Dpp, Inst};
use belfry_isa::lanes::BackendKind;
use belfry_isa::tables::{Pattern, patterns};

use crate::decode::{hex, name};
use crate::engine::{CODE_SIZE, Engine};
use crate::random::Random;
use crate::reference::{self, End, State};
use crate::tally::Tally;
use crate::target::{Facts, Target};
pub(crate) use case::START;

/// Findings of the oracle of semantics.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Instructions run, per encoding.
    pub tally: Tally,
    /// Counts of checks, per encoding and operation.
    pub operations: BTreeMap<String, BTreeMap<&'static str, Checked>>,
    /// Backends of this host.
    pub backends: Vec<BackendKind>,
    /// Operations the engine has semantics for.
    pub expected: BTreeSet<String>,
    /// Operations without semantics.
    pub absent: BTreeSet<&'static str>,
    /// Operations without semantics that were seen to fault by name.
    pub faulted: BTreeSet<&'static str>,
}

/// Cases of an operation in one encoding, by the way in which they were checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checked {
    /// Cases that ran to their end and were compared with the reference.
    pub reference: usize,
    /// Cases compared across backends only.
    pub backends: usize,
    /// Cases that ended in the same fault everywhere.
    pub faults: usize,
    /// Cases with exceptions enabled whose `TRAPSTS` was compared.
    pub exceptions: usize,
}

impl Report {
    /// Operations nothing has checked.
    pub fn unchecked(&self) -> Vec<String> {
        let met: BTreeSet<&str> =
            self.operations.values().flat_map(|operations| operations.keys().copied()).collect();
        let never = self
            .expected
            .iter()
            .filter(|name| !met.contains(name.as_str()))
            .map(|name| format!("any {name}"));
        let faulting =
            self.unchecked_operations().map(|(encoding, operation)| format!("{encoding} {operation}"));
        never.chain(faulting).collect()
    }

    fn unchecked_operations(&self) -> impl Iterator<Item = (&str, &'static str)> {
        self.operations.iter().flat_map(|(encoding, operations)| {
            let unchecked =
                operations.iter().filter(|(_, checked)| checked.reference + checked.backends == 0);
            unchecked.map(move |(operation, _)| (encoding.as_str(), *operation))
        })
    }

    /// Cases whose `TRAPSTS` was compared with exceptions enabled.
    pub fn exceptions(&self) -> usize {
        self.operations.values().flat_map(BTreeMap::values).map(|checked| checked.exceptions).sum()
    }

    /// Failures.
    pub fn wrong(&self) -> usize {
        self.tally.wrong() + self.unchecked().len()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "  {:<16} {:>10} {:>14} {:>14} {:>9} {:>9} {:>7}",
            "encoding", "operations", "with reference", "backends only", "cases", "faults", "wrong"
        )?;
        let (mut all, mut referenced) = (BTreeSet::<&str>::new(), BTreeSet::<&str>::new());
        for (encoding, operations) in &self.operations {
            let with = operations.iter().filter(|(_, checked)| checked.reference > 0);
            let row = self.tally.rows.get(encoding).cloned().unwrap_or_default();
            let faults: usize = operations.values().map(|checked| checked.faults).sum();
            let only: Vec<&str> = operations
                .iter()
                .filter(|(_, checked)| checked.reference == 0)
                .map(|(name, _)| *name)
                .collect();
            writeln!(
                out,
                "  {encoding:<16} {:>10} {:>14} {:>14} {:>9} {faults:>9} {:>7}",
                operations.len(),
                with.clone().count(),
                only.len(),
                row.checked,
                row.wrong
            )?;
            if !only.is_empty() {
                writeln!(out, "      backends only: {}", only.join(" "))?;
            }
            all.extend(operations.keys());
            referenced.extend(with.map(|(name, _)| name));
            for example in &row.examples {
                writeln!(out, "      {example}")?;
            }
        }
        writeln!(
            out,
            "  {} operations, {} with the independent reference, {} across backends only; {} absent, of which {} seen to fault by name",
            all.len(),
            referenced.len(),
            all.len() - referenced.len(),
            self.absent.len(),
            self.faulted.len()
        )?;
        writeln!(out, "  TRAPSTS compared in {} cases with exceptions enabled", self.exceptions())?;
        for missing in self.unchecked() {
            writeln!(out, "  NOT CHECKED: {missing}")?;
        }
        let backends: Vec<String> = self.backends.iter().map(|backend| format!("{backend:?}")).collect();
        write!(
            out,
            "  backends: {}; {} cases, {} wrong",
            backends.join(", "),
            self.tally.checked(),
            self.tally.wrong()
        )
    }
}

/// The encoding, with DPP named.
fn encoding(inst: &Inst) -> String {
    let format = name(inst.format);
    match inst.dpp {
        None if inst.sdwa.is_some() => format!("{format} SDWA"),
        None => format,
        Some(Dpp::Dpp8(_)) => format!("{format} DPP8"),
        Some(Dpp::Dpp16(_)) => format!("{format} DPP16"),
    }
}

/// Cases of the forms of an operation that was met with faults only.
const RARE: usize = 200;

/// Checks `cases` instructions of every form of every operation that lowers, in waves of 32 and of 64; of operations
/// whose mnemonic contains `only`, when that is given.
pub fn run(arch: Arch, cases: usize, seed: u64, only: Option<&str>) -> Report {
    let mut report = Report::default();
    let complete: BTreeSet<&str> = coverage(arch)
        .iter()
        .filter(|entry| is_there(arch, entry))
        .map(|entry| entry.op.mnemonic())
        .collect();
    report.absent = coverage(arch)
        .iter()
        .filter(|entry| !is_there(arch, entry))
        .map(|entry| entry.op.mnemonic())
        .collect();
    let mut engines = Engine::all(arch);
    report.expected = complete
        .iter()
        .filter(|name| only.is_none_or(|only| name.contains(only)))
        .map(|name| (*name).to_owned())
        .collect();
    report.backends = engines.iter().map(Engine::backend).collect();
    let mut random = Random::new(seed);
    for pattern in patterns(arch) {
        if only.is_some_and(|only| !pattern.op.mnemonic().contains(only)) {
            continue;
        }
        if !complete.contains(pattern.op.mnemonic()) {
            absent(&mut random, arch, &pattern, &mut engines, &mut report);
            continue;
        }
        for target in Target::all(arch) {
            for _ in 0..cases {
                one(&mut random, &pattern, target, &mut engines, &mut report);
            }
        }
    }
    // What has met nothing but faults gets more tries.
    let rare: BTreeSet<&str> = report.unchecked_operations().map(|(_, operation)| operation).collect();
    for pattern in patterns(arch).filter(|pattern| rare.contains(pattern.op.mnemonic())) {
        for target in Target::all(arch) {
            for _ in 0..RARE {
                one(&mut random, &pattern, target, &mut engines, &mut report);
            }
        }
    }
    report
}

/// Returns true if an instruction set has an operation whose mnemonic contains `part`.
#[must_use]
pub fn has(arch: Arch, part: &str) -> bool {
    patterns(arch).any(|pattern| pattern.op.mnemonic().contains(part))
}

/// Returns true if waves of some size have all of an operation; waves of the other size then stop at it.
fn is_there(arch: Arch, entry: &Coverage) -> bool {
    let of_one_size = matches!(entry.missing.as_slice(), ["wave32"] | ["wave64"]);
    entry.is_complete() || of_one_size && arch.wave_sizes().len() > 1
}

/// Checks that an operation without semantics stops the wave with its name.
fn absent(random: &mut Random, arch: Arch, pattern: &Pattern, engines: &mut [Engine], report: &mut Report) {
    let state = values::state(random, Target { arch, wave: arch.wave_sizes()[0] });
    let state = State { pc: state.pc + START as u64, ..state };
    // DPP8 is marked by an operand; some sources can only be vector registers.
    for marker in [0, 0xe9, 0xe9 << 32, 0x100 << 32 | 0x100 << 41 | 0x100 << 50] {
        let bits = pattern.value | marker & !pattern.mask;
        let Ok(inst) = decode_for(arch, arch.wave_sizes()[0], &bits.to_le_bytes()) else { continue };
        if inst.op != pattern.op {
            continue;
        }
        let end = Facts::of(arch).words.end;
        let mut code = end.to_le_bytes().repeat(CODE_SIZE / 4);
        let size = usize::from(inst.size);
        code[START..START + size].copy_from_slice(&bits.to_le_bytes()[..size]);
        for engine in engines.iter_mut() {
            let (end, _) = engine.run(&state, &code);
            let named = engine.unimplemented() == Some(inst.op);
            let failure = (end != End::Unknown || !named)
                .then(|| format!("{} {:?}: ends with {end:?}", inst.op.mnemonic(), engine.backend()));
            report.tally.count(&format!("{} absent", name(inst.format)), failure);
        }
        report.faulted.insert(inst.op.mnemonic());
        return;
    }
}

/// Draws and checks one instruction.
fn one(random: &mut Random, pattern: &Pattern, target: Target, engines: &mut [Engine], report: &mut Report) {
    let Some(inst) = case::instruction(random, pattern, target, case::ALL) else { return };
    let Ok(encoded) = encode(target.arch, &inst) else { return };
    let state = case::state(random, &inst, target);
    let mut code = Facts::of(target.arch).words.end.to_le_bytes().repeat(CODE_SIZE / 4);
    code[START..START + encoded.bytes().len()].copy_from_slice(encoded.bytes());
    let encoding = encoding(&inst);
    let mut expected = state.clone();
    let mut end = reference::execute(&mut expected, &inst).err();
    if end.is_none() {
        end = reference::run(&mut expected, &code, crate::engine::CODE, 4);
    }
    let end = end.unwrap_or(End::Unknown);
    let known = end != End::Unknown;
    let results: Vec<(End, State)> = engines.iter_mut().map(|engine| engine.run(&state, &code)).collect();
    let failure = results.iter().zip(engines.iter()).find_map(|((got_end, got), engine)| {
        let (end, expected) = if known { (&end, &expected) } else { (&results[0].0, &results[0].1) };
        if got_end != end {
            return Some(format!("{:?}: ends with {got_end:?}, not {end:?}", engine.backend()));
        }
        // No source defines at which point of an instruction a fault takes effect.
        if !matches!(end, End::Done | End::Stop(_)) {
            return None;
        }
        difference(got, expected, &state).map(|text| format!("{:?}: {text}", engine.backend()))
    });
    let checked =
        report.operations.entry(encoding.clone()).or_default().entry(inst.op.mnemonic()).or_default();
    match (&results[0].0, known) {
        (End::Done | End::Stop(_), true) => {
            checked.reference += 1;
            checked.exceptions += usize::from(state.records() && expected.trapsts.is_some());
        }
        (End::Done | End::Stop(_), false) => checked.backends += 1,
        // An instruction that ends the wave in a fault everywhere has been compared, but its results have not.
        _ => checked.faults += 1,
    }
    let failure = failure.map(|text| {
        let listing = Disassembly::new(inst, target.arch, target.wave);
        format!(
            "{} `{listing}` mode {:#x} exec {:#x} {:?}: {text}",
            hex(encoded.bytes()),
            state.mode,
            state.exec(),
            target.wave
        )
    });
    report.tally.count(&encoding, failure);
}

/// The first place where two states differ.
pub(crate) fn difference(got: &State, expected: &State, before: &State) -> Option<String> {
    let known = State { trapsts: got.trapsts, ..expected.clone() };
    if got == expected || (expected.trapsts.is_none() && *got == known) {
        return None;
    }
    for (number, (got, want)) in got.v.iter().zip(&expected.v).enumerate() {
        if let Some(lane) = (0..64).find(|&lane| got[lane] != want[lane]) {
            let old = before.v[number][lane];
            return Some(format!(
                "v{number} lane {lane} is {:#x}, not {:#x} (was {old:#x})",
                got[lane], want[lane]
            ));
        }
    }
    for number in 0..128 {
        let (a, b) = (got.s[number], expected.s[number]);
        if a != b {
            return Some(format!("s{number} is {a:#x}, not {b:#x} (was {:#x})", before.s[number]));
        }
    }
    if got.scc != expected.scc {
        return Some(format!("SCC is {}, not {}", got.scc, expected.scc));
    }
    if got.pc != expected.pc {
        return Some(format!("pc is {:#x}, not {:#x}", got.pc, expected.pc));
    }
    if got.mode != expected.mode {
        return Some(format!("MODE is {:#x}, not {:#x}", got.mode, expected.mode));
    }
    if got.trapsts != expected.trapsts && expected.trapsts.is_some() {
        return Some(format!("TRAPSTS is {:x?}, not {:x?}", got.trapsts, expected.trapsts));
    }
    for (what, got, want) in [("LDS", &got.lds, &expected.lds), ("memory", &got.memory, &expected.memory)] {
        if let Some(at) = (0..got.len()).find(|&at| got[at] != want[at]) {
            return Some(format!("{what} byte {at:#x} is {:#x}, not {:#x}", got[at], want[at]));
        }
    }
    Some("states differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_count_as_a_difference_when_they_are_known() {
        let state = values::state(
            &mut Random::new(1),
            Target { arch: Arch::Gfx1100, wave: belfry_isa::inst::WaveSize::Wave32 },
        );
        let got = State { trapsts: Some(1), ..state.clone() };
        assert_eq!(difference(&got, &got, &state), None);
        let known = State { trapsts: Some(33), ..state.clone() };
        assert!(difference(&got, &known, &state).is_some_and(|text| text.contains("TRAPSTS")));
        let unknown = State { trapsts: None, ..state.clone() };
        assert_eq!(difference(&got, &unknown, &state), None);
        let other = State { trapsts: None, scc: !state.scc, ..state.clone() };
        assert!(difference(&got, &other, &state).is_some_and(|text| text.contains("SCC")));
    }
}
