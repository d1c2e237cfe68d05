//! The profiler of kernels: the instructions that their waves execute, their accesses to memory, and their
//! share of a compute unit.
//!
//! Waves of a dispatch that is profiled run instruction by instruction, and each instruction is counted
//! before it is executed. None of this changes the results of a kernel. If off, it costs one `Option` for
//! each dispatch and workgroup.
//!
//! The memory for counts is bounded: kernels, instructions of all kernels together, and the instructions of
//! one workgroup. A report has the numbers beyond these bounds.

mod access;
mod banks;
mod count;
mod figures;
mod links;
mod occupancy;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_isa::exec::Class;
use belfry_lock::{Mutex, MutexGuard, rank};
use serde::{Deserialize, Serialize};

use crate::chip::ShaderRules;

pub use access::{GlobalAccess, LINE, Pattern, Patterns};
pub use banks::{BANKS, LdsAccess};
pub(crate) use count::{Counting, WaveCounts};
pub(crate) use figures::trace_figures;
pub use links::{LinkBytes, LinkCounters};
pub(crate) use links::{Moved, Reach};
pub use occupancy::{Limit, Occupancy, Resources};

/// Most kernels that are kept apart.
pub const MAX_KERNELS: usize = 256;
/// Most instructions of the code of all kernels that are kept apart.
pub const MAX_SITES: usize = 1 << 16;
/// Numbers of lanes that may be on: none to 64.
const LANES: usize = 65;

/// Choice of kernels.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct ProfileOptions {
    /// The kernels, by names as their code objects have them; all if there are none.
    pub kernels: Vec<String>,
}

/// An instruction of the code, with the counts of its executions.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Site {
    /// Its address.
    pub pc: u64,
    /// Bytes.
    pub size: u8,
    /// Its disassembly.
    pub text: String,
    /// Unit that it occupies.
    pub class: Class,
    /// Executions, by waves.
    pub executions: u64,
    /// Lanes that were on, added up; 0 for an instruction that is not executed lane by lane.
    pub lanes: u64,
    /// True if a wave came to it by a jump, or began with it.
    pub entered: bool,
    /// True if it is a branch, or nothing follows it.
    pub ends_block: bool,
    /// Its accesses of global memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global: Option<GlobalAccess>,
    /// Its accesses of LDS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lds: Option<LdsAccess>,
}

/// Profile of one kernel of one process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct KernelProfile {
    /// Its name in its code object; empty if there is none.
    pub name: String,
    /// Address of its first instruction.
    pub entry: u64,
    /// Address of its descriptor, if its code object was found.
    pub descriptor: Option<u64>,
    /// Dispatches.
    pub launches: u64,
    /// Workgroups that have begun.
    pub workgroups: u64,
    /// Waves that have begun.
    pub waves: u64,
    /// Instructions by class, executed by waves.
    pub instructions: BTreeMap<Class, u64>,
    /// Instructions that are executed lane by lane, by the number of lanes that were on: none to 64.
    pub lanes: Vec<u64>,
    /// Bytes that scalar loads, stores and atomics have moved.
    pub scalar_bytes: u64,
    /// Bytes that lanes have moved from and to private memory by its own instructions.
    pub private_bytes: u64,
    /// The instructions of its code that were executed, and of functions that it called, in the order of their addresses.
    pub sites: Vec<Site>,
    /// Executions of instructions that were not kept apart.
    pub left_out: u64,
    /// Resources of a workgroup of the last launch.
    pub resources: Option<Resources>,
    /// Number of these workgroups that fit.
    pub occupancy: Option<Occupancy>,
}

impl KernelProfile {
    /// Instructions of all classes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.instructions.values().sum()
    }
}

/// Profiles of a device's kernels.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct ProfileReport {
    /// Each kernel, those with most instructions first.
    pub kernels: Vec<KernelProfile>,
    /// Dispatches of further kernels, which were not profiled.
    pub kernels_left_out: u64,
    /// Bytes over the links to other devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkBytes>,
}

/// Name of a kernel, address of its descriptor, and its scalar registers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Named {
    pub(crate) name: String,
    pub(crate) descriptor: Option<u64>,
    /// Scalar registers, on chips where waves have as many as they ask for.
    pub(crate) sgprs: Option<u32>,
}

#[derive(Default)]
struct State {
    /// Names by address space and entry.
    names: BTreeMap<(u64, u64), Named>,
    kernels: BTreeMap<(u64, u64), Arc<Kernel>>,
    left_out: u64,
}

/// The profiler of a device's kernels.
pub struct Profiler {
    options: ProfileOptions,
    state: Mutex<State, rank::Profiler>,
    /// Instructions that are kept apart.
    sites: Arc<AtomicUsize>,
    /// Bytes over the links to other devices.
    links: Arc<LinkCounters>,
}

impl fmt::Debug for Profiler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Profiler").field("options", &self.options).finish_non_exhaustive()
    }
}

/// A kernel that is profiled.
pub(crate) struct Kernel {
    counts: Mutex<Counts, rank::ProfiledKernel>,
    sites: Arc<AtomicUsize>,
    links: Arc<LinkCounters>,
}

/// A launch of it.
pub(crate) struct Launched {
    kernel: Arc<Kernel>,
    /// Finds other devices, if there are any.
    reach: Option<Box<Reach>>,
}

