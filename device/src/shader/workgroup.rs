//! A workgroup on a worker: its waves take turns, and its LDS is private to the worker that runs it.

mod by_hand;
mod context;
mod debug;
mod explored;
mod looked;
mod probed;
mod save;
mod show;
mod through;
mod turns;

use std::fmt;

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Barriers, Env, FaultCause, Lds, Stop};
use belfry_isa::mem::{Apertures, Mmu, Tlb};
use belfry_isa::trap::TrapCause;
use belfry_isa::wave::Wave;

use super::chance::Chance;
use super::dispatch::Notice;
use super::failure::{Reason, WaveFailure};
use super::gws::{Answer, Gws, Ticket};
use super::launch::{Launch, WaveSeat};
use super::queue::Seat;
use super::stats::Statistics;
use crate::chip::Generation;
use crate::profile::Counting;
use crate::sanitize::Group;
use crate::trace::WaveId;
use crate::vm::{LaunchControl, Waits};

pub(super) use by_hand::ByHand;
pub(super) use explored::Exploration;
use explored::InFlight;
use looked::Looked;
pub(super) use looked::Looks;
pub(super) use save::SavedWorkgroup;
pub(super) use through::Claimed;

/// Instructions a wave runs before the next wave of its workgroup gets a turn.
pub(super) const WAVE_QUANTUM: u64 = 4096;
/// The same among devices that share processors, and there of a workgroup that has looked for writes of others: a loop that
/// waits for one has gone round a dozen times.
const SHARED_QUANTUM: u64 = 1024;
const LOOKING_QUANTUM: u64 = 256;
/// Cost of switching to a wave, in instructions of the budget, so that waves that only sleep use it up too.
const SWITCH_COST: u64 = 32;
/// `s_sendmsg` identifiers, LLVM `SIDefines.h`, `SendMsg::Id`.
const MSG_INTERRUPT: u16 = 1;
const MSG_DEALLOC_VGPRS: u16 = 3;
/// `s_trap` identifiers, LLVM `SIDefines.h` (`TrapID`).
const TRAP_DEBUG: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
enum State {
    Ready,
    AtBarrier,
    /// Waits for waves of other workgroups.
    AtGws(Ticket),
    /// Kept as it is for a debugger, or until its queue is destroyed.
    Halted,
    Ended,
}

/// Event that a wave waits for which has begun and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Nothing but its turn.
    Nothing,
    /// The other waves of its workgroup.
    Barrier,
    /// Waves of other workgroups.
    Gws,
    /// A debugger, or the end of its queue.
    Halted,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nothing => "runs",
            Self::Barrier => "waits at a barrier",
            Self::Gws => "waits for global wave sync",
            Self::Halted => "is halted",
        })
    }
}

/// Callback for waves: the identifier of the workgroup, the number of the wave in it, and the event that it waits for.
pub(super) type TellWave<'a> = dyn FnMut([u32; 3], u32, Waiting, &Wave) + 'a;

/// Waves and LDS of one workgroup.
pub(super) struct Workgroup {
    chip: &'static Generation,
    pub(super) id: [u32; 3],
    waves: Vec<Wave>,
    states: Vec<State>,
    /// Waves of this workgroup that are in use; `waves` may hold more from an earlier workgroup.
    count: usize,
    /// Wave that runs next.
    next: usize,
    lds: Lds,
    /// Residency and scratch memory it occupies.
    pub(super) seat: Option<Box<Seat>>,
    /// State of the sanitizer for its waves, if they are checked.
    check: Option<Box<Group>>,
    /// Counts of its waves, if they are profiled.
    profile: Option<Box<Counting>>,
    /// True if its waves stay where they are.
    pub(super) hangs: bool,
    /// True if it has looked for writes of others in one of its turns.
    pub(super) has_looked: bool,
    /// Stores of its waves that none has waited for, in a schedule that is explored.
    in_flight: Option<InFlight>,
}

/// End of a workgroup's turn.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All waves have ended.
    Done,
    /// The budget is used up, or every wave sleeps.
    Paused {
        /// True if only sleeping waves were found.
        asleep: bool,
    },
    /// A wave failed.
    Failed(Box<WaveFailure>),
    /// The queue is being stopped.
    Stopped,
}

