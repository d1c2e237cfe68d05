//! One schedule after the other, in a child: each is a line of standard input, and its verdict a line of standard
//! output.

use std::io;
use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::explore::{Explored, Explorer, Schedule};
use belfry_device::sanitize::{SanitizeOptions, Sanitizer};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;
use serde::{Deserialize, Serialize};

use crate::racy;
use crate::trial::{answer, answer_lines, without_numbers};

/// Failure of a program: something that it must not do under any schedule.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Failure {
    /// Its kind: `wrong result`, `error`, `hang`, `panic`, `died`, or a rule of the sanitizer.
    pub kind: String,
    /// Description of the failure.
    pub text: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl Failure {
    pub(super) fn new(kind: &str, text: impl Into<String>) -> Self {
        Self { kind: kind.to_owned(), text: text.into() }
    }

    /// Returns a key that is equal for all failures of one cause: numbers in their texts make no difference.
    #[must_use]
    pub fn signature(&self) -> String {
        format!("{}: {}", self.kind, without_numbers(&self.text))
    }
}

/// Result of a program under a schedule.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Verdict {
    /// Failure of the program, if it failed.
    pub failure: Option<Failure>,
    /// Record of the schedule as it ran.
    pub explored: Explored,
    /// The child ends with this answer.
    pub ends: bool,
}

/// Program and device of a child.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The device.
    pub gpu: GpuConfig,
    /// A bundled program, and its arguments.
    pub program: Vec<String>,
    /// Steps after which a run counts as hung.
    pub steps: u64,
    /// Checks beside the program's own result, if any.
    pub sanitize: Option<SanitizeOptions>,
}

/// Answers schedules, a line each, until there are no more.
///
/// # Errors
///
/// The errors of standard input and output.
pub fn serve(subject: &Subject) -> io::Result<()> {
    answer_lines(|line| match line.parse() {
        Ok(schedule) => attempt(subject, &schedule),
        Err(error) => {
            Verdict { failure: Some(Failure::new("error", format!("{error}"))), ..Verdict::default() }
        }
    })
}

/// Runs the program under a schedule, on a device and a driver of its own. If the program hangs, the process answers
/// and then ends.
fn attempt(subject: &Subject, schedule: &Schedule) -> Verdict {
    let explorer = Explorer::new(schedule, subject.steps);
    explorer.on_hang(|why, explored| {
        let failure = Some(Failure::new("hang", why.to_string()));
        // The process ends here, so an error of the write cannot be reported.
        let _ = answer(&Verdict { failure, explored, ends: true });
        std::process::exit(0);
    });
    let sanitizer = subject.sanitize.clone().map(|options| Arc::new(Sanitizer::new(options)));
    let gpu = GpuConfig {
        explorer: Some(explorer.clone()),
        sanitizer: sanitizer.clone(),
        trace: None,
        ..subject.gpu.clone()
    };
    // State that a panic leaves half done belongs to this run alone.
    let run = std::panic::AssertUnwindSafe(|| run(&gpu, &subject.program, &explorer));
    let outcome = std::panic::catch_unwind(run);
    explorer.end();
    let failure = match outcome {
        Ok(Ok(())) => found(sanitizer.as_deref(), subject.sanitize.as_ref()),
        Ok(Err(error)) => {
            let is_wrong = error.chain().any(|cause| cause.is::<belfry_examples::WrongResult>());
            let text = format!("{error:#}");
            match text.strip_prefix("wrong result: ") {
                Some(text) => Some(Failure::new("wrong result", text)),
                None => Some(Failure::new(if is_wrong { "wrong result" } else { "error" }, text)),
            }
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a thread panicked");
            Some(Failure::new("panic", text))
        }
    };
    Verdict { failure, explored: explorer.explored(), ends: false }
}

fn run(config: &GpuConfig, program: &[String], explorer: &Explorer) -> anyhow::Result<()> {
    let gpu = HostedGpu::new(config.clone())?;
    let runtime = Runtime::with_transport(HostedTransport::open(&gpu)?)?;
    let (name, arguments) = program.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    explorer.begin();
    let result = racy::run(&gpu, &runtime, (name, arguments), &mut io::sink());
    explorer.end();
    result
}

/// Returns the first finding of the sanitizer.
fn found(sanitizer: Option<&Sanitizer>, options: Option<&SanitizeOptions>) -> Option<Failure> {
    let mut report = sanitizer?.report();
    report.suppress(&options?.suppressions);
    if report.is_clean() {
        return None;
    }
    let text = crate::sanitize::render(&report, crate::sanitize::Format::Text);
    let first = text.lines().next().unwrap_or_default();
    let (rule, rest) = first.split_once(": ").unwrap_or(("sanitizer", first));
    Some(Failure::new(rule, rest))
}
