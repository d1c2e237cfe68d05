//! The sanitizer: reports the rule that a kernel, a driver or a runtime has broken, the place, and the other
//! side.
//!
//! Waves of a dispatch that is checked run instruction by instruction; each action is compared with those of
//! the dispatch's other waves. None of this changes the results of a kernel that keeps the rules. Parts of
//! the device that see the actions of drivers and runtimes report [`Misuse`]s. If off, it costs one `Option`
//! for each dispatch and queue.

mod caches;
mod clock;
mod finding;
mod grid;
mod group;
mod in_flight;
mod memory;
mod misuse;
mod shadow;
mod strays;
mod unwritten;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use belfry_lock::{Mutex, MutexGuard, rank};

use crate::guest_error::GuestError;
use crate::memory::{Memory, Unflushed};
use crate::time::Clock;

pub use finding::{Finding, Other, Rule, Source, UnknownRule};
pub(crate) use grid::{Grid, Look, Sight};
pub(crate) use group::{Group, WaveProbe};
use in_flight::InFlight;
pub(crate) use in_flight::Reach;
use memory::{Allocations, Stray};
pub use misuse::Misuse;
use misuse::Misuses;
pub(crate) use misuse::Removed;
pub(crate) use unwritten::{carry_marks, is_unwritten};

/// Most findings that are kept apart.
const MAX_FINDINGS: usize = 256;
/// Most kernels whose names are remembered.
const MAX_KERNELS: usize = 4096;

/// Choice of checks.
#[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
pub struct SanitizeOptions {
    /// The rules.
    pub rules: BTreeSet<Rule>,
    /// The kernels, by names as their code objects have them; all if there are none.
    pub kernels: Vec<String>,
    /// Findings that are not reported; stays where the options are made.
    #[serde(skip)]
    pub suppressions: Vec<Suppression>,
}

impl Default for SanitizeOptions {
    fn default() -> Self {
        Self { rules: Rule::usual().collect(), kernels: Vec::new(), suppressions: Vec::new() }
    }
}

/// Suppression of a rule's findings in kernels of a name, which may have a `*` at its end. For a rule for
/// drivers and runtimes, the name is the [`Misuse::subject`].
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Suppression {
    /// The rule; every one if absent.
    pub rule: Option<Rule>,
    /// The kernel's name.
    pub kernel: String,
}

impl Suppression {
    fn covers(&self, rule: Rule, kernel: &str) -> bool {
        let names = match self.kernel.strip_suffix('*') {
            Some(beginning) => kernel.starts_with(beginning),
            None => kernel == self.kernel,
        };
        names && self.rule.is_none_or(|of| of == rule)
    }
}

/// Reasons why a text is no suppression.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SuppressionError {
    /// There is no colon.
    #[error("{0:?} is not RULE:KERNEL, like lds-race:reduce*")]
    Form(String),
    /// The part before the colon is no rule.
    #[error(transparent)]
    Rule(#[from] UnknownRule),
    /// The part after the colon is empty.
    #[error("{0:?} names no kernel; `*` stands for all")]
    NoKernel(String),
}

/// Reads `RULE:KERNEL`, with the rule as [`Rule`] has it or `*`.
impl std::str::FromStr for Suppression {
    type Err = SuppressionError;

    fn from_str(text: &str) -> Result<Self, SuppressionError> {
        let (rule, kernel) = text.split_once(':').ok_or_else(|| SuppressionError::Form(text.to_owned()))?;
        let rule = if rule.trim() == "*" { None } else { Some(rule.trim().parse()?) };
        match kernel.trim() {
            "" => Err(SuppressionError::NoKernel(text.to_owned())),
            kernel => Ok(Self { rule, kernel: kernel.to_owned() }),
        }
    }
}

/// Key that tells one finding from another: rule, kernel's entry, instruction, the other instruction.
type Key = (Rule, u64, u64, u64);

/// Name of a kernel, and address of its descriptor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: Arc<str>,
    pub(crate) descriptor: Option<u64>,
}

#[derive(Default)]
struct State {
    /// Names by address space and entry.
    kernels: BTreeMap<(u64, u64), Named>,
    found: BTreeMap<Key, Finding>,
    /// Findings beyond those that are kept.
    beyond: u64,
    /// True if something was not checked, as there was too much of it.
    incomplete: bool,
    misuses: Misuses,
    allocations: Allocations,
    in_flight: InFlight,
}

/// The sanitizer of a device.
pub struct Sanitizer {
    options: SanitizeOptions,
    /// Clock of the device.
    clock: OnceLock<Clock>,
    state: Mutex<State, rank::Sanitizer>,
    /// Number of changes of allocations.
    changes: AtomicU64,
}

