//! `--profile` of commands that run programs.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use belfry_device::GpuConfig;
use belfry_device::profile::{ProfileOptions, ProfileReport, Profiler};
use belfry_device::spent;
use belfry_machine::Gpus;
use clap::Args;

use crate::flame;
use crate::output;
use crate::profile::{Format, Gpu, Process, render};
use crate::symbols::Symbols;

/// Counts of what kernels do.
#[derive(Debug, Default, Args)]
pub(super) struct ProfileArgs {
    /// Counts what kernels execute and access, and reports it at the end on standard error or in a file. Kernels run
    /// many times slower.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    profile: Option<PathBuf>,
    /// Format of the profile: text or one JSON object [default: by the ending of the file's name, else text].
    #[arg(long, value_name = "FORMAT", value_enum, requires = "profile")]
    profile_format: Option<Format>,
    /// Profiles only this kernel; repeatable.
    #[arg(long, value_name = "KERNEL", requires = "profile")]
    profile_kernel: Vec<String>,
}

/// Host time of the emulator.
#[derive(Debug, Default, Args)]
pub(super) struct HostTimeArgs {
    /// Writes the time of the emulator's own threads, by emulated part: as a flame graph (.svg), else as folded
    /// stacks.
    #[arg(long, value_name = "FILE")]
    profile_host: Option<PathBuf>,
}

impl HostTimeArgs {
    /// Begins to measure, if asked to.
    pub(super) fn start(self, gpu: &mut GpuConfig) -> Option<HostTime> {
        self.profile_host.map(|file| HostTime::start(file, gpu))
    }
}

/// A profile that is being made.
#[derive(Debug)]
pub(super) struct Profiling {
    options: ProfileOptions,
    /// Profilers of the GPUs of this process.
    profilers: Vec<Arc<Profiler>>,
    /// `None` is standard error.
    file: Option<PathBuf>,
    format: Format,
    /// The GPUs, by their numbers.
    gpus: Vec<Gpu>,
    symbols: Symbols,
}

impl ProfileArgs {
    /// Returns true if a profile is asked for.
    pub(super) fn is_asked_for(&self) -> bool {
        self.profile.is_some()
    }

    /// Begins to profile kernels of these GPUs, if asked to.
    pub(super) fn start(&self, gpus: &Gpus, symbols: &[PathBuf]) -> anyhow::Result<Option<Profiling>> {
        let Some(place) = &self.profile else { return Ok(None) };
        let file = Some(place.clone()).filter(|place| place.as_os_str() != "-");
        let is_json = place.extension().is_some_and(|ending| ending == "json");
        let usual = if is_json { Format::Json } else { Format::Text };
        Ok(Some(Profiling {
            options: ProfileOptions { kernels: self.profile_kernel.clone() },
            profilers: Vec::new(),
            file,
            format: self.profile_format.unwrap_or(usual),
            gpus: gpus.all().iter().map(Gpu::from).collect(),
            symbols: Symbols::of(symbols)?,
        }))
    }

    /// Spells the options that ask for this profile on standard error.
    pub(super) fn spelled(&self) -> Vec<OsString> {
        let mut words: Vec<OsString> = Vec::new();
        if self.is_asked_for() {
            words.push("--profile".into());
        }
        if let Some(format) = self.profile_format {
            let format = if format == Format::Json { "json" } else { "text" };
            words.extend(["--profile-format".into(), format.into()]);
        }
        for kernel in &self.profile_kernel {
            words.extend(["--profile-kernel".into(), kernel.into()]);
        }
        words
    }
}

impl Profiling {
    /// Returns the choice of kernels and counts.
    pub(super) fn options(&self) -> &ProfileOptions {
        &self.options
    }

    /// Makes the profilers of the GPUs of this process.
    pub(super) fn watch(&mut self, gpus: &mut Gpus) {
        for gpu in std::iter::once(&mut gpus.first).chain(&mut gpus.others) {
            let profiler = Arc::new(Profiler::new(self.options.clone()));
            self.profilers.push(Arc::clone(&profiler));
            gpu.profiler = Some(profiler);
        }
    }

    /// Reports the counts of this process.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let reports = self.profilers.iter().map(|profiler| profiler.report()).collect();
        self.finish_with(&[Process { of: None, reports }])
    }

    /// Reports the counts of these processes.
    pub(super) fn finish_with(mut self, processes: &[Process]) -> anyhow::Result<()> {
        let text = render(processes, &self.gpus, &mut self.symbols, self.format);
        match &self.file {
            Some(path) => {
                std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
            }
            None => output::write_error(text.as_bytes()),
        }
        Ok(())
    }
}

/// Counts of the time of this process's threads, under way.
#[derive(Debug)]
pub(super) struct HostTime(PathBuf);

impl HostTime {
    /// Begins to count; compiled code of the GPU then counts, too.
    pub(super) fn start(file: PathBuf, gpu: &mut GpuConfig) -> Self {
        gpu.counts_code = true;
        spent::begin();
        Self(file)
    }

    /// Writes the graph; the GPU has ended.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        let text = flame::render(&spent::report(), flame::Format::of(&self.0));
        std::fs::write(&self.0, text).with_context(|| format!("writing {}", self.0.display()))
    }
}

/// Takes the profile of a process that has ended.
pub(super) fn of_process(pid: i32, program: &str, reports: &mut Vec<ProfileReport>) -> Option<Process> {
    let reports = std::mem::take(reports);
    (!reports.is_empty()).then(|| Process { of: Some((pid, program.to_owned())), reports })
}
