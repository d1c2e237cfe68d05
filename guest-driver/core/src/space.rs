//! Address spaces of the GPU. One belongs to an open file of the render node, and to the process that has acquired it as
//! well (`amdgpu_vm.c`, `amdgpu_amdkfd_gpuvm_acquire_process_vm`).

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::{fmt, ops};

use belfry_abi::kfd::aperture::GPUVM_BASE;

use crate::asic::PageRights;
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::{Backing, LockRank, Os, PAGE_SIZE};
use crate::sync::{Guard, Mutex};
use crate::trap_handler::TrapHandler;
use crate::vm::{HUGE, Vm};

mod backing;
mod mapping;

pub(crate) use backing::map_backing;
use backing::place;
pub(crate) use mapping::Mapping;

/// Bits of an address that page tables translate; the rest repeats the highest one (`AMDGPU_GMC_HOLE_MASK`).
pub(crate) const VA_BITS: u32 = 48;
/// First address that programs may map.
pub(crate) const FIRST_VA: u64 = GPUVM_BASE;
/// Bytes at the end that are the driver's own.
const RESERVED_TOP: u64 = 1 << 31;
/// First address that is the driver's own; it counts without the repeated bit.
pub(crate) const END_VA: u64 = (1 << VA_BITS) - RESERVED_TOP;
/// Bits above those that page tables translate, of an address in the upper half (`AMDGPU_GMC_HOLE_END`).
pub(crate) const UPPER_HALF: u64 = !0 << VA_BITS;
/// Ranges of one address space.
const MAX_RANGES: usize = 1 << 18;

/// Owner of a range.
enum Range {
    /// A buffer object of KFD, which knows it.
    Kfd { len: u64 },
    /// A file of the render node.
    File(Mapping),
}

impl Range {
    fn len(&self) -> u64 {
        match self {
            Self::Kfd { len } => *len,
            Self::File(mapping) => mapping.len,
        }
    }

    /// Returns the buffer object that a file has mapped there.
    fn backing(&self) -> Option<&Arc<dyn Backing>> {
        match self {
            Self::Kfd { .. } => None,
            Self::File(mapping) => mapping.backing.as_ref(),
        }
    }
}

/// Page tables, and what is in them.
pub(crate) struct SpaceState<O: Os> {
    pub(crate) vm: Vm<O>,
    ranges: BTreeMap<u64, Range>,
    /// Shared virtual memory of the process, mapped or not: starts and ends.
    shared: BTreeMap<u64, u64>,
    /// The driver's trap handler, once queues of the address space may need it.
    pub(crate) trap_handler: Option<TrapHandler<O>>,
    /// Ids that the device knows queues of the address space by.
    pasids: Vec<u16>,
    /// The id of the process that has acquired it.
    process: Option<u16>,
    /// Handles of each piece of memory, by where it is known.
    handles: BTreeMap<usize, u32>,
}

/// Number that tells memory from other memory, as long as there is a reference to it.
fn identity(backing: &Arc<dyn Backing>) -> usize {
    Arc::as_ptr(backing).addr()
}

/// An address space.
pub(crate) struct Space<O: Os> {
    device: Arc<Device<O>>,
    state: Mutex<O, SpaceState<O>>,
}

/// Memory that was unmapped: to be dropped without a lock, after the translations are gone.
pub(crate) type Unmapped = Vec<Arc<dyn Backing>>;

impl<O: Os> fmt::Debug for Space<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("Space")
            .field("vm", &state.vm)
            .field("ranges", &format_args!("{}", state.ranges.len()))
            .field("pasids", &format_args!("{:?}", state.pasids))
            .finish_non_exhaustive()
    }
}

impl<O: Os> Space<O> {
    pub(crate) fn new(device: &Arc<Device<O>>) -> Result<Arc<Self>> {
        let state = SpaceState {
            vm: Vm::new(&device.vram)?,
            ranges: BTreeMap::new(),
            shared: BTreeMap::new(),
            trap_handler: None,
            pasids: Vec::new(),
            process: None,
            handles: BTreeMap::new(),
        };
        let state = Mutex::new(device.hw.os(), LockRank::AddressSpace, state)?;
        Ok(Arc::new(Self { device: device.clone(), state }))
    }