impl fmt::Debug for Sanitizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sanitizer").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Findings of a device.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize, serde::Serialize)]
pub struct SanitizeReport {
    /// Each finding in a kernel once, in order of rule and place.
    pub findings: Vec<Finding>,
    /// Mistakes of drivers and runtimes, each once.
    pub misuses: Vec<Misuse>,
    /// Number of times that further findings were made.
    pub beyond: u64,
    /// True if there were too many memory pages or waves to keep, so that findings may be missing.
    pub incomplete: bool,
}

impl Sanitizer {
    /// A sanitizer that checks what the options ask for.
    #[must_use]
    pub fn new(options: SanitizeOptions) -> Self {
        Self { options, clock: OnceLock::new(), state: Mutex::default(), changes: AtomicU64::new(0) }
    }

    /// Sets the device's clock for the times of misuses; only the first call counts.
    pub(crate) fn set_clock(&self, clock: Clock) {
        let _ = self.clock.set(clock);
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Sanitizer> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a rule is checked.
    pub(crate) fn checks(&self, rule: Rule) -> bool {
        self.options.rules.contains(&rule)
    }

    /// Returns true if any rule for kernels is checked.
    #[must_use]
    pub fn checks_kernels(&self) -> bool {
        self.options.rules.iter().any(|rule| rule.is_for_kernels())
    }

    /// Keeps a misuse, if its rule is checked.
    pub(crate) fn misused(&self, misuse: Misuse) {
        if self.checks(misuse.rule) {
            let misuse = self.timed(misuse);
            self.lock().misuses.add(misuse);
        }
    }

    /// Returns true if a completion has to wait, as the device has read bytes of VRAM that a processor may
    /// still flush in time. Bytes that were not flushed in time are reported; `whose` adds the queue to the
    /// report.
    pub(crate) fn waits_for_flush(&self, memory: &Memory, whose: impl FnOnce(Misuse) -> Misuse) -> bool {
        let waits = memory.is_flush_due();
        if !waits && let Some(Unflushed { offset, bytes }) = memory.unflushed() {
            let found = format!("{bytes} bytes in a page of VRAM, the first at offset {offset:#x}");
            self.misused(whose(Misuse::new(Rule::HdpNotFlushed, found)));
        }
        waits
    }

    fn timed(&self, misuse: Misuse) -> Misuse {
        let time = self.clock.get().map_or(0, |clock| clock.now().as_nanos());
        Misuse { time: u64::try_from(time).unwrap_or(u64::MAX), ..misuse }
    }

    /// Notes that a queue of a process is removed with work left; it may be added again.
    pub(crate) fn removed(&self, removed: Removed, pasid: u32) {
        if self.checks(Rule::QueueRemovedBusy) {
            let misuse = Misuse::new(Rule::QueueRemovedBusy, removed.found.clone());
            let misuse = misuse.of(pasid, removed.doorbell).at_packet(removed.read_index);
            let misuse = self.timed(misuse);
            self.lock().misuses.removed(removed, misuse);
        }
    }

    /// Notes that a queue is added, which begins at a packet.
    pub(crate) fn added(&self, mqd: u64, doorbell: u32, read_index: u64) {
        if self.checks(Rule::QueueRemovedBusy) {
            self.lock().misuses.added(mqd, doorbell, read_index);
        }
    }

    /// Reports that the device has refused or lost something.
    pub(crate) fn refused(&self, error: GuestError, details: fmt::Arguments<'_>) {
        let rule = match error {
            // These were asked for.
            GuestError::FaultInjected | GuestError::QueueHangs | GuestError::Poison => return,
            GuestError::InterruptLost => Rule::InterruptLost,
            GuestError::UnknownDoorbell | GuestError::DoorbellsOff => Rule::DoorbellOfNobody,
            _ => Rule::Refused,
        };
        if self.checks(rule) {
            self.misused(Misuse::new(rule, format!("{}: {details}", error.name())).named(error.name()));
        }
    }

    /// Names the kernel that begins at `entry` of an address space; `name` is called once.
    pub(crate) fn name_kernel(&self, space: u64, entry: u64, name: impl FnOnce() -> Named) {
        if self.lock().kernels.contains_key(&(space, entry)) {
            return;
        }
        let name = name();
        let mut state = self.lock();
        if state.kernels.len() == MAX_KERNELS {
            state.kernels.pop_first();
        }
        state.kernels.insert((space, entry), name);
    }

    /// The kernel that begins at `entry`, if its dispatches are checked.
    pub(crate) fn kernel(&self, space: u64, entry: u64) -> Option<Named> {
        if !self.checks_kernels() {
            return None;
        }
        let named = self.lock().kernels.get(&(space, entry)).cloned().unwrap_or_default();
        let wanted =
            self.options.kernels.is_empty() || self.options.kernels.iter().any(|of| **of == *named.name);
        wanted.then_some(named)
    }

    /// Returns true if [allocations](Self::allocated) are checked.
    #[must_use]
    pub fn checks_memory(&self) -> bool {
        self.checks(Rule::GlobalOutOfBounds) || self.checks(Rule::UseAfterFree)
    }

    /// Notes that a driver has allocated memory at a GPU virtual address; `bytes` is the requested size, not
    /// the size that it takes. Only for drivers whose processes have no address in common, as in hosted mode.
    pub fn allocated(&self, va: u64, bytes: u64) {
        if self.checks_memory() && bytes != 0 {
            let mut state = self.lock();
            if !state.allocations.allocated(va, bytes) {
                state.incomplete = true;
            }
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes that a driver has freed the allocation at an address.
    pub fn freed(&self, va: u64) {
        if self.checks_memory() {
            self.lock().allocations.freed(va);
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns `None` if an access lies within an allocation; `last` keeps that allocation for the next
    /// access. Otherwise returns the allocation that the access has missed, and true if it counts even where
    /// memory is mapped.
    fn stray(&self, (va, end): (u64, u64), last: &mut Within) -> Option<(Stray, bool)> {
        let changes = self.changes.load(Ordering::Acquire);
        if last.changes == changes && last.first <= va && end <= last.end {
            return None;
        }
        let state = self.lock();
        if let Some((first, behind)) = state.allocations.around(va) {
            *last = Within { changes, first, end: behind };
            if end <= behind {
                return None;
            }
        }
        state.allocations.stray(va, end)
    }

    pub(crate) fn incomplete(&self) {
        self.lock().incomplete = true;
    }

    /// Keeps a finding, or counts it once more.
    pub(crate) fn found(
        &self,
        entry: u64,
        finding: impl FnOnce() -> Finding,
        rule: Rule,
        (pc, other_pc): (u64, u64),
    ) {
        let mut state = self.lock();
        let full = state.found.len() == MAX_FINDINGS;
        match state.found.entry((rule, entry, pc, other_pc)) {
            std::collections::btree_map::Entry::Occupied(mut known) => known.get_mut().count += 1,
            std::collections::btree_map::Entry::Vacant(_) if full => state.beyond += 1,
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(finding());
            }
        }
    }

    /// Findings until now, without suppressed ones.
    #[must_use]
    pub fn report(&self) -> SanitizeReport {
        let state = self.lock();
        let findings = state.found.values().cloned().collect();
        let (misuses, beyond) = state.misuses.all();
        let beyond = beyond + state.beyond;
        let mut report = SanitizeReport { findings, misuses, beyond, incomplete: state.incomplete };
        report.suppress(&self.options.suppressions);
        report
    }
}

/// An allocation that an access was within; valid until allocations change.
#[derive(Clone, Copy, Debug, Default)]
struct Within {
    changes: u64,
    first: u64,
    end: u64,
}

impl SanitizeReport {
    /// Removes suppressed findings.
    pub fn suppress(&mut self, suppressions: &[Suppression]) {
        self.findings.retain(|finding| {
            !suppressions.iter().any(|suppression| suppression.covers(finding.rule, &finding.kernel))
        });
        self.misuses.retain(|misuse| {
            !suppressions.iter().any(|suppression| suppression.covers(misuse.rule, &misuse.subject))
        });
    }

    /// Returns true if no rule was broken, as far as is known.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty() && self.misuses.is_empty() && self.beyond == 0
    }

    /// Adds the findings of another process.
    pub fn add(&mut self, other: Self) {
        for finding in other.findings {
            if !self.findings.iter_mut().any(|known| known.takes(&finding)) {
                self.findings.push(finding);
            }
        }
        for misuse in other.misuses {
            if !self.misuses.iter_mut().any(|known| known.takes(&misuse)) {
                self.misuses.push(misuse);
            }
        }
        self.beyond += other.beyond;
        self.incomplete |= other.incomplete;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppressions_name_a_rule_and_a_kernel() {
        let race: Suppression = "lds-race:red*".parse().unwrap();
        assert!(race.covers(Rule::LdsRace, "reduce") && !race.covers(Rule::LdsRace, "scan"));
        assert!(!race.covers(Rule::GlobalRace, "reduce"));
        let all: Suppression = "*:scan".parse().unwrap();
        assert!(all.covers(Rule::MissingWait, "scan") && !all.covers(Rule::MissingWait, "scan2"));
        for bad in ["", "lds-race", "lds-race:", "no-rule:scan", ":"] {
            bad.parse::<Suppression>().unwrap_err();
        }
    }
}
