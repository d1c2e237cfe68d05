//! Shared virtual memory: ranges of the program's own memory that the GPU reaches at the same addresses (`kfd_svm.c`).
//!
//! The SVM ioctl sets attributes of ranges. Where they give the GPU access, the pages are mirrored and mapped at once, unless
//! the process has its waves wait for pages (XNACK, `retry.rs`). A prefetch moves them to VRAM or back where the operating system has a way for
//! that (`migrate.rs`); elsewhere it is remembered and moves nothing, as with amdkfd where VRAM was not registered as memory
//! of the processor.
//!
//! When the program's memory changes, its operating system tells the driver ([`Invalidate`]). What is unmapped leaves the GPU
//! and the ranges at once. For any other change, the queues of the process stop, a worker maps the pages anew a
//! millisecond later, and the queues go on. Where the operating system waits for the driver with the change
//! ([`Change::held`]), the GPU has lost the pages when it goes on, even while work runs on it.

mod migrate;
mod restore;
mod retry;

pub(crate) use migrate::{make_room, touched, touched_end};
pub(crate) use restore::{RESTORE_DELAY_US, restore};
pub(crate) use retry::{give_pages, set_xnack_mode};

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use belfry_abi::kfd::svm::{KFD_IOCTL_SVM_OP_GET_ATTR, KFD_IOCTL_SVM_OP_SET_ATTR, SvmArgs, SvmAttribute};
use core::ops::Range;

use crate::asic::PageRights;
use crate::errno::{Errno, Result};
use crate::os::{Change, Invalidate, Os, PAGE_SIZE, UserArea, UserMirror as _, UserPage, check_user_range};
use crate::process::{Phase, Process, State};
use crate::process_device::ProcessNode;
use crate::ranges::{self, MAX_RANGES, Mirrored, Part};
use crate::space::Space;
use crate::trap_handler::TrapHandler;
use crate::vm::Vm;

/// Times that pages which change while they are mirrored are mirrored again.
const TRIES: u32 = 100;

/// Hears of changes to the memory of one mirror.
struct Notifier<O: Os> {
    process: Weak<Process<O>>,
}

impl<O: Os> Invalidate for Notifier<O> {
    fn invalidated(&self, change: &Change) {
        if let Some(process) = self.process.upgrade() {
            restore::changed(&process, change);
        }
    }
}

/// SVM: sets attributes of a range, or answers for it in `list`.
///
/// # Errors
///
/// `EPERM` where the operating system has no such memory, `EINVAL` for a range that is empty or not of whole pages, an
/// unknown operation and what [`ranges::check`] refuses, `EFAULT` where nothing is mapped, `EADDRINUSE` where a
/// buffer object is, `ENOMEM`.
pub(crate) fn change<O: Os>(
    process: &Arc<Process<O>>,
    args: &SvmArgs,
    list: &mut [SvmAttribute],
) -> Result<()> {
    if !process.os().has_svm() {
        return Err(Errno::EPERM);
    }
    let aligned = |value: u64| value != 0 && value.is_multiple_of(PAGE_SIZE);
    if !aligned(args.start_addr) || !aligned(args.size) {
        return Err(Errno::EINVAL);
    }
    match args.op {
        KFD_IOCTL_SVM_OP_SET_ATTR => {
            let mut resolved = list.to_vec();
            ranges::check(&process.nodes, &mut resolved)?;
            set(process, args, &resolved)
        }
        KFD_IOCTL_SVM_OP_GET_ATTR => {
            let range = memory(process, args)?;
            get(process, &range, list)
        }
        _ => Err(Errno::EINVAL),
    }
}

