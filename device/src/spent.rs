//! Time that this process's threads spend, by emulated part: the data of a flame graph of the emulator.
//!
//! If off, each hook is a load and a branch. If on, a thread that enters or leaves a part reads the clock and
//! adds to a counter. Counters are of the whole process: all of its GPUs together.

use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use belfry_isa::exec::{CodeTimes, ticks};

/// A part that threads spend time in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u8)]
pub enum Part {
    /// The firmware: maps queues, and looks at them.
    Firmware = 1,
    /// Packets of AQL and PM4 queues.
    Packets,
    /// Packets of SDMA queues.
    Sdma,
    /// The bytes that SDMA engines move.
    Transfers,
    /// Turns of workgroups: choosing them, and the work around their waves.
    Workgroups,
    /// Registers that waves start with, of workgroups that are launched one by one.
    WaveStart,
    /// Waves' instructions, in either tier; also the starts of waves that run one after the other in one place.
    Waves,
    /// Page walks.
    Walks,
    /// Waiting for something to do.
    Waiting,
}

impl Part {
    const ALL: [Self; 9] = [
        Self::Firmware,
        Self::Packets,
        Self::Sdma,
        Self::Transfers,
        Self::Workgroups,
        Self::WaveStart,
        Self::Waves,
        Self::Walks,
        Self::Waiting,
    ];

    /// Name in a flame graph.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Firmware => "firmware",
            Self::Packets => "packets",
            Self::Sdma => "SDMA packets",
            Self::Transfers => "SDMA transfers",
            Self::Workgroups => "workgroups",
            Self::WaveStart => "wave start",
            Self::Waves => "waves",
            Self::Walks => "page walks",
            Self::Waiting => "waiting",
        }
    }
}

/// Bits of a part in a path.
const BITS: u32 = 4;
/// Paths: four parts, each inside the one before it. Deeper parts count for the fourth.
const PATHS: usize = 1 << (4 * BITS);

/// Counters, once a caller has asked for them.
struct Counters {
    /// Nanoseconds by path.
    paths: Box<[AtomicU64]>,
    /// Time at which counting began, and the value of [`ticks`] at that time.
    began: (Instant, u64),
    /// Ticks of compiled code: in all, and in the handlers that it has called.
    code: [AtomicU64; 2],
}

static COUNTERS: OnceLock<Counters> = OnceLock::new();

thread_local! {
    /// The path that the thread is at, and the time since which it is.
    static AT: Cell<(u16, Option<Instant>)> = const { Cell::new((0, None)) };
}

/// Counts from now on, until the process ends.
pub fn begin() {
    COUNTERS.get_or_init(|| Counters {
        paths: (0..PATHS).map(|_| AtomicU64::new(0)).collect(),
        began: (Instant::now(), ticks()),
        code: Default::default(),
    });
}

/// While it lives, the thread is in a part.
#[derive(Debug)]
pub(crate) struct Inside {
    before: Option<u16>,
}

/// Enters a part, until the guard is dropped.
#[inline]
pub(crate) fn enter(part: Part) -> Inside {
    match COUNTERS.get() {
        None => Inside { before: None },
        Some(counters) => counters.enter(part),
    }
}

impl Counters {
    /// Switches the thread to another path; returns the one that it was at.
    fn switch(&self, to: impl FnOnce(u16) -> u16) -> u16 {
        let now = Instant::now();
        let (path, since) = AT.get();
        if let (Some(since), Some(counter)) = (since, self.paths.get(usize::from(path))) {
            let spent = now.saturating_duration_since(since).as_nanos();
            counter.fetch_add(u64::try_from(spent).unwrap_or(u64::MAX), Ordering::Relaxed);
        }
        let to = to(path);
        AT.set((to, (to != 0).then_some(now)));
        path
    }

    #[cold]
    fn enter(&self, part: Part) -> Inside {
        let before =
            self.switch(|path| if path >> (3 * BITS) == 0 { path << BITS | part as u16 } else { path });
        Inside { before: Some(before) }
    }
}

impl Drop for Inside {
    #[inline]
    fn drop(&mut self) {
        if let (Some(before), Some(counters)) = (self.before, COUNTERS.get()) {
            counters.switch(|_| before);
        }
    }
}

/// Returns true if time is counted.
pub(crate) fn is_on() -> bool {
    COUNTERS.get().is_some()
}

/// Adds the times of the compiled code of a GPU that ends.
pub(crate) fn add_code(times: &CodeTimes) {
    if let Some(counters) = COUNTERS.get() {
        counters.code[0].fetch_add(times.ticks, Ordering::Relaxed);
        let handlers: u64 = times.calls.values().map(|(_, ticks)| ticks).sum();
        counters.code[1].fetch_add(handlers, Ordering::Relaxed);
    }
}

