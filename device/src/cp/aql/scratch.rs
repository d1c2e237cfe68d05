//! Scratch memory for the dispatches of an AQL queue.
//!
//! The runtime gives a queue scratch memory when the packet processor asks for it through the queue's inactive signal:
//! it writes `COMPUTE_TMPRING_SIZE` and the address into `amd_queue_t`, and sets the signal back to 0. The register
//! alone gives the number of waves there is room for: ROCr 7.2 leaves `scratch_backing_memory_byte_size` 0 (ROCr
//! `amd_aql_queue.cpp`, `AqlQueue::InitScratchSRD`).
//!
//! A queue whose runtime sets `AMD_QUEUE_CAPS_SW_ASYNC_RECLAIM` has a second memory for small grids, and takes memory
//! back while the queue runs: it forbids the memory to dispatches after the last one that has used it
//! (`AqlQueue::AsyncReclaimMainScratch`).

use std::mem::offset_of;
use std::sync::Arc;

use belfry_abi::aql::{
    AmdQueue, KernelDispatchPacket, QUEUE_CAPS_CP_ASYNC_RECLAIM, QUEUE_CAPS_SW_ASYNC_RECLAIM,
    QUEUE_LAST_USED_CORES, QUEUE_LAST_USED_OFFSET, QUEUE_LAST_USED_STRIDE, inactive,
};
use belfry_isa::inst::WaveSize;

use super::{AqlQueue, Waiting};
use crate::chip::TmpRing;
use crate::cp::MAX_SCRATCH_SLOTS;
use crate::cp::complete;
use crate::cp::dispatch::Prepared;
use crate::cp::error::Cause;
use crate::queue::BlockedOn;
use crate::shader::ScratchPool;

/// Most times that the runtime is asked for scratch memory for one packet.
///
/// ROCr's first answer is enough, unless it takes memory back at that moment.
const MOST_QUESTIONS: u8 = 16;

/// One of the two scratch memories of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
struct Area {
    base: u64,
    tmpring: u32,
    /// Index of the last packet that may use it.
    last: u64,
}

/// The last request for scratch memory, until a dispatch has some.
#[derive(Clone, Copy, Debug, serde::Deserialize, serde::Serialize)]
pub(super) struct Asked {
    packet: u64,
    /// Scratch memories that the queue had at that time.
    had: [Area; 2],
    times: u8,
}

/// Scratch memory that a dispatch has been given.
pub(super) enum Given {
    /// The memory of all dispatches.
    Main,
    /// The memory of small grids.
    Alternate,
    /// Nothing yet.
    Blocked(BlockedOn),
}

impl AqlQueue {
    /// Gives a launch scratch memory; if the queue has too little, asks the runtime for more through the inactive signal.
    pub(super) fn assign_scratch(
        &mut self,
        packet: &KernelDispatchPacket,
        queue: Option<&AmdQueue>,
        prepared: &mut Prepared,
    ) -> Result<Given, Cause> {
        let had = queue.map(|queue| self.areas(queue, packet)).unwrap_or([None; 2]);
        let found = (0..).zip(had).find_map(|(at, area)| Some((at, self.pool_of(area?, prepared)?)));
        let Some((at, (base, wave_bytes, slots))) = found else {
            let signal = queue.map_or(0, |queue| queue.queue_inactive_signal);
            if signal == 0 {
                return Err(Cause::Scratch(packet.private_segment_size));
            }
            self.note_question(had, prepared.scratch_per_wave)?;
            let wave32 = matches!(prepared.launch.wave_size, WaveSize::Wave32);
            let code = inactive::SCRATCH_NEEDED | if wave32 { inactive::SCRATCH_WAVE32 } else { 0 };
            return self.ask(signal, code).map(Given::Blocked);
        };
        let pool = match &self.scratch {
            Some(pool) if pool.is(base, wave_bytes, slots) => Arc::clone(pool),
            // Waves of earlier dispatches may still use the old memory, which the new one may overlap.
            _ if self.has_running_dispatches() => return Ok(Given::Blocked(BlockedOn::Dispatches)),
            _ => Arc::new(ScratchPool::new(base, wave_bytes, slots)),
        };
        self.asked = None;
        self.scratch = Some(Arc::clone(&pool));
        prepared.launch.set_scratch(pool);
        Ok(if at == 0 { Given::Main } else { Given::Alternate })
    }

    /// Stores a code into the inactive signal and waits until the runtime has set it back to 0.
    fn ask(&mut self, signal: u64, code: u64) -> Result<BlockedOn, Cause> {
        let completed = complete::store(self.state.space(), signal, code)
            .map_err(|fault| Cause::Memory { what: "queue inactive signal", fault })?;
        self.state.announce(completed);
        self.waiting = Waiting::Inactive(signal);
        Ok(BlockedOn::Memory)
    }

