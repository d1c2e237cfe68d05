//! Differences between generations of GPUs that matter to code which submits to them.

use belfry_abi::aql::{TMPRING_WAVESIZE_UNIT, TMPRING_WAVESIZE_UNIT_GFX9};

use crate::topology::Agent;

/// A generation of GPUs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    /// PM4 packets that invalidate the instruction caches.
    pub(crate) invalidate_code: &'static [u32],
    /// Bytes of the end-of-pipe buffer that KFD wants with an AQL queue; 0 for none.
    pub(crate) eop_size: usize,
    /// Unit of `COMPUTE_TMPRING_SIZE.WAVESIZE`.
    pub(crate) scratch_unit: u64,
    /// `COMPUTE_TMPRING_SIZE.WAVES` counts all waves of a graphics core, otherwise those of a shader engine.
    pub(crate) scratch_waves_of_core: bool,
    /// Most bytes of one packet of a copy engine.
    pub(crate) most_copied: u64,
}

/// `PACKET3(PACKET3_ACQUIRE_MEM, n)` with a body of seven dwords, and of six on gfx9. Source: linux `soc15d.h`.
const ACQUIRE_MEM: u32 = 0xc006_5800;
const ACQUIRE_MEM_GFX9: u32 = 0xc005_5800;
/// `GCR_CNTL`: GLI_INV (all), GLK_INV, GLV_INV, GL1_INV and GL2_INV. Source: ROCr
/// `AqlQueue::ExecutePM4` callers, `GpuAgent::InvalidateCodeCaches`.
const GCR_CNTL: u32 = 0x4381;
/// `CP_COHER_CNTL` of gfx9: SH_ICACHE, SH_KCACHE, TC, TCL1 and TC_WB actions. Source: as above.
const CP_COHER_CNTL: u32 = 1 << 29 | 1 << 27 | 1 << 23 | 1 << 22 | 1 << 18;

const GFX9: Generation = Generation {
    // The whole range, poll interval 4.
    invalidate_code: &[ACQUIRE_MEM_GFX9, CP_COHER_CNTL, 0xffff_ffff, 0xff, 0, 0, 4],
    eop_size: 0,
    scratch_unit: TMPRING_WAVESIZE_UNIT_GFX9,
    scratch_waves_of_core: true,
    // `SDMA_PKT_COPY_LINEAR`, COUNT: 22 bits.
    most_copied: 1 << 22,
};

const GFX11: Generation = Generation {
    // CP_COHER_CNTL 0, whole range, poll interval 0, then GCR_CNTL.
    invalidate_code: &[ACQUIRE_MEM, 0, 0xffff_ffff, 0xff, 0, 0, 0, GCR_CNTL],
    eop_size: 4096,
    scratch_unit: TMPRING_WAVESIZE_UNIT,
    scratch_waves_of_core: false,
    // COUNT has 30 bits.
    most_copied: 1 << 30,
};

impl Generation {
    /// Generation of an agent, by its instruction set: an unknown set counts as the latest.
    pub(crate) fn of(agent: &Agent) -> &'static Self {
        if agent.gfx_version < 100_000 { &GFX9 } else { &GFX11 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_is_that_of_the_instruction_set() {
        let of = |gfx_version| Generation::of(&Agent { gfx_version, ..Agent::default() });
        assert_eq!((of(90_402), of(110_000), of(120_001)), (&GFX9, &GFX11, &GFX11));
        // The packets are as long as their headers say.
        for generation in [GFX9, GFX11] {
            let packet = generation.invalidate_code;
            assert_eq!(packet.len() as u32, (packet[0] >> 16 & 0x3fff) + 2);
        }
    }
}
