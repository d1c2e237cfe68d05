//! Saving and restoring the waves of a workgroup.

use belfry_isa::context::ContextSlot;
use belfry_isa::exec::{self, Barriers, Env, Stop};
use belfry_isa::wave::{MAX_VGPR_BLOCKS, VGPR_BLOCK, Wave};

use super::{MSG_INTERRUPT, State, Turn, WAVE_QUANTUM, Workgroup};
use crate::shader::context::{ContextError, SavedGroup, SavedWave, SwitchTurn, WaveStates};
use crate::shader::dispatch::Notice;
use crate::shader::failure::{Reason, WaveFailure};
use crate::shader::launch::WaveSeat;
use crate::shader::queue::Seat;

/// Turns that a wave may take until it can be saved, to save itself, or to restore itself. A wave with all registers
/// and all LDS takes some thousand instructions.
const PATIENCE: u32 = 64;
/// Instructions of a turn.
const CHUNK: u64 = WAVE_QUANTUM;

impl Workgroup {
    /// Saves the waves. Returns `None` if all of them have ended meanwhile.
    ///
    /// # Errors
    ///
    /// If the process waits for pages, a missing one is an error that leaves the waves as before: the caller can try
    /// again.
    pub(in crate::shader) fn save_context(
        &mut self,
        switch: &mut SwitchTurn<'_, '_>,
        states: &mut WaveStates,
    ) -> Result<Option<SavedGroup>, ContextError> {
        let turn = &mut switch.turn;
        for index in 0..self.count {
            self.finish_trap(index, turn)?;
        }
        if !turn.gives_up {
            return self.save_waves(turn, states);
        }
        // Handlers only write to the area, so waves can begin them anew.
        let before = (self.waves[..self.count].to_vec(), self.states.clone(), self.lds.barriers, states.used);
        let saved = self.save_waves(turn, states);
        if saved.is_err() {
            let (waves, wave_states, barriers, used) = before;
            self.waves.splice(..self.count, waves);
            (self.states, self.lds.barriers, states.used) = (wave_states, barriers, used);
        }
        saved
    }

    /// Returns the bytes of the contexts of its waves.
    pub(in crate::shader) fn context_bytes(&self) -> u64 {
        let live = self.waves.iter().zip(&self.states).take(self.count);
        let live = live.filter(|(_, state)| **state != State::Ended).map(|(wave, _)| wave);
        let bytes = |(order, wave): (usize, &Wave)| wave.context_bytes((order == 0).then_some(&self.lds));
        live.enumerate().map(|one| u64::from(bytes(one))).sum()
    }

    fn save_waves(
        &mut self,
        turn: &mut Turn<'_>,
        states: &mut WaveStates,
    ) -> Result<Option<SavedGroup>, ContextError> {
        let live: Vec<usize> = (0..self.count).filter(|&index| self.states[index] != State::Ended).collect();
        if live.is_empty() {
            // The wave was about to end: its dispatch has to count it.
            return Ok(None);
        }
        let mut waves = Vec::new();
        // The first wave last, as the hardware does: a reader of the control stack from its top finds it first.
        for (order, &index) in live.iter().enumerate().rev() {
            waves.push(self.save_wave(index, order == 0, turn, states)?);
        }
        waves.reverse();
        Ok(Some(SavedGroup { waves }))
    }

    /// Runs a wave to the end of its trap handler, and to the end of the instruction it is at.
    fn finish_trap(&mut self, index: usize, turn: &mut Turn<'_>) -> Result<(), ContextError> {
        for _ in 0..PATIENCE {
            let wave = &mut self.waves[index];
            let can = if turn.gives_up { wave.can_keep_rest() } else { wave.is_at_boundary() };
            if self.states[index] == State::Ended || can {
                return Ok(());
            }
            if self.states[index] != State::Ready {
                break;
            }
            wave.stop_at_trap_return(true);
            let step = self.step(index, turn);
            self.waves[index].stop_at_trap_return(false);
            step.map_err(|failure| ContextError::Wave(*failure))?;
        }
        Err(ContextError::Stuck { pc: self.waves[index].pc() })
    }

