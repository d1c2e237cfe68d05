//! Decoded and lowered code, kept by the address it was fetched from.
//!
//! A region starts where execution entered it and runs on, past branches, to the end of the program; branches inside
//! it are indices. It remembers the bytes it came from: on its first use in each epoch they are compared with memory,
//! so that new code at an old address is noticed.
//!
//! Regions belong to an address space ([`SharedCode`]), which lowers each once. Every worker has a [`CodeCache`] in front
//! of it: the regions it has used, and the epoch in which it compared each with memory. Only a worker that has not got
//! a region, or finds its own out of date, takes a lock.
//!
//! Regions are counted in bytes. If they take more than an address space or the process may have, the regions that
//! were looked for longest ago are dropped. A worker owns only the region that it used last; of the others it knows
//! only the place.

mod budget;
mod compiler;
mod once;

/// Locks and counters that `once` is built on; the model in `tests/models` puts loom's in their place.
mod sync {
    pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
}

use crate::registers::RegisterFile;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

pub(crate) use budget::Charge;
use budget::{Budget, MOST_OF_A_SPACE, excess_of_all};
use compiler::Asked;
use once::Once;

use crate::code_store::KeptCode;
use crate::exec::compiled::{Compiled, Compiler};
use crate::exec::di::{Di, Role};
use crate::exec::form::Form;
use crate::exec::vector::exceptions::WATCHED;
use crate::exec::{CodeTimes, FaultCause};
use crate::inst::Arch;
use crate::lanes::{Backend, BackendKind, Tier};
use crate::mem::{Apertures, Global};

/// Uses of a region after which it is compiled. So many instructions of it count as one more.
const HOT: u32 = 48;
const INSTRUCTIONS_OF_A_USE: u64 = 256;
/// Elements from which on a region is compiled beside the interpreter: some milliseconds.
const LARGE: usize = 2048;
/// Most elements that a region is compiled with: larger ones stay in tier 0.
const MAX_ELEMENTS: usize = 1 << 16;

/// Most code one region takes in.
pub(crate) const MAX_REGION_BYTES: usize = 256 << 10;
/// Regions kept before the oldest ones go.
const MAX_REGIONS: usize = 4096;
const NO_INDEX: u32 = u32::MAX;

/// A stretch of lowered code.
#[derive(Debug)]
pub(crate) struct Region {
    /// Address of the first instruction.
    pub(crate) start: u64,
    /// The code as fetched.
    pub(crate) bytes: Box<[u8]>,
    pub(crate) code: Box<[Di]>,
    /// Operation that each element of `code` executes.
    pub(crate) roles: Box<[Role]>,
    /// Form of each element of `code`, for compiled code.
    pub(crate) forms: Box<[Form]>,
    /// Maker of the region's machine code, if it may get any.
    pub(crate) compiler: Option<&'static dyn Compiler>,
    /// Rule for when the region is compiled.
    pub(crate) tier: Tier,
    /// Host instructions that the region was lowered for, and that its compiled code uses.
    pub(crate) kind: BackendKind,
    /// True if compiled code counts the elements that it executes.
    pub(crate) counts: bool,
    /// Store of machine code, if the process keeps any.
    pub(crate) kept: Option<Arc<KeptCode>>,
    /// Uses of the region so far, counted until it is compiled.
    pub(crate) heat: AtomicU32,
    /// Set once the region has been handed to the thread that compiles.
    pub(crate) compiles: AtomicBool,
    /// Machine code of the region; `None` inside if it is not to have any.
    pub(crate) compiled: OnceLock<Option<Compiled>>,
    /// Dword offset from `start` of each element of `code`.
    pub(crate) offsets: Box<[u32]>,
    /// Faults that reaching certain instructions raises.
    pub(crate) faults: Box<[FaultCause]>,
    /// Index into `code` of each dword, `NO_INDEX` inside instructions.
    pub(crate) index: Box<[u32]>,
    /// Vector registers the code names.
    pub(crate) vgprs: u16,
    /// Dword offset of the instruction that names the highest of them.
    pub(crate) highest_at: u32,
    /// True if the code reads `TRAPSTS`.
    pub(crate) names_trapsts: bool,
    /// True if the region ends because nothing more could be fetched.
    pub(crate) is_cut: bool,
    /// Architecture that it was lowered for.
    pub(crate) arch: Arch,
    pub(crate) key: Key,
    /// Time of the last look-up by any worker, as a value of [`LOOKS`].
    pub(crate) looked_for: AtomicU64,
    /// Bytes that the region takes, if they are counted.
    pub(crate) charge: Option<Charge>,
}

