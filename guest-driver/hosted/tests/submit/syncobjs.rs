//! Syncobjs: DRM's ioctls about them, and submissions that wait for them and go into them.

use super::*;

const ALL: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL;
const FOR_SUBMIT: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT;
const AVAILABLE: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;
/// A time in the far future.
const LATER: i64 = i64::MAX;

impl File {
    pub(crate) fn syncobj(&self, flags: u32) -> u32 {
        let mut args = DrmSyncobjCreate { handle: 0, flags };
        self.call(DRM_IOCTL_SYNCOBJ_CREATE, &mut args).unwrap();
        args.handle
    }

    /// Waits for syncobjs; returns the first that is over.
    pub(crate) fn sync_wait(&self, handles: &[u32], flags: u32, timeout_nsec: i64) -> Result<u32, Errno> {
        let mut args = DrmSyncobjWait {
            handles: handles.as_ptr() as u64,
            count_handles: handles.len() as u32,
            flags,
            timeout_nsec,
            ..Default::default()
        };
        self.call(DRM_IOCTL_SYNCOBJ_WAIT, &mut args).map(|_| args.first_signaled)
    }

    fn point_wait(&self, handle: u32, point: u64, flags: u32, timeout_nsec: i64) -> Result<u32, Errno> {
        let mut args = DrmSyncobjTimelineWait {
            handles: &raw const handle as u64,
            points: &raw const point as u64,
            count_handles: 1,
            flags,
            timeout_nsec,
            ..Default::default()
        };
        self.call(DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT, &mut args).map(|_| args.first_signaled)
    }

    pub(crate) fn set(&self, command: u32, handle: u32) -> Result<i32, Errno> {
        let mut args = DrmSyncobjArray { handles: &raw const handle as u64, count_handles: 1, pad: 0 };
        self.call(command, &mut args)
    }

    pub(crate) fn point_signal(&self, handle: u32, point: u64) -> Result<i32, Errno> {
        let mut args = DrmSyncobjTimelineArray {
            handles: &raw const handle as u64,
            points: &raw const point as u64,
            count_handles: 1,
            flags: 0,
        };
        self.call(DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL, &mut args)
    }

    fn query(&self, handle: u32, flags: u32) -> Result<u64, Errno> {
        let mut point = u64::MAX;
        let mut args = DrmSyncobjTimelineArray {
            handles: &raw const handle as u64,
            points: &raw mut point as u64,
            count_handles: 1,
            flags,
        };
        self.call(DRM_IOCTL_SYNCOBJ_QUERY, &mut args).map(|_| point)
    }

    pub(crate) fn to_fd(&self, handle: u32, flags: u32) -> Result<i32, Errno> {
        let mut args = DrmSyncobjHandle { handle, flags, fd: -1, pad: 0 };
        self.call(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut args).map(|_| args.fd)
    }

    pub(crate) fn of_fd(&self, handle: u32, flags: u32, fd: i32) -> Result<u32, Errno> {
        let mut args = DrmSyncobjHandle { handle, flags, fd, pad: 0 };
        self.call(DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE, &mut args).map(|_| args.handle)
    }
}

/// Work that waits for the gate and then writes.
pub(crate) fn gated(ib: Memory, gate: Memory, target: (u64, u32)) -> Work {
    let packets = [wait_mem(gate.va, 1), write(target.0, target.1)].concat();
    File::fill(ib, &packets);
    Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE)
}

pub(crate) fn sem(handle: u32) -> CsChunkSem {
    CsChunkSem { handle }
}

pub(crate) fn point(handle: u32, point: u64) -> CsChunkSyncobj {
    CsChunkSyncobj { handle, flags: 0, point }
}

/// Returns true if a descriptor is readable now.
pub(crate) fn is_ready(fd: i32) -> bool {
    let mut poll = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which is the function's own.
    unsafe { libc::poll(&raw mut poll, 1, 0) == 1 && poll.revents & libc::POLLIN != 0 }
}

pub(crate) fn close(fd: i32) {
    // SAFETY: the descriptor is the test's own.
    unsafe { libc::close(fd) };
}

