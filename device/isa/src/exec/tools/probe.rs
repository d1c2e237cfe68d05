//! Execution that shows each instruction to a probe before it is executed, for checks of a kernel's behaviour.

use super::observe::decode;
use super::touches::{Touch, collect, scalar_read};
use crate::exec::Stop;
use crate::exec::code_cache::Region;
use crate::exec::di::{Flow, Machine, Role};
use crate::exec::properties::{Family, properties};
use crate::exec::waves::dispatch::{end, entry};
use crate::exec::waves::gws::{self, GwsOp};
use crate::inst::Inst;
use crate::wave::Wave;

/// An instruction that is about to be executed.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Its address.
    pub pc: u64,
    /// The instruction.
    pub inst: &'a Inst,
    /// Accesses of memory that waves share.
    pub touches: &'a [Touch],
    /// Address and bytes of a scalar load.
    pub scalar: Option<(u64, u32)>,
    /// The resource of global wave sync that it goes to.
    pub gws: Option<u8>,
}

/// Sees the instructions of a wave before they are executed.
pub trait Probe {
    /// An instruction is next; also called for waits and hints. `lds` is how many bytes the workgroup has.
    fn before(&mut self, wave: &Wave, about: &About<'_>, lds: u32);
}

/// Collects the accesses that the instruction whose first element is at `at` is about to make, if the wave is at it.
pub(crate) fn touches(w: &Wave, m: &Machine<'_>, region: &Region, at: usize, into: &mut Vec<Touch>) {
    let pc = region.pc_of(at);
    let Some(inst) = decode(w, region, pc).filter(|_| pc == w.pc) else { return };
    let offset = region.offsets.get(at);
    for index in (at..).take_while(|index| region.offsets.get(*index) == offset) {
        let Some(di) = region.code.get(index) else { return };
        if matches!(region.roles.get(index), Some(Role::Operation(_) | Role::Pair(..))) {
            collect(w, m, &inst, di, into);
        }
    }
}

/// A run that ends after exactly the instructions it may execute.
pub(crate) struct Prober<'a> {
    probe: &'a mut dyn Probe,
    touches: Vec<Touch>,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(probe: &'a mut dyn Probe) -> Self {
        Self { probe, touches: Vec::new() }
    }

    /// Runs as the loop of `dispatch` does, instruction by instruction.
    pub(crate) fn run(
        &mut self,
        w: &mut Wave,
        m: &mut Machine<'_>,
        region: &Region,
        limit: u64,
    ) -> Option<Stop> {
        let mut at = match entry(w, region) {
            Ok(index) => index,
            Err(stop) => return Some(stop),
        };
        let mut next = w.pc;
        loop {
            let pc = region.pc_of(at);
            self.skipped(w, m, region, &mut next, pc);
            if w.instructions >= limit {
                w.pc = pc;
                return Some(Stop::Budget);
            }
            let inst = decode(w, region, pc);
            next = pc.wrapping_add(inst.map_or(4, |inst| u64::from(inst.size)));
            let (flow, last) = self.elements(w, m, region, at, inst.as_ref());
            match flow {
                Flow::NEXT => at = last,
                flow if flow.is_jump() => {
                    at = flow.index();
                    // Waits that a jump lands on belong to the instruction after them.
                    next = inst.and_then(|inst| inst.branch_target(pc)).unwrap_or_else(|| region.pc_of(at));
                }
                flow => {
                    let stop = end(w, m, region, last - 1, flow);
                    // Waits after it are not executed again when the wave goes on.
                    if matches!(flow, Flow::STOP | Flow::BARRIER) {
                        let pc = w.pc;
                        self.skipped(w, m, region, &mut next, pc);
                    }
                    return stop;
                }
            }
        }
    }

    /// Tells of waits and hints, which have no elements, from `next` up to `pc`.
    fn skipped(&mut self, w: &Wave, m: &Machine<'_>, region: &Region, next: &mut u64, pc: u64) {
        while *next < pc {
            let Some(inst) = decode(w, region, *next) else { break };
            let about = About { pc: *next, inst: &inst, touches: &[], scalar: None, gws: None };
            self.probe.before(w, &about, m.lds.size());
            *next = next.wrapping_add(u64::from(inst.size));
        }
    }

    /// Executes the elements of the instruction whose first is at `at`, as `observe::elements`.
    fn elements(
        &mut self,
        w: &mut Wave,
        m: &mut Machine<'_>,
        region: &Region,
        at: usize,
        inst: Option<&Inst>,
    ) -> (Flow, usize) {
        let probe = &mut *self.probe;
        let touches = &mut self.touches;
        // Each instruction is reported once, at its first operation. An instruction that only goes on with the code
        // in memory has none; it is reported as well.
        let mut is_told = false;
        super::observe::elements(w, m, region, at, &mut |w, m, index| {
            let (Some(inst), Some(di)) = (inst, region.code.get(index)) else { return };
            let is_operation = matches!(region.roles.get(index), Some(Role::Operation(_) | Role::Pair(..)));
            let does_nothing = matches!(properties(inst.op).family, Family::Nothing);
            if !is_told && (is_operation || does_nothing) {
                is_told = true;
                touches.clear();
                collect(w, m, inst, di, touches);
                let gws = GwsOp::of(inst.op).map(|_| gws::resource(w, di));
                let scalar = scalar_read(w, inst, di);
                let about = About { pc: region.pc_of(at), inst, touches, scalar, gws };
                probe.before(w, &about, m.lds.size());
            }
        })
    }
}