/// The range, which is memory of the program through and through (`svm_range_is_valid`).
fn memory<O: Os>(process: &Process<O>, args: &SvmArgs) -> Result<Range<u64>> {
    let os = process.os();
    check_user_range(os, args.start_addr, args.size)?;
    let range = args.start_addr..args.start_addr + args.size;
    let mut at = range.start;
    while at < range.end {
        at = os.user_area(process.key(), at)?.ok_or(Errno::EFAULT)?.end.max(at + PAGE_SIZE);
    }
    let state = process.state.borrow();
    let taken = |space: &Arc<Space<O>>| space.lock().has_objects(range.start, args.size);
    if state.devices.each().any(|(space, _)| taken(space))
        || TrapHandler::<O>::overlaps(range.start, args.size)
    {
        return Err(Errno::EADDRINUSE);
    }
    Ok(range)
}

fn get<O: Os>(process: &Process<O>, range: &Range<u64>, list: &mut [SvmAttribute]) -> Result<()> {
    ranges::check_question(list)?;
    let common = process.state.borrow().svm.ranges.common(range);
    list.iter_mut().try_for_each(|attribute| common.answer(&process.nodes, attribute))
}

fn set<O: Os>(process: &Arc<Process<O>>, args: &SvmArgs, list: &[SvmAttribute]) -> Result<()> {
    let range = memory(process, args)?;
    let mut tries = 0..TRIES;
    let concerned = loop {
        tries.next().ok_or(Errno::EAGAIN)?;
        // Watched before it is looked at again: what goes from here on goes from the ranges.
        let watch = watch(process, &range)?;
        memory(process, args)?;
        let mut state = process.state.borrow();
        let (concerned, old) = add(process, &mut state, &range, list, watch.as_ref());
        drop(state);
        // Dropped without the lock: they may wait for their notifiers.
        drop((old, watch));
        match concerned {
            Err(Errno::EAGAIN) => {}
            concerned => break concerned?,
        }
    };
    let changes = ranges::change_mapping(list);
    // From here on a failure leaves the rest done, and the last one is told.
    let mut result = Ok(());
    for part in concerned {
        if !migrate::prefetch(process, &part) && !changes || retry::may_wait(process, &part) {
            continue;
        }
        let mapped = map_range(process, &part);
        if mapped.is_err() {
            result = mapped;
        }
    }
    result
}

/// Watches a range, if not all of it is watched.
fn watch<O: Os>(process: &Arc<Process<O>>, range: &Range<u64>) -> Result<Option<Arc<Mirrored<O>>>> {
    if process.state.borrow().svm.ranges.growth(range).bytes == 0 {
        return Ok(None);
    }
    let news = Arc::new(Notifier { process: Arc::downgrade(process) });
    let count = ((range.end - range.start) / PAGE_SIZE) as usize;
    let device = &process.nodes.first().device;
    let mirror = device.hw.os().watch_user(process.key(), range.start, count, news)?;
    Ok(Some(Arc::new(Mirrored { mirror, va: range.start, device: device.number })))
}

/// Makes ranges and sets their attributes; returns those that this concerns, and what the caller drops without the lock.
///
/// # Errors
///
/// `EAGAIN` when memory has changed since it was looked at; `ESRCH`, `ENOMEM`, `EINVAL`, `EADDRINUSE`.
#[expect(clippy::type_complexity, reason = "a list of ranges, and parts as the maps of them give them")]
fn add<O: Os>(
    process: &Process<O>,
    state: &mut State<O>,
    range: &Range<u64>,
    list: &[SvmAttribute],
    watch: Option<&Arc<Mirrored<O>>>,
) -> (Result<Vec<Range<u64>>>, Vec<(u64, Part<O>)>) {
    let mut old = Vec::new();
    let mut add = || {
        if state.phase == Phase::Dead {
            return Err(Errno::ESRCH);
        }
        let growth = state.svm.ranges.growth(range);
        if watch.map_or(growth.bytes > 0, |watch| !watch.mirror.is_current()) {
            return Err(Errno::EAGAIN);
        }
        if growth.ranges.saturating_add(state.svm.ranges.len() as u64) > MAX_RANGES as u64 {
            return Err(Errno::ENOMEM);
        }
        if state.devices.has_no_space() {
            return Err(Errno::EINVAL);
        }
        // The process's state is locked, so that nothing comes to be there in between.
        let taken = |space: &Space<O>| space.lock().has_objects(range.start, range.end - range.start);
        if state.devices.each().any(|(space, _)| taken(space)) {
            return Err(Errno::EADDRINUSE);
        }
        process.system().charge(growth.bytes)?;
        // From here on buffer objects stay out.
        for (space, _) in state.devices.each() {
            if let Err(error) = space.lock().share(range) {
                process.system().uncharge(growth.bytes);
                return Err(error);
            }
        }
        state.svm.charged += growth.bytes;
        if let Some(watch) = watch {
            old = state.svm.watched.take(range);
            let part = Part { end: range.end, mirrored: watch.clone(), stale: false };
            state.svm.watched.insert(range.start, part);
        }
        Ok(state.svm.ranges.set(range, list))
    };
    (add(), old)
}