/// Parts that a turn needs beside the workgroup: the parts of [`Env`] except the LDS, and accounts.
pub(super) struct Turn<'a> {
    pub(super) mmu: &'a dyn Mmu,
    pub(super) tlb: &'a mut Tlb,
    pub(super) code: &'a mut CodeCache,
    pub(super) apertures: Apertures,
    pub(super) gws: &'a Gws,
    pub(super) clock: &'a dyn Fn() -> u64,
    pub(super) code_epoch: u64,
    pub(super) budget: &'a mut u64,
    /// Instructions that a wave runs before the next wave of its workgroup gets a turn.
    pub(super) quantum: u64,
    pub(super) stats: &'a mut Statistics,
    /// Notices that waves give meanwhile.
    pub(super) notices: &'a mut Vec<Notice>,
    pub(super) stopping: &'a dyn Fn() -> bool,
    /// Number of the dispatch.
    pub(super) dispatch: u64,
    /// The tools that look at waves.
    pub(super) looks: Looks<'a>,
    /// Pages that waves wait for, if the process waits for pages.
    pub(super) waits: Option<&'a Waits>,
    /// True if a wave that would wait for a page fails instead and stays where it is: the caller tries again later.
    pub(super) gives_up: bool,
    /// Decisions of a deterministic schedule.
    pub(super) chance: Option<&'a mut Chance>,
}

impl Workgroup {
    /// Makes an empty one, for [`Workgroup::start`].
    pub(super) fn new(chip: &'static Generation) -> Workgroup {
        Workgroup {
            chip,
            id: [0; 3],
            waves: Vec::new(),
            states: Vec::new(),
            count: 0,
            next: 0,
            lds: Lds::default(),
            seat: None,
            check: None,
            profile: None,
            hangs: false,
            has_looked: false,
            in_flight: None,
        }
    }

    /// Returns the number of waves it has storage for.
    pub(super) fn storage(&self) -> usize {
        self.waves.len()
    }

    /// Becomes workgroup `index` of a launch; `full` are the lane IDs of a workgroup that is not partial.
    #[inline(always)]
    pub(super) fn start(
        &mut self,
        launch: &Launch,
        index: u64,
        full: &[(u64, [u32; 64])],
        seat: Box<Seat>,
        control: LaunchControl,
    ) {
        self.id = launch.workgroup_id(index);
        self.hangs = launch.hangs && index == 0;
        let extent = launch.extent(self.id);
        let partial;
        let lanes = if extent == launch.workgroup {
            full
        } else {
            partial = launch.lane_ids(extent);
            &partial
        };
        let waves = lanes.len() as u32;
        for (wave, ids) in (0u32..).zip(lanes) {
            let part = WaveSeat {
                chip: self.chip,
                scratch_slot: seat.scratch_slot(wave),
                hw_ids: seat.hw_ids(wave),
            };
            launch.start_wave(&mut self.waves, self.id, (wave, waves), ids, part);
        }
        self.count = lanes.len();
        self.states.clear();
        self.states.resize(self.count, State::Ready);
        self.next = 0;
        self.lds.reset(launch.lds_size);
        self.lds.barriers = Barriers::new(self.count as u32);
        self.seat = Some(seat);
        if control.changes_launch() {
            self.begin_debugged(control);
        }
    }

    /// Calls `tell` for each wave that has not ended, with the workgroup's identifier and the wave's number.
    pub(super) fn each_wave(&self, tell: &mut TellWave<'_>) {
        for ((number, state), wave) in (0..).zip(&self.states).zip(&self.waves) {
            let waiting = match state {
                State::Ready => Waiting::Nothing,
                State::AtBarrier => Waiting::Barrier,
                State::AtGws(_) => Waiting::Gws,
                State::Halted => Waiting::Halted,
                State::Ended => continue,
            };
            tell(self.id, number, waiting, wave);
        }
    }

    /// Returns the bytes of the LDS that its waves share.
    pub(super) fn lds(&self) -> &[u8] {
        self.lds.bytes()
    }

    /// Returns true if it is off the GPU.
    pub(super) fn is_off(&self) -> bool {
        self.seat.as_deref().is_some_and(Seat::is_off)
    }

    /// Gets on the GPU again, in any place that is free. Returns false if there is none.
    pub(super) fn put_back(&mut self) -> bool {
        let Some(seat) = &mut self.seat else { return true };
        if !seat.back() {
            return false;
        }
        for (wave, index) in self.waves.iter_mut().take(self.count).zip(0..) {
            let [hw_id1, group] = seat.hw_ids(index);
            wave.move_to(hw_id1, group);
        }
        true
    }

