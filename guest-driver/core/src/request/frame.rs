//! Frames of the micro engine scheduler, and the resources that it is given.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::FRAME_SIZE;
use zerocopy::IntoBytes as _;

/// A frame that is being filled.
pub(crate) struct Frame {
    pub(crate) dwords: [u32; FRAME_SIZE / 4],
    /// Byte offset of its [`ApiStatus`].
    pub(crate) status: usize,
    /// Name of the request, for the log.
    pub(crate) name: &'static str,
}

impl Frame {
    /// Says what the frame is; where its completion is told goes into the bytes from `status` on.
    pub(crate) fn begin(&mut self, name: &'static str, status: usize) {
        (self.name, self.status) = (name, status);
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.dwords.as_mut_bytes()
    }
}

/// Resources that the scheduler is given to work with: addresses in VMID 0, masks, and the bases of the blocks it programs.
pub(crate) struct HardwareResources {
    pub(crate) vmid_mask: u32,
    /// Hardware queues of each of the pipes.
    pub(crate) compute_hqd_mask: u32,
    pub(crate) compute_pipes: usize,
    /// Hardware queues of each of the SDMA engines.
    pub(crate) sdma_hqd_mask: u32,
    pub(crate) context: u64,
    pub(crate) query_status_fence: u64,
    pub(crate) gc: [u32; 8],
    pub(crate) mmhub: [u32; 8],
    pub(crate) osssys: [u32; 8],
}

/// The scheduler's ring, as the firmware of both pipes is told to map it: addresses in VMID 0.
pub(crate) struct SchedulerRing {
    pub(crate) pipe: u32,
    pub(crate) doorbell: DoorbellIndex,
    pub(crate) mqd: u64,
    pub(crate) wptr: u64,
}
