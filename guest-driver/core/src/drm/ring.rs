//! Rings: the hardware queues that the work of a file runs on, one for each ring that programs name.
//!
//! amdgpu has rings in VMID 0, of which each indirect buffer names a VMID. Here a ring is a queue of the scheduler, in the
//! address space of its file, which the driver fills: indirect buffers run with the rights of their program, and the
//! scheduler gives out VMIDs. A ring has one piece of work at a time, so that it is known whose fault a fault is.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::kfd::drm::AMDGPU_HW_IP_DMA;
use belfry_abi::kfd::queue::{CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_SDMA};
use belfry_abi::pm4::{Opcode, Pm4Header};
use belfry_abi::sdma::{Header, Op};

use super::context::RingId;
use super::hardware::Hardware;
use crate::asic::{PageRights, UserQueue, UserRing};
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::gart::KernelBuffer;
use crate::mqd::Mqds;
use crate::node::Node;
use crate::os::{Os, PAGE_SIZE};
use crate::request::{QueueRequest, SdmaPlace};
use crate::space::{END_VA, Space, UPPER_HALF};
use crate::trap_handler;
use crate::vram::VramMemory;

/// Pages of a ring's buffer: pointers and fence, two of packets, end of pipe.
const POINTERS: usize = 0;
const PACKETS: usize = PAGE_SIZE as usize;
const EOP: usize = 3 * PAGE_SIZE as usize;
const PAGES: usize = 4;
/// Bytes of packets.
const PACKET_BYTES: usize = EOP - PACKETS;
/// In the page of pointers.
const RPTR: usize = 0;
const WPTR: usize = 64;
const FENCE: usize = 128;
/// Addresses that a ring has in its address space, and where in them its save area is.
const STRIDE: u64 = 256 << 20;
const SAVE_AREA: u64 = 1 << 20;
/// Priority of its queue: the middle of KFD's.
const PRIORITY: u32 = 7;

/// An indirect buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ib {
    pub(crate) va: u64,
    pub(crate) dwords: u32,
}

/// A hardware queue.
pub(crate) struct Ring<O: Os> {
    id: RingId,
    /// Begin of it in the address space.
    va: u64,
    mqds: Mqds<O>,
    buffer: KernelBuffer<O>,
    /// Memory that waves are saved to, of a compute queue.
    save: Option<VramMemory<O>>,
    doorbell: DoorbellIndex,
    number: u32,
    place: Option<SdmaPlace>,
    /// Dwords written, for ever.
    written: u64,
    /// Value of the fence when the last work is over.
    fence: u32,
}

impl<O: Os> Ring<O> {
    /// Makes a queue and has the scheduler run it.
    ///
    /// # Errors
    ///
    /// `ENOMEM` when memory is short or no copy queue is free, `EBUSY` without a doorbell, `EIO` and `ETIME` when the
    /// scheduler does not run it.
    pub(crate) fn start(
        device: &Device<O>,
        space: &Space<O>,
        hardware: &mut Hardware<O>,
        id: RingId,
    ) -> Result<Self> {
        let index = if id.kind == AMDGPU_HW_IP_DMA { super::context::COMPUTE_RINGS } else { 0 } + id.ring;
        let va = END_VA + u64::from(index) * STRIDE;
        let buffer = device.gart.allocate(PAGES)?;
        let mqds =
            Mqds::new(&device.gart, &device.hw.asic().mqd, hardware.node(), id.kind == AMDGPU_HW_IP_DMA)?;
        device.flush_gart()?;
        let (number, place) = hardware.take_doorbell(device, id)?;
        let doorbell = hardware.doorbell(number);
        let mut ring =
            Self { id, va, mqds, buffer, save: None, doorbell, number, place, written: 0, fence: 0 };
        let started = ring.map(device, space, hardware).and_then(|()| ring.add(device, space, hardware));
        match started {
            Ok(()) => Ok(ring),
            Err(error) => {
                ring.give_back(device, space, hardware);
                Err(error)
            }
        }
    }

    fn is_dma(&self) -> bool {
        self.id.kind == AMDGPU_HW_IP_DMA
    }

