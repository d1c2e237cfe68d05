//! `cargo xtask cases`: small programs that check by themselves if their results are those of a card.
//!
//! Each folder of `tests/cases` is a case: its programs are compiled in an image under `belfry exec`, as its `case.toml` says,
//! and run on the chips and tiers that this names. The last line of a program ends with `PASS` or `FAIL`.

mod build;
mod manifest;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use build::{Builder, Made};
use manifest::{CHIPS, Manifest, Program};

/// Cases to run, and the tools to run them with.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only these cases (all when absent).
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Another folder of cases than `tests/cases`. Where one has no `case.toml`, each `*.hip` runs on all chips.
    #[arg(long, value_name = "DIR")]
    from: Option<PathBuf>,
    /// Only on this chip.
    #[arg(long, value_name = "CHIP", value_parser = CHIPS)]
    chip: Option<String>,
    /// The image with the compilers.
    #[arg(long, value_name = "NAME", default_value = "rocm-sid")]
    image: String,
    /// Another belfry than this checkout's, which is built first.
    #[arg(long, value_name = "FILE")]
    belfry: Option<PathBuf>,
    /// Print the cases' names.
    #[arg(long)]
    list: bool,
}

/// Runs the cases, prints a line for each program, chip and tier, and fails if one of them has failed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let from = options.from.clone().unwrap_or_else(|| root.join("tests/cases"));
    let from = from.canonicalize().with_context(|| format!("looking for {}", from.display()))?;
    let cases = chosen(&from, &options.names)?;
    if options.list {
        cases.iter().for_each(|(name, _)| say!("{name}"));
        return Ok(());
    }
    let belfry = match &options.belfry {
        Some(belfry) => belfry.canonicalize().with_context(|| format!("looking for {}", belfry.display()))?,
        None => build_belfry(root)?,
    };
    let builder = Builder {
        belfry: &belfry,
        image: &options.image,
        shared: from.join("t.h"),
        work: root.join("target/cases"),
    };
    let mut counts = Counts::default();
    for (name, folder) in &cases {
        let manifest = match Manifest::of(folder) {
            Ok(manifest) => manifest,
            Err(error) => {
                counts.add(false, &format!("{name}  {error:#}"));
                continue;
            }
        };
        for program in manifest.programs {
            let chips: Vec<String> = match &options.chip {
                Some(chip) => program.chips.iter().filter(|known| *known == chip).cloned().collect(),
                None => program.chips.clone(),
            };
            let case = Case { name, folder, program: &program };
            case.run(&builder, &chips, &mut counts);
        }
    }
    ensure!(counts.passed + counts.failed > 0, "no program of these cases runs on the chip");
    say!("{} passed, {} failed", counts.passed, counts.failed);
    ensure!(counts.failed == 0, "cases failed");
    Ok(())
}

/// The names and folders of the cases in a folder, or of the named ones.
fn chosen(from: &Path, names: &[String]) -> Result<Vec<(String, PathBuf)>> {
    let mut cases = Vec::new();
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let name = entry.file_name().to_string_lossy().into_owned();
            cases.push((name, entry.path()));
        }
    }
    cases.sort();
    if let Some(unknown) = names.iter().find(|name| cases.iter().all(|(known, _)| known != *name)) {
        bail!("{} has no case {unknown}", from.display());
    }
    cases.retain(|(name, _)| names.is_empty() || names.contains(name));
    ensure!(!cases.is_empty(), "{} has no cases", from.display());
    Ok(cases)
}

/// Builds this checkout's belfry, which lies beside this program.
fn build_belfry(root: &Path) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--package", "belfry", "--bin", "belfry"])
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), |own| root.join(own));
    Ok(target.join("debug/belfry"))
}

#[derive(Debug, Default)]
struct Counts {
    passed: usize,
    failed: usize,
}

impl Counts {
    fn add(&mut self, passed: bool, what: &str) {
        if passed {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
        say!("{}  {what}", if passed { "pass" } else { "FAIL" });
    }
}

struct Case<'a> {
    name: &'a str,
    folder: &'a Path,
    program: &'a Program,
}

impl Case<'_> {
    /// Compiles the program, and runs it on each chip and tier.
    fn run(&self, builder: &Builder<'_>, chips: &[String], counts: &mut Counts) {
        let made =
            if chips.is_empty() { return } else { builder.program(self.name, self.folder, self.program) };
        if let Err(error) = &made {
            note!("{error:#}");
        }
        for chip in chips {
            for tier in &self.program.tiers {
                let what = self.what(chip, tier);
                match &made {
                    Err(_) => counts.add(false, &format!("{what}  does not compile")),
                    Ok(made) => match self.execute(builder, made, chip, tier) {
                        Ok(()) => counts.add(true, &what),
                        Err(error) => {
                            note!("{error:#}");
                            counts.add(false, &what);
                        }
                    },
                }
            }
        }
    }

    /// The program in a line of the report.
    fn what(&self, chip: &str, tier: &str) -> String {
        let program = self.program;
        let mut what = format!("{:<28} {:<14} {chip:<8}", self.name, program.source);
        if tier != "auto" {
            what += &format!(" tier {tier}");
        }
        for text in
            program.options.iter().chain(&program.exec).chain(&program.environment).chain(&program.arguments)
        {
            what += &format!(" {text}");
        }
        what.trim_end().to_owned()
    }

    /// Runs the program once; if its output is not as wanted, the output is the error.
    fn execute(&self, builder: &Builder<'_>, made: &Made, chip: &str, tier: &str) -> Result<()> {
        let folder = made.objects(chip);
        let output = builder
            .exec(self.program.limit, &["--chip", chip, "--tier", tier], &self.program.exec)
            .arg(&made.program)
            .args(&self.program.arguments)
            .envs(self.program.environment.iter().filter_map(|text| text.split_once('=')))
            .current_dir(&folder)
            .stdin(Stdio::null())
            .output()
            .context("running timeout")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        let mut printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if self.program.says.is_some() {
            printed += &errors;
        }
        if self.program.passes(output.status.success(), &printed) {
            return Ok(());
        }
        let late = if output.status.code() == Some(124) { ", which means that it took too long" } else { "" };
        bail!(
            "{printed}{}ended with {}{late}",
            if self.program.says.is_some() { "" } else { &errors },
            output.status
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_folders_in_order_and_unknown_names_are_refused() {
        let from = tempfile::tempdir().unwrap();
        assert!(chosen(from.path(), &[]).is_err(), "none");
        for name in ["red-b", "01-a"] {
            fs::create_dir(from.path().join(name)).unwrap();
        }
        fs::write(from.path().join("t.h"), "").unwrap();
        let names = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            chosen(from.path(), &names)
                .map(|cases| cases.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]).unwrap(), ["01-a", "red-b"]);
        assert_eq!(names(&["red-b"]).unwrap(), ["red-b"]);
        assert!(names(&["red-b", "02"]).unwrap_err().to_string().contains("no case 02"));
    }
}
