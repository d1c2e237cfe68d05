//! User-mode compute queues: creation, MQDs, and their life on the scheduler (`kfd_process_queue_manager.c`,
//! `kfd_device_queue_manager.c`, `kfd_mqd_manager_v11.c`, `kfd_queue.c`).

use alloc::sync::Arc;
use alloc::vec::Vec;

use belfry_abi::kfd::mmap::{KFD_MMAP_TYPE_DOORBELL, kfd_mmap_offset};
use belfry_abi::kfd::queue::{
    CreateQueueArgs, KFD_IOC_QUEUE_TYPE_COMPUTE, KFD_IOC_QUEUE_TYPE_COMPUTE_AQL, KFD_IOC_QUEUE_TYPE_SDMA,
    KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID, KFD_IOC_QUEUE_TYPE_SDMA_XGMI, KFD_MAX_NUM_OF_QUEUES_PER_PROCESS,
    KFD_MAX_QUEUE_PERCENTAGE, KFD_MAX_QUEUE_PRIORITY, KFD_MIN_QUEUE_RING_SIZE, UpdateQueueArgs,
};
use belfry_abi::mes::{AddQueue, AddQueueFlags, Header, Opcode, QueueType};
use belfry_abi::mqd::ComputeMqd;
use belfry_abi::regs::{Register, gc};
use zerocopy::{FromZeros, IntoBytes};

use crate::device::{Device, SH_MEM_CONFIG};
use crate::errno::{Errno, Result};
use crate::gart::{GartMapping, KernelBuffer};
use crate::hw::log;
use crate::memory::{BoKind, Hold};
use crate::os::{Os, PAGE_SIZE, check_user_range};
use crate::process::{Process, State};

/// Offset of the gang context in the queue's buffer, behind the MQD's page.
const GANG_CONTEXT: u64 = PAGE_SIZE;
/// Smallest end-of-pipe buffer on gfx8 and later.
const EOP_BUFFER_SIZE: u64 = 4096;
/// Page-table shape and fault bits of a process's VMID: all fault bits of the reset value, depth 3, enabled.
const VM_CONTEXT_CNTL: u32 = gc::GCVM_CONTEXT0_CNTL::RESET | 3 << 1 | 1;
/// `COMPUTE_PGM_RSRC2.TRAP_PRESENT`.
const TRAP_PRESENT: u32 = 1 << 6;
/// Quanta in units of 100 ns: 10 ms for a process, 1 ms for a gang, as amdkfd asks.
const PROCESS_QUANTUM: u64 = 100_000;
const GANG_QUANTUM: u64 = 10_000;
/// `AMDGPU_MES_PRIORITY_LEVEL_NORMAL`.
const PRIORITY_LEVEL_NORMAL: u32 = 1;
/// Most bits of a CU mask.
const MAX_CU_MASK_BITS: u32 = 1024;

/// Sizes of a queue's context save area (`kfd_queue_ctx_save_restore_size`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SaveArea {
    pub(crate) ctl_stack_size: u32,
    pub(crate) cwsr_size: u32,
    pub(crate) debug_memory_size: u32,
}

impl SaveArea {
    /// Sizes for `cus` compute units of gfx11.0.0.
    pub(crate) fn new(cus: u32) -> Self {
        let waves = cus * 32;
        let ctl_stack_size = (40 + waves * 12 + 8).next_multiple_of(PAGE_SIZE as u32);
        // Vector registers, scalar registers, local data share, hardware registers of each compute unit.
        let state = cus * (0x6_0000 + 0x4000 + 0x1_0000 + 0x1000);
        Self {
            ctl_stack_size,
            cwsr_size: ctl_stack_size + state.next_multiple_of(PAGE_SIZE as u32),
            debug_memory_size: (waves * 32).next_multiple_of(64),
        }
    }

    fn total(&self, cwsr_size: u32) -> u64 {
        (u64::from(cwsr_size) + u64::from(self.debug_memory_size)).next_multiple_of(PAGE_SIZE)
    }
}

