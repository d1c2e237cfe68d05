//! User-mode queues: packets go from this process to the GPU without the kernel in between.

mod completion;
mod context;
mod error;
pub(crate) mod icache;
mod ring;
mod save_area;
mod scratch;
mod stop;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use belfry_abi::aql::{
    AQL_PACKET_SIZE, AmdQueue, BarrierPacket, FENCE_SCOPE_SYSTEM, PacketHeader, PacketType,
    QUEUE_PROPERTIES_ENABLE_PROFILING, QUEUE_PROPERTIES_IS_PTR64, QUEUE_READ_DISPATCH_ID_OFFSET,
    QUEUE_WRITE_DISPATCH_ID_OFFSET,
};
use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_MAX_QUEUE_PERCENTAGE, KFD_MAX_QUEUE_PRIORITY,
};
use belfry_abi::kfd::topology::NUM_GWS;
use zerocopy::{FromZeros, transmute};

use crate::doorbell::DoorbellPage;
use crate::generation::Generation;
use crate::memory::{Allocation, HostAccess, MemoryKind};
use crate::opened::GpuInner;
use crate::process::{MemoryFault, lock};
use crate::reservation::PAGE;
use crate::signal::Signal;
pub use context::SavedContext;
use ring::{Packet, Ring};
use save_area::SaveArea;
use scratch::Scratch;

pub use completion::Completion;
pub use error::QueueError;
pub use stop::StopCode;

/// Packets a queue may have.
const PACKETS: std::ops::RangeInclusive<u32> = 64..=1 << 20;
/// Dependencies of one barrier packet.
const BARRIER_SIGNALS: usize = 5;
/// Time for which a stopped queue waits for the memory fault that may have stopped it.
const FAULT_GRACE: Duration = Duration::from_millis(50);

/// Options of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    /// Packets the ring holds: a power of two from 64 to 1 Mi.
    pub packets: u32,
    /// 0 (lowest) to 15.
    pub priority: u32,
    /// Kind of memory of the ring.
    pub ring: MemoryKind,
    /// The context save area is in system memory, where [`Queue::context`] reads it.
    pub readable_context: bool,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self { packets: 256, priority: 7, ring: MemoryKind::Gtt, readable_context: false }
    }
}

/// A queue; clones and threads may submit to it at the same time. Destroyed with the last clone and completion, or
/// by [`destroy`](Self::destroy).
#[derive(Debug, Clone)]
pub struct Queue {
    pub(crate) inner: Arc<QueueInner>,
}

/// Resources that a packet uses until its signal reaches zero.
struct InFlight {
    signal: Signal,
    _uses: Uses,
}

/// Things kept alive for a packet.
pub(crate) type Uses = Vec<Arc<dyn Any + Send + Sync>>;

pub(crate) struct QueueInner {
    gpu: Arc<GpuInner>,
    ring: Ring,
    id: u32,
    doorbell: Arc<DoorbellPage>,
    doorbell_offset: u64,
    /// The packet processor stores a code here when it stops the queue.
    inactive: Signal,
    /// Read while submitting, written while the scratch memory changes.
    scratch: RwLock<Scratch>,
    code_generation: AtomicU64,
    /// False once the driver has destroyed the queue. Read while the doorbell is rung, which may be another queue's
    /// afterwards.
    open: RwLock<bool>,
    in_flight: Mutex<Vec<InFlight>>,
    stopped: OnceLock<(StopCode, Option<MemoryFault>)>,
    _eop: Option<Allocation>,
    save_area: Allocation,
    readable_context: bool,
    priority: u32,
}

impl std::fmt::Debug for QueueInner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("id", &self.id).field("ring", &self.ring).finish_non_exhaustive()
    }
}

