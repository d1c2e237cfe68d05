//! `--sanitize` of commands that run programs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::sanitize::{Rule, SanitizeOptions, SanitizeReport, Sanitizer, Suppression};
use belfry_process::files;
use clap::Args;

use crate::output;
use crate::sanitize::{Format, add_lines, render};
use crate::symbols::Symbols;

/// Checks of what kernels, drivers and runtimes do.
#[derive(Debug, Default, Args)]
pub(super) struct SanitizeArgs {
    /// Checks what kernels, drivers and runtimes do against rules: all of them, those for `kernels`, those for `drivers`, or those that are
    /// named (RULE,RULE). Ends with status 1 where one was broken. Rules for kernels make them many times slower.
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
    options: SanitizeOptions,
    sanitizer: Option<Arc<Sanitizer>>,
    file: Option<PathBuf>,
    quiet: bool,
    symbols: Symbols,
}

impl SanitizeArgs {
    /// Whether checks are asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        self.sanitize.is_some()
    }

    /// Refuses a rule for which the device works on a copy of memory together with what does not go with that, which is named.
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

    /// Begins to check, if that is asked for; files with debug information are for source lines.
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

    /// The words that ask for the same, but for a file.
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
    /// What is checked.
    pub(super) fn options(&self) -> &SanitizeOptions {
        &self.options
    }

    /// What checks the kernels of a GPU in this process.
    pub(super) fn sanitizer(&mut self) -> Arc<Sanitizer> {
        let sanitizer = Arc::new(Sanitizer::new(self.options.clone()));
        Arc::clone(self.sanitizer.insert(sanitizer))
    }

    /// Says nothing where nothing was found.
    pub(super) fn quiet_if(self, quiet: bool) -> Self {
        Self { quiet, ..self }
    }

    /// Tells what was found in this process.
    pub(super) fn finish(self) -> anyhow::Result<bool> {
        let report = self.sanitizer.as_deref().map(Sanitizer::report);
        self.finish_with(report.into_iter())
    }

    /// Tells what was found on standard error, and writes the file; whether a rule was broken.
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

/// The rules of a list of names, of which three stand for several.
fn named(list: &str) -> Result<BTreeSet<Rule>, String> {
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

/// The exit status of a program whose kernels may have broken a rule: 1 for 0 then.
pub(super) fn status(program: i32, broken: bool) -> u8 {
    match u8::try_from(program) {
        Ok(0) => u8::from(broken),
        status => status.unwrap_or(1),
    }
}

/// Bytes of a file of suppressions that are read.
const MAX_FILE: u64 = 16 << 20;

/// The lines of a file of suppressions; `#` begins a comment.
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
