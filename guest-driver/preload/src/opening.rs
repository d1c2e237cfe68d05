//! The GPUs of this process, made when the program opens them.
#![expect(unsafe_code, reason = "calls of the C library")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Instant;

use belfry_device::GpuConfig;
use belfry_device::trace::{Timeline, TraceSink};
use belfry_kfd_hosted::HostedMachine;

use crate::gpu::{self, Gpu, running};
use crate::inside::{inside, inside_here, is_companion_thread, is_inside};
use crate::real::raw;
use crate::settings::{Settings, settings};
use crate::{
    bridge, card, clock, companion, costs, debug, doorbells, ending, file_limit, node, notice, onlookers,
    record, start, summary, trace, unmapped,
};

/// Threads for the driver's work that are there from the beginning.
const WORKERS: usize = 2;

/// The process of which a thread is starting the GPU; 0 while none is.
static STARTING: AtomicI32 = AtomicI32::new(0);
/// The process that has opened a node: a child that was forked afterwards has opened none, even if it has
/// inherited a descriptor.
static OPENER: AtomicI32 = AtomicI32::new(0);

/// Notes that this process has opened a node.
pub(crate) fn opened() {
    OPENER.store(raw::getpid(), Ordering::Relaxed);
}

/// The GPU for a call on a node; an errno where the node is another process's, or where there can be no GPU.
pub(crate) fn get() -> Result<&'static Gpu, i32> {
    if let Some(gpu) = running() {
        return Ok(gpu);
    }
    if OPENER.load(Ordering::Relaxed) != raw::getpid() {
        // amdkfd gives this answer to processes that have inherited the descriptor.
        return Err(libc::EBADF);
    }
    start()
}

/// Makes the GPU, or waits for the thread that is making it.
pub(crate) fn start() -> Result<&'static Gpu, i32> {
    let _starts = Starts::begin();
    match running() {
        Some(gpu) => Ok(gpu),
        None if settings().is_some_and(|settings| settings.debuggable) => make_in_companion(),
        None => inside(make),
    }
}

/// This thread starts the GPU.
struct Starts;

impl Starts {
    /// Waits for another thread of this process that is starting the GPU. A start that was under way in the
    /// parent when this process was forked is ignored: no thread ends it.
    fn begin() -> Self {
        gpu::is_to_forget();
        let me = raw::getpid();
        loop {
            let before = STARTING.load(Ordering::Relaxed);
            let free = before != me;
            if free && STARTING.compare_exchange(before, me, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return Self;
            }
            // SAFETY: gives up the processor and nothing else.
            unsafe { libc::sched_yield() };
        }
    }
}

impl Drop for Starts {
    fn drop(&mut self) {
        STARTING.store(0, Ordering::Release);
    }
}

/// Makes the GPU in a companion, if a debugger may stop this process.
fn make_in_companion() -> Result<&'static Gpu, i32> {
    companion::start()?;
    let gpu = inside(|| make().inspect(|gpu| debug::serve(gpu)))?;
    // The companion has actions of its own.
    inside_here(bridge::install);
    Ok(gpu)
}

fn make() -> Result<&'static Gpu, i32> {
    let settings = settings().ok_or(libc::ENODEV)?;
    let _writes = file_limit::Writes::begin();
    register();
    notice::start_log();
    clock::find();
    let started = Instant::now();
    let notifier = unmapped::Notifier::new();
    let bell = doorbells::Trap::new();
    let mut configs = start::fitting(settings.devices(bell.is_none()));
    let kept_code =
        settings.code_folder().and_then(|folder| belfry_code_folder::keep_in(folder, notice::say));
    card::join();
    let ring = settings.trace.as_ref().and_then(trace::ring);
    let sink = ring.clone().map(|ring| ring as Arc<dyn TraceSink>);
    let timeline = sink.clone().filter(|_| configs.len() > 1).map(Timeline::new);
    let time = configs.first().map(|config| config.gpu.time.clone()).unwrap_or_default();
    for (number, config) in configs.iter_mut().enumerate() {
        config.pid = companion::process() as u32;
        config.gpu.activity = card::activity(number);
        config.gpu.kept_code.clone_from(&kept_code);
        config.gpu.trace =
            timeline.as_ref().map(|timeline| timeline.of_gpu(number as u8)).or_else(|| sink.clone());
        config.gpu.time = time.clone();
        config.gpu.profiler = settings.profile.as_deref().and_then(summary::profiler);
    }
    if let Some(first) = configs.first_mut() {
        first.pins = Some(notifier.clone());
        watch_first(&mut first.gpu, settings);
    }
    let recording = settings.record.as_deref().and_then(record::start);
    configs.iter_mut().for_each(|config| config.gpu.record.clone_from(&recording));
    let opened = HostedMachine::placed(configs)
        .and_then(|machine| machine.open_with(node::partition_of).map(|process| (machine, process)));
    let (machine, process) = opened.map_err(|error| {
        notice::say(format_args!("the GPU cannot be started: {error}"));
        if matches!(error, belfry_kfd_hosted::Error::System { .. }) { libc::ENOMEM } else { libc::ENODEV }
    })?;
    // A thread that is made later may have its stack in memory that the program has just freed and that the GPU still
    // writes to: like any new memory there, it would be the GPU's again.
    machine.gpus().iter().for_each(|gpu| gpu.add_work_threads(WORKERS));
    if let Some(ring) = &ring {
        trace::note_begin(ring, machine.first().device().tracer());
    }
    costs::begin();
    let start_ms = started.elapsed().as_secs_f64() * 1e3;
    let pid = companion::process();
    let gpu = gpu::is_there(Gpu { machine, process, pid, started, start_ms });
    summary::write(summary::End::Lost);
    ending::watch();
    if is_companion_thread() {
        bridge::install_here();
    } else {
        bridge::install();
    }
    // From here on, the handler is there. Faults are not blocked where calls of the driver are made with signals blocked.
    belfry_kfd_hosted::catch_faults(is_inside);
    notifier.start(gpu);
    if let Some(bell) = bell {
        bell.start(gpu);
    }
    if let Some(asked) = &settings.inspect {
        onlookers::serve(&gpu.machine, asked);
    }
    Ok(gpu)
}

/// Connects the tools that were asked for, which look at one GPU each, to the first one. With them, `belfry exec` offers no other one.
fn watch_first(gpu: &mut GpuConfig, settings: &Settings) {
    gpu.sanitizer = settings.sanitize.as_deref().and_then(summary::sanitizer);
    if let Some(faults) = settings.faults.as_deref().and_then(summary::faults) {
        gpu.faults = faults;
    }
}

/// Has the C library say when the process ends.
fn register() {
    static DONE: AtomicBool = AtomicBool::new(false);
    if DONE.swap(true, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the function stays as long as the process, as this library is never unloaded.
    unsafe { libc::atexit(at_exit) };
}

/// In a forked child no thread starts one.
pub(crate) fn forget() {
    STARTING.store(0, Ordering::Release);
}

extern "C" fn at_exit() {
    summary::write(summary::End::Exited);
    card::leave();
}
