//! Eventfds that hear of syncobjs, and the ioctls of sync files.

use super::syncobjs::{close, gated, is_ready, point, sem};
use super::*;

const AVAILABLE: u32 = DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE;

fn eventfd() -> i32 {
    // SAFETY: makes a descriptor.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    assert!(fd >= 0);
    fd
}

/// Reads and resets the counter of an eventfd.
fn counted(fd: i32) -> u64 {
    let mut value = 0u64;
    // SAFETY: eight bytes of the function's own.
    let count = unsafe { libc::read(fd, (&raw mut value).cast(), 8) };
    if count == 8 { value } else { 0 }
}

impl File {
    fn eventfd(&self, handle: u32, point: u64, flags: u32, fd: i32) -> Result<i32, Errno> {
        let mut args = DrmSyncobjEventfd { handle, flags, point, fd, pad: 0 };
        self.call(DRM_IOCTL_SYNCOBJ_EVENTFD, &mut args)
    }

    fn sync_file<T>(&self, fd: i32, request: u32, args: &mut T) -> Option<Result<i32, Errno>> {
        self.process.sync_file_ioctl(fd, request, std::ptr::from_mut(args).cast())
    }

    fn info(&self, fd: i32) -> (SyncFileInfo, Vec<SyncFenceInfo>) {
        let mut args = SyncFileInfo::default();
        assert_eq!(self.sync_file(fd, SYNC_IOC_FILE_INFO, &mut args), Some(Ok(0)));
        let mut fences = vec![SyncFenceInfo::default(); args.num_fences as usize];
        let short = args.status;
        args.sync_fence_info = fences.as_mut_ptr() as u64;
        assert_eq!(self.sync_file(fd, SYNC_IOC_FILE_INFO, &mut args), Some(Ok(0)));
        assert_eq!(args.status, short, "with fences and without");
        (args, fences)
    }

    fn merge(&self, fd: i32, fd2: i32) -> Result<i32, Errno> {
        let mut args = SyncMergeData { name: [b'm'; 32], fd2, ..Default::default() };
        self.sync_file(fd, SYNC_IOC_MERGE, &mut args).unwrap().map(|_| args.fence)
    }
}

#[test]
fn eventfds_hear_of_points_once() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let (timeline, plain) = (file.syncobj(0), file.syncobj(0));
    let [ib, gate, data] = [(); 3].map(|()| file.memory(PAGE, GTT));
    let [over, there, any, never] = [(); 4].map(|()| eventfd());
    file.eventfd(timeline, 5, 0, over).unwrap();
    file.eventfd(timeline, 5, AVAILABLE, there).unwrap();
    file.eventfd(plain, 0, 0, any).unwrap();
    file.eventfd(timeline, 6, 0, never).unwrap();
    assert_eq!([over, there, any, never].map(counted), [0; 4], "nothing is there");
    let work =
        gated(ib, gate, (data.va, 1)).chunk(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &point(timeline, 5));
    let number = file.submit(&work).unwrap();
    assert_eq!([over, there, any, never].map(counted), [0, 1, 0, 0], "it is there and not over");
    file.set(DRM_IOCTL_SYNCOBJ_SIGNAL, plain).unwrap();
    assert_eq!(counted(any), 1);
    // A syncobj that is emptied does not take back the work that was found in it.
    file.set(DRM_IOCTL_SYNCOBJ_RESET, timeline).unwrap();
    gate.words[0].store(1, Ordering::Release);
    file.wait(number, AMDGPU_HW_IP_COMPUTE).unwrap();
    assert_eq!([over, there, any, never].map(counted), [1, 0, 0, 0]);
    // An event that has happened already is told at once.
    file.eventfd(plain, 0, 0, any).unwrap();
    file.eventfd(plain, 0, AVAILABLE, any).unwrap();
    assert_eq!(counted(any), 2);
    // A full one does not keep the driver.
    let most = u64::MAX - 1;
    // SAFETY: eight bytes of the test's own.
    assert_eq!(unsafe { libc::write(there, (&raw const most).cast(), 8) }, 8);
    file.eventfd(plain, 0, 0, there).unwrap();
    assert_eq!(counted(there), most);
    // Descriptors of the program may go; the driver has its own.
    file.eventfd(timeline, 1, 0, never).unwrap();
    [over, there, any, never].into_iter().for_each(close);
    file.point_signal(timeline, 9).unwrap();
}

#[test]
fn eventfds_are_refused_as_drm_refuses_them() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let syncobj = file.syncobj(0);
    let fd = eventfd();
    let shared = file.to_fd(syncobj, 0).unwrap();
    for (what, handle, flags, fd, errno) in [
        ("an unknown flag", syncobj, 1, fd, Errno::EINVAL),
        ("a bad handle", 99, 0, fd, Errno::ENOENT),
        ("no descriptor", syncobj, 0, -1, Errno::EBADF),
        ("another file", syncobj, 0, shared, Errno::EINVAL),
    ] {
        assert_eq!(file.eventfd(handle, 0, flags, fd), Err(errno), "{what}");
    }
    let mut padded = DrmSyncobjEventfd { handle: syncobj, fd, pad: 1, ..Default::default() };
    assert_eq!(file.call(DRM_IOCTL_SYNCOBJ_EVENTFD, &mut padded), Err(Errno::EINVAL));
    file.set(DRM_IOCTL_SYNCOBJ_SIGNAL, syncobj).unwrap();
    assert_eq!(counted(fd), 0, "none was taken");
    [fd, shared].into_iter().for_each(close);
}

