//! Counting of the instructions that the waves of one workgroup execute.

use std::collections::HashMap;
use std::sync::Arc;

use belfry_isa::disasm::Disassembly;
use belfry_isa::exec::{About, Class, Probe, ends_block, private_bytes, scalar_bytes};
use belfry_isa::inst::{Arch, Inst, WaveSize};
use belfry_isa::wave::Wave;

use super::access::GlobalAccess;
use super::banks::{LdsAccess, Room};
use super::links::Turn;
use super::{LANES, Launched, Site};

/// Most instructions that a workgroup keeps apart.
const MAX_LOCAL: usize = 1 << 14;

/// A workgroup that is profiled; its counts are added to the kernel's at the end of each turn of a wave.
pub(crate) struct Counting {
    launched: Arc<Launched>,
    arch: Arch,
    size: WaveSize,
    /// Address of each wave's next instruction if it does not jump.
    expected: Vec<u64>,
    sites: HashMap<u64, Local>,
    pub(super) classes: [u64; Class::ALL.len()],
    pub(super) lanes: [u64; LANES],
    /// Executions of instructions that were not kept apart, as there were too many.
    pub(super) left_out: u64,
    /// Bytes through the scalar cache, and bytes of private memory by its own instructions.
    pub(super) unshared: [u64; 2],
    lines: Vec<u64>,
    room: Room,
    /// Bytes over links to other devices.
    links: Turn,
}

/// An instruction of the code.
pub(super) struct Local {
    inst: Inst,
    class: Class,
    /// Bytes of one execution through the scalar cache, and bytes of one lane's private memory.
    unshared: [u32; 2],
    pub(super) counts: Counts,
}

/// Counts of an instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) executions: u64,
    pub(super) lanes: u64,
    pub(super) entered: bool,
    pub(super) global: GlobalAccess,
    pub(super) lds: LdsAccess,
}

/// Watches one wave of a workgroup.
pub(crate) struct WaveCounts<'a> {
    pub(crate) group: &'a mut Counting,
    pub(crate) wave: usize,
}

impl Probe for WaveCounts<'_> {
    fn before(&mut self, wave: &Wave, about: &About<'_>, _lds: u32) {
        // Trap handlers do not belong to the kernel.
        if !wave.is_privileged() {
            self.group.before(self.wave, wave, about);
        }
    }
}

impl Counting {
    /// A workgroup of `count` waves, which have just started.
    pub(crate) fn new(launched: &Arc<Launched>, (arch, size): (Arch, WaveSize), count: usize) -> Box<Self> {
        launched.kernel.begin(count as u64);
        Box::new(Self {
            launched: Arc::clone(launched),
            arch,
            size,
            // No instruction has this address: each wave enters the kernel.
            expected: vec![u64::MAX; count],
            sites: HashMap::new(),
            classes: [0; Class::ALL.len()],
            lanes: [0; LANES],
            left_out: 0,
            unshared: [0; 2],
            lines: Vec::new(),
            room: Room::default(),
            links: Turn::default(),
        })
    }

    fn before(&mut self, index: usize, wave: &Wave, about: &About<'_>) {
        let Some(expected) = self.expected.get_mut(index) else { return };
        if let Some(reach) = &self.launched.reach {
            self.links.count(about.touches, reach);
        }
        let entered = std::mem::replace(expected, about.pc.wrapping_add(about.inst.size.into())) != about.pc;
        let full = self.sites.len() == MAX_LOCAL;
        let local = match self.sites.entry(about.pc) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(_) if full => {
                self.left_out += 1;
                self.classes[Class::of(about.inst) as usize] += 1;
                return;
            }
            std::collections::hash_map::Entry::Vacant(free) => free.insert(Local {
                inst: *about.inst,
                class: Class::of(about.inst),
                unshared: [scalar_bytes(about.inst), private_bytes(about.inst)],
                counts: Counts::default(),
            }),
        };
        self.classes[local.class as usize] += 1;
        let counts = &mut local.counts;
        counts.executions += 1;
        counts.entered |= entered;
        let [scalar, private] = local.unshared;
        self.unshared[0] += u64::from(scalar);
        if local.class.has_lanes() {
            let mask = if self.size == WaveSize::Wave32 { u64::from(u32::MAX) } else { u64::MAX };
            let lanes = (wave.exec() & mask).count_ones();
            self.lanes[lanes as usize] += 1;
            counts.lanes += u64::from(lanes);
            self.unshared[1] += u64::from(private) * u64::from(lanes);
        }
        if !about.touches.is_empty() {
            counts.global.count(about.touches, &mut self.lines);
            counts.lds.count(about.touches, &mut self.room);
        }
    }

    /// Adds the counts to the kernel's.
    pub(crate) fn flush(&mut self) {
        let launched = Arc::clone(&self.launched);
        launched.kernel.add(self);
        self.links.end(&launched.kernel.links);
        self.classes = [0; Class::ALL.len()];
        self.lanes = [0; LANES];
        self.left_out = 0;
        self.unshared = [0; 2];
    }

    /// Takes the counts of the instructions that were executed since the last call.
    pub(super) fn take(&mut self, mut tell: impl FnMut(u64, &dyn Fn() -> Site, Counts)) {
        let (arch, size) = (self.arch, self.size);
        for (&pc, local) in self.sites.iter_mut().filter(|(_, local)| local.counts.executions > 0) {
            let counts = std::mem::take(&mut local.counts);
            let site = || Site {
                pc,
                size: local.inst.size,
                text: Disassembly::new(local.inst, arch, size).to_string(),
                class: local.class,
                executions: 0,
                lanes: 0,
                entered: false,
                ends_block: ends_block(&local.inst, pc),
                global: None,
                lds: None,
            };
            tell(pc, &site, counts);
        }
    }
}
