//! Client of the micro engine scheduler: frames into its ring, fences back.
//!
//! Sequence: Linux `amdgpu/mes_v11_0.c` (`mes_v11_0_set_hw_resources`, `mes_v11_0_add_hw_queue`,
//! `mes_v11_0_remove_hw_queue`, `mes_v11_0_submit_pkt_and_poll_completion`).

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{
    AddQueue, ApiStatus, FRAME_SIZE, Header, Opcode, QueryStatus, RemoveQueue, SetHwResources,
    api_status_offset,
};
use belfry_abi::pci::doorbell;
use belfry_abi::regs::{Ip, gc};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, log};
use crate::kiq::{KIQ_ME, KernelQueue, Kiq, select};
use crate::os::Os;

/// VMIDs the scheduler gives to processes: 8 to 15.
pub(crate) const FIRST_KFD_VMID: u32 = 8;
const VMID_MASK: u32 = 0xff00;
/// Hardware queues of each of four pipes the scheduler may use; amdgpu keeps the first two of eight for the kernel.
const COMPUTE_HQD_MASK: u32 = 0xc;
const COMPUTE_PIPES: usize = 4;
/// Bytes of the ring: 64 frames.
const RING_SIZE: usize = 16384;
/// How long the scheduler may take. amdgpu gives 2.1 s, and a hundred times that to emulators.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// Offsets in the scheduler's own buffer.
const SCHEDULER_CONTEXT: usize = 0;
const QUERY_STATUS_FENCE: usize = 4096;
const API_FENCE: usize = 4096 + 64;

/// The scheduler's ring.
pub(crate) struct Mes<O: Os> {
    hw: Arc<Hw<O>>,
    queue: KernelQueue<O>,
    buffer: KernelBuffer<O>,
    fence: u64,
}

impl<O: Os> Mes<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>) -> Result<Self> {
        let queue = KernelQueue::new(hw.clone(), gart, RING_SIZE, doorbell::MES_RING0)?;
        Ok(Self { hw, queue, buffer: gart.allocate(2)?, fence: 0 })
    }

    /// Starts the firmware, has the KIQ map the ring, and hands over VMIDs and hardware queues.
    ///
    /// # Errors
    ///
    /// `ENODEV` when there is no firmware, `ETIME` when it does not answer.
    pub(crate) fn start(&mut self, kiq: &mut Kiq<O>) -> Result<()> {
        self.queue.reset()?;
        self.fence = 0;
        self.buffer.quad(API_FENCE).store(0, Ordering::Relaxed);
        self.enable()?;
        kiq.start()?;
        kiq.map_mes(&self.queue)?;
        self.set_hw_resources()?;
        self.query_status()
    }

    fn enable(&self) -> Result<()> {
        let hw = &self.hw;
        let mut cntl = gc::CP_MES_CNTL(0);
        cntl.set_mes_pipe0_reset(true);
        cntl.set_mes_pipe1_reset(true);
        hw.write(cntl);
        let mut cntl = gc::CP_MES_CNTL(0);
        cntl.set_mes_pipe0_active(true);
        cntl.set_mes_pipe1_active(true);
        hw.write(cntl);
        hw.os().sleep_us(50);
        select(hw, KIQ_ME, 0, 0, 0);
        let version = hw.read::<gc::CP_MES_GP3_LO>().0;
        select(hw, 0, 0, 0, 0);
        if version == 0 || version == u32::MAX {
            log!(hw, Error, "MES: no firmware (version register reads {version:#x})");
            return Err(Errno::ENODEV);
        }
        log!(hw, Info, "MES: firmware {:#x}, API {}", version & 0xfff, version >> 12 & 0xfff);
        Ok(())
    }

    /// Address in VMID 0 and length of the ring.
    #[cfg(test)]
    pub(crate) fn ring(&self) -> (u64, u64) {
        (self.queue.ring_address(), RING_SIZE as u64)
    }

    /// Stops the firmware.
    pub(crate) fn disable(&self) {
        let mut cntl = gc::CP_MES_CNTL(0);
        cntl.set_mes_pipe0_reset(true);
        cntl.set_mes_pipe1_reset(true);
        cntl.set_mes_halt(true);
        self.hw.write(cntl);
    }

    /// Sends one frame and waits for its fence.
    ///
    /// # Errors
    ///
    /// `ETIME` when the scheduler does not answer: it refused the frame or hangs, which cannot be told apart.
    #[inline(never)]
    fn submit<T: IntoBytes + Immutable>(&mut self, frame: &T, opcode: Opcode) -> Result<()> {
        let mut dwords = [0u32; FRAME_SIZE / 4];
        let bytes = frame.as_bytes();
        dwords.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
        self.fence += 1;
        let status = ApiStatus {
            api_completion_fence_addr: (self.buffer.gpu_address() + API_FENCE as u64).into(),
            api_completion_fence_value: self.fence.into(),
        };
        let offset = api_status_offset(opcode).ok_or(Errno::EINVAL)?;
        dwords.as_mut_bytes()[offset..offset + size_of::<ApiStatus>()].copy_from_slice(status.as_bytes());
        self.queue.submit(&dwords);
        let fence = self.buffer.quad(API_FENCE);
        let expected = self.fence;
        self.hw.poll(TIMEOUT_NS, || fence.load(Ordering::Acquire) >= expected).inspect_err(|_| {
            log!(
                self.hw,
                Error,
                "MES failed to respond to msg={} (fence {expected}, memory {})",
                opcode.name().unwrap_or("?"),
                fence.load(Ordering::Acquire)
            );
        })
    }

    fn set_hw_resources(&mut self) -> Result<()> {
        let base = self.buffer.gpu_address();
        let mut frame = SetHwResources::new_zeroed();
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_mmhub = VMID_MASK;
        frame.vmid_mask_gfxhub = VMID_MASK;
        frame.compute_hqd_mask[..COMPUTE_PIPES].fill(COMPUTE_HQD_MASK);
        frame.g_sch_ctx_gpu_mc_ptr = (base + SCHEDULER_CONTEXT as u64).into();
        frame.query_status_fence_gpu_mc_ptr = (base + QUERY_STATUS_FENCE as u64).into();
        frame.gc_base = *self.hw.registers().bases(Ip::GC);
        frame.mmhub_base = *self.hw.registers().bases(Ip::MMHUB);
        frame.osssys_base = *self.hw.registers().bases(Ip::OSSSYS);
        // disable_reset, use_different_vmid_compute, disable_mes_log, enable_reg_active_poll,
        // enable_level_process_quantum_check, as amdgpu sets them.
        frame.flags = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7;
        frame.oversubscription_timer = 50;
        self.submit(&frame, Opcode::SET_HW_RSRC)
    }

    fn query_status(&mut self) -> Result<()> {
        let mut frame = QueryStatus::new_zeroed();
        frame.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
        self.submit(&frame, Opcode::QUERY_SCHEDULER_STATUS)
    }

    /// Makes a queue known to the scheduler, which runs it.
    pub(crate) fn add_queue(&mut self, frame: &AddQueue) -> Result<()> {
        self.submit(frame, Opcode::ADD_QUEUE)
    }

    /// Stops a queue; its state is in its MQD afterwards.
    pub(crate) fn remove_queue(&mut self, doorbell: DoorbellIndex, gang_context_addr: u64) -> Result<()> {
        let mut frame = RemoveQueue::new_zeroed();
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        frame.doorbell_offset = doorbell;
        frame.gang_context_addr = gang_context_addr.into();
        self.submit(&frame, Opcode::REMOVE_QUEUE)
    }
}