/// Maps a range on the GPU, if that has access (`svm_range_validate_and_map`).
pub(crate) fn map_range<O: Os>(process: &Arc<Process<O>>, range: &Range<u64>) -> Result<()> {
    if !process.state.borrow().svm.ranges.touching(range).any(|(_, one)| one.attributes.access.any()) {
        return Ok(());
    }
    let mut at = range.start;
    while at < range.end {
        at = map_area(process, &(at..range.end))?.ok_or(Errno::EFAULT)?;
    }
    let mut state = process.state.borrow();
    let whole: Vec<u64> = state
        .svm
        .ranges
        .touching(range)
        .filter(|(start, one)| *start >= range.start && one.end <= range.end)
        .filter(|(_, one)| one.attributes.access.any())
        .map(|(start, _)| start)
        .collect();
    whole.into_iter().for_each(|start| state.svm.ranges.set_mapped(start, true));
    Ok(())
}

/// Mirrors and maps the first area of the program's memory in a range, which may belong to any ranges; returns where
/// that ends, `None` when nothing is mapped there.
///
/// # Errors
///
/// `EFAULT`, `EPERM`, `ENOMEM`, `ESRCH` from mirroring; `EAGAIN` when the memory does not come to rest; `ETIME` when the
/// device does not answer.
fn map_area<O: Os>(process: &Arc<Process<O>>, range: &Range<u64>) -> Result<Option<u64>> {
    for _ in 0..TRIES {
        let device = &looks_up(process, range).device;
        let os = device.hw.os();
        let Some(UserArea { end, writable, .. }) = os.user_area(process.key(), range.start)? else {
            return Ok(None);
        };
        let area = range.start..end.max(range.start + PAGE_SIZE).min(range.end);
        let count = ((area.end - area.start) / PAGE_SIZE) as usize;
        let news = Arc::new(Notifier { process: Arc::downgrade(process) });
        let mirror = match os.mirror_user(process.key(), area.start, count, writable, news) {
            Ok(mirror) => mirror,
            Err(Errno::EAGAIN) => continue,
            Err(error) => return Err(error),
        };
        let mirrored: Arc<Mirrored<O>> = Arc::new(Mirrored { mirror, va: area.start, device: device.number });
        let mut state = process.state.borrow();
        if state.phase == Phase::Dead {
            drop(state);
            return Err(Errno::ESRCH);
        }
        if !mirrored.mirror.is_current() {
            drop(state);
            continue;
        }
        let (old, result) = install(process, &mut state, &area, &mirrored, writable);
        drop(state);
        // Dropped without the lock: a mirror may wait for its notifier.
        drop((old, mirrored));
        return result.map(|()| Some(area.end));
    }
    Err(Errno::EAGAIN)
}

