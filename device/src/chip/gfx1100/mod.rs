//! Navi 31: GC 11.0.0.

mod discovery;
mod interrupts;
mod ips;
mod kernel;
mod mqd;
mod names;
pub(super) mod pte;
mod shader;

use belfry_abi::pci;
use belfry_isa::inst::Arch;

use super::{
    Chip, Firmware, Generation, Identity, IpBlock, MesFirmware, MesFrames, Model, PteFormat, Topology,
    UserRegisters,
};
pub use ips::dword;

/// What a configuration names.
pub static MODEL: Model = Model {
    name: "gfx1100",
    product: "Navi 31, Radeon RX 7900 XTX",
    modelled: "compute: AQL queues, MES, KIQ",
    generation: &GENERATION,
    max_cus: 96,
    // Room for the tables and firmware at the top; a card has 24 GiB, which is no power of two, as the size of a BAR is.
    vram: 16 << 20..=16 << 30,
    make: |cus| Box::new(Gfx1100::new(cus)),
};

/// GC 11.0.0.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx1100,
    // API 14, firmware 0x84: new enough for queues to be mapped by frames and for write pointers in the GART.
    firmware: Firmware::Mes(MesFirmware { frames: MesFrames::V11, version: 14 << 12 | 0x84 }),
    shader: shader::RULES,
    kernel: kernel::RULES,
    mqd: mqd::LAYOUT,
    // `BIF_BX_PF0_GPU_HDP_FLUSH_*` of linux `nbio_4_3_0_offset.h`, `SQ_THREAD_TRACE_USERDATA_*` of `gc_11_0_0_offset.h`.
    user_registers: UserRegisters {
        hdp_flush_req: 0xe26,
        hdp_flush_done: 0xe27,
        thread_trace_userdata: 0xc340..=0xc347,
    },
    pte: PteFormat::Gfx11,
    interrupts: interrupts::FORMAT,
};

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
    fn identity(&self) -> Identity {
        Identity {
            vendor: pci::VENDOR_ID,
            device: pci::DEVICE_ID,
            class: pci::CLASS,
            revision: pci::REVISION,
            subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
            subsystem: pci::SUBSYSTEM_ID,
        }
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
