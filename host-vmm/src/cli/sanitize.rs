//! `--sanitize` of commands that run programs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::sanitize::{Rule, SanitizeOptions, SanitizeReport, Sanitizer, Suppression, UnknownRule};
use belfry_process::files;
use clap::Args;

use crate::output;
use crate::sanitize::{Format, add_lines, render};
use crate::symbols::Symbols;

/// Checks of what kernels, drivers and runtimes do.
#[derive(Debug, Default, Args)]
pub(super) struct SanitizeArgs {
    /// Checks what kernels, drivers and runtimes do against rules: all of them, those for `kernels`, those for
    /// `drivers`, or those that are named (RULE,RULE). Ends with status 1 if a rule was broken. Rules for kernels
    /// make them many times slower.
    #[arg(long, value_name = "RULES", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    sanitize: Option<String>,
    /// Checks only this kernel; repeatable.
    #[arg(long, value_name = "KERNEL", requires = "sanitize")]
    sanitize_kernel: Vec<String>,
    /// Leaves out findings that a line of this file names: RULE:KERNEL, both of which may be `*`.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    suppressions: Option<PathBuf>,
    /// Writes the findings to a file as well: as JSON, SARIF or JUnit by its ending (.json, .sarif, .xml), else as
    /// text.
    #[arg(long, value_name = "FILE", requires = "sanitize")]
    sanitize_report: Option<PathBuf>,
}

/// Checks that run.
#[derive(Debug)]
pub(super) struct Sanitizing {
    options: SanitizeOptions,
    sanitizer: Option<Arc<Sanitizer>>,
    file: Option<PathBuf>,
    quiet: bool,
    symbols: Symbols,
}

impl SanitizeArgs {
    /// Returns true if checks are asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        self.sanitize.is_some()
    }

    /// Refuses a rule for which the device works on a copy of memory, together with an option that cannot go with
    /// that; the error names both.
    pub(super) fn check_with(&self, others: &[(&str, bool)]) -> anyhow::Result<()> {
        let rule = Rule::HdpNotFlushed.name();
        let is_named = |rules: &String| rules.split(',').any(|name| name == rule);
        if self.sanitize.as_ref().is_some_and(is_named)
            && let Some((other, _)) = others.iter().find(|(_, is_there)| *is_there)
        {
            anyhow::bail!(
                "--sanitize={rule} has the device work on a copy of memory, as --record does, and does not go with {other}"
            );
        }
        Ok(())
    }

    /// Begins to check, if asked to; `symbols` are files with debug information, for source lines.
    pub(super) fn start(&self, symbols: &[PathBuf]) -> anyhow::Result<Option<Sanitizing>> {
        let Some(rules) = &self.sanitize else { return Ok(None) };
        let mut options =
            SanitizeOptions { kernels: self.sanitize_kernel.clone(), ..SanitizeOptions::default() };
        options.rules = named(rules).map_err(|error| anyhow::anyhow!("--sanitize: {error}"))?;
        if let Some(path) = &self.suppressions {
            options.suppressions = suppressions(path)?;
        }
        let symbols = Symbols::of(symbols)?;
        let file = self.sanitize_report.clone();
        Ok(Some(Sanitizing { options, sanitizer: None, file, quiet: false, symbols }))
    }

    /// Spells the options that ask for these checks, but not the file.
    pub(super) fn spelled(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        if let Some(rules) = &self.sanitize {
            words.push(format!("--sanitize={rules}").into());
        }
        for kernel in &self.sanitize_kernel {
            words.extend(["--sanitize-kernel".into(), kernel.into()]);
        }
        if let Some(path) = &self.suppressions {
            words.extend(["--suppressions".into(), path.into()]);
        }
        words
    }
}

impl Sanitizing {
    /// Returns the choice of checks.
    pub(super) fn options(&self) -> &SanitizeOptions {
        &self.options
    }

    /// Makes the sanitizer of the kernels of a GPU in this process.
    pub(super) fn sanitizer(&mut self) -> Arc<Sanitizer> {
        let sanitizer = Arc::new(Sanitizer::new(self.options.clone()));
        Arc::clone(self.sanitizer.insert(sanitizer))
    }

    /// Prints nothing if nothing was found.
    pub(super) fn quiet_if(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Reports the findings of this process.
    pub(super) fn finish(self) -> anyhow::Result<bool> {
        let report = self.sanitizer.as_deref().map(Sanitizer::report);
        self.finish_with(report.into_iter())
    }

    /// Reports the findings on standard error, and writes the file; returns true if a rule was broken.
    pub(super) fn finish_with(mut self, found: impl Iterator<Item = SanitizeReport>) -> anyhow::Result<bool> {
        let mut report = SanitizeReport::default();
        found.for_each(|found| report.add(found));
        report.suppress(&self.options.suppressions);
        add_lines(&mut report, &mut self.symbols);
        if !self.quiet || !report.is_clean() {
            output::write_error(render(&report, Format::Text).as_bytes());
        }
        if let Some(path) = &self.file {
            let text = render(&report, Format::of(path));
            std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(!report.is_clean())
    }
}

/// Parses a list of rule names; three of the names stand for several rules.
fn named(list: &str) -> Result<BTreeSet<Rule>, UnknownRule> {
    let mut rules = BTreeSet::new();
    for name in list.split(',') {
        match name {
            "all" => rules.extend(Rule::usual()),
            "kernels" => rules.extend(Rule::usual().filter(|rule| rule.is_for_kernels())),
            "drivers" => rules.extend(Rule::usual().filter(|rule| !rule.is_for_kernels())),
            name => {
                rules.insert(name.parse()?);
            }
        }
    }
    Ok(rules)
}

/// Returns the exit status of a program whose kernels may have broken a rule: 1 in place of 0 if they have.
pub(super) fn status(program: i32, broken: bool) -> u8 {
    match u8::try_from(program) {
        Ok(0) => u8::from(broken),
        status => status.unwrap_or(1),
    }
}

/// Largest file of suppressions that is read, in bytes.
const MAX_FILE: u64 = 16 << 20;

/// Reads the lines of a file of suppressions; `#` begins a comment.
fn suppressions(path: &Path) -> anyhow::Result<Vec<Suppression>> {
    let bytes = files::read(path, MAX_FILE).with_context(|| format!("reading {}", path.display()))?;
    let text = String::from_utf8(bytes).with_context(|| format!("reading {}", path.display()))?;
    let lines = (1..).zip(text.lines().map(|line| line.split('#').next().unwrap_or_default().trim()));
    lines
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            line.parse().map_err(|error| anyhow::anyhow!("{}:{number}: {error}", path.display()))
        })
        .collect()
}
