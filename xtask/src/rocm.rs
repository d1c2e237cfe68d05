//! `cargo xtask rocm`: ROCm as Debian packages it, and programs from outside this project, under `belfry
//! exec`.
//!
//! The short form runs the tools and the suites in both images. `--long` adds Debian's own tests of ROCm's
//! libraries and of ggml (llama.cpp), each binary for a limited time, in images that are made of the packages
//! on first use (several gigabytes). `--only guest` runs rocminfo and the suites in guests, `--only monitors`
//! programs that watch a card beside one that keeps it busy, and `--only debugger` the cases of a debugger,
//! in a guest and without one (docs/debugger.md). docs/rocm-tests.md has results, and lists the tests that
//! are expected to take too long.

mod debugger;
mod guest;
mod known;
mod monitors;
mod plan;
mod verdict;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use plan::{Image, Place, Step};
use verdict::Counts;

/// Steps to run, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Debian's tests of ROCm's libraries and of ggml as well: hours.
    #[arg(long)]
    long: bool,
    /// Seconds for each binary of the long form, after which it counts as too slow.
    #[arg(long, default_value_t = 300)]
    limit: u32,
    /// Only steps whose name has this in it.
    #[arg(long)]
    only: Option<String>,
    /// The chip that `belfry exec` and guests have; of those that Debian 13 does not know, sid's images alone.
    #[arg(long, value_name = "NAME", default_value = plan::USUAL)]
    chip: String,
    /// Driver of guests: `own`, or `stock` for the one of their kernel.
    #[arg(long, value_name = "NAME", value_parser = [OWN, "stock"], default_value = OWN)]
    driver: String,
    /// Write the results as JSON on stdout, as well as the table on stderr.
    #[arg(long)]
    json: bool,
    /// Directory for the output of the programs (`target/rocm` when absent).
    #[arg(long)]
    logs: Option<PathBuf>,
}

/// The driver of guests that is not named.
const OWN: &str = "own";

impl Options {
    /// Rocminfo and the suites in guests whose kernel's own driver drives the GPU.
    pub(crate) fn in_stock_guests(logs: PathBuf) -> Self {
        Self {
            long: false,
            limit: 300,
            only: Some("guest".into()),
            chip: plan::USUAL.into(),
            driver: "stock".into(),
            json: false,
            logs: Some(logs),
        }
    }
}

/// Result of a step.
#[derive(Debug, Serialize)]
struct Outcome {
    image: &'static str,
    name: String,
    /// `passed`, `failed`, `known` (failed as it is known to, `known.rs`) or `too slow`.
    verdict: &'static str,
    /// Cases by result, where the program tells them apart.
    counts: Option<Counts>,
    seconds: u64,
    log: PathBuf,
    /// The failed cases that are known, with their reasons.
    known: Vec<(&'static str, &'static str)>,
}

impl Outcome {
    fn counts(&self) -> String {
        self.counts.as_ref().map_or_else(String::new, ToString::to_string)
    }
}

/// Runs the steps, prints a table, and fails if one has failed; one that was too slow, or whose failed cases are known, has
/// not.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let logs = options.logs.clone().unwrap_or_else(|| root.join("target/rocm"));
    std::fs::create_dir_all(&logs).with_context(|| format!("creating {}", logs.display()))?;
    let belfry = build(root)?;
    let runner = Runner {
        belfry,
        root: root.to_owned(),
        logs,
        limit: options.limit,
        chip: options.chip.clone(),
        driver: options.driver.clone(),
    };
    let wanted = |step: &Step| options.only.as_ref().is_none_or(|only| step.name.contains(only.as_str()));
    let images = plan::images(options);
    let mut outcomes = Vec::new();
    for image in &images {
        let mut steps = image.steps.clone();
        let may_be_found = options.only.as_ref().map_or(image.lists.is_some(), |only| image.may_have(only));
        if steps.iter().all(|step| !wanted(step)) && !may_be_found {
            continue;
        }
        runner.make(image)?;
        if let Some(lists) = image.lists {
            let alone = match image.alone {
                Some((package, name)) => Some((runner.unpacked(package)?, name)),
                None => None,
            };
            let output: plan::Output<'_> = &|program| runner.output(image, program);
            steps.extend(lists(&plan::Places { output, alone })?);
        }
        for step in steps.iter().filter(|step| wanted(step)) {
            let outcome = runner.step(image, step)?;
            note!("{:<8} {:>5} s  {}  {}", outcome.verdict, outcome.seconds, outcome.name, outcome.counts());
            for (case, reason) in &outcome.known {
                note!("                  {case}: {reason}");
            }
            outcomes.push(outcome);
        }
    }
    ensure!(!outcomes.is_empty(), "no step's name has {:?} in it", options.only.as_deref().unwrap_or(""));
    table(&outcomes);
    if options.json {
        println!("{}", serde_json::to_string_pretty(&outcomes)?);
    }
    let failed: Vec<_> =
        outcomes.iter().filter(|outcome| outcome.verdict == "failed").map(|outcome| &*outcome.name).collect();
    ensure!(failed.is_empty(), "{} of {} steps failed: {}", failed.len(), outcomes.len(), failed.join(", "));
    Ok(())
}

/// Builds belfry as users have it; where it is.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let status = Command::new(env!("CARGO"))
        .current_dir(root)
        .args(["build", "--release", "--package", "belfry"])
        .status()
        .context("running cargo")?;
    ensure!(status.success(), "cargo build: {status}");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release/belfry"))
}

