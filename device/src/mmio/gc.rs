//! Graphics core registers that act: the banked ones, the topology constants, the scheduler's version.

use belfry_abi::regs::Register;
use belfry_abi::regs::gc::{
    CC_GC_SHADER_ARRAY_CONFIG, CP_HQD_ACTIVE, CP_HQD_DEQUEUE_REQUEST, CP_MES_GP3_LO,
    GCVM_L2_PROTECTION_FAULT_ADDR_HI32, GCVM_L2_PROTECTION_FAULT_ADDR_LO32, GCVM_L2_PROTECTION_FAULT_CNTL,
    GCVM_L2_PROTECTION_FAULT_STATUS, GRBM_GFX_CNTL, GRBM_GFX_INDEX, RLC_SAFE_MODE, SH_MEM_BASES,
    SH_MEM_CONFIG,
};

use super::State;
use crate::hal::Chip;
use crate::queue::{HQD_FIRST, HQD_LAST, Hqd, HqdId};

/// What a write set off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acted {
    /// A queue was started or asked to stop: the scheduler has to look.
    pub(super) queues: bool,
    /// The queue that was started.
    pub(super) started: Option<Hqd>,
}

fn selected(state: &State) -> (HqdId, usize) {
    let select = GRBM_GFX_CNTL::from_bits(state.storage[GRBM_GFX_CNTL::INDEX as usize]);
    let id = HqdId { me: select.meid() as u8, pipe: select.pipeid() as u8, queue: select.queueid() as u8 };
    (id, select.vmid() as usize)
}

pub(super) fn read(state: &State, chip: &dyn Chip, index: u32) -> Option<u32> {
    Some(match index {
        HQD_FIRST..=HQD_LAST => state.hqds.get(selected(state).0).read(index),
        SH_MEM_BASES::INDEX => state.sh_mem_bases[selected(state).1],
        SH_MEM_CONFIG::INDEX => state.sh_mem_config[selected(state).1],
        CC_GC_SHADER_ARRAY_CONFIG::INDEX => inactive_wgps(state, chip),
        CP_MES_GP3_LO::INDEX if selected(state).0.me == 3 && selected(state).0.pipe < 2 => chip.mes_version(),
        _ => return None,
    })
}

fn inactive_wgps(state: &State, chip: &dyn Chip) -> u32 {
    let select = GRBM_GFX_INDEX::from_bits(state.storage[GRBM_GFX_INDEX::INDEX as usize]);
    let topology = chip.topology();
    let engine = if select.se_broadcast_writes() { 0 } else { select.se_index() };
    let array = if select.sa_broadcast_writes() { 0 } else { select.sa_index() };
    let active = if engine < topology.shader_engines && array < topology.arrays_per_engine {
        topology.active_wgps(engine * topology.arrays_per_engine + array)
    } else {
        0
    };
    let mut config = CC_GC_SHADER_ARRAY_CONFIG::default();
    config.set_inactive_wgps(0xffff & !((1 << active) - 1));
    config.bits()
}

pub(super) fn write(state: &mut State, index: u32, value: u32) -> Option<Acted> {
    let mut acted = Acted::default();
    match index {
        HQD_FIRST..=HQD_LAST => {
            let hqd = state.hqds.get_mut(selected(state).0);
            if index == CP_HQD_ACTIVE::INDEX {
                if value & 1 == 1 {
                    hqd.activate();
                    acted.started = Some(*hqd);
                } else {
                    hqd.deactivate();
                }
            } else {
                hqd.write(index, value);
            }
            acted.queues = index == CP_HQD_ACTIVE::INDEX || index == CP_HQD_DEQUEUE_REQUEST::INDEX;
        }
        SH_MEM_BASES::INDEX => state.sh_mem_bases[selected(state).1] = value,
        SH_MEM_CONFIG::INDEX => state.sh_mem_config[selected(state).1] = value,
        RLC_SAFE_MODE::INDEX => {
            // The RLC takes the command at once.
            let mut mode = RLC_SAFE_MODE::from_bits(value);
            mode.set_cmd(false);
            state.storage[index as usize] = mode.bits();
        }
        GCVM_L2_PROTECTION_FAULT_CNTL::INDEX => {
            let mut cntl = GCVM_L2_PROTECTION_FAULT_CNTL::from_bits(value);
            if cntl.clear_protection_fault_status_addr() {
                for register in [
                    GCVM_L2_PROTECTION_FAULT_STATUS::INDEX,
                    GCVM_L2_PROTECTION_FAULT_ADDR_LO32::INDEX,
                    GCVM_L2_PROTECTION_FAULT_ADDR_HI32::INDEX,
                ] {
                    state.storage[register as usize] = 0;
                }
                cntl.set_clear_protection_fault_status_addr(false);
            }
            state.storage[index as usize] = cntl.bits();
        }
        _ => return None,
    }
    Some(acted)
}

/// Keeps the first page fault until the driver clears it, as the hardware does.
pub(super) fn record_fault(state: &mut State, vmid: u8, page: u64, write: bool, permission: bool) {
    let at = GCVM_L2_PROTECTION_FAULT_STATUS::INDEX as usize;
    let mut status = GCVM_L2_PROTECTION_FAULT_STATUS::from_bits(state.storage[at]);
    if status.bits() != 0 {
        status.set_more_faults(true);
    } else {
        status.set_vmid(vmid.into());
        status.set_rw(write);
        status.set_permission_faults(if permission { if write { 2 } else { 1 } } else { 0 });
        status.set_walker_error(u32::from(!permission));
        status.set_mapping_error(!permission);
        state.storage[GCVM_L2_PROTECTION_FAULT_ADDR_LO32::INDEX as usize] = page as u32;
        state.storage[GCVM_L2_PROTECTION_FAULT_ADDR_HI32::INDEX as usize] = (page >> 32) as u32;
    }
    state.storage[at] = status.bits();
}
