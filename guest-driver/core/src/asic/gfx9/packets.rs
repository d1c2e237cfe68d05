//! Packets of the hardware scheduler (`kfd_packet_manager_v9.c`).

use alloc::vec::Vec;

use belfry_abi::kfd::debug::KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP;
use belfry_abi::kfd::topology::NUM_GWS;
use belfry_abi::pm4::{
    HwsMapQueuesControl, MapProcess, MapProcessControl, MapProcessResources, MapQueuesControl, Opcode,
    Pm4Header, QueryStatus, QueryStatusControl, RunList, RunListControl, SetResources, SetResourcesControl,
    UnmapQueues, UnmapQueuesControl,
};
use zerocopy::{FromZeros, Immutable, IntoBytes};

use crate::asic::{HiqPackets, gfx11};
use crate::request::{self, QueueRequest, RunProcess};

pub(super) const PACKETS: HiqPackets =
    HiqPackets { set_resources, map_process, map_queue, run_list, unmap_all, query_status };

/// `KFD_UNMAP_LATENCY`, in units of 100 ms.
const UNMAP_LATENCY: u8 = 0x28;
/// Time slice of a process (`process_quantum`).
const PROCESS_QUANTUM: u8 = 10;
/// `SQ_SHADER_TBA_HI.TRAP_EN`, which does no harm where it is not defined.
const TRAP_EN: u32 = 1 << 31;
/// Engines that `engine_sel` tells apart.
const ENGINES_OF_A_GROUP: u32 = 8;

fn add<T: IntoBytes + Immutable>(packets: &mut Vec<u32>, opcode: Opcode, body: &T) {
    packets.push(Pm4Header::type3(opcode, (size_of::<T>() / 4) as u32).bits());
    packets.extend(body.as_bytes().chunks_exact(4).map(|word| {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(word);
        u32::from_le_bytes(bytes)
    }));
}

/// `pm_set_resources_v9`.
fn set_resources(packets: &mut Vec<u32>, vmids: u32, queues: u64) {
    let mut control = SetResourcesControl::from_bits(0);
    control.set_vmid_mask(vmids as u16);
    control.set_unmap_latency(UNMAP_LATENCY);
    // The HIQ.
    control.set_queue_type(1);
    let body = SetResources {
        control,
        queue_mask_lo: queues as u32,
        queue_mask_hi: (queues >> 32) as u32,
        gws_mask_lo: u32::MAX,
        gws_mask_hi: u32::MAX,
        oac_mask: 0,
        gds_heap: 0,
    };
    add(packets, Opcode::SET_RESOURCES, &body);
}

/// `pm_map_process_aldebaran`.
fn map_process(packets: &mut Vec<u32>, process: &RunProcess) {
    let mut control = MapProcessControl::from_bits(0);
    control.set_pasid(process.pasid);
    control.set_single_memops(process.flags & KFD_DBG_TRAP_FLAG_SINGLE_MEM_OP != 0);
    control.set_process_quantum(PROCESS_QUANTUM);
    let mut resources = MapProcessResources::from_bits(0);
    resources.set_num_gws(if process.gws { NUM_GWS as u8 } else { 0 });
    resources.set_sdma_enable(true);
    resources.set_num_queues(process.queues.min(0x3ff) as u16);
    let body = MapProcess {
        control,
        page_table_base_lo: process.root as u32,
        page_table_base_hi: (process.root >> 32) as u32,
        sh_mem_bases: process.sh_mem_bases,
        sh_mem_config: process.sh_mem_config,
        sq_shader_tba_lo: (process.trap_handler >> 8) as u32,
        sq_shader_tba_hi: (process.trap_handler >> 40) as u32 | TRAP_EN,
        sq_shader_tma_lo: (process.trap_memory >> 8) as u32,
        sq_shader_tma_hi: (process.trap_memory >> 40) as u32,
        resources,
        spi_gdbg_per_vmid_cntl: gfx11::launch_control(process.launch),
        tcp_watch_cntl: process.watches,
        ..MapProcess::new_zeroed()
    };
    add(packets, Opcode::MAP_PROCESS, &body);
}

/// `TCP_WATCHn_CNTL`: MASK 23:0, bits from 7 on of the address; MODE 30:29; VALID 31 (`kgd_gfx_v9_4_3_set_address_watch`). The
/// scheduler fills in the VMID.
pub(super) fn watch_control(mode: u32, mask: u32) -> u32 {
    mask >> 7 & 0xff_ffff | (mode & 3) << 29 | 1 << 31
}

/// `pm_map_queues_v9`.
fn map_queue(packets: &mut Vec<u32>, queue: &QueueRequest) {
    let mut control = HwsMapQueuesControl::from_bits(0);
    // A hardware queue that the scheduler chooses.
    control.set_queue_sel(1);
    control.set_num_queues(1);
    control.set_gws_control_queue(queue.gws);
    match queue.sdma.map(|place| place.engine) {
        None => {}
        // The first two have numbers of their own.
        Some(engine @ (0 | 1)) => control.set_engine_sel(engine as u8 + 2),
        Some(engine) => {
            control.set_extended_engine_sel(if engine < ENGINES_OF_A_GROUP { 1 } else { 2 });
            control.set_engine_sel((engine % ENGINES_OF_A_GROUP) as u8);
        }
    }
    let body = belfry_abi::pm4::MapQueues {
        control: MapQueuesControl::from_bits(control.bits()),
        doorbell: queue.doorbell.dwords() << 2,
        mqd_addr_lo: queue.mqd as u32,
        mqd_addr_hi: (queue.mqd >> 32) as u32,
        wptr_addr_lo: queue.process_wptr as u32,
        wptr_addr_hi: (queue.process_wptr >> 32) as u32,
    };
    add(packets, Opcode::MAP_QUEUES, &body);
}

/// `pm_runlist_v9`.
fn run_list(packets: &mut Vec<u32>, list: &request::RunList) {
    let mut control = RunListControl::from_bits(0);
    control.set_ib_size(list.dwords);
    control.set_chain(list.chain);
    control.set_valid(true);
    control.set_process_cnt(list.processes as u8);
    let body = RunList { ib_base_lo: list.address as u32, ib_base_hi: (list.address >> 32) as u32, control };
    add(packets, Opcode::RUN_LIST, &body);
}

/// `pm_unmap_queues_v9`.
fn unmap_all(packets: &mut Vec<u32>) {
    let mut control = UnmapQueuesControl::from_bits(0);
    // Preempt all that are not static.
    control.set_queue_sel(3);
    add(packets, Opcode::UNMAP_QUEUES, &UnmapQueues { control, ..UnmapQueues::new_zeroed() });
}

/// `pm_query_status_v9`.
fn query_status(packets: &mut Vec<u32>, address: u64, value: u64) {
    let mut control = QueryStatusControl::from_bits(0);
    // The fence alone, when all is written.
    control.set_command(2);
    let body = QueryStatus {
        control,
        doorbell_or_pasid: 0,
        addr_lo: address as u32,
        addr_hi: (address >> 32) as u32,
        data_lo: value as u32,
        data_hi: (value >> 32) as u32,
    };
    add(packets, Opcode::QUERY_STATUS, &body);
}

#[cfg(test)]
mod tests;
