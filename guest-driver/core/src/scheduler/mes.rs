//! Client of the micro engine scheduler: frames into its ring, fences back.
//!
//! Sequence: Linux `amdgpu/mes_v11_0.c` (`mes_v11_0_submit_pkt_and_poll_completion`); the frames' layout is for
//! [`crate::asic`] to know.

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{ApiStatus, FRAME_SIZE};
use belfry_abi::regs::{Ip, gc};
use zerocopy::{IntoBytes, transmute};

use crate::asic::{MesFirmware, MesFrames, VMIDS};
use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, log};
use crate::kiq::{self, KernelQueue, Kiq, select};
use crate::os::Os;
use crate::request::{Frame, HardwareResources, QueueRequest, SchedulerRing, ShaderDebugger};
use crate::scheduler::Scheduler;

/// Pipes of a micro engine.
const COMPUTE_PIPES: usize = 4;
/// Bytes of the ring: 64 frames.
const RING_SIZE: usize = 16384;
/// Time that the scheduler may take. amdgpu gives 2.1 s, and a hundred times that to emulators.
const TIMEOUT_NS: u64 = 10_000_000_000;
/// Offsets in the scheduler's own buffer.
const SCHEDULER_CONTEXT: usize = 0;
const QUERY_STATUS_FENCE: usize = 4096;
const API_FENCE: usize = 4096 + 64;

/// A ring that takes frames, with the fence that they are answered by.
pub(crate) struct FrameRing<O: Os> {
    hw: Arc<Hw<O>>,
    firmware: &'static MesFirmware,
    queue: KernelQueue<O>,
    buffer: KernelBuffer<O>,
    fence: u64,
}

impl<O: Os> FrameRing<O> {
    fn new(
        hw: Arc<Hw<O>>,
        gart: &Arc<Gart<O>>,
        firmware: &'static MesFirmware,
        doorbell: DoorbellIndex,
    ) -> Result<Self> {
        let queue = KernelQueue::new(hw.clone(), gart, RING_SIZE, doorbell, 1)?;
        Ok(Self { hw, firmware, queue, buffer: gart.allocate(2)?, fence: 0 })
    }

    fn reset(&mut self) -> Result<()> {
        self.fence = 0;
        self.buffer.quad(API_FENCE).store(0, Ordering::Relaxed);
        self.queue.reset()
    }

    /// Sends one frame and waits for its fence.
    ///
    /// # Errors
    ///
    /// `ETIME` when the scheduler does not answer: it refused the frame or hangs, which cannot be told apart.
    #[inline(never)]
    fn submit(&mut self, fill: impl FnOnce(&MesFrames, &mut Frame)) -> Result<()> {
        let mut frame = Frame { dwords: [0; FRAME_SIZE / 4], status: 0, name: "?" };
        let frames = &self.firmware.frames;
        fill(frames, &mut frame);
        self.fence += 1;
        let status = ApiStatus {
            api_completion_fence_addr: (self.buffer.gpu_address() + API_FENCE as u64).into(),
            api_completion_fence_value: self.fence.into(),
        };
        let place = frame.status..frame.status + size_of::<ApiStatus>();
        frame.bytes().get_mut(place).ok_or(Errno::EINVAL)?.copy_from_slice(status.as_bytes());
        let Frame { dwords, name, .. } = frame;
        let encoded: [u32; FRAME_SIZE / 4] = transmute!((frames.encode)(&transmute!(dwords)));
        self.queue.submit(&encoded);
        let fence = self.buffer.quad(API_FENCE);
        let expected = self.fence;
        self.hw.poll(TIMEOUT_NS, || fence.load(Ordering::Acquire) >= expected).inspect_err(|_| {
            log!(
                self.hw,
                Error,
                "MES failed to respond to msg={name} (fence {expected}, memory {})",
                fence.load(Ordering::Acquire)
            );
        })
    }

    /// Hands over what firmware works with; VMIDs and hardware queues only to the pipe that schedules.
    fn set_hw_resources(&mut self, schedules: bool) -> Result<()> {
        let base = self.buffer.gpu_address();
        let asic = self.hw.asic();
        let registers = self.hw.registers();
        let given = |mask: u32| if schedules { mask } else { 0 };
        let resources = HardwareResources {
            vmid_mask: given(u32::MAX << asic.first_kfd_vmid & ((1 << VMIDS) - 1)),
            compute_hqd_mask: given(asic.compute_hqd_mask),
            compute_pipes: COMPUTE_PIPES,
            sdma_hqd_mask: given(asic.sdma.hqd_mask),
            context: base + SCHEDULER_CONTEXT as u64,
            query_status_fence: base + QUERY_STATUS_FENCE as u64,
            gc: *registers.bases(Ip::GC),
            mmhub: *registers.bases(Ip::MMHUB),
            osssys: *registers.bases(Ip::OSSSYS),
        };
        self.submit(|frames, frame| (frames.set_hw_resources)(frame, &resources))?;
        if self.firmware.on_both_pipes {
            self.submit(|frames, frame| (frames.set_hw_resources_1)(frame))?;
        }
        Ok(())
    }
}

