//! `cargo xtask fuzz`: the fuzz targets, two at a time.
//!
//! Without `--seconds` each target runs the committed corpus and a fixed number of inputs from a fixed seed, so that
//! the gate answers the same for the same tree. With `--seconds` it looks further, from a seed of its own.
//!
//! `fuzz/` is built by cargo-fuzz without a sanitizer, so that the stable toolchain does; the coverage its targets go by
//! is LLVM's (`sancov`). New inputs go to a directory of their own, the committed corpus stays as it is unless asked.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

/// Of cargo-fuzz; `.ci/run` installs it.
const VERSION: &str = "0.13.2";
const TRIPLE: &str = "x86_64-unknown-linux-gnu";
/// Targets that run at the same time.
const AT_A_TIME: usize = 2;
/// Limits of one input, in seconds and MiB: they catch inputs that hang, or allocate without bound.
const TIMEOUT: u32 = 20;
const MEMORY: u32 = 2048;
const ALLOCATION: u32 = 256;
/// Seed of the runs that repeat.
const SEED: u32 = 1;
/// Inputs of a target in a run that repeats, where `[package.metadata.inputs]` of `fuzz/Cargo.toml` says nothing.
const INPUTS: u64 = 10_000;

/// Targets to fuzz, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Runs each target this many seconds, with a new seed [default: a fixed number of inputs from a fixed seed].
    #[arg(long)]
    seconds: Option<u32>,
    /// Adds new inputs to the committed corpus, as few as cover it.
    #[arg(long)]
    keep: bool,
    /// Targets [default: all].
    targets: Vec<String>,
}

/// A target with its directories.
struct Target {
    name: String,
    binary: PathBuf,
    committed: PathBuf,
    found: PathBuf,
    artifacts: PathBuf,
}

/// Length of a run of a target.
#[derive(Debug, Clone, Copy)]
enum Extent {
    /// This many inputs, from the fixed seed and the committed corpus alone.
    Inputs(u64),
    /// Runs for this many seconds, from a new seed, with the inputs that earlier runs found.
    Seconds(u32),
}

/// Result of a run of a target.
#[derive(Debug, Default, PartialEq)]
struct Report {
    executions: u64,
    /// Coverage of the corpus, and after the run.
    coverage: (u64, u64),
    new_units: u64,
    /// Failure, and the input that caused it.
    failure: Option<String>,
}

/// Builds the targets and runs them.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let directory = root.join("fuzz");
    let all = targets(&directory)?;
    for name in &options.targets {
        ensure!(all.contains(name), "there is no fuzz target {name}; there are {}", all.join(", "));
    }
    let names = if options.targets.is_empty() { &all } else { &options.targets };
    let built = build(root, &directory)?;
    let scratch = built.join("fuzz");
    let targets = names.iter().map(|name| target(name, &directory, &built, &scratch));
    let targets = targets.collect::<Result<Vec<_>>>()?;

    let inputs = inputs(&directory)?;
    let extent = |name: &str| match options.seconds {
        Some(seconds) => Extent::Seconds(seconds),
        None => Extent::Inputs(inputs.get(name).and_then(Value::as_u64).unwrap_or(INPUTS)),
    };
    match options.seconds {
        Some(seconds) => say!("each target runs for {seconds} seconds, from a new seed"),
        None => say!("each target runs a fixed number of inputs from seed {SEED}; --seconds N looks further"),
    }
    say!("target         executions  coverage          new units  result");
    let queue = Mutex::new(targets.iter());
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().ok().and_then(|mut queue| queue.next());
                    let Some(target) = next else { break };
                    let report = fuzz(target, extent(&target.name));
                    if let Ok(report) = &report {
                        say!("{}", line(&target.name, report));
                    }
                    if let Ok(mut results) = results.lock() {
                        results.push((target, report));
                    }
                }
            });
        }
    });
    let mut failed = Vec::new();
    for (target, report) in results.into_inner().unwrap_or_default() {
        match report.with_context(|| format!("fuzzing {}", target.name))?.failure {
            Some(failure) => failed.push(format!("{}: {failure}", target.name)),
            None if options.keep => keep(target)?,
            None => {}
        }
    }
    if !failed.is_empty() {
        bail!("fuzzing found {} problem(s):\n{}", failed.len(), failed.join("\n"));
    }
    Ok(())
}