#[test]
fn sync_files_tell_what_is_in_them_and_are_merged() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [ib, gate, data] = [(); 3].map(|()| file.memory(PAGE, GTT));
    let (work, over) = (file.syncobj(0), file.syncobj(DRM_SYNCOBJ_CREATE_SIGNALED));
    let number =
        file.submit(&gated(ib, gate, (data.va, 1)).chunk(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &sem(work))).unwrap();
    let export = |handle| file.to_fd(handle, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE).unwrap();
    let (pending, done) = (export(work), export(over));
    let both = file.merge(done, pending).unwrap();
    let neither = file.merge(done, done).unwrap();
    for (fd, status) in [(pending, 0), (done, 1), (both, 0), (neither, 1)] {
        let (args, fences) = file.info(fd);
        assert_eq!((args.status, args.num_fences), (status, 1));
        assert_eq!((fences[0].status, fences[0].timestamp_ns), (status, 0));
        assert_eq!(is_ready(fd), status == 1);
    }
    let (args, fences) = file.info(both);
    assert_eq!((&args.name[..31], args.name[31]), (&[b'm'; 31][..], 0), "the name it was given");
    assert_eq!((&fences[0].driver_name[..7], &fences[0].obj_name[..7]), (&b"amdgpu\0"[..], &b"belfry\0"[..]));
    gate.words[0].store(1, Ordering::Release);
    file.wait(number, AMDGPU_HW_IP_COMPUTE).unwrap();
    let (args, fences) = file.info(both);
    assert_eq!((args.status, fences[0].status), (1, 1));
    assert!(fences[0].timestamp_ns > 0 && is_ready(both));
    let mut deadline = SyncSetDeadline::default();
    assert_eq!(file.sync_file(both, SYNC_IOC_SET_DEADLINE, &mut deadline), Some(Ok(0)));
    // The merged one goes into a syncobj as any other.
    let there = file.syncobj(0);
    file.of_fd(there, DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE, both).unwrap();
    assert_eq!(file.sync_wait(&[there], 0, 0), Ok(0));
    [pending, done, both, neither].into_iter().for_each(close);
}

#[test]
fn ioctls_of_sync_files_are_refused_as_linux_refuses_them() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let over = file.syncobj(DRM_SYNCOBJ_CREATE_SIGNALED);
    let done = file.to_fd(over, DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE).unwrap();
    let shared = file.to_fd(over, 0).unwrap();
    let inval = Some(Err(Errno::EINVAL));
    let mut args = SyncMergeData { fd2: done, flags: 1, ..Default::default() };
    assert_eq!(file.sync_file(done, SYNC_IOC_MERGE, &mut args), inval);
    args = SyncMergeData { fd2: done, pad: 1, ..Default::default() };
    assert_eq!(file.sync_file(done, SYNC_IOC_MERGE, &mut args), inval);
    for fd2 in [-1, 0, shared] {
        assert_eq!(file.merge(done, fd2), Err(Errno::ENOENT), "{fd2}");
    }
    let mut info = SyncFileInfo { flags: 1, ..Default::default() };
    assert_eq!(file.sync_file(done, SYNC_IOC_FILE_INFO, &mut info), inval);
    info = SyncFileInfo { num_fences: 1, sync_fence_info: 8, ..Default::default() };
    assert_eq!(file.sync_file(done, SYNC_IOC_FILE_INFO, &mut info), Some(Err(Errno::EFAULT)));
    let mut deadline = SyncSetDeadline { deadline_ns: 0, pad: 1 };
    assert_eq!(file.sync_file(done, SYNC_IOC_SET_DEADLINE, &mut deadline), inval);
    for request in [SYNC_IOC_MERGE, SYNC_IOC_FILE_INFO, SYNC_IOC_SET_DEADLINE] {
        let bad = file.process.sync_file_ioctl(done, request, 8 as *mut libc::c_void);
        assert_eq!(bad, Some(Err(Errno::EFAULT)), "{request:#x}");
        assert_eq!(file.sync_file(shared, request, &mut [0u64; 8]), Some(Err(Errno::ENOTTY)), "a syncobj");
        assert_eq!(file.sync_file(0, request, &mut [0u64; 8]), None, "no descriptor of the driver's");
    }
    assert_eq!(file.sync_file(done, 0xc030_3e01, &mut [0u64; 8]), Some(Err(Errno::ENOTTY)), "another number");
    [done, shared].into_iter().for_each(close);
}