    /// Maps what the queue uses.
    fn map(&mut self, device: &Device<O>, space: &Space<O>, hardware: &Hardware<O>) -> Result<()> {
        let rights =
            PageRights { readable: true, writable: true, executable: false, system: true, uncached: true };
        if !self.is_dma() {
            let area = (device.hw.asic().save_area)(&hardware.node().config);
            let len = area.total(area.cwsr_size);
            if len > STRIDE - SAVE_AREA {
                return Err(Errno::ENOMEM);
            }
            self.save = Some(device.vram.allocate(len, false)?);
        }
        let mut state = space.lock();
        let flags = state.vm.page_bits(rights);
        for page in 0..PAGES {
            let at = self.va + (page * PAGE_SIZE as usize) as u64;
            state.vm.map(at, self.buffer.bus(page), PAGE_SIZE, flags)?;
        }
        if let Some(save) = &self.save {
            let flags = state.vm.page_bits(PageRights { system: false, ..rights });
            let mut at = self.va + SAVE_AREA;
            for extent in save.extents() {
                state.vm.map(at, extent.offset, extent.len, flags)?;
                at += extent.len;
            }
        }
        space.flush(&mut state)
    }

    /// Arguments that CREATE_QUEUE would have been given.
    fn args(&self, device: &Device<O>, node: &Node) -> CreateQueueArgs {
        let area = (device.hw.asic().save_area)(&node.config);
        let common = CreateQueueArgs {
            ring_base_address: self.va + PACKETS as u64,
            ring_size: PACKET_BYTES as u32,
            read_pointer_address: self.va + (POINTERS + RPTR) as u64,
            write_pointer_address: self.va + (POINTERS + WPTR) as u64,
            queue_priority: PRIORITY,
            queue_type: KFD_IOC_QUEUE_TYPE_SDMA,
            ..Default::default()
        };
        if self.is_dma() {
            return common;
        }
        CreateQueueArgs {
            queue_type: KFD_IOC_QUEUE_TYPE_COMPUTE,
            eop_buffer_address: self.va + EOP as u64,
            eop_buffer_size: PAGE_SIZE,
            ctx_save_restore_address: self.va + SAVE_AREA,
            ctx_save_restore_size: area.cwsr_size,
            ctl_stack_size: area.ctl_stack_size,
            ..common
        }
    }

    /// Writes the MQD, and has the scheduler run the queue.
    fn add(&self, device: &Device<O>, space: &Space<O>, hardware: &Hardware<O>) -> Result<()> {
        let node = hardware.node();
        let args = self.args(device, node);
        let mqd = &device.hw.asic().mqd;
        self.mqds.change(|image, share| {
            let queue =
                UserQueue { mqd: self.mqds.address_of(share), args: &args, doorbell: self.doorbell, share };
            let ring = UserRing {
                base: args.ring_base_address,
                size: args.ring_size,
                priority: PRIORITY,
                aql: false,
                leads: share.number == 0,
            };
            match self.place {
                None => (mqd.init)(image, &queue).and_then(|()| (mqd.update)(image, &ring)),
                Some(place) => {
                    (mqd.init_sdma)(image, &queue, place).and_then(|()| (mqd.update_sdma)(image, &ring))
                }
            }
        })?;
        let request = QueueRequest {
            node: node.number,
            pasid: hardware.pasid(),
            root: space.root(),
            process_context: hardware.context(),
            gang_context: self.mqds.gang_context(),
            priority: PRIORITY,
            doorbell: self.doorbell,
            mqd: self.mqds.address(),
            wptr: self.buffer.gpu_address() + (POINTERS + WPTR) as u64,
            process_wptr: args.write_pointer_address,
            ring_dwords: (PACKET_BYTES / 4) as u32,
            trap_handler: trap_handler::TBA,
            trap_memory: trap_handler::tma(node.number),
            sdma: self.place,
            aql: false,
            gws: false,
            xnack: false,
        };
        device.with_scheduler(hardware.epoch(), |scheduler| scheduler.add_queue(&request))
    }

    /// Takes the queue off the scheduler, and gives back what it had.
    ///
    /// # Errors
    ///
    /// `ETIME` when the scheduler hangs.
    pub(crate) fn stop(self, device: &Device<O>, space: &Space<O>, hardware: &mut Hardware<O>) -> Result<()> {
        let gang = self.mqds.gang_context();
        let result = match device
            .with_scheduler(hardware.epoch(), |scheduler| scheduler.remove_queue(self.doorbell, gang))
        {
            // A reset took it off already, or the device is gone.
            Err(Errno::EIO | Errno::ENODEV) => Ok(()),
            result => result,
        };
        device.recover_after(hardware.epoch(), result);
        self.give_back(device, space, hardware);
        result
    }