/// A user-mode queue.
pub(crate) struct Queue<O: Os> {
    ring_base: u64,
    ring_size: u32,
    percentage: u32,
    priority: u32,
    /// Index in the process's slice.
    doorbell: u32,
    /// MQD and gang context.
    buffer: KernelBuffer<O>,
    /// Write pointer in VMID 0.
    wptr: u64,
    _wptr_mapping: Option<GartMapping<O>>,
    _wptr_memory: Option<Hold<O>>,
    /// The ring's buffer object, and the others it uses; ids in the process's table.
    ring_bo: Option<u32>,
    bos: Vec<u32>,
    /// The scheduler knows it.
    mapped: bool,
}

impl<O: Os> Queue<O> {
    /// Whether it should run.
    fn wanted(&self) -> bool {
        self.ring_base != 0 && self.ring_size > 0 && self.percentage > 0
    }

    /// Changes the saved state in place of a copy handed around: two KiB are much for a kernel stack.
    #[inline(never)]
    fn change_mqd(&self, change: &mut dyn FnMut(&mut ComputeMqd)) {
        let mut mqd = ComputeMqd::new_zeroed();
        self.buffer.read(0, mqd.as_mut_bytes());
        change(&mut mqd);
        self.write_mqd(&mqd);
    }

    fn write_mqd(&self, mqd: &ComputeMqd) {
        self.buffer.write(0, mqd.as_bytes());
    }

    /// Writes what UPDATE_QUEUE may change, and leaves the rest of the saved state alone (`update_mqd`).
    fn update_mqd(&self) {
        self.change_mqd(&mut |mqd| {
            let mut control = gc::CP_HQD_PQ_CONTROL(0);
            control.set_rptr_block_size(5);
            control.set_queue_size((self.ring_size / 4).ilog2() - 1);
            control.set_no_update_rptr(true);
            control.set_slot_based_wptr(2);
            control.set_queue_full_en(true);
            mqd.cp_hqd_pq_control = control.bits();
            mqd.set_pq_base(self.ring_base);
            mqd.cp_hqd_pipe_priority = match self.priority {
                0..=6 => 0,
                7..=10 => 1,
                _ => 2,
            };
            mqd.cp_hqd_queue_priority = self.priority;
        });
    }
}

/// The parts of CREATE_QUEUE that do not depend on the process.
fn check_properties<O: Os>(os: &O, args: &mut CreateQueueArgs) -> Result<()> {
    check_share(args.queue_percentage, args.queue_priority)?;
    args.ring_size = check_ring(os, args.ring_base_address, args.ring_size)?;
    check_user_range(os, args.read_pointer_address, 4)?;
    check_user_range(os, args.write_pointer_address, 4)?;
    check_user_range(os, args.eop_buffer_address, 4)?;
    check_user_range(os, args.ctx_save_restore_address, 4)
}

fn check_share(percentage: u32, priority: u32) -> Result<()> {
    if percentage & 0xff > KFD_MAX_QUEUE_PERCENTAGE || priority > KFD_MAX_QUEUE_PRIORITY {
        return Err(Errno::EINVAL);
    }
    Ok(())
}

/// Returns the ring's size, which counts as the smallest when it is smaller.
fn check_ring<O: Os>(os: &O, base: u64, size: u32) -> Result<u32> {
    if base != 0 {
        check_user_range(os, base, 8)?;
    }
    if size != 0 && !size.is_power_of_two() {
        return Err(Errno::EINVAL);
    }
    Ok(size.max(KFD_MIN_QUEUE_RING_SIZE))
}

impl<O: Os> State<O> {
    /// The buffer object that is mapped at exactly this range (`kfd_queue_buffer_get`).
    fn queue_buffer(&self, address: u64, size: u64) -> Result<u32> {
        let page = address & !(PAGE_SIZE - 1);
        let id = *self.mapped.get(&page).ok_or(Errno::EINVAL)?;
        let bo = self.bos.get(&id).ok_or(Errno::EINVAL)?;
        let exact = size < PAGE_SIZE || bo.size == size & !(PAGE_SIZE - 1);
        let memory = !matches!(bo.kind, BoKind::Doorbell | BoKind::MmioRemap);
        if exact && memory { Ok(id) } else { Err(Errno::EINVAL) }
    }

