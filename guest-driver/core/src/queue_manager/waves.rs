//! Saved waves of a queue (`get_wave_state`).

use alloc::vec::Vec;

use belfry_abi::kfd::queue::ContextSaveAreaHeader;

use crate::errno::{Errno, Result};
use crate::os::Os;
use crate::process::{Process, State};
use crate::queue::Life;

/// Part of a queue's context save area that is in use.
pub(crate) struct WaveStates {
    /// Of each graphics core.
    pub(crate) headers: Vec<ContextSaveAreaHeader>,
    /// Bytes from the part of one to that of the next.
    pub(crate) distance: u32,
}

/// GET_QUEUE_WAVE_STATE: what of a queue's context save area is in use, of each graphics core (`get_wave_state`).
///
/// # Errors
///
/// `EFAULT` for an unknown id, `EINVAL` while the queue may run and for an SDMA queue, `EIO` when it was lost in a reset, `ENOMEM`.
pub(crate) fn wave_state<O: Os>(process: &Process<O>, id: u32) -> Result<WaveStates> {
    wave_state_of(process, &process.state.lock(), id)
}

/// The same, of a process whose state is at hand.
pub(crate) fn wave_state_of<O: Os>(process: &Process<O>, state: &State<O>, id: u32) -> Result<WaveStates> {
    let queue = state.queues.get(&id).ok_or(Errno::EFAULT)?;
    match queue.life {
        _ if queue.sdma.is_some() => Err(Errno::EINVAL),
        Life::Mapped => Err(Errno::EINVAL),
        Life::Lost => Err(Errno::EIO),
        Life::Off | Life::Evicted => {
            let wave_state = process.nodes.get(queue.node).device.hw.asic().mqd.wave_state;
            let each = |share| wave_state(&mut queue.mqds.read(share)?);
            let headers = queue.mqds.shares().map(each).collect::<Result<Vec<_>>>()?;
            Ok(WaveStates { headers, distance: queue.user.save_area_size })
        }
    }
}
