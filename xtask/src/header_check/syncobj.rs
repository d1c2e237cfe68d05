//! `drm/drm.h`: syncobjs, and the chunks about them in submissions of amdgpu; `linux/sync_file.h`; checkpoints of
//! `linux/kfd_ioctl.h`.

use belfry_abi::kfd::{criu, drm};

use super::{Constant, Group, constants, layout};

/// Newer kernels add a point to `struct drm_syncobj_handle`, which leaves the commands' numbers.
const GROWN: [u32; 2] = [drm::DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD, drm::DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE];

/// Facts that the headers must agree with.
pub(super) fn group() -> Group {
    let commands: Vec<Constant> = constants![
        drm::DRM_IOCTL_SYNCOBJ_CREATE,
        drm::DRM_IOCTL_SYNCOBJ_DESTROY,
        drm::DRM_IOCTL_SYNCOBJ_HANDLE_TO_FD,
        drm::DRM_IOCTL_SYNCOBJ_FD_TO_HANDLE,
        drm::DRM_IOCTL_SYNCOBJ_WAIT,
        drm::DRM_IOCTL_SYNCOBJ_RESET,
        drm::DRM_IOCTL_SYNCOBJ_SIGNAL,
        drm::DRM_IOCTL_SYNCOBJ_TIMELINE_WAIT,
        drm::DRM_IOCTL_SYNCOBJ_QUERY,
        drm::DRM_IOCTL_SYNCOBJ_TRANSFER,
        drm::DRM_IOCTL_SYNCOBJ_TIMELINE_SIGNAL,
        drm::DRM_IOCTL_SYNCOBJ_EVENTFD,
    ];
    let others = constants![
        criu::KFD_CRIU_OP_PROCESS_INFO,
        criu::KFD_CRIU_OP_CHECKPOINT,
        criu::KFD_CRIU_OP_UNPAUSE,
        criu::KFD_CRIU_OP_RESTORE,
        criu::KFD_CRIU_OP_RESUME,
        drm::SYNC_IOC_MERGE,
        drm::SYNC_IOC_FILE_INFO,
        drm::SYNC_IOC_SET_DEADLINE,
        drm::DRM_SYNCOBJ_CREATE_SIGNALED,
        drm::DRM_SYNCOBJ_HANDLE_TO_FD_FLAGS_EXPORT_SYNC_FILE,
        drm::DRM_SYNCOBJ_FD_TO_HANDLE_FLAGS_IMPORT_SYNC_FILE,
        drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL,
        drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT,
        drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_AVAILABLE,
        drm::DRM_SYNCOBJ_WAIT_FLAGS_WAIT_DEADLINE,
        drm::DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED,
        drm::DRM_CAP_SYNCOBJ,
        drm::DRM_CAP_SYNCOBJ_TIMELINE,
        drm::AMDGPU_CHUNK_ID_SYNCOBJ_IN,
        drm::AMDGPU_CHUNK_ID_SYNCOBJ_OUT,
        drm::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT,
        drm::AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL,
        drm::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ,
        drm::AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD,
        drm::AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD,
    ];
    let lasting =
        commands.into_iter().filter(|one| !GROWN.iter().any(|grown| one.value == u64::from(*grown)));
    Group {
        includes: vec!["<linux/kfd_ioctl.h>", "<linux/sync_file.h>", "<drm/amdgpu_drm.h>"],
        layouts: vec![
            layout!("struct drm_syncobj_create", drm::DrmSyncobjCreate { handle, flags }),
            layout!("struct drm_syncobj_destroy", drm::DrmSyncobjCreate { handle, flags: "pad" }),
            layout!("struct drm_syncobj_handle", drm::DrmSyncobjHandle { handle, flags, fd, pad })
                .fields_only(),
            layout!(
                "struct drm_syncobj_wait",
                drm::DrmSyncobjWait {
                    handles,
                    timeout_nsec,
                    count_handles,
                    flags,
                    first_signaled,
                    deadline_nsec
                }
            ),
            layout!(
                "struct drm_syncobj_timeline_wait",
                drm::DrmSyncobjTimelineWait {
                    handles,
                    points,
                    timeout_nsec,
                    count_handles,
                    flags,
                    first_signaled,
                    deadline_nsec
                }
            ),
            layout!("struct drm_syncobj_array", drm::DrmSyncobjArray { handles, count_handles, pad }),
            layout!(
                "struct drm_syncobj_timeline_array",
                drm::DrmSyncobjTimelineArray { handles, points, count_handles, flags }
            ),
            layout!(
                "struct drm_syncobj_transfer",
                drm::DrmSyncobjTransfer { src_handle, dst_handle, src_point, dst_point, flags, pad }
            ),
            layout!("struct drm_syncobj_eventfd", drm::DrmSyncobjEventfd { handle, flags, point, fd, pad }),
            layout!("struct sync_merge_data", drm::SyncMergeData { name, fd2, fence, flags, pad }),
            layout!(
                "struct sync_fence_info",
                drm::SyncFenceInfo { obj_name, driver_name, status, flags, timestamp_ns }
            ),
            layout!(
                "struct sync_file_info",
                drm::SyncFileInfo { name, status, flags, num_fences, pad, sync_fence_info }
            ),
            layout!("struct drm_amdgpu_cs_chunk_sem", drm::CsChunkSem { handle }),
            layout!("struct drm_amdgpu_cs_chunk_syncobj", drm::CsChunkSyncobj { handle, flags, point }),
            layout!(
                "union drm_amdgpu_fence_to_handle",
                drm::FenceToHandleIn { fence: "in.fence", what: "in.what" }
            ),
            layout!(
                "struct kfd_ioctl_criu_args",
                criu::CriuArgs {
                    devices,
                    bos,
                    priv_data,
                    priv_data_size,
                    num_devices,
                    num_bos,
                    num_objects,
                    pid,
                    op
                }
            ),
            layout!("struct drm_amdgpu_gem_userptr", drm::GemUserptrArgs { addr, size, flags, handle }),
        ],
        constants: lasting.chain(others).collect(),
        ..Group::default()
    }
}
