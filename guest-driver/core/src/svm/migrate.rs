//! Shared virtual memory that moves between system memory and VRAM (`kfd_migrate.c`, `svm_range_trigger_migration`).
//!
//! A prefetch moves a range, and the lack of VRAM moves ranges back. The operating system moves the pages, as it alone can keep
//! the program from changing them meanwhile, and tells of the change: the queues stop, and go on when the pages are mapped
//! where they are now. What does not move stays where it is, and the GPU reaches it there.

use alloc::vec::Vec;
use core::ops::Range;

use belfry_abi::kfd::smi::MigrateTrigger;
use belfry_abi::kfd::svm::KFD_IOCTL_SVM_LOCATION_SYSMEM;

use crate::device::Device;
use crate::errno::Result;
use crate::os::{Os, PAGE_SIZE, Task};
use crate::process::{Phase, Process};
use crate::process_device::ProcessNode;
use crate::processes::Processes;
use crate::ranges::Attributes;

/// Pages that the operating system is asked to move at once: those of a large page.
const CHUNK: u64 = 512 * PAGE_SIZE;

/// A range that is about to move.
struct Migration {
    range: Range<u64>,
    attributes: Attributes,
    task: Task,
    trigger: MigrateTrigger,
}

/// Moves a range to where its prefetch location says; returns whether pages may have moved.
///
/// A page that cannot be moved stays where it is. The program is not told, as with amdkfd.
pub(super) fn prefetch<O: Os>(process: &Process<O>, range: &Range<u64>) -> bool {
    let (migration, xnack, located) = {
        let state = process.state.borrow();
        let (Some((_, one)), Some(task)) = (state.svm.ranges.touching(range).next(), state.task) else {
            return false;
        };
        let (range, attributes, trigger) = (range.clone(), one.attributes, MigrateTrigger::Prefetch);
        (Migration { range, attributes, task, trigger }, state.xnack, process.nodes.named(one.located).ok())
    };
    match process.nodes.named(migration.attributes.prefetch) {
        // Asked only now: the pages of VRAM cost the operating system memory from the first question on.
        Ok(node) if reached_by_all(process, &migration.attributes, xnack, node) => {
            // Of an APU all memory is the system's (`svm_migrate_init`).
            if node.device.hw.asic().integrated || !node.device.hw.os().has_vram_pages() {
                return false;
            }
            // From the VRAM of another device by way of system memory (`svm_migrate_vram_to_vram`).
            let left = located.filter(|located| !located.is_of(&node.device));
            let left = left.is_some_and(|located| to_system(process, &migration, located));
            to_vram(process, &migration, node) || left
        }
        Err(_) if migration.attributes.prefetch != KFD_IOCTL_SVM_LOCATION_SYSMEM => false,
        _ => located.is_some_and(|located| to_system(process, &migration, located)),
    }
}

/// Returns whether all that have access reach the VRAM of a node; otherwise memory stays in the system's, which all reach
/// (`svm_range_best_prefetch_location`).
fn reached_by_all<O: Os>(
    process: &Process<O>,
    attributes: &Attributes,
    xnack: bool,
    node: &ProcessNode<O>,
) -> bool {
    let access = attributes.access;
    let bits = if xnack { access.in_place } else { access.all() };
    process.nodes.among(bits).all(|other| other.is_of(&node.device))
}

fn to_vram<O: Os>(process: &Process<O>, migration: &Migration, node: &ProcessNode<O>) -> bool {
    let (device, places) = (&node.device, (KFD_IOCTL_SVM_LOCATION_SYSMEM, u32::from(node.gpu_id)));
    // Before the pages are there, so that a lack of VRAM finds them.
    note_vram(process, &migration.range, node.gpu_id.into());
    for_areas(process, migration, (node, places), |part| {
        let count = ((part.end - part.start) / PAGE_SIZE) as usize;
        let mut frames = device.vram.take_frames(count);
        let short = frames.len() < count;
        let moved = move_to_vram((process, node), part.start, count, &mut frames);
        device.vram.give_frames_back(frames.into_iter().map(|frame| (frame, PAGE_SIZE)));
        // The rest of the range finds no VRAM either.
        (moved, short)
    })
}

/// Moves the pages of a piece. One may be held for a moment, by a processor's list of pages for example: what stays is
/// tried again while that helps.
fn move_to_vram<O: Os>(
    (process, node): (&Process<O>, &ProcessNode<O>),
    start: u64,
    count: usize,
    frames: &mut Vec<u64>,
) -> Result<usize> {
    let mut moved = 0;
    loop {
        let more = node.device.hw.os().move_to_vram(process.key(), start, frames)?;
        moved += more;
        if more == 0 || moved >= count || frames.is_empty() {
            return Ok(moved);
        }
    }
}

