//! Rings of the kernel's own; and the KIQ, the kernel interface queue, whose registers the driver writes itself, and which maps
//! the MES ring.
//!
//! Sequence: Linux `amdgpu/gfx_v11_0.c` (`gfx_v11_0_kiq_init_register`, `gfx11_kiq_map_queues`,
//! `gfx_v11_0_ring_test_ring`); packets: `amdgpu/nvd.h` (`PACKET3_*`).

use alloc::sync::Arc;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::{Register, gc};

use crate::asic::KernelRing;
use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, log};
use crate::mqd::Image;
use crate::os::Os;

/// Where the KIQ sits when the scheduler is in use: micro engine 3, pipe 1, queue 0.
pub(crate) const KIQ_ME: u32 = 3;
const KIQ_PIPE: u32 = 1;
/// Bytes of the ring.
const RING_SIZE: usize = 4096;
/// Offsets in the queue's buffer: MQD, pointers, end-of-pipe buffer, ring.
const MQD: usize = 0;
const RPTR: usize = 4096;
const WPTR: usize = 4096 + 64;
const EOP: usize = 8192;
const RING: usize = 12288;
const EOP_SIZE: u32 = 2048;
/// What the ring test leaves in `SCRATCH_REG0`.
const TEST_VALUE: u32 = 0xdead_beef;
const TIMEOUT_NS: u64 = 5_000_000_000;

/// `PACKET3_WRITE_DATA` and `PACKET3_MAP_QUEUES`.
const WRITE_DATA: u32 = 0x37;
const MAP_QUEUES: u32 = 0xa2;

const fn packet3(opcode: u32, count: u32) -> u32 {
    3 << 30 | (count & 0x3fff) << 16 | opcode << 8
}

/// A ring of the kernel's own with everything a compute HQD needs, in one buffer.
pub(crate) struct KernelQueue<O: Os> {
    hw: Arc<Hw<O>>,
    buffer: KernelBuffer<O>,
    ring_size: usize,
    doorbell: DoorbellIndex,
    /// Monotonic, in dwords.
    wptr: u64,
}

impl<O: Os> KernelQueue<O> {
    /// Makes the queue and its MQD; it does not run yet.
    pub(crate) fn new(
        hw: Arc<Hw<O>>,
        gart: &Arc<Gart<O>>,
        ring_size: usize,
        doorbell: DoorbellIndex,
    ) -> Result<Self> {
        let buffer = gart.allocate((RING + ring_size).div_ceil(4096))?;
        let mut queue = Self { hw, buffer, ring_size, doorbell, wptr: 0 };
        queue.reset()?;
        Ok(queue)
    }