/// Nanoseconds that threads have spent at a path of parts, except in parts inside of its last one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Spent {
    /// Names, the outermost first.
    pub path: Vec<&'static str>,
    /// Nanoseconds of all threads together.
    pub ns: u64,
}

/// Time spent until now. A part counts when the thread leaves it; the compiled code of waves counts when its
/// GPU has ended.
#[must_use]
pub fn report() -> Vec<Spent> {
    let Some(counters) = COUNTERS.get() else { return Vec::new() };
    let passed = counters.began.0.elapsed().as_nanos() as f64;
    let passed_ticks = ticks().saturating_sub(counters.began.1);
    let ns = |ticks: u64| (ticks as f64 * passed / passed_ticks.max(1) as f64) as u64;
    let [all, handlers] = [0, 1].map(|at: usize| ns(counters.code[at].load(Ordering::Relaxed)));
    let paths = counters.paths.iter().enumerate();
    split(paths.map(|(path, ns)| (path, ns.load(Ordering::Relaxed))), (all, handlers))
}

/// Names paths, and divides the time in waves by tiers: `compiled` nanoseconds are of compiled code, of which
/// `handlers` are of handlers.
fn split(paths: impl Iterator<Item = (usize, u64)>, (compiled, handlers): (u64, u64)) -> Vec<Spent> {
    let mut all = Vec::new();
    let (mut compiled, mut handlers) = (compiled, handlers.min(compiled));
    for (path, ns) in paths.filter(|(_, ns)| *ns > 0) {
        let parts = (0..4).rev().map(|level| path >> (level * BITS) & 0xf).filter(|part| *part != 0);
        let names: Vec<&str> =
            parts.filter_map(|part| Part::ALL.get(part - 1)).map(|part| part.name()).collect();
        if names.last() != Some(&Part::Waves.name()) {
            all.push(Spent { path: names, ns });
            continue;
        }
        let of_code = compiled.min(ns);
        let of_handlers = handlers.min(of_code);
        (compiled, handlers) = (compiled - of_code, handlers - of_handlers);
        for (more, ns) in [
            (&["tier 0"][..], ns - of_code),
            (&["tier 1"][..], of_code - of_handlers),
            (&["tier 1", "handlers"][..], of_handlers),
        ] {
            if ns > 0 {
                all.push(Spent { path: [&names, more].concat(), ns });
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_their_numbers() {
        for (number, part) in (1..).zip(Part::ALL) {
            assert_eq!(part as u8, number);
        }
    }

    #[test]
    fn paths_are_named_and_waves_divided() {
        let path = |parts: &[Part]| parts.iter().fold(0, |path, part| path << BITS | *part as usize);
        let paths = [
            (path(&[Part::Firmware, Part::Packets]), 10),
            (path(&[Part::Workgroups, Part::Waves]), 100),
            (path(&[Part::Workgroups, Part::Waves, Part::Walks]), 7),
            (path(&[Part::Waiting]), 0),
        ];
        let spent = |path: &[&'static str], ns| Spent { path: path.to_vec(), ns };
        let expected = [
            spent(&["firmware", "packets"], 10),
            spent(&["workgroups", "waves", "tier 0"], 40),
            spent(&["workgroups", "waves", "tier 1"], 45),
            spent(&["workgroups", "waves", "tier 1", "handlers"], 15),
            spent(&["workgroups", "waves", "page walks"], 7),
        ];
        assert_eq!(split(paths.into_iter(), (60, 15)), expected);
        // More ticks than time, as clocks differ.
        let more = split(paths.into_iter(), (600, 15));
        assert_eq!(more.iter().map(|spent| spent.ns).sum::<u64>(), 117);
    }

    #[test]
    fn threads_count_what_they_are_in() {
        let counters = Counters {
            paths: (0..PATHS).map(|_| AtomicU64::new(0)).collect(),
            began: (Instant::now(), 0),
            code: Default::default(),
        };
        // A path without time is 0, and time outside of all parts is not counted.
        let outer = counters.switch(|_| 0x5);
        let inner = counters.switch(|path| path << BITS | 0x8);
        assert_eq!((outer, inner, AT.get().0), (0, 0x5, 0x58));
        std::thread::sleep(std::time::Duration::from_millis(2));
        counters.switch(|_| inner);
        counters.switch(|_| outer);
        assert_eq!(AT.get(), (0, None));
        assert!(counters.paths[0x58].load(Ordering::Relaxed) >= 2_000_000);
        assert_eq!(counters.paths[0].load(Ordering::Relaxed), 0);
    }
}
