//! One workgroup that is checked: its LDS, its barriers, and the pending loads of its waves.

use std::sync::Arc;

use belfry_abi::gpuvm::PAGE_SHIFT;
use belfry_isa::disasm::Disassembly;
use belfry_isa::exec::{About, Defined, Hazard, Pending, Place, Probe, Touch, Undefined, Use};
use belfry_isa::inst::{Arch, Inst, Op, WaveSize};
use belfry_isa::mem::Access;
use belfry_isa::wave::Wave;

use super::Within;
use super::caches::{Due, Upkeep, stale};
use super::clock::Clocks;
use super::finding::Rule;
use super::grid::{Grid, Known, conflict};
use super::shadow::{Cell, Does, Record, dwords};

/// Bit of a meeting's key for LDS; further bits are the workgroup's.
const IN_LDS: u64 = 1 << 63;
/// Bits of the key of a resource of global wave sync, which is no address.
const IN_GWS: u64 = 1 << 62;

/// A workgroup, see the module.
pub(crate) struct Group {
    pub(super) grid: Arc<Grid>,
    pub(super) arch: Arch,
    size: WaveSize,
    /// Number of its first wave in the dispatch.
    pub(super) first: u32,
    waves: Vec<InGroup>,
    /// Records of each dword, up to the last dword that was accessed.
    lds: Vec<Cell>,
    /// Knowledge of the waves that have come to a barrier.
    at_barriers: Clocks,
    /// Number and address of the barriers at which the last waves met; two are in progress at most.
    barriers: [(u32, u64); 2],
    /// Knowledge of the waves that have come to a barrier at their last invalidations of caches.
    pub(super) fresh_at_barriers: [Clocks; 2],
    /// The allocation that was accessed last.
    pub(super) within: Within,
}

struct InGroup {
    pending: Pending,
    defined: Option<Defined>,
    due: Due,
    /// True if the wave waits at a barrier, and goes on when all waves have come to it.
    joins: bool,
    /// Key of the resource of global wave sync that the wave has come to.
    sees: Option<u64>,
    /// Number of barriers that the wave has come to.
    barriers: u32,
    /// True if the wave has waited for all of its stores, and done nothing since.
    releases: bool,
}

/// Action of an instruction at a barrier.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum AtBarrier {
    Comes,
    Waits,
    Both,
}

impl AtBarrier {
    fn of(op: Op) -> Option<Self> {
        match op {
            Op::S_BARRIER => Some(Self::Both),
            Op::S_BARRIER_SIGNAL | Op::S_BARRIER_SIGNAL_ISFIRST => Some(Self::Comes),
            Op::S_BARRIER_WAIT => Some(Self::Waits),
            _ => None,
        }
    }
}

/// Watches one wave of a workgroup.
pub(crate) struct WaveProbe<'a> {
    pub(crate) group: &'a mut Group,
    pub(crate) wave: usize,
}

impl Probe for WaveProbe<'_> {
    fn before(&mut self, wave: &Wave, about: &About<'_>, lds: u32) {
        if let Some(look) = &self.group.grid.sight.look {
            each_page(about, look);
        }
        // Trap handlers save and restore registers of others.
        if !wave.is_privileged() {
            self.group.strays(self.wave, about);
            self.group.unwritten(self.wave, about);
            self.group.undefined(self.wave, wave, about);
            self.group.before(self.wave, about, lds);
        }
    }
}

/// Checks each page that an instruction accesses, once for accesses in a row to one page.
fn each_page(about: &About<'_>, look: &dyn Fn(u64)) {
    let mut last = None;
    for touch in about.touches {
        let Place::Global(va) = touch.place else { continue };
        let page = va >> PAGE_SHIFT;
        if last != Some(page) {
            look(va);
            last = Some(page);
        }
    }
}

impl Group {
    /// The workgroup with this identifier and `count` waves; `None` if it cannot be checked.
    pub(crate) fn new(
        grid: &Arc<Grid>,
        (arch, size): (Arch, WaveSize),
        id: [u32; 3],
        count: u32,
    ) -> Option<Box<Self>> {
        let first = grid.enter(id, count)?;
        let defines = grid.sanitizer.checks(Rule::RegisterUninitialized);
        let wave = || InGroup {
            pending: Pending::new(arch, size),
            defined: defines.then(|| Defined::new(arch, size, grid.sight.sgprs)),
            due: Due::default(),
            joins: false,
            sees: None,
            barriers: 0,
            releases: false,
        };
        Some(Box::new(Self {
            grid: Arc::clone(grid),
            arch,
            size,
            first,
            waves: (0..count).map(|_| wave()).collect(),
            lds: Vec::new(),
            at_barriers: Clocks::default(),
            barriers: [(0, 0); 2],
            fresh_at_barriers: Default::default(),
            within: Within::default(),
        }))
    }

