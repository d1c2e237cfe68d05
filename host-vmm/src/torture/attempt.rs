//! One plan after the other, in a child: each is a line of standard input, and its verdict a line of standard output.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use belfry_device::GpuConfig;
use belfry_device::faults::{Plan, Rule};
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::Runtime;
use belfry_runtime_hosted::HostedTransport;

use super::in_guest::{InGuest, Machine};
use super::verdict::{Ending, Verdict};
use super::{TIME_FACTOR, hasty};
use crate::hosted::PATIENCE;
use crate::trial::{Finding, answer_lines};

/// Time limit for the program's resources to be given back.
const SETTLES: Duration = Duration::from_secs(3);
/// Pause between two checks.
const LOOK: Duration = Duration::from_millis(1);

/// A mistake that a child makes on purpose, for tests of the findings.
#[derive(Clone, Copy, Debug, Eq, PartialEq, clap::ValueEnum)]
pub enum Bug {
    /// A descriptor stays open if the program ends with an error.
    KeepsDescriptor,
}

/// Messages of panics since the last plan.
type Panics = Arc<Mutex<Vec<String>>>;

/// Place in which a program runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Place {
    /// In this process, over the hosted driver.
    Hosted(Option<Bug>),
    /// In guests, with this time limit.
    Guest(Machine, Duration),
}

/// Answers plans, a line each, until there are no more.
///
/// # Errors
///
/// The errors of standard input and output; parts of guests that are not there.
pub fn serve(config: &GpuConfig, program: &[String], place: Place) -> io::Result<()> {
    let panics = Panics::default();
    let kept = Arc::clone(&panics);
    std::panic::set_hook(Box::new(move |panic| {
        let thread = std::thread::current().name().unwrap_or("?").to_owned();
        kept.lock().unwrap_or_else(PoisonError::into_inner).push(format!("thread {thread}: {panic}"));
    }));
    let (bug, mut guests) = match place {
        Place::Hosted(bug) => (bug, None),
        Place::Guest(machine, limit) => {
            let guests = InGuest::new(machine, config, (program, limit)).map_err(io::Error::other)?;
            (None, Some(guests))
        }
    };
    answer_lines(|text| {
        panics.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let plan = text.strip_prefix("count").map_or_else(|| text.parse(), |_| Ok(Plan::counting()));
        let mut verdict = match (plan, &mut guests) {
            (Err(error), _) => Verdict { ending: Ending::Error(error.to_string()), ..Verdict::default() },
            (Ok(plan), Some(guests)) => guests.attempt(&plan),
            (Ok(plan), None) => attempt(&GpuConfig { faults: plan, ..hasty(config) }, (program, bug)),
        };
        let messages = std::mem::take(&mut *panics.lock().unwrap_or_else(PoisonError::into_inner));
        verdict.findings.extend(messages.into_iter().take(1).map(Finding::Panic));
        verdict
    })
}

/// Resources that a driver holds: bytes of system memory, pinned ranges, bytes of VRAM and of GTT.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct Held {
    system: usize,
    pins: usize,
    vram: u64,
    gtt: u64,
}

impl Held {
    /// Returns true if more is held of anything than before.
    fn is_more_than(&self, before: &Self) -> bool {
        let Self { system, pins, vram, gtt } = self;
        *system > before.system || *pins > before.pins || *vram > before.vram || *gtt > before.gtt
    }

    fn of(gpu: &HostedGpu) -> Self {
        let number = |path| {
            let text = gpu.card_read(path).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
        };
        Self {
            system: gpu.system_memory_used(),
            pins: gpu.pinned_ranges(),
            vram: number("mem_info_vram_used"),
            gtt: number("mem_info_gtt_used"),
        }
    }
}

/// Returns the threads of this process, by name, and the number of its descriptors.
fn own() -> (BTreeMap<String, usize>, usize) {
    let entries = |path| std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut threads = BTreeMap::new();
    for thread in entries("/proc/self/task") {
        // A thread that has ended meanwhile has no name any more.
        if let Ok(name) = std::fs::read_to_string(thread.path().join("comm")) {
            *threads.entry(name.trim().to_owned()).or_insert(0) += 1;
        }
    }
    (threads, entries("/proc/self/fd").count())
}

