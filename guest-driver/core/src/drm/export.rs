//! FENCE_TO_HANDLE: work as something that others wait for (`amdgpu_cs_fence_to_handle_ioctl`).

use belfry_abi::kfd::drm::{
    AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
    AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD, FenceToHandleIn,
};

use super::Call;
use crate::errno::{Errno, Result};
use crate::os::{Os, SyncExport};

/// FENCE_TO_HANDLE; returns the handle or the descriptor.
///
/// # Errors
///
/// `EINVAL` for a context, ring or submission that is not there and for an unknown form, `EMFILE`, `ENOMEM`.
pub(super) fn fence_to_handle<O: Os>(call: &Call<'_, O>, args: &FenceToHandleIn) -> Result<u32> {
    let fence = call.fence(&args.fence)?;
    let to = match args.what {
        AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ => SyncExport::Syncobj,
        AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD => SyncExport::SyncobjFd,
        AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD => SyncExport::SyncFileFd,
        _ => return Err(Errno::EINVAL),
    };
    call.file.sync_export(fence.as_ref(), to)
}