    /// Returns true if a wave has read, since the last call, memory that other workgroups may write.
    pub(super) fn take_looked(&mut self) -> bool {
        let waves = self.waves.iter_mut().take(self.count);
        let looked = waves.fold(false, |looked, wave| looked | wave.take_looked());
        self.has_looked |= looked;
        looked
    }

    /// Returns the quantum of its waves, and the instructions of a turn at most, among devices that share processors:
    /// waves that look for writes of another device's waves get no further before those have run.
    pub(super) fn shared_turn(&self) -> (u64, u64) {
        if self.has_looked {
            (LOOKING_QUANTUM, self.count as u64 * (LOOKING_QUANTUM + SWITCH_COST))
        } else {
            (SHARED_QUANTUM, u64::MAX)
        }
    }

    /// Runs until the workgroup ends, fails, sleeps or has used up the budget.
    #[inline(always)]
    pub(super) fn run(&mut self, turn: &mut Turn<'_>) -> Outcome {
        self.run_on(turn, None)
    }

    /// Goes on as [`Workgroup::run`] in the middle of a round. `round` holds the number of waves still to come, and
    /// true if those before have only slept.
    #[inline(always)]
    fn run_on(&mut self, turn: &mut Turn<'_>, mut round: Option<(usize, bool)>) -> Outcome {
        loop {
            if round.is_none() && self.takes_plain_turns(turn) {
                match self.run_in_turns(turn) {
                    Ok(None) => {}
                    Ok(Some(outcome)) => return outcome,
                    Err(failure) => return Outcome::Failed(failure),
                }
            }
            let mut ran = round.is_some();
            let (left, mut only_slept) = round.take().unwrap_or((self.count, true));
            if let Some(chance) = turn.chance.as_deref_mut() {
                self.next = chance.below(self.count);
            }
            for _ in 0..left {
                let wave = self.next;
                self.next = (wave + 1) % self.count;
                if let State::AtGws(ticket) = self.states[wave]
                    && let Err(failure) = self.at_gws(wave, turn.gws.look(ticket))
                {
                    return Outcome::Failed(failure);
                }
                if self.states[wave] == State::AtBarrier && self.passes_split_barrier(wave) {
                    self.states[wave] = State::Ready;
                }
                if self.states[wave] != State::Ready {
                    continue;
                }
                if (turn.stopping)() {
                    return Outcome::Stopped;
                }
                if *turn.budget == 0 {
                    self.next = wave;
                    return Outcome::Paused { asleep: false };
                }
                ran = true;
                match self.step(wave, turn) {
                    Ok(slept) => only_slept &= slept,
                    Err(failure) => return Outcome::Failed(failure),
                }
            }
            if self.states.iter().all(|&state| state == State::Ended) {
                return Outcome::Done;
            }
            if !ran && self.states.iter().any(|state| matches!(state, State::Halted | State::AtGws(_))) {
                return Outcome::Paused { asleep: true };
            }
            if !ran {
                // Every wave that has not ended waits at the barrier. If it does not open, the waves wait for signals
                // that never come, until their queue is destroyed.
                if !turns::open_barrier(&mut self.states, &self.waves) {
                    return Outcome::Paused { asleep: true };
                }
            } else if only_slept {
                return Outcome::Paused { asleep: true };
            }
        }
    }

    fn at_gws(&mut self, wave: usize, answer: Answer) -> Result<(), Box<WaveFailure>> {
        self.states[wave] = match answer {
            Answer::GoOn => State::Ready,
            Answer::Wait(ticket) => State::AtGws(ticket),
            Answer::Refused => {
                let reason = Reason::NoGws { pc: self.waves[wave].pc() };
                return Err(Box::new(WaveFailure { workgroup: self.id, wave: wave as u32, reason }));
            }
        };
        Ok(())
    }

