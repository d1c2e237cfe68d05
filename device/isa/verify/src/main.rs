//! `belfry-isa-verify`: oracles of the instruction set. `cargo xtask isa verify` runs it and the OpenCL programs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use belfry_isa::inst::Arch;
use belfry_isa_verify::{cards, decode, programs, semantics};
use clap::{Parser, ValueEnum};

/// Checks decoder, disassembler, encoder and execution engine against independent oracles.
#[derive(Debug, Parser)]
struct Cli {
    /// Check many times more of everything.
    #[arg(long)]
    long: bool,
    /// Seed of the random numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Only this instruction set, by LLVM's name of the processor.
    #[arg(long, value_parser = parse_arch)]
    arch: Option<Arch>,
    /// Only this oracle.
    #[arg(long)]
    only: Option<Oracle>,
    /// Of the semantics only operations whose mnemonic contains this.
    #[arg(long)]
    operation: Option<String>,
    /// Random dwords for the decoder, cases of each form for the semantics, or programs.
    #[arg(long, requires = "only")]
    count: Option<usize>,
    /// Of the cards only this set, from a file.
    #[arg(long)]
    set: Option<PathBuf>,
    /// Instead of all this, write LLVM 23's vectors into this folder.
    #[arg(long, conflicts_with_all = ["long", "only", "operation", "count"])]
    write_vectors: Option<PathBuf>,
}

/// The oracles here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Oracle {
    /// a. Decoder, disassembler and encoder against `llvm-mc`.
    Decode,
    /// b. Every operation against the reference and across backends.
    Semantics,
    /// d. Random programs.
    Programs,
    /// e. Results captured on cards.
    Cards,
}

impl Cli {
    fn wants(&self, oracle: Oracle) -> bool {
        self.only.is_none_or(|only| only == oracle)
    }

    /// Returns the count that was asked for, or else the usual or the long one.
    fn count(&self, usual: usize, long: usize) -> usize {
        self.count.unwrap_or(if self.long { long } else { usual })
    }
}

fn main() -> Result<ExitCode> {
    let cli = Cli::parse();
    let mut wrong = 0;
    let archs: Vec<Arch> = cli.arch.map_or_else(|| Arch::ALL.to_vec(), |arch| vec![arch]);
    if let Some(folder) = &cli.write_vectors {
        archs.into_iter().try_for_each(|arch| write_vectors(arch, folder))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(part) = &cli.operation {
        ensure!(
            archs.iter().any(|&arch| semantics::has(arch, part)),
            "no operation's mnemonic contains {part:?}"
        );
    }
    for (oracle, run) in [
        (Oracle::Decode, check_decode as fn(&Cli, Arch) -> Result<usize>),
        (Oracle::Semantics, check_semantics),
        (Oracle::Programs, check_programs),
        (Oracle::Cards, check_cards),
    ] {
        for &arch in archs.iter().filter(|_| cli.wants(oracle)) {
            let start = Instant::now();
            wrong += run(&cli, arch)?;
            println!("  {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    if wrong == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("{wrong} mismatches");
    Ok(ExitCode::FAILURE)
}

/// Writes LLVM 23's vectors of an instruction set.
fn write_vectors(arch: Arch, folder: &Path) -> Result<()> {
    let path = folder.join(decode::newer::file(arch));
    let text = decode::newer::vectors(arch)?;
    println!(
        "{}: {} instructions",
        path.display(),
        text.lines().filter(|line| !line.starts_with('#')).count()
    );
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
}

/// The instruction set with LLVM's name of a processor.
fn parse_arch(name: &str) -> Result<Arch> {
    Arch::ALL.into_iter().find(|arch| arch.name() == name).with_context(|| format!("no processor {name}"))
}

fn check_decode(cli: &Cli, arch: Arch) -> Result<usize> {
    let words = cli.count(250_000, 40_000_000);
    let mut report = decode::Report::new(arch);
    for vectors in decode::fixtures(arch).into_iter().chain([decode::newer::fixture(arch)]) {
        decode::vectors(vectors, &mut report);
    }
    decode::random_words(words, cli.seed, &mut report)?;
    decode::foreign_forms(&mut report)?;
    println!(
        "a. decode, {}: vectors of LLVM 22 and 23, and {words} random dwords in waves of 32 and of 64 (seed {})",
        arch.name(),
        cli.seed
    );
    println!(" text and length equal to llvm-mc's\n{}", report.text);
    println!(" encode(decode(x)) == x\n{}", report.encode);
    println!(" llvm-mc assembles the text to x\n{}", report.assemble);
    println!(" llvm-mc 23 assembles the text to the same instruction\n{}", report.newer);
    println!(" forms of other processors of the family are no instructions\n{}", report.foreign);
    println!(" where the bytes could not be compared, by reason");
    for (reason, count) in &report.exceptions {
        println!("  {count:>9}  {reason}");
    }
    for crash in &report.crashes {
        println!("  llvm-mc crashes on {crash}");
    }
    Ok(report.wrong())
}

fn check_semantics(cli: &Cli, arch: Arch) -> Result<usize> {
    let cases = cli.count(24, 1_000);
    println!(
        "b. semantics, {}: {cases} instructions of every form of every operation, seed {}",
        arch.name(),
        cli.seed
    );
    let report = semantics::run(arch, cases, cli.seed, cli.operation.as_deref());
    println!("{report}");
    Ok(report.wrong())
}

fn check_programs(cli: &Cli, arch: Arch) -> Result<usize> {
    let count = cli.count(3_000, 200_000);
    println!("d. random programs, {}, from seed {} on", arch.name(), cli.seed);
    let report = programs::run(arch, count, cli.seed);
    println!("{report}");
    Ok(report.wrong.len())
}

fn check_cards(cli: &Cli, arch: Arch) -> Result<usize> {
    println!("e. results captured on cards, {}: every backend and tier, every wave size", arch.name());
    let sets = match &cli.set {
        Some(path) => {
            let text =
                std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            vec![cards::file::parse(&path.display().to_string(), &text)?]
        }
        None => cards::sets()?,
    };
    let report = cards::run_sets(&sets, arch, false);
    println!("{report}");
    Ok(report.tally.wrong())
}