/// Moves a range to system memory from the VRAM of a node.
fn to_system<O: Os>(process: &Process<O>, migration: &Migration, node: &ProcessNode<O>) -> bool {
    let places = (u32::from(node.gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    let moved = for_areas(process, migration, (node, places), |part| {
        let count = ((part.end - part.start) / PAGE_SIZE) as usize;
        (node.device.hw.os().move_to_system(process.key(), part.start, count), false)
    });
    note_vram(process, &migration.range, 0);
    moved
}

/// Moves a range piece by piece, until all is done or a piece says that it is enough; returns whether anything moved.
fn for_areas<O: Os>(
    process: &Process<O>,
    migration: &Migration,
    (node, (from, to)): (&ProcessNode<O>, (u32, u32)),
    piece: impl Fn(Range<u64>) -> (Result<usize>, bool),
) -> bool {
    let (mut at, end, mut moved) = (migration.range.start, migration.range.end, 0);
    while at < end {
        let Ok(Some(area)) = process.os().user_area(process.key(), at) else { break };
        let area = at..area.end.max(at + PAGE_SIZE).min(end);
        let Migration { attributes, task, trigger, .. } = migration;
        node.device.smi.migrate_start(
            process.pasid,
            task,
            &area,
            (from, to),
            attributes.locations(),
            *trigger,
        );
        let mut enough = false;
        while at < area.end && !enough {
            let part = at..(at / CHUNK * CHUNK).saturating_add(CHUNK).min(area.end);
            at = part.end;
            let (result, stop) = piece(part);
            moved += result.unwrap_or(0);
            enough = stop || result.is_err();
        }
        node.device.smi.migrate_end(process.pasid, task, &area, (from, to), *trigger);
        if enough {
            break;
        }
    }
    moved > 0
}

/// The processor touches a page that is in VRAM: what moves back (`svm_migrate_to_ram`).
///
/// Called with locks of the address space held: nothing here asks for user memory.
pub(crate) fn touched<O: Os>(process: &Process<O>, va: u64) -> Option<Range<u64>> {
    let state = process.state.lock();
    let (start, one) = state.svm.ranges.touching(&(va..va.checked_add(PAGE_SIZE)?)).next()?;
    // More than any address space has is all of the range.
    let size = PAGE_SIZE << one.attributes.granularity.min(40);
    let piece = va & !(size - 1);
    let range = piece.max(start)..piece.saturating_add(size).min(one.end);
    let node = process.nodes.named(one.located).unwrap_or(process.nodes.first());
    let places = (u32::from(node.gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    let (locations, trigger) = (one.attributes.locations(), MigrateTrigger::PagefaultCpu);
    node.device.smi.migrate_start(process.pasid, &state.task?, &range, places, locations, trigger);
    Some(range)
}

/// Tells that a range has moved to system memory.
pub(crate) fn touched_end<O: Os>(process: &Process<O>, range: &Range<u64>) {
    let (task, located) = {
        let state = process.state.lock();
        let Some(task) = state.task else { return };
        (task, state.svm.ranges.touching(range).next().map_or(0, |(_, one)| one.located))
    };
    let node = process.nodes.named(located).unwrap_or(process.nodes.first());
    let places = (u32::from(node.gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    node.device.smi.migrate_end(process.pasid, &task, range, places, MigrateTrigger::PagefaultCpu);
}

/// Notes in which node's VRAM pages of ranges are, or 0 when none is.
fn note_vram<O: Os>(process: &Process<O>, range: &Range<u64>, located: u32) {
    process.state.lock().svm.ranges.set_located(range, located);
}

/// Moves shared virtual memory out of a device's VRAM, range by range, until `enough` says so (`svm_range_evict_svm_bo_worker`).
fn evict<O: Os>(process: &Process<O>, device: &Device<O>, enough: impl Fn() -> bool) {
    let found: Vec<(Range<u64>, Attributes, Task, u32)> = {
        let state = process.state.lock();
        let Some(task) = state.task.filter(|_| state.phase != Phase::Dead) else { return };
        let of_it = |located| process.nodes.named(located).is_ok_and(|node| node.is_of(device));
        let in_vram = state.svm.ranges.iter().filter(|(_, one)| of_it(one.located));
        in_vram.map(|(start, one)| (start..one.end, one.attributes, task, one.located)).collect()
    };
    for (range, attributes, task, located) in found {
        let Some(node) = process.nodes.named(located).ok().filter(|_| !enough()) else { return };
        let trigger = MigrateTrigger::TtmEviction;
        to_system(process, &Migration { range, attributes, task, trigger }, node);
    }
}

/// Moves programs' pages out of VRAM until `len` bytes are free, as far as that goes. The caller holds no lock.
pub(crate) fn make_room<O: Os>(processes: &Processes<O>, device: &Device<O>, len: u64) {
    let enough = || device.vram.free_bytes() >= len;
    for process in processes.all() {
        if enough() {
            return;
        }
        evict(&process, device, enough);
    }
}