/// Number of inputs of each target in a run that repeats: `[package.metadata.inputs]` of the manifest.
fn inputs(directory: &Path) -> Result<Value> {
    let metadata = xtask::tidy::metadata(&directory.join("Cargo.toml"))?;
    Ok(metadata["packages"][0]["metadata"]["inputs"].clone())
}

/// The targets there are.
fn targets(directory: &Path) -> Result<Vec<String>> {
    let sources = directory.join("fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&sources).with_context(|| format!("reading {}", sources.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs")
            && let Some(name) = path.file_stem()
        {
            names.push(name.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Builds all targets; the directory they are built in.
fn build(root: &Path, directory: &Path) -> Result<PathBuf> {
    let version = Command::new(env!("CARGO")).args(["fuzz", "--version"]).output()?;
    ensure!(
        version.status.success() && String::from_utf8_lossy(&version.stdout).contains(VERSION),
        "cargo-fuzz {VERSION} is not installed; run: cargo install --locked cargo-fuzz@{VERSION}"
    );
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let target = target.join("fuzz-build");
    let mut command = Command::new(env!("CARGO"));
    command.args(["fuzz", "build", "--sanitizer", "none", "--target", TRIPLE, "--target-dir"]);
    // An outer cargo's settings are for another build.
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "CARGO_BUILD_TARGET", "RUSTC_WORKSPACE_WRAPPER"] {
        command.env_remove(name);
    }
    let status = command.arg(&target).current_dir(directory).status().context("running cargo fuzz")?;
    ensure!(status.success(), "the fuzz targets cannot be built");
    Ok(target)
}

fn target(name: &str, directory: &Path, built: &Path, scratch: &Path) -> Result<Target> {
    let target = Target {
        name: name.to_owned(),
        binary: built.join(TRIPLE).join("release").join(name),
        committed: directory.join("corpus").join(name),
        found: scratch.join("corpus").join(name),
        artifacts: scratch.join("artifacts").join(name),
    };
    ensure!(target.committed.is_dir(), "{name} has no corpus at {}", target.committed.display());
    for directory in [&target.found, &target.artifacts] {
        fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    }
    Ok(target)
}

/// libFuzzer's limits of one input.
fn limits() -> [String; 3] {
    [
        format!("-timeout={TIMEOUT}"),
        format!("-rss_limit_mb={MEMORY}"),
        format!("-malloc_limit_mb={ALLOCATION}"),
    ]
}

fn start(command: &mut Command) -> Result<Child> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    child.with_context(|| format!("starting {}", command.get_program().display()))
}

fn fuzz(target: &Target, extent: Extent) -> Result<Report> {
    let mut command = program(&target.binary, extent);
    match extent {
        Extent::Seconds(seconds) => {
            command.args([&target.found, &target.committed]).arg(format!("-max_total_time={seconds}"));
        }
        Extent::Inputs(inputs) => {
            // Reading the directory again depends on the time.
            command.arg("-reload=0");
            fs::remove_dir_all(&target.found).context("emptying the directory of what is found")?;
            fs::create_dir_all(&target.found).context("making the directory of what is found")?;
            command.arg(&target.found).arg(format!("-seed_inputs=@{}", seeds(target)?.display()));
            command.args([format!("-seed={SEED}"), format!("-runs={inputs}")]);
        }
    }
    command
        .args(limits())
        .arg("-print_final_stats=1")
        .arg(format!("-artifact_prefix={}/", target.artifacts.display()));
    let mut child = start(&mut command)?;
    let mut log = Vec::new();
    if let Some(mut stderr) = child.stderr.take() {
        stderr.read_to_end(&mut log)?;
    }
    let status = child.wait()?;
    let log = String::from_utf8_lossy(&log);
    let mut report = report(&log);
    if !status.success() {
        report.failure = Some(failure(&log));
    } else if report.coverage.1 == 0 {
        report.failure =
            Some("no coverage was measured: the targets are built without instrumentation".into());
    }
    Ok(report)
}

/// The command of a target. A run that repeats has its code at the same addresses each time, as libFuzzer remembers places of
/// comparisons by them; where the system forbids that (some containers), it repeats less exactly.
fn program(binary: &Path, extent: Extent) -> Command {
    let fixed = |program: &Path| {
        let mut command = Command::new("setarch");
        command.arg("--addr-no-randomize").arg(program);
        command
    };
    let allowed = || fixed(Path::new("true")).output().is_ok_and(|output| output.status.success());
    match extent {
        Extent::Inputs(_) if allowed() => fixed(binary),
        _ => Command::new(binary),
    }
}

/// A file that lists the committed corpus in the order of its names: a directory is read in any order, and the order
/// decides the inputs that follow.
fn seeds(target: &Target) -> Result<PathBuf> {
    let mut names = Vec::new();
    for entry in fs::read_dir(&target.committed).context("reading the corpus")? {
        names.push(entry?.path().to_str().context("a corpus file's name is no text")?.to_owned());
    }
    names.sort();
    let list = target.found.with_extension("seeds");
    fs::write(&list, names.join(",")).with_context(|| format!("writing {}", list.display()))?;
    Ok(list)
}

/// The figures of libFuzzer's log.
fn report(log: &str) -> Report {
    let number = |text: &str, name: &str| -> Option<u64> {
        let (_, after) = text.split_once(name)?;
        after.split_whitespace().next()?.parse().ok()
    };
    let coverage = |event: &str| {
        log.lines().rev().find(|line| line.contains(event)).and_then(|line| number(line, "cov:")).unwrap_or(0)
    };
    Report {
        executions: number(log, "stat::number_of_executed_units:").unwrap_or(0),
        coverage: (coverage("\tINITED"), coverage("\tDONE")),
        new_units: number(log, "stat::new_units_added:").unwrap_or(0),
        failure: None,
    }
}

/// Lines of libFuzzer about the input that failed: the panic, the kind of failure, and the path of the input.
fn failure(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    let mut said: Vec<&str> = Vec::new();
    if let Some(at) = lines.iter().position(|line| line.contains("panicked at")) {
        said.extend(&lines[at..lines.len().min(at + 4)]);
    }
    let telling = ["ERROR: libFuzzer", "SUMMARY:", "Test unit written to", "Base64:"];
    said.extend(lines.iter().filter(|line| telling.iter().any(|part| line.contains(part))));
    if said.is_empty() {
        said.extend(lines.iter().rev().take(10).rev());
    }
    format!("\n  {}", said.join("\n  "))
}

fn line(name: &str, report: &Report) -> String {
    let (before, after) = report.coverage;
    let result = if report.failure.is_some() { "FAILED" } else { "ok" };
    let coverage = format!("{before} -> {after}");
    format!("{name:<12} {:>12}  {coverage:<16} {:>10}  {result}", report.executions, report.new_units)
}

/// Merges new inputs into the committed corpus.
fn keep(target: &Target) -> Result<()> {
    let mut command = Command::new(&target.binary);
    command
        .args(["-set_cover_merge=1", "-use_counters=0", "-max_len=1024"])
        .args(limits())
        .args([&target.committed, &target.found]);
    let output = command.output().context("merging")?;
    ensure!(
        output.status.success(),
        "merging into {} failed:\n{}",
        target.committed.display(),
        failure(&String::from_utf8_lossy(&output.stderr))
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "INFO: Seed: 1\n#28\tINITED cov: 239 ft: 395 corp: 25/131b exec/s: 0 rss: 27Mb\n\
        #99\tNEW    cov: 240 ft: 400 corp: 26/140b\n#183169\tDONE   cov: 935 ft: 4141 corp: 1156/32Kb lim: 122\n\
        Done 183169 runs in 13 second(s)\nstat::number_of_executed_units: 183169\nstat::new_units_added:          1745\n";

    #[test]
    fn figures_are_taken_from_the_log() {
        let expected = Report { executions: 183_169, coverage: (239, 935), new_units: 1745, failure: None };
        assert_eq!(report(LOG), expected);
        assert_eq!(report("no figures"), Report::default());
    }

    #[test]
    fn failure_names_the_panic_and_the_input() {
        let log = "thread '<unnamed>' panicked at fuzz_targets/bar.rs:7:5:\nVRAM at 0x10\nnote: run with\n\
            ==1== ERROR: libFuzzer: deadly signal\nSUMMARY: libFuzzer: deadly signal\n\
            artifact_prefix='/tmp/'; Test unit written to /tmp/crash-1\nBase64: AAA=\n";
        let said = failure(log);
        for part in ["VRAM at 0x10", "deadly signal", "/tmp/crash-1", "AAA="] {
            assert!(said.contains(part), "{said}");
        }
        assert!(failure("killed").contains("killed"));
    }
}