fn table(outcomes: &[Outcome]) {
    let width = outcomes.iter().map(|outcome| outcome.name.len()).max().unwrap_or(0);
    note!("");
    note!("{:<width$}  {:<14} {:<8} {:>6}  cases", "", "image", "verdict", "s");
    for outcome in outcomes {
        let Outcome { image, name, verdict, seconds, .. } = outcome;
        note!("{name:<width$}  {image:<14} {verdict:<8} {seconds:>6}  {}", outcome.counts());
    }
    let count = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
    note!(
        "{} passed, {} failed, {} with known failures, {} too slow",
        count("passed"),
        count("failed"),
        count("known"),
        count("too slow")
    );
}

struct Runner {
    belfry: PathBuf,
    root: PathBuf,
    logs: PathBuf,
    limit: u32,
    chip: String,
    driver: String,
}

impl Runner {
    /// Makes an image of packages; an image that is there already stays.
    fn make(&self, image: &Image) -> Result<()> {
        let Some((base, packages)) = image.packages else { return Ok(()) };
        let mut command = Command::new(&self.belfry);
        command.args(["image", "build", image.name, "--base", base, "--from", "/dev/stdin"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("running {}", self.belfry.display()))?;
        let mut stdin = child.stdin.take().context("belfry has no stdin")?;
        std::io::Write::write_all(&mut stdin, packages.as_bytes()).context("writing the list of packages")?;
        drop(stdin);
        let status = child.wait().context("waiting for belfry")?;
        ensure!(status.success(), "belfry image build {}: {status}", image.name);
        Ok(())
    }

    /// The folder that one package of Debian 13 is unpacked in, without its dependencies; fetched on first use.
    fn unpacked(&self, package: &str) -> Result<PathBuf> {
        // A program of its own, so that the tasks do not depend on the code that fetches packages.
        let output = Command::new(env!("CARGO"))
            .current_dir(&self.root)
            .args(["run", "--quiet", "--package", "belfry-image", "--bin", "belfry-package", "--", package])
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .context("running belfry-package")?;
        ensure!(output.status.success(), "{package} could not be fetched");
        Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
    }

    fn exec(&self, image: &str, limit: u32) -> Command {
        let mut command = Command::new("timeout");
        // The whole group gets the signal, and a process that ignores it is killed.
        command.args(["--kill-after=10", &limit.to_string()]);
        command.arg(&self.belfry).args(["exec", "--quiet", "--chip", &self.chip, "--image", image, "--"]);
        command
    }

    /// Runs a program and returns its output, for a list of things to run.
    fn output(&self, image: &Image, program: &[&str]) -> Result<String> {
        let output = self.exec(image.name, 120).args(program).output().context("running timeout")?;
        ensure!(output.status.success(), "{program:?}: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn step(&self, image: &Image, step: &Step) -> Result<Outcome> {
        let file = format!("{}-{}.log", image.name, step.name.replace([' ', '/'], "_"));
        let path = self.logs.join(file);
        let log = File::create(&path).with_context(|| format!("creating {}", path.display()))?;
        // Messages of a guest's machine do not belong to the output of its program.
        let errors = match step.place {
            Place::Exec | Place::Debuggable | Place::BesideLoad => log.try_clone()?,
            Place::Guest | Place::DebuggableInGuest => {
                File::create(path.with_extension("stderr")).context("creating a log of a guest")?
            }
        };
        let start = Instant::now();
        let mut command = match step.place {
            Place::Exec => self.exec(image.name, if image.is_long() { self.limit } else { step.limit }),
            Place::Debuggable | Place::DebuggableInGuest => debugger::command(self, &self.root, step)?,
            Place::Guest => guest::command(self, step),
            Place::BesideLoad => self.exec(image.name, step.limit),
        };
        let beside = step.place == Place::BesideLoad;
        let _load = if beside { Some(monitors::load(self)?) } else { None };
        let program = if beside { monitors::installed(self, &step.command)? } else { step.command.clone() };
        let status = command
            .args(&program)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(errors)
            .status()
            .context("running timeout")?;
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let text = String::from_utf8_lossy(&text);
        let debugged = matches!(step.place, Place::Debuggable | Place::DebuggableInGuest);
        if debugged {
            // Few cases, each of which is worth its line.
            note!("{}", text.trim_end());
        }
        let counts = verdict::counts(&text);
        let failures = counts.as_ref().is_some_and(|counts| counts.failed > 0);
        // Each of a debugger's cases has a limit of its own, and the last line says that all have ended.
        let unfinished = debugged && (!status.success() || counts.is_none());
        let unmet = step.expected.as_ref().and_then(|expected| expected.unmet(&text, counts.as_ref()));
        if let Some(unmet) = &unmet {
            note!("{}: {unmet}; {}", step.name, path.display());
        }
        let failed = counts.as_ref().map_or(0, |counts| counts.failed);
        let known = known::explained(&step.name, &text, failed).unwrap_or_default();
        let verdict = match status.code() {
            Some(0 | 1 | 124 | 137) if !known.is_empty() && !unfinished && unmet.is_none() => "known",
            _ if failures || unfinished || unmet.is_some() || verdict::chose_nothing(&text) => "failed",
            Some(124 | 137) => "too slow",
            Some(0) => "passed",
            Some(127) => bail!("{}: the image has no {:?}", step.name, step.command),
            _ => "failed",
        };
        let seconds = start.elapsed().as_secs();
        Ok(Outcome { image: image.name, name: step.name.clone(), verdict, counts, seconds, log: path, known })
    }
}
