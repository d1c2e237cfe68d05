//! CS: submissions (`amdgpu_cs.c`).

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use belfry_abi::kfd::drm::{
    AMDGPU_CHUNK_ID_BO_HANDLES, AMDGPU_CHUNK_ID_DEPENDENCIES, AMDGPU_CHUNK_ID_FENCE, AMDGPU_CHUNK_ID_IB,
    AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES, BoListIn, CsChunk, CsChunkDep, CsChunkFence, CsChunkIb, CsIn,
};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::bo_list::{self, List};
use super::client::Job;
use super::context::RingId;
use super::fence::{Fence, Wanted};
use super::info::max_ibs;
use super::ring::Ib;
use super::{Call, from_user};
use crate::errno::{Errno, Result};
use crate::memory::object::Object;
use crate::os::{Backing, Os, PAGE_SIZE};

/// Chunks of a submission.
const MAX_CHUNKS: u32 = 1024;
/// Dwords of a chunk.
const MAX_CHUNK_DWORDS: u32 = 64 << 10;
/// Dwords of an indirect buffer: what its packet has room for.
const MAX_IB_DWORDS: u32 = 0xf_ffff;

/// A submission as far as it was read.
struct Parser {
    ring: Option<RingId>,
    ibs: Vec<Ib>,
    user_fence: Option<(Arc<dyn Backing>, u64, u64)>,
    list: Option<List>,
    dependencies: Vec<Arc<Fence>>,
}

/// CS; returns the number of the submission.
///
/// # Errors
///
/// `EINVAL` for an unknown context, no chunks, chunks that are not taken, rings that are not there, `ECANCELED` for a context
/// that was to blame for a fault, `ENOENT` for bad handles, `EFAULT`, `ENOMEM`, `ERESTARTSYS`.
pub(super) fn submit<O: Os>(call: &Call<'_, O>, args: &CsIn) -> Result<u64> {
    let client = call.client;
    let record = client.lock().contexts.get(args.ctx_id)?.record.clone();
    if record.is_guilty() || client.is_lost() {
        return Err(Errno::ECANCELED);
    }
    let mut parser =
        Parser { ring: None, ibs: Vec::new(), user_fence: None, list: None, dependencies: Vec::new() };
    parser.read(call, args)?;
    let Parser { ring, ibs, user_fence, list, dependencies } = parser;
    let ring = ring.ok_or(Errno::EINVAL)?;
    let list = match (list, args.bo_list_handle) {
        (Some(_), handle) if handle != 0 => return Err(Errno::EINVAL),
        (None, handle) if handle != 0 => Some(client.lock().lists.get(handle)?),
        (list, _) => list,
    };
    // One context does not fill the memory with work.
    let oldest = client.lock().contexts.get(args.ctx_id)?.timeline(ring).oldest();
    if let Some(oldest) = oldest {
        client.device().wait_fences(&[oldest], Wanted::All, None, || client.pump())?;
    }
    let objects = list.map_or_else(Vec::new, |list| list.to_vec());
    let fence = Arc::new(Fence::new());
    client.submit(ring, args.ctx_id, Job { context: record, fence, ibs, dependencies, user_fence, objects })
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
            // What is over has begun.
            AMDGPU_CHUNK_ID_DEPENDENCIES | AMDGPU_CHUNK_ID_SCHEDULED_DEPENDENCIES => {
                for part in data.chunks_exact(size_of::<CsChunkDep>() / 4) {
                    let dependency: CsChunkDep = first(part)?;
                    let CsChunkDep { ip_type, ip_instance, ring, ctx_id, handle } = dependency;
                    let ring = RingId::new(ip_type, ip_instance, ring)?;
                    self.dependencies.extend(call.client.lock().contexts.fence(ctx_id, ring, handle)?);
                }
                Ok(())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    fn ib(&mut self, chunk: &CsChunkIb) -> Result<()> {
        let ring = RingId::new(chunk.ip_type, chunk.ip_instance, chunk.ring)?;
        // Work of several rings that begins together is not built.
        if self.ring.is_some_and(|before| before != ring) {
            return Err(Errno::EINVAL);
        }
        let most = max_ibs().get(chunk.ip_type as usize).copied().unwrap_or(0);
        let dwords = chunk.ib_bytes / 4;
        if self.ibs.len() as u32 >= most || dwords > MAX_IB_DWORDS {
            return Err(Errno::EINVAL);
        }
        self.ring = Some(ring);
        self.ibs.push(Ib { va: chunk.va_start, dwords });
        Ok(())
    }

    fn fence<O: Os>(&mut self, call: &Call<'_, O>, chunk: &CsChunkFence) -> Result<()> {
        let backing = call.file.lookup(chunk.handle).map_err(|_| Errno::EINVAL)?;
        let offset = u64::from(chunk.offset);
        // A page of the driver's own memory, and inside of it.
        let fits = backing.size() == PAGE_SIZE && offset + 8 <= PAGE_SIZE && offset.is_multiple_of(8);
        if !fits || Object::<O>::of(&*backing).is_none() {
            return Err(Errno::EINVAL);
        }
        self.user_fence = Some((backing, offset, 0));
        Ok(())
    }
}