    /// Gives a wave its quantum. Returns true if it only went to sleep.
    // Inlined into the loop over the waves, for waves that only leave their trap handler.
    #[inline(always)]
    fn step(&mut self, index: usize, turn: &mut Turn<'_>) -> Result<bool, Box<WaveFailure>> {
        let wave = &mut self.waves[index];
        let before = wave.instructions;
        let mut env = Env {
            mmu: turn.mmu,
            tlb: &mut *turn.tlb,
            code: &mut *turn.code,
            lds: &mut self.lds,
            apertures: turn.apertures,
            clock: turn.clock,
            code_epoch: turn.code_epoch,
        };
        let quantum = if turn.looks.steps {
            1
        } else {
            turn.chance.as_deref_mut().map_or(turn.quantum, Chance::quantum).min(*turn.budget)
        };
        let probed = self.check.is_some() || self.profile.is_some();
        let looked = turn.looks.are_any() || wave.steps() || probed || turn.chance.is_some();
        let stop = if looked {
            let looked = Looked {
                looks: turn.looks,
                id: WaveId { dispatch: turn.dispatch, workgroup: self.id, wave: index as u32 },
                has_others: self.count > 1,
                by_chance: turn.chance.is_some(),
                check: self.check.as_deref_mut(),
                profile: self.profile.as_deref_mut(),
            };
            looked::run(wave, &mut env, quantum, looked)
        } else {
            wave.take_turns(self.count > 1);
            exec::run(wave, &mut env, quantum)
        };
        let executed = wave.instructions - before;
        self.stopped(index, stop, executed, turn)
    }

    /// Acts on the reason that a wave has stopped for after `executed` instructions. Returns true if it only went to
    /// sleep.
    #[inline(always)]
    fn stopped(
        &mut self,
        index: usize,
        stop: Stop,
        executed: u64,
        turn: &mut Turn<'_>,
    ) -> Result<bool, Box<WaveFailure>> {
        let wave = &mut self.waves[index];
        turn.stats.wave_instructions += executed;
        *turn.budget = turn.budget.saturating_sub(executed + SWITCH_COST);
        let failure = |reason| Box::new(WaveFailure { workgroup: self.id, wave: index as u32, reason });
        match stop {
            Stop::EndProgram => {
                self.states[index] = State::Ended;
                self.lds.barriers.leave();
                turn.stats.waves += 1;
            }
            Stop::Barrier => self.states[index] = State::AtBarrier,
            Stop::GlobalWaveSync(request) => self.at_gws(index, turn.gws.request(request))?,
            Stop::Sleep => return Ok(executed < SWITCH_COST),
            Stop::Budget | Stop::Turn | Stop::Saved | Stop::TrapReturn => {}
            Stop::Message { id: MSG_INTERRUPT, m0 } => {
                let privileged = wave.is_privileged();
                turn.notices.push(Notice::Message { m0: m0 & 0x00ff_ffff, privileged });
            }
            Stop::Message { id: MSG_DEALLOC_VGPRS, .. } => {}
            // Other messages do not come here: lowering turns them into faults.
            Stop::Message { id, .. } => log::debug!(target: "gpu::shader", "s_sendmsg ignored id={id:#x}"),
            Stop::Trap(id) if wave.enter_trap(TrapCause::Instruction(id)) => {}
            // Without a debugger attached, the wave goes on after a debug trap.
            Stop::Trap(TRAP_DEBUG) => {}
            Stop::Trap(id) => return Err(failure(Reason::Trap { id, pc: wave.pc() })),
            // A handler halts the wave that it has reported; the runtime has to destroy the queue.
            Stop::Halt if wave.has_trap_handler() => self.states[index] = State::Halted,
            Stop::Halt => return Err(failure(Reason::Halt { pc: wave.pc() })),
            // A wave stops for an exception only if it has a handler and is not in it.
            Stop::Exception => {
                wave.enter_trap(TrapCause::Exception);
            }
            Stop::Fault(ref fault)
                if let Some(armed) = turn.looks.armed
                    && fault.pc == wave.pc()
                    && armed.keeps_at_fault((turn.dispatch, self.id, index as u32), fault.pc, fault) => {}
            Stop::Fault(ref at)
                if let FaultCause::Memory { fault, .. } = at.kind
                    && turn.waits.is_some()
                    && Waits::may(&fault) =>
            {
                // The lanes that are done stay done: the wave tries the rest of the instruction when it has its turn
                // again.
                if turn.waits.is_some_and(|waits| waits.is_news(fault.va)) {
                    turn.notices.push(Notice::Waits(fault));
                }
                return Ok(executed < SWITCH_COST);
            }
            Stop::Fault(fault)
                if turn.gives_up
                    && matches!(fault.kind, FaultCause::Memory { fault, .. } if Waits::may(&fault)) =>
            {
                return Err(failure(Reason::Fault(*fault)));
            }
            Stop::Fault(fault) if wave.enter_trap(TrapCause::Fault(&fault.kind)) => {
                turn.notices.push(Notice::Trapped(failure(Reason::Fault(*fault))));
            }
            Stop::Fault(fault) => return Err(failure(Reason::Fault(*fault))),
        }
        Ok(false)
    }
}
