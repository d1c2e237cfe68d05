//! Contexts: whose work is whose, and in which order (`amdgpu_ctx.c`).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use belfry_abi::kfd::drm::{
    AMDGPU_CTX_NO_RESET, AMDGPU_CTX_OP_ALLOC_CTX, AMDGPU_CTX_OP_FREE_CTX, AMDGPU_CTX_OP_GET_STABLE_PSTATE,
    AMDGPU_CTX_OP_QUERY_STATE, AMDGPU_CTX_OP_QUERY_STATE2, AMDGPU_CTX_OP_SET_STABLE_PSTATE,
    AMDGPU_CTX_PRIORITIES_ABOVE, AMDGPU_CTX_QUERY2_FLAGS_GUILTY, AMDGPU_CTX_QUERY2_FLAGS_RESET,
    AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST, AMDGPU_CTX_STABLE_PSTATE_PEAK, AMDGPU_CTX_UNKNOWN_RESET,
    AMDGPU_HW_IP_COMPUTE, AMDGPU_HW_IP_DMA, CtxIn, CtxOut,
};

use super::Call;
use crate::errno::{Errno, Result};
use crate::fence::Fence;
use crate::os::Os;

/// Rings of compute (`amdgpu_ctx_num_entities`).
pub(crate) const COMPUTE_RINGS: u32 = 4;
/// Rings of the copy engines, one each.
pub(crate) const DMA_RINGS: u32 = 2;
/// Pieces of work of one context on one ring that are remembered, and that may be under way (`amdgpu_sched_jobs`).
pub(crate) const REMEMBERED: usize = 32;
/// Contexts of one file.
const MAX_CONTEXTS: usize = 4096;

/// A ring that programs name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RingId {
    pub(crate) kind: u32,
    pub(crate) ring: u32,
}

impl RingId {
    /// The ring of these numbers (`amdgpu_ctx_get_entity`).
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is none.
    pub(crate) fn new(kind: u32, instance: u32, ring: u32) -> Result<Self> {
        if instance != 0 || ring >= rings(kind) {
            return Err(Errno::EINVAL);
        }
        Ok(Self { kind, ring })
    }
}

/// Rings of a kind of engine.
pub(crate) fn rings(kind: u32) -> u32 {
    match kind {
        AMDGPU_HW_IP_COMPUTE => COMPUTE_RINGS,
        AMDGPU_HW_IP_DMA => DMA_RINGS,
        _ => 0,
    }
}

/// The work of a context on a ring.
#[derive(Default)]
pub(crate) struct Timeline {
    /// Number of the last piece; the first one is 1.
    pub(crate) last: u64,
    /// The last of them, in order.
    recent: VecDeque<Arc<Fence>>,
}

impl Timeline {
    /// Adds a piece of work; returns its number.
    pub(crate) fn push(&mut self, fence: Arc<Fence>) -> u64 {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(fence);
        self.last += 1;
        self.last
    }

    /// The piece of work of a number, all ones for the last one; `None` for one so old that it is over.
    ///
    /// # Errors
    ///
    /// `EINVAL` for one that is not there yet.
    pub(crate) fn fence(&self, number: u64) -> Result<Option<Arc<Fence>>> {
        let number = if number == u64::MAX { self.last } else { number };
        if number > self.last {
            return Err(Errno::EINVAL);
        }
        let back = self.last - number;
        let at = (self.recent.len() as u64).checked_sub(back + 1);
        Ok(at.and_then(|at| self.recent.get(at as usize)).cloned())
    }

    /// Returns the work that has to be over before the next piece may come.
    pub(crate) fn oldest(&self) -> Option<Arc<Fence>> {
        (self.recent.len() == REMEMBERED).then(|| self.recent.front().cloned()).flatten()
    }
}

/// Part of a context that outlives it: work refers to it.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Its work had to be ended.
    guilty: AtomicBool,
}

impl Record {
    pub(crate) fn is_guilty(&self) -> bool {
        self.guilty.load(Ordering::Acquire)
    }

    pub(crate) fn blame(&self) {
        self.guilty.store(true, Ordering::Release);
    }
}

/// A context.
pub(crate) struct Context {
    pub(crate) record: Arc<Record>,
    pub(crate) timelines: BTreeMap<RingId, Timeline>,
    /// Resets before it was made, and before it was asked last.
    made_after: u32,
    asked_after: AtomicU32,
    pstate: u32,
}