    pub(super) fn text(&self, inst: &Inst) -> String {
        text(inst, self.arch, self.size)
    }

    fn before(&mut self, index: usize, about: &About<'_>, lds: u32) {
        let Some(wave) = self.waves.get_mut(index) else { return };
        let hazard = wave.pending.before(about);
        let releases = std::mem::take(&mut wave.releases);
        wave.releases = waits_for_stores(about.inst) || releases && is_wait(about.inst.op);
        let barrier = AtBarrier::of(about.inst.op);
        let gws = about.gws;
        if let Some(upkeep) = Upkeep::of(about.inst) {
            wave.due.add(upkeep);
        }
        let nothing = barrier.is_none() && gws.is_none() && hazard.is_none();
        if nothing && about.touches.is_empty() {
            return;
        }
        let grid = Arc::clone(&self.grid);
        let mut known = grid.lock();
        let number = self.first + index as u32;
        // Waits at a barrier, and invalidations, touch no memory. They are applied here, before the wave's next
        // action that counts.
        let (joins, sees) = (std::mem::take(&mut wave.joins), wave.sees.take());
        let due = std::mem::take(&mut wave.due);
        let Known { waves, room, .. } = &mut *known;
        if joins
            && let Some(own) = waves.get_mut(number as usize)
            && !own.knows.join(&self.at_barriers, room)
        {
            grid.sanitizer.incomplete();
        }
        if joins {
            self.refresh(&mut known, number);
        }
        self.keep_up(&mut known, number, due);
        if sees.is_some_and(|key| !known.see(number, key)) {
            grid.sanitizer.incomplete();
        }
        if let Some(resource) = gws {
            let key = IN_GWS | u64::from(resource);
            if let Some(wave) = self.waves.get_mut(index) {
                wave.sees = Some(key);
            }
            self.meet(&mut known, number, key);
        }
        if let Some(hazard) = hazard {
            self.hazard(&known, number, about, hazard);
        }
        if let Some(barrier) = barrier {
            self.barrier(&mut known, index, about, barrier);
        }
        self.touches(&mut known, number, about, (lds, releases));
    }

    fn undefined(&mut self, index: usize, wave: &Wave, about: &About<'_>) {
        let Some(defined) = self.waves.get_mut(index).and_then(|wave| wave.defined.as_mut()) else { return };
        let Some(undefined) = defined.before(wave, about) else { return };
        let Undefined { used, lane, .. } = undefined;
        let known = self.grid.lock();
        self.grid.found(Rule::RegisterUninitialized, (about.pc, 0), || {
            let name = undefined.register(self.arch);
            let does = match used {
                Use::Address => format!("has {name} in an address"),
                Use::Data => format!("stores {name}"),
                Use::Branch => format!("goes on as {name} says"),
            };
            let number = self.first + index as u32;
            (known.here(number, about.pc, lane, self.text(about.inst), does), None)
        });
    }

    fn hazard(&self, known: &Known, number: u32, about: &About<'_>, hazard: Hazard) {
        if !self.grid.sanitizer.checks(Rule::MissingWait) {
            return;
        }
        self.grid.found(Rule::MissingWait, (about.pc, hazard.load), || {
            let name = hazard.register(self.arch);
            let does = format!("uses {name}, which the load at {:#x} writes", hazard.load);
            (known.here(number, about.pc, None, self.text(about.inst), does), None)
        });
    }

    fn barrier(&mut self, known: &mut Known, index: usize, about: &About<'_>, barrier: AtBarrier) {
        let number = self.first + index as u32;
        let Some(wave) = self.waves.get_mut(index) else { return };
        wave.joins = barrier != AtBarrier::Comes;
        if barrier == AtBarrier::Waits {
            return;
        }
        wave.barriers += 1;
        let count = wave.barriers;
        let Known { waves, room, .. } = &mut *known;
        if let Some(own) = waves.get_mut(number as usize) {
            let joined = self.at_barriers.join(&own.knows, room);
            if !self.at_barriers.learn(number, own.time, room) || !joined {
                self.grid.sanitizer.incomplete();
            }
            let [near, far] = &mut self.fresh_at_barriers;
            if !near.join(&own.fresh[0], room) || !far.join(&own.fresh[1], room) {
                self.grid.sanitizer.incomplete();
            }
            own.time += 1;
        }
        let slot = &mut self.barriers[count as usize % 2];
        if slot.0 != count {
            *slot = (count, about.pc);
        } else if slot.1 != about.pc && self.grid.sanitizer.checks(Rule::BarrierDivergence) {
            let other = slot.1;
            self.grid.found(Rule::BarrierDivergence, (about.pc, other), || {
                let does =
                    format!("comes to its barrier {count} here, another wave came to it at {other:#x}");
                (known.here(number, about.pc, None, self.text(about.inst), does), None)
            });
        }
    }

