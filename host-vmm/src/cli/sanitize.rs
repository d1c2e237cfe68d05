//! `--sanitize` of commands that run programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::sanitize::{Rule, SanitizeOptions, SanitizeReport, Sanitizer, Suppression};
use clap::Args;

use crate::output;
use crate::sanitize::{Format, render};

/// Checks of what kernels do.
#[derive(Debug, Default, Args)]
pub(super) struct SanitizeArgs {
    /// Checks what kernels do against rules, all of them or those that are named (RULE,RULE), and ends with status 1 where one was broken.
    /// Kernels run many times slower.
    #[arg(long, value_name = "RULES", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    sanitize: Option<String>,
    /// Checks only this kernel; repeatable.
    #[arg(long, value_name = "KERNEL", requires = "sanitize")]
    sanitize_kernel: Vec<String>,
    /// Does not tell of what a line of this file names: RULE:KERNEL, both of which may be `*`.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    suppressions: Option<PathBuf>,
    /// Writes what was found to a file as well: as JSON, SARIF or JUnit by its ending (.json, .sarif, .xml), else as text.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    sanitize_report: Option<PathBuf>,
}

/// Checks that run.
#[derive(Debug)]
pub(super) struct Sanitizing {
    sanitizer: Arc<Sanitizer>,
    file: Option<PathBuf>,
}

impl SanitizeArgs {
    /// Begins to check, if that is asked for.
    pub(super) fn start(&self) -> anyhow::Result<Option<Sanitizing>> {
        let Some(rules) = &self.sanitize else { return Ok(None) };
        let mut options =
            SanitizeOptions { kernels: self.sanitize_kernel.clone(), ..SanitizeOptions::default() };
        if rules != "all" {
            let rules = rules.split(',').map(str::parse::<Rule>).collect::<Result<_, _>>();
            options.rules = rules.map_err(|error| anyhow::anyhow!("--sanitize: {error}"))?;
        }
        if let Some(path) = &self.suppressions {
            options.suppressions = suppressions(path)?;
        }
        let file = self.sanitize_report.clone();
        Ok(Some(Sanitizing { sanitizer: Arc::new(Sanitizer::new(options)), file }))
    }
}

impl Sanitizing {
    /// What checks the kernels of a GPU.
    pub(super) fn sanitizer(&self) -> Arc<Sanitizer> {
        Arc::clone(&self.sanitizer)
    }

    /// Tells what was found on standard error, and writes the file; whether a rule was broken.
    pub(super) fn finish(self) -> anyhow::Result<bool> {
        let report = self.sanitizer.report();
        output::write_error(render(&report, Format::Text).as_bytes());
        if let Some(path) = &self.file {
            let text = render(&report, Format::of(path));
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        let SanitizeReport { findings, beyond, .. } = report;
        Ok(!findings.is_empty() || beyond > 0)
    }
}

/// The lines of a file of suppressions; `#` begins a comment.
fn suppressions(path: &Path) -> anyhow::Result<Vec<Suppression>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            line.parse().map_err(|error| anyhow::anyhow!("{}:{number}: {error}", path.display()))
        })
        .collect()
}