    pub(crate) fn lock(&self) -> Guard<'_, O, SpaceState<O>> {
        self.state.lock()
    }

    /// Returns the root of the page tables, as queues are told of it.
    pub(crate) fn root(&self) -> u64 {
        self.state.lock().vm.root()
    }

    /// Queues of this id will run in the address space, and may have to be saved: installs the trap handler.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&self, pasid: u16) -> Result<()> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.pasids.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        if state.trap_handler.is_none() {
            state.trap_handler = Some(TrapHandler::install(&self.device, &mut state.vm)?);
        }
        if !state.pasids.contains(&pasid) {
            state.pasids.push(pasid);
        }
        Ok(())
    }

    /// A process takes the address space.
    ///
    /// # Errors
    ///
    /// `EINVAL` when another one has it, `ENOMEM`.
    pub(crate) fn acquire(&self, pasid: u16) -> Result<()> {
        if self.state.lock().process.is_some() {
            return Err(Errno::EINVAL);
        }
        self.adopt(pasid)?;
        let mut state = self.state.lock();
        if state.process.is_some() {
            return Err(Errno::EINVAL);
        }
        state.process = Some(pasid);
        if let Some(handler) = &state.trap_handler {
            // The last process may have set some.
            handler.clear_programs();
        }
        Ok(())
    }

    /// No queue of this id runs any more, and the device has forgotten its translations.
    pub(crate) fn abandon(&self, pasid: u16) {
        let mut state = self.state.lock();
        state.pasids.retain(|&other| other != pasid);
        if state.process == Some(pasid) {
            state.process = None;
        }
    }

    /// Writes what GEM_VA maps, which replaces all that files have mapped there if `replace`.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is taken, `ENOMEM`, `ETIME` when the device does not answer. What was unmapped is given
    /// back in every case.
    pub(crate) fn map(&self, va: u64, mapping: Mapping, replace: bool) -> (Result<()>, Unmapped) {
        let mut unmapped = Vec::new();
        let mut state = self.state.lock();
        if replace && let Err(error) = self.clear_in(&mut state, va, mapping.len, &mut unmapped) {
            return (Err(error), unmapped);
        }
        if state.overlaps(va, mapping.len) {
            return (Err(Errno::EINVAL), unmapped);
        }
        if state.ranges.len() >= MAX_RANGES {
            return (Err(Errno::ENOMEM), unmapped);
        }
        let result = mapping.write(va, &mut state.vm);
        if result.is_err() {
            state.vm.unmap(va, mapping.len);
        } else {
            state.ranges.insert(va, Range::File(mapping));
        }
        let flushed = self.flush(&mut state);
        (result.and(flushed), unmapped)
    }

    /// Unmaps what GEM_VA has mapped of this buffer object, or of none, at just this address.
    ///
    /// # Errors
    ///
    /// `ENOENT` when there is no such mapping, `ETIME` when the device does not answer: the mapping stays then.
    pub(crate) fn unmap(&self, va: u64, backing: Option<&Arc<dyn Backing>>) -> Result<Unmapped> {
        // Declared before the guard: what is given back is given back without the lock.
        let mut unmapped = Vec::new();
        let mut state = self.state.lock();
        let len = match state.ranges.get(&va) {
            Some(Range::File(mapping)) if mapping.backing.as_ref().map(identity) == backing.map(identity) => {
                mapping.len
            }
            _ => return Err(Errno::ENOENT),
        };
        self.clear_in(&mut state, va, len, &mut unmapped)?;
        Ok(unmapped)
    }

    /// Unmaps what files have mapped in a range.
    ///
    /// # Errors
    ///
    /// `EINVAL` when memory of KFD is there, `ENOMEM`, `ETIME` when the device does not answer: mappings stay then.
    pub(crate) fn clear(&self, va: u64, len: u64) -> Result<Unmapped> {
        let mut unmapped = Vec::new();
        self.clear_in(&mut self.state.lock(), va, len, &mut unmapped)?;
        Ok(unmapped)
    }

    /// Unmaps all that files have mapped.
    ///
    /// # Errors
    ///
    /// `ETIME` when the device does not answer: mappings stay then.
    pub(crate) fn clear_files(&self) -> Result<Unmapped> {
        let mut unmapped = Vec::new();
        let mut state = self.state.lock();
        let state = &mut *state;
        for (&va, range) in &state.ranges {
            if let Range::File(mapping) = range {
                state.vm.unmap(va, mapping.len);
            }
        }
        self.flush(state)?;
        let ranges = core::mem::take(&mut state.ranges);
        for (va, range) in ranges {
            match range {
                Range::Kfd { .. } => {
                    state.ranges.insert(va, range);
                }
                Range::File(mapping) => unmapped.extend(mapping.backing),
            }
        }
        Ok(unmapped)
    }

    /// Unmaps every mapping of a buffer object whose handle is given back.
    pub(crate) fn forget(&self, backing: &Arc<dyn Backing>) -> Result<Unmapped> {
        self.forget_those(|own| identity(own) == identity(backing))
    }

    /// Returns whether files have mapped any of such buffer objects.
    pub(crate) fn maps(&self, is_one: impl Fn(&Arc<dyn Backing>) -> bool) -> bool {
        self.state.lock().ranges.values().filter_map(Range::backing).any(is_one)
    }

    /// Unmaps every mapping of such buffer objects.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, `ETIME` when the device does not answer: mappings stay then.
    pub(crate) fn forget_those(&self, is_one: impl Fn(&Arc<dyn Backing>) -> bool) -> Result<Unmapped> {
        let mut unmapped = Vec::new();
        let mut state = self.state.lock();
        let of_it = |range: &Range| range.backing().is_some_and(&is_one);
        let mapped = state.ranges.iter().filter(|(_, range)| of_it(range));
        let places: Vec<(u64, u64)> = mapped.map(|(&va, range)| (va, range.len())).collect();
        for (va, len) in places {
            self.clear_in(&mut state, va, len, &mut unmapped)?;
        }
        Ok(unmapped)
    }

    /// Writes the page tables of every mapping of a buffer object anew, whose pages are others now.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, when a part may not be mapped; `ETIME` when the device does not answer.
    pub(crate) fn refresh(&self, backing: &Arc<dyn Backing>) -> Result<()> {
        let mut state = self.state.lock();
        let SpaceState { vm, ranges, .. } = &mut *state;
        let mut result = Ok(());
        for (&va, range) in &*ranges {
            if let Range::File(mapping) = range
                && mapping.is_of(backing)
            {
                vm.unmap(va, mapping.len);
                result = result.and(mapping.write(va, vm));
            }
        }
        self.flush(&mut state)?;
        result
    }

    /// Takes a range for a buffer object of KFD; the caller maps it.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a range that is taken.
    pub(crate) fn claim(state: &mut SpaceState<O>, va: u64, len: u64) -> Result<()> {
        if state.overlaps(va, len) || TrapHandler::<O>::overlaps(va, len) {
            return Err(Errno::EINVAL);
        }
        state.ranges.insert(va, Range::Kfd { len });
        Ok(())
    }

    /// Gives a range of KFD back, which the caller has unmapped.
    pub(crate) fn release(state: &mut SpaceState<O>, va: u64) {
        if matches!(state.ranges.get(&va), Some(Range::Kfd { .. })) {
            state.ranges.remove(&va);
        }
    }

    /// Has the device forget its translations, and gives the tables back that became free.
    ///
    /// # Errors
    ///
    /// `ETIME` when it does not answer.
    pub(crate) fn flush(&self, state: &mut SpaceState<O>) -> Result<()> {
        for &pasid in &state.pasids {
            self.device.flush_pasid(pasid)?;
        }
        state.vm.flushed();
        Ok(())
    }

    fn clear_in(&self, state: &mut SpaceState<O>, va: u64, len: u64, unmapped: &mut Unmapped) -> Result<()> {
        let end = va + len;
        let touched = state.touched(va, len);
        if touched.iter().any(|start| matches!(state.ranges.get(start), Some(Range::Kfd { .. }))) {
            return Err(Errno::EINVAL);
        }
        unmapped.try_reserve(touched.len()).map_err(|_| Errno::ENOMEM)?;
        // What stays is never unmapped, not even for a moment: it may be in use.
        for boundary in [va, end] {
            state.split(boundary)?;
        }
        // Page tables first: what stays in the list is what the device may still use.
        for start in &touched {
            let Some(range) = state.ranges.get(start) else { continue };
            let (from, to) = ((*start).max(va), (start + range.len()).min(end));
            state.vm.unmap(from, to - from);
        }
        self.flush(state)?;
        for start in touched {
            let Some(Range::File(mapping)) = state.ranges.remove(&start) else { continue };
            let mapped_end = start + mapping.len;
            if start < va {
                state.ranges.insert(start, Range::File(mapping.part(0, va - start)));
            }
            if mapped_end > end {
                state.ranges.insert(end, Range::File(mapping.part(end - start, mapped_end - end)));
            }
            unmapped.extend(mapping.backing);
        }
        Ok(())
    }
}

