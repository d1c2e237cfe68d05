//! Rings of the kernel's own; and the KIQ, the kernel interface queue, whose registers the driver writes itself, and which maps
//! the MES ring.
//!
//! Sequence: Linux `amdgpu/gfx_v11_0.c` (`gfx_v11_0_kiq_init_register`, `gfx11_kiq_map_queues`,
//! `gfx_v11_0_ring_test_ring`); packets: `amdgpu/nvd.h` (`PACKET3_*`).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::regs::{Register, gc};

use crate::asic::KernelRing;
use crate::errno::{Errno, Result};
use crate::gart::{Gart, KernelBuffer};
use crate::hw::{Hw, Instance, log};
use crate::os::Os;
use crate::request::Image;

/// Pipe of the KIQ, beside the scheduler's ring on pipe 0 of the same micro engine; both are queue 0 there.
const KIQ_PIPE: u32 = 1;
/// Bytes of the ring.
const RING_SIZE: usize = 4096;
/// Bytes between the MQDs that the buffer of a queue begins with, one for each graphics core that runs it.
const MQD_STRIDE: usize = 4096;
/// Offsets behind those: pointers, end-of-pipe buffer, ring.
const RPTR: usize = 0;
const WPTR: usize = 64;
const EOP: usize = 4096;
const RING: usize = 8192;
const EOP_SIZE: u32 = 2048;
/// Value that the ring test leaves in `SCRATCH_REG0`.
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
    /// Graphics cores that run it, each from an MQD of its own.
    xccs: usize,
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
        xccs: usize,
    ) -> Result<Self> {
        let buffer = gart.allocate((xccs * MQD_STRIDE + RING + ring_size).div_ceil(4096))?;
        let mut queue = Self { hw, buffer, xccs, ring_size, doorbell, wptr: 0 };
        queue.reset()?;
        Ok(queue)
    }

    /// Offset in the buffer of what is at `offset` behind the MQDs.
    fn at(&self, offset: usize) -> usize {
        self.xccs * MQD_STRIDE + offset
    }

    /// Address in VMID 0 of the same.
    fn address(&self, offset: usize) -> u64 {
        self.buffer.gpu_address() + self.at(offset) as u64
    }

    /// Empties the ring and writes the MQD anew.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn reset(&mut self) -> Result<()> {
        self.wptr = 0;
        self.buffer.quad(self.at(RPTR)).store(0, Ordering::Relaxed);
        self.buffer.quad(self.at(WPTR)).store(0, Ordering::Relaxed);
        for offset in (0..self.ring_size).step_by(4) {
            self.buffer.word(self.at(RING) + offset).store(0, Ordering::Relaxed);
        }
        for number in 0..self.xccs {
            let mut image = Image::zeroed()?;
            let ring = KernelRing {
                mqd: self.mqd_of(number),
                mqd_stride: MQD_STRIDE as u32,
                leads: number == 0,
                base: self.address(RING),
                size: self.ring_size as u32,
                rptr: self.address(RPTR),
                wptr: self.address(WPTR),
                eop: self.address(EOP),
                eop_size: EOP_SIZE,
                doorbell: self.doorbell,
            };
            (self.hw.asic().mqd.init_kernel)(&mut image, &ring)?;
            self.buffer.write(number * MQD_STRIDE, image.bytes());
        }
        Ok(())
    }

    /// Forgets which queues firmware could not stop (`queue_doorbell_id0`).
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn clear_culprits(&self) -> Result<()> {
        for number in 0..self.xccs {
            let mut image = Image::zeroed()?;
            self.buffer.read(number * MQD_STRIDE, image.bytes_mut());
            image.mqd()?.queue_doorbell_id[0] = 0;
            self.buffer.write(number * MQD_STRIDE, image.bytes());
        }
        Ok(())
    }

    /// Doorbells of the queues that firmware could not stop, by graphics core; 0 for none.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn culprits(&self) -> Result<Vec<u32>> {
        let culprit = |number| {
            let mut image = Image::zeroed()?;
            self.buffer.read(number * MQD_STRIDE, image.bytes_mut());
            Ok(image.mqd()?.queue_doorbell_id[0])
        };
        (0..self.xccs).map(culprit).collect()
    }

    /// Address of the MQD of a graphics core.
    fn mqd_of(&self, number: usize) -> u64 {
        self.buffer.gpu_address() + (number * MQD_STRIDE) as u64
    }

    /// Empties the ring, programs the registers of the second pipe of a graphics core with it, and starts it.
    ///
    /// # Errors
    ///
    /// `ETIME` when the queue that is there does not stop.
    pub(crate) fn start_by_registers(&mut self, xcc: usize) -> Result<()> {
        self.reset()?;
        let device = self.hw.clone();
        let (hw, me) = (device.instance(xcc), device.asic().kernel_me);
        let mut image = Image::zeroed()?;
        self.buffer.read(0, image.bytes_mut());
        let mqd = image.mqd()?;

        let mut schedulers = hw.read::<gc::RLC_CP_SCHEDULERS>().bits() & !0xff;
        schedulers |= (me << 5 | KIQ_PIPE << 3) & 0x7f;
        hw.write(gc::RLC_CP_SCHEDULERS(schedulers));
        hw.write(gc::RLC_CP_SCHEDULERS(schedulers | 0x80));

        select(&hw, me, KIQ_PIPE, 0, 0);
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
        self.mqd_of(0)
    }

    pub(crate) fn wptr_address(&self) -> u64 {
        self.address(WPTR)
    }

    #[cfg(test)]
    pub(crate) fn ring_address(&self) -> u64 {
        self.address(RING)
    }

    /// Its doorbell.
    pub(crate) fn doorbell(&self) -> DoorbellIndex {
        self.doorbell
    }

    /// Writes dwords into the ring and rings the doorbell; the caller knows that they fit.
    pub(crate) fn submit(&mut self, dwords: &[u32]) {
        for &dword in dwords {
            let offset = (self.wptr as usize * 4) % self.ring_size;
            self.buffer.word(self.at(RING) + offset).store(dword, Ordering::Relaxed);
            self.wptr += 1;
        }
        self.buffer.quad(self.at(WPTR)).store(self.wptr, Ordering::Release);
        self.hw.write_barrier();
        self.hw.doorbell_write(self.doorbell.offset(), self.wptr);
    }
}

