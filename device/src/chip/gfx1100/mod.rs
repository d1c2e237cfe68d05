//! Navi 31: GC 11.0.0.

mod discovery;
mod ips;
mod names;

use belfry_abi::pci;

use super::{Chip, IpBlock, Topology};
pub use ips::dword;

/// A Navi 31 with as many compute units as asked for.
#[derive(Clone, Copy, Debug)]
pub struct Gfx1100 {
    topology: Topology,
}

impl Gfx1100 {
    /// The real chip has 96 compute units in 6 engines x 2 arrays x 4 work group processors.
    #[must_use]
    pub fn new(cus: u32) -> Self {
        let wgps = (cus / 2).clamp(1, 48);
        let arrays_per_engine = if wgps == 1 { 1 } else { 2 };
        let shader_engines = wgps.div_ceil(arrays_per_engine * 4);
        let wgps_per_array = wgps.div_ceil(arrays_per_engine * shader_engines);
        Self { topology: Topology { shader_engines, arrays_per_engine, wgps_per_array, wgps } }
    }
}

impl Chip for Gfx1100 {
    fn device_id(&self) -> u16 {
        pci::DEVICE_ID
    }

    fn revision(&self) -> u8 {
        pci::REVISION
    }

    fn topology(&self) -> Topology {
        self.topology
    }

    fn ips(&self) -> &'static [IpBlock] {
        ips::IPS
    }

    fn register_name(&self, dword: u32) -> Option<&'static str> {
        names::name(dword)
    }

    fn discovery(&self) -> Vec<u8> {
        discovery::table(&self.topology)
    }

    fn discovery_offset(&self) -> u64 {
        64 << 10
    }

    fn mes_version(&self) -> u32 {
        // API 14, firmware 0x84: new enough for queues to be mapped by frames and for write pointers in the GART.
        14 << 12 | 0x84
    }

    fn fb_base(&self) -> u64 {
        0x80_0000_0000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_compute_units_is_laid_out_exactly() {
        for cus in (2..=96).step_by(2) {
            let topology = Gfx1100::new(cus).topology();
            let arrays = topology.shader_engines * topology.arrays_per_engine;
            let sum: u32 = (0..arrays).map(|array| topology.active_wgps(array)).sum();
            assert_eq!(sum * 2, cus);
            assert!((0..arrays).all(|array| topology.active_wgps(array) <= topology.wgps_per_array));
            assert!(topology.shader_engines <= 6 && topology.wgps_per_array <= 4);
        }
    }

    #[test]
    fn a_whole_chip_is_navi_31() {
        let whole = Topology { shader_engines: 6, arrays_per_engine: 2, wgps_per_array: 4, wgps: 48 };
        assert_eq!(Gfx1100::new(96).topology(), whole);
    }
}