impl Queue {
    pub(crate) fn new(gpu: &Arc<GpuInner>, options: &QueueOptions) -> Result<Self, QueueError> {
        if !PACKETS.contains(&options.packets) || !options.packets.is_power_of_two() {
            let allowed = "a power of two from 64 to 1048576";
            return Err(QueueError::Option { what: "packets", value: options.packets.into(), allowed });
        }
        if options.priority > KFD_MAX_QUEUE_PRIORITY {
            let allowed = "0 to 15";
            return Err(QueueError::Option { what: "priority", value: options.priority.into(), allowed });
        }
        let kfd = &gpu.process.kfd;
        let allocate = |kind, access, size| Allocation::new(kfd, &[gpu.agent.gpu_id], kind, access, size);
        let size = u64::from(options.packets);
        let packets = allocate(options.ring, HostAccess::ReadWrite, (size * AQL_PACKET_SIZE) as usize)?;
        packets.zero(0, packets.len());
        let control = allocate(MemoryKind::Gtt, HostAccess::ReadWrite, PAGE)?;
        let eop = match Generation::of(&gpu.agent).eop_size {
            0 => None,
            size => Some(allocate(MemoryKind::Vram, HostAccess::None, size)?),
        };
        let area = SaveArea::of(&gpu.agent);
        // Nothing but the GPU touches it. VRAM costs no pages of the system, and system memory is the way out.
        let save_area = if options.readable_context {
            allocate(MemoryKind::Gtt, HostAccess::ReadWrite, area.total)?
        } else {
            allocate(MemoryKind::Vram, HostAccess::None, area.total)
                .or_else(|_| allocate(MemoryKind::Gtt, HostAccess::None, area.total))?
        };
        let inactive = Signal::manual_reset(&gpu.process, 0)?;
        let ring = Ring::new(packets, control, size);
        write_queue_struct(gpu, &ring, &inactive, size as u32);

        let mut args = CreateQueueArgs::new_zeroed();
        args.ring_base_address = ring.address();
        args.ring_size = ring.bytes() as u32;
        args.write_pointer_address = ring.control.address() + QUEUE_WRITE_DISPATCH_ID_OFFSET;
        args.read_pointer_address = ring.control.address() + QUEUE_READ_DISPATCH_ID_OFFSET;
        args.gpu_id = gpu.agent.gpu_id;
        args.queue_type = KFD_IOC_QUEUE_TYPE_COMPUTE_AQL;
        args.queue_percentage = KFD_MAX_QUEUE_PERCENTAGE;
        args.queue_priority = options.priority;
        if let Some(eop) = &eop {
            args.eop_buffer_address = eop.address();
            args.eop_buffer_size = eop.len() as u64;
        }
        args.ctx_save_restore_address = save_area.address();
        args.ctx_save_restore_size = area.save_restore;
        args.ctl_stack_size = area.ctl_stack;
        kfd.create_queue(&mut args)?;
        let doorbell = match gpu.doorbells(args.doorbell_offset) {
            Ok(doorbell) => doorbell,
            Err(error) => {
                destroy(gpu, args.queue_id);
                return Err(error.into());
            }
        };
        let inner = QueueInner {
            gpu: Arc::clone(gpu),
            ring,
            id: args.queue_id,
            doorbell,
            doorbell_offset: args.doorbell_offset,
            inactive,
            scratch: RwLock::default(),
            code_generation: AtomicU64::new(0),
            open: RwLock::new(true),
            in_flight: Mutex::default(),
            stopped: OnceLock::new(),
            _eop: eop,
            save_area,
            readable_context: options.readable_context,
            priority: options.priority,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// KFD's id of the queue.
    pub fn id(&self) -> u32 {
        self.inner.id
    }

    /// Lets the queue's kernels use barriers and semaphores across workgroups (`ds_gws_*`). One queue of a process can
    /// have them, and all workgroups of a grid that meets at them have to fit on the GPU at once.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`]: `EBUSY` when another queue of the process has them.
    pub fn take_global_wave_sync(&self) -> Result<(), QueueError> {
        Ok(self.inner.gpu.process.kfd.alloc_queue_gws(self.inner.id, NUM_GWS)?)
    }

    /// Limits the waves of packets from now on to some compute units: a bit for each, in pairs, dealt out to the shader engines
    /// in turn (`KFD_IOC` `SET_CU_MASK`). Waves that run are moved.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`]: `EINVAL` for an empty mask and for half of a pair.
    pub fn set_cu_mask(&self, mask: &[u32]) -> Result<(), QueueError> {
        Ok(self.inner.gpu.process.kfd.set_cu_mask(self.inner.id, mask)?)
    }

    /// Submits a barrier-and packet: later packets of this queue, and the completion returned, wait until all
    /// `dependencies` are zero and all earlier packets are done. There may be up to five dependencies; without any, the
    /// packet only waits for all earlier ones.
    ///
    /// # Errors
    ///
    /// [`QueueError::Option`] for more than five dependencies, and a queue that was stopped.
    pub fn barrier_and(&self, dependencies: &[&Signal]) -> Result<Completion, QueueError> {
        self.barrier(PacketType::BARRIER_AND, dependencies)
    }

    /// As [`barrier_and`](Self::barrier_and), but waits for any one of the dependencies.
    ///
    /// # Errors
    ///
    /// As [`barrier_and`](Self::barrier_and).
    pub fn barrier_or(&self, dependencies: &[&Signal]) -> Result<Completion, QueueError> {
        self.barrier(PacketType::BARRIER_OR, dependencies)
    }

    fn barrier(&self, kind: PacketType, dependencies: &[&Signal]) -> Result<Completion, QueueError> {
        if dependencies.len() > BARRIER_SIGNALS {
            let value = dependencies.len() as u64;
            return Err(QueueError::Option { what: "barrier dependencies", value, allowed: "up to 5" });
        }
        let signal = Signal::new(&self.inner.gpu.process, 1)?;
        let uses = dependencies
            .iter()
            .map(|signal| Arc::new((*signal).clone()) as Arc<dyn Any + Send + Sync>)
            .collect();
        let handles: Vec<u64> = dependencies.iter().map(|signal| signal.handle()).collect();
        let _scratch = self.inner.scratch.read().unwrap_or_else(PoisonError::into_inner);
        self.inner.submit(&barrier_packet(kind, &handles, signal.handle()))?;
        Ok(Completion::new(self, signal, uses))
    }

    /// Waits until everything submitted before is done.
    ///
    /// # Errors
    ///
    /// [`QueueError::Stopped`] and [`QueueError::MemoryFault`].
    pub fn finish(&self) -> Result<(), QueueError> {
        self.barrier_and(&[])?.wait()
    }

    /// Destroys the queue at once: running work is stopped, waiting work never begins.
    ///
    /// Waits for outstanding completions, in this thread and others, end with [`QueueError::Destroyed`].
    /// Submissions through other clones fail with this error, too.
    ///
    /// # Errors
    ///
    /// [`QueueError::Driver`] when the driver refuses, with the queue left as it was; [`QueueError::Destroyed`] when
    /// another clone was destroyed before.
    pub fn destroy(self) -> Result<(), QueueError> {
        self.inner.destroy()
    }

    /// Submits a dispatch that `signal` completes. Scratch memory and instruction caches are seen to first.
    pub(crate) fn dispatch(
        &self,
        packet: &Packet,
        signal: Signal,
        private: u32,
        wavefront: u32,
        uses: Uses,
    ) -> Result<Completion, QueueError> {
        let inner = &self.inner;
        loop {
            let scratch = inner.scratch.read().unwrap_or_else(PoisonError::into_inner);
            if scratch.suffices(&inner.gpu, private, wavefront)? {
                let generation = inner.gpu.code_generation();
                if inner.code_generation.load(Ordering::Acquire) < generation {
                    inner.submit(&icache::packet(&inner.gpu))?;
                    inner.code_generation.fetch_max(generation, Ordering::AcqRel);
                }
                inner.submit(packet)?;
                break;
            }
            drop(scratch);
            inner.grow_scratch(private, wavefront)?;
        }
        Ok(Completion::new(self, signal, uses))
    }

    /// Address of the `amd_queue_t`.
    pub(crate) fn control_address(&self) -> u64 {
        self.inner.ring.control.address()
    }

    pub(crate) fn gpu(&self) -> &Arc<GpuInner> {
        &self.inner.gpu
    }
}

impl QueueInner {
    /// Reserves a slot, waits until it is free, publishes the packet and rings the doorbell.
    fn submit(&self, packet: &Packet) -> Result<(), QueueError> {
        self.check()?;
        self.reap();
        let index = self.ring.reserve();
        let mut since = None;
        while !self.ring.has_room(index) {
            self.check()?;
            let start = *since.get_or_insert_with(Instant::now);
            if let Some(limit) = self.gpu.process.wait_limit().filter(|limit| start.elapsed() >= *limit) {
                // The slot stays reserved: no packet after it is ever read, as none before it was.
                return Err(QueueError::Timeout(limit));
            }
            // The GPU frees slots without telling the process: poll, gently once it takes long.
            if start.elapsed() < Duration::from_millis(1) {
                std::thread::yield_now();
            } else {
                self.gpu.process.kfd.transport().pause(Duration::from_micros(100));
            }
        }
        self.ring.publish(index, packet);
        self.ring_doorbell(index)
    }

    /// Waits until the queue is empty, then gives it more scratch memory.
    fn grow_scratch(&self, private: u32, wavefront: u32) -> Result<(), QueueError> {
        let mut scratch = self.scratch.write().unwrap_or_else(PoisonError::into_inner);
        if scratch.suffices(&self.gpu, private, wavefront)? {
            return Ok(());
        }
        let done = Signal::new(&self.gpu.process, 1)?;
        self.submit(&barrier_packet(PacketType::BARRIER_AND, &[], done.handle()))?;
        if let Err(error) = self.wait(&done, None) {
            // The packet may still be pending: the signal's memory must not be reused while it is.
            self.park(done, Vec::new());
            return Err(error);
        }
        scratch.grow(&self.gpu, &self.ring.control, private, wavefront)
    }

    /// Fails if the queue was stopped. A stop for want of scratch memory is resumed: memory was given before the
    /// packet was submitted, the packet processor only has to read it again.
    fn check(&self) -> Result<(), QueueError> {
        if !self.is_open() {
            return Err(QueueError::Destroyed);
        }
        if let Some((code, fault)) = self.stopped.get() {
            return Err(QueueError::Stopped { code: *code, fault: *fault });
        }
        let value = self.inactive.load();
        if value != 0 {
            let code = StopCode(value.cast_unsigned());
            if code.is_scratch_request() {
                self.inactive.clear_event();
                self.inactive.compare_exchange(value, 0);
                return self.ring_doorbell(self.ring.read_index());
            }
            let fault =
                if code.may_be_memory_fault() { self.gpu.process.poll_fault(FAULT_GRACE) } else { None };
            let (code, fault) = *self.stopped.get_or_init(|| (code, fault));
            return Err(QueueError::Stopped { code, fault });
        }
        match self.gpu.process.fault() {
            Some(fault) => Err(QueueError::MemoryFault(fault)),
            None => Ok(()),
        }
    }

    /// Waits until a completion signal reaches zero.
    fn wait(&self, signal: &Signal, timeout: Option<Duration>) -> Result<(), QueueError> {
        // A small dispatch is done when its doorbell has been rung.
        if signal.load() <= 0 {
            return Ok(());
        }
        let outcome = signal.wait_with(&[&self.inactive], timeout, || {
            if signal.load() <= 0 {
                return Some(Ok(()));
            }
            self.check().err().map(Err)
        });
        outcome.unwrap_or_else(|| {
            Err(QueueError::Timeout(timeout.or(self.gpu.process.wait_limit()).unwrap_or_default()))
        })
    }

    fn is_open(&self) -> bool {
        *self.open.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring_doorbell(&self, index: u64) -> Result<(), QueueError> {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return Err(QueueError::Destroyed);
        }
        self.doorbell.ring(self.doorbell_offset, index);
        Ok(())
    }

    /// Destroys the queue while completions and clones of it live on.
    fn destroy(&self) -> Result<(), QueueError> {
        let mut open = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if !*open {
            return Err(QueueError::Destroyed);
        }
        self.gpu.process.kfd.destroy_queue(self.id)?;
        *open = false;
        drop(open);
        // Who waits for a completion also waits for this signal, whose event stays set.
        self.inactive.store(1);
        // The GPU touches nothing of the queue's any more. Freeing memory calls the driver: not under the lock.
        let in_flight: Vec<InFlight> = std::mem::take(&mut *lock(&self.in_flight));
        drop(in_flight);
        Ok(())
    }

    /// Keeps the resources of a packet until its signal says that it is done, or the queue is destroyed.
    fn park(&self, signal: Signal, uses: Uses) {
        if self.is_open() {
            lock(&self.in_flight).push(InFlight { signal, _uses: uses });
        }
    }

    /// Lets go of the resources of finished packets.
    fn reap(&self) {
        let mut in_flight = lock(&self.in_flight);
        if in_flight.is_empty() {
            return;
        }
        let (pending, done) =
            std::mem::take(&mut *in_flight).into_iter().partition(|one| one.signal.load() > 0);
        *in_flight = pending;
        drop(in_flight);
        // Freeing memory calls the driver: not under the lock.
        drop::<Vec<InFlight>>(done);
    }
}

impl Drop for QueueInner {
    fn drop(&mut self) {
        // Once the queue is gone the GPU touches none of its memory.
        if self.is_open() {
            destroy(&self.gpu, self.id);
        }
    }
}

fn destroy(gpu: &GpuInner, id: u32) {
    if let Err(error) = gpu.process.kfd.destroy_queue(id) {
        log::warn!("queue {id}: {error}");
    }
}

fn write_queue_struct(gpu: &GpuInner, ring: &Ring, inactive: &Signal, packets: u32) {
    let mut queue = AmdQueue::new_zeroed();
    queue.features = 1; // HSA_QUEUE_FEATURE_KERNEL_DISPATCH
    queue.base_address = ring.address();
    queue.size = packets;
    queue.group_segment_aperture_base_hi = (gpu.apertures.lds_base >> 32) as u32;
    queue.private_segment_aperture_base_hi = (gpu.apertures.scratch_base >> 32) as u32;
    queue.max_cu_id = gpu.agent.compute_units().saturating_sub(1);
    queue.max_wave_id = (gpu.agent.max_waves_per_simd * gpu.agent.simds_per_cu).saturating_sub(1);
    queue.read_dispatch_id_field_base_byte_offset = QUEUE_READ_DISPATCH_ID_OFFSET as u32;
    queue.queue_properties = QUEUE_PROPERTIES_IS_PTR64 | QUEUE_PROPERTIES_ENABLE_PROFILING;
    queue.queue_inactive_signal = inactive.handle();
    ring.control.zero(0, ring.control.len());
    ring.control.write(0, &queue);
}

fn barrier_packet(kind: PacketType, dependencies: &[u64], completion: u64) -> Packet {
    let mut packet = BarrierPacket::new_zeroed();
    packet.header = PacketHeader::new(kind, true, FENCE_SCOPE_SYSTEM, FENCE_SCOPE_SYSTEM).bits();
    for (slot, dependency) in packet.dep_signal.iter_mut().zip(dependencies) {
        *slot = *dependency;
    }
    packet.completion_signal = completion;
    transmute!(packet)
}