    fn give_back(self, device: &Device<O>, space: &Space<O>, hardware: &mut Hardware<O>) {
        hardware.put_doorbell(self.number, self.place);
        let flushed = {
            let mut state = space.lock();
            state.vm.unmap(self.va, SAVE_AREA + self.save.as_ref().map_or(0, VramMemory::len));
            space.flush(&mut state).is_ok()
        };
        if device.hw.alive() && (device.wedged() || !flushed) {
            // The device may still write there.
            core::mem::forget(self);
        }
    }

    /// Returns whether the last work is over.
    pub(crate) fn is_over(&self) -> bool {
        self.buffer.word(POINTERS + FENCE).load(Ordering::Acquire) == self.fence
    }

    /// Hands work to the queue, which has none.
    pub(crate) fn submit(&mut self, device: &Device<O>, ibs: &[Ib]) -> Result<()> {
        self.fence = self.fence.wrapping_add(1);
        let mut packets = Vec::new();
        packets.try_reserve_exact(16 * (ibs.len() + 2)).map_err(|_| Errno::ENOMEM)?;
        let fence = (UPPER_HALF | self.va) + (POINTERS + FENCE) as u64;
        let ibs = ibs.iter().filter(|ib| ib.dwords > 0);
        if self.is_dma() {
            ibs.for_each(|&ib| dma_ib(&mut packets, self.written, ib));
            dma_fence(&mut packets, fence, self.fence);
        } else {
            compute_begin(&mut packets, device.hw.asic().acquire_memory);
            ibs.for_each(|&ib| compute_ib(&mut packets, ib));
            compute_fence(&mut packets, fence, self.fence);
        }
        if packets.len() * 4 > PACKET_BYTES / 2 {
            return Err(Errno::EINVAL);
        }
        for &packet in &packets {
            let at = self.written as usize * 4 % PACKET_BYTES;
            self.buffer.word(PACKETS + at).store(packet, Ordering::Relaxed);
            self.written += 1;
        }
        // Copy engines count bytes.
        let pointer = if self.is_dma() { self.written * 4 } else { self.written };
        self.buffer.quad(POINTERS + WPTR).store(pointer, Ordering::Release);
        device.hw.write_barrier();
        device.hw.doorbell_write(self.doorbell.offset(), pointer);
        Ok(())
    }
}

fn halves(address: u64) -> [u32; 2] {
    [address as u32, (address >> 32) as u32]
}

fn packet(packets: &mut Vec<u32>, opcode: Opcode, body: &[u32]) {
    packets.push(Pm4Header::type3(opcode, body.len() as u32).bits());
    packets.extend_from_slice(body);
}

/// Makes all that the processor has written be seen, code too: all of memory, all caches.
fn compute_begin(packets: &mut Vec<u32>, acquire: &[u32]) {
    packet(packets, Opcode::ACQUIRE_MEM, acquire);
}

/// `gfx_v11_0_ring_emit_ib_compute`; the queue's own VMID is meant.
fn compute_ib(packets: &mut Vec<u32>, ib: Ib) {
    let [low, high] = halves(ib.va);
    packet(packets, Opcode::INDIRECT_BUFFER, &[low & !3, high, ib.dwords | 1 << 23]);
}

/// Writes 32 bits and interrupts, when all before has ended (`gfx_v11_0_ring_emit_fence`).
fn compute_fence(packets: &mut Vec<u32>, at: u64, value: u32) {
    let [low, high] = halves(at);
    packet(packets, Opcode::RELEASE_MEM, &[20 | 5 << 8, 1 << 29 | 2 << 24, low, high, value, 0, 0]);
}

/// `sdma_v6_0_ring_emit_ib`: packets for indirect buffers end at a multiple of eight dwords.
fn dma_ib(packets: &mut Vec<u32>, before: u64, ib: Ib) {
    while !(before + packets.len() as u64 + 6).is_multiple_of(8) {
        packets.push(Header::new(Op::NOP, 0).bits());
    }
    let [low, high] = halves(ib.va);
    packets.extend([Header::new(Op::INDIRECT, 0).bits(), low & !31, high, ib.dwords, 0, 0]);
}

/// Writes 32 bits, then interrupts (`sdma_v6_0_ring_emit_fence`).
fn dma_fence(packets: &mut Vec<u32>, at: u64, value: u32) {
    let [low, high] = halves(at);
    packets.extend([Header::new(Op::FENCE, 0).bits(), low, high, value]);
    packets.extend([Header::new(Op::TRAP, 0).bits(), 0]);
}