/// Times that any worker has looked for a region.
static LOOKS: AtomicU64 = AtomicU64::new(0);

impl Region {
    /// Returns true if memory still holds the code, and if a region that was cut short could not be longer now.
    fn is_current(&self, global: &mut Global<'_>) -> bool {
        if !global.holds(self.start, &self.bytes) {
            return false;
        }
        let mut next = [0; 4];
        let end = self.start.wrapping_add(self.bytes.len() as u64);
        !self.is_cut || global.fetch(end, &mut next).0 < next.len()
    }

    /// Its machine code, if it has any.
    #[inline(always)]
    pub(crate) fn machine_code(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_ref()
    }

    /// Returns true if compiled code executes this element without its handler.
    pub(crate) fn has_template(&self, index: usize) -> bool {
        let element = self.code.get(index).zip(self.forms.get(index));
        element.zip(self.compiler).is_some_and(|((di, form), compiler)| {
            compiler.has_template(self.kind, *form, di, self.key.halves)
        })
    }

    /// Counts a use of the region by the interpreter, which has executed `instructions` instructions of it.
    #[inline(always)]
    pub(crate) fn was_used(self: &Arc<Self>, instructions: u64) {
        // A counter that every worker writes is only for code that may still be compiled.
        if self.tier != Tier::Auto || self.compiled.get().is_some() {
            return;
        }
        let uses = 1 + u32::try_from(instructions / INSTRUCTIONS_OF_A_USE).unwrap_or(HOT);
        if self.heat.fetch_add(uses, Ordering::Relaxed) >= HOT {
            self.compile_soon();
        }
    }

    /// Compiles the region. If that takes long, another thread does it, while workers go on with the interpreter. If
    /// too many regions wait for that thread, this one has to be used as much again first.
    #[cold]
    #[inline(never)]
    fn compile_soon(self: &Arc<Self>) {
        self.heat.store(0, Ordering::Relaxed);
        if self.code.len() < LARGE {
            return self.compile();
        }
        if self.compiles.swap(true, Ordering::Relaxed) {
            return;
        }
        match compiler::ask(self) {
            Asked::Waits => {}
            Asked::Later => self.compiles.store(false, Ordering::Relaxed),
            Asked::Alone => self.compile(),
        }
    }

    /// Bytes that it takes, without machine code.
    fn bytes(&self) -> usize {
        size_of::<Region>()
            + size_of_val(&*self.bytes)
            + size_of_val(&*self.code)
            + size_of_val(&*self.roles)
            + size_of_val(&*self.forms)
            + size_of_val(&*self.offsets)
            + size_of_val(&*self.faults)
            + size_of_val(&*self.index)
    }

