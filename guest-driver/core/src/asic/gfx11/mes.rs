//! Frames of the scheduler's version 11 (`mes_v11_0.c`: `mes_v11_0_set_hw_resources`, `mes_v11_0_add_hw_queue`,
//! `mes_v11_0_remove_hw_queue`).

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::mes::{
    AddQueue, AddQueueFlags, Header, Misc, MiscOpcode, Opcode, QueryStatus, QueueType, RemoveQueue,
    SetHwResources, SetHwResources1, SetShaderDebugger, api_status_offset,
};
use belfry_abi::regs::{Register, gc};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::asic::MesFrames;
use crate::request::{Frame, HardwareResources, LaunchControl, QueueRequest, SchedulerRing, ShaderDebugger};

pub(in crate::asic) const FRAMES: MesFrames = MesFrames {
    encode: |frame| *frame,
    set_hw_resources,
    query_status,
    set_hw_resources_1,
    add_queue,
    map_scheduler,
    remove_queue,
    set_shader_debugger,
    flush_shader_debugger,
};

/// Page-table shape and fault bits of a process's VMID: all fault bits of the reset value, depth 3, enabled.
const VM_CONTEXT_CNTL: u32 = gc::GCVM_CONTEXT0_CNTL::RESET | 3 << 1 | 1;
/// Quanta in units of 100 ns: 10 ms for a process, 1 ms for a gang, as amdkfd asks.
const PROCESS_QUANTUM: u64 = 100_000;
const GANG_QUANTUM: u64 = 10_000;
/// `AMDGPU_MES_PRIORITY_LEVEL_NORMAL`.
const PRIORITY_LEVEL_NORMAL: u32 = 1;

/// Fills an empty frame by its layout.
fn fill<T>(frame: &mut Frame, opcode: Opcode, fields: impl FnOnce(&mut T))
where
    T: FromBytes + IntoBytes + Immutable + KnownLayout,
{
    frame.begin(opcode.name().unwrap_or("?"), api_status_offset(opcode).unwrap_or(0));
    let Ok((layout, _)) = T::mut_from_prefix(frame.bytes()) else { return };
    fields(layout);
}

fn set_hw_resources(frame: &mut Frame, resources: &HardwareResources) {
    fill(frame, Opcode::SET_HW_RSRC, |frame: &mut SetHwResources| {
        frame.header = Header::new(Opcode::SET_HW_RSRC);
        frame.vmid_mask_mmhub = resources.vmid_mask;
        frame.vmid_mask_gfxhub = resources.vmid_mask;
        frame.compute_hqd_mask[..resources.compute_pipes].fill(resources.compute_hqd_mask);
        frame.sdma_hqd_mask = [resources.sdma_hqd_mask; 2];
        frame.g_sch_ctx_gpu_mc_ptr = resources.context.into();
        frame.query_status_fence_gpu_mc_ptr = resources.query_status_fence.into();
        frame.gc_base = resources.gc;
        frame.mmhub_base = resources.mmhub;
        frame.osssys_base = resources.osssys;
        // disable_reset, use_different_vmid_compute, disable_mes_log, enable_reg_active_poll,
        // enable_level_process_quantum_check, as amdgpu sets them.
        frame.flags = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 7;
        frame.oversubscription_timer = 50;
    });
}

fn query_status(frame: &mut Frame) {
    fill(frame, Opcode::QUERY_SCHEDULER_STATUS, |frame: &mut QueryStatus| {
        frame.header = Header::new(Opcode::QUERY_SCHEDULER_STATUS);
    });
}

/// Resources that firmware takes beside the first frame: none, but it wants to be told.
fn set_hw_resources_1(frame: &mut Frame) {
    fill(frame, Opcode::SET_HW_RSRC_1, |frame: &mut SetHwResources1| {
        frame.header = Header::new(Opcode::SET_HW_RSRC_1);
    });
}

/// `mes_v12_0_map_legacy_queue`.
fn map_scheduler(frame: &mut Frame, ring: &SchedulerRing) {
    fill(frame, Opcode::ADD_QUEUE, |frame: &mut AddQueue| {
        frame.header = Header::new(Opcode::ADD_QUEUE);
        (frame.pipe_id, frame.queue_id) = (ring.pipe, 0);
        frame.doorbell_offset = ring.doorbell;
        frame.mqd_addr = ring.mqd.into();
        frame.wptr_addr = ring.wptr.into();
        frame.queue_type = QueueType::SCHQ.0;
        frame.flags = AddQueueFlags::MAP_LEGACY_KQ;
    });
}

