//! CS: submissions (`amdgpu_cs.c`).

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;

use belfry_abi::kfd::drm::{
    AMDGPU_CHUNK_ID_BO_HANDLES, AMDGPU_CHUNK_ID_DEPENDENCIES, AMDGPU_CHUNK_ID_FENCE, AMDGPU_CHUNK_ID_IB,
    AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, AMDGPU_CHUNK_ID_SYNCOBJ_IN, AMDGPU_CHUNK_ID_SYNCOBJ_OUT,
    AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, BoListIn, CsChunk,
    CsChunkDep, CsChunkFence, CsChunkIb, CsChunkSem, CsChunkSyncobj, CsIn,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::bo_list::{self, List};
use super::client::Job;
use super::context::RingId;
use super::info::max_ibs;
use super::ring::Ib;
use super::works::Kick;
use super::{Call, from_user};
use crate::errno::{Errno, Result};
use crate::fence::{Dependency, Wanted};
use crate::object::Object;
use crate::os::{Awaited, Backing, Os, PAGE_SIZE, SyncPoint, SyncTarget};

/// Chunks of a submission.
const MAX_CHUNKS: u32 = 1024;
/// Dwords of a chunk.
const MAX_CHUNK_DWORDS: u32 = 64 << 10;
/// Dwords of an indirect buffer: what its packet has room for.
const MAX_IB_DWORDS: u32 = 0xf_ffff;

/// Rings of one submission (`AMDGPU_CS_GANG_SIZE`).
const GANG_SIZE: usize = 4;

/// A submission as far as it was read.
#[derive(Default)]
struct Parser {
    /// Indirect buffers of each ring.
    ibs: BTreeMap<RingId, Vec<Ib>>,
    /// The ring that others wait for: the last one named.
    leader: Option<RingId>,
    user_fence: Option<(Arc<dyn Backing>, u64, u64)>,
    list: Option<List>,
    dependencies: Vec<Dependency>,
    /// Syncobjs that get this work.
    targets: Option<Vec<Box<dyn SyncTarget>>>,
}

/// CS; returns the number of the submission.
///
/// # Errors
///
/// `EINVAL` for an unknown context, no chunks, chunks that are not taken, rings that are not there, syncobjs with nothing in them,
/// `ECANCELED` for a context that was to blame for a fault, `ENOENT` for bad handles, `EPERM` for memory of another program,
/// `EFAULT`, `ENOMEM`, `ETIME`, `ERESTARTSYS`.
pub(super) fn submit<O: Os>(call: &Call<'_, O>, args: &CsIn) -> Result<u64> {
    let client = call.client;
    let record = client.lock().contexts.get(args.ctx_id)?.record.clone();
    if record.is_guilty() || client.is_lost() {
        return Err(Errno::ECANCELED);
    }
    let mut parser = Parser::default();
    parser.read(call, args)?;
    let Parser { ibs, leader, mut user_fence, list, dependencies, targets } = parser;
    let leader = leader.ok_or(Errno::EINVAL)?;
    let list = match (list, args.bo_list_handle) {
        (Some(_), handle) if handle != 0 => return Err(Errno::EINVAL),
        (None, handle) if handle != 0 => Some(client.lock().lists.get(handle)?),
        (list, _) => list,
    };
    // One context does not fill the memory with work.
    let oldest = client.lock().contexts.get(args.ctx_id)?.timeline(leader).oldest();
    if let Some(oldest) = oldest {
        client.device().wait_fences(&[oldest], Wanted::All, None, || client.pump())?;
    }
    let objects = list.map_or_else(Vec::new, |list| list.to_vec());
    validate(call, &objects)?;
    let mut jobs = Vec::new();
    let begun_at = Arc::new(AtomicU64::new(0));
    for (ring, ibs) in ibs {
        let user_fence = if ring == leader { user_fence.take() } else { None };
        let (context, fence) = (record.clone(), call.file.fence_new()?);
        let (dependencies, objects) = (dependencies.clone(), objects.clone());
        let begun_at = begun_at.clone();
        jobs.push((ring, Job { context, fence, ibs, dependencies, user_fence, objects, begun_at }));
    }
    let fence = jobs.iter().find(|(ring, _)| *ring == leader).map(|(_, job)| job.fence.clone());
    let number = client.submit(leader, args.ctx_id, jobs)?;
    for (target, fence) in targets.into_iter().flatten().zip(core::iter::repeat(fence)) {
        if let Some(fence) = &fence {
            target.put(fence);
        }
    }
    Ok(number)
}

/// Has memory of programs there that a submission names (`amdgpu_cs_parser_bos`).
fn validate<O: Os>(call: &Call<'_, O>, objects: &[Arc<dyn Backing>]) -> Result<()> {
    for range in objects.iter().filter_map(|object| Object::<O>::of(&**object)?.user()) {
        if range.key() != call.file.caller() {
            return Err(Errno::EPERM);
        }
        range.populate()?;
    }
    Ok(())
}

/// The structure at the front of a chunk.
fn first<T: FromBytes + KnownLayout + Immutable>(data: &[u32]) -> Result<T> {
    T::read_from_prefix(data.as_bytes()).map(|(value, _)| value).map_err(|_| Errno::EINVAL)
}

impl Parser {
    fn read<O: Os>(&mut self, call: &Call<'_, O>, args: &CsIn) -> Result<()> {
        if args.num_chunks == 0 || args.num_chunks > MAX_CHUNKS {
            return Err(Errno::EINVAL);
        }
        let os = call.client.device().hw.os();
        let mut addresses = vec![0u64; args.num_chunks as usize];
        os.copy_from_user(addresses.as_mut_slice().as_mut_bytes(), args.chunks)?;
        for address in addresses {
            let chunk: CsChunk = from_user(os, address)?;
            if chunk.length_dw > MAX_CHUNK_DWORDS {
                return Err(Errno::EINVAL);
            }
            let mut data = Vec::new();
            data.try_reserve_exact(chunk.length_dw as usize).map_err(|_| Errno::ENOMEM)?;
            data.resize(chunk.length_dw as usize, 0u32);
            os.copy_from_user(data.as_mut_slice().as_mut_bytes(), chunk.chunk_data)?;
            self.chunk(call, chunk.chunk_id, &data)?;
        }
        Ok(())
    }

    fn chunk<O: Os>(&mut self, call: &Call<'_, O>, id: u32, data: &[u32]) -> Result<()> {
        match id {
            AMDGPU_CHUNK_ID_IB => self.ib(&first(data)?),
            AMDGPU_CHUNK_ID_FENCE => self.fence(call, &first(data)?),
            AMDGPU_CHUNK_ID_BO_HANDLES => {
                let args: BoListIn = first(data)?;
                if self.list.is_some() {
                    return Err(Errno::EINVAL);
                }
                self.list = Some(bo_list::read(call, &args)?);
                Ok(())
            }
            AMDGPU_CHUNK_ID_DEPENDENCIES | AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES => {
                for part in data.chunks_exact(size_of::<CsChunkDep>() / 4) {
                    let dependency: CsChunkDep = first(part)?;
                    let CsChunkDep { ip_type, ip_instance, ring, ctx_id, handle } = dependency;
                    let ring = RingId::new(ip_type, ip_instance, ring)?;
                    let fence = call.client.lock().contexts.fence(ctx_id, ring, handle)?;
                    self.dependencies.extend(fence.map(|fence| match id {
                        AMDGPU_CHUNK_ID_DEPENDENCIES => Dependency::Over(fence),
                        _ => Dependency::Begun(fence),
                    }));
                }
                Ok(())
            }
            AMDGPU_CHUNK_ID_SYNCOBJ_IN => sems(data).try_for_each(|at| self.await_sync(call, at)),
            AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT => {
                points(data).try_for_each(|at| self.await_sync(call, at))
            }
            AMDGPU_CHUNK_ID_SYNCOBJ_OUT => self.targets(call, sems(data)),
            AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL => self.targets(call, points(data)),
            _ => Err(Errno::EINVAL),
        }
    }

    fn ib(&mut self, chunk: &CsChunkIb) -> Result<()> {
        let ring = RingId::new(chunk.ip_type, chunk.ip_instance, chunk.ring)?;
        if !self.ibs.contains_key(&ring) && self.ibs.len() == GANG_SIZE {
            return Err(Errno::EINVAL);
        }
        let ibs = self.ibs.entry(ring).or_default();
        let most = max_ibs().get(chunk.ip_type as usize).copied().unwrap_or(0);
        let dwords = chunk.ib_bytes / 4;
        if ibs.len() as u32 >= most || dwords > MAX_IB_DWORDS {
            return Err(Errno::EINVAL);
        }
        ibs.push(Ib { va: chunk.va_start, dwords });
        self.leader = Some(ring);
        Ok(())
    }

    /// Work in a syncobj has to be over first.
    fn await_sync<O: Os>(&mut self, call: &Call<'_, O>, at: SyncPoint) -> Result<()> {
        match call.file.sync_await(at, Arc::new(Kick(call.client.clone())))? {
            Awaited::Here(fences) => self.dependencies.extend(fences.into_iter().map(Dependency::Over)),
            Awaited::Elsewhere(fence) => self.dependencies.push(Dependency::Foreign(fence)),
        }
        Ok(())
    }

    /// Syncobjs get this work, of one chunk alone.
    fn targets<O: Os>(&mut self, call: &Call<'_, O>, at: impl Iterator<Item = SyncPoint>) -> Result<()> {
        if self.targets.is_some() {
            return Err(Errno::EINVAL);
        }
        let targets = self.targets.insert(Vec::new());
        for at in at {
            targets.push(call.file.sync_target(at)?);
        }
        Ok(())
    }

    fn fence<O: Os>(&mut self, call: &Call<'_, O>, chunk: &CsChunkFence) -> Result<()> {
        let backing = call.file.lookup(chunk.handle).map_err(|_| Errno::EINVAL)?;
        let offset = u64::from(chunk.offset);
        // A page of the driver's own memory, and inside of it.
        let fits = backing.size() == PAGE_SIZE && offset + 8 <= PAGE_SIZE && offset.is_multiple_of(8);
        if !fits || Object::<O>::of(&*backing).is_none_or(|object| object.user().is_some()) {
            return Err(Errno::EINVAL);
        }
        self.user_fence = Some((backing, offset, 0));
        Ok(())
    }
}

/// Syncobjs without points.
fn sems(data: &[u32]) -> impl Iterator<Item = SyncPoint> {
    data.chunks_exact(size_of::<CsChunkSem>() / 4).filter_map(|part| {
        let CsChunkSem { handle } = first(part).ok()?;
        Some(SyncPoint { handle, ..SyncPoint::default() })
    })
}

/// Points of syncobjs.
fn points(data: &[u32]) -> impl Iterator<Item = SyncPoint> {
    data.chunks_exact(size_of::<CsChunkSyncobj>() / 4).filter_map(|part| {
        let CsChunkSyncobj { handle, flags, point } = first(part).ok()?;
        Some(SyncPoint { handle, point, flags })
    })
}
