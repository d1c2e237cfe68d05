//! Graphics core registers that act: the banked ones, the topology constants, the scheduler's version.

use belfry_abi::regs::Register;
use belfry_abi::regs::gc::{
    CC_GC_SHADER_ARRAY_CONFIG, CP_HQD_ACTIVE, CP_HQD_DEQUEUE_REQUEST, CP_MES_GP3_LO,
    GCVM_L2_PROTECTION_FAULT_ADDR_HI32, GCVM_L2_PROTECTION_FAULT_ADDR_LO32, GCVM_L2_PROTECTION_FAULT_CNTL,
    GCVM_L2_PROTECTION_FAULT_STATUS, GRBM_GFX_CNTL, GRBM_GFX_INDEX, RLC_SAFE_MODE, SH_MEM_BASES,
    SH_MEM_CONFIG,
};

use super::{Mmio, State};
use crate::queue::{HQD_FIRST, HQD_LAST, Hqd, HqdId};

/// What a write set off.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Acted {
    /// A queue was started or asked to stop: the scheduler has to look.
    pub(super) queues: bool,
    /// The queue that was started.
    pub(super) started: Option<Hqd>,
}

fn selected(state: &State) -> (HqdId, u8) {
    let select = GRBM_GFX_CNTL::from_bits(state.storage[GRBM_GFX_CNTL::INDEX as usize]);
    let id = HqdId { me: select.meid() as u8, pipe: select.pipeid() as u8, queue: select.queueid() as u8 };
    (id, select.vmid() as u8)
}

pub(super) fn read(mmio: &Mmio, state: &State, index: u32) -> Option<u32> {
    let (hqd, vmid) = selected(state);
    Some(match index {
        HQD_FIRST..=HQD_LAST => mmio.hqds.hqd(hqd, |hqd| hqd.read(index)),
        SH_MEM_BASES::INDEX => mmio.contexts.shader_memory(vmid).bases,
        SH_MEM_CONFIG::INDEX => mmio.contexts.shader_memory(vmid).config,
        CC_GC_SHADER_ARRAY_CONFIG::INDEX => inactive_wgps(state, &*mmio.chip),
        CP_MES_GP3_LO::INDEX if hqd.me == 3 && hqd.pipe < 2 => mmio.chip.mes_version(),
        GCVM_L2_PROTECTION_FAULT_STATUS::INDEX => mmio.contexts.fault().status.bits(),
        GCVM_L2_PROTECTION_FAULT_ADDR_LO32::INDEX => mmio.contexts.fault().page as u32,
        GCVM_L2_PROTECTION_FAULT_ADDR_HI32::INDEX => (mmio.contexts.fault().page >> 32) as u32,
        _ => return None,
    })
}

fn inactive_wgps(state: &State, chip: &dyn crate::hal::Chip) -> u32 {
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

pub(super) fn write(mmio: &Mmio, state: &mut State, index: u32, value: u32) -> Option<Acted> {
    let mut acted = Acted::default();
    let (id, vmid) = selected(state);
    match index {
        HQD_FIRST..=HQD_LAST => {
            mmio.hqds.hqd(id, |hqd| {
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
            });
            acted.queues = index == CP_HQD_ACTIVE::INDEX || index == CP_HQD_DEQUEUE_REQUEST::INDEX;
        }
        SH_MEM_BASES::INDEX => mmio.contexts.change_shader_memory(vmid, |memory| memory.bases = value),
        SH_MEM_CONFIG::INDEX => mmio.contexts.change_shader_memory(vmid, |memory| memory.config = value),
        RLC_SAFE_MODE::INDEX => {
            // The RLC takes the command at once.
            let mut mode = RLC_SAFE_MODE::from_bits(value);
            mode.set_cmd(false);
            state.storage[index as usize] = mode.bits();
        }
        GCVM_L2_PROTECTION_FAULT_CNTL::INDEX => {
            let mut cntl = GCVM_L2_PROTECTION_FAULT_CNTL::from_bits(value);
            if cntl.clear_protection_fault_status_addr() {
                mmio.contexts.clear_fault();
                cntl.set_clear_protection_fault_status_addr(false);
            }
            state.storage[index as usize] = cntl.bits();
        }
        _ => return None,
    }
    Some(acted)
}
