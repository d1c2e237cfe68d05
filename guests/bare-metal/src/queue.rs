//! A queue of AQL packets of a process.

use core::sync::atomic::{AtomicU64, Ordering};

use belfry_abi::aql::{
    AQL_PACKET_SIZE, AmdQueue, BarrierPacket, FENCE_SCOPE_SYSTEM, KernelDispatchPacket, PacketHeader,
    PacketType, QUEUE_READ_DISPATCH_ID_OFFSET, QUEUE_WRITE_DISPATCH_ID_OFFSET,
};
use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::gpuvm::PTE_VALID;
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode, QueueType};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::pci::{DOORBELL_SIZE, DOORBELL_SLICE_SIZE};
use belfry_abi::regs::{Register, gc};
use belfry_abi::signal::{
    AMD_SIGNAL_KIND_USER, SIGNAL_EVENT_ID_OFFSET, SIGNAL_EVENT_MAILBOX_PTR_OFFSET, SIGNAL_VALUE_OFFSET,
};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::gpu::Gpu;
use crate::memory::{PAGE, peek, poke, put, quad, word};
use crate::process::{DEPTH, Process, Shared};
use crate::rings::Rings;
use crate::shader::{Kernel, Vectors};

/// Packets the ring holds.
pub const PACKETS: u64 = 64;
/// Offset of a second signal, after the first.
const GATE: u64 = 0x400;
/// The first doorbell of the second slice: the first one is the kernel's.
const DOORBELL: DoorbellIndex = DoorbellIndex::of_number((DOORBELL_SLICE_SIZE / DOORBELL_SIZE) as u32);
/// Offset and size of the area in which waves would be saved; the device demands one.
const SAVE_AREA: (u32, u32) = (0x7e00, 0x1_0000);

/// A queue with one signal.
pub struct Queue {
    ring: Shared,
    state: Shared,
    state_in_kernel: u64,
    mqd: u64,
    signal: Shared,
    written: u64,
}

impl Queue {
    /// Makes its ring, its `amd_queue_t` and its MQD.
    pub fn new(gpu: &Gpu, process: &mut Process, rings: &mut Rings) -> Self {
        let ring = process.alloc(gpu, rings, PACKETS * AQL_PACKET_SIZE);
        let state = process.alloc(gpu, rings, PAGE);
        let signal = process.alloc(gpu, rings, PAGE);
        for packet in 0..PACKETS {
            word(ring.cpu + packet * AQL_PACKET_SIZE).store(PacketType::INVALID.0.into(), Ordering::Relaxed);
        }
        let mut queue = AmdQueue::new_zeroed();
        queue.base_address = ring.gpu;
        queue.size = PACKETS as u32;
        queue.read_dispatch_id_field_base_byte_offset = QUEUE_READ_DISPATCH_ID_OFFSET as u32;
        put(state.cpu, &queue);

        let mut mqd = ComputeMqd::new();
        mqd.set_static_thread_mgmt(&[u32::MAX; 8]);
        mqd.set_pq_base(ring.gpu);
        mqd.set_pq_rptr_report_addr(state.gpu + QUEUE_READ_DISPATCH_ID_OFFSET);
        mqd.set_pq_wptr_poll_addr(state.gpu + QUEUE_WRITE_DISPATCH_ID_OFFSET);
        let mut control = gc::CP_HQD_PQ_CONTROL::from_bits(0);
        control.set_queue_size(((PACKETS * AQL_PACKET_SIZE / 4) as u32).ilog2() - 1);
        control.set_slot_based_wptr(2);
        mqd.cp_hqd_pq_control = control.bits();
        mqd.cp_hqd_aql_control = 1;
        (mqd.cp_hqd_ctx_save_base_addr_hi, mqd.cp_hqd_ctx_save_size) = SAVE_AREA;
        let mut bell = gc::CP_HQD_PQ_DOORBELL_CONTROL::from_bits(0);
        bell.set_doorbell_offset(DOORBELL.dwords());
        mqd.cp_hqd_pq_doorbell_control = bell.bits();
        let descriptor = rings.share(gpu, PAGE);
        put(descriptor.cpu, &mqd);
        let state_in_kernel = rings.map(gpu, state.cpu, PAGE);
        Self { ring, state, state_in_kernel, mqd: descriptor.gpu, signal, written: 0 }
    }

    /// Its doorbell.
    pub fn doorbell(&self) -> DoorbellIndex {
        DOORBELL
    }

    /// Address by which the scheduler knows the queue's gang.
    pub fn gang(&self) -> u64 {
        self.mqd
    }