#[test]
fn work_goes_into_syncobjs_and_waits_for_those_of_another_file() {
    let gpu = gpu();
    let (one, two) = (File::open(&gpu), File::open(&gpu));
    let [ib, gate, data] = [(); 3].map(|()| one.memory(PAGE, GTT));
    let syncobj = one.syncobj(0);
    let work = gated(ib, gate, (data.va, 1)).chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem(syncobj));
    let number = one.submit(&work).unwrap();
    assert_eq!(one.sync_wait(&[syncobj], 0, 0), Err(Errno::ETIME), "it is not over");
    // Another file has the same syncobj by a descriptor.
    let fd = one.to_fd(syncobj, 0).unwrap();
    let there = two.of_fd(0, 0, fd).unwrap();
    close(fd);
    let [second, target] = [(); 2].map(|()| two.memory(PAGE, GTT));
    let packets = write(target.va, 2);
    File::fill(second, &packets);
    let after = Work::default()
        .ib(second, packets.len(), AMDGPU_HW_IP_COMPUTE)
        .chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem(there));
    let next = two.submit(&after).unwrap();
    assert_eq!(two.wait_on(next, (AMDGPU_HW_IP_COMPUTE, 0), 0), Ok(1), "the other file's work is not over");
    gate.words[0].store(1, Ordering::Release);
    assert_eq!(two.wait(next, AMDGPU_HW_IP_COMPUTE), Ok(0));
    assert_eq!(data.words[0].load(Ordering::Acquire), 1);
    assert_eq!(one.sync_wait(&[syncobj], ALL, LATER), Ok(0));
    assert_eq!(one.wait_on(number, (AMDGPU_HW_IP_COMPUTE, 0), 0), Ok(0));
    one.set(DRM_IOCTL_SYNCOBJ_RESET, syncobj).unwrap();
    assert_eq!(two.submit(&after), Err(Errno::EINVAL), "nothing is in it");
}

#[test]
fn points_of_a_timeline_are_reached_in_order() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let timeline = file.syncobj(0);
    let [first, second, gate, data] = [(); 4].map(|()| file.memory(PAGE, GTT));
    let work =
        gated(first, gate, (data.va, 1)).chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point(timeline, 10));
    file.submit(&work).unwrap();
    let packets = write(data.va + 4, 2);
    File::fill(second, &packets);
    // Another ring's work, which would be over at once, comes after point 10.
    let work = Work::default()
        .ib_on(second, packets.len(), AMDGPU_HW_IP_COMPUTE, 1)
        .chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &point(timeline, 7))
        .chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point(timeline, 20));
    let last = file.submit(&work).unwrap();
    file.point_signal(timeline, 30).unwrap();
    let submitted = DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED;
    assert_eq!((file.query(timeline, 0), file.query(timeline, submitted)), (Ok(0), Ok(30)));
    assert_eq!(file.point_wait(timeline, 30, 0, 0), Err(Errno::ETIME));
    assert_eq!(file.point_wait(timeline, 30, AVAILABLE, 0), Ok(0), "it is there");
    assert_eq!(file.point_wait(timeline, 31, 0, 0), Err(Errno::EINVAL), "it is not");
    assert_eq!(file.point_wait(timeline, 31, FOR_SUBMIT, 0), Err(Errno::ETIME));
    gate.words[0].store(1, Ordering::Release);
    assert_eq!(file.point_wait(timeline, 15, 0, LATER), Ok(0));
    assert_eq!(file.wait_on(last, (AMDGPU_HW_IP_COMPUTE, 1), 0), Ok(0));
    assert_eq!(file.query(timeline, 0), Ok(30));
    let words = [0, 1].map(|at| data.words[at].load(Ordering::Acquire));
    assert_eq!(words, [1, 2]);
    // A point becomes a syncobj without points, and that a point of another.
    let (plain, other) = (file.syncobj(0), file.syncobj(0));
    for (src_handle, dst_handle, src_point, dst_point) in [(timeline, plain, 20, 0), (plain, other, 0, 4)] {
        let mut args =
            DrmSyncobjTransfer { src_handle, dst_handle, src_point, dst_point, ..Default::default() };
        file.call(DRM_IOCTL_SYNCOBJ_TRANSFER, &mut args).unwrap();
    }
    assert_eq!((file.query(plain, 0), file.query(other, 0)), (Ok(0), Ok(4)));
    assert_eq!(file.sync_wait(&[plain], 0, 0), Ok(0));
}