    /// Empties the ring and writes the MQD anew.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.wptr = 0;
        self.buffer.quad(RPTR).store(0, Ordering::Relaxed);
        self.buffer.quad(WPTR).store(0, Ordering::Relaxed);
        for offset in (RING..RING + self.ring_size).step_by(4) {
            self.buffer.word(offset).store(0, Ordering::Relaxed);
        }
        let base = self.buffer.gpu_address();
        let mut image = Image::zeroed()?;
        let ring = KernelRing {
            mqd: base + MQD as u64,
            base: base + RING as u64,
            size: self.ring_size as u32,
            rptr: base + RPTR as u64,
            wptr: base + WPTR as u64,
            eop: base + EOP as u64,
            eop_size: EOP_SIZE,
            doorbell: self.doorbell,
        };
        (self.hw.asic().mqd.init_kernel)(&mut image, &ring)?;
        self.buffer.write(MQD, image.bytes());
        Ok(())
    }

    /// Empties the ring, programs the registers of the second pipe with it, and starts it.
    ///
    /// # Errors
    ///
    /// `ETIME` when the queue that is there does not stop.
    pub(crate) fn start_by_registers(&mut self) -> Result<()> {
        self.reset()?;
        let hw = self.hw.clone();
        let mut image = Image::zeroed()?;
        self.buffer.read(MQD, image.bytes_mut());
        let mqd = image.mqd()?;

        let mut schedulers = hw.read::<gc::RLC_CP_SCHEDULERS>().bits() & !0xff;
        schedulers |= (KIQ_ME << 5 | KIQ_PIPE << 3) & 0x7f;
        hw.write(gc::RLC_CP_SCHEDULERS(schedulers));
        hw.write(gc::RLC_CP_SCHEDULERS(schedulers | 0x80));

        select(&hw, KIQ_ME, KIQ_PIPE, 0, 0);
        hw.write(gc::CP_HQD_EOP_BASE_ADDR(mqd.cp_hqd_eop_base_addr_lo));
        hw.write(gc::CP_HQD_EOP_BASE_ADDR_HI(mqd.cp_hqd_eop_base_addr_hi));
        hw.write(gc::CP_HQD_EOP_CONTROL(mqd.cp_hqd_eop_control));
        if hw.read::<gc::CP_HQD_ACTIVE>().active() {
            dequeue_selected(&hw)?;
        }
        hw.write(gc::CP_HQD_PQ_RPTR(0));
        hw.write(gc::CP_HQD_PQ_WPTR_LO(0));
        hw.write(gc::CP_HQD_PQ_WPTR_HI(0));
        hw.write_pair::<gc::CP_MQD_BASE_ADDR, gc::CP_MQD_BASE_ADDR_HI>(mqd.mqd_base());
        hw.write(gc::CP_MQD_CONTROL(mqd.cp_mqd_control));
        hw.write(gc::CP_HQD_PQ_BASE(mqd.cp_hqd_pq_base_lo));
        hw.write(gc::CP_HQD_PQ_BASE_HI(mqd.cp_hqd_pq_base_hi));
        hw.write(gc::CP_HQD_PQ_CONTROL(mqd.cp_hqd_pq_control));
        hw.write_pair::<gc::CP_HQD_PQ_RPTR_REPORT_ADDR, gc::CP_HQD_PQ_RPTR_REPORT_ADDR_HI>(
            mqd.pq_rptr_report_addr(),
        );
        hw.write_pair::<gc::CP_HQD_PQ_WPTR_POLL_ADDR, gc::CP_HQD_PQ_WPTR_POLL_ADDR_HI>(
            mqd.pq_wptr_poll_addr(),
        );
        hw.write(gc::CP_HQD_PQ_DOORBELL_CONTROL(mqd.cp_hqd_pq_doorbell_control));
        hw.write(gc::CP_HQD_VMID(0));
        hw.write(gc::CP_HQD_PERSISTENT_STATE(mqd.cp_hqd_persistent_state));
        hw.write(gc::CP_HQD_ACTIVE(1));
        select(&hw, 0, 0, 0, 0);
        let mut status = gc::CP_PQ_STATUS(0);
        status.set_doorbell_enable(true);
        hw.write(status);
        Ok(())
    }

    pub(crate) fn mqd_address(&self) -> u64 {
        self.buffer.gpu_address() + MQD as u64
    }

    pub(crate) fn wptr_address(&self) -> u64 {
        self.buffer.gpu_address() + WPTR as u64
    }

    #[cfg(test)]
    pub(crate) fn ring_address(&self) -> u64 {
        self.buffer.gpu_address() + RING as u64
    }

    /// Its doorbell.
    pub(crate) fn doorbell(&self) -> DoorbellIndex {
        self.doorbell
    }

    /// Writes dwords into the ring and rings the doorbell; the caller knows that they fit.
    pub(crate) fn submit(&mut self, dwords: &[u32]) {
        for &dword in dwords {
            let offset = (self.wptr as usize * 4) % self.ring_size;
            self.buffer.word(RING + offset).store(dword, Ordering::Relaxed);
            self.wptr += 1;
        }
        self.buffer.quad(WPTR).store(self.wptr, Ordering::Release);
        self.hw.write_barrier();
        self.hw.doorbell_write(self.doorbell.offset(), self.wptr);
    }
}

