//! Calls of the driver.

use std::ffi::{c_int, c_ulong, c_void};

use belfry_abi::kfd::drm::{
    DRM_IOCTL_GEM_CLOSE, DRM_IOCTL_MODE_GETRESOURCES, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
    DRM_IOCTL_SYNCOBJ_WAIT, GEM_CREATE, GEM_USERPTR, GEM_WAIT_IDLE, WAIT_CS, WAIT_FENCES,
};
use belfry_abi::kfd::ioctl::{
    DBG_TRAP, GET_CLOCK_COUNTERS, GET_VERSION, RESET_EVENT, SET_EVENT, UPDATE_QUEUE, WAIT_EVENTS, ioc_nr,
};

use crate::inside::{inside, is_inside};
use crate::real::{next, set_errno};
use crate::{card, companion, debug, gpu, node, opening};

/// Types of the ioctls of KFD and of DRM (`AMDKFD_IOCTL_BASE`, `DRM_IOCTL_BASE`).
const KFD: u8 = b'K';
const DRM: u8 = b'd';

/// Type of the ioctls of sync files (`SYNC_IOC_MAGIC`).
const SYNC: u8 = b'>';

/// The answer of the driver, if the descriptor is a sync file of this process's GPU.
fn answer_sync(fd: c_int, request: c_ulong, argument: *mut c_void) -> Option<Result<c_int, c_int>> {
    if (request >> 8) as u8 != SYNC || is_inside() {
        return None;
    }
    let gpu = gpu::own()?;
    let result = inside(|| gpu.process.sync_file_ioctl(fd, request as u32, argument))?;
    Some(result.map_err(|errno| errno.raw()))
}

/// The answer of the driver, if the descriptor is one of its nodes.
fn answer(fd: c_int, request: c_ulong, argument: *mut c_void) -> Option<Result<c_int, c_int>> {
    if !matches!((request >> 8) as u8, KFD | DRM) || is_inside() {
        return None;
    }
    // Descriptors from before an `exec` are known as well.
    let which = node::node_of(fd)?;
    Some(opening::get().and_then(|gpu| {
        let call = move || gpu.process.ioctl(which.node(), request as u32, argument);
        // A call that waits is interrupted by signals, whose handlers need not come back.
        let number = ioc_nr(request as u32);
        let is = |command: &u32| number == ioc_nr(*command);
        // The command is one of displays' nodes.
        if matches!(which, node::Which::Render(_)) && is(&DRM_IOCTL_MODE_GETRESOURCES) {
            return Err(libc::EACCES);
        }
        if which == node::Which::Kfd
            && is(&DBG_TRAP)
            && let Some(result) = debug::trap(gpu, argument)
        {
            return result;
        }
        // Calls that may change the amount of memory in use: of KFD's all but some that programs make all the time.
        let publishes = match which {
            node::Which::Kfd => {
                ![GET_VERSION, GET_CLOCK_COUNTERS, SET_EVENT, RESET_EVENT, UPDATE_QUEUE].iter().any(is)
            }
            _ => [GEM_CREATE, GEM_USERPTR, DRM_IOCTL_GEM_CLOSE].iter().any(is),
        };
        let waits = match which {
            node::Which::Kfd => is(&WAIT_EVENTS),
            _ => {
                let syncobjs = [DRM_IOCTL_SYNCOBJ_WAIT, DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT];
                [WAIT_CS, WAIT_FENCES, GEM_WAIT_IDLE].iter().chain(&syncobjs).any(is)
            }
        };
        let result = if waits { companion::wait_for(call) } else { inside(call) };
        debug::let_answer();
        if publishes && !waits {
            card::publish();
        }
        result.map_err(|errno| errno.raw())
    }))
}

/// A call of the driver, or of another one by `call`.
pub(super) fn ioctl_by(
    fd: c_int,
    request: c_ulong,
    argument: *mut c_void,
    call: impl FnOnce() -> c_int,
) -> c_int {
    match answer(fd, request, argument).or_else(|| answer_sync(fd, request, argument)) {
        Some(Ok(value)) => value,
        Some(Err(errno)) => {
            set_errno(errno);
            -1
        }
        None => call(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(fd: c_int, request: c_ulong, argument: *mut c_void) -> c_int {
    ioctl_by(
        fd,
        request,
        argument,
        || next!(ioctl(fd, request, argument): fn(c_int, c_ulong, *mut c_void) -> c_int, else -1),
    )
}