#[test]
fn waits_are_for_all_or_any_and_for_what_comes_later() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let (empty, over) = (file.syncobj(0), file.syncobj(DRM_SYNCOBJ_CREATE_SIGNALED));
    assert_eq!(file.sync_wait(&[empty, over], 0, LATER), Err(Errno::EINVAL), "nothing is in the first");
    assert_eq!(file.sync_wait(&[empty, over], FOR_SUBMIT, LATER), Ok(1));
    assert_eq!(file.sync_wait(&[empty, over], FOR_SUBMIT | ALL, 0), Err(Errno::ETIME));
    assert_eq!(file.sync_wait(&[], 0, 0), Ok(0));
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| file_wait(&file.process, empty));
        std::thread::sleep(std::time::Duration::from_millis(20));
        file.set(DRM_IOCTL_SYNCOBJ_SIGNAL, empty).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(0));
    });
    assert_eq!(file.sync_wait(&[empty, over], ALL, 0), Ok(0));
}

/// Waits on another thread for a point that is not there yet.
fn file_wait(process: &HostedProcess, handle: u32) -> Result<i32, Errno> {
    let mut args = DrmSyncobjWait {
        handles: &raw const handle as u64,
        count_handles: 1,
        flags: FOR_SUBMIT,
        timeout_nsec: LATER,
        ..Default::default()
    };
    call(process, Node::Render, DRM_IOCTL_SYNCOBJ_WAIT, &mut args)
}

#[test]
fn work_becomes_sync_files_that_poll_as_they_should() {
    let gpu = gpu();
    let (file, other) = (File::open(&gpu), File::open(&gpu));
    let [ib, gate, data] = [(); 3].map(|()| file.memory(PAGE, GTT));
    let number = file.submit(&gated(ib, gate, (data.va, 1))).unwrap();
    let export = |what, seq_no| {
        let fence = DrmAmdgpuFence {
            ctx_id: file.context,
            ip_type: AMDGPU_HW_IP_COMPUTE,
            ip_instance: 0,
            ring: 0,
            seq_no,
        };
        let mut args = FenceToHandleIn { fence, what, pad: 0 };
        file.call(FENCE_TO_HANDLE, &mut args).map(|_| args.fence.ctx_id)
    };
    let sync_file = export(AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, number).unwrap() as i32;
    let syncobj = export(AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ, number).unwrap();
    let descriptor = export(AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD, number).unwrap() as i32;
    assert_eq!(export(3, number), Err(Errno::EINVAL), "an unknown form");
    assert_eq!(export(0, number + 1), Err(Errno::EINVAL), "work that is not there");
    let import = DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE;
    let there = other.syncobj(0);
    other.of_fd(there, import, sync_file).unwrap();
    assert_eq!(other.of_fd(there, import, descriptor), Err(Errno::EINVAL), "a syncobj is no sync file");
    assert_eq!(other.of_fd(0, 0, sync_file), Err(Errno::EINVAL), "nor the other way round");
    let same = other.of_fd(0, 0, descriptor).unwrap();
    let again = other.to_fd(same, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE).unwrap();
    assert!(!is_ready(sync_file) && !is_ready(again), "the work is not over");
    assert_eq!(other.sync_wait(&[there, same], 0, 0), Err(Errno::ETIME));
    gate.words[0].store(1, Ordering::Release);
    assert_eq!(other.sync_wait(&[there, same], ALL, LATER), Ok(0));
    assert_eq!(file.sync_wait(&[syncobj], 0, 0), Ok(0));
    assert!(is_ready(sync_file) && is_ready(again), "the work is over");
    // What is over long ago is over.
    for _ in 0..40 {
        let packets = write(data.va, 2);
        File::fill(ib, &packets);
        let number = file.submit(&Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE)).unwrap();
        file.wait(number, AMDGPU_HW_IP_COMPUTE).unwrap();
    }
    let old = export(AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, 1).unwrap() as i32;
    assert!(is_ready(old));
    [sync_file, descriptor, again, old].into_iter().for_each(close);
}

#[test]
fn work_that_is_ended_ends_what_waits_for_it() {
    let gpu = gpu();
    let (file, other) = (File::open(&gpu), File::open(&gpu));
    let [ib, gate, data] = [(); 3].map(|()| file.memory(PAGE, GTT));
    let syncobj = file.syncobj(0);
    let work = gated(ib, gate, (data.va, 1)).chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem(syncobj));
    file.submit(&work).unwrap();
    let fd = file.to_fd(syncobj, 0).unwrap();
    let there = other.of_fd(0, 0, fd).unwrap();
    close(fd);
    drop(file);
    assert_eq!(other.sync_wait(&[there], 0, LATER), Ok(0), "its file is closed");
}