/// Selects the bank of the HQD and SH_MEM registers.
pub(crate) fn select<O: Os>(hw: &Hw<O>, me: u32, pipe: u32, queue: u32, vmid: u32) {
    let mut cntl = gc::GRBM_GFX_CNTL(0);
    cntl.set_meid(me);
    cntl.set_pipeid(pipe);
    cntl.set_queueid(queue);
    cntl.set_vmid(vmid);
    hw.write(cntl);
}

/// The KIQ.
pub(crate) struct Kiq<O: Os> {
    queue: KernelQueue<O>,
}

impl<O: Os> Kiq<O> {
    pub(crate) fn new(hw: Arc<Hw<O>>, gart: &Arc<Gart<O>>) -> Result<Self> {
        let doorbell = hw.asic().doorbells.kiq;
        Ok(Self { queue: KernelQueue::new(hw, gart, RING_SIZE, doorbell)? })
    }

    /// Programs the queue's registers and starts it, then sees whether it executes packets.
    ///
    /// # Errors
    ///
    /// `ETIME` when it does not.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.queue.start_by_registers()?;
        self.test("KIQ")
    }

    /// Has the KIQ write a scratch register, and waits for it.
    fn test(&mut self, what: &str) -> Result<()> {
        let hw = self.queue.hw.clone();
        hw.write(gc::SCRATCH_REG0(0xcafe_dead));
        // Destination register, no address increment.
        let scratch = hw.registers().dword::<gc::SCRATCH_REG0>();
        self.queue.submit(&[packet3(WRITE_DATA, 3), 1 << 16, scratch, 0, TEST_VALUE]);
        hw.poll(TIMEOUT_NS, || hw.read::<gc::SCRATCH_REG0>().bits() == TEST_VALUE).inspect_err(|_| {
            log!(
                hw,
                Error,
                "{what}: ring test failed, SCRATCH_REG0 reads {:#x}",
                hw.read::<gc::SCRATCH_REG0>().bits()
            );
        })
    }

    /// Has the KIQ map the scheduler's ring from its MQD.
    ///
    /// # Errors
    ///
    /// `ETIME` when the KIQ stops executing packets.
    pub(crate) fn map_mes(&mut self, mes: &KernelQueue<O>) -> Result<()> {
        let mqd = mes.mqd_address();
        let wptr = mes.wptr_address();
        self.queue.submit(&[
            packet3(MAP_QUEUES, 5),
            // One queue, engine 5 (MES), micro engine field 2, pipe 0, queue 0.
            1 << 29 | 5 << 26 | 2 << 18,
            mes.doorbell().dwords() << 2,
            mqd as u32,
            (mqd >> 32) as u32,
            wptr as u32,
            (wptr >> 32) as u32,
        ]);
        self.test("MES ring mapping")
    }
}

fn dequeue_selected<O: Os>(hw: &Hw<O>) -> Result<()> {
    hw.write(gc::CP_HQD_DEQUEUE_REQUEST(1));
    let result = hw.poll(TIMEOUT_NS, || !hw.read::<gc::CP_HQD_ACTIVE>().active());
    hw.write(gc::CP_HQD_DEQUEUE_REQUEST(0));
    result
}

/// Takes the rings of both pipes off the hardware: that of the KIQ or of firmware on both pipes, and the scheduler's.
pub(crate) fn stop<O: Os>(hw: &Hw<O>) {
    for pipe in [KIQ_PIPE, 0] {
        select(hw, KIQ_ME, pipe, 0, 0);
        let active = hw.read::<gc::CP_HQD_ACTIVE>().active();
        if active && dequeue_selected(hw) == Err(Errno::ETIME) {
            log!(hw, Warn, "queue of micro engine 3, pipe {pipe} stays active");
        }
    }
    select(hw, 0, 0, 0, 0);
    let schedulers = hw.read::<gc::RLC_CP_SCHEDULERS>().bits() & !0x80;
    hw.write(gc::RLC_CP_SCHEDULERS(schedulers));
}