    /// Takes note that a worker has looked for it.
    fn was_looked_for(&self) {
        self.looked_for.store(LOOKS.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Returns true if the region writes registers that the halves of a wave share.
    fn shares_registers(&self) -> bool {
        self.key.second_from != 0 && RegisterFile::of(self.arch).unified.is_none()
    }

    /// Makes its machine code, unless it was decided before whether it gets any.
    #[cold]
    #[inline(never)]
    fn compile(&self) {
        self.compiled.get_or_init(|| {
            let compiles =
                self.tier != Tier::Zero && self.code.len() <= MAX_ELEMENTS && !self.shares_registers();
            let plain = self.key.mode & WATCHED == 0;
            if !compiles || !plain {
                return None;
            }
            let compiled = self.compiler?.compile(self)?;
            if let Some(charge) = &self.charge {
                charge.add(compiled.bytes());
            }
            Some(compiled)
        });
    }

    /// Index of the instruction at `pc`.
    pub(crate) fn index_of(&self, pc: u64) -> Option<usize> {
        let offset = usize::try_from(pc.wrapping_sub(self.start)).ok()?;
        if offset % 4 != 0 {
            return None;
        }
        self.index.get(offset / 4).filter(|&&index| index != NO_INDEX).map(|&index| index as usize)
    }

    /// Address of the instruction element `index` belongs to.
    pub(crate) fn pc_of(&self, index: usize) -> u64 {
        let offset = self
            .offsets
            .get(index)
            .copied()
            .unwrap_or_else(|| u32::try_from(self.bytes.len() / 4).unwrap_or(0));
        self.start.wrapping_add(u64::from(offset) * 4)
    }
}

/// State that lowering depends on besides the bytes of the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) pc: u64,
    pub(crate) halves: u32,
    /// `MODE` bits that change lowering.
    pub(crate) mode: u32,
    /// First vector register of the second kind: one that the halves share, or an accumulation register, whichever
    /// the architecture has. 0 if there are none.
    pub(crate) second_from: u16,
    /// Vector registers of a wave that allocates them while it runs: an instruction that names another one is lowered
    /// to its fault. 0 for waves with a fixed number of registers; for them the highest register of the region is
    /// checked when they enter it.
    pub(crate) allocated: u16,
}

/// The regions of an address space.
type Regions = Once<(Key, Apertures), Region>;

/// The regions of all address spaces of the process.
static SPACES: Mutex<Vec<Weak<Regions>>> = Mutex::new(Vec::new());

/// Forgets regions without an owner, the least recently used first, until the given bytes and number of regions are freed.
fn forget_oldest(spaces: &[Arc<Regions>], (bytes, count): (usize, usize)) {
    let all: Vec<Arc<Region>> = spaces.iter().flat_map(|regions| regions.values()).collect();
    // One is here, and one where it is kept.
    let mut idle: Vec<&Arc<Region>> = all.iter().filter(|region| Arc::strong_count(region) <= 2).collect();
    idle.sort_by_key(|region| region.looked_for.load(Ordering::Relaxed));
    let (mut sum, mut chosen) = (0, HashSet::new());
    for region in idle {
        if sum >= bytes && chosen.len() >= count {
            break;
        }
        sum += region.charge.as_ref().map_or(0, Charge::bytes);
        chosen.insert(Arc::as_ptr(region));
    }
    for regions in spaces {
        regions.forget(|region| chosen.contains(&Arc::as_ptr(region)));
    }
}

/// Lowered code of one address space, for every worker that runs waves in it.
#[derive(Debug)]
pub struct SharedCode {
    arch: Arch,
    backend: Backend,
    kept: Option<Arc<KeptCode>>,
    regions: Arc<Regions>,
    budget: Arc<Budget>,
    /// Held by the worker that drops regions of this address space.
    making_room: Mutex<()>,
}

impl SharedCode {
    /// No code yet; it is of `arch`, executed by `backend`.
    pub fn new(arch: Arch, backend: Backend) -> Self {
        Self::within(arch, backend, MOST_OF_A_SPACE)
    }

    /// No code yet, as in [`SharedCode::new`]; at most `most` bytes of code are kept.
    fn within(arch: Arch, backend: Backend, most: usize) -> Self {
        let regions = Arc::new(Once::new(MAX_REGIONS));
        // In a child that was forked a thread may hold it that is not there: that child counts by address spaces alone.
        for _ in 0..1000 {
            if let Ok(mut spaces) = SPACES.try_lock() {
                spaces.retain(|space| space.strong_count() > 0);
                spaces.push(Arc::downgrade(&regions));
                break;
            }
            std::thread::yield_now();
        }
        SharedCode {
            arch,
            backend,
            kept: None,
            regions,
            budget: Budget::new(most),
            making_room: Mutex::new(()),
        }
    }

    /// Drops old regions if there are too many.
    fn make_room(&self) {
        let count = || match self.regions.len() {
            count if count >= MAX_REGIONS => count / 4,
            _ => 0,
        };
        if self.budget.excess() > 0 || count() > 0 {
            // Workers wait for each other here: the address space would outgrow its limit while one of them is delayed.
            let _making_room = self.making_room.lock().unwrap_or_else(PoisonError::into_inner);
            forget_oldest(core::slice::from_ref(&self.regions), (self.budget.excess(), count()));
        }
        if excess_of_all() > 0 {
            let Ok(spaces) = SPACES.try_lock() else { return };
            let spaces: Vec<_> = spaces.iter().filter_map(Weak::upgrade).collect();
            forget_oldest(&spaces, (excess_of_all(), 0));
        }
    }

    /// Keeps machine code in `kept`, if that is given, and looks for it there before it is made.
    #[must_use]
    pub fn kept_in(self, kept: Option<Arc<KeptCode>>) -> Self {
        SharedCode { kept, ..self }
    }

    /// Adds what its machine code has done since the last call, of a [backend that counts](Backend::counting).
    pub fn take_times(&self, times: &mut CodeTimes) {
        for region in self.regions.values() {
            if let Some(compiled) = region.machine_code() {
                compiled.take_times(times, (&region.code, &region.roles, &region.forms));
            }
        }
    }
}

/// Number of regions that a worker has got, by the way it got them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegionCounts {
    /// Decoded and lowered by this worker.
    pub lowered: u64,
    /// Lowered before, by any worker of the address space.
    pub shared: u64,
}