impl Launched {
    /// A launch of a kernel, on a device that finds others by `reach`.
    pub(crate) fn new(kernel: Arc<Kernel>, reach: Option<Box<Reach>>) -> Self {
        Self { kernel, reach }
    }
}

#[derive(Default)]
struct Counts {
    /// The counts that are not in the maps.
    plain: KernelProfile,
    classes: [u64; Class::ALL.len()],
    sites: BTreeMap<u64, Site>,
}

impl Profiler {
    /// A profiler that profiles the kernels of the options.
    #[must_use]
    pub fn new(options: ProfileOptions) -> Self {
        Self { options, state: Mutex::default(), sites: Arc::default(), links: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State, rank::Profiler> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes over the links of its device.
    pub(crate) fn links(&self) -> Arc<LinkCounters> {
        Arc::clone(&self.links)
    }

    /// Names the kernel that begins at `entry` of an address space; `name` is called once.
    pub(crate) fn name_kernel(&self, space: u64, entry: u64, name: impl FnOnce() -> Named) {
        if self.lock().names.contains_key(&(space, entry)) {
            return;
        }
        let name = name();
        let mut state = self.lock();
        if state.names.len() == MAX_KERNELS * 4 {
            state.names.pop_first();
        }
        state.names.insert((space, entry), name);
    }

    /// Notes a launch of the kernel that begins at `entry`, and returns it if it is profiled.
    pub(crate) fn launch(
        &self,
        (space, entry): (u64, u64),
        rules: &ShaderRules,
        resources: Resources,
    ) -> Option<Arc<Kernel>> {
        let mut state = self.lock();
        let named = state.names.get(&(space, entry)).cloned().unwrap_or_default();
        if !self.options.kernels.is_empty() && !self.options.kernels.contains(&named.name) {
            return None;
        }
        if state.kernels.len() == MAX_KERNELS && !state.kernels.contains_key(&(space, entry)) {
            state.left_out += 1;
            return None;
        }
        let kernel = state.kernels.entry((space, entry)).or_insert_with(|| {
            let plain = KernelProfile {
                name: named.name,
                entry,
                descriptor: named.descriptor,
                lanes: vec![0; LANES],
                ..KernelProfile::default()
            };
            let counts = Mutex::new(Counts { plain, ..Counts::default() });
            Arc::new(Kernel { counts, sites: Arc::clone(&self.sites), links: Arc::clone(&self.links) })
        });
        let kernel = Arc::clone(kernel);
        drop(state);
        let resources = Resources { sgprs: named.sgprs, ..resources };
        let mut counts = kernel.lock();
        counts.plain.launches += 1;
        counts.plain.resources = Some(resources);
        counts.plain.occupancy = Some(Occupancy::of(rules, &resources));
        drop(counts);
        Some(kernel)
    }

    /// Counts until now.
    #[must_use]
    pub fn report(&self) -> ProfileReport {
        let state = self.lock();
        let (all, kernels_left_out): (Vec<_>, _) =
            (state.kernels.values().cloned().collect(), state.left_out);
        drop(state);
        let mut kernels: Vec<KernelProfile> = all.iter().map(|kernel| kernel.report()).collect();
        kernels.sort_by_key(|kernel| std::cmp::Reverse(kernel.total()));
        ProfileReport { kernels, kernels_left_out, links: self.links.report() }
    }
}

impl Kernel {
    fn lock(&self) -> MutexGuard<'_, Counts, rank::ProfiledKernel> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a workgroup of `waves` waves begins.
    fn begin(&self, waves: u64) {
        let mut counts = self.lock();
        counts.plain.workgroups += 1;
        counts.plain.waves += waves;
    }

    /// Adds the counts of a workgroup.
    fn add(&self, group: &mut Counting) {
        let mut counts = self.lock();
        let Counts { plain, classes, sites } = &mut *counts;
        classes.iter_mut().zip(group.classes).for_each(|(sum, count)| *sum += count);
        plain.lanes.iter_mut().zip(group.lanes).for_each(|(sum, count)| *sum += count);
        plain.left_out += group.left_out;
        plain.scalar_bytes += group.unshared[0];
        plain.private_bytes += group.unshared[1];
        group.take(|pc, site, counted| {
            let known = match sites.entry(pc) {
                std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::btree_map::Entry::Vacant(free) => {
                    if self.sites.fetch_add(1, Ordering::Relaxed) >= MAX_SITES {
                        self.sites.fetch_sub(1, Ordering::Relaxed);
                        plain.left_out += counted.executions;
                        return;
                    }
                    free.insert(site())
                }
            };
            known.executions += counted.executions;
            known.lanes += counted.lanes;
            known.entered |= counted.entered;
            if counted.global.accesses > 0 {
                known.global.get_or_insert_default().add(&counted.global);
            }
            if counted.lds.accesses > 0 {
                known.lds.get_or_insert_default().add(&counted.lds);
            }
        });
    }

    fn report(&self) -> KernelProfile {
        let counts = self.lock();
        let classes = Class::ALL.into_iter().zip(counts.classes);
        KernelProfile {
            instructions: classes.filter(|(_, count)| *count > 0).collect(),
            sites: counts.sites.values().cloned().collect(),
            ..counts.plain.clone()
        }
    }
}