    fn use_bos(&mut self, ids: &[u32], used: bool) {
        for id in ids {
            if let Some(bo) = self.bos.get_mut(id) {
                bo.queues = if used { bo.queues + 1 } else { bo.queues.saturating_sub(1) };
            }
        }
    }
}

impl<O: Os> Process<O> {
    /// CREATE_QUEUE.
    ///
    /// # Errors
    ///
    /// `EINVAL` and `EFAULT` for bad properties, `ENOTSUPP` for an unknown type, `EOPNOTSUPP` for PM4, `ENOMEM` for SDMA
    /// and when memory is short, `ESRCH` without a VM, `ENOSPC` past the limit, `EBUSY` without a doorbell, `EIO` and
    /// `ETIME` when the scheduler does not run it.
    pub(crate) fn create_queue(&self, args: &mut CreateQueueArgs) -> Result<()> {
        let device = &self.device;
        check_properties(device.hw.os(), args)?;
        match args.queue_type {
            KFD_IOC_QUEUE_TYPE_COMPUTE_AQL => {}
            KFD_IOC_QUEUE_TYPE_COMPUTE => return Err(Errno::EOPNOTSUPP),
            KFD_IOC_QUEUE_TYPE_SDMA | KFD_IOC_QUEUE_TYPE_SDMA_XGMI | KFD_IOC_QUEUE_TYPE_SDMA_BY_ENG_ID => {
                return Err(Errno::ENOMEM);
            }
            _ => return Err(Errno::ENOTSUPP),
        }
        if args.gpu_id != u32::from(device.gpu_id) {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if state.vm.is_none() {
            return Err(Errno::ESRCH);
        }
        if device.wedged() || device.epoch() != self.epoch {
            return Err(Errno::EIO);
        }
        if state.queues.len() >= KFD_MAX_NUM_OF_QUEUES_PER_PROCESS as usize {
            return Err(Errno::ENOSPC);
        }
        let (ring_bo, bos) = self.queue_buffers(&state, args)?;
        let id = (0..).find(|id| !state.queues.contains_key(id)).ok_or(Errno::ENOSPC)?;
        let doorbell = state.doorbells.take()?;
        let queue = match self.build_queue(&state, args, doorbell, ring_bo, bos) {
            Ok(queue) => queue,
            Err(error) => {
                state.doorbells.put(doorbell);
                return Err(error);
            }
        };
        state.use_bos(&queue.bos, true);
        state.use_bos(queue.ring_bo.as_slice(), true);
        state.queues.insert(id, queue);
        if let Err(error) = self.resume_queue(&mut state, id) {
            if let Some(queue) = state.queues.remove(&id) {
                self.forget_queue(&mut state, queue);
            }
            self.recover_after(error);
            return Err(error);
        }
        args.queue_id = id;
        args.doorbell_offset = kfd_mmap_offset(KFD_MMAP_TYPE_DOORBELL, device.gpu_id)
            | (u64::from(doorbell) * belfry_abi::pci::DOORBELL_SIZE);
        Ok(())
    }

    /// Checks that every buffer of the queue is a mapped buffer object of just that range (`kfd_queue_acquire_buffers`).
    fn queue_buffers(&self, state: &State<O>, args: &CreateQueueArgs) -> Result<(Option<u32>, Vec<u32>)> {
        let mut bos = Vec::new();
        bos.try_reserve_exact(4).map_err(|_| Errno::ENOMEM)?;
        bos.push(state.queue_buffer(args.write_pointer_address, PAGE_SIZE)?);
        bos.push(state.queue_buffer(args.read_pointer_address, PAGE_SIZE)?);
        if !args.write_pointer_address.is_multiple_of(8) || !args.read_pointer_address.is_multiple_of(8) {
            return Err(Errno::EINVAL);
        }
        let ring = self.ring_buffer(state, args.ring_base_address, args.ring_size)?;
        if args.eop_buffer_address != 0 {
            if args.eop_buffer_size < EOP_BUFFER_SIZE || !args.eop_buffer_size.is_power_of_two() {
                return Err(Errno::EINVAL);
            }
            if !args.eop_buffer_address.is_multiple_of(PAGE_SIZE) {
                return Err(Errno::EINVAL);
            }
            bos.push(state.queue_buffer(args.eop_buffer_address, args.eop_buffer_size)?);
        }
        let area = SaveArea::new(self.device.config.cus);
        if args.ctl_stack_size != area.ctl_stack_size || args.ctx_save_restore_size < area.cwsr_size {
            return Err(Errno::EINVAL);
        }
        if !args.ctx_save_restore_address.is_multiple_of(PAGE_SIZE) {
            return Err(Errno::EINVAL);
        }
        bos.push(state.queue_buffer(args.ctx_save_restore_address, area.total(args.ctx_save_restore_size))?);
        Ok((ring, bos))
    }

    fn ring_buffer(&self, state: &State<O>, base: u64, size: u32) -> Result<Option<u32>> {
        if base == 0 {
            return Ok(None);
        }
        if !base.is_multiple_of(256) || base & (PAGE_SIZE - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        state.queue_buffer(base, u64::from(size)).map(Some)
    }

    fn build_queue(
        &self,
        state: &State<O>,
        args: &CreateQueueArgs,
        doorbell: u32,
        ring_bo: Option<u32>,
        bos: Vec<u32>,
    ) -> Result<Queue<O>> {
        let device = &self.device;
        let buffer = device.gart.allocate(2)?;
        let wptr_bo = bos.first().and_then(|id| state.bos.get(id)).ok_or(Errno::EINVAL)?;
        let in_page = args.write_pointer_address % PAGE_SIZE;
        let (wptr, mapping) = match &wptr_bo.kind {
            BoKind::Vram(memory) => (device.config.fb_start + memory.offset() + in_page, None),
            _ => {
                let mapping = device.gart.map_page(wptr_bo.bus(0).ok_or(Errno::EINVAL)?)?;
                (mapping.gpu_address() + in_page, Some(mapping))
            }
        };
        device.flush_gart()?;
        let queue = Queue {
            ring_base: args.ring_base_address,
            ring_size: args.ring_size,
            percentage: args.queue_percentage & 0xff,
            priority: args.queue_priority,
            doorbell,
            buffer,
            wptr,
            _wptr_mapping: mapping,
            _wptr_memory: wptr_bo.hold(),
            ring_bo,
            bos,
            mapped: false,
        };
        init_mqd(&queue, args, state.doorbells.dword_offset(doorbell), state.trap_handler != 0);
        queue.update_mqd();
        Ok(queue)
    }

    /// Hands a queue to the scheduler if it should run.
    fn resume_queue(&self, state: &mut State<O>, id: u32) -> Result<()> {
        let Some(queue) = state.queues.get(&id) else { return Err(Errno::EINVAL) };
        if queue.mapped || state.evicted || !queue.wanted() {
            return Ok(());
        }
        let (Some(vm), Some(context)) = (&state.vm, &state.context) else { return Err(Errno::ESRCH) };
        let frame = self.add_frame(state, queue, vm.root(), context.gpu_address());
        self.device.with_mes(self.epoch, |mes| mes.add_queue(&frame))?;
        if let Some(queue) = state.queues.get_mut(&id) {
            queue.mapped = true;
        }
        Ok(())
    }

    #[inline(never)]
    fn add_frame(&self, state: &State<O>, queue: &Queue<O>, root: u64, context: u64) -> AddQueue {
        let mut frame = AddQueue::new_zeroed();
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.process_id = u32::from(self.pasid);
        frame.page_table_base_addr = root.into();
        frame.process_va_start = 0.into();
        frame.process_va_end = ((1u64 << 36) - 1).into();
        frame.process_quantum = PROCESS_QUANTUM.into();
        frame.process_context_addr = context.into();
        frame.gang_quantum = GANG_QUANTUM.into();
        frame.gang_context_addr = (queue.buffer.gpu_address() + GANG_CONTEXT).into();
        frame.inprocess_gang_priority = queue.priority;
        frame.gang_global_priority_level = PRIORITY_LEVEL_NORMAL;
        frame.doorbell_offset = state.doorbells.dword_offset(queue.doorbell);
        frame.mqd_addr = queue.buffer.gpu_address().into();
        frame.wptr_addr = queue.wptr.into();
        frame.queue_type = QueueType::COMPUTE.0;
        frame.gds_size = queue.ring_size / 4;
        frame.trap_handler_addr = state.trap_handler.into();
        frame.tma_addr = state.trap_memory.into();
        frame.vm_context_cntl = VM_CONTEXT_CNTL;
        frame.alignment_mode_setting = SH_MEM_CONFIG;
        frame.flags = AddQueueFlags::IS_KFD_PROCESS | AddQueueFlags::IS_AQL_QUEUE;
        frame
    }

    /// Takes a queue off the scheduler; its state is in its MQD afterwards.
    fn suspend_queue(&self, state: &mut State<O>, id: u32) -> Result<()> {
        let offset = match state.queues.get(&id) {
            Some(queue) if queue.mapped => state.doorbells.dword_offset(queue.doorbell),
            Some(_) => return Ok(()),
            None => return Err(Errno::EINVAL),
        };
        let Some(queue) = state.queues.get_mut(&id) else { return Err(Errno::EINVAL) };
        let gang = queue.buffer.gpu_address() + GANG_CONTEXT;
        queue.mapped = false;
        match self.device.with_mes(self.epoch, |mes| mes.remove_queue(offset, gang)) {
            // A reset took the queue off already.
            Err(Errno::EIO) => Ok(()),
            other => other,
        }
    }

    /// Gives back what a queue used; it is not on the scheduler.
    fn forget_queue(&self, state: &mut State<O>, queue: Queue<O>) {
        state.use_bos(&queue.bos, false);
        state.use_bos(queue.ring_bo.as_slice(), false);
        state.doorbells.put(queue.doorbell);
        if self.device.wedged() && self.device.hw.alive() {
            // The device may still write there.
            core::mem::forget(queue);
        }
    }

    /// Recovers the device if `error` says that the scheduler hangs.
    fn recover_after(&self, error: Errno) {
        if error == Errno::ETIME && self.device.recover(self.epoch) {
            for process in self.device.processes() {
                process.gpu_reset();
            }
        }
    }

    /// DESTROY_QUEUE.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown id, `ETIME` when the scheduler did not let it go and the device was reset.
    pub(crate) fn destroy_queue(&self, id: u32) -> Result<()> {
        let mut state = self.state.lock();
        let result = self.suspend_queue(&mut state, id);
        if let Err(error) = result {
            self.recover_after(error);
        }
        let queue = state.queues.remove(&id).ok_or(Errno::EINVAL)?;
        self.forget_queue(&mut state, queue);
        let _ = self.device.flush_gart();
        result
    }

    /// UPDATE_QUEUE.
    ///
    /// # Errors
    ///
    /// As CREATE_QUEUE for the ring, share and priority; `EINVAL` for an unknown id.
    pub(crate) fn update_queue(&self, args: &UpdateQueueArgs) -> Result<()> {
        check_share(args.queue_percentage, args.queue_priority)?;
        let ring_size = check_ring(self.device.hw.os(), args.ring_base_address, args.ring_size)?;
        let mut state = self.state.lock();
        if !state.queues.contains_key(&args.queue_id) {
            return Err(Errno::EINVAL);
        }
        let ring = self.ring_buffer(&state, args.ring_base_address, ring_size)?;
        self.change_queue(&mut state, args.queue_id, |state, id| {
            let Some(old) = state.queues.get_mut(&id).map(|queue| {
                queue.ring_base = args.ring_base_address;
                queue.ring_size = ring_size;
                queue.percentage = args.queue_percentage & 0xff;
                queue.priority = args.queue_priority;
                queue.update_mqd();
                core::mem::replace(&mut queue.ring_bo, ring)
            }) else {
                return;
            };
            state.use_bos(old.as_slice(), false);
            state.use_bos(ring.as_slice(), true);
        })
    }

    /// SET_CU_MASK: `mask` has `bits` bits.
    ///
    /// # Errors
    ///
    /// `EINVAL` for an unknown id, or when one half of a work-group processor is enabled without the other.
    pub(crate) fn set_cu_mask(&self, id: u32, bits: u32, mask: &[u32]) -> Result<()> {
        let bit_pair = |index: u32| mask.get(index as usize / 32).map_or(0, |word| word >> (index % 32) & 3);
        if (0..bits).step_by(2).any(|index| matches!(bit_pair(index), 1 | 2)) {
            return Err(Errno::EINVAL);
        }
        let engines = spread_cu_mask(&self.device, bits, bit_pair);
        let mut state = self.state.lock();
        if !state.queues.contains_key(&id) {
            return Err(Errno::EINVAL);
        }
        self.change_queue(&mut state, id, |state, id| {
            if let Some(queue) = state.queues.get(&id) {
                queue.change_mqd(&mut |mqd| set_thread_management(mqd, &engines));
            }
        })
    }

    /// Applies a change while the queue is off the scheduler.
    fn change_queue(
        &self,
        state: &mut State<O>,
        id: u32,
        change: impl FnOnce(&mut State<O>, u32),
    ) -> Result<()> {
        let result = self.suspend_queue(state, id).and_then(|()| {
            change(state, id);
            self.resume_queue(state, id)
        });
        result.inspect_err(|&error| self.recover_after(error))
    }

    /// Takes all queues off the scheduler for good, after a memory fault.
    pub(crate) fn evict(&self) {
        let mut state = self.state.lock();
        if state.evicted || state.dead {
            return;
        }
        state.evicted = true;
        let mut next = 0;
        while let Some((&id, _)) = state.queues.range(next..).next() {
            if let Err(error) = self.suspend_queue(&mut state, id) {
                self.recover_after(error);
                break;
            }
            next = id + 1;
        }
    }

    /// Removes all queues: the process is going away.
    pub(crate) fn remove_all_queues(&self, state: &mut State<O>) {
        let mut failed = None;
        while let Some((&id, _)) = state.queues.first_key_value() {
            if failed.is_none()
                && let Err(error) = self.suspend_queue(state, id)
            {
                log!(self.device.hw, Error, "pasid {}: queue {id} does not stop ({error})", self.pasid);
                failed = Some(error);
                self.recover_after(error);
            }
            if let Some(queue) = state.queues.remove(&id) {
                self.forget_queue(state, queue);
            }
        }
        let _ = self.device.flush_gart();
    }
}

/// Writes the MQD of a new queue (`init_mqd`), without what [`Queue::update_mqd`] writes.
#[inline(never)]
fn init_mqd<O: Os>(queue: &Queue<O>, args: &CreateQueueArgs, doorbell_dwords: u32, trap: bool) {
    let mut mqd = ComputeMqd::new();
    mqd.compute_pipelinestat_enable = 1;
    set_thread_management(&mut mqd, &[u32::MAX; 8]);
    // Preload; context switches when there is a save area.
    mqd.cp_hqd_persistent_state = 1 | 0x55 << 8;
    mqd.cp_mqd_control = 1 << 8;
    mqd.set_mqd_base(queue.buffer.gpu_address());
    mqd.cp_hqd_quantum = 1 | 1 << 4 | 1 << 8;
    mqd.cp_hqd_hq_status0 = 1 << 14 | 1 << 29;
    mqd.cp_hqd_aql_control = 1;
    if trap {
        mqd.compute_pgm_rsrc2 |= TRAP_PRESENT;
    }
    if args.ctx_save_restore_address != 0 {
        mqd.cp_hqd_persistent_state |= 1 << 28;
        mqd.cp_hqd_ctx_save_base_addr_lo = args.ctx_save_restore_address as u32;
        mqd.cp_hqd_ctx_save_base_addr_hi = (args.ctx_save_restore_address >> 32) as u32;
        mqd.cp_hqd_ctx_save_size = args.ctx_save_restore_size;
        mqd.cp_hqd_cntl_stack_size = args.ctl_stack_size;
        mqd.cp_hqd_cntl_stack_offset = args.ctl_stack_size;
        mqd.cp_hqd_wg_state_offset = args.ctl_stack_size;
    }
    mqd.set_pq_rptr_report_addr(args.read_pointer_address);
    mqd.set_pq_wptr_poll_addr(args.write_pointer_address);
    let mut doorbell = gc::CP_HQD_PQ_DOORBELL_CONTROL(0);
    doorbell.set_doorbell_offset(doorbell_dwords);
    doorbell.set_doorbell_bif_drop(true);
    mqd.cp_hqd_pq_doorbell_control = doorbell.bits();
    mqd.queue_doorbell_id[0] = doorbell_dwords;
    mqd.cp_hqd_ib_control = 3 << 20;
    if args.eop_buffer_address != 0 {
        mqd.set_eop_base(args.eop_buffer_address);
        mqd.cp_hqd_eop_control = ((args.eop_buffer_size / 4).ilog2() - 1).min(0xa);
    }
    queue.write_mqd(&mqd);
}

fn set_thread_management(mqd: &mut ComputeMqd, engines: &[u32; 8]) {
    mqd.compute_static_thread_mgmt_se0 = engines[0];
    mqd.compute_static_thread_mgmt_se1 = engines[1];
    mqd.compute_static_thread_mgmt_se2 = engines[2];
    mqd.compute_static_thread_mgmt_se3 = engines[3];
    mqd.compute_static_thread_mgmt_se4 = engines[4];
    mqd.compute_static_thread_mgmt_se5 = engines[5];
    mqd.compute_static_thread_mgmt_se6 = engines[6];
    mqd.compute_static_thread_mgmt_se7 = engines[7];
}

/// Deals the mask's pairs out to shader arrays, engine by engine, then array by array
/// (`mqd_symmetrically_map_cu_mask`, gfx10 and later).
fn spread_cu_mask<O: Os>(device: &Arc<Device<O>>, bits: u32, pair: impl Fn(u32) -> u32) -> [u32; 8] {
    let config = &device.config;
    let mut engines = [0u32; 8];
    let mut next = 0;
    for cu in (0..16).step_by(2) {
        for array in 0..config.arrays_per_engine.min(2) {
            for engine in 0..config.shader_engines.min(8) {
                let place = engine * config.arrays_per_engine + array;
                let present = config.cu_bitmap.get(place as usize).map_or(0, |bitmap| bitmap.count_ones());
                if present <= cu {
                    continue;
                }
                if next >= bits {
                    return engines;
                }
                engines[engine as usize] |= pair(next) << (cu + array * 16);
                next += 2;
            }
        }
    }
    engines
}

/// Number of bits of a CU mask that are looked at.
///
/// # Errors
///
/// `EINVAL` unless it is a positive multiple of 32.
pub(crate) fn cu_mask_bits(num_cu_mask: u32) -> Result<u32> {
    if num_cu_mask == 0 || !num_cu_mask.is_multiple_of(32) {
        return Err(Errno::EINVAL);
    }
    Ok(num_cu_mask.min(MAX_CU_MASK_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn save_area_of_the_full_chip_is_the_measured_one() {
        let area = SaveArea::new(96);
        assert_eq!((area.ctl_stack_size, area.cwsr_size), (40960, 46_047_232));
        assert_eq!(area.total(area.cwsr_size), 0x2c0_2000);
    }

    #[test]
    fn cu_mask_sizes_are_whole_words() {
        assert_eq!(cu_mask_bits(0), Err(Errno::EINVAL));
        assert_eq!(cu_mask_bits(33), Err(Errno::EINVAL));
        assert_eq!(cu_mask_bits(64), Ok(64));
        assert_eq!(cu_mask_bits(!31), Ok(MAX_CU_MASK_BITS));
    }
}
