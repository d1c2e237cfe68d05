//! The loop that steps a wave from handler to handler.

#![expect(unsafe_code, reason = "handlers are compiled for instructions the host was found to have")]

use core::ptr;
use std::sync::Arc;

use super::round::Round;
use crate::decode::decode_for;
use crate::disasm::Disassembly;
use crate::exec::code_cache::{CodeCache, Key, Region};
use crate::exec::compiled::Compiled;
use crate::exec::di::{Flow, Machine};
use crate::exec::tools::observe::{Observer, Stepper, one};
use crate::exec::tools::probe::{self, Probe, Prober};
use crate::exec::tools::profile::Profile;
use crate::exec::tools::touches::Touch;
use crate::exec::vector::exceptions::WATCHED;
use crate::exec::{Env, FaultCause, Stop};
use crate::inst::WaveSize;
use crate::mem::{Access, Global};
use crate::wave::Wave;
use crate::wave::trap::EXCP_EN;

/// `MODE` bits that lowering looks at: `FP_ROUND`, `FP_DENORM`, `DX10_CLAMP`, `IEEE`, `FP16_OVFL`, `GPR_IDX_EN`.
const LOWERED_MODE: u32 =
    0x3ff | crate::exec::vector::float::FP16_OVFL | crate::exec::vector::index::GPR_IDX_EN;

/// See [`crate::exec::run`].
pub(crate) fn run(wave: &mut Wave, env: &mut Env<'_>, budget: u64) -> Stop {
    run_with(wave, env, budget, |wave, machine, region, limit| {
        let out = run_to_flow(wave, machine, region, limit);
        stop_of(wave, machine, region, out)
    })
}

/// Way in which a wave has come out of a region: the flow, and the index of its element. The flow is a jump if the
/// budget is used up. If there is no element, the machine holds the stop.
///
/// Callers can decide the frequent cases from these two values, which stay in registers; a [`Stop`] would be built in
/// memory and taken apart again.
pub(crate) type Out = (Flow, usize);

/// Gives the result of an element that stops the wave, for a wave that cannot begin.
#[cold]
fn unable(machine: &mut Machine<'_>, stop: Option<Stop>) -> Out {
    (stop.map_or(Flow::LEAVE, |stop| machine.stop_here(stop)), 0)
}

/// Runs a wave by the region's machine code, if it has any, or interprets it.
#[inline(always)]
pub(crate) fn run_to_flow(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Arc<Region>,
    limit: u64,
) -> Out {
    match region.machine_code() {
        Some(code) => match begin(wave, machine, region) {
            Ok(index) => {
                go_on_compiled(wave, machine, region, (limit, code), (Flow::to(index as u32), index))
            }
            Err(stop) => unable(machine, stop),
        },
        None => {
            let before = wave.instructions;
            let out = interpret(wave, machine, region, limit, |_| {});
            region.was_used(wave.instructions - before);
            out
        }
    }
}

/// Returns the stop of a wave that has come out of a region, if it stops.
#[inline(always)]
pub(crate) fn stop_of(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    (flow, at): Out,
) -> Option<Stop> {
    if flow.is_jump() {
        wave.pc = region.pc_of(flow.index());
        return Some(Stop::Budget);
    }
    end(wave, machine, region, at, flow)
}

/// As [`interpret`], but by machine code wherever that can be entered. The flow and the index are from an element
/// that it did, and say where it goes on; the budget has been looked at.
pub(crate) fn go_on_compiled(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    (limit, code): (u64, &Compiled),
    (mut flow, mut at): (Flow, usize),
) -> Out {
    loop {
        let index = match flow {
            Flow::NEXT => at + 1,
            flow if flow.is_jump() => flow.index(),
            flow => return (flow, at),
        };
        (flow, at) = if let Some(entry) = code.entry(index) {
            // SAFETY: the region's own code, which is made for the backend that it was lowered for.
            unsafe { code.run(wave, machine, &region.code, (limit, entry)) }
        } else {
            let Some(di) = region.code.get(index) else { return unable(machine, Some(outside(region))) };
            wave.instructions += u64::from(di.count);
            // SAFETY: as in `interpret`.
            (unsafe { (di.f)(wave, machine, di) }, index)
        };
        if flow.is_jump() && wave.instructions >= limit {
            return (flow, at);
        }
    }
}

/// See [`crate::exec::run_profiled`].
pub(crate) fn run_profiled(wave: &mut Wave, env: &mut Env<'_>, budget: u64, profile: &mut Profile) -> Stop {
    run_with(wave, env, budget, |wave, machine, region, limit| {
        let elements = region.code.len();
        let out = interpret(wave, machine, region, limit, |left| profile.count(region, elements - left));
        stop_of(wave, machine, region, out)
    })
}