/// The node whose device looks pages of a range up. Where one device alone has access, pages in its VRAM stay there; otherwise a device is
/// taken in whose VRAM they are not, and they come back to system memory.
fn looks_up<'a, O: Os>(process: &'a Process<O>, range: &Range<u64>) -> &'a ProcessNode<O> {
    let (bits, located) = {
        let state = process.state.borrow();
        let ranges = state.svm.ranges.touching(range);
        ranges.fold((0, 0), |(bits, located), (_, one)| {
            (bits | one.attributes.access.all(), located.max(one.located))
        })
    };
    let home = process.nodes.named(located).ok();
    let away = |node: &&ProcessNode<O>| home.is_none_or(|home| !home.is_of(&node.device));
    let mut nodes = process.nodes.among(bits);
    process.nodes.among(bits).find(away).or_else(|| nodes.next()).unwrap_or(process.nodes.first())
}

/// Writes page tables for mirrored pages, in the place of what was there; returns that.
fn install<O: Os>(
    process: &Process<O>,
    state: &mut State<O>,
    area: &Range<u64>,
    mirrored: &Arc<Mirrored<O>>,
    writable: bool,
) -> (Vec<(u64, Part<O>)>, Result<()>) {
    let State { devices, svm, .. } = state;
    if devices.has_no_space() {
        return (Vec::new(), Err(Errno::EINVAL));
    }
    let parts = svm.ranges.touching(area);
    let parts: Vec<_> =
        parts.map(|(start, one)| (start.max(area.start)..one.end.min(area.end), one.attributes)).collect();
    let (mut result, mut flushed) = (Ok(()), Ok(()));
    // Where the first part begins that could not be mapped.
    let mut good = area.end;
    let mut old = svm.mapped.take(area);
    // What was mapped is in ranges, and mapping over it needs no memory for tables: it cannot fail.
    for (space, nodes) in devices.each() {
        let own = process.nodes.among(nodes).all(|node| node.device.number == mirrored.device);
        let mut tables = space.lock();
        for (part, attributes) in &parts {
            let wanted = attributes.access.of_any(nodes) && part.start < good;
            let rights = attributes.rights(writable);
            let written =
                if wanted { map_pages(&mut tables.vm, part, (mirrored, own), rights) } else { Ok(()) };
            if !wanted || written.is_err() {
                tables.vm.unmap(part.start, part.end - part.start);
            }
            if let Err(error) = written {
                (result, good) = (Err(error), part.start);
            }
        }
        flushed = flushed.and(space.flush(&mut tables));
    }
    if result.is_err() {
        // Spaces that had room for it have it no more either.
        for (space, _) in devices.each() {
            let mut tables = space.lock();
            tables.vm.unmap(good, area.end - good);
            flushed = flushed.and(space.flush(&mut tables));
        }
    }
    for (part, attributes) in parts {
        if attributes.access.any() && part.start < good {
            let new = Part { end: part.end, mirrored: mirrored.clone(), stale: false };
            svm.mapped.insert(part.start, new);
        }
    }
    if let Err(error) = flushed {
        // The device may still use the old pages: they are left to it.
        core::mem::forget(core::mem::take(&mut old));
        result = Err(error);
    }
    (old, result)
}

/// Maps pages one by one, joining those that follow each other in the same memory; there is no huge page, as ranges are cut anywhere. Pages
/// in VRAM that is not the device's own are left out (`svm_range_map_to_gpus`).
fn map_pages<O: Os>(
    vm: &mut Vm<O>,
    part: &Range<u64>,
    (mirrored, own): (&Mirrored<O>, bool),
    rights: PageRights,
) -> Result<()> {
    let (system, vram) = (vm.page_bits(rights), vm.page_bits(PageRights { system: false, ..rights }));
    let mut at = part.start;
    while at < part.end {
        let page = mirrored.page(at);
        let mut end = at + PAGE_SIZE;
        while end < part.end && mirrored.page(end) == page.after(end - at) {
            end += PAGE_SIZE;
        }
        match page {
            UserPage::System(bus) => vm.map_small(at, bus, end - at, system)?,
            UserPage::Vram(offset) if own => vm.map_small(at, vm.own_place(offset), end - at, vram)?,
            UserPage::Vram(_) => vm.unmap(at, end - at),
        }
        at = end;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