/// Selects the bank of the HQD and SH_MEM registers.
pub(crate) fn select<O: Os>(xcc: &Instance<'_, O>, me: u32, pipe: u32, queue: u32, vmid: u32) {
    let mut cntl = gc::GRBM_GFX_CNTL(0);
    cntl.set_meid(me);
    cntl.set_pipeid(pipe);
    cntl.set_queueid(queue);
    cntl.set_vmid(vmid);
    xcc.write(cntl);
}

/// The KIQ of a graphics core.
pub(crate) struct Kiq<O: Os> {
    queue: KernelQueue<O>,
    xcc: usize,
}

impl<O: Os> Kiq<O> {
    pub(crate) fn new(
        hw: Arc<Hw<O>>,
        gart: &Arc<Gart<O>>,
        xcc: usize,
        doorbell: DoorbellIndex,
    ) -> Result<Self> {
        Ok(Self { queue: KernelQueue::new(hw, gart, RING_SIZE, doorbell, 1)?, xcc })
    }

    /// Programs the queue's registers and starts it, then sees whether it executes packets.
    ///
    /// # Errors
    ///
    /// `ETIME` when it does not.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.queue.start_by_registers(self.xcc)?;
        self.test("KIQ")
    }

    /// Has the KIQ write a scratch register, and waits for it.
    fn test(&mut self, what: &str) -> Result<()> {
        let device = self.queue.hw.clone();
        let hw = device.instance(self.xcc);
        hw.write(gc::SCRATCH_REG0(0xcafe_dead));
        // Destination register, no address increment.
        let scratch =
            device.registers().dword_in::<gc::SCRATCH_REG0>(self.xcc) & device.asic().packet_registers;
        self.queue.submit(&[packet3(WRITE_DATA, 3), 1 << 16, scratch, 0, TEST_VALUE]);
        device.poll(TIMEOUT_NS, || hw.read::<gc::SCRATCH_REG0>().bits() == TEST_VALUE).inspect_err(|_| {
            log!(
                device,
                Error,
                "{what}: ring test failed on graphics core {}, SCRATCH_REG0 reads {:#x}",
                self.xcc,
                hw.read::<gc::SCRATCH_REG0>().bits()
            );
        })
    }

    /// Has the KIQ map a ring from the MQD of this graphics core, which has a number among those that run it; `place` says where in
    /// the first word of the packet.
    ///
    /// # Errors
    ///
    /// `ETIME` when the KIQ stops executing packets.
    pub(crate) fn map(
        &mut self,
        (ring, number): (&KernelQueue<O>, usize),
        place: u32,
        what: &str,
    ) -> Result<()> {
        let mqd = ring.mqd_of(number);
        let wptr = ring.wptr_address();
        self.queue.submit(&[
            packet3(MAP_QUEUES, 5),
            // One queue.
            1 << 29 | place,
            ring.doorbell().dwords() << 2,
            mqd as u32,
            (mqd >> 32) as u32,
            wptr as u32,
            (wptr >> 32) as u32,
        ]);
        self.test(what)
    }
}

fn dequeue_selected<O: Os>(xcc: &Instance<'_, O>) -> Result<()> {
    xcc.write(gc::CP_HQD_DEQUEUE_REQUEST(1));
    let result = xcc.hw().poll(TIMEOUT_NS, || !xcc.read::<gc::CP_HQD_ACTIVE>().active());
    xcc.write(gc::CP_HQD_DEQUEUE_REQUEST(0));
    result
}

/// Takes the rings of both pipes off the hardware: that of the KIQ or of firmware on both pipes, and the scheduler's.
pub(crate) fn stop<O: Os>(hw: &Hw<O>) {
    let me = hw.asic().kernel_me;
    // The first core of a partition, whose ring is the one that is read, stops last.
    for xcc in hw.xccs().rev() {
        for pipe in [KIQ_PIPE, 0] {
            select(&xcc, me, pipe, 0, 0);
            let active = xcc.read::<gc::CP_HQD_ACTIVE>().active();
            if active && dequeue_selected(&xcc) == Err(Errno::ETIME) {
                log!(hw, Warn, "queue of micro engine {me}, pipe {pipe} stays active");
            }
        }
        select(&xcc, 0, 0, 0, 0);
        let schedulers = xcc.read::<gc::RLC_CP_SCHEDULERS>().bits() & !0x80;
        xcc.write(gc::RLC_CP_SCHEDULERS(schedulers));
    }
}
