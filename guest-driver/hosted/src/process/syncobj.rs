//! DRM's ioctls about syncobjs (`drm_syncobj.c`), and their use by submissions.

use std::collections::BTreeMap;
use std::sync::Arc;

use belfry_abi::kfd::drm::*;
use belfry_abi::kfd::ioctl::ioc_nr;
use belfry_kfd_core::drm::Fence;
use belfry_kfd_core::os::{Awaited, Clock, Os as _, SyncExport, SyncPoint, SyncTarget, WaitQueue as _};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};
use zerocopy::{FromBytes, IntoBytes};

use super::HostedProcess;
use super::render::read;
use crate::sync::lock;
use crate::syncobj::event::Event;
use crate::syncobj::{Ends, HostedFence, Shared, Syncobj, Syncs, are_over};

/// Handles of one process, and of one call.
const MAX_HANDLES: usize = 1 << 20;
/// Longest time a submission waits for a point that is not there yet, in nanoseconds
/// (`DRM_SYNCOBJ_WAIT_FOR_SUBMIT_TIMEOUT`).
const FOR_SUBMIT_NS: u64 = 5_000_000_000;
/// Longest time a sleeper rests before it looks at the device, in nanoseconds.
const LOOK_NS: u64 = 100_000_000;

/// The syncobjs of a process.
#[derive(Default)]
pub(super) struct Syncobjs {
    table: Mutex<BTreeMap<u32, Arc<Syncobj>>, rank::SyncHandles>,
}

impl Syncobjs {
    fn insert(&self, syncobj: Arc<Syncobj>) -> Result<u32> {
        let mut table = lock(&self.table);
        if table.len() >= MAX_HANDLES {
            return Err(Errno::ENOMEM);
        }
        let after = table.last_key_value().map_or(0, |(last, _)| *last);
        let handle = match after.checked_add(1) {
            Some(handle) => handle,
            None => (1..).find(|handle| !table.contains_key(handle)).ok_or(Errno::ENOMEM)?,
        };
        table.insert(handle, syncobj);
        Ok(handle)
    }

    /// The syncobj of a handle; `error` for a bad one.
    fn get(&self, handle: u32, error: Errno) -> Result<Arc<Syncobj>> {
        lock(&self.table).get(&handle).cloned().ok_or(error)
    }
}

/// A syncobj that gets the work of a submission.
struct Target {
    syncobj: Arc<Syncobj>,
    point: u64,
    syncs: Arc<Syncs>,
}

impl SyncTarget for Target {
    fn put(self: Box<Self>, fence: &Arc<Fence>) {
        put(&self.syncobj, self.point, vec![fence.clone()]);
        self.syncs.look();
    }
}

fn put(syncobj: &Syncobj, point: u64, ends: Ends) {
    match point {
        0 => syncobj.replace(Some(ends)),
        point => syncobj.add(point, ends),
    }
}

/// Arguments of a wait.
struct Wait {
    syncobjs: Vec<Arc<Syncobj>>,
    points: Vec<u64>,
    flags: u32,
    timeout_nsec: i64,
}