/// See [`crate::exec::run_stepped`].
pub(crate) fn run_stepped(
    wave: &mut Wave,
    env: &mut Env<'_>,
    budget: u64,
    observer: Option<&mut dyn Observer>,
) -> Stop {
    let mut stepper = Stepper::new(wave, env.code.arch(), observer);
    run_with(wave, env, budget, |wave, machine, region, limit| stepper.run(wave, machine, region, limit))
}

/// See [`crate::exec::run_probed`].
pub(crate) fn run_probed(wave: &mut Wave, env: &mut Env<'_>, budget: u64, probe: &mut dyn Probe) -> Stop {
    let mut prober = Prober::new(probe);
    run_with(wave, env, budget, |wave, machine, region, limit| prober.run(wave, machine, region, limit))
}

/// See [`crate::exec::tools::touches`].
pub(crate) fn touches(wave: &mut Wave, env: &mut Env<'_>) -> Vec<Touch> {
    let mut touches = Vec::new();
    run_with(wave, env, u64::MAX, |wave, machine, region, _| {
        Some(entry(wave, region).map_or_else(
            |stop| stop,
            |at| {
                probe::touches(wave, machine, region, at, &mut touches);
                Stop::Budget
            },
        ))
    });
    touches
}

/// See [`crate::exec::step`].
pub(crate) fn step(wave: &mut Wave, env: &mut Env<'_>, observer: Option<&mut dyn Observer>) -> Stop {
    let mut stepper = Stepper::new(wave, env.code.arch(), observer);
    run_with(wave, env, u64::MAX, |wave, machine, region, _| Some(stepper.step(wave, machine, region)))
}

/// Brings the translations up to date and returns the machine that waves run on, and the worker's code.
#[inline(always)]
pub(crate) fn enter<'a>(env: &'a mut Env<'_>) -> (Machine<'a>, &'a mut CodeCache) {
    env.tlb.synchronise(env.mmu);
    let machine = Machine {
        global: Global { mmu: env.mmu, tlb: env.tlb },
        lds: env.lds,
        apertures: env.apertures,
        clock: env.clock,
        stop: None,
        refetch: false,
        forgets_ended: false,
        wrote_more: false,
        round: Round::NONE,
        succession: ptr::null_mut(),
    };
    (machine, env.code)
}

