//! Execution of waves: a pre-decoded SIMD interpreter.
//!
//! Code is decoded and lowered once per [`CodeCache`] into handlers with their operands
//! resolved; [`run`] then steps from handler to handler until the wave ends, waits or faults.

use crate::exec::code_cache::CodeCache;
use crate::mem::{Apertures, Mmu, Tlb};
use crate::wave::Wave;

pub mod code_cache;
pub(crate) mod compiled;
pub(crate) mod di;
pub(crate) mod form;
pub(crate) mod image;
pub(crate) mod lower;
mod matrix;
pub(crate) mod memory;
pub(crate) mod properties;
pub(crate) mod scalar;
#[cfg(test)]
pub(crate) mod tests;
mod tools;
pub(crate) mod vector;
pub(crate) mod waves;

pub use crate::lanes::MAX_LDS_SIZE;
pub use crate::wave::barriers::Barriers;
pub use crate::wave::fault::{FaultCause, WaveFault};
pub use crate::wave::lds::Lds;
pub use crate::wave::touched::Touched;
pub use tools::class::{Class, ends_block, private_bytes, scalar_bytes};
pub use tools::coverage::{Coverage, coverage, supports};
pub use tools::defined::{Defined, Undefined, Use};
pub use tools::observe::{Change, Observer, Step};
pub use tools::pending::{Hazard, Pending};
pub use tools::probe::{About, Probe};
pub use tools::profile::{CodeTimes, Profile};
pub use tools::touches::{Place, Touch};
pub use waves::gws::{GWS_RESOURCES, GwsOp, GwsRequest};
pub use waves::succession::{Followed, Follower, Following};

/// Surroundings of a wave that runs: one per worker thread, put together for each call of [`run`].
pub struct Env<'a> {
    /// Address space of the wave's process.
    pub mmu: &'a dyn Mmu,
    /// The worker's translations.
    pub tlb: &'a mut Tlb,
    /// The worker's decoded code.
    pub code: &'a mut CodeCache,
    /// LDS of the wave's workgroup.
    pub lds: &'a mut Lds,
    /// Windows of the flat address space.
    pub apertures: Apertures,
    /// Reads the 100 MHz counter behind `s_sendmsg_rtn MSG_RTN_GET_REALTIME` and `SHADER_CYCLES`.
    pub clock: &'a dyn Fn() -> u64,
    /// Changes when code may have changed (each dispatch, instruction cache invalidation): cached code is compared
    /// with memory on its first use in an epoch.
    pub code_epoch: u64,
}

impl core::fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Env")
            .field("apertures", &self.apertures)
            .field("code_epoch", &self.code_epoch)
            .finish_non_exhaustive()
    }
}

/// Why [`run`] returned. Except after a fault the wave continues with the next instruction when run again.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    /// `s_endpgm`: the wave is done.
    EndProgram,
    /// `s_barrier`: continue when all waves of the workgroup have stopped here or ended. `s_barrier_wait`, of a wave that
    /// [waits at a split barrier](Wave::waits_at_split_barrier): when [`Barriers::lets_pass`] it.
    Barrier,
    /// `s_sleep`: let others run.
    Sleep,
    /// The budget is used up.
    Budget,
    /// The next instruction is for the wave's next turn (`wave/order.rs`).
    Turn,
    /// `s_sendmsg`: for the driver (`MSG_INTERRUPT`), the stall or trap machinery.
    Message {
        /// SIMM16.
        id: u16,
        /// `M0`.
        m0: u32,
    },
    /// `ds_gws_*`: continue when the resource lets it.
    GlobalWaveSync(GwsRequest),
    /// `s_trap`.
    Trap(u8),
    /// `STATUS.HALT` has been set, or took effect on the return from the trap handler: only a debugger goes on.
    Halt,
    /// `s_endpgm_saved` of a wave that was asked to save its context: the wave is done here.
    Saved,
    /// The wave has come out of its trap handler, as [`Wave::stop_at_trap_return`] asked for.
    TrapReturn,
    /// A float operation raised an exception that `MODE.EXCP_EN` enables, in a wave with a trap handler.
    Exception,
    /// The wave cannot go on. In a box, so that the usual stops of waves fit into registers.
    Fault(Box<WaveFault>),
}

impl Stop {
    /// A fault of an instruction.
    #[must_use]
    pub fn fault(pc: u64, kind: FaultCause) -> Self {
        Self::Fault(Box::new(WaveFault { pc, kind }))
    }
}

const _: () = assert!(size_of::<Option<Stop>>() == 16);

/// The processor's time stamp counter, by which compiled code counts; 0 on hosts for which nothing is compiled.
#[must_use]
pub fn ticks() -> u64 {
    compiled::times::ticks()
}

/// Runs `wave` until it stops or has executed about `budget` instructions (checked at taken branches).
pub fn run(wave: &mut Wave, env: &mut Env<'_>, budget: u64) -> Stop {
    waves::dispatch::run(wave, env, budget)
}

