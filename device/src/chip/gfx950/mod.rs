//! MI350X: GC 9.5.0. It is built like an MI300X.

mod ips;
mod shader;

use belfry_abi::pci::{self, mi350x};
use belfry_abi::regs::layout;
use belfry_abi::regs::{Ip, Register as _, gc};
use belfry_isa::inst::Arch;

use super::instinct::{Instinct, Spec};
use super::navi::Names;
use super::{
    Card, Firmware, Firmwares, Generation, HwsFirmware, Identity, Model, Pm4Packets, PteFormat, RegisterBar,
    SdmaMqdForm, SdmaPackets, SdmaRules, Shape, gfx942,
};

/// The model that a configuration can name.
pub static MODEL: Model = Model {
    name: "gfx950",
    product: "MI350X",
    modelled: "compute: AQL queues on the XCCs of each partition, HWS, KIQ",
    generation: &GENERATION,
    default: Shape::one(8),
    max_cus: WHOLE.cus,
    cu_step: 1,
    max_xccs: WHOLE.xccs,
    has_xgmi: true,
    // A card has 288 GB, which is no power of two; the size of a BAR has to be one.
    vram: 16 << 20..=16 << 30,
    make: |shape| Box::new(chip(shape)),
};

/// Eight XCCs with 32 compute units each.
pub const WHOLE: Shape = Shape { xccs: gfx942::ips::XCCS, cus: gfx942::ips::XCCS * 32 };

/// GC 9.5.0. Linux has the code of GC 9.4.3 for it (`gfx_v9_4_3.c`, `sdma_v4_4_2.c`), so the device has the same registers, packets,
/// MQDs, page tables and interrupts.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx950,
    firmware: Firmwares(&[Firmware::Hws(HwsFirmware)]),
    smu: None,
    shader: shader::RULES,
    kernel: gfx942::KERNEL_RULES,
    // 2200 MHz, 8000 GB/s. Doubles have half of the rate that an MI300X has for them in matrix instructions alone.
    card: Card { clock_mhz: 2200, gigabytes_per_second: 8000, cycles: [4, 16, 4, 16, 4], cache_bytes: 64 },
    mqd: gfx942::MQD,
    pm4: Pm4Packets::V9,
    sdma: SdmaRules { mqd: SdmaMqdForm::V9, packets: SdmaPackets::V4 },
    user_registers: gfx942::USER_REGISTERS,
    pte: PteFormat::Gfx9,
    interrupts: gfx942::INTERRUPTS,
    register_bar: RegisterBar { size: mi350x::REGISTER_BAR_SIZE, hdp_remap: mi350x::HDP_REMAP_OFFSET },
    local_register: gfx942::local_register,
    // The golden value of linux `gfx_v9_4_3.c`.
    resets: &[(gc::GB_ADDR_CONFIG::AT, 0x2a11_4042)],
};

const IDENTITY: Identity = Identity {
    vendor: pci::VENDOR_ID,
    device: mi350x::DEVICE_ID,
    class: mi350x::CLASS,
    revision: 0,
    subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
    subsystem: mi350x::DEVICE_ID,
};

pub(super) static SPEC: Spec = Spec {
    identity: IDENTITY,
    model: &MODEL,
    ips: ips::ips,
    registers: layout::GFX9,
    // Linux has the headers of GC 9.4.3 alone.
    names: Names::new(include_str!("../gfx942/names.txt")),
    shader_engines: 4,
    sdma_engines: gfx942::ips::engines,
    strides: &[(Ip::MMHUB, gfx942::ips::DIE_STRIDE), (Ip::GC, gfx942::ips::XCC_STRIDE)],
    sdma: gfx942::SDMA,
    discovery: |ips, topology| gfx942::discovery::table_of(ips, topology, shader::RULES.lds),
};

/// An MI350X of this shape; the real chip has 256 compute units on 8 XCCs, of 4 engines each.
#[must_use]
pub fn chip(shape: Shape) -> Instinct {
    Instinct::new(&SPEC, shape)
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs::Offset;

    use super::*;
    use crate::chip::{Chip as _, Topology};

    #[test]
    fn whole_chip_has_32_compute_units_on_each_xcc() {
        for cus in 1..=32 {
            let topology = chip(Shape::one(cus)).topology();
            let arrays = topology.shader_engines * topology.arrays_per_engine;
            assert_eq!((0..arrays).map(|array| topology.active_wgps(array)).sum::<u32>(), cus);
        }
        let whole =
            Topology { xccs: 8, shader_engines: 4, arrays_per_engine: 1, wgps_per_array: 8, wgps: 32 };
        assert_eq!(chip(WHOLE).topology(), whole);
        let engines =
            chip(WHOLE).ips().iter().filter(|block| block.ip == Ip::SDMA0 && !block.harvested).count();
        assert_eq!((engines, chip(WHOLE).sdma_engines()), (16, 16));
    }

    #[test]
    fn registers_are_named_on_all_instances() {
        let chip = chip(WHOLE);
        let at = |ip, instance, at: Offset| {
            chip.dword(ip, instance, at).and_then(|dword| chip.register_name(dword))
        };
        assert_eq!(at(Ip::GC, 7, gc::CP_HQD_ACTIVE::AT), Some("CP_HQD_ACTIVE"));
        assert_eq!(at(Ip::SDMA0, 7, Offset { segment: 0, dword: 0 }), Some("SDMA_UCODE_ADDR"));
    }

    #[test]
    fn discovery_table_has_the_larger_lds() {
        let of = |table: Vec<u8>| table.windows(4).filter(|word| *word == 160u32.to_le_bytes()).count();
        let small = Shape { xccs: 1, cus: 8 };
        // The number is elsewhere in both.
        assert_eq!(of(chip(small).discovery()), of(gfx942::chip(small).discovery()) + 1);
    }
}
