//! Syncobjs as a kernel's DRM core has them (`drm_syncobj.c`, `dma-fence-chain.c`), and their descriptors.
//!
//! A descriptor is one end of a pair of sockets. A sync file's descriptor becomes readable when its work is over, so
//! that `poll` on it works as on Linux. The driver knows descriptors by their sockets; another process can only poll
//! them.

pub(crate) mod event;

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, IntoRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use belfry_device::time::TimeSource;
use belfry_kfd_core::drm::Fence;
use belfry_kfd_core::os::{SharedFence, WaitQueue as _};
use belfry_kfd_core::{Errno, Result};
use belfry_lock::{Mutex, rank};

use crate::dmabuf::Identity;
use crate::sync::{WaitQueue, lock};
use crate::time::monotonic_ns;

use event::Event;

/// Points of one syncobj that are not reached.
const MAX_POINTS: usize = 1 << 16;

/// Work that is over when all of it is.
pub(crate) type Ends = Vec<Arc<Fence>>;

/// Returns true if all of the work is over.
pub(crate) fn are_over(ends: &Ends) -> bool {
    ends.iter().all(|fence| fence.is_over())
}

/// Content of a syncobj.
#[derive(Debug, Default)]
struct Content {
    /// Set once there is anything in it.
    present: bool,
    /// Work without a point, which all points come after.
    base: Ends,
    /// Points that are not known to be reached, in order; each comes after those before it.
    points: VecDeque<(u64, Ends)>,
    /// The last point that is reached, and the last one there is; 0 for none.
    reached: u64,
    last: u64,
}

impl Content {
    /// Forgets work that is over.
    fn prune(&mut self) {
        if !are_over(&self.base) {
            return;
        }
        self.base.clear();
        while let Some((point, ends)) = self.points.front() {
            if !are_over(ends) {
                break;
            }
            self.reached = *point;
            self.points.pop_front();
        }
    }

    /// The work of a point, all work for 0 (`dma_fence_chain_find_seqno`); `None` when it is not there.
    fn find(&mut self, point: u64) -> Option<Ends> {
        self.prune();
        if !self.present || point > self.last {
            return None;
        }
        let mut ends = Ends::new();
        if point != 0 && self.reached >= point {
            return Some(ends);
        }
        ends.extend(self.base.iter().cloned());
        for (at, of_it) in &self.points {
            ends.extend(of_it.iter().cloned());
            if point != 0 && *at >= point {
                break;
            }
        }
        Some(ends)
    }
}

/// A syncobj.
#[derive(Debug, Default)]
pub(crate) struct Syncobj(Mutex<Content, rank::Syncobj>);

impl Syncobj {
    /// A syncobj that has this in it.
    pub(crate) fn of(ends: Option<Ends>) -> Arc<Self> {
        let syncobj = Arc::new(Self::default());
        syncobj.replace(ends);
        syncobj
    }

    /// The work of a point, all work for 0; `None` when it is not there.
    pub(crate) fn find(&self, point: u64) -> Option<Ends> {
        lock(&self.0).find(point)
    }

    /// Replaces the content by work, or by nothing (`drm_syncobj_replace_fence`).
    pub(crate) fn replace(&self, ends: Option<Ends>) {
        let present = ends.is_some();
        let new = Content { present, base: ends.unwrap_or_default(), ..Content::default() };
        // Dropped without the lock.
        drop(std::mem::replace(&mut *lock(&self.0), new));
    }

    /// Adds a point (`drm_syncobj_add_point`).
    pub(crate) fn add(&self, point: u64, ends: Ends) {
        let mut content = lock(&self.0);
        content.prune();
        if point <= content.last {
            // Points out of order are one with all before them.
            let before = std::mem::take(&mut content.points);
            content.base.extend(before.into_iter().flat_map(|(_, ends)| ends));
            content.reached = 0;
        }
        content.present = true;
        content.last = content.last.max(point);
        let last = content.last;
        content.points.push_back((last, ends));
    }

    /// Returns true if another point can be added.
    pub(crate) fn has_room(&self) -> bool {
        lock(&self.0).points.len() < MAX_POINTS
    }

    /// The last point that is reached, or with `submitted` the last one there is (`drm_syncobj_query_ioctl`).
    pub(crate) fn query(&self, submitted: bool) -> u64 {
        let mut content = lock(&self.0);
        content.prune();
        let all = content.base.is_empty() && content.points.is_empty();
        if submitted || all { content.last } else { content.reached }
    }
}

/// Object that a descriptor refers to.
#[derive(Clone)]
pub(crate) enum Shared {
    Syncobj(Arc<Syncobj>),
    File {
        /// The name that its maker gave it.
        name: Option<[u8; 32]>,
        ends: Ends,
    },
}