#[inline(always)]
pub(crate) fn run_with(
    wave: &mut Wave,
    env: &mut Env<'_>,
    budget: u64,
    mut run_region: impl FnMut(&mut Wave, &mut Machine<'_>, &Arc<Region>, u64) -> Option<Stop>,
) -> Stop {
    if wave.is_halted() {
        return Stop::Halt;
    }
    let epoch = env.code_epoch;
    let (mut machine, code) = enter(env);
    let limit = wave.instructions.saturating_add(budget);
    loop {
        let region = code.region(key_of(wave), epoch, machine.apertures, &mut machine.global);
        if region.names_trapsts && !wave.watched && !wave.is_privileged() {
            wave.watched = true;
            continue;
        }
        if let Some(stop) = run_region(wave, &mut machine, region, limit) {
            if is_fetch_fault(&stop) {
                // What could not be fetched may be there when the wave goes on.
                code.distrust();
            }
            return stop;
        }
        if core::mem::take(&mut machine.refetch) {
            code.distrust();
        }
        if wave.instructions >= limit {
            return Stop::Budget;
        }
    }
}

/// Returns the state of a wave that lowering depends on.
#[inline(always)]
pub(crate) fn key_of(wave: &Wave) -> Key {
    let mode = wave.mode & LOWERED_MODE | watch_bits(wave);
    let allocated = if wave.vgpr_block == 0 { 0 } else { wave.registers };
    Key { pc: wave.pc, halves: wave.halves, mode, second_from: wave.second_from(), allocated }
}

pub(crate) fn is_fetch_fault(stop: &Stop) -> bool {
    matches!(stop, Stop::Fault(at) if matches!(&at.kind, FaultCause::Memory { fault, .. } if fault.access == Access::Execute))
}

/// Returns further bits that lowering depends on: whether exceptions are recorded, and which of them trap.
fn watch_bits(wave: &Wave) -> u32 {
    match wave.watched {
        false => 0,
        true if wave.has_trap_handler() && !wave.is_privileged() => WATCHED | wave.mode & EXCP_EN,
        true => WATCHED,
    }
}

/// Returns the index at which a wave begins in a region, if it may run there.
#[inline(always)]
pub(crate) fn entry(wave: &Wave, region: &Region) -> Result<usize, Stop> {
    let Some(index) = region.index_of(wave.pc) else {
        let text = "the program counter is not a multiple of 4".to_owned();
        let kind = FaultCause::IllegalInstruction { bytes: Vec::new(), text };
        return Err(Stop::fault(wave.pc, kind));
    };
    if region.vgprs > wave.registers {
        return Err(too_many_registers(wave, region));
    }
    Ok(index)
}

/// The fault of code that names more vector registers than the wave has, at the instruction with the highest.
#[cold]
fn too_many_registers(wave: &Wave, region: &Region) -> Stop {
    let bytes = region.bytes.get(region.highest_at as usize * 4..).unwrap_or_default();
    let size = if wave.halves == 1 { WaveSize::Wave32 } else { WaveSize::Wave64 };
    let text = decode_for(region.arch, size, bytes)
        .map_or_else(|error| error.to_string(), |inst| Disassembly::new(inst, region.arch, size).to_string());
    let kind = FaultCause::RegisterOutOfRange { register: region.vgprs - 1, allocated: wave.registers, text };
    Stop::fault(region.start.wrapping_add(u64::from(region.highest_at) * 4), kind)
}

/// Runs until the wave stops, leaves the region, or takes a jump with its budget used up. Calls `executes` for every
/// element with the number of elements that are left from it on.
#[inline(always)]
fn interpret(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    limit: u64,
    mut executes: impl FnMut(usize),
) -> Out {
    let index = match begin(wave, machine, region) {
        Ok(index) => index,
        Err(stop) => return unable(machine, stop),
    };
    let code = &region.code[..];
    let mut rest = code.get(index..).unwrap_or_default();
    let mut executed = wave.instructions;
    loop {
        // Every region ends with an element that leaves it, so there always is a next one.
        let Some((di, next)) = rest.split_first() else { return unable(machine, Some(outside(region))) };
        executed += u64::from(di.count);
        executes(rest.len());
        // SAFETY: the cache lowers for one `Backend`, whose existence proves that this host has its instructions.
        let flow = unsafe { (di.f)(wave, machine, di) };
        if flow == Flow::NEXT {
            rest = next;
            continue;
        }
        if flow.is_jump() {
            rest = code.get(flow.index()..).unwrap_or_default();
            if executed < limit {
                continue;
            }
        }
        wave.instructions = executed;
        return (flow, code.len() - rest.len());
    }
}

/// Returns the index at which a wave begins or goes on in a region. An instruction that faulted is completed first.
#[inline(always)]
fn begin(wave: &mut Wave, machine: &mut Machine<'_>, region: &Region) -> Result<usize, Option<Stop>> {
    let index = entry(wave, region).map_err(Some)?;
    if wave.is_partly_done() { go_on(wave, machine, region, index) } else { Ok(index) }
}

/// Returns the stop of a wave that has run past the last element.
#[cold]
fn outside(region: &Region) -> Stop {
    let kind =
        FaultCause::IllegalInstruction { bytes: Vec::new(), text: String::from("outside the program") };
    Stop::fault(region.pc_of(region.code.len()), kind)
}

/// Does the rest of a memory instruction that faulted, if that is the one at `index`. Returns the index to go on at.
#[cold]
fn go_on(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    index: usize,
) -> Result<usize, Option<Stop>> {
    match one(wave, machine, region, index) {
        (Flow::NEXT, next) => Ok(next),
        (flow, _) if flow.is_jump() => Ok(flow.index()),
        (flow, next) => Err(end(wave, machine, region, next - 1, flow)),
    }
}

/// Ends a run or leaves a region as `flow` says; returns the stop, if there is one. A function of its own, to keep a
/// jump table out of the loop.
#[inline(never)]
pub(crate) fn end(
    wave: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    index: usize,
    flow: Flow,
) -> Option<Stop> {
    match flow {
        Flow::LEAVE => None,
        Flow::END_PROGRAM => {
            wave.pc = region.pc_of(index + 1);
            Some(Stop::EndProgram)
        }
        Flow::BARRIER => {
            wave.pc = region.pc_of(index + 1);
            Some(Stop::Barrier)
        }
        Flow::STOP => {
            wave.pc = region.pc_of(index + 1);
            machine.stop.take()
        }
        Flow::STOP_HERE => machine.stop.take(),
        Flow::FAULT => {
            wave.instructions -= region.code.get(index).map_or(0, |di| u64::from(di.count));
            wave.pc = region.pc_of(index);
            super::shared::rejoin(wave);
            wave.remember_done();
            machine.stop.take().map(|stop| at(stop, wave.pc))
        }
        // RAISE
        _ => {
            let di = region.code.get(index)?;
            wave.instructions -= u64::from(di.count);
            wave.pc = region.pc_of(index);
            let kind = region.faults.get(di.imm as usize)?.clone();
            Some(Stop::fault(wave.pc, kind))
        }
    }
}

/// Fills in where a fault happened.
fn at(mut stop: Stop, pc: u64) -> Stop {
    if let Stop::Fault(fault) = &mut stop {
        fault.pc = pc;
    }
    stop
}
