//! Size of the context save area, which KFD wants with every compute queue.
//!
//! Source: linux `drivers/gpu/drm/amd/amdkfd/kfd_queue.c`, `kfd_queue_ctx_save_restore_size`.

use crate::reservation::PAGE;
use crate::topology::Agent;

/// `SGPR_SIZE_PER_CU`.
const SGPR_BYTES: u64 = 0x4000;
/// `LDS_SIZE_PER_CU`.
const LDS_BYTES: u64 = 0x10000;
/// `HWREG_SIZE_PER_CU`.
const HWREG_BYTES: u64 = 0x1000;
/// Bytes the debugger wants for each wave (`DEBUGGER_BYTES_PER_WAVE`).
const DEBUGGER_BYTES_PER_WAVE: u64 = 32;
/// `sizeof(struct kfd_context_save_area_header)` rounded as the kernel adds it: header plus control stack header.
const HEADER_BYTES: u64 = 40 + 8;

/// Sizes of the parts of a context save area, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SaveArea {
    /// Control stack.
    pub(crate) ctl_stack: u32,
    /// Control stack and workgroup data.
    pub(crate) save_restore: u32,
    /// The whole buffer: with the debugger's part, in pages.
    pub(crate) total: usize,
}

impl SaveArea {
    /// The sizes for a GPU: the kernel's own where the topology names them, else by the kernel's formulas.
    pub(crate) fn of(agent: &Agent) -> Self {
        // Each graphics core has a part of the same size.
        let xccs = u64::from(agent.xccs.max(1));
        let cus = u64::from(agent.compute_units()) / xccs;
        let gfx = agent.gfx_version;
        let engines = u64::from(agent.arrays / agent.arrays_per_engine.max(1));
        let (waves, bytes_per_wave) =
            if gfx >= 100_100 { (cus * 32, 12) } else { ((cus * 40).min(engines * 512), 8) };
        let page = PAGE as u64;
        let ctl_stack = (waves * bytes_per_wave + HEADER_BYTES).next_multiple_of(page);
        let data = cus * (vgpr_bytes(gfx) + SGPR_BYTES + lds_bytes(gfx) + HWREG_BYTES);
        let (mut ctl_stack, mut save_restore) = (ctl_stack, ctl_stack + data.next_multiple_of(page));
        if agent.ctl_stack_size != 0 && agent.cwsr_size != 0 {
            (ctl_stack, save_restore) = (agent.ctl_stack_size.into(), agent.cwsr_size.into());
        }
        let debugger = (waves * DEBUGGER_BYTES_PER_WAVE).next_multiple_of(64);
        let total = ((save_restore + debugger) * xccs).next_multiple_of(page);
        Self {
            ctl_stack: u32::try_from(ctl_stack).unwrap_or(u32::MAX),
            save_restore: u32::try_from(save_restore).unwrap_or(u32::MAX),
            total: total as usize,
        }
    }
}

/// `kfd_get_lds_size_per_cu`.
fn lds_bytes(gfx: u32) -> u64 {
    if gfx == 90_500 { 160 << 10 } else { LDS_BYTES }
}

/// `kfd_get_vgpr_size_per_cu`.
fn vgpr_bytes(gfx: u32) -> u64 {
    match gfx {
        110_000 | 110_001 => 0x60000,
        90_402 | 90_500 | 90_010 | 90_008 => 0x80000,
        _ => 0x40000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gfx1100(cus: u32) -> Agent {
        Agent { gfx_version: 110_000, simds: cus * 2, simds_per_cu: 2, xccs: 1, ..Agent::default() }
    }

    #[test]
    fn sizes_match_those_of_a_navi31() {
        // Observed with ROCr on 96 compute units.
        let area = SaveArea::of(&gfx1100(96));
        assert_eq!(area, SaveArea { ctl_stack: 40960, save_restore: 46_047_232, total: 0x2c0_2000 });
    }

    #[test]
    fn sizes_match_those_of_an_mi300x() {
        let agent = Agent {
            gfx_version: 90_402,
            simds: 1216,
            simds_per_cu: 4,
            arrays: 32,
            arrays_per_engine: 1,
            xccs: 8,
            ..Agent::default()
        };
        let area = SaveArea::of(&agent);
        let total = 8 * (23_203_840 + 48640);
        assert_eq!(area, SaveArea { ctl_stack: 12288, save_restore: 23_203_840, total });
    }

    #[test]
    fn the_kernels_sizes_win_over_the_formulas() {
        let agent = Agent { cwsr_size: 0x20_0000, ctl_stack_size: 0x3000, ..gfx1100(4) };
        let area = SaveArea::of(&agent);
        assert_eq!((area.ctl_stack, area.save_restore), (0x3000, 0x20_0000));
        assert_eq!(area.total, 0x20_1000);
    }
}
