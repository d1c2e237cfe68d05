//! Queues of the SDMA engines: copies and fills beside the work of compute queues.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_SDMA, KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_MAX_QUEUE_PERCENTAGE,
};
use belfry_abi::sdma::{
    ConstantFill, ConstantFillHeader, CopyHeader, CopyLinear, CopyParameter, Fence, Header, Op, Trap,
};
use belfry_abi::signal::SIGNAL_VALUE_OFFSET;
use zerocopy::{FromZeros as _, IntoBytes};

use crate::doorbell::DoorbellPage;
use crate::generation::Generation;
use crate::memory::{Allocation, Buffer, HostAccess, MemoryKind, Pod};
use crate::opened::GpuInner;
use crate::queue::QueueError;
use crate::reservation::PAGE;
use crate::signal::{Condition, Signal, SignalError};

/// Bytes of the ring.
const RING: u64 = 64 << 10;
/// Offsets of the pointers in their page, in bytes; each has a cache line of its own.
const READ_POINTER: usize = 0;
const WRITE_POINTER: usize = 64;
/// Priority of queues whose user asks for none.
const PRIORITY: u32 = 7;

/// A queue of a copy engine. Submitted work is done in order; [`finish`](Self::finish) waits for it.
///
/// Destroyed when dropped: work that has not been done by then may never be.
#[derive(Debug)]
pub struct CopyQueue {
    gpu: Arc<GpuInner>,
    ring: Allocation,
    pointers: Allocation,
    id: u32,
    doorbell: Arc<DoorbellPage>,
    doorbell_offset: u64,
    /// Bytes written since the queue was made; ring pointers count for ever.
    written: u64,
    /// Memory of work that is not known to be done.
    uses: Vec<Arc<Allocation>>,
}

impl CopyQueue {
    pub(crate) fn new(gpu: &Arc<GpuInner>, engine: Option<u32>) -> Result<Self, QueueError> {
        let kfd = &gpu.process.kfd;
        let allocate =
            |size| Allocation::new(kfd, &[gpu.agent.gpu_id], MemoryKind::Gtt, HostAccess::ReadWrite, size);
        let (ring, pointers) = (allocate(RING as usize)?, allocate(PAGE)?);
        pointers.zero(0, PAGE);
        let mut args = CreateQueueArgs::new_zeroed();
        args.ring_base_address = ring.address();
        args.ring_size = RING as u32;
        args.write_pointer_address = pointers.address() + WRITE_POINTER as u64;
        args.read_pointer_address = pointers.address() + READ_POINTER as u64;
        args.gpu_id = gpu.agent.gpu_id;
        args.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE;
        args.queue_priority = PRIORITY;
        (args.queue_type, args.sdma_engine_id) = match engine {
            None => (KFD_IOC_QUEUE_TYPE_SDMA, 0),
            Some(engine) => (KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, engine),
        };
        kfd.create_queue(&mut args)?;
        let doorbell = match gpu.doorbells(args.doorbell_offset) {
            Ok(doorbell) => doorbell,
            Err(error) => {
                destroy(gpu, args.queue_id);
                return Err(error.into());
            }
        };
        let (id, doorbell_offset) = (args.queue_id, args.doorbell_offset);
        let gpu = Arc::clone(gpu);
        Ok(Self { gpu, ring, pointers, id, doorbell, doorbell_offset, written: 0, uses: Vec::new() })
    }

    /// Copies a whole buffer to one that is at least as long; either may be in any kind of memory.
    ///
    /// # Errors
    ///
    /// [`QueueError::Option`] for a destination that is too short; [`QueueError::Timeout`] when the engine does not go on.
    pub fn copy<T: Pod>(&mut self, from: &Buffer<T>, to: &Buffer<T>) -> Result<(), QueueError> {
        let bytes = (from.len() * size_of::<T>()) as u64;
        if to.len() < from.len() {
            let (what, value) = ("a copy to a buffer of elements", to.len() as u64);
            return Err(QueueError::Option { what, value, allowed: "at least as many as the source has" });
        }
        let most = Generation::of(&self.gpu.agent).most_copied;
        for done in (0..bytes).step_by(most as usize) {
            let [src_lo, src_hi] = halves(from.address() + done);
            let [dst_lo, dst_hi] = halves(to.address() + done);
            let mut header = CopyHeader::from_bits(0);
            header.set_op(Op::COPY.0);
            let count = (most.min(bytes - done) - 1) as u32;
            let parameter = CopyParameter::from_bits(0);
            self.push(&CopyLinear { header, count, parameter, src_lo, src_hi, dst_lo, dst_hi })?;
        }
        self.uses.extend([Arc::clone(from.allocation()), Arc::clone(to.allocation())]);
        Ok(())
    }