/// A worker's view of the code of its address space.
#[derive(Debug)]
pub struct CodeCache {
    code: Arc<SharedCode>,
    apertures: Apertures,
    context: u64,
    /// Regions with the epoch this worker last compared them with memory in; some are gone meanwhile.
    regions: HashMap<Key, (Weak<Region>, u64)>,
    /// The region used last and the epoch it is valid for: most waves of a dispatch need it.
    last: Option<(Arc<Region>, u64)>,
    counts: RegionCounts,
}

impl CodeCache {
    /// An empty cache of code that is not shared.
    pub fn new(arch: Arch, backend: Backend) -> Self {
        Self::sharing(Arc::new(SharedCode::new(arch, backend)))
    }

    /// An empty cache in front of the code of an address space.
    pub fn sharing(code: Arc<SharedCode>) -> Self {
        CodeCache {
            code,
            apertures: Apertures::default(),
            context: 0,
            regions: HashMap::new(),
            last: None,
            counts: RegionCounts::default(),
        }
    }

    /// Instruction set of the code.
    pub fn arch(&self) -> Arch {
        self.code.arch
    }

    /// The backend it lowers for.
    pub fn backend(&self) -> Backend {
        self.code.backend
    }

    /// Forgets everything, and has the address space forget it too.
    pub fn clear(&mut self) {
        self.code.regions.clear();
        self.regions.clear();
        self.last = None;
    }

    /// Compares everything with memory before it is used again.
    pub(crate) fn distrust(&mut self) {
        self.last = None;
        for (_, checked) in self.regions.values_mut() {
            *checked = checked.wrapping_sub(1);
        }
    }

    /// Returns how the worker got its regions since the last call.
    pub fn take_counts(&mut self) -> RegionCounts {
        core::mem::take(&mut self.counts)
    }

    /// The region with the instruction at `key.pc`, decoded now or valid for `epoch`.
    pub(crate) fn region(
        &mut self,
        key: Key,
        epoch: u64,
        apertures: Apertures,
        global: &mut Global<'_>,
    ) -> &Arc<Region> {
        let context = global.mmu.context();
        // Also for waves that continue in the middle of it.
        let is_last = self.last.as_ref().is_some_and(|(region, checked)| {
            *checked == epoch
                && (Key { pc: key.pc, ..region.key }) == key
                && region.index_of(key.pc).is_some()
        });
        let is_same = apertures == self.apertures && context == self.context;
        // Most dispatches need the region that the one before has run.
        if !is_last
            && is_same
            && let Some((region, checked)) = &mut self.last
            && region.key == key
            && region.is_current(global)
        {
            *checked = epoch;
        } else if !is_last || !is_same {
            let region = self.find(key, epoch, apertures, global);
            return &self.last.insert((region, epoch)).0;
        }
        match &self.last {
            Some((region, _)) => region,
            None => unreachable!("it was there a moment ago"),
        }
    }

    fn find(&mut self, key: Key, epoch: u64, apertures: Apertures, global: &mut Global<'_>) -> Arc<Region> {
        let context = global.mmu.context();
        if apertures != self.apertures || context != self.context {
            if apertures != self.apertures {
                self.regions.clear();
            }
            self.apertures = apertures;
            self.context = context;
            // Another address space may have other code at the same addresses.
            self.distrust();
        }
        if let Some((region, checked)) = self.regions.get_mut(&key)
            && let Some(region) = region.upgrade()
            && (*checked == epoch || region.is_current(global))
        {
            *checked = epoch;
            region.was_looked_for();
            // It may have been compiled.
            if self.code.budget.excess() > 0 {
                self.code.make_room();
            }
            return region;
        }
        if self.regions.len() >= MAX_REGIONS {
            self.regions.clear();
        }
        // What this worker ran until now may go.
        self.last = None;
        let (arch, backend) = (self.code.arch, self.code.backend);
        let (region, is_new) = self.code.regions.obtain(
            (key, apertures),
            global,
            |global, region| region.is_current(global),
            |global| {
                let region = crate::exec::lower::region(arch, backend, key, apertures, global);
                let charge = Some(Charge::new(&self.code.budget, region.bytes()));
                Region { compiler: crate::compiler(), kept: self.code.kept.clone(), charge, ..region }
            },
        );
        region.was_looked_for();
        if backend.tier() == Tier::One {
            region.compile();
        }
        self.code.make_room();
        *(if is_new { &mut self.counts.lowered } else { &mut self.counts.shared }) += 1;
        self.regions.insert(key, (Arc::downgrade(&region), epoch));
        region
    }
}

#[cfg(test)]
mod tests;