/// Mapper of the scheduler's ring.
enum Mapper<O: Os> {
    /// The kernel interface queue, by a packet.
    Kiq(Kiq<O>),
    /// The scheduler's firmware on the second pipe, by a frame.
    Firmware(FrameRing<O>),
}

impl<O: Os> Mapper<O> {
    fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>, firmware: &'static MesFirmware) -> Result<Self> {
        let doorbell = hw.asic().doorbells.kiq;
        if !firmware.on_both_pipes {
            return Ok(Self::Kiq(Kiq::new(hw, gart, 0, doorbell)?));
        }
        Ok(Self::Firmware(FrameRing::new(hw, gart, firmware, doorbell)?))
    }

    /// Starts, and maps the scheduler's ring.
    ///
    /// # Errors
    ///
    /// `ETIME` when it does not answer.
    fn map(&mut self, ring: &KernelQueue<O>) -> Result<()> {
        match self {
            Self::Kiq(kiq) => {
                kiq.start()?;
                // Engine 5 (MES), micro engine field 2, pipe 0, queue 0.
                kiq.map((ring, 0), 5 << 26 | 2 << 18, "MES ring mapping")
            }
            Self::Firmware(second) => {
                second.reset()?;
                second.queue.start_by_registers(0)?;
                second.set_hw_resources(false)?;
                let ring = SchedulerRing {
                    pipe: 0,
                    doorbell: ring.doorbell(),
                    mqd: ring.mqd_address(),
                    wptr: ring.wptr_address(),
                };
                second.submit(|frames, frame| (frames.map_scheduler)(frame, &ring))
            }
        }
    }
}

/// The scheduler.
pub(crate) struct Mes<O: Os> {
    hw: Arc<Hw<O>>,
    mapper: Mapper<O>,
    ring: FrameRing<O>,
}

impl<O: Os> Mes<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>, firmware: &'static MesFirmware) -> Result<Self> {
        let doorbell = hw.asic().doorbells.scheduler;
        let mapper = Mapper::new(hw.clone(), gart, firmware)?;
        Ok(Self { mapper, ring: FrameRing::new(hw.clone(), gart, firmware, doorbell)?, hw })
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
        select(&hw.instance(0), hw.asic().kernel_me, 0, 0, 0);
        let version = hw.read::<gc::CP_MES_GP3_LO>().0;
        select(&hw.instance(0), 0, 0, 0, 0);
        if version == 0 || version == u32::MAX {
            log!(hw, Error, "MES: no firmware (version register reads {version:#x})");
            return Err(Errno::ENODEV);
        }
        log!(hw, Info, "MES: firmware {:#x}, API {}", version & 0xfff, version >> 12 & 0xfff);
        Ok(())
    }

    /// Stops the firmware.
    fn disable(&self) {
        let mut cntl = gc::CP_MES_CNTL(0);
        cntl.set_mes_pipe0_reset(true);
        cntl.set_mes_pipe1_reset(true);
        cntl.set_mes_halt(true);
        self.hw.write(cntl);
    }
}

impl<O: Os> Scheduler for Mes<O> {
    /// Starts the firmware, has its ring mapped, and hands over VMIDs and hardware queues.
    fn start(&mut self) -> Result<()> {
        self.ring.reset()?;
        self.enable()?;
        self.mapper.map(&self.ring.queue)?;
        self.ring.set_hw_resources(true)?;
        self.ring.submit(|frames, frame| (frames.query_status)(frame))
    }

    fn stop(&mut self) {
        kiq::stop(&self.hw);
        self.disable();
    }

    fn add_queue(&mut self, queue: &QueueRequest) -> Result<()> {
        self.ring.submit(|frames, frame| (frames.add_queue)(frame, queue))
    }

    fn remove_queue(&mut self, doorbell: DoorbellIndex, gang: u64) -> Result<()> {
        self.ring.submit(|frames, frame| (frames.remove_queue)(frame, doorbell, gang))
    }

    fn set_shader_debugger(&mut self, debugger: &ShaderDebugger) -> Result<()> {
        self.ring.submit(|frames, frame| (frames.set_shader_debugger)(frame, debugger))
    }

    fn flush_shader_debugger(&mut self, process_context: u64) -> Result<()> {
        self.ring.submit(|frames, frame| (frames.flush_shader_debugger)(frame, process_context))
    }

    #[cfg(test)]
    fn ring(&self) -> (u64, u64) {
        (self.ring.queue.ring_address(), RING_SIZE as u64)
    }
}
