//! Figures of one build: what it prints, by the name of the row.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Starts of a program for one figure of `exec`; the fastest counts.
const STARTS: u32 = 20;

/// Figures by the name of their row; a smaller one is better.
pub(super) type Figures = BTreeMap<String, f64>;

/// Parts of belfry that are measured.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub(super) enum Part {
    /// `bench isa`: processor time of the workers per wave instruction, by kernel and tier.
    Isa,
    /// `bench isa --kernels dispatch`: one empty workgroup after the other.
    Dispatch,
    /// `bench vmm`: exits and doorbells of Belfry's own machine.
    Vmm,
    /// `exec -- true`: the start and the end of a program that does nothing.
    Exec,
}

impl Part {
    pub(super) const ALL: [Self; 4] = [Self::Isa, Self::Dispatch, Self::Vmm, Self::Exec];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Isa => "isa",
            Self::Dispatch => "dispatch",
            Self::Vmm => "vmm",
            Self::Exec => "exec",
        }
    }

    /// Runs a build and takes its figures.
    pub(super) fn measure(self, belfry: &Path) -> Result<Figures> {
        match self {
            Self::Isa => isa(&answer(belfry, &["bench", "isa", "--json", "--workers", "1"])?),
            Self::Dispatch => dispatch(&answer(
                belfry,
                &["bench", "isa", "--json", "--workers", "1", "--kernels", "dispatch"],
            )?),
            Self::Vmm => vmm(&answer(belfry, &["bench", "vmm", "--json"])?),
            Self::Exec => exec(belfry),
        }
    }
}

/// The JSON that a build prints.
fn answer(belfry: &Path, arguments: &[&str]) -> Result<Value> {
    let output = Command::new(belfry).args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("running {}", belfry.display()))?;
    ensure!(
        output.status.success(),
        "`{}` failed ({}): {}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim()
    );
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("`{}` printed no JSON object", arguments.join(" ")))
}

/// The kernels of an answer of `bench isa`: name and figures.
fn kernels(answer: &Value) -> Result<Vec<(&str, &Value)>> {
    let kernels = answer["kernels"].as_array().context("`bench isa` printed no `kernels`")?;
    kernels.iter().map(|row| Ok((row["name"].as_str().context("a kernel without a name")?, row))).collect()
}

/// A figure that belfry prints as 0 where it could not be measured.
fn measured(row: &Value, field: &str) -> Option<f64> {
    row[field].as_f64().filter(|&figure| figure > 0.0)
}

fn isa(answer: &Value) -> Result<Figures> {
    let mut figures = Figures::new();
    for (name, row) in kernels(answer)?.into_iter().filter(|(name, _)| *name != "dispatch") {
        for (tier, field) in
            [("tier 1 ns", "worker_ns_per_wave_instruction"), ("tier 0 ns", "interpreted_worker_ns")]
        {
            figures.extend(measured(row, field).map(|figure| (format!("isa {name} {tier}"), figure)));
        }
    }
    Ok(figures)
}

fn dispatch(answer: &Value) -> Result<Figures> {
    let mut figures = Figures::new();
    for (_, row) in kernels(answer)?.into_iter().filter(|(name, _)| *name == "dispatch") {
        for (what, field) in
            [("launch ns", "ns_per_wave_instruction"), ("doorbell to signal us", "doorbell_to_signal_us")]
        {
            figures.extend(measured(row, field).map(|figure| (format!("dispatch {what}"), figure)));
        }
    }
    Ok(figures)
}

/// The medians below `exit` and `doorbell`; times of a boot vary too much.
fn vmm(answer: &Value) -> Result<Figures> {
    let mut figures = Figures::new();
    for part in ["exit", "doorbell"] {
        ensure!(answer[part].is_object(), "`bench vmm` printed no `{part}`");
        medians(&format!("vmm {part}"), &answer[part], &mut figures);
    }
    Ok(figures)
}

fn medians(name: &str, value: &Value, figures: &mut Figures) {
    if let Some(median) = measured(value, "median") {
        figures.insert(name.to_owned(), median);
        return;
    }
    for (field, value) in value.as_object().into_iter().flatten() {
        medians(&format!("{name} {field}"), value, figures);
    }
}

fn exec(belfry: &Path) -> Result<Figures> {
    let mut fastest = f64::INFINITY;
    // The first start, which fills the system's caches, is not counted.
    for start in 0..=STARTS {
        let started = Instant::now();
        let output = Command::new(belfry).args(["exec", "--", "true"]).stdin(Stdio::null()).output();
        let elapsed = started.elapsed().as_secs_f64() * 1e3;
        let output = output.with_context(|| format!("running {}", belfry.display()))?;
        ensure!(
            output.status.success(),
            "`exec -- true` failed ({}): {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
        if start > 0 {
            fastest = fastest.min(elapsed);
        }
    }
    Ok(Figures::from([("exec start ms".to_owned(), fastest)]))
}
