//! Stopping the device for the inspector: everything at once, on request or at a breakpoint.
//!
//! | state | waves | packets | by |
//! | --- | --- | --- | --- |
//! | runs | run | are processed | [`Stops::proceed`] |
//! | halted | stay between two instructions | stay in their rings | [`Stops::pause`], a breakpoint |
//!
//! While no breakpoint is armed and nothing is halted, this is one load for each turn of a worker, each pass of the device's thread,
//! each packet of an AQL queue and each write of a register. Waves run instruction by instruction only while a breakpoint of waves
//! is armed. Transfers that SDMA engines have begun end, and accesses of registers are answered, while the device is halted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use belfry_isa::exec::{Place, Touch};
use belfry_isa::mem::Access;
use belfry_lock::{Condvar, Mutex, MutexGuard, rank};

use crate::moments::{Asked, Asks};

/// Most breakpoints.
const MAX_BREAKS: usize = 64;
/// Most waves that are remembered as having met a breakpoint.
const MAX_PASSES: usize = 4096;

/// Event that a breakpoint waits for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BreakOn {
    /// A wave comes to the instruction at an address.
    Pc(u64),
    /// A dispatch of the kernel of this name is about to begin.
    Kernel(String),
    /// A packet of this kind is about to be processed: an AQL packet by its name, others as `PM4:NAME` and `SDMA:NAME`.
    Packet(String),
    /// A wave has accessed bytes of a range.
    Access(AccessRange),
    /// The register of this name, at an absolute dword index, was written.
    Register(String, u32),
    /// An instruction of a wave faults.
    Fault,
    /// A line of a source, `FILE:LINE`, without code on the device so far: in front of each AQL packet that
    /// dispatches, the device stands still until a client has looked if there is code now.
    Line(String),
}

/// Range of bytes whose accesses halt the device.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct AccessRange {
    /// True for LDS of any workgroup, and false for global memory.
    pub lds: bool,
    /// The first byte.
    pub first: u64,
    /// The last byte.
    pub last: u64,
    /// Loads halt the device.
    pub reads: bool,
    /// Stores halt the device. An atomic is both.
    pub writes: bool,
}

impl AccessRange {
    /// The first byte of the range that an access meets.
    fn met_by(&self, touch: &Touch) -> Option<u64> {
        let (lds, at) = match touch.place {
            Place::Global(at) => (false, at),
            Place::Lds(at) => (true, u64::from(at)),
        };
        let wanted = match touch.access {
            Access::Read => self.reads,
            Access::Write => self.writes,
            Access::Atomic => true,
            Access::Execute => false,
        };
        let last = at.saturating_add(u64::from(touch.bytes).saturating_sub(1));
        (wanted && lds == self.lds && at <= self.last && last >= self.first).then_some(at.max(self.first))
    }
}

impl fmt::Display for AccessRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match (self.reads, self.writes) {
            (true, true) => "access",
            (true, false) => "read",
            _ => "write",
        };
        let length = (self.last - self.first).saturating_add(1);
        write!(f, "{kind} {}{:#x} {length}", if self.lds { "lds " } else { "" }, self.first)
    }
}

impl fmt::Display for BreakOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pc(address) => write!(f, "pc {address:#x}"),
            Self::Kernel(name) => write!(f, "kernel {name}"),
            Self::Packet(kind) => write!(f, "packet {kind}"),
            Self::Access(range) => range.fmt(f),
            Self::Register(name, _) => write!(f, "register {name}"),
            Self::Fault => f.write_str("fault"),
            Self::Line(place) => write!(f, "line {place} (no code yet)"),
        }
    }
}

/// A wave: number of its dispatch, its workgroup, its number there.
pub type WaveKey = (u64, [u32; 3], u32);

/// A packet: doorbell, place in the ring, and, plus 1, its place in the innermost indirect buffer.
pub(crate) type PacketPlace = (u32, u64, u64);

/// Reasons why the device is halted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Why {
    /// A client has paused it.
    Paused,
    /// A wave has met a breakpoint: its number, its description, and the wave.
    Wave(u32, String, WaveKey),
    /// A packet or a register has met a breakpoint.
    Other(u32, String),
    /// A client looks for code. For all other clients the device is not halted.
    Looking,
}

