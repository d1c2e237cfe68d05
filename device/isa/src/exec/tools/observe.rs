//! Execution one instruction at a time, for traces and for interleavings chosen by the caller.

#![expect(unsafe_code, reason = "handlers are compiled for instructions the host was found to have")]

use crate::registers::RegisterFile;
use core::fmt;

use crate::decode::decode_for;
use crate::disasm::Disassembly;
use crate::exec::Stop;
use crate::exec::code_cache::Region;
use crate::exec::di::{Flow, Machine};
use crate::exec::waves::dispatch::{end, entry};
use crate::exec::waves::resume;
use crate::inst::{Arch, Inst, WaveSize};
use crate::registers::slot;
use crate::wave::{Chunk, Row, Wave};

/// A register that an instruction has changed, and its new value.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A scalar register by its number in the architecture.
    Scalar(u8, u32),
    /// SCC.
    Scc(bool),
    /// A vector register: its lanes, 32 or 64.
    Vector(u8, &'a [u32]),
}

/// One executed instruction.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Its address.
    pub pc: u64,
    /// The instruction; `None` where the bytes are none, which the wave's stop explains.
    pub inst: Option<Inst>,
    arch: Arch,
    wave: WaveSize,
    changes: &'a [Change<'a>],
}

impl Step<'_> {
    /// The registers it changed, scalar ones first.
    pub fn changes(&self) -> &[Change<'_>] {
        self.changes
    }

    /// Its text.
    pub fn text(&self) -> String {
        self.inst.map_or_else(String::new, |inst| Disassembly::new(inst, self.arch, self.wave).to_string())
    }
}

