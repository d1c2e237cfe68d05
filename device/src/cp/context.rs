//! Parts that the contexts of AQL and PM4 queues share: scratch memory, indirect buffers, and waves that come back.

use std::ops::Range;
use std::sync::Arc;

use belfry_isa::mem::Access;

use super::MAX_SCRATCH_SLOTS;
use super::control_stack::{self, Reader, Waves, put_number};
use super::error::Cause;
use super::indirect::{Execution, MAX_NESTING};
use super::state::QueueState;
use crate::queue::{ContextArea, ContextOffsets};
use crate::save::{Broken, check};
use crate::shader::{
    ContextError, Launch, Owner, SavedDispatch, SavedGroup, ScratchPool, ShaderEngine, ShaderQueue,
    WaveStates,
};
use crate::vm::AddressSpace;

/// Least bytes of a page.
const PAGE: usize = 4096;
/// Most missing pages that the driver is told of at a time.
const TOLD: usize = 64;
/// Most pages that are checked before anything is restored: a guest may declare an area that is larger than any real
/// one. Missing pages after those are found by the restore itself.
const LOOKED_AT: usize = 1 << 14;

/// Context that a queue goes on from: its context save area, and the offsets of the part in use.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Context {
    pub(super) area: Option<ContextArea>,
    pub(super) offsets: ContextOffsets,
}

impl Context {
    /// Returns true if pages of the area are missing that the queue waits for. The driver is told of them. The check
    /// saves a failed restore for each missing page.
    pub(super) fn waits(&self, state: &QueueState) -> bool {
        let ContextOffsets { stack, waves } = self.offsets;
        // Offsets that are not valid are refused when the area is read.
        let Some(area) = self.area.filter(|area| stack <= waves && waves <= area.size) else { return false };
        if state.space().waits().is_none() {
            return false;
        }
        lacks_pages(state, area.base, stack..waves, Access::Read)
    }
}

/// Returns true if pages of a part of an area are missing that the queue waits for. The driver is told of them.
fn lacks_pages(state: &QueueState, base: u64, part: Range<u32>, access: Access) -> bool {
    let (from, end) = (base.wrapping_add(part.start.into()), base.wrapping_add(part.end.into()));
    let pages = (from & !(PAGE as u64 - 1)..end).step_by(PAGE).take(LOOKED_AT);
    let missing = pages.filter(|&page| {
        let what = |fault| Cause::Memory { what: "context save area", fault };
        let found = state.space().translate(page.max(from), access).map_err(what);
        found.is_err_and(|cause| state.tries_again(&cause))
    });
    missing.take(TOLD).count() != 0
}

/// Progress of a queue that goes to its context save area and waits for pages on the way.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Leaving {
    area: ContextArea,
    /// Offset after the waves that are in the area.
    used: u32,
}

impl Leaving {
    /// Begins with nothing in the area.
    pub(super) fn to(area: Option<&ContextArea>) -> Result<Self, ContextError> {
        let area = *area.ok_or(ContextError::NoArea)?;
        Ok(Self { area, used: area.stack_size })
    }

    /// Saves the waves of the queue that are not in the area yet. Returns `None` if pages are missing; the driver has
    /// been told of them.
    pub(super) fn save_waves(
        &mut self,
        shader: &ShaderEngine,
        state: &QueueState,
    ) -> Result<Option<Vec<SavedDispatch>>, ContextError> {
        let ContextArea { base, size, stack_size } = self.area;
        if state.space().waits().is_some() {
            // The check tells the driver of several missing pages at a time.
            let bytes = u32::try_from(shader.context_bytes(&state.shader)).unwrap_or(u32::MAX);
            let end = self.used.saturating_add(bytes).min(size);
            if lacks_pages(state, base, self.used..end, Access::Write) {
                return Ok(None);
            }
        }
        let mut states = WaveStates { base, bounds: (stack_size, size), used: self.used };
        let saved = shader.save_context(&state.shader, &mut states);
        self.used = states.used;
        saved.map(Some)
    }

    /// Writes the control stack, the last part of the context.
    pub(super) fn finish(&self, space: &AddressSpace, words: &[u32]) -> Result<ContextOffsets, ContextError> {
        let stack = control_stack::write(space, (self.area.base, self.area.stack_size), words)?;
        Ok(ContextOffsets { stack, waves: self.used })
    }

    /// Checks that a queue can have got there.
    pub(super) fn check(&self) -> Result<(), Broken> {
        let ContextArea { size, stack_size, .. } = self.area;
        check("waves in a context save area", self.used, (stack_size..=size).contains(&self.used))
    }
}