impl Context {
    pub(crate) fn timeline(&mut self, ring: RingId) -> &mut Timeline {
        self.timelines.entry(ring).or_default()
    }
}

/// All contexts of a file.
#[derive(Default)]
pub(crate) struct Contexts {
    by_id: BTreeMap<u32, Context>,
}

impl Contexts {
    /// A context.
    ///
    /// # Errors
    ///
    /// `EINVAL` when there is none of this id.
    pub(crate) fn get(&mut self, id: u32) -> Result<&mut Context> {
        self.by_id.get_mut(&id).ok_or(Errno::EINVAL)
    }

    /// The fence of a piece of work; `None` for one so old that it is over.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a context, ring or piece of work that is not there.
    pub(crate) fn fence(&mut self, id: u32, ring: RingId, number: u64) -> Result<Option<Arc<Fence>>> {
        self.get(id)?.timeline(ring).fence(number)
    }

    fn add(&mut self, resets: u32) -> Result<u32> {
        if self.by_id.len() >= MAX_CONTEXTS {
            return Err(Errno::ENOMEM);
        }
        let id = (1..).find(|id| !self.by_id.contains_key(id)).ok_or(Errno::ENOMEM)?;
        let context = Context {
            record: Arc::default(),
            timelines: BTreeMap::new(),
            made_after: resets,
            asked_after: AtomicU32::new(resets),
            pstate: 0,
        };
        self.by_id.insert(id, context);
        Ok(id)
    }
}

/// CTX.
///
/// # Errors
///
/// `EINVAL` for an unknown context, operation or state of clocks, `EACCES` for a priority above the normal one, `ENOMEM`.
pub(super) fn change<O: Os>(call: &Call<'_, O>, args: CtxIn) -> Result<CtxOut> {
    let client = call.client;
    let mut state = client.lock();
    let resets = state.resets();
    let contexts = &mut state.contexts;
    match args.op {
        AMDGPU_CTX_OP_ALLOC_CTX => {
            // Numbers that are no priority count as the normal one.
            if AMDGPU_CTX_PRIORITIES_ABOVE.contains(&args.priority) {
                return Err(Errno::EACCES);
            }
            Ok(CtxOut { flags: contexts.add(resets)?.into(), ..Default::default() })
        }
        AMDGPU_CTX_OP_FREE_CTX => {
            contexts.by_id.remove(&args.ctx_id).ok_or(Errno::EINVAL)?;
            Ok(CtxOut::default())
        }
        AMDGPU_CTX_OP_QUERY_STATE => {
            let before = contexts.get(args.ctx_id)?.asked_after.swap(resets, Ordering::Relaxed);
            let reset_status = if before == resets { AMDGPU_CTX_NO_RESET } else { AMDGPU_CTX_UNKNOWN_RESET };
            Ok(CtxOut { reset_status, ..Default::default() })
        }
        AMDGPU_CTX_OP_QUERY_STATE2 => {
            let lost = client.is_lost();
            let context = contexts.get(args.ctx_id)?;
            let flag = |is: bool, flag: u32| if is { flag } else { 0 };
            let flags = flag(context.made_after != resets || lost, AMDGPU_CTX_QUERY2_FLAGS_RESET)
                | flag(lost, AMDGPU_CTX_QUERY2_FLAGS_VRAMLOST)
                | flag(context.record.is_guilty(), AMDGPU_CTX_QUERY2_FLAGS_GUILTY);
            Ok(CtxOut { flags: flags.into(), ..Default::default() })
        }
        AMDGPU_CTX_OP_GET_STABLE_PSTATE => {
            if args.flags != 0 {
                return Err(Errno::EINVAL);
            }
            Ok(CtxOut { flags: contexts.get(args.ctx_id)?.pstate.into(), ..Default::default() })
        }
        AMDGPU_CTX_OP_SET_STABLE_PSTATE => {
            if args.flags > AMDGPU_CTX_STABLE_PSTATE_PEAK {
                return Err(Errno::EINVAL);
            }
            contexts.get(args.ctx_id)?.pstate = args.flags;
            Ok(CtxOut::default())
        }
        _ => Err(Errno::EINVAL),
    }
}
