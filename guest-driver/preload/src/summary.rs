//! Summary of a process that used the GPU: one line of JSON in the file that `belfry exec` has named.

use std::ffi::c_int;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::sync::Arc;

use belfry_device::Stats;
use belfry_device::faults::Plan;
use belfry_device::profile::{ProfileOptions, Profiler};
use belfry_device::record::Recorded;
use belfry_device::sanitize::{SanitizeOptions, Sanitizer};
use belfry_report::{Doorbells, FaultsOfProcess, Line, ProcessReport, RecordOfProcess, Unmodelled};

use crate::costs;
use crate::inside::inside;
use crate::settings::settings;
use crate::{companion, file_limit, gpu, process, record};

/// End of a process, as far as it knows.
#[derive(Clone, Copy)]
pub(crate) enum End {
    /// The process ends by itself, or becomes another program.
    Exited,
    /// A signal ends it.
    Signalled(c_int),
    /// The process runs. This line is the last one of a process that cannot tell its end.
    Lost,
}

impl End {
    fn kind(self) -> belfry_report::End {
        match self {
            Self::Exited => belfry_report::End::Exited,
            Self::Signalled(_) => belfry_report::End::Signalled,
            Self::Lost => belfry_report::End::Lost,
        }
    }

    fn signal(self) -> Option<c_int> {
        match self {
            Self::Signalled(signal) => Some(signal),
            Self::Exited | Self::Lost => None,
        }
    }
}

/// The record of this process's GPUs, if they have one.
fn record_of(gpu: &gpu::Gpu) -> Option<RecordOfProcess> {
    let recording = gpu.machine.first().device().config().record.as_ref()?;
    let (said, error) = match recording.recorded() {
        Ok(said) => (said, None),
        Err(error) => (Recorded::default(), Some(error.to_string())),
    };
    let Recorded { operations, inputs, events, bytes, complete, .. } = said;
    Some(RecordOfProcess { file: record::name(), operations, inputs, events, bytes, complete, error })
}

/// Makes the checker of this process's kernels from the options that were handed over.
pub(crate) fn sanitizer(options: &[u8]) -> Option<Arc<Sanitizer>> {
    match serde_json::from_slice::<SanitizeOptions>(options) {
        Ok(options) => Some(Arc::new(Sanitizer::new(options))),
        Err(error) => {
            crate::notice::say(format_args!("kernels of this process are not checked: {error}"));
            None
        }
    }
}

/// Makes the profiler of this process's kernels from the options that were handed over.
pub(crate) fn profiler(options: &[u8]) -> Option<Arc<Profiler>> {
    match serde_json::from_slice::<ProfileOptions>(options) {
        Ok(options) => Some(Arc::new(Profiler::new(options))),
        Err(error) => {
            crate::notice::say(format_args!("kernels of this process are not profiled: {error}"));
            None
        }
    }
}

/// Reads the plan of faults of this process from the text that was handed over.
pub(crate) fn faults(text: &[u8]) -> Option<Plan> {
    let plan = std::str::from_utf8(text).map_err(|error| error.to_string());
    match plan
        .and_then(|text| text.parse().map_err(|error: belfry_device::faults::PlanError| error.to_string()))
    {
        Ok(plan) => Some(plan),
        Err(error) => {
            crate::notice::say(format_args!("nothing fails on purpose in this process: {error}"));
            None
        }
    }
}

/// Returns true if `belfry exec` has named a file for the line.
pub(crate) fn is_wanted() -> bool {
    settings().is_some_and(|settings| settings.summary.is_some())
}

/// Writes the line, if it is wanted and the process has used the GPU; the last line of a process counts.
pub(crate) fn write(end: End) {
    let Some(gpu) = gpu::own() else { return };
    let Some(path) = settings().and_then(|settings| settings.summary.as_ref()) else { return };
    let _writes = file_limit::Writes::begin();
    inside(|| {
        // Tools look at the first one alone; counters are those of all.
        let device = gpu.machine.first().device();
        let devices = || gpu.machine.gpus().iter().map(|gpu| gpu.device());
        if !matches!(end, End::Lost) {
            devices().for_each(|device| device.end_record());
        }
        let stats = devices().map(|device| device.stats()).fold(Stats::default(), Stats::plus);
        let mut arguments = std::fs::read("/proc/self/cmdline")
            .unwrap_or_default()
            .split(|&byte| byte == 0)
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect::<Vec<_>>();
        arguments.pop();
        let program = if arguments.is_empty() { String::new() } else { arguments.remove(0) };
        let process = ProcessReport {
            pid: companion::process(),
            end: end.kind(),
            signal: end.signal(),
            counted: false,
            program,
            arguments,
            start_ms: gpu.start_ms,
            program_ms: gpu.started.elapsed().as_secs_f64() * 1e3,
            dispatches: stats.dispatches,
            waves: stats.waves,
            wave_instructions: stats.wave_instructions,
            doorbells: Doorbells::of(&stats),
            page_walks: stats.page_walks,
            processor_ms: costs::processor_time(),
            peak_bytes: costs::peak_bytes(),
            code: device.config().counts_code.then(|| costs::code(&device.take_code_times())).flatten(),
            kept_code: stats.kept_code,
            interrupts: stats.interrupts,
            errors: stats.errors.iter().map(|(error, &count)| (error.name().to_owned(), count)).collect(),
            reasons: stats
                .reasons
                .iter()
                .map(|(error, text)| (error.name().to_owned(), text.clone()))
                .collect(),
            unmodelled: devices()
                .flat_map(|device| device.unmodelled())
                .map(|(register, reads, writes)| Unmodelled { register, reads, writes })
                .collect(),
            sanitizer: device.sanitized(),
            faults: device.faults().is_on().then(|| FaultsOfProcess::of(&device.faults().report())),
            profile: devices()
                .filter_map(|device| device.config().profiler.as_deref().map(Profiler::report))
                .collect(),
            record: record_of(gpu),
        };
        let started = process::started_at(companion::process() as u32).unwrap_or(0);
        let line = Line { started, process };
        let Ok(mut text) = serde_json::to_vec(&line) else { return };
        text.push(b'\n');
        // One write of an appended file: lines of several processes do not mix.
        if let Ok(mut file) = OpenOptions::new().append(true).custom_flags(libc::O_CLOEXEC).open(path) {
            let _ = file.write_all(&text);
        }
    });
}