/// Breakpoints of waves, while there are any.
pub(crate) struct Armed {
    pcs: Vec<(u32, u64)>,
    ranges: Vec<(u32, AccessRange)>,
    fault: Option<u32>,
    stops: Arc<Stops>,
}

#[derive(Default)]
struct State {
    breaks: BTreeMap<u32, BreakOn>,
    next: u32,
    armed: Option<Arc<Armed>>,
    why: Option<Why>,
    /// Waves that are at a breakpoint, with their address.
    at: Vec<(WaveKey, u64)>,
    /// Waves that go on from a breakpoint.
    passes: Vec<(WaveKey, u64)>,
    /// Accesses that have halted the device: the wave, the breakpoint, and the first byte.
    accesses: Vec<(WaveKey, u32, u64)>,
    /// The packet that is at a breakpoint; then the one that goes on from one.
    packet: Option<PacketPlace>,
    packet_passes: Option<PacketPlace>,
    /// The packet in front of which a client looks for code; then the packets where that was done, by their
    /// doorbells.
    looking: Option<(u32, u64)>,
    looked: BTreeMap<u32, u64>,
}

/// State of the halt, and the breakpoints.
#[derive(Default)]
pub struct Stops {
    asked: Arc<Asked>,
    state: Mutex<State, rank::Stops>,
    told: Condvar,
}

impl fmt::Debug for Stops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stops").field("halted", &self.is_halted()).finish_non_exhaustive()
    }
}

