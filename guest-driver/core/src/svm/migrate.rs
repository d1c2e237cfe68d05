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
    let (migration, in_vram) = {
        let state = process.state.borrow();
        let (Some((_, one)), Some(task)) = (state.svm.ranges.touching(range).next(), state.task) else {
            return false;
        };
        let (range, attributes, trigger) = (range.clone(), one.attributes, MigrateTrigger::Prefetch);
        (Migration { range, attributes, task, trigger }, one.in_vram)
    };
    match migration.attributes.prefetch {
        // Asked only now: the pages of VRAM cost the operating system memory from the first question on.
        location if process.nodes.named(location).is_ok() && process.device.hw.os().has_vram_pages() => {
            to_vram(process, &migration)
        }
        KFD_IOCTL_SVM_LOCATION_SYSMEM if in_vram => to_system(process, &migration),
        _ => false,
    }
}

fn to_vram<O: Os>(process: &Process<O>, migration: &Migration) -> bool {
    let places = (KFD_IOCTL_SVM_LOCATION_SYSMEM, migration.attributes.prefetch);
    // Before the pages are there, so that a lack of VRAM finds them.
    note_vram(process, &migration.range, true);
    for_areas(process, migration, places, |part| {
        let count = ((part.end - part.start) / PAGE_SIZE) as usize;
        let mut frames = process.device.vram.take_frames(count);
        let short = frames.len() < count;
        let moved = move_to_vram(process, part.start, count, &mut frames);
        process.device.vram.give_frames_back(frames.into_iter().map(|frame| (frame, PAGE_SIZE)));
        // The rest of the range finds no VRAM either.
        (moved, short)
    })
}

/// Moves the pages of a piece. One may be held for a moment, by a processor's list of pages for example: what stays is
/// tried again while that helps.
fn move_to_vram<O: Os>(
    process: &Process<O>,
    start: u64,
    count: usize,
    frames: &mut Vec<u64>,
) -> Result<usize> {
    let mut moved = 0;
    loop {
        let more = process.device.hw.os().move_to_vram(process.key(), start, frames)?;
        moved += more;
        if more == 0 || moved >= count || frames.is_empty() {
            return Ok(moved);
        }
    }
}

fn to_system<O: Os>(process: &Process<O>, migration: &Migration) -> bool {
    let places = (u32::from(process.nodes.first().gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    let moved = for_areas(process, migration, places, |part| {
        let count = ((part.end - part.start) / PAGE_SIZE) as usize;
        (process.device.hw.os().move_to_system(process.key(), part.start, count), false)
    });
    note_vram(process, &migration.range, false);
    moved
}

/// Moves a range piece by piece, until all is done or a piece says that it is enough; returns whether anything moved.
fn for_areas<O: Os>(
    process: &Process<O>,
    migration: &Migration,
    (from, to): (u32, u32),
    piece: impl Fn(Range<u64>) -> (Result<usize>, bool),
) -> bool {
    let (mut at, end, mut moved) = (migration.range.start, migration.range.end, 0);
    while at < end {
        let Ok(Some(area)) = process.device.hw.os().user_area(process.key(), at) else { break };
        let area = at..area.end.max(at + PAGE_SIZE).min(end);
        let Migration { attributes, task, trigger, .. } = migration;
        process.device.smi.migrate_start(
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
        process.device.smi.migrate_end(process.pasid, task, &area, (from, to), *trigger);
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
    let places = (u32::from(process.nodes.first().gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    let (locations, trigger) = (one.attributes.locations(), MigrateTrigger::PagefaultCpu);
    process.device.smi.migrate_start(process.pasid, &state.task?, &range, places, locations, trigger);
    Some(range)
}

/// Tells that a range has moved to system memory.
pub(crate) fn touched_end<O: Os>(process: &Process<O>, range: &Range<u64>) {
    let Some(task) = process.state.lock().task else { return };
    let places = (u32::from(process.nodes.first().gpu_id), KFD_IOCTL_SVM_LOCATION_SYSMEM);
    process.device.smi.migrate_end(process.pasid, &task, range, places, MigrateTrigger::PagefaultCpu);
}

/// Notes that pages of ranges are in VRAM, or that none is.
fn note_vram<O: Os>(process: &Process<O>, range: &Range<u64>, in_vram: bool) {
    process.state.lock().svm.ranges.set_in_vram(range, in_vram);
}

/// Moves shared virtual memory out of VRAM, range by range, until `enough` says so (`svm_range_evict_svm_bo_worker`).
fn evict<O: Os>(process: &Process<O>, enough: impl Fn() -> bool) {
    let found: Vec<(Range<u64>, Attributes, Task)> = {
        let state = process.state.lock();
        let Some(task) = state.task.filter(|_| state.phase != Phase::Dead) else { return };
        let in_vram = state.svm.ranges.iter().filter(|(_, one)| one.in_vram);
        in_vram.map(|(start, one)| (start..one.end, one.attributes, task)).collect()
    };
    for (range, attributes, task) in found {
        if enough() {
            return;
        }
        to_system(process, &Migration { range, attributes, task, trigger: MigrateTrigger::TtmEviction });
    }
}

/// Moves programs' pages out of VRAM until `len` bytes are free, as far as that goes. The caller holds no lock.
pub(crate) fn make_room<O: Os>(processes: &Processes<O>, device: &Device<O>, len: u64) {
    let enough = || device.vram.free_bytes() >= len;
    for process in processes.all() {
        if enough() {
            return;
        }
        evict(&process, enough);
    }
}