impl HostedProcess {
    /// Answers an ioctl about syncobjs as DRM does; `None` for another ioctl.
    pub(super) fn syncobj_ioctl(&self, request: u32, arg: u64) -> Option<Result<()>> {
        const COMMANDS: [u32; 12] = [
            DRM_IOCTL_SYNCOBJ_CREATE,
            DRM_IOCTL_SYNCOBJ_DESTROY,
            DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
            DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE,
            DRM_IOCTL_SYNCOBJ_WAIT,
            DRM_IOCTL_SYNCOBJ_RESET,
            DRM_IOCTL_SYNCOBJ_SIGNAL,
            DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
            DRM_IOCTL_SYNCOBJ_QUERY,
            DRM_IOCTL_SYNCOBJ_TRANSFER,
            DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
            DRM_IOCTL_SYNCOBJ_EVENTFD,
        ];
        let known = *COMMANDS.iter().find(|known| ioc_nr(**known) == ioc_nr(request))?;
        Some(self.drm_call(known, request, arg, |data| match known {
            DRM_IOCTL_SYNCOBJ_CREATE => answer(data, |args| self.sync_create(args)),
            DRM_IOCTL_SYNCOBJ_DESTROY => self.sync_destroy(&read(data)?),
            DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD => answer(data, |args| self.sync_to_fd(args)),
            DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE => answer(data, |args| self.sync_of_fd(args)),
            DRM_IOCTL_SYNCOBJ_WAIT => answer(data, |args| self.sync_wait(args)),
            DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT => answer(data, |args| self.sync_timeline_wait(args)),
            DRM_IOCTL_SYNCOBJ_RESET => self.sync_set(&read(data)?, None),
            DRM_IOCTL_SYNCOBJ_SIGNAL => self.sync_set(&read(data)?, Some(&Arc::new(Fence::over()))),
            DRM_IOCTL_SYNCOBJ_QUERY => self.sync_query(&read(data)?),
            DRM_IOCTL_SYNCOBJ_EVENTFD => self.sync_eventfd(&read(data)?),
            DRM_IOCTL_SYNCOBJ_TRANSFER => self.sync_transfer(&read(data)?),
            _ => self.sync_timeline_signal(&read(data)?),
        }))
    }

    /// Copies an array of the calling program's; `count` is not 0.
    fn user_array<T: FromBytes + IntoBytes + Clone + Default + zerocopy::Immutable>(
        &self,
        at: u64,
        count: u32,
    ) -> Result<Vec<T>> {
        if count as usize > MAX_HANDLES {
            return Err(Errno::ENOMEM);
        }
        let mut values = vec![T::default(); count as usize];
        self.os().copy_from_user(values.as_mut_slice().as_mut_bytes(), at)?;
        Ok(values)
    }

    /// The syncobjs that an array names (`drm_syncobj_array_find`).
    fn sync_array(&self, at: u64, count: u32) -> Result<Vec<Arc<Syncobj>>> {
        let handles: Vec<u32> = self.user_array(at, count)?;
        handles.into_iter().map(|handle| self.syncobjs.get(handle, Errno::ENOENT)).collect()
    }

    fn sync_create(&self, mut args: DrmSyncobjCreate) -> Result<DrmSyncobjCreate> {
        if args.flags & !DRM_SYNCOBJ_CREATE_SIGNALED != 0 {
            return Err(Errno::EINVAL);
        }
        let over = (args.flags != 0).then(|| vec![Arc::new(Fence::over())]);
        args.handle = self.syncobjs.insert(Syncobj::of(over))?;
        Ok(args)
    }

    fn sync_destroy(&self, args: &DrmSyncobjCreate) -> Result<()> {
        if args.flags != 0 {
            return Err(Errno::EINVAL);
        }
        let gone = lock(&self.syncobjs.table).remove(&args.handle);
        gone.map(drop).ok_or(Errno::EINVAL)
    }

    fn sync_to_fd(&self, mut args: DrmSyncobjHandle) -> Result<DrmSyncobjHandle> {
        let syncs = self.hosted.syncs();
        args.fd = match (args.flags, args.pad) {
            (0, 0) => syncs.descriptor(Shared::Syncobj(self.syncobjs.get(args.handle, Errno::EINVAL)?))?,
            (DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE, 0) => {
                let syncobj = self.syncobjs.get(args.handle, Errno::ENOENT)?;
                syncs.descriptor(Shared::file(syncobj.find(0).ok_or(Errno::EINVAL)?))?
            }
            _ => return Err(Errno::EINVAL),
        };
        Ok(args)
    }

    fn sync_of_fd(&self, mut args: DrmSyncobjHandle) -> Result<DrmSyncobjHandle> {
        let syncs = self.hosted.syncs();
        match (args.flags, args.pad) {
            (0, 0) => match syncs.get(args.fd)? {
                Shared::Syncobj(syncobj) => args.handle = self.syncobjs.insert(syncobj)?,
                Shared::File { .. } => return Err(Errno::EINVAL),
            },
            (DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, 0) => {
                let Shared::File { ends, .. } = syncs.get(args.fd)? else { return Err(Errno::EINVAL) };
                self.syncobjs.get(args.handle, Errno::ENOENT)?.replace(Some(ends));
                syncs.look();
            }
            _ => return Err(Errno::EINVAL),
        }
        Ok(args)
    }