    /// Compares accesses with earlier ones. Of each rule, an instruction reports only its first break.
    fn touches(&mut self, known: &mut Known, number: u32, about: &About<'_>, (lds, releases): (u32, bool)) {
        let Some(first) = about.touches.first() else { return };
        let at = known.instruction(about.pc, || self.text(about.inst));
        // Compilers release by a store right after a wait for all stores, and other atomics may meet that store.
        let releases = releases && first.access == Access::Write && matches!(first.place, Place::Global(_));
        let updates = first.access == Access::Atomic || releases;
        if updates {
            let sees = !releases && about.inst.dst.is_some() || about.inst.mem.glc;
            self.meet_at(known, number, about.touches, sees);
        }
        let mut told = Told::default();
        let coherent = about.inst.mem.is_coherent();
        for touch in about.touches {
            let Some(time) = known.waves.get(number as usize).map(|wave| wave.time) else { return };
            let does = match touch.access {
                Access::Write if !releases => Does::Writes,
                Access::Write | Access::Atomic => Does::Updates,
                Access::Read | Access::Execute => Does::Reads,
            };
            let through = about.inst.mem.dlc || about.inst.mem.scope >= 2;
            let record = Record { wave: number, time, at, mask: 0, lane: touch.lane, does, through };
            match touch.place {
                Place::Lds(address) if u64::from(address) + u64::from(touch.bytes) > u64::from(lds) => {
                    self.outside(known, number, about, touch, (&mut told, lds));
                }
                Place::Lds(address) => self.in_lds(known, about, (touch, address, lds), record, &mut told),
                Place::Global(va) => self.in_global(known, about, (touch, va), (record, coherent), &mut told),
            }
        }
        if updates && let Some(own) = known.waves.get_mut(number as usize) {
            own.time += 1;
        }
    }

    /// Leaves a wave's knowledge for other waves, and advances its time.
    fn meet(&self, known: &mut Known, number: u32, key: u64) {
        if !known.meet(number, key, false) {
            self.grid.sanitizer.incomplete();
        }
        if let Some(own) = known.waves.get_mut(number as usize) {
            own.time += 1;
        }
    }

    fn meet_at(&self, known: &mut Known, number: u32, touches: &[Touch], sees: bool) {
        let mut last = None;
        for touch in touches {
            let key = match touch.place {
                Place::Global(va) => va,
                Place::Lds(address) => IN_LDS | u64::from(self.first) << 32 | u64::from(address),
            };
            if last != Some(key) && !known.meet(number, key, sees) {
                self.grid.sanitizer.incomplete();
            }
            last = Some(key);
        }
    }

    fn outside(
        &self,
        known: &Known,
        number: u32,
        about: &About<'_>,
        touch: &Touch,
        (told, lds): (&mut Told, u32),
    ) {
        if told.outside || !self.grid.sanitizer.checks(Rule::LdsOutOfBounds) {
            return;
        }
        told.outside = true;
        self.grid.found(Rule::LdsOutOfBounds, (about.pc, 0), || {
            let does = format!("{}; the workgroup has {lds} bytes", doing(touch));
            (known.here(number, about.pc, Some(touch.lane), self.text(about.inst), does), None)
        });
    }

    fn in_lds(
        &mut self,
        known: &mut Known,
        about: &About<'_>,
        (touch, address, lds): (&Touch, u32, u32),
        now: Record,
        told: &mut Told,
    ) {
        let length = lds.div_ceil(4) as usize;
        if self.lds.len() < length {
            self.lds.resize(length, Cell::default());
        }
        let (races, unwritten) = {
            let sanitizer = &self.grid.sanitizer;
            (sanitizer.checks(Rule::LdsRace), sanitizer.checks(Rule::LdsUninitialized))
        };
        let (arch, size) = (self.arch, self.size);
        for (dword, mask) in dwords(address.into(), touch.bytes) {
            let Some(cell) = self.lds.get_mut(dword as usize) else { continue };
            let now = Record { mask, ..now };
            if races
                && !told.race
                && let Some(before) = conflict(&known.waves, cell, &now, false)
            {
                told.race = true;
                let text = text(about.inst, arch, size);
                race(&self.grid, known, (Rule::LdsRace, about.pc), (touch, text), (now, before));
            }
            let reads = now.does == Does::Reads || now.does == Does::Updates && !touch.replaces;
            if unwritten && reads && !told.unwritten && mask & !cell.written() != 0 {
                told.unwritten = true;
                self.grid.found(Rule::LdsUninitialized, (about.pc, 0), || {
                    let text = text(about.inst, arch, size);
                    (known.here(now.wave, about.pc, Some(touch.lane), text, doing(touch)), None)
                });
            }
            cell.add(now);
        }
    }