fn add_queue(frame: &mut Frame, queue: &QueueRequest) {
    fill(frame, Opcode::ADD_QUEUE, |frame: &mut AddQueue| {
        frame.header = Header::new(Opcode::ADD_QUEUE);
        frame.process_id = u32::from(queue.pasid);
        frame.page_table_base_addr = queue.root.into();
        frame.process_va_start = 0.into();
        frame.process_va_end = ((1u64 << 36) - 1).into();
        frame.process_quantum = PROCESS_QUANTUM.into();
        frame.process_context_addr = queue.process_context.into();
        frame.gang_quantum = GANG_QUANTUM.into();
        frame.gang_context_addr = queue.gang_context.into();
        frame.inprocess_gang_priority = queue.priority;
        frame.gang_global_priority_level = PRIORITY_LEVEL_NORMAL;
        frame.doorbell_offset = queue.doorbell;
        frame.mqd_addr = queue.mqd.into();
        frame.wptr_addr = queue.wptr.into();
        frame.queue_type = if queue.sdma.is_some() { QueueType::SDMA.0 } else { QueueType::COMPUTE.0 };
        frame.gds_size = queue.ring_dwords;
        frame.trap_handler_addr = queue.trap_handler.into();
        frame.tma_addr = queue.trap_memory.into();
        frame.vm_context_cntl = VM_CONTEXT_CNTL;
        frame.alignment_mode_setting = super::SH_MEM_CONFIG;
        frame.flags = AddQueueFlags::IS_KFD_PROCESS;
        frame.flags.set(AddQueueFlags::IS_AQL_QUEUE, queue.aql);
        frame.flags.set(AddQueueFlags::EXCLUSIVELY_SCHEDULED, queue.gws);
    });
}

fn remove_queue(frame: &mut Frame, doorbell: DoorbellIndex, gang: u64) {
    fill(frame, Opcode::REMOVE_QUEUE, |frame: &mut RemoveQueue| {
        frame.header = Header::new(Opcode::REMOVE_QUEUE);
        frame.doorbell_offset = doorbell;
        frame.gang_context_addr = gang.into();
    });
}

/// `SPI_GDBG_PER_VMID_CNTL`: LAUNCH_MODE 2:1, TRAP_EN 3, EXCP_EN 12:4, EXCP_REPLACE 13.
pub(in crate::asic) fn launch_control(control: LaunchControl) -> u32 {
    let LaunchControl { trap_en, exceptions, replace, mode } = control;
    (mode & 3) << 1 | u32::from(trap_en) << 3 | (exceptions & 0x1ff) << 4 | u32::from(replace) << 13
}

/// `TCP_WATCHn_CNTL`: MASK 22:0, bits from 7 on of the address; MODE 30:29; VALID 31.
pub(super) fn watch_control(mode: u32, mask: u32) -> u32 {
    mask >> 7 & 0x7f_ffff | (mode & 3) << 29 | 1 << 31
}

fn debugger(frame: &mut Frame, debugger: &SetShaderDebugger) {
    fill(frame, Opcode::MISC, |frame: &mut Misc| {
        frame.header = Header::new(Opcode::MISC);
        frame.opcode = MiscOpcode::SET_SHADER_DEBUGGER.0;
        frame.data[..9].copy_from_slice(&debugger.data());
    });
}

fn set_shader_debugger(frame: &mut Frame, request: &ShaderDebugger) {
    debugger(
        frame,
        &SetShaderDebugger {
            process_context_addr: request.process_context,
            flags: request.flags & (SetShaderDebugger::SINGLE_MEMOP | SetShaderDebugger::SINGLE_ALU_OP),
            spi_gdbg_per_vmid_cntl: launch_control(request.launch),
            // There is one node.
            tcp_watch_cntl: request.watches.map(|watch| watch.control),
            trap_en: u32::from(request.launch.trap_en),
        },
    );
}

fn flush_shader_debugger(frame: &mut Frame, process_context: u64) {
    let flags = SetShaderDebugger::PROCESS_CTX_FLUSH;
    let flush = SetShaderDebugger { process_context_addr: process_context, flags, ..Default::default() };
    debugger(frame, &flush);
}