/// Source of the waves that run in the storage of one that has ended.
pub trait Next {
    /// Turns a wave that has ended into the next one to run, [started](Wave::start_as) in its storage. Returns that
    /// wave's budget, or `None` if there is no further wave. If the next wave is of another workgroup, this call
    /// makes LDS ready for it. `touched` says what the ended wave has changed since its own start, for
    /// [`Wave::start_behind`]; if it is given, the next wave has to start as the ended one did. The vector registers
    /// of a wave that has ended may not be in memory.
    fn next(&mut self, wave: &mut Wave, lds: &mut Lds, touched: Option<&Touched>) -> Option<u64>;

    /// Returns the waves that may be started after the one that [`Next::next`] has just made, without asking it
    /// again.
    fn follow(&mut self) -> Option<Following<'_>> {
        None
    }

    /// Tells how far [these waves](Next::follow) have come: all before the last one have ended.
    fn followed(&mut self, _lds: &mut Lds, _how_far: Followed) {}
}

/// Runs `wave`, and then others in its storage for as long as each has ended and `next` makes another: as [`run`]
/// would run each with its budget, without repeating the work that is common to all of them.
pub fn run_many(wave: &mut Wave, env: &mut Env<'_>, budget: u64, next: &mut impl Next) -> Stop {
    waves::many::run_many(wave, env, budget, next)
}

/// End of a wave's turn after which the turn of another wave usually follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnEnd {
    /// [`Stop::Barrier`].
    Barrier,
    /// [`Stop::Budget`] or [`Stop::Turn`].
    Over,
    /// [`Stop::EndProgram`].
    Ended,
}

/// Turns that waves have taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Number of times that all waves had come to their barriers, and have gone on.
    pub opened: u64,
    /// Waves that have come to their barriers ([`TurnEnd::Barrier`]) since then, a bit for each number; all others
    /// but `at` go on. `None` if no other wave has had its turn: the others are then as they were.
    pub waiting: Option<u64>,
    /// The wave that had its turn last.
    pub at: usize,
    /// End of that turn.
    pub end: TurnEnd,
    /// Instructions of all of them.
    pub executed: u64,
}

/// Next turn: the wave that goes on, and its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Go {
    /// The wave.
    pub wave: usize,
    /// Instructions that it may execute.
    pub budget: u64,
    /// True if all waves may go on. `wave` is then the first of the workgroup, and runs before the others. When a
    /// wave comes to a barrier, or lets the others have their turn, the next wave that is not at a barrier follows in
    /// the same budget.
    pub all: bool,
    /// Number of times that all waves may go on, from the first one on, after all have come to a barrier.
    pub more: u64,
}

/// A wave has stopped with something that is not a [`TurnEnd`].
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// As in [`Turns`].
    pub opened: u64,
    /// As in [`Turns`].
    pub waiting: Option<u64>,
    /// The wave.
    pub at: usize,
    /// Reason of the stop.
    pub stop: Stop,
    /// As in [`Turns`].
    pub executed: u64,
}

/// Function that is told of the turns taken, and returns the next turn; `None` if the caller is to decide.
pub type NextTurn<'a> = dyn FnMut(&mut [Wave], &mut Lds, Turns) -> Option<Go> + 'a;

/// Runs one of the waves of a workgroup, with a budget, and then each wave that `next` names: as [`run`] would run
/// each in its turn, without repeating the work that is common to all of them. Returns the wave that has stopped for
/// a reason that is not a [`TurnEnd`], if there is one.
///
/// # Panics
///
/// If there is no wave of that number.
pub fn run_in_turns(
    waves: &mut [Wave],
    env: &mut Env<'_>,
    first: Go,
    next: &mut NextTurn<'_>,
) -> Option<Stopped> {
    waves::turns::run_in_turns(waves, env, first, next)
}

/// As [`run`], and counts the operations executed in `profile`.
pub fn run_profiled(wave: &mut Wave, env: &mut Env<'_>, budget: u64, profile: &mut Profile) -> Stop {
    waves::dispatch::run_profiled(wave, env, budget, profile)
}

/// As [`run`], but stops after exactly `budget` instructions, at any of them, and shows each to `observer`.
///
/// Many times slower than [`run`].
pub fn run_stepped(
    wave: &mut Wave,
    env: &mut Env<'_>,
    budget: u64,
    observer: Option<&mut dyn Observer>,
) -> Stop {
    waves::dispatch::run_stepped(wave, env, budget, observer)
}

/// As [`run`], but stops after exactly `budget` instructions, and tells `probe` of each before it is executed.
///
/// Many times slower than [`run`].
pub fn run_probed(wave: &mut Wave, env: &mut Env<'_>, budget: u64, probe: &mut dyn Probe) -> Stop {
    waves::dispatch::run_probed(wave, env, budget, probe)
}

/// Returns the accesses of memory that waves share which the wave's next instruction is about to make; none if it
/// cannot be fetched.
pub fn touches(wave: &mut Wave, env: &mut Env<'_>) -> Vec<Touch> {
    waves::dispatch::touches(wave, env)
}

/// Executes the one instruction that the wave is at, and shows it to `observer`: [`Stop::Budget`] when the next one may follow.
///
/// Unlike for [`run_stepped`], waits and hints are instructions, and the program counter is that of the very next one.
pub fn step(wave: &mut Wave, env: &mut Env<'_>, observer: Option<&mut dyn Observer>) -> Stop {
    waves::dispatch::step(wave, env, observer)
}