    fn in_global(
        &self,
        known: &mut Known,
        about: &About<'_>,
        (touch, va): (&Touch, u64),
        (now, coherent): (Record, bool),
        told: &mut Told,
    ) {
        if !self.grid.sanitizer.checks(Rule::GlobalRace) {
            return;
        }
        for (dword, mask) in dwords(va, touch.bytes) {
            let now = Record { mask, ..now };
            let Some(cell) = known.pages.dword(dword) else {
                self.grid.sanitizer.incomplete();
                return;
            };
            // Loads that bypass caches look for stores of other waves. They learn what those know, and do not race.
            if coherent && now.does == Does::Reads {
                let change = cell.last_change(mask).filter(|change| change.wave != now.wave);
                let seen = known.see(now.wave, va);
                if !change.is_none_or(|change| known.learn_from(now.wave, change.wave)) || !seen {
                    self.grid.sanitizer.incomplete();
                }
                continue;
            }
            let before = conflict(&known.waves, cell, &now, true).filter(|_| !told.race);
            let stale = match before {
                None if now.does == Does::Reads => {
                    stale(&known.waves, cell, &now, self.grid.sight.keeps_stores)
                }
                _ => None,
            };
            cell.add(now);
            if let Some((rule, store)) = stale.filter(|_| !told.stale) {
                told.stale = true;
                let text = self.text(about.inst);
                race(&self.grid, known, (rule, about.pc), (touch, text), (now, store));
            }
            if let Some(before) = before {
                told.race = true;
                let text = self.text(about.inst);
                race(&self.grid, known, (Rule::GlobalRace, about.pc), (touch, text), (now, before));
            }
        }
    }
}

/// Rules for which an instruction has reported a break.
#[derive(Default)]
struct Told {
    race: bool,
    unwritten: bool,
    outside: bool,
    stale: bool,
}

fn race(
    grid: &Grid,
    known: &Known,
    (rule, pc): (Rule, u64),
    (touch, text): (&Touch, String),
    (now, before): (Record, Record),
) {
    let place = place(touch);
    let Some(other) = known.other(&before, &place) else { return };
    let pcs = (pc, other.pc);
    grid.found(rule, pcs, || (known.here(now.wave, pc, Some(touch.lane), text, doing(touch)), Some(other)));
}

/// Returns true if an instruction waits for all stores, or writes caches back before such a wait.
fn waits_for_stores(inst: &Inst) -> bool {
    match inst.op {
        Op::S_WAITCNT_VSCNT | Op::S_WAIT_STORECNT => inst.imm & 0x3f == 0,
        Op::S_WAIT_STORECNT_DSCNT => inst.imm >> 8 & 0x3f == 0,
        Op::BUFFER_WBL2 | Op::GLOBAL_WB => true,
        _ => false,
    }
}

/// Returns true if an instruction is a wait or a hint, which compilers put between a wait and its access.
fn is_wait(op: Op) -> bool {
    matches!(
        op,
        Op::S_WAITCNT
            | Op::S_WAITCNT_VMCNT
            | Op::S_WAITCNT_LGKMCNT
            | Op::S_WAITCNT_EXPCNT
            | Op::S_WAITCNT_DEPCTR
            | Op::S_WAIT_LOADCNT
            | Op::S_WAIT_LOADCNT_DSCNT
            | Op::S_WAIT_STORECNT
            | Op::S_WAIT_STORECNT_DSCNT
            | Op::S_WAIT_DSCNT
            | Op::S_WAIT_KMCNT
            | Op::S_WAIT_SAMPLECNT
            | Op::S_WAIT_BVHCNT
            | Op::S_DELAY_ALU
            | Op::S_NOP
    )
}

fn text(inst: &Inst, arch: Arch, size: WaveSize) -> String {
    Disassembly::new(*inst, arch, size).to_string()
}

pub(super) fn place(touch: &Touch) -> String {
    match touch.place {
        Place::Global(va) => format!("{va:#x}"),
        Place::Lds(address) => format!("LDS {address:#x}"),
    }
}

pub(super) fn doing(touch: &Touch) -> String {
    let does = match touch.access {
        Access::Write => "writes",
        Access::Atomic => "updates",
        Access::Read | Access::Execute => "reads",
    };
    let plural = if touch.bytes == 1 { "" } else { "s" };
    format!("{does} {} byte{plural} at {}", touch.bytes, place(touch))
}
