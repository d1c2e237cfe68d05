//! Oracle d: random programs on the engine and on the reference.
//!
//! A program is a sequence of blocks: straight-line code, code under a condition of each lane (EXEC), code a scalar
//! branch skips, and loops with a counter. Its instructions are drawn from every operation with semantics; registers
//! that address memory are masked into the sandbox before. Registers, memory, LDS, `SCC`, `MODE` and, if the
//! reference knows all exceptions, `TRAPSTS` must be equal at the end, for every backend.

mod build;

use std::fmt;

use belfry_isa::disasm::{Disassembly, disassemble};
use belfry_isa::inst::Arch;
use belfry_isa::lanes::BackendKind;
use belfry_isa::tables::{Pattern, patterns};

use crate::engine::{CODE, Engine};
use crate::random::Random;
use crate::reference::{self, End, State};
use crate::semantics::{case, difference, values};
use crate::target::Target;
use build::Program;

/// Instructions the reference executes before a program counts as endless.
const LIMIT: usize = 60_000;
/// `s_nop 0`.
const NOP: [u8; 4] = [0, 0, 0x80, 0xbf];

/// Findings of the oracle of random programs.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Programs run to their end and compared.
    pub compared: usize,
    /// Programs that ended in the same fault.
    pub faults: usize,
    /// Instructions of all programs, as they stand.
    pub instructions: usize,
    /// Failures: seed, difference and minimised listing.
    pub wrong: Vec<String>,
    /// Backends of this host.
    pub backends: Vec<BackendKind>,
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.wrong {
            writeln!(out, "{failure}")?;
        }
        let backends: Vec<String> = self.backends.iter().map(|backend| format!("{backend:?}")).collect();
        write!(
            out,
            "  {} programs of {} instructions, {} compared, {} ended in the same fault, {} wrong; backends: {}",
            self.compared + self.faults + self.wrong.len(),
            self.instructions,
            self.compared,
            self.faults,
            self.wrong.len(),
            backends.join(", ")
        )
    }
}

/// Runs `count` programs from `seed` on, half of them in waves of 64.
pub fn run(arch: Arch, count: usize, seed: u64) -> Report {
    let mut engines = Engine::all(arch);
    let mut report = Report { backends: engines.iter().map(Engine::backend).collect(), ..Report::default() };
    let patterns = build::drawable(arch, patterns(arch));
    for number in 0..count as u64 {
        one(arch, seed.wrapping_add(number), &patterns, &mut engines, &mut report);
    }
    report
}

/// Draws, runs and compares the program of one seed.
fn one(arch: Arch, seed: u64, patterns: &[Vec<Pattern>], engines: &mut [Engine], report: &mut Report) {
    let mut random = Random::new(seed);
    let sizes = arch.wave_sizes();
    let wave = sizes[seed as usize % sizes.len()];
    let target = Target { arch, wave };
    let program = Program::draw(&mut random, target, patterns);
    let mut state = values::state(&mut random, target);
    program.prepare(&mut random, &mut state);
    report.instructions += program.places.len();
    match compare(&state, &program.code, engines) {
        Outcome::Same(End::Done) => report.compared += 1,
        Outcome::Same(_) => report.faults += 1,
        Outcome::Endless => report.wrong.push(format!("seed {seed}: the reference does not end")),
        Outcome::Different(text) => {
            let (code, text) = minimise(&state, &program, text, engines);
            report.wrong.push(format!("seed {seed} {wave:?}: {text}\n{}", listing(&code, target)));
        }
    }
}

/// Outcome of a program on both sides.
enum Outcome {
    Same(End),
    Different(String),
    Endless,
}

fn compare(state: &State, code: &[u8], engines: &mut [Engine]) -> Outcome {
    let mut expected = state.clone();
    let Some(end) = reference::run(&mut expected, code, CODE, LIMIT) else { return Outcome::Endless };
    for engine in engines {
        let (got_end, got) = engine.run(state, code);
        if got_end != end {
            let text = format!(
                "{:?}: ends with {got_end:?} at {:#x}, not {end:?} at {:#x}",
                engine.backend(),
                got.pc,
                expected.pc
            );
            return Outcome::Different(text);
        }
        if end == End::Done
            && let Some(text) = difference(&got, &expected, state)
        {
            return Outcome::Different(format!("{:?}: {text}", engine.backend()));
        }
    }
    Outcome::Same(end)
}

/// Replaces instructions by nops as long as the difference stays.
fn minimise(state: &State, program: &Program, text: String, engines: &mut [Engine]) -> (Vec<u8>, String) {
    let (mut code, mut text) = (program.code.clone(), text);
    for _ in 0..2 {
        for place in program.places.iter().rev() {
            let saved = code[place.clone()].to_vec();
            for word in code[place.clone()].chunks_mut(4) {
                word.copy_from_slice(&NOP);
            }
            match compare(state, &code, engines) {
                Outcome::Different(shorter) => text = shorter,
                _ => code[place.clone()].copy_from_slice(&saved),
            }
        }
    }
    (code, text)
}

/// The instructions that are no nops.
fn listing(code: &[u8], target: Target) -> String {
    let mut out = String::new();
    for line in disassemble(target.arch, target.wave, code, CODE) {
        let text = match line.inst {
            Ok(inst) => Disassembly::new(inst, target.arch, target.wave).to_string(),
            Err(_) => line.text(),
        };
        if text != "s_nop 0" {
            out.push_str(&format!("    {:#x}: {text}\n", line.address - CODE));
        }
        if text == "s_endpgm" {
            break;
        }
    }
    out
}