    fn save_wave(
        &mut self,
        index: usize,
        first_wave: bool,
        turn: &mut Turn<'_>,
        states: &mut WaveStates,
    ) -> Result<SavedWave, ContextError> {
        let mut waits = None;
        match self.states[index] {
            // The restored wave comes to the barrier again, as do the others.
            State::AtBarrier => self.waves[index].back_to_barrier(),
            State::AtGws(ticket) => waits = turn.gws.still_waits(ticket),
            State::Ready | State::Halted | State::Ended => {}
        }
        let wave = &mut self.waves[index];
        let more_blocks = (wave.vgprs() / VGPR_BLOCK).saturating_sub(1) as u8;
        // All waves of a launch have contexts of one size, as readers of the area expect.
        let more_blocks = if wave.set_vgprs(VGPR_BLOCK * MAX_VGPR_BLOCKS) { more_blocks } else { 0 };
        if turn.gives_up {
            wave.keep_rest();
        }
        let bytes = wave.context_bytes(first_wave.then_some(&self.lds));
        let slot = ContextSlot { address: states.push(bytes)?, first_wave };
        if !wave.begin_context_save(slot) {
            return Err(ContextError::NoHandler);
        }
        self.run_handler(index, turn)?;
        let scratch_slot = self.seat.as_ref().and_then(|seat| seat.scratch_slot(index as u32));
        Ok(SavedWave { number: index as u32, scratch_slot, waits, more_blocks })
    }

    /// Makes a workgroup whose waves were saved; `seat` is off the GPU.
    pub(in crate::shader) fn from_context(
        seat: Box<Seat>,
        group: &SavedGroup,
        switch: &mut SwitchTurn<'_, '_>,
        states: &mut WaveStates,
    ) -> Result<Self, ContextError> {
        let launch = switch.dispatch.launch();
        let turn = &mut switch.turn;
        let mut workgroup = Self::new(switch.chip);
        let count = launch.waves_per_workgroup();
        for number in 0..count {
            let scratch_slot =
                group.waves.iter().find(|wave| wave.number == number).and_then(|wave| wave.scratch_slot);
            let part = WaveSeat { chip: workgroup.chip, scratch_slot, hw_ids: [0; 2] };
            launch.start_wave(&mut workgroup.waves, [0; 3], (number, count), &(0, [0; 64]), part);
        }
        workgroup.count = count as usize;
        workgroup.states.resize(workgroup.count, State::Ended);
        workgroup.lds.reset(launch.lds_size);
        workgroup.lds.barriers = Barriers::new(group.waves.len() as u32);
        workgroup.seat = Some(seat);
        for (order, saved) in group.waves.iter().enumerate() {
            let index = saved.number as usize;
            let Some(wave) = workgroup.waves.get_mut(index) else {
                return Err(ContextError::Corrupt("a wave beyond its workgroup"));
            };
            let first_wave = order == 0;
            let allocates = wave.set_vgprs(VGPR_BLOCK * MAX_VGPR_BLOCKS);
            let bytes = wave.context_bytes(first_wave.then_some(&workgroup.lds));
            let slot = ContextSlot { address: states.pop(bytes)?, first_wave };
            if !wave.begin_context_restore(slot) {
                return Err(ContextError::NoHandler);
            }
            let halted = workgroup.run_handler(index, turn)?;
            let wave = &mut workgroup.waves[index];
            wave.stop_at_trap_return(false);
            if allocates && !wave.set_vgprs((u16::from(saved.more_blocks) + 1) * VGPR_BLOCK) {
                return Err(ContextError::Corrupt("more vector registers than a wave can have"));
            }
            if switch.dispatch.queue().space().waits().is_some() {
                wave.take_rest();
            }
            workgroup.states[index] = match saved.waits {
                Some(waits) => State::AtGws(turn.gws.wait_again(waits)),
                None if halted => State::Halted,
                None => State::Ready,
            };
        }
        if let Some(first) = group.waves.first() {
            workgroup.id = (workgroup.chip.shader.workgroup_of)(&workgroup.waves[first.number as usize]);
        }
        Ok(workgroup)
    }

    /// Runs a wave to the end of the handler that saves or restores it. Returns true if the wave is halted then.
    fn run_handler(&mut self, index: usize, turn: &mut Turn<'_>) -> Result<bool, ContextError> {
        let wave = &mut self.waves[index];
        for _ in 0..PATIENCE {
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
            let stop = exec::run(wave, &mut env, CHUNK);
            turn.stats.wave_instructions += wave.instructions - before;
            match stop {
                Stop::Saved | Stop::TrapReturn => return Ok(false),
                Stop::Halt if !wave.is_privileged() => return Ok(true),
                // All waves of the workgroup are in the handler, and each is in it once.
                Stop::Budget | Stop::Turn | Stop::Sleep => {}
                Stop::Barrier => wave.pass_split_barrier(),
                Stop::Message { id: MSG_INTERRUPT, m0 } => {
                    turn.notices.push(Notice::Message { m0: m0 & 0x00ff_ffff, privileged: true });
                }
                Stop::Fault(fault) => {
                    let reason = Reason::Fault(*fault);
                    let failure = WaveFailure { workgroup: self.id, wave: index as u32, reason };
                    return Err(ContextError::Wave(failure));
                }
                _ => return Err(ContextError::Stuck { pc: wave.pc() }),
            }
        }
        Err(ContextError::Stuck { pc: wave.pc() })
    }
}