impl<O: Os> SpaceState<O> {
    /// Starts of the ranges that touch this one.
    fn touched(&self, va: u64, len: u64) -> Vec<u64> {
        let before = self.ranges.range(..va).next_back().filter(|(start, range)| *start + range.len() > va);
        before.into_iter().chain(self.ranges.range(va..va + len)).map(|(&start, _)| start).collect()
    }

    /// Has pages around an address stand for themselves, huge ones and those of fragments, in whose middle it may be.
    fn split(&mut self, at: u64) -> Result<()> {
        if at.is_multiple_of(HUGE) {
            return Ok(());
        }
        let huge = at & !(HUGE - 1);
        let Some((&start, Range::File(mapping))) = self.ranges.range(..=at).next_back() else {
            return Ok(());
        };
        let (first, end) = (start.max(huge), (start + mapping.len).min(huge + HUGE));
        if first == at || end <= at {
            return Ok(());
        }
        let vm = &mut self.vm;
        let Some(backing) = mapping.backing.as_deref() else {
            let flags = vm.not_resident_bits();
            if end - first == HUGE {
                vm.split(huge, 0, flags)?;
            }
            return vm.map_small(first, first % HUGE, end - first, flags);
        };
        if end - first == HUGE
            && let Some((system, pa)) = place(vm, backing, (mapping.offset + (huge - start)) / PAGE_SIZE)?
        {
            let flags = vm.page_bits(PageRights { system, ..mapping.rights });
            vm.split(huge, pa, flags)?;
        }
        let bytes = mapping.offset + (first - start)..mapping.offset + (end - start);
        backing::map_small(vm, first, backing, bytes, mapping.rights)
    }

