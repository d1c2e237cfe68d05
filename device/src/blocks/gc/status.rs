//! Busy bits: registers that monitors read.
//!
//! The device knows if waves are executed, and which queues have work. Nothing is drawn, and nothing stalls:
//! all other bits are 0.

use belfry_abi::regs::gc::{
    CP_CPC_BUSY_STAT, CP_CPC_STATUS, CP_CPF_BUSY_STAT, CP_CPF_STATUS, GRBM_PERFCOUNTER0_HI,
    GRBM_PERFCOUNTER0_LO, GRBM_PERFCOUNTER0_SELECT, GRBM_STATUS, GRBM_STATUS_SE0, GRBM_STATUS_SE1,
    GRBM_STATUS_SE2, GRBM_STATUS_SE3, GRBM_STATUS2, SDMA0_STATUS_REG, SDMA1_STATUS_REG,
};
use belfry_abi::regs::{Offset, Register as _};

use super::Gc;
use crate::sdma::status;

/// `GRBM_PERF_SEL_GUI_ACTIVE` (linux `soc21_enum.h`).
const GUI_ACTIVE: u32 = 2;
/// Micro engine of the queues of processes.
const MEC1: u8 = 1;

impl Gc {
    /// Returns a status register; `None` for any other.
    pub(super) fn status(&self, at: Offset) -> Option<u32> {
        let executes = || self.ports.activity.is_busy();
        Some(match at {
            GRBM_STATUS::AT => {
                let mut status = GRBM_STATUS::default();
                let executes = executes();
                status.set_gui_active(executes);
                status.set_spi_busy(executes);
                status.set_cp_busy(executes || self.busy_pipes() != 0);
                status.bits()
            }
            GRBM_STATUS2::AT => {
                let mut status = GRBM_STATUS2::default();
                let busy = executes() || self.busy_pipes() != 0;
                status.set_cpc_busy(busy);
                status.set_cpf_busy(busy);
                status.set_sdma_busy(self.core.has_sdma && self.ports.movers.any_moves());
                status.bits()
            }
            GRBM_STATUS_SE0::AT => self.engine_status(0),
            GRBM_STATUS_SE1::AT => self.engine_status(1),
            GRBM_STATUS_SE2::AT => self.engine_status(2),
            GRBM_STATUS_SE3::AT => self.engine_status(3),
            CP_CPC_STATUS::AT => {
                let mut status = CP_CPC_STATUS::default();
                let busy = executes() || self.busy_pipes() != 0;
                status.set_mec1_busy(busy);
                status.set_cpc_busy(busy);
                status.bits()
            }
            CP_CPC_BUSY_STAT::AT => {
                let mut status = CP_CPC_BUSY_STAT::default();
                status.set_mec1_pipes_busy(self.busy_pipes());
                status.bits()
            }
            CP_CPF_STATUS::AT => {
                let mut status = CP_CPF_STATUS::default();
                let busy = executes() || self.busy_pipes() != 0;
                status.set_hqd_busy(self.busy_pipes() != 0);
                status.set_cpf_cmp_busy(busy);
                status.set_cpf_busy(busy);
                status.bits()
            }
            CP_CPF_BUSY_STAT::AT => {
                let mut status = CP_CPF_BUSY_STAT::default();
                status.set_hqd_pq_busy(self.busy_pipes() != 0);
                status.bits()
            }
            GRBM_PERFCOUNTER0_LO::AT => self.gui_active_ticks() as u32,
            GRBM_PERFCOUNTER0_HI::AT => (self.gui_active_ticks() >> 32) as u32,
            SDMA0_STATUS_REG::AT => status(self.ports.movers.moves(0)),
            SDMA1_STATUS_REG::AT => status(self.ports.movers.moves(1)),
            _ => return None,
        })
    }

    /// Waves go to all engines of the chip.
    fn engine_status(&self, engine: u32) -> u32 {
        let mut status = GRBM_STATUS_SE0::default();
        let there = engine < self.core.topology.shader_engines;
        status.set_spi_busy(there && self.ports.activity.is_busy());
        status.bits()
    }

    /// The pipes of the first micro engine on which a queue has work, a bit for each.
    fn busy_pipes(&self) -> u32 {
        let queues = self.ports.hqds.active_of(self.core.xcc, MEC1);
        let busy = queues.iter().filter(|(_, hqd)| self.ports.doorbells.has_work(hqd.doorbell()));
        busy.fold(0, |pipes, (id, _)| pipes | 1 << (id.pipe & 3))
    }

    /// Ticks of the golden counter in which waves were executed; no other event can be selected. The counter
    /// of a recorded device stands still.
    fn gui_active_ticks(&self) -> u64 {
        let select: GRBM_PERFCOUNTER0_SELECT = self.storage.get();
        if select.perf_sel() == GUI_ACTIVE && self.ports.counts_time {
            self.ports.activity.busy_ticks()
        } else {
            0
        }
    }
}
