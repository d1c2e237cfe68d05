//! WAIT_CS, WAIT_FENCES and GEM_WAIT_IDLE (`amdgpu_cs.c`, `amdgpu_gem.c`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::kfd::drm::{
    DrmAmdgpuFence, GemWaitIdleIn, GemWaitIdleOut, WaitCsIn, WaitFencesIn, WaitFencesOut,
};
use zerocopy::{FromZeros, IntoBytes};

use super::context::RingId;
use super::{Call, until};
use crate::errno::{Errno, Result};
use crate::fence::{Fence, Wanted};
use crate::object::Object;
use crate::os::Os;

/// Fences of one wait.
const MAX_FENCES: u32 = 1 << 16;

impl<O: Os> Call<'_, O> {
    /// Waits until a time of `CLOCK_MONOTONIC`; returns whether it is over.
    fn wait(&self, fences: &[Arc<Fence>], wanted: Wanted, time: u64) -> Result<bool> {
        let device = self.client.device();
        device.wait_fences(fences, wanted, until(device.hw.os(), time), || self.client.pump())
    }

    pub(super) fn fence(&self, fence: &DrmAmdgpuFence) -> Result<Option<Arc<Fence>>> {
        let &DrmAmdgpuFence { ctx_id, ip_type, ip_instance, ring, seq_no } = fence;
        let mut state = self.client.lock();
        // A context that is not there is told before a ring that is not there.
        state.contexts.get(ctx_id)?;
        state.contexts.fence(ctx_id, RingId::new(ip_type, ip_instance, ring)?, seq_no)
    }
}

/// WAIT_CS; returns 1 when the time was over first.
///
/// # Errors
///
/// `EINVAL` for a context, ring or submission that is not there, what the work ended with, `ERESTARTSYS`.
pub(super) fn wait_cs<O: Os>(call: &Call<'_, O>, args: &WaitCsIn) -> Result<u64> {
    let &WaitCsIn { handle, timeout, ip_type, ip_instance, ring, ctx_id } = args;
    let found = call.fence(&DrmAmdgpuFence { ctx_id, ip_type, ip_instance, ring, seq_no: handle })?;
    let Some(fence) = found else { return Ok(0) };
    let over = call.wait(core::slice::from_ref(&fence), Wanted::All, timeout)?;
    if over {
        fence.outcome()?;
    }
    Ok(u64::from(!over))
}

/// WAIT_FENCES.
///
/// # Errors
///
/// As [`wait_cs`], `EFAULT`, `ENOMEM` for too many.
pub(super) fn wait_fences<O: Os>(call: &Call<'_, O>, args: &WaitFencesIn) -> Result<WaitFencesOut> {
    if args.fence_count > MAX_FENCES {
        return Err(Errno::ENOMEM);
    }
    let mut named = Vec::new();
    named.try_reserve_exact(args.fence_count as usize).map_err(|_| Errno::ENOMEM)?;
    named.resize(args.fence_count as usize, DrmAmdgpuFence::new_zeroed());
    call.client.device().hw.os().copy_from_user(named.as_mut_slice().as_mut_bytes(), args.fences)?;
    let mut fences = Vec::new();
    for (index, named) in named.iter().enumerate() {
        match call.fence(named)? {
            Some(fence) => fences.push(fence),
            // It has been over for long.
            None if args.wait_all == 0 => {
                return Ok(WaitFencesOut { status: 1, first_signaled: index as u32 });
            }
            None => {}
        }
    }
    if args.wait_all == 0 && fences.is_empty() {
        return Err(Errno::EINVAL);
    }
    let wanted = if args.wait_all == 0 { Wanted::Any } else { Wanted::All };
    if !call.wait(&fences, wanted, args.timeout_ns)? {
        return Ok(WaitFencesOut::default());
    }
    let first = fences.iter().position(|fence| fence.is_over()).unwrap_or(0);
    match wanted {
        Wanted::All => fences.iter().try_for_each(|fence| fence.outcome())?,
        Wanted::Any => fences.get(first).map_or(Ok(()), |fence| fence.outcome())?,
    }
    let first_signaled = if wanted == Wanted::Any { first as u32 } else { 0 };
    Ok(WaitFencesOut { status: 1, first_signaled })
}

/// GEM_WAIT_IDLE.
///
/// # Errors
///
/// `ENOENT` for a bad handle, `ERESTARTSYS`.
pub(super) fn wait_idle<O: Os>(call: &Call<'_, O>, args: GemWaitIdleIn) -> Result<GemWaitIdleOut> {
    let backing = call.file.lookup(args.handle)?;
    let fences = Object::<O>::of(&*backing).map_or_else(Vec::new, Object::users);
    let over = call.wait(&fences, Wanted::All, args.timeout)?;
    Ok(GemWaitIdleOut { status: u32::from(!over), domain: 0 })
}