    /// Fills a whole buffer with a value.
    ///
    /// # Errors
    ///
    /// [`QueueError::Timeout`] when the engine does not go on.
    pub fn fill(&mut self, to: &Buffer<u32>, value: u32) -> Result<(), QueueError> {
        let bytes = to.len() as u64 * 4;
        let most = Generation::of(&self.gpu.agent).most_copied;
        for done in (0..bytes).step_by(most as usize) {
            let [dst_lo, dst_hi] = halves(to.address() + done);
            let mut header = ConstantFillHeader::from_bits(0);
            header.set_op(Op::CONST_FILL.0);
            header.set_fillsize(2);
            let count = (most.min(bytes - done) - 1) as u32;
            self.push(&ConstantFill { header, dst_lo, dst_hi, data: value, count })?;
        }
        self.uses.push(Arc::clone(to.allocation()));
        Ok(())
    }

    /// Waits until everything submitted is done.
    ///
    /// # Errors
    ///
    /// [`QueueError::Timeout`], when the work goes on; [`QueueError::MemoryFault`].
    pub fn finish(&mut self, timeout: Option<Duration>) -> Result<(), QueueError> {
        let signal = Signal::new(&self.gpu.process, 1)?;
        self.fence(signal.handle() + SIGNAL_VALUE_OFFSET, 0)?;
        if let Some((mailbox, event)) = signal.mailbox() {
            self.fence(mailbox, event)?;
            self.push(&Trap { header: Header::new(Op::TRAP, 0), int_context: event })?;
        }
        match signal.wait(Condition::Equal(0), timeout) {
            Ok(_) => {
                // Freeing memory calls the driver.
                self.uses.clear();
                Ok(())
            }
            Err(error) => {
                // The engine may still store there: the signal's memory must not be reused.
                std::mem::forget(signal);
                Err(match error {
                    SignalError::MemoryFault(fault) => QueueError::MemoryFault(fault),
                    _ => QueueError::Timeout(timeout.or(self.gpu.process.wait_limit()).unwrap_or_default()),
                })
            }
        }
    }

    fn fence(&mut self, address: u64, data: u32) -> Result<(), QueueError> {
        let [addr_lo, addr_hi] = halves(address);
        self.push(&Fence { header: Header::new(Op::FENCE, 0), addr_lo, addr_hi, data })
    }

    /// Writes a packet, in one piece, and rings the doorbell.
    fn push<P: IntoBytes + zerocopy::Immutable>(&mut self, packet: &P) -> Result<(), QueueError> {
        let bytes = packet.as_bytes();
        let to_end = RING - self.written % RING;
        if to_end < bytes.len() as u64 {
            // No packet lies around the end of the ring: a NOP skips the rest.
            let mut nop = Header::new(Op::NOP, 0);
            nop.set_nop_count((to_end / 4 - 1) as u16);
            self.write(nop.bits().as_bytes(), to_end)?;
        }
        self.write(bytes, bytes.len() as u64)?;
        self.pointers.atomic_u64(WRITE_POINTER).store(self.written, Ordering::Release);
        self.doorbell.ring(self.doorbell_offset, self.written);
        Ok(())
    }

    /// Writes bytes where there is room for `size`, and counts those.
    fn write(&mut self, bytes: &[u8], size: u64) -> Result<(), QueueError> {
        const PATIENCE: Duration = Duration::from_secs(60);
        let started = Instant::now();
        while self.written + size - self.read_pointer() > RING {
            if let Some(fault) = self.gpu.process.fault() {
                return Err(QueueError::MemoryFault(fault));
            }
            if started.elapsed() > PATIENCE {
                return Err(QueueError::Timeout(PATIENCE));
            }
            self.gpu.process.kfd.transport().pause(Duration::from_micros(100));
        }
        self.ring.write_bytes((self.written % RING) as usize, bytes);
        self.written += size;
        Ok(())
    }

    fn read_pointer(&self) -> u64 {
        self.pointers.atomic_u64(READ_POINTER).load(Ordering::Acquire)
    }
}

impl Drop for CopyQueue {
    fn drop(&mut self) {
        destroy(&self.gpu, self.id);
    }
}

fn destroy(gpu: &GpuInner, id: u32) {
    if let Err(error) = gpu.process.kfd.destroy_queue(id) {
        log::warn!("copy queue {id}: {error}");
    }
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}