    /// Frame that tells the scheduler of the queue.
    pub fn frame(&self, process: &Process) -> AddQueue {
        let mut context = gc::GCVM_CONTEXT0_CNTL::from_bits(0);
        context.set_enable_context(true);
        context.set_page_table_depth(DEPTH);
        let mut frame = AddQueue::new_zeroed();
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.process_id = process.pasid.into();
        frame.page_table_base_addr = (process.root | PTE_VALID).into();
        frame.process_va_end = ((1u64 << 36) - 1).into();
        frame.process_context_addr = process.root.into();
        frame.gang_context_addr = self.gang().into();
        frame.doorbell_offset = DOORBELL;
        frame.mqd_addr = self.mqd.into();
        frame.wptr_addr = (self.state_in_kernel + QUEUE_WRITE_DISPATCH_ID_OFFSET).into();
        frame.queue_type = QueueType::COMPUTE.0;
        frame.gds_size = (PACKETS * AQL_PACKET_SIZE / 4) as u32;
        frame.vm_context_cntl = context.bits();
        frame.flags = AddQueueFlags::IS_KFD_PROCESS | AddQueueFlags::IS_AQL_QUEUE;
        frame
    }

    /// Writes a dispatch and gives the value of the signal it completes; the doorbell is not rung yet.
    pub fn dispatch(&mut self, kernel: &Kernel, vectors: &Vectors, event: u32) -> &'static AtomicU64 {
        let completion = self.arm(event);
        let mut packet = KernelDispatchPacket::new_zeroed();
        packet.header = PacketType::INVALID.0.into();
        packet.setup = 1;
        (packet.workgroup_size_x, packet.workgroup_size_y, packet.workgroup_size_z) =
            (vectors.workgroup(), 1, 1);
        (packet.grid_size_x, packet.grid_size_y, packet.grid_size_z) = (vectors.count(), 1, 1);
        packet.kernel_object = kernel.descriptor;
        packet.kernarg_address = vectors.arguments();
        packet.completion_signal = self.signal.gpu;
        self.publish(&packet, PacketType::KERNEL_DISPATCH, packet.setup);
        completion
    }

    /// Writes `count` barriers, rings for each, and waits for the last one by looking at its signal.
    ///
    /// The signal comes before the packet's place is free, so that a full ring needs a look at the read index as well.
    pub fn burst(&mut self, gpu: &Gpu, count: u64) {
        assert!(count <= PACKETS);
        let completion = self.arm(0);
        for left in (0..count).rev() {
            self.barrier(left == 0);
            self.ring(gpu);
        }
        while completion.load(Ordering::Acquire) != 0 {}
        self.drain();
    }

    /// Writes `count` barriers; the first one waits for [`release`](Self::release): the queue has work for as long.
    ///
    /// Gives the value to ring with for the first one.
    pub fn hold(&mut self, count: u64) -> u64 {
        assert!((1..=PACKETS).contains(&count));
        let first = self.written;
        poke(self.signal.cpu + GATE, AMD_SIGNAL_KIND_USER as u64);
        poke(self.signal.cpu + GATE + SIGNAL_VALUE_OFFSET, 1);
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketType::INVALID.0.into();
        packet.dep_signal[0] = self.signal.gpu + GATE;
        self.publish(&packet, PacketType::BARRIER_AND, 0);
        (1..count).for_each(|_| self.barrier(false));
        first
    }

    /// Lets the queue go on.
    pub fn release(&self) {
        poke(self.signal.cpu + GATE + SIGNAL_VALUE_OFFSET, 0);
    }

    /// Waits until every packet has been read: a signal comes before its packet's place is free.
    pub fn drain(&self) {
        while peek(self.state.cpu + QUEUE_READ_DISPATCH_ID_OFFSET) < self.written {}
    }

    fn barrier(&mut self, last: bool) {
        let mut packet = BarrierPacket::new_zeroed();
        packet.header = PacketType::INVALID.0.into();
        packet.completion_signal = if last { self.signal.gpu } else { 0 };
        self.publish(&packet, PacketType::BARRIER_AND, 0);
    }

    /// Sets the signal to 1; an event other than 0 is raised when it becomes 0.
    fn arm(&self, event: u32) -> &'static AtomicU64 {
        let signal = self.signal;
        let mailbox = if event == 0 { 0 } else { signal.gpu + PAGE / 2 };
        poke(signal.cpu, AMD_SIGNAL_KIND_USER as u64);
        poke(signal.cpu + SIGNAL_EVENT_MAILBOX_PTR_OFFSET, mailbox);
        word(signal.cpu + SIGNAL_EVENT_ID_OFFSET).store(event, Ordering::Relaxed);
        poke(signal.cpu + SIGNAL_VALUE_OFFSET, 1);
        quad(signal.cpu + SIGNAL_VALUE_OFFSET)
    }

    /// Writes a packet, its header last.
    fn publish<T: IntoBytes + Immutable>(&mut self, packet: &T, kind: PacketType, setup: u16) {
        let at = self.ring.cpu + self.written % PACKETS * AQL_PACKET_SIZE;
        put(at, packet);
        self.written += 1;
        poke(self.state.cpu + QUEUE_WRITE_DISPATCH_ID_OFFSET, self.written);
        let header = PacketHeader::new(kind, true, FENCE_SCOPE_SYSTEM, FENCE_SCOPE_SYSTEM);
        word(at).store(u32::from(header.bits()) | u32::from(setup) << 16, Ordering::Release);
    }

    /// Rings for the last packet written.
    pub fn ring(&self, gpu: &Gpu) {
        gpu.ring(DOORBELL, self.written - 1);
    }
}