/// Calls `look` until it returns `wanted`, or until the time limit; returns its last result.
fn settled<T: PartialEq>(wanted: &T, look: impl Fn() -> T) -> T {
    let until = Instant::now() + SETTLES;
    loop {
        let now = look();
        if now == *wanted || Instant::now() >= until {
            return now;
        }
        std::thread::sleep(LOOK);
    }
}

/// Runs the program on a GPU; returns its error, if it ends with one.
fn run(gpu: &Arc<HostedGpu>, program: &[String]) -> Result<(), anyhow::Error> {
    let runtime = Runtime::with_transport(HostedTransport::open(gpu)?)?;
    runtime.limit_waits(PATIENCE.div_f64(TIME_FACTOR));
    let (name, arguments) = program.split_first().map_or(("", &[][..]), |(name, rest)| (name.as_str(), rest));
    belfry_examples::run(name, &runtime, arguments, &mut io::sink())
}

fn attempt(config: &GpuConfig, (program, bug): (&[String], Option<Bug>)) -> Verdict {
    let before = own();
    let mut verdict = Verdict::default();
    let keeps = match HostedGpu::new(config.clone()) {
        Err(error) => {
            verdict.ending = Ending::Error(format!("the driver does not load: {error}"));
            false
        }
        Ok(gpu) => on_gpu(&gpu, program, &mut verdict),
    };
    if bug == Some(Bug::KeepsDescriptor) && verdict.ending != Ending::Well {
        std::mem::forget(std::fs::File::open("/dev/null"));
    }
    let after = if keeps { before.clone() } else { settled(&before, own) };
    let more = |(name, count): (&String, &usize)| {
        (*count > before.0.get(name).copied().unwrap_or(0)).then(|| name.clone())
    };
    let threads: Vec<String> = after.0.iter().filter_map(more).collect();
    if !threads.is_empty() {
        verdict.findings.push(Finding::Leak(format!("threads: {}", threads.join(", "))));
    }
    if after.1 > before.1 {
        verdict.findings.push(Finding::Leak(format!("{} descriptors", after.1 - before.1)));
    }
    verdict
}

/// Runs the program, and checks what it leaves behind; returns true if the driver keeps memory that the device may
/// still use.
fn on_gpu(gpu: &Arc<HostedGpu>, program: &[String], verdict: &mut Verdict) -> bool {
    let held = Held::of(gpu);
    verdict.loading = gpu.device().faults().report().met;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(gpu, program)));
    let faults = gpu.device().faults();
    faults.end();
    let report = faults.report();
    verdict.note(&report);
    let has_struck = |rule| report.struck.contains_key(&rule);
    match outcome {
        Ok(Ok(())) | Err(_) => {}
        Ok(Err(error)) => {
            let is_wrong = error.chain().any(|cause| cause.is::<belfry_examples::WrongResult>());
            verdict.failed(format!("{error:#}"), is_wrong, &report);
        }
    }
    if has_struck(Rule::DriverUnbound) {
        // The next run shows if it loads.
        let _ = gpu.load();
    }
    // A device that was given up while it is on the bus may still write to its memory: that memory is kept on
    // purpose.
    let keeps = has_struck(Rule::RegisterStuck) && run(gpu, program).is_err();
    let after = if keeps { held } else { settled(&held, || Held::of(gpu)) };
    // A card that is gone, or that has a broken register, does not come back.
    if !has_struck(Rule::Removal)
        && !has_struck(Rule::RegisterStuck)
        && let Err(error) = run(gpu, program)
    {
        // If the reset has failed as well, the next driver has to do it.
        gpu.unload();
        match gpu.load().map_err(anyhow::Error::from).and_then(|()| run(gpu, program)) {
            Ok(()) => verdict.reloaded = true,
            Err(again) => {
                verdict.findings.push(Finding::Broken(format!("{error:#}; with a new driver: {again:#}")));
            }
        }
    }
    let keeps = keeps || verdict.reloaded;
    if after.is_more_than(&held) && !keeps {
        verdict.findings.push(Finding::Leak(format!("of {held:?}, {after:?} is held")));
    }
    gpu.unload();
    let bytes = gpu.system_memory_used();
    if bytes != 0 && !keeps {
        verdict.findings.push(Finding::Leak(format!("{bytes} bytes after the driver was unloaded")));
    }
    keeps
}
