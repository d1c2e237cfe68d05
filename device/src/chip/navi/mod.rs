//! The common parts of the Navi chips: a graphics core of shader engines with two arrays of work group
//! processors, and an IP discovery table of version 3 with one die.

mod descriptor;
mod discovery;
mod names;
#[cfg(test)]
pub(super) mod tests_of_descriptors;
mod vbios;

use belfry_abi::regs::layout::Layout;

use super::{Chip, Identity, IpBlock, Topology};
pub(super) use descriptor::{Field, Owner, Register, check, check_fields, vgprs};
pub(super) use discovery::{DieTable, GcInfo, binary, gc_header, harvest_table, ip_table};
pub(super) use names::Names;

/// A whole chip.
#[derive(Debug)]
pub(super) struct Spec {
    /// PCI identity.
    pub(super) identity: Identity,
    /// Every IP block, in the order of the discovery table.
    pub(super) ips: &'static [IpBlock],
    /// Places of its registers in the blocks.
    pub(super) registers: Layout,
    /// Names of its registers.
    pub(super) names: Names,
    /// Shader engines.
    pub(super) shader_engines: u32,
    /// Work group processors of a shader array.
    pub(super) wgps_per_array: u32,
    /// Caches and graphics units.
    pub(super) gc: GcInfo,
    /// Memory of the board; none of an APU's own.
    pub(super) memory: Option<BoardMemory>,
}

/// Memory of a board, as its VBIOS describes it: GDDR6 on channels of 16 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoardMemory {
    /// Channels.
    pub(super) channels: u8,
    /// Table that a driver reads.
    pub(super) table: MemoryTable,
}

/// Table of the VBIOS that describes the memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum MemoryTable {
    /// `atom_vram_info_header_v3_0`.
    VramInfo,
    /// `atom_umc_info_v4_0`.
    UmcInfo,
}

impl Spec {
    /// Compute units of the whole chip.
    pub(super) const fn cus(&self) -> u32 {
        self.shader_engines * 2 * self.wgps_per_array * 2
    }
}

/// A chip with the configured number of compute units.
#[derive(Clone, Copy, Debug)]
pub struct Navi {
    spec: &'static Spec,
    topology: Topology,
}

impl Navi {
    pub(super) fn new(spec: &'static Spec, cus: u32) -> Self {
        let wgps = (cus / 2).clamp(1, spec.cus() / 2);
        let arrays_per_engine = if wgps == 1 { 1 } else { 2 };
        let shader_engines = wgps.div_ceil(arrays_per_engine * spec.wgps_per_array);
        let wgps_per_array = wgps.div_ceil(arrays_per_engine * shader_engines);
        Self { spec, topology: Topology { xccs: 1, shader_engines, arrays_per_engine, wgps_per_array, wgps } }
    }
}

impl Chip for Navi {
    fn identity(&self) -> Identity {
        self.spec.identity
    }

    fn topology(&self) -> Topology {
        self.topology
    }

    fn ips(&self) -> &[IpBlock] {
        self.spec.ips
    }

    fn registers(&self) -> Layout {
        self.spec.registers
    }

    fn register_name(&self, dword: u32) -> Option<&'static str> {
        self.spec.names.name(dword)
    }

    fn discovery(&self) -> Vec<u8> {
        discovery::table(self.spec, &self.topology)
    }

    fn vbios(&self) -> Option<Vec<u8>> {
        Some(vbios::image(self.spec))
    }

    fn discovery_offset(&self) -> u64 {
        64 << 10
    }

    fn fb_base(&self) -> u64 {
        0x80_0000_0000
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chip::{gfx1100, gfx1151, gfx1201};

    #[test]
    fn every_number_of_compute_units_is_laid_out_exactly() {
        for spec in [&gfx1100::SPEC, &gfx1151::SPEC, &gfx1201::SPEC] {
            for cus in (2..=spec.cus()).step_by(2) {
                let topology = Navi::new(spec, cus).topology();
                let arrays = topology.shader_engines * topology.arrays_per_engine;
                let sum: u32 = (0..arrays).map(|array| topology.active_wgps(array)).sum();
                assert_eq!(sum * 2, cus);
                assert!((0..arrays).all(|array| topology.active_wgps(array) <= topology.wgps_per_array));
                assert!(topology.shader_engines <= spec.shader_engines);
                assert!(topology.wgps_per_array <= spec.wgps_per_array);
            }
        }
    }

    #[test]
    fn whole_chips_are_those_that_are_sold() {
        let whole =
            Topology { xccs: 1, shader_engines: 6, arrays_per_engine: 2, wgps_per_array: 4, wgps: 48 };
        assert_eq!(gfx1100::chip(96).topology(), whole);
        assert_eq!(gfx1201::chip(64).topology(), Topology { shader_engines: 4, wgps: 32, ..whole });
        let strix_halo = Topology { shader_engines: 2, wgps_per_array: 5, wgps: 20, ..whole };
        assert_eq!(gfx1151::chip(40).topology(), strix_halo);
    }
}