/// Scratch memory of a dispatch in progress.
#[derive(Clone, Copy)]
pub(super) struct Scratch {
    base: u64,
    wave_bytes: u64,
    slots: u32,
}

impl Scratch {
    pub(super) fn of(launch: &Launch) -> Option<Self> {
        let pool = launch.scratch.as_ref()?;
        Some(Self { base: pool.base(), wave_bytes: pool.wave_bytes(), slots: pool.slots() })
    }

    pub(super) fn put(self, state: &mut Vec<u8>) {
        state.extend(self.base.to_le_bytes());
        put_number(state, self.wave_bytes);
        put_number(state, self.slots.into());
    }

    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, ContextError> {
        let (base, wave_bytes, slots) = (reader.quad()?, reader.number()?, reader.number()?);
        let slots = u32::try_from(slots).map_err(|_| ContextError::Corrupt("scratch memory"))?;
        Ok(Self { base, wave_bytes, slots })
    }

    /// Gives the memory back to the launch that had it. `queue` is the pool of all dispatches of the queue.
    pub(super) fn give_again(
        self,
        launch: &mut Launch,
        queue: &mut Option<Arc<ScratchPool>>,
    ) -> Result<(), ContextError> {
        let Self { base, wave_bytes, slots } = self;
        if u64::from(slots) > MAX_SCRATCH_SLOTS {
            return Err(ContextError::Corrupt("scratch memory"));
        }
        let pool = match queue {
            Some(pool) if pool.is(base, wave_bytes, slots) => Arc::clone(pool),
            // All dispatches in progress use one scratch memory.
            Some(_) => return Err(ContextError::Corrupt("scratch memory")),
            None => Arc::new(ScratchPool::new(base, wave_bytes, slots)),
        };
        launch.set_scratch(Arc::clone(&pool));
        *queue = Some(pool);
        Ok(())
    }
}

/// Writes the positions in the indirect buffers being executed.
pub(super) fn put_buffers(state: &mut Vec<u8>, execution: &Execution) {
    let buffers = execution.buffers();
    put_number(state, buffers.len() as u64);
    for (address, dwords) in buffers {
        state.extend(address.to_le_bytes());
        state.extend(dwords.to_le_bytes());
    }
}

/// Reads the bytes that [`put_buffers`] has written.
pub(super) fn read_buffers(reader: &mut Reader<'_>) -> Result<Execution, ContextError> {
    let count = reader.number()?.min(MAX_NESTING as u64 + 1);
    let buffers = (0..count).map(|_| Ok((reader.quad()?, reader.word()?)));
    let execution = Execution::restored(buffers.collect::<Result<Vec<_>, ContextError>>()?);
    execution.ok_or(ContextError::Corrupt("indirect buffers nested too deeply"))
}

/// Takes out the saved workgroups of the dispatch with this number.
pub(super) fn take_groups(waves: &mut Vec<Waves>, dispatch: u32) -> Vec<SavedGroup> {
    let mine = waves.iter().position(|waves| waves.dispatch == dispatch);
    mine.map_or_else(Vec::new, |mine| waves.remove(mine).groups)
}

/// Puts the dispatches of a queue on the engine again. The waves end at offset `used` of the area. `left` are waves
/// that no dispatch has taken, which is an error.
pub(super) fn restore(
    shader: &ShaderEngine,
    queue: &Arc<ShaderQueue>,
    dispatches: Vec<(SavedDispatch, Arc<dyn Owner>)>,
    left: &[Waves],
    (&ContextArea { base, size, stack_size }, used): (&ContextArea, u32),
) -> Result<(), ContextError> {
    let corrupt = |what| Err(ContextError::Corrupt(what));
    if !left.is_empty() {
        return corrupt("waves of no dispatch");
    }
    let waves_of = |(saved, _): &(SavedDispatch, _)| {
        saved.groups.len() as u64 * u64::from(saved.launch.waves_per_workgroup())
    };
    if dispatches.iter().map(waves_of).sum::<u64>() > shader.capacity() {
        return corrupt("more waves than the GPU holds");
    }
    // No workgroup begins before all have their scratch memory: it would take, and write to, memory of those that are
    // restored later.
    queue.suspend();
    let mut states = WaveStates { base, bounds: (stack_size, size), used };
    let mut dispatches = dispatches.into_iter().rev();
    let restored =
        dispatches.try_for_each(|(saved, owner)| shader.restore_context(queue, saved, owner, &mut states));
    let restored = match restored {
        Ok(()) if states.used != stack_size => corrupt("more state than there are waves of"),
        restored => restored,
    };
    if restored.is_err() {
        shader.take_back(queue);
    }
    shader.resume(queue);
    restored
}