/// `address: text ; changes`, vector registers as `v3 = 0x2a` when all lanes are equal, else lane by lane.
impl fmt::Display for Step<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}: {}", self.pc, self.text())?;
        for (index, change) in self.changes.iter().enumerate() {
            f.write_str(if index == 0 { " ; " } else { ", " })?;
            match change {
                Change::Scc(value) => write!(f, "scc = {}", u8::from(*value))?,
                Change::Scalar(register, value) => {
                    write!(f, "{} = {value:#x}", RegisterFile::of(self.arch).name(*register, 1))?;
                }
                Change::Vector(register, lanes) => {
                    write!(f, "v{register} = ")?;
                    match lanes {
                        [first, rest @ ..] if rest.iter().all(|lane| lane == first) => {
                            write!(f, "{first:#x}")?;
                        }
                        lanes => {
                            for (lane, value) in lanes.iter().enumerate() {
                                write!(f, "{}{value:x}", if lane == 0 { "[" } else { " " })?;
                            }
                            f.write_str("]")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sees the instructions of a wave as they are executed.
pub trait Observer {
    /// An instruction is over; also called for waits and hints, which do nothing and do not count.
    fn step(&mut self, step: &Step<'_>);
}

/// Values of a wave's registers before the instruction at hand.
#[derive(Debug)]
struct Before {
    scalars: [u32; 128],
    scc: u32,
    rows: Vec<Row>,
}

impl Before {
    fn of(w: &Wave) -> Before {
        let rows = u32::from(w.registers) * w.halves;
        let mut scalars = [0; 128];
        scalars.copy_from_slice(&w.s[..128]);
        Before { scalars, scc: w.s[slot::SCC], rows: (0..rows).map(|row| *w.v.row(row)).collect() }
    }
}

/// An observer, and the state from which changes are found.
struct Watcher<'a> {
    arch: Arch,
    observer: &'a mut dyn Observer,
    before: Before,
    /// Address of the instruction that comes next, waits and hints included.
    expected: u64,
}

impl Watcher<'_> {
    /// Reports instructions without an element: waits and hints from the expected address up to `pc`.
    fn catch_up(&mut self, w: &Wave, region: &Region, pc: u64) {
        while self.expected < pc {
            let Some(inst) = decode(w, region, self.expected) else { break };
            self.report(w, self.expected, Some(inst), &[]);
            self.expected = self.expected.wrapping_add(u64::from(inst.size));
        }
        self.expected = pc;
    }

    fn report(&mut self, w: &Wave, pc: u64, inst: Option<Inst>, changes: &[Change<'_>]) {
        self.observer.step(&Step { pc, inst, arch: self.arch, wave: size(w), changes });
    }

    /// Reports the instruction at `pc`; the next one is at `next`.
    fn executed(&mut self, w: &Wave, region: &Region, pc: u64, next: u64) {
        let inst = decode(w, region, pc);
        let mut changes = Vec::new();
        for number in 0..128 {
            let Some(slot) = w.file.slot(number) else { continue };
            let (old, new) = (&mut self.before.scalars[slot & 127], w.s[slot & 127]);
            if *old != new {
                *old = new;
                changes.push(Change::Scalar(number, new));
            }
        }
        let scc = w.s[slot::SCC];
        if self.before.scc != scc {
            self.before.scc = scc;
            changes.push(Change::Scc(scc != 0));
        }
        let mut changed = Vec::new();
        for (row, old) in (0u32..).zip(&mut self.before.rows) {
            let new = w.v.row(row);
            if !same(old, new) {
                *old = *new;
                changed.push(row / w.halves);
            }
        }
        changed.dedup();
        let values: Vec<(u8, Vec<u32>)> = changed
            .into_iter()
            .map(|register| {
                let register = register as u8;
                (register, (0..w.lanes()).map(|lane| w.vgpr(register, lane)).collect())
            })
            .collect();
        changes.extend(values.iter().map(|(register, lanes)| Change::Vector(*register, lanes)));
        self.observer.step(&Step { pc, inst, arch: self.arch, wave: size(w), changes: &changes });
        self.expected = next;
    }
}

fn size(w: &Wave) -> WaveSize {
    if w.halves == 1 { WaveSize::Wave32 } else { WaveSize::Wave64 }
}

/// The instruction at an address of a region, if there is one.
pub(crate) fn decode(w: &Wave, region: &Region, pc: u64) -> Option<Inst> {
    let offset = usize::try_from(pc.wrapping_sub(region.start)).ok()?;
    decode_for(region.arch, size(w), region.bytes.get(offset..)?).ok()
}

fn same(a: &Row, b: &Row) -> bool {
    let words = |row: &Row| row.map(|Chunk(words)| words);
    words(a) == words(b)
}

/// A run that ends after exactly the instructions it may execute, and may be watched.
pub(crate) struct Stepper<'a> {
    watcher: Option<Watcher<'a>>,
}

impl<'a> Stepper<'a> {
    pub(crate) fn new(w: &Wave, arch: Arch, observer: Option<&'a mut dyn Observer>) -> Self {
        let watcher =
            observer.map(|observer| Watcher { arch, observer, before: Before::of(w), expected: w.pc });
        Stepper { watcher }
    }

    /// Runs as the loop of `dispatch` does, instruction by instruction.
    pub(crate) fn run(
        &mut self,
        w: &mut Wave,
        machine: &mut Machine<'_>,
        region: &Region,
        limit: u64,
    ) -> Option<Stop> {
        let mut at = match entry(w, region) {
            Ok(index) => index,
            Err(stop) => return Some(stop),
        };
        if let Some(watcher) = &mut self.watcher {
            watcher.expected = w.pc;
        }
        loop {
            let pc = region.pc_of(at);
            if w.instructions >= limit {
                if let Some(watcher) = &mut self.watcher {
                    watcher.catch_up(w, region, pc);
                }
                w.pc = pc;
                return Some(Stop::Budget);
            }
            let (flow, last) = one(w, machine, region, at);
            // Behind the last instruction comes an element that leaves the region, which is no instruction.
            let is_instruction = pc.wrapping_sub(region.start) < region.bytes.len() as u64;
            if let Some(watcher) = &mut self.watcher
                && flow != Flow::RAISE
            {
                watcher.catch_up(w, region, pc);
                if is_instruction && flow != Flow::FAULT {
                    let next = match decode(w, region, pc) {
                        Some(inst) if flow.is_jump() => inst.branch_target(pc),
                        Some(inst) => Some(pc.wrapping_add(u64::from(inst.size))),
                        None => None,
                    };
                    watcher.executed(w, region, pc, next.unwrap_or_else(|| region.pc_of(last)));
                }
            }
            match flow {
                Flow::NEXT => at = last,
                flow if flow.is_jump() => at = flow.index(),
                flow => return end(w, machine, region, last - 1, flow),
            }
        }
    }

    /// Executes the instruction that the wave is at, which may be a wait or a hint; [`Stop::Budget`] if it just goes on.
    pub(crate) fn step(&mut self, w: &mut Wave, machine: &mut Machine<'_>, region: &Region) -> Stop {
        let at = match entry(w, region) {
            Ok(index) => index,
            Err(stop) => return stop,
        };
        let pc = w.pc;
        let inst = decode(w, region, pc);
        let next = pc.wrapping_add(inst.map_or(4, |inst| u64::from(inst.size)));
        if region.pc_of(at) != pc {
            w.pc = next;
            if let Some(watcher) = &mut self.watcher {
                watcher.report(w, pc, inst, &[]);
            }
            return Stop::Budget;
        }
        let (flow, last) = one(w, machine, region, at);
        let target = inst.and_then(|inst| inst.branch_target(pc)).filter(|_| flow.is_jump());
        if let Some(watcher) = &mut self.watcher
            && flow != Flow::RAISE
            && flow != Flow::FAULT
        {
            watcher.executed(w, region, pc, target.unwrap_or(next));
        }
        match flow {
            Flow::NEXT => w.pc = next,
            flow if flow.is_jump() => w.pc = target.unwrap_or_else(|| region.pc_of(flow.index())),
            flow => {
                let stop = end(w, machine, region, last - 1, flow);
                if matches!(flow, Flow::STOP | Flow::BARRIER | Flow::END_PROGRAM) {
                    w.pc = next;
                }
                return stop.unwrap_or(Stop::Budget);
            }
        }
        Stop::Budget
    }
}

/// Executes the elements of the instruction whose first is at `at`. Returns the last flow, and the index after the
/// last element.
pub(crate) fn one(w: &mut Wave, machine: &mut Machine<'_>, region: &Region, at: usize) -> (Flow, usize) {
    let rest = if w.is_partly_done() { resume::begin(w, region, at) } else { None };
    let result = elements(w, machine, region, at, &mut |_, _, _| {});
    if let Some(rest) = &rest {
        resume::end(w, rest, result.0);
    }
    result
}

/// As [`one`], for an instruction that is not partly done; calls `before` for each element.
#[inline(always)]
pub(crate) fn elements(
    w: &mut Wave,
    machine: &mut Machine<'_>,
    region: &Region,
    at: usize,
    before: &mut impl FnMut(&Wave, &Machine<'_>, usize),
) -> (Flow, usize) {
    let offset = region.offsets.get(at).copied();
    let mut index = at;
    while let Some(di) = region.code.get(index)
        && region.offsets.get(index).copied() == offset
    {
        before(w, machine, index);
        w.instructions += u64::from(di.count);
        // SAFETY: the cache lowers for one `Backend`, whose existence proves that this host has its instructions.
        let flow = unsafe { (di.f)(w, machine, di) };
        index += 1;
        if flow != Flow::NEXT {
            return (flow, index);
        }
    }
    (Flow::NEXT, index)
}
