//! The ioctls of sync files (`drivers/dma-buf/sync_file.c`).

use std::os::fd::RawFd;
use std::sync::Arc;

use belfry_abi::kfd::drm::{
    SYNC_IOC_FILE_INFO, SYNC_IOC_MERGE, SYNC_IOC_SET_DEADLINE, SyncFenceInfo, SyncFileInfo, SyncMergeData,
    SyncSetDeadline,
};
use belfry_kfd_core::drm::Fence;
use belfry_kfd_core::os::Os as _;
use belfry_kfd_core::{Errno, Result};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use super::{HostedProcess, calling};
use crate::syncobj::{Ends, Shared, are_over, ended_ns};

/// Driver name of the fences of the guest's driver (`guest-driver/linux/fence.c`).
const DRIVER: &str = "amdgpu";
const TIMELINE: &str = "belfry";
/// Kernel's name of a fence that was over from the beginning.
const STUB: &str = "stub";

/// A name in its field, which a zero ends.
fn named(text: &str) -> [u8; 32] {
    let mut name = [0; 32];
    name.iter_mut().take(31).zip(text.bytes()).for_each(|(to, from)| *to = from);
    name
}

/// `dma_fence_get_status`.
fn status(fence: &Fence) -> i32 {
    match fence.outcome() {
        Err(errno) => -errno.raw(),
        Ok(()) => i32::from(fence.is_over()),
    }
}

fn info(fence: &Fence) -> SyncFenceInfo {
    let ended = ended_ns(fence);
    let (driver, timeline) = if ended.is_some() { (DRIVER, TIMELINE) } else { (STUB, STUB) };
    SyncFenceInfo {
        obj_name: named(timeline),
        driver_name: named(driver),
        status: status(fence),
        flags: 0,
        timestamp_ns: if fence.is_over() { ended.unwrap_or(0) } else { 0 },
    }
}

/// The work of both, each once, without work that is over (`dma_fence_unwrap_merge`).
fn merged(one: Ends, other: Ends) -> Ends {
    let mut ends = Ends::new();
    for fence in one.into_iter().chain(other) {
        if !fence.is_over() && !ends.iter().any(|known| Arc::ptr_eq(known, &fence)) {
            ends.push(fence);
        }
    }
    ends
}

impl HostedProcess {
    /// An ioctl about a descriptor that may be a sync file of this GPU; `None` if it is not one of the driver's.
    ///
    /// `arg` may be any pointer: a bad one yields `EFAULT`.
    #[must_use]
    pub fn sync_file_ioctl(&self, fd: RawFd, request: u32, arg: *mut libc::c_void) -> Option<Result<i32>> {
        let shared = self.hosted.syncs().get(fd).ok()?;
        let arg = arg as u64;
        Some(calling(self.render, self.key.0, || {
            // A syncobj's descriptor has no ioctls.
            let Shared::File { name, ends } = shared else { return Err(Errno::ENOTTY) };
            match request {
                SYNC_IOC_MERGE => self.sync_merge(ends, arg),
                SYNC_IOC_FILE_INFO => self.sync_file_info(name, &ends, arg),
                SYNC_IOC_SET_DEADLINE => {
                    let args: SyncSetDeadline = self.argument(arg)?;
                    // Work is done as soon as it can be.
                    if args.pad == 0 { Ok(0) } else { Err(Errno::EINVAL) }
                }
                _ => Err(Errno::ENOTTY),
            }
        }))
    }

    fn argument<T: FromBytes + IntoBytes + Default>(&self, at: u64) -> Result<T> {
        let mut args = T::default();
        self.os().copy_from_user(args.as_mut_bytes(), at)?;
        Ok(args)
    }

    fn sync_merge(&self, ends: Ends, arg: u64) -> Result<i32> {
        let mut args: SyncMergeData = self.argument(arg)?;
        if args.flags != 0 || args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let Ok(Shared::File { ends: other, .. }) = self.hosted.syncs().get(args.fd2) else {
            return Err(Errno::ENOENT);
        };
        args.name[31] = 0;
        // The answer is written first: if that fails, there is no descriptor yet that the program would not
        // know of.
        self.os().copy_to_user(arg, args.as_bytes())?;
        let name = Some(args.name);
        args.fence = self.hosted.syncs().descriptor(Shared::File { name, ends: merged(ends, other) })?;
        self.answer_to(arg, &args)
    }

    fn sync_file_info(&self, name: Option<[u8; 32]>, ends: &Ends, arg: u64) -> Result<i32> {
        let mut args: SyncFileInfo = self.argument(arg)?;
        if args.flags != 0 || args.pad != 0 {
            return Err(Errno::EINVAL);
        }
        let mut fences: Vec<SyncFenceInfo> = ends.iter().map(|fence| info(fence)).collect();
        if fences.is_empty() {
            fences.push(info(&Fence::over()));
        }
        let count = fences.len() as u32;
        if args.num_fences == 0 {
            args.status =
                if are_over(ends) { fences.iter().map(|fence| fence.status).min().unwrap_or(1) } else { 0 };
        } else {
            if args.num_fences < count {
                return Err(Errno::EINVAL);
            }
            args.status =
                fences.iter().fold(1, |status, fence| if status <= 0 { status } else { fence.status });
            self.os().copy_to_user(args.sync_fence_info, fences.as_slice().as_bytes())?;
        }
        args.name = name.unwrap_or_else(|| match fences.first() {
            Some(first) if first.driver_name == named(DRIVER) => named("amdgpubelfry0-0"),
            _ => named("stubstub0-0"),
        });
        args.num_fences = count;
        self.answer_to(arg, &args)
    }

    fn answer_to<T: IntoBytes + Immutable>(&self, arg: u64, args: &T) -> Result<i32> {
        self.os().copy_to_user(arg, args.as_bytes()).map(|()| 0)
    }
}
