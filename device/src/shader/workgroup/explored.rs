//! Workgroups of a device whose schedule is explored: other waves may go on after each access of memory, and stores
//! that no wave has waited for may become visible late outside of the workgroup.

use belfry_isa::exec::{self, About, Env, Place, Probe, Stop, Touch};
use belfry_isa::inst::{Inst, Op};
use belfry_isa::mem::Access;
use belfry_isa::wave::Wave;

use super::{Outcome, State, Turn, Workgroup};
use crate::explore::{Actor, Explorer};
use crate::profile::WaveCounts;
use crate::sanitize::WaveProbe;
use crate::shader::failure::WaveFailure;
use crate::vm::AddressSpace;

/// Accesses of memory after which a wave lets others go on, whichever wave the schedule chooses: the wave may read a
/// location that another one is to write.
const SHARE: u32 = 128;
/// Instructions without an access of memory, after which a wave lets others go on.
const MOST_INSTRUCTIONS: u64 = 4096;
/// Most stores of a workgroup that can be late; older ones have arrived.
const MOST_STORES: usize = 8;
/// Most times that a store may be late when its workgroup's turn ends.
const MOST_LATE: u32 = 8;

/// Parts that an explored turn depends on.
#[derive(Clone, Copy)]
pub(in crate::shader) struct Exploration<'a> {
    pub(in crate::shader) explorer: &'a Explorer,
    pub(in crate::shader) memory: &'a AddressSpace,
}

/// One store of a lane.
#[derive(Debug)]
struct Piece {
    va: u64,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Piece {
    fn overlaps(&self, va: u64, bytes: u64) -> bool {
        va < self.va.saturating_add(self.new.len() as u64) && self.va < va.saturating_add(bytes)
    }
}

/// Stores of an instruction.
#[derive(Debug)]
struct Store {
    wave: usize,
    pieces: Vec<Piece>,
    /// True if memory has the bytes from before the store.
    late: bool,
    times: u32,
}

impl Store {
    fn meets(&self, other: &Self) -> bool {
        let meets =
            |piece: &Piece| other.pieces.iter().any(|other| piece.overlaps(other.va, other.new.len() as u64));
        self.pieces.iter().any(meets)
    }

    /// Takes the store back. Returns false if memory has other bytes by now, from a later store.
    fn take_back(&mut self, memory: &AddressSpace) -> bool {
        let is_there = |piece: &Piece| {
            let mut now = vec![0; piece.new.len()];
            memory.read_bytes(piece.va, &mut now).is_ok() && now == piece.new
        };
        if !self.pieces.iter().all(is_there) {
            return false;
        }
        self.pieces.iter().rev().for_each(|piece| {
            // The store could write here before, so this write does not fail.
            let _ = memory.write_bytes(piece.va, &piece.old);
        });
        self.late = true;
        self.times += 1;
        true
    }

    /// Makes the late store.
    fn arrive(&mut self, memory: &AddressSpace) {
        if !std::mem::take(&mut self.late) {
            return;
        }
        for piece in &mut self.pieces {
            // Pages that are gone by now take no store.
            let _ = memory.read_bytes(piece.va, &mut piece.old);
            let _ = memory.write_bytes(piece.va, &piece.new);
        }
    }
}

/// Stores of a workgroup that none of its waves has waited for, in their order.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    stores: Vec<Store>,
    /// Waves that have waited for their stores.
    waited: Vec<usize>,
}

impl InFlight {
    /// Notes that the stores of a wave have arrived.
    fn arrived(&mut self, wave: usize) {
        self.stores.retain(|store| store.wave != wave);
    }

    fn take_waits(&mut self) {
        for wave in std::mem::take(&mut self.waited) {
            self.arrived(wave);
        }
    }

    fn add(&mut self, wave: usize, pieces: Vec<Piece>) {
        if self.stores.len() == MOST_STORES {
            self.stores.remove(0);
        }
        self.stores.push(Store { wave, pieces, late: false, times: 0 });
    }

    /// Takes back the stores that are late for others, which go on now.
    fn leave(&mut self, exploration: Exploration<'_>) {
        self.take_waits();
        self.stores.retain(|store| store.times < MOST_LATE);
        let count = self.stores.len();
        // No store is late, one of them is, or all of them are.
        let way = exploration.explorer.ways(if count > 1 { count + 2 } else { count + 1 });
        let mut late = vec![way == count + 1; count];
        if let Some(late) = way.checked_sub(1).and_then(|index| late.get_mut(index)) {
            *late = true;
        }
        // Stores to one address stay in their order.
        for index in 0..count {
            late[index] |=
                (0..index).any(|before| late[before] && self.stores[before].meets(&self.stores[index]));
        }
        for (store, late) in self.stores.iter_mut().zip(late).rev() {
            if late {
                store.take_back(exploration.memory);
            }
        }
    }

    /// Makes all stores visible to the workgroup's own waves, which go on now.
    fn come_back(&mut self, memory: &AddressSpace) {
        self.stores.iter_mut().for_each(|store| store.arrive(memory));
    }
}