    /// RESET and SIGNAL.
    fn sync_set(&self, args: &DrmSyncobjArray, fence: Option<&Arc<Fence>>) -> Result<()> {
        if args.pad != 0 || args.count_handles == 0 {
            return Err(Errno::EINVAL);
        }
        for syncobj in self.sync_array(args.handles, args.count_handles)? {
            syncobj.replace(fence.map(|fence| vec![fence.clone()]));
        }
        self.hosted.syncs().look();
        Ok(())
    }

    fn sync_timeline_signal(&self, args: &DrmSyncobjTimelineArray) -> Result<()> {
        if args.flags != 0 || args.count_handles == 0 {
            return Err(Errno::EINVAL);
        }
        let syncobjs = self.sync_array(args.handles, args.count_handles)?;
        let points = match args.points {
            0 => vec![0; syncobjs.len()],
            at => self.user_array(at, args.count_handles)?,
        };
        if !syncobjs.iter().all(|syncobj| syncobj.has_room()) {
            return Err(Errno::ENOMEM);
        }
        for (syncobj, point) in syncobjs.iter().zip(points) {
            syncobj.add(point, vec![Arc::new(Fence::over())]);
        }
        self.hosted.syncs().look();
        Ok(())
    }

    fn sync_query(&self, args: &DrmSyncobjTimelineArray) -> Result<()> {
        if args.flags & !DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED != 0 || args.count_handles == 0 {
            return Err(Errno::EINVAL);
        }
        let syncobjs = self.sync_array(args.handles, args.count_handles)?;
        let points: Vec<u64> = syncobjs.iter().map(|syncobj| syncobj.query(args.flags != 0)).collect();
        self.os().copy_to_user(args.points, points.as_bytes())
    }

    fn sync_transfer(&self, args: &DrmSyncobjTransfer) -> Result<()> {
        if args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let DrmSyncobjTransfer { src_handle, dst_handle, src_point, dst_point, flags, .. } = *args;
        let target = self.syncobjs.get(dst_handle, Errno::ENOENT)?;
        let ends = self.sync_find(SyncPoint { handle: src_handle, point: src_point, flags })?;
        put(&target, dst_point, ends);
        self.hosted.syncs().look();
        Ok(())
    }

    /// Has an eventfd hear of a point (`drm_syncobj_eventfd_ioctl`).
    fn sync_eventfd(&self, args: &DrmSyncobjEventfd) -> Result<()> {
        if args.flags & !DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE != 0 || args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let syncobj = self.syncobjs.get(args.handle, Errno::ENOENT)?;
        self.hosted.syncs().tell(Event::new(args.fd, &syncobj, args.point, args.flags != 0)?);
        Ok(())
    }

    fn sync_wait(&self, mut args: DrmSyncobjWait) -> Result<DrmSyncobjWait> {
        const FLAGS: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL
            | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
            | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE;
        if args.flags & !FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        if args.count_handles > 0 {
            let syncobjs = self.sync_array(args.handles, args.count_handles)?;
            let points = vec![0; syncobjs.len()];
            let DrmSyncobjWait { flags, timeout_nsec, .. } = args;
            args.first_signaled = self.sync_wait_for(&Wait { syncobjs, points, flags, timeout_nsec })?;
        }
        Ok(args)
    }

    fn sync_timeline_wait(&self, mut args: DrmSyncobjTimelineWait) -> Result<DrmSyncobjTimelineWait> {
        const FLAGS: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL
            | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT
            | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE
            | DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE;
        if args.flags & !FLAGS != 0 {
            return Err(Errno::EINVAL);
        }
        if args.count_handles > 0 {
            let syncobjs = self.sync_array(args.handles, args.count_handles)?;
            let points = self.user_array(args.points, args.count_handles)?;
            let DrmSyncobjTimelineWait { flags, timeout_nsec, .. } = args;
            args.first_signaled = self.sync_wait_for(&Wait { syncobjs, points, flags, timeout_nsec })?;
        }
        Ok(args)
    }