    fn overlaps(&self, va: u64, len: u64) -> bool {
        let shared = self.shared.range(..va + len).next_back().is_some_and(|(_, &end)| end > va);
        shared || self.has_objects(va, len)
    }

    /// Returns whether buffer objects are mapped in a range, of KFD or of a file.
    pub(crate) fn has_objects(&self, va: u64, len: u64) -> bool {
        self.ranges.range(..va + len).next_back().is_some_and(|(start, range)| start + range.len() > va)
    }

    /// Keeps a range for shared virtual memory, parts of which may be that already.
    ///
    /// # Errors
    ///
    /// `EADDRINUSE` when buffer objects are there (`svm_range_check_vm`).
    pub(crate) fn share(&mut self, range: &ops::Range<u64>) -> Result<()> {
        if self.has_objects(range.start, range.end - range.start) {
            return Err(Errno::EADDRINUSE);
        }
        self.release_shared(range);
        self.shared.insert(range.start, range.end);
        Ok(())
    }

    /// Gives back what of a range was shared virtual memory, which the caller has unmapped.
    pub(crate) fn release_shared(&mut self, range: &ops::Range<u64>) {
        let touched: Vec<(u64, u64)> = self
            .shared
            .range(..range.end)
            .rev()
            .take_while(|(_, end)| **end > range.start)
            .map(|(&a, &b)| (a, b))
            .collect();
        for (start, end) in touched {
            self.shared.remove(&start);
            if start < range.start {
                self.shared.insert(start, range.start);
            }
            if end > range.end {
                self.shared.insert(range.end, end);
            }
        }
    }

    /// Counts a handle.
    pub(crate) fn open_handle(&mut self, backing: &Arc<dyn Backing>) {
        *self.handles.entry(identity(backing)).or_default() += 1;
    }

    /// Counts a handle that is given back; returns whether it was the last one.
    pub(crate) fn close_handle(&mut self, backing: &Arc<dyn Backing>) -> bool {
        let left = self.handles.get_mut(&identity(backing)).map_or(0, |count| {
            *count -= 1;
            *count
        });
        if left == 0 {
            self.handles.remove(&identity(backing));
        }
        left == 0
    }
}