/// Returns true if an instruction waits for stores.
fn waits_for_stores(inst: &Inst, bits: u32) -> bool {
    match inst.op {
        Op::S_WAITCNT_VSCNT
        | Op::S_WAIT_STORECNT
        | Op::S_WAIT_STORECNT_DSCNT
        | Op::BUFFER_WBL2
        | Op::GLOBAL_WB => true,
        Op::S_WAITCNT => inst.imm & bits != bits,
        _ => false,
    }
}

/// Sees an instruction before it is executed.
struct Seeing<'a> {
    check: Option<WaveProbe<'a>>,
    counts: Option<WaveCounts<'a>>,
    memory: &'a AddressSpace,
    flight: &'a mut InFlight,
    wave: usize,
    store_waits: u32,
    /// Stores that the instruction is about to make, with the bytes that are there.
    stores: Vec<Piece>,
    touches: bool,
}

impl Seeing<'_> {
    fn touch(&mut self, touch: &Touch) {
        self.touches = true;
        let Place::Global(va) = touch.place else { return };
        match touch.access {
            Access::Write => {
                let mut old = vec![0; touch.bytes as usize];
                if self.memory.read_bytes(va, &mut old).is_ok() {
                    self.stores.push(Piece { va, old, new: Vec::new() });
                }
            }
            // An atomic access finds the bytes that were stored there before, so those stores have arrived.
            Access::Atomic => self
                .flight
                .stores
                .retain(|store| !store.pieces.iter().any(|piece| piece.overlaps(va, touch.bytes.into()))),
            Access::Read | Access::Execute => {}
        }
    }
}

impl Probe for Seeing<'_> {
    fn before(&mut self, wave: &Wave, about: &About<'_>, lds: u32) {
        if let Some(check) = &mut self.check {
            check.before(wave, about, lds);
        }
        if let Some(counts) = &mut self.counts {
            counts.before(wave, about, lds);
        }
        if waits_for_stores(about.inst, self.store_waits) {
            // Counts from the next access on: others may go on after this instruction, and the wait comes after that
            // point.
            self.flight.waited.push(self.wave);
        }
        about.touches.iter().for_each(|touch| self.touch(touch));
    }
}

/// Stop of a wave at a point at which others may go on.
struct Point {
    stop: Stop,
    /// True if it is the turn of others.
    yields: bool,
}

impl Workgroup {
    /// Runs until the schedule lets others go on, or until the workgroup ends, fails or waits.
    pub(in crate::shader) fn run_explored(&mut self, turn: &mut Turn<'_>, with: Exploration<'_>) -> Outcome {
        let mut flight = self.in_flight.take().unwrap_or_default();
        flight.come_back(with.memory);
        let outcome = self.run_round(turn, with, &mut flight);
        if matches!(outcome, Outcome::Paused { asleep: true }) {
            with.explorer.yields(Actor::group(turn.dispatch, self.id));
            with.explorer.yields(Actor::dispatch(turn.dispatch));
        }
        if matches!(outcome, Outcome::Paused { .. } | Outcome::Stopped) {
            flight.leave(with);
            self.in_flight = Some(flight);
        }
        outcome
    }

    /// Makes all its late stores arrive.
    pub(in crate::shader) fn arrive(&mut self, memory: &AddressSpace) {
        if let Some(mut flight) = self.in_flight.take() {
            flight.come_back(memory);
        }
    }

    fn run_round(&mut self, turn: &mut Turn<'_>, with: Exploration<'_>, flight: &mut InFlight) -> Outcome {
        // The wave that ran last, and true if it is the turn of others.
        let mut last: Option<(usize, bool)> = None;
        let mut shares = vec![0; self.count];
        loop {
            let ready = match self.ready_waves(turn) {
                Ok(ready) => ready,
                Err(failure) => return Outcome::Failed(failure),
            };
            if ready.is_empty() {
                if self.states.iter().all(|&state| state == State::Ended) {
                    return Outcome::Done;
                }
                if !self.meet_at_barrier() {
                    return Outcome::Paused { asleep: true };
                }
                continue;
            }
            if (turn.stopping)() {
                return Outcome::Stopped;
            }
            let Some(wave) = self.choose(&ready, last, turn.dispatch, with.explorer) else {
                let asleep = last.is_some_and(|(_, yields)| yields);
                return Outcome::Paused { asleep };
            };
            self.next = wave;
            let before = self.waves[wave].instructions;
            let point = self.run_to_point(wave, turn, (with, &mut *flight, &mut shares));
            let executed = self.waves[wave].instructions - before;
            let sleeps = matches!(point.stop, Stop::Sleep);
            if point.stop == Stop::EndProgram {
                flight.arrived(wave);
            }
            if let Err(failure) = self.stopped(wave, point.stop, executed, turn) {
                return Outcome::Failed(failure);
            }
            let yields = sleeps || point.yields;
            if yields {
                shares[wave] = 0;
                with.explorer.yields(Actor::wave(turn.dispatch, self.id, wave as u32));
            }
            last = Some((wave, yields));
            with.explorer.step();
            if with.explorer.is_hung() {
                return Outcome::Paused { asleep: true };
            }
        }
    }