impl Stops {
    /// No breakpoints; `asked` has the requests of them.
    pub(crate) fn new(asked: Arc<Asked>) -> Self {
        Self { asked, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Stops> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if everything stands still.
    #[inline(always)]
    pub fn is_halted(&self) -> bool {
        self.asked.has(Asks::Halted)
    }

    /// The breakpoints of waves.
    #[inline(always)]
    pub(crate) fn armed(&self) -> Option<Arc<Armed>> {
        if self.asked.has(Asks::Waves) { self.lock().armed.clone() } else { None }
    }

    /// Reason why the device is halted; looking for code is not shown.
    pub fn why(&self) -> Option<Why> {
        self.lock().why.clone().filter(|why| *why != Why::Looking)
    }

    /// Waves that stay at a breakpoint, with their address.
    pub fn at(&self) -> Vec<(WaveKey, u64)> {
        self.lock().at.clone()
    }

    /// Accesses that have halted the device: the wave, the breakpoint's number, and the first byte.
    pub fn accesses(&self) -> Vec<(WaveKey, u32, u64)> {
        self.lock().accesses.clone()
    }

    /// The breakpoints by their numbers.
    pub fn breaks(&self) -> BTreeMap<u32, BreakOn> {
        self.lock().breaks.clone()
    }

    /// Halts everything, as soon as it can.
    pub fn pause(&self) {
        self.halt(&mut self.lock(), Why::Paused);
    }

    fn halt(&self, state: &mut State, why: Why) {
        if matches!(state.why, None | Some(Why::Looking)) {
            state.why = Some(why);
        }
        self.asked.set(Asks::Halted, true);
        self.told.notify_all();
    }

    /// Lets everything go on; returns true if it was halted. The caller wakes the threads that have looked.
    pub fn proceed(&self) -> bool {
        let mut state = self.lock();
        let State { at, passes, .. } = &mut *state;
        if passes.len() > MAX_PASSES {
            passes.clear();
        }
        passes.append(at);
        state.accesses.clear();
        state.packet_passes = state.packet.take().or(state.packet_passes);
        state.why = None;
        self.asked.set(Asks::Halted, false)
    }

    /// Notes that a wave at a breakpoint has been moved by hand.
    pub fn moved(&self, wave: WaveKey) {
        let mut state = self.lock();
        state.at.retain(|(at, _)| *at != wave);
        state.passes.retain(|(at, _)| *at != wave);
        state.accesses.retain(|(at, ..)| *at != wave);
    }

    /// Waits until the device is halted, for at most `limit`; returns true if it is.
    pub fn wait(&self, limit: Duration) -> bool {
        self.wait_for(limit, |why| !matches!(why, None | Some(Why::Looking)))
    }

    fn wait_for(&self, limit: Duration, is: impl Fn(Option<&Why>) -> bool) -> bool {
        let until = Instant::now() + limit;
        let mut state = self.lock();
        while !is(state.why.as_ref()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            (state, _) = self.told.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        true
    }

    /// Adds a breakpoint; returns its number, or `None` if there are too many.
    pub fn add(self: &Arc<Self>, on: BreakOn) -> Option<u32> {
        let mut state = self.lock();
        if state.breaks.len() >= MAX_BREAKS {
            return None;
        }
        state.next += 1;
        let number = state.next;
        state.breaks.insert(number, on);
        self.arm(&mut state);
        Some(number)
    }

    /// Removes a breakpoint, or all of them; returns true if there was one.
    pub fn remove(self: &Arc<Self>, number: Option<u32>) -> bool {
        let mut state = self.lock();
        let before = state.breaks.len();
        state.breaks.retain(|&known, _| number.is_some_and(|number| number != known));
        self.arm(&mut state);
        before != state.breaks.len()
    }

    fn arm(self: &Arc<Self>, state: &mut State) {
        let mut armed = Armed { pcs: Vec::new(), ranges: Vec::new(), fault: None, stops: Arc::clone(self) };
        let (mut packets, mut registers, mut lines) = (false, false, false);
        for (&number, on) in &state.breaks {
            match on {
                BreakOn::Pc(address) => armed.pcs.push((number, *address)),
                BreakOn::Access(range) => armed.ranges.push((number, *range)),
                BreakOn::Fault => armed.fault = Some(number),
                BreakOn::Kernel(_) | BreakOn::Packet(_) => packets = true,
                BreakOn::Register(..) => registers = true,
                BreakOn::Line(_) => lines = true,
            }
        }
        let waves = !armed.pcs.is_empty() || !armed.ranges.is_empty() || armed.fault.is_some();
        state.armed = waves.then(|| Arc::new(armed));
        if !waves {
            state.passes.clear();
        }
        self.asked.set(Asks::Waves, waves);
        self.asked.set(Asks::Packets, packets);
        self.asked.set(Asks::Registers, registers);
        self.asked.set(Asks::Lines, lines);
        if !lines {
            state.looked.clear();
        }
    }

    /// Replaces a breakpoint with others, the first of which takes its number. If there is no room for them,
    /// the breakpoint stays.
    pub fn replace(self: &Arc<Self>, number: u32, with: Vec<BreakOn>) -> bool {
        let mut state = self.lock();
        let others = state.breaks.len().saturating_sub(1);
        if !state.breaks.contains_key(&number) || others + with.len() > MAX_BREAKS {
            return false;
        }
        state.breaks.remove(&number);
        let mut next = number;
        for on in with {
            state.breaks.insert(next, on);
            next = state.next + 1;
            state.next = next;
        }
        self.arm(&mut state);
        true
    }

    /// Returns true if a client has to look for code before a packet dispatches.
    #[inline(always)]
    pub(crate) fn wants_looks(&self) -> bool {
        self.asked.has(Asks::Lines)
    }

    /// Returns true if a client has looked for code in front of a packet, given by its doorbell and its place
    /// in the ring. If not, everything stands still until then.
    #[cold]
    pub(crate) fn looked_before(&self, (doorbell, place): (u32, u64)) -> bool {
        let mut state = self.lock();
        if state.looked.get(&doorbell) == Some(&place) {
            state.looked.remove(&doorbell);
            return true;
        }
        if state.why.is_none() {
            state.looking = Some((doorbell, place));
            self.halt(&mut state, Why::Looking);
        }
        false
    }

    /// Waits until a client has to look for code, for at most `limit`; returns true if it has to.
    pub fn wait_for_look(&self, limit: Duration) -> bool {
        self.wait_for(limit, |why| why == Some(&Why::Looking))
    }

    /// Notes that a client has looked; returns true if that lets everything go on. The caller wakes the
    /// waiting threads.
    pub fn looked(&self) -> bool {
        let mut state = self.lock();
        if let Some((doorbell, place)) = state.looking.take() {
            state.looked.insert(doorbell, place);
        }
        if state.why != Some(Why::Looking) {
            return false;
        }
        state.why = None;
        self.asked.set(Asks::Halted, false);
        true
    }

    /// Returns true if a packet has to stay where it is, as it is at a breakpoint; that halts the device.
    /// `kind` returns the prefix of the packet's kind (empty for AQL, `PM4:`, `SDMA:`), and its name.
    #[inline(always)]
    pub(crate) fn keeps_packet(
        &self,
        place: PacketPlace,
        kind: impl FnOnce() -> (&'static str, &'static str),
        kernel: impl FnOnce() -> String,
    ) -> bool {
        self.asked.has(Asks::Packets) && self.meets_packet(place, kind(), kernel)
    }

    #[cold]
    fn meets_packet(
        &self,
        place: PacketPlace,
        (prefix, name): (&str, &str),
        kernel: impl FnOnce() -> String,
    ) -> bool {
        if self.lock().packet_passes == Some(place) {
            return false;
        }
        let kernel = kernel();
        let mut state = self.lock();
        let meets = |on: &BreakOn| match on {
            BreakOn::Kernel(name) => *name == kernel && !kernel.is_empty(),
            BreakOn::Packet(wanted) => wanted.strip_prefix(prefix) == Some(name),
            _ => false,
        };
        let met = state.breaks.iter().find(|(_, on)| meets(on)).map(|(&number, on)| (number, on.to_string()));
        let Some((number, what)) = met else { return false };
        state.packet = Some(place);
        let (doorbell, index, _) = place;
        let what = format!("{what}: packet {index} of the queue with doorbell {doorbell:#x}");
        self.halt(&mut state, Why::Other(number, what));
        true
    }

    /// Checks a write of a register for a breakpoint.
    #[inline(always)]
    pub(crate) fn written(&self, dword: u32, value: u32) {
        if self.asked.has(Asks::Registers) {
            self.meets_register(dword, value);
        }
    }

    #[cold]
    fn meets_register(&self, dword: u32, value: u32) {
        let mut state = self.lock();
        let met = state.breaks.iter().find_map(|(&number, on)| match on {
            BreakOn::Register(_, at) if *at == dword => Some((number, format!("{on}: {value:#x}"))),
            _ => None,
        });
        if let Some((number, what)) = met {
            self.halt(&mut state, Why::Other(number, what));
        }
    }
}

impl Armed {
    /// Returns true if everything stands still.
    pub(crate) fn is_halted(&self) -> bool {
        self.stops.is_halted()
    }

    /// Returns true if a wave that is about to execute the instruction at an address stays there.
    #[inline]
    pub(crate) fn keeps(&self, wave: WaveKey, pc: u64) -> bool {
        let met = self.pcs.iter().find(|(_, at)| *at == pc);
        met.is_some_and(|&(number, _)| self.stops.meets_wave(wave, pc, number, &BreakOn::Pc(pc).to_string()))
    }

    /// Returns true if there are breakpoints for accesses.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// The breakpoint that accesses of one instruction meet, and the first byte.
    pub(crate) fn met_by(&self, touches: &[Touch]) -> Option<(u32, u64)> {
        let met =
            |touch| self.ranges.iter().find_map(|(number, range)| Some((*number, range.met_by(touch)?)));
        touches.iter().find_map(met)
    }

    /// Halts the device after an instruction of a wave that has made an access which a breakpoint waits for.
    #[cold]
    pub(crate) fn accessed(&self, wave: WaveKey, (number, address): (u32, u64)) {
        let mut state = self.stops.lock();
        let Some(on) = state.breaks.get(&number).map(ToString::to_string) else { return };
        state.accesses.push((wave, number, address));
        self.stops.halt(&mut state, Why::Wave(number, format!("{on}: {address:#x}"), wave));
    }

    /// Returns true if a wave whose instruction has faulted stays there.
    pub(crate) fn keeps_at_fault(&self, wave: WaveKey, pc: u64, fault: &dyn fmt::Display) -> bool {
        self.fault.is_some_and(|number| self.stops.meets_wave(wave, pc, number, &format!("fault: {fault}")))
    }
}

impl Stops {
    #[cold]
    fn meets_wave(&self, wave: WaveKey, pc: u64, number: u32, what: &str) -> bool {
        let mut state = self.lock();
        if let Some(position) = state.passes.iter().position(|pass| *pass == (wave, pc)) {
            state.passes.swap_remove(position);
            return false;
        }
        state.at.push((wave, pc));
        self.halt(&mut state, Why::Wave(number, what.to_owned(), wave));
        true
    }
}

#[cfg(test)]
mod tests;
