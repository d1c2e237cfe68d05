//! Scratch memory for the dispatches of an AQL queue.

use std::sync::Arc;

use belfry_abi::aql::{AmdQueue, KernelDispatchPacket, inactive};
use belfry_isa::inst::WaveSize;

use super::AqlQueue;
use crate::chip::TmpRing;
use crate::cp::MAX_SCRATCH_SLOTS;
use crate::cp::dispatch::Prepared;
use crate::cp::error::Cause;
use crate::queue::BlockedOn;
use crate::shader::ScratchPool;

impl AqlQueue {
    /// Gives a launch scratch memory; if the queue has too little, asks the runtime for more through the inactive signal.
    pub(super) fn assign_scratch(
        &mut self,
        packet: &KernelDispatchPacket,
        queue: Option<&AmdQueue>,
        prepared: &mut Prepared,
    ) -> Result<Option<BlockedOn>, Cause> {
        let waves = prepared.launch.waves_per_workgroup();
        let available = queue.and_then(|queue| {
            let TmpRing { waves: most, wave_bytes } =
                (self.shader.chip().shader.tmp_ring)(queue.compute_tmpring_size);
            let slots =
                queue.scratch_backing_memory_byte_size.checked_div(wave_bytes)?.min(MAX_SCRATCH_SLOTS) as u32;
            let enough = most != 0 && slots >= waves && wave_bytes >= prepared.scratch_per_wave;
            enough.then_some((queue.scratch_backing_memory_location, wave_bytes, slots))
        });
        let Some((base, wave_bytes, slots)) = available else {
            let signal = queue.map_or(0, |queue| queue.queue_inactive_signal);
            if signal == 0 {
                return Err(Cause::Scratch(packet.private_segment_size));
            }
            let wave32 = matches!(prepared.launch.wave_size, WaveSize::Wave32);
            let code = inactive::SCRATCH_NEEDED | if wave32 { inactive::SCRATCH_WAVE32 } else { 0 };
            return self.ask(signal, code).map(Some);
        };
        let pool = match &self.scratch {
            Some(pool) if pool.is(base, wave_bytes, slots) => Arc::clone(pool),
            // Waves of earlier dispatches may still use the old memory, which the new one may overlap.
            _ if self.has_running_dispatches() => return Ok(Some(BlockedOn::Dispatches)),
            _ => Arc::new(ScratchPool::new(base, wave_bytes, slots)),
        };
        self.scratch = Some(Arc::clone(&pool));
        prepared.launch.set_scratch(pool);
        Ok(None)
    }
}