    /// Returns the waves that can go on.
    fn ready_waves(&mut self, turn: &Turn<'_>) -> Result<Vec<usize>, Box<WaveFailure>> {
        for wave in 0..self.count {
            if let State::AtGws(ticket) = self.states[wave] {
                self.at_gws(wave, turn.gws.look(ticket))?;
            }
            if self.states[wave] == State::AtBarrier && self.passes_split_barrier(wave) {
                self.states[wave] = State::Ready;
            }
        }
        Ok((0..self.count).filter(|&wave| self.states[wave] == State::Ready).collect())
    }

    /// Lets the waves at a barrier go on when no wave can go on otherwise. Returns false if there are none.
    fn meet_at_barrier(&mut self) -> bool {
        if self.states.iter().any(|state| matches!(state, State::Halted | State::AtGws(_))) {
            return false;
        }
        let mut opens = false;
        for (state, wave) in self.states.iter_mut().zip(&self.waves) {
            if *state == State::AtBarrier && !wave.waits_at_split_barrier() {
                *state = State::Ready;
                opens = true;
            }
        }
        opens
    }

    /// Chooses the wave that goes on; `None` if an actor outside of the workgroup does.
    fn choose(
        &self,
        ready: &[usize],
        last: Option<(usize, bool)>,
        dispatch: u64,
        explorer: &Explorer,
    ) -> Option<usize> {
        let next = last.map_or(self.next, |(wave, _)| wave);
        let is_last = |wave: &usize| last.is_some_and(|(last, _)| last == *wave);
        let behind = ready.iter().copied().filter(|wave| !is_last(wave));
        // Waves after the last one come before those in front of it.
        let (mut waves, before): (Vec<usize>, Vec<usize>) = behind.partition(|&wave| wave >= next);
        waves.extend(before);
        let mut order: Vec<Option<usize>> = waves.into_iter().map(Some).collect();
        match last {
            // The first wave of a turn is not chosen against outside actors: the explorer has just chosen this
            // workgroup.
            None => {}
            Some((wave, true)) => {
                order.push(None);
                order.extend(ready.contains(&wave).then_some(Some(wave)));
            }
            Some((wave, false)) => {
                if ready.contains(&wave) {
                    order.insert(0, Some(wave));
                }
                order.push(None);
            }
        }
        let actor = |wave: &Option<usize>| match wave {
            Some(wave) => Actor::wave(dispatch, self.id, *wave as u32),
            None => Actor::outside(dispatch, self.id),
        };
        let actors: Vec<Actor> = order.iter().map(actor).collect();
        order.get(explorer.choose(&actors)).copied().flatten()
    }

    /// Runs a wave up to its next access of memory and over it, or to the point at which it stops.
    fn run_to_point(
        &mut self,
        wave: usize,
        turn: &mut Turn<'_>,
        (with, flight, shares): (Exploration<'_>, &mut InFlight, &mut [u32]),
    ) -> Point {
        let store_waits = self.chip.shader.store_waits;
        let this = &mut self.waves[wave];
        this.take_turns(false);
        let begun = this.instructions;
        if flight.waited.contains(&wave) {
            flight.take_waits();
        }
        loop {
            let mut env = Env {
                mmu: turn.mmu,
                tlb: &mut *turn.tlb,
                code: &mut *turn.code,
                lds: &mut self.lds,
                apertures: turn.apertures,
                clock: turn.clock,
                code_epoch: turn.code_epoch,
            };
            let mut seeing = Seeing {
                check: self.check.as_deref_mut().map(|group| WaveProbe { group, wave }),
                counts: self.profile.as_deref_mut().map(|group| WaveCounts { group, wave }),
                memory: with.memory,
                flight: &mut *flight,
                wave,
                store_waits,
                stores: Vec::new(),
                touches: false,
            };
            let stop = exec::run_probed(this, &mut env, 1, &mut seeing);
            let (mut stores, touches) = (seeing.stores, seeing.touches);
            if let Some(profile) = self.profile.as_deref_mut() {
                profile.flush();
            }
            if !stores.is_empty() && !matches!(stop, Stop::Fault(_)) {
                for piece in &mut stores {
                    piece.new = vec![0; piece.old.len()];
                    // The page was there for the store.
                    let _ = with.memory.read_bytes(piece.va, &mut piece.new);
                }
                flight.add(wave, stores);
            }
            if stop != Stop::Budget {
                return Point { stop, yields: false };
            }
            if touches {
                shares[wave] += 1;
                return Point { stop, yields: shares[wave] >= SHARE };
            }
            if this.instructions - begun >= MOST_INSTRUCTIONS {
                return Point { stop, yields: true };
            }
        }
    }
}