    /// Returns true if the queue's wait is over.
    pub(super) fn wait_is_over(&mut self) -> Result<bool, Cause> {
        match self.waiting {
            Waiting::Nothing => Ok(true),
            Waiting::Pm4(_) | Waiting::Context(_) | Waiting::Stopped => Ok(false),
            Waiting::Inactive(signal) => Ok(complete::value(self.state.space(), signal)? == 0),
            Waiting::Reclaim if !self.started.is_empty() => Ok(false),
            Waiting::Reclaim => match self.amd_queue()?.map_or(0, |(_, queue)| queue.queue_inactive_signal) {
                0 => Ok(true),
                signal => {
                    self.ask(signal, inactive::SCRATCH_RECLAIM)?;
                    Ok(false)
                }
            },
        }
    }

    /// Returns the memories that a packet may use.
    fn areas(&self, queue: &AmdQueue, packet: &KernelDispatchPacket) -> [Option<Area>; 2] {
        let main = Area {
            base: queue.scratch_backing_memory_location,
            tmpring: queue.compute_tmpring_size,
            last: u64::MAX,
        };
        if !self.reclaims(queue) {
            return [Some(main), None];
        }
        let grid = [packet.grid_size_x, packet.grid_size_y, packet.grid_size_z];
        let small = grid.iter().zip(queue.alt_scratch_dispatch_limit).all(|(&size, limit)| size <= limit);
        let main = Area { last: queue.scratch_max_use_index, ..main };
        let alternate = Area {
            base: queue.alt_scratch_backing_memory_location,
            tmpring: queue.alt_compute_tmpring_size,
            last: queue.alt_scratch_max_use_index,
        };
        [Some(main), small.then_some(alternate)]
    }

    /// Returns true if the runtime and the chip know the fields of a queue with two scratch memories.
    fn reclaims(&self, queue: &AmdQueue) -> bool {
        self.shader.chip().shader.scratch_reclaim && queue.caps & QUEUE_CAPS_SW_ASYNC_RECLAIM != 0
    }

    /// Returns the base, the bytes of a wave and the slots of a memory, if it has enough for a launch.
    fn pool_of(&self, area: Area, prepared: &Prepared) -> Option<(u64, u64, u32)> {
        let TmpRing { waves, wave_bytes } = (self.shader.chip().shader.tmp_ring)(area.tmpring);
        let enough = waves >= prepared.launch.waves_per_workgroup()
            && wave_bytes >= prepared.scratch_per_wave
            && self.fetch_index <= area.last;
        let slots = u64::from(waves) * u64::from(self.shader.scratch_parts());
        enough.then_some((area.base, wave_bytes, slots.min(MAX_SCRATCH_SLOTS) as u32))
    }

    /// Counts the requests for a packet. A runtime whose answer changes nothing, or is never enough, would be asked for
    /// ever.
    fn note_question(&mut self, had: [Option<Area>; 2], bytes: u64) -> Result<(), Cause> {
        let none = Area { base: 0, tmpring: 0, last: 0 };
        let had = had.map(|area| area.unwrap_or(none));
        let before = self.asked.filter(|asked| asked.packet == self.fetch_index);
        let times = before.map_or(0, |asked| asked.times);
        if before.is_some_and(|asked| asked.had == had) || times >= MOST_QUESTIONS {
            return Err(Cause::ScratchAnswer { bytes, times });
        }
        self.asked = Some(Asked { packet: self.fetch_index, had, times: times + 1 });
        Ok(())
    }

    /// Writes the packet's index into the queue as the last one that has used a memory, for each graphics core.
    pub(super) fn note_use(&self, at: u64, queue: &AmdQueue, given: &Given) -> Result<(), Cause> {
        if !self.reclaims(queue) {
            return Ok(());
        }
        let field = match given {
            Given::Main => 0,
            Given::Alternate => 8,
            Given::Blocked(_) => return Ok(()),
        };
        let slice = self.state.space().enter();
        for core in 0..u64::from(self.shader.scratch_parts()).min(QUEUE_LAST_USED_CORES) {
            let index = at.wrapping_add(QUEUE_LAST_USED_OFFSET + core * QUEUE_LAST_USED_STRIDE + field);
            slice
                .store_u64(index, self.fetch_index)
                .map_err(|fault| Cause::Memory { what: "scratch_last_used_index", fault })?;
        }
        Ok(())
    }

    /// Sets the capability bit in the queue that the packet processor knows two scratch memories, as it does when it
    /// connects a queue.
    pub(super) fn show_reclaim(&self) {
        if !self.shader.chip().shader.scratch_reclaim {
            return;
        }
        let shown = self.amd_queue().ok().flatten().map(|(at, _)| {
            let caps = at.wrapping_add(offset_of!(AmdQueue, caps) as u64);
            self.state.space().update_u32(caps, |caps| caps | QUEUE_CAPS_CP_ASYNC_RECLAIM)
        });
        if let Some(Err(fault)) = shown {
            log::debug!(target: "gpu::cp", "capabilities not written into amd_queue_t: {fault}");
        }
    }
}
