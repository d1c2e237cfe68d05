//! Costs of a process so far: processor time by kind of thread, peak memory, and the time of compiled code.
#![expect(unsafe_code, reason = "reads clocks of threads and processes")]

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use belfry_device::{CodeTimes, ticks};
use belfry_report::{CodeOfProcess, ProcessorTime};

use crate::settings::settings;

/// Nanoseconds of processor time that threads of the program have spent in waits of ROCr.
static WAITS: AtomicU64 = AtomicU64::new(0);
/// Time at which the GPU was opened, and the time stamp counter then.
static BEGAN: OnceLock<(Instant, u64)> = OnceLock::new();

/// Kinds of threads of this library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Worker,
    Device,
}

impl Kind {
    /// The kind of a thread of this name; `None` if the program has started it.
    fn of(name: &str) -> Option<Self> {
        if name.starts_with("shader-") {
            return Some(Self::Worker);
        }
        ["gpu-", "sdma-", "belfry"].iter().any(|start| name.starts_with(start)).then_some(Self::Device)
    }
}

/// Notes the begin of the time over which the time stamp counter's rate is taken.
pub(crate) fn begin() {
    BEGAN.get_or_init(|| (Instant::now(), ticks()));
}

/// Runs a wait of ROCr, and counts its processor time if a summary is wanted.
pub(crate) fn of_wait<R>(wait: impl FnOnce() -> R) -> R {
    if settings().is_none_or(|settings| settings.summary.is_none()) {
        return wait();
    }
    let before = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID);
    let result = wait();
    WAITS.fetch_add(nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID).saturating_sub(before), Ordering::Relaxed);
    result
}

fn nanoseconds(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is this function's own, and the kernel knows both clocks that it is asked for.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs()
}

/// Returns the time of this process. That of threads which have ended counts for the program.
pub(crate) fn processor_time() -> ProcessorTime {
    let (mut workers, mut device) = (0, 0);
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let of = |file: &str| fs::read_to_string(task.path().join(file)).unwrap_or_default();
        let Some(kind) = Kind::of(of("comm").trim_end()) else { continue };
        // The first word is the time on a processor (Documentation/scheduler/sched-stats.rst).
        let time: u64 =
            of("schedstat").split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default();
        match kind {
            Kind::Worker => workers += time,
            Kind::Device => device += time,
        }
    }
    let program = nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID).saturating_sub(workers + device);
    let ms = |time: u64| time as f64 / 1e6;
    let waits = WAITS.load(Ordering::Relaxed);
    ProcessorTime { program: ms(program), waits: ms(waits), workers: ms(workers), device: ms(device) }
}

/// Returns the most memory that this process has had, in bytes.
pub(crate) fn peak_bytes() -> Option<u64> {
    peak(&fs::read_to_string("/proc/self/status").ok()?)
}

fn peak(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the times that a device has counted.
pub(crate) fn code(times: &CodeTimes) -> Option<CodeOfProcess> {
    let (began, from) = BEGAN.get()?;
    let per_ms = ticks().wrapping_sub(*from) as f64 / (began.elapsed().as_secs_f64() * 1e3);
    let ms = |ticks: u64| ticks as f64 / per_ms;
    let handlers = times.calls.iter().map(|(&name, &(calls, ticks))| (name.to_owned(), (calls, ms(ticks))));
    Some(CodeOfProcess {
        instructions: times.instructions,
        ms: ms(times.ticks),
        handlers: handlers.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_told_apart_by_their_names() {
        for (name, kind) in [
            ("shader-3", Some(Kind::Worker)),
            ("gpu-runner", Some(Kind::Device)),
            ("sdma-0", Some(Kind::Device)),
            ("belfry-irq", Some(Kind::Device)),
            ("belfry compiles", Some(Kind::Device)),
            ("python3", None),
            ("shader", None),
        ] {
            assert_eq!(Kind::of(name), kind, "{name}");
        }
    }

    #[test]
    fn times_of_threads_are_parts_of_the_processs_own() {
        let spin = |name: &str| {
            let until = Instant::now() + std::time::Duration::from_millis(20);
            let spins = move || while Instant::now() < until {};
            std::thread::Builder::new().name(name.to_owned()).spawn(move || {
                spins();
                processor_time()
            })
        };
        let seen = spin("shader-9").unwrap().join().unwrap();
        assert!(seen.workers > 0.0 && seen.program >= 0.0, "{seen:?}");
    }

    #[test]
    fn peaks_are_read_in_kilobytes() {
        assert_eq!(peak("Name:\tx\nVmHWM:\t  152000 kB\nVmRSS:\t 1 kB\n"), Some(152_000 << 10));
        assert_eq!(peak("VmHWM:\t 1 MB\n"), None);
        assert_eq!(peak("VmHWM:\t 36893488147419103232 kB\n"), None);
    }
}