#[test]
fn syncobjs_are_refused_as_drm_refuses_them() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let syncobj = file.syncobj(0);
    let (inval, noent) = (Errno::EINVAL, Errno::ENOENT);
    let create = |flags| file.call(DRM_IOCTL_SYNCOBJ_CREATE, &mut DrmSyncobjCreate { handle: 0, flags });
    assert_eq!(create(2), Err(inval));
    for (what, handle, flags, pad, errno) in [
        ("an unknown flag", syncobj, 2, 0, inval),
        ("padding", syncobj, 0, 1, inval),
        ("a bad handle", 99, 0, 0, inval),
        ("a bad handle for a sync file", 99, 1, 0, noent),
        ("a sync file of nothing", syncobj, 1, 0, inval),
    ] {
        let mut args = DrmSyncobjHandle { handle, flags, fd: -1, pad };
        assert_eq!(file.call(DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, &mut args), Err(errno), "{what}");
    }
    for (what, flags, fd) in
        [("no descriptor", 0, -1), ("a file", 0, 0), ("no sync file", 1, 0), ("a flag", 4, 0)]
    {
        assert_eq!(file.of_fd(syncobj, flags, fd), Err(inval), "{what}");
    }
    assert_eq!(file.sync_wait(&[syncobj, 99], ALL, 0), Err(noent));
    assert_eq!(file.sync_wait(&[syncobj], 1 << 9, 0), Err(inval));
    assert_eq!(file.sync_wait(&[syncobj], AVAILABLE, 0), Err(inval), "for points alone");
    assert_eq!(file.point_wait(99, 1, 0, 0), Err(noent));
    let mut bad = DrmSyncobjWait { handles: 8, count_handles: 1, ..Default::default() };
    assert_eq!(file.call(DRM_IOCTL_SYNCOBJ_WAIT, &mut bad), Err(Errno::EFAULT));
    bad = DrmSyncobjWait { handles: 8, count_handles: u32::MAX, ..Default::default() };
    assert_eq!(file.call(DRM_IOCTL_SYNCOBJ_WAIT, &mut bad), Err(Errno::ENOMEM));
    for command in [DRM_IOCTL_SYNCOBJ_RESET, DRM_IOCTL_SYNCOBJ_SIGNAL] {
        assert_eq!(file.set(command, 99), Err(noent));
        assert_eq!(file.call(command, &mut DrmSyncobjArray::default()), Err(inval), "none");
    }
    assert_eq!((file.query(99, 0), file.query(syncobj, 2)), (Err(noent), Err(inval)));
    for (what, args, errno) in [
        ("from a bad handle", (99, syncobj, 0), noent),
        ("to a bad handle", (syncobj, 99, 0), noent),
        ("what is not there", (syncobj, syncobj, 0), inval),
        ("padding", (syncobj, syncobj, 1), inval),
    ] {
        let (src_handle, dst_handle, pad) = args;
        let mut args = DrmSyncobjTransfer { src_handle, dst_handle, pad, ..Default::default() };
        assert_eq!(file.call(DRM_IOCTL_SYNCOBJ_TRANSFER, &mut args), Err(errno), "{what}");
    }
    let ib = file.memory(PAGE, GTT);
    let packets = write(ib.va + 64, 1);
    File::fill(ib, &packets);
    let good = Work::default().ib(ib, packets.len(), AMDGPU_HW_IP_COMPUTE);
    let out = good.clone().chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem(syncobj));
    let twice = out.clone().chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point(syncobj, 1));
    assert_eq!(file.submit(&twice), Err(inval), "two chunks of syncobjs that get it");
    let empty = good.clone().chunk(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &sem(syncobj));
    assert_eq!(file.submit(&empty), Err(inval), "nothing is in it");
    let destroy =
        |handle, flags| file.call(DRM_IOCTL_SYNCOBJ_DESTROY, &mut DrmSyncobjCreate { handle, flags });
    assert_eq!((destroy(syncobj, 1), destroy(syncobj, 0)), (Err(inval), Ok(0)));
    assert_eq!(destroy(syncobj, 0), Err(inval), "it is gone");
    let mut cap = DrmGetCap { capability: DRM_CAP_SYNCOBJ_TIMELINE, value: 0 };
    file.call(DRM_IOCTL_GET_CAP, &mut cap).unwrap();
    assert_eq!(cap.value, 1);
}
