//! Strix Halo: GC 11.5.1, the graphics of an APU.

mod ips;

use belfry_abi::pci;
use belfry_abi::regs::layout;
use belfry_isa::inst::Arch;

use super::navi::{GcInfo, Names, Navi, Spec};
use super::{
    Card, Firmware, Firmwares, Generation, Identity, MesFirmware, MesFrames, Model, Pm4Packets, PteFormat,
    RegisterBar, SdmaMqdForm, SdmaPackets, SdmaRules, Shape, gfx1100,
};

/// The model that a configuration can name.
pub static MODEL: Model = Model {
    name: "gfx1151",
    product: "Strix Halo, Radeon 8060S",
    modelled: "compute: AQL queues, MES, KIQ; an APU",
    generation: &GENERATION,
    default: Shape::one(8),
    max_cus: SPEC.cus(),
    cu_step: 2,
    max_xccs: 1,
    has_xgmi: false,
    // The part of the machine's memory that firmware sets aside.
    vram: 16 << 20..=16 << 30,
    make: |shape| Box::new(chip(shape.cus)),
};

/// GC 11.5.1. The scheduler, queues, descriptors, page tables and interrupts are those of GC 11.0 for Linux 6.12.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx1151,
    // API 14, firmware 0x84, as of Navi 31.
    firmware: Firmwares(&[
        Firmware::Mes(MesFirmware { frames: MesFrames::V11, version: 14 << 12 | 0x84, on_both_pipes: false }),
        Firmware::SdmaRings,
    ]),
    smu: None,
    // LLVM `FeatureISAVersion11_5_1` has as many vector registers as gfx1100 (`Feature1_5xVGPRs`).
    shader: gfx1100::SHADER_RULES,
    kernel: gfx1100::KERNEL_RULES,
    // Radeon 8060S: 2900 MHz, 256 GB/s (LPDDR5X-8000 on 256 bits).
    card: Card { clock_mhz: 2900, gigabytes_per_second: 256, cycles: [1, 4, 16, 32, 1], cache_bytes: 128 },
    mqd: gfx1100::GENERATION_MQD,
    pm4: Pm4Packets::V10,
    sdma: SdmaRules { mqd: SdmaMqdForm::V11, packets: SdmaPackets::V6 },
    user_registers: gfx1100::USER_REGISTERS,
    pte: PteFormat::Gfx11,
    interrupts: gfx1100::INTERRUPTS,
    register_bar: RegisterBar::NAVI,
    local_register: |index, _| index,
    resets: &[],
};

/// PCI identity of a Radeon 8060S. The class is that of a display controller without VGA, as for the other chips.
const IDENTITY: Identity = Identity {
    vendor: pci::VENDOR_ID,
    device: 0x1586,
    class: pci::CLASS,
    revision: 0xc1,
    subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
    subsystem: 0x1586,
};

pub(super) static SPEC: Spec = Spec {
    identity: IDENTITY,
    ips: ips::IPS,
    registers: layout::GFX11_5,
    names: Names::new(include_str!("names.txt")),
    shader_engines: 2,
    wgps_per_array: 5,
    // As rocminfo reports one: 2 MiB of L2.
    gc: GcInfo {
        render_backends: 4,
        gl2_channels: 16,
        sdp_interfaces: 4,
        gl1_per_array: 1,
        gl1_kib: 256,
        gl2_kib: 2048,
    },
    memory: None,
};

/// A Strix Halo with this number of compute units; the real chip has 40 in 2 engines x 2 arrays x 5 work group
/// processors.
#[must_use]
pub fn chip(cus: u32) -> Navi {
    Navi::new(&SPEC, cus)
}