    /// Waits for all or any; returns the first that is over (`drm_syncobj_array_wait_timeout`).
    fn sync_wait_for(&self, wait: &Wait) -> Result<u32> {
        let changed = self.hosted.syncs().changed();
        let available = wait.flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE != 0;
        let may_come = available || wait.flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT != 0;
        let all = wait.flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL != 0;
        loop {
            let ticket = changed.ticket();
            let (mut first, mut count) = (u32::MAX, 0);
            for (at, (syncobj, &point)) in wait.syncobjs.iter().zip(&wait.points).enumerate() {
                match syncobj.find(point) {
                    Some(ends) if available || are_over(&ends) => {
                        first = first.min(at as u32);
                        count += 1;
                    }
                    None if !may_come => return Err(Errno::EINVAL),
                    _ => {}
                }
            }
            if count == wait.syncobjs.len() || count > 0 && !all {
                return Ok(first);
            }
            let now = self.os().clock_ns(Clock::Monotonic);
            // What is negative is long past.
            let left = u64::try_from(wait.timeout_nsec).unwrap_or(0).saturating_sub(now);
            if left == 0 {
                return Err(Errno::ETIME);
            }
            changed.wait(ticket, Some(left.min(LOOK_NS)));
            self.files.iter().for_each(|file| file.client.pump());
        }
    }

    /// Content of a syncobj at a point, after waiting for the point to be there if the flags ask for it
    /// (`drm_syncobj_find_fence`).
    fn sync_find(&self, at: SyncPoint) -> Result<Ends> {
        let syncobj = self.syncobjs.get(at.handle, Errno::ENOENT)?;
        let start = self.os().clock_ns(Clock::Monotonic);
        loop {
            let ticket = self.hosted.syncs().changed().ticket();
            if let Some(ends) = syncobj.find(at.point) {
                return Ok(ends);
            }
            if at.flags & DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT == 0 {
                return Err(Errno::EINVAL);
            }
            let passed = self.os().clock_ns(Clock::Monotonic).saturating_sub(start);
            let left = FOR_SUBMIT_NS.checked_sub(passed).ok_or(Errno::ETIME)?;
            self.hosted.syncs().changed().wait(ticket, Some(left.min(LOOK_NS)));
        }
    }

    /// The end of new work.
    pub(super) fn new_fence(&self) -> Arc<Fence> {
        Arc::new(Fence::new(Some(Arc::new(HostedFence::new(self.hosted.syncs())))))
    }

    /// Work that a submission waits for.
    pub(super) fn awaited(&self, at: SyncPoint) -> Result<Awaited> {
        self.sync_find(at).map(Awaited::Here)
    }

    /// Target that receives the fence of a submission's work.
    pub(super) fn target(&self, at: SyncPoint) -> Result<Box<dyn SyncTarget>> {
        let syncobj = self.syncobjs.get(at.handle, Errno::EINVAL)?;
        Ok(Box::new(Target { syncobj, point: at.point, syncs: self.hosted.syncs().clone() }))
    }

    /// Work as a syncobj or a sync file.
    pub(super) fn exported(&self, fence: Option<&Arc<Fence>>, to: SyncExport) -> Result<u32> {
        let ends = vec![fence.cloned().unwrap_or_else(|| Arc::new(Fence::over()))];
        let shared = match to {
            SyncExport::Syncobj => return self.syncobjs.insert(Syncobj::of(Some(ends))),
            SyncExport::SyncobjFd => Shared::Syncobj(Syncobj::of(Some(ends))),
            SyncExport::SyncFileFd => Shared::file(ends),
        };
        self.hosted.syncs().descriptor(shared).map(|fd| fd as u32)
    }
}

/// Runs a function over the structure at the front of `data`, and puts its answer there.
fn answer<T: FromBytes + IntoBytes + zerocopy::Immutable>(
    data: &mut [u8],
    run: impl FnOnce(T) -> Result<T>,
) -> Result<()> {
    run(read(data)?)?.write_to_prefix(data).map_err(|_| Errno::EINVAL)
}