impl Shared {
    /// A sync file without a name.
    pub(crate) fn file(ends: Ends) -> Self {
        Self::File { name: None, ends }
    }
}

/// The driver's end of a descriptor.
struct Descriptor {
    what: Shared,
    /// `None` once the program's end is closed.
    end: Option<UnixStream>,
    identity: Identity,
    told: bool,
}

impl Descriptor {
    /// The other end, unless the program has closed it with descriptors of its own.
    fn end(&mut self) -> Option<&mut UnixStream> {
        let fd = self.end.as_ref()?.as_raw_fd();
        if Identity::of(fd).ok() != Some(self.identity) {
            // Its number may be another file's.
            let _ = self.end.take().map(IntoRawFd::into_raw_fd);
        }
        self.end.as_mut()
    }

    /// Returns true if the program's end is open.
    fn is_open(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.end().map(|end| end.read(&mut bytes)) {
            None | Some(Ok(0)) => false,
            Some(Err(error)) => matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
            Some(Ok(_)) => true,
        }
    }

    /// Makes a sync file readable whose work is over.
    fn look(&mut self) {
        let over = matches!(&self.what, Shared::File { ends, .. } if are_over(ends));
        if over && !std::mem::replace(&mut self.told, true) {
            let _ = self.end().map(|end| end.write(&[1]));
        }
    }
}

/// State that all syncobjs of a GPU share.
pub(crate) struct Syncs {
    changed: WaitQueue,
    /// By the program's end.
    descriptors: Mutex<BTreeMap<Identity, Descriptor>, rank::SyncDescriptors>,
    /// Eventfds that are to hear of something.
    events: Mutex<Vec<Event>, rank::SyncEvents>,
    /// Descriptors and events there are, so that work without them costs nothing.
    count: AtomicUsize,
    waiting: AtomicUsize,
}

impl std::fmt::Debug for Syncs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Syncs").field("descriptors", &self.count).finish_non_exhaustive()
    }
}

impl Syncs {
    pub(crate) fn new(time: &TimeSource) -> Arc<Self> {
        Arc::new(Self {
            changed: WaitQueue::new(time),
            descriptors: Mutex::default(),
            events: Mutex::default(),
            count: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        })
    }

    /// Queue on which waits sleep.
    pub(crate) fn changed(&self) -> &WaitQueue {
        &self.changed
    }

    /// Something may be over, or there.
    pub(crate) fn look(&self) {
        if self.count.load(Ordering::Acquire) > 0 {
            lock(&self.descriptors).values_mut().for_each(Descriptor::look);
        }
        if self.waiting.load(Ordering::Acquire) > 0 {
            self.look_at_events(None);
        }
        self.changed.wake_all();
    }

    /// Has an eventfd told of an event, at once if the event has happened already.
    pub(crate) fn tell(&self, event: Event) {
        self.look_at_events(Some(event));
    }

    fn look_at_events(&self, new: Option<Event>) {
        let mut events = lock(&self.events);
        // The event is counted before the look: work that ends from here on sees the count and reports its
        // end.
        self.waiting.store(events.len() + usize::from(new.is_some()), Ordering::SeqCst);
        events.extend(new);
        let rest = Event::look(&mut events);
        self.waiting.store(events.len(), Ordering::Release);
        drop(events);
        // The end of work may be told on the way.
        drop(rest);
    }

    /// Makes a descriptor, closed by `execve`.
    pub(crate) fn descriptor(&self, what: Shared) -> Result<RawFd> {
        let failed = |_| Errno::EMFILE;
        let (end, program) = UnixStream::pair().map_err(failed)?;
        end.set_nonblocking(true).map_err(failed)?;
        let identity = Identity::of(end.as_raw_fd()).map_err(failed)?;
        let key = Identity::of(program.as_raw_fd()).map_err(failed)?;
        let mut new = Descriptor { what, end: Some(end), identity, told: false };
        let mut descriptors = lock(&self.descriptors);
        let closed: Vec<Identity> = descriptors
            .iter_mut()
            .filter_map(|(key, descriptor)| (!descriptor.is_open()).then_some(*key))
            .collect();
        let gone: Vec<_> = closed.iter().map(|key| descriptors.remove(key)).collect();
        // The descriptor is counted before the look: work that ends from here on sees the count and reports
        // its end.
        self.count.store(descriptors.len() + 1, Ordering::Release);
        new.look();
        descriptors.insert(key, new);
        descriptors.values_mut().for_each(Descriptor::look);
        drop(descriptors);
        drop(gone);
        Ok(program.into_raw_fd())
    }

    /// Finds the object that a descriptor of the calling process refers to.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a descriptor of anything else.
    pub(crate) fn get(&self, fd: RawFd) -> Result<Shared> {
        let identity = Identity::of(fd).map_err(|_| Errno::EINVAL)?;
        lock(&self.descriptors).get(&identity).map(|found| found.what.clone()).ok_or(Errno::EINVAL)
    }
}

