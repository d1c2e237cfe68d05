//! A workgroup on a worker: its waves take turns, its LDS is private to the worker that runs it.

use belfry_isa::code_cache::CodeCache;
use belfry_isa::exec::{self, Env, Lds, Stop};
use belfry_isa::mem::{Apertures, Mmu, Tlb};
use belfry_isa::wave::Wave;

use super::failure::{Reason, WaveFailure};
use super::launch::Launch;
use super::queue::Seat;
use super::stats::Local;

/// Instructions a wave runs before the next wave of its workgroup gets a turn.
pub(super) const WAVE_QUANTUM: u64 = 4096;
/// What switching to a wave costs the budget, so that waves that only sleep use it up too.
const SWITCH_COST: u64 = 32;
/// `s_sendmsg` identifiers, LLVM `SIDefines.h`, `SendMsg::Id`.
const MSG_INTERRUPT: u16 = 1;
const MSG_DEALLOC_VGPRS: u16 = 3;
/// `s_trap` identifiers, LLVM `SIDefines.h` (`TrapID`).
const TRAP_DEBUG: u8 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    AtBarrier,
    Ended,
}

/// Waves and LDS of one workgroup.
#[derive(Debug)]
pub(super) struct Workgroup {
    id: [u32; 3],
    waves: Vec<Wave>,
    states: Vec<State>,
    /// Waves of this workgroup that are in use; `waves` may hold more from an earlier life.
    count: usize,
    /// Wave that runs next.
    next: usize,
    lds: Lds,
    /// Residency and scratch memory it occupies.
    pub(super) seat: Option<Seat>,
}

/// How a turn of a workgroup ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All waves have ended.
    Done,
    /// The budget is used up, or every wave sleeps.
    Paused {
        /// Whether nothing but sleeping waves was found.
        asleep: bool,
    },
    /// A wave failed.
    Failed(Box<WaveFailure>),
    /// The queue is being stopped.
    Stopped,
}

/// What a turn needs besides the workgroup: the parts of [`Env`] but the LDS, and accounts.
pub(super) struct Turn<'a> {
    pub(super) mmu: &'a dyn Mmu,
    pub(super) tlb: &'a mut Tlb,
    pub(super) code: &'a mut CodeCache,
    pub(super) apertures: Apertures,
    pub(super) clock: &'a dyn Fn() -> u64,
    pub(super) code_epoch: u64,
    pub(super) budget: &'a mut u64,
    pub(super) stats: &'a mut Local,
    /// `M0` of the interrupts that waves asked for.
    pub(super) messages: &'a mut Vec<u32>,
    pub(super) stopping: &'a dyn Fn() -> bool,
}

impl Workgroup {
    /// An empty one, for [`Workgroup::start`].
    pub(super) fn new() -> Workgroup {
        Workgroup {
            id: [0; 3],
            waves: Vec::new(),
            states: Vec::new(),
            count: 0,
            next: 0,
            lds: Lds::default(),
            seat: None,
        }
    }

    /// Waves it has storage for.
    pub(super) fn storage(&self) -> usize {
        self.waves.len()
    }

    /// Becomes workgroup `index` of a launch; `full` are the lane IDs of a workgroup that is not partial.
    pub(super) fn start(&mut self, launch: &Launch, index: u64, full: &[(u64, [u32; 64])], seat: Seat) {
        self.id = launch.workgroup_id(index);
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
            let slot = seat.scratch_slot(wave);
            launch.start_wave(&mut self.waves, self.id, (wave, waves), ids, slot);
        }
        self.count = lanes.len();
        self.states.clear();
        self.states.resize(self.count, State::Ready);
        self.next = 0;
        self.lds.reset(launch.lds_size);
        self.seat = Some(seat);
    }

    /// Runs until the workgroup ends, fails, sleeps or has used up the budget.
    pub(super) fn run(&mut self, turn: &mut Turn<'_>) -> Outcome {
        loop {
            let mut ran = false;
            let mut only_slept = true;
            for _ in 0..self.count {
                let wave = self.next;
                self.next = (wave + 1) % self.count;
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
            if !ran {
                // Every wave that has not ended waits at the barrier.
                for state in &mut self.states {
                    if *state == State::AtBarrier {
                        *state = State::Ready;
                    }
                }
            } else if only_slept {
                return Outcome::Paused { asleep: true };
            }
        }
    }

    /// Gives a wave its quantum; says whether it did nothing but go to sleep.
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
        let stop = exec::run(wave, &mut env, WAVE_QUANTUM.min(*turn.budget));
        let executed = wave.instructions - before;
        turn.stats.wave_instructions += executed;
        *turn.budget = turn.budget.saturating_sub(executed + SWITCH_COST);
        let failure = |reason| Box::new(WaveFailure { workgroup: self.id, wave: index as u32, reason });
        match stop {
            Stop::EndProgram => {
                self.states[index] = State::Ended;
                turn.stats.waves += 1;
            }
            Stop::Barrier => self.states[index] = State::AtBarrier,
            Stop::Sleep => return Ok(executed < SWITCH_COST),
            Stop::Budget => {}
            Stop::Message { id: MSG_INTERRUPT, m0 } => turn.messages.push(m0 & 0x00ff_ffff),
            Stop::Message { id: MSG_DEALLOC_VGPRS, .. } => {}
            // The other messages belong to graphics stages that do not exist here; they have no effect on a compute wave.
            Stop::Message { id, .. } => log::debug!(target: "gpu::shader", "s_sendmsg ignored id={id:#x}"),
            // Without a debugger attached, a debug trap continues.
            Stop::Trap(TRAP_DEBUG) => {}
            Stop::Trap(id) => return Err(failure(Reason::Trap { id, pc: wave.pc() })),
            Stop::Halt => return Err(failure(Reason::Halt { pc: wave.pc() })),
            Stop::Fault(fault) => return Err(failure(Reason::Fault(fault))),
        }
        Ok(false)
    }
}