/// Tells syncobjs of the end of work.
pub(crate) struct HostedFence {
    syncs: Arc<Syncs>,
    /// When it was over, by the monotonic clock; 0 before.
    ended_ns: AtomicU64,
}

impl HostedFence {
    pub(crate) fn new(syncs: &Arc<Syncs>) -> Self {
        Self { syncs: syncs.clone(), ended_ns: AtomicU64::new(0) }
    }
}

impl SharedFence for HostedFence {
    fn signaled(&self, _: Result<()>) {
        self.ended_ns.store(monotonic_ns(), Ordering::Release);
        self.syncs.look();
    }
}

/// Time at which work was over, 0 before; `None` for work that was over from the beginning.
pub(crate) fn ended_ns(fence: &Fence) -> Option<u64> {
    let shared: &dyn Any = fence.shared()?.as_ref();
    shared.downcast_ref::<HostedFence>().map(|fence| fence.ended_ns.load(Ordering::Acquire))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fence() -> Arc<Fence> {
        Arc::new(Fence::new(None))
    }

    fn over() -> Arc<Fence> {
        Arc::new(Fence::over())
    }

    #[test]
    fn points_come_one_after_the_other_and_a_syncobj_without_them_has_the_last_work() {
        let syncobj = Syncobj::of(None);
        assert!(syncobj.find(0).is_none(), "nothing is there");
        let (one, two) = (fence(), fence());
        syncobj.add(3, vec![one.clone()]);
        syncobj.add(7, vec![over()]);
        syncobj.add(9, vec![two.clone()]);
        assert_eq!((syncobj.query(false), syncobj.query(true)), (0, 9));
        // Point 5 is reached with point 7, which comes after point 3.
        for (point, count) in [(1, 1), (3, 1), (5, 2), (7, 2), (8, 3), (9, 3), (0, 3)] {
            assert_eq!(syncobj.find(point).map(|ends| ends.len()), Some(count), "{point}");
        }
        assert!(syncobj.find(10).is_none());
        drop((one, two));
        syncobj.replace(Some(vec![over()]));
        assert_eq!((syncobj.query(false), syncobj.query(true)), (0, 0), "no points");
        assert!(syncobj.find(1).is_none());
        assert!(are_over(&syncobj.find(0).unwrap()));
    }

    #[test]
    fn reached_points_are_told_and_points_out_of_order_are_one() {
        let syncobj = Syncobj::of(Some(vec![fence()]));
        syncobj.add(2, vec![over()]);
        assert_eq!(syncobj.query(false), 0, "the work without a point comes first");
        let syncobj = Syncobj::of(None);
        syncobj.add(4, vec![over()]);
        assert_eq!((syncobj.query(false), syncobj.find(4).map(|ends| ends.len())), (4, Some(0)));
        syncobj.add(6, vec![fence()]);
        assert_eq!((syncobj.query(false), syncobj.find(4).map(|ends| ends.len())), (4, Some(0)));
        syncobj.add(5, vec![over()]);
        assert_eq!((syncobj.query(false), syncobj.query(true)), (0, 6));
        assert_eq!(syncobj.find(1).map(|ends| ends.len()), Some(2));
    }

    #[test]
    fn descriptors_are_readable_when_work_is_over_and_forgotten_when_closed() {
        let syncs = Syncs::new(&TimeSource::default());
        let work = Arc::new(Fence::new(Some(Arc::new(HostedFence::new(&syncs)))));
        let fd = syncs.descriptor(Shared::file(vec![work.clone()])).unwrap();
        let mut file = file_of(fd);
        file.set_nonblocking(true).unwrap();
        assert_eq!(file.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
        // The work is given up.
        assert!(matches!(syncs.get(fd), Ok(Shared::File { ends, .. }) if !are_over(&ends)));
        let ends = syncs.get(fd).ok();
        drop(ends);
        let done = syncs.descriptor(Shared::file(vec![over()])).unwrap();
        let mut done = file_of(done);
        assert_eq!(done.read(&mut [0; 8]).unwrap(), 1, "it is over already");
        drop((done, file));
        let last = syncs.descriptor(Shared::Syncobj(Syncobj::of(None))).unwrap();
        assert_eq!(lock(&syncs.descriptors).len(), 1, "the others were closed");
        assert!(matches!(syncs.get(last), Ok(Shared::Syncobj(_))));
        drop(file_of(last));
        assert!(syncs.get(0).is_err());
    }

    /// A descriptor as its program has it.
    #[expect(unsafe_code, reason = "takes a descriptor over")]
    fn file_of(fd: RawFd) -> UnixStream {
        // SAFETY: the descriptor is the test's own.
        unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
    }
}
