//! Navi 48: GC 12.0.1.

mod ips;
mod kernel;
pub(super) mod pte;
mod shader;

use belfry_abi::pci;
use belfry_abi::regs::layout;
use belfry_isa::inst::Arch;

use super::navi::{BoardMemory, GcInfo, MemoryTable, Names, Navi, Spec};
use super::{
    Card, Firmware, Firmwares, Generation, Identity, MesFirmware, MesFrames, Model, MqdLayout, Pm4Packets,
    PteFormat, RegisterBar, SdmaMqdForm, SdmaPackets, SdmaRules, Shape, gfx1100,
};

/// The model that a configuration can name.
pub static MODEL: Model = Model {
    name: "gfx1201",
    product: "Navi 48, Radeon RX 9070 XT",
    modelled: "compute: AQL queues, MES on both pipes",
    generation: &GENERATION,
    default: Shape::one(8),
    max_cus: SPEC.cus(),
    cu_step: 2,
    max_xccs: 1,
    has_xgmi: false,
    vram: 16 << 20..=16 << 30,
    make: |shape| Box::new(chip(shape.cus)),
};

/// GC 12.0.1. The other parts are those of gfx11: the HQD's order, the fields of the compute MQD that
/// firmware reads, the interrupts, and the registers that packets of user queues reach.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx1201,
    // API 0x14, firmware 0x80: new enough for all requests of KFD.
    firmware: Firmwares(&[Firmware::Mes(MesFirmware {
        frames: MesFrames::V12,
        version: 0x14 << 12 | 0x80,
        on_both_pipes: true,
    })]),
    smu: None,
    shader: shader::RULES,
    kernel: kernel::RULES,
    // RX 9070 XT: 2350 MHz by its driver, 640 GB/s (20 Gbit/s on 256 bits), matrices twice as fast as on Navi
    // 31.
    card: Card { clock_mhz: 2350, gigabytes_per_second: 640, cycles: [1, 4, 16, 16, 1], cache_bytes: 128 },
    mqd: MQD,
    pm4: Pm4Packets::V12,
    sdma: SdmaRules { mqd: SdmaMqdForm::V12, packets: SdmaPackets::V7 },
    user_registers: gfx1100::USER_REGISTERS,
    pte: PteFormat::Gfx12,
    interrupts: gfx1100::GENERATION.interrupts,
    register_bar: RegisterBar::NAVI,
    local_register: |index, _| index,
    resets: &[],
};

/// The compute MQD of gfx11.
const GFX11: MqdLayout = gfx1100::GENERATION_MQD;

/// Compute MQD of gfx12 (`struct v12_compute_mqd`).
const MQD: MqdLayout = MqdLayout {
    header: GFX11.header,
    hqd_first: GFX11.hqd_first,
    hqd_dwords: GFX11.hqd_dwords,
    compute_first: GFX11.compute_first,
    compute_dwords: GFX11.compute_dwords,
    rsrc2: GFX11.rsrc2,
    // Bit 6 of `COMPUTE_PGM_RSRC2` is `ENABLE_DYNAMIC_VGPR`; no public source says where `TRAP_PRESENT` went, and this bit has no name.
    traps: 1 << 31,
    thread_mgmt: GFX11.thread_mgmt,
    save_base: GFX11.save_base,
    save_size: GFX11.save_size,
    stack_size: GFX11.stack_size,
    stack_offset: GFX11.stack_offset,
    waves_offset: GFX11.waves_offset,
    gws: GFX11.gws,
    xccs: GFX11.xccs,
};

/// PCI identity of a Radeon RX 9070 XT.
const IDENTITY: Identity = Identity {
    vendor: pci::VENDOR_ID,
    device: 0x7550,
    class: pci::CLASS,
    revision: 0xc0,
    subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
    subsystem: 0x2434,
};

pub(super) static SPEC: Spec = Spec {
    identity: IDENTITY,
    ips: ips::IPS,
    registers: layout::GFX12,
    names: Names::new(include_str!("names.txt")),
    shader_engines: 4,
    wgps_per_array: 4,
    // As rocminfo reports a card: 8 MiB of L2, and no cache between it and a compute unit's cache.
    gc: GcInfo {
        render_backends: 4,
        gl2_channels: 16,
        sdp_interfaces: 4,
        gl1_per_array: 0,
        gl1_kib: 0,
        gl2_kib: 8192,
    },
    memory: Some(BoardMemory { channels: 16, table: MemoryTable::UmcInfo }),
};

/// A Navi 48 with this number of compute units; the real chip has 64 in 4 engines x 2 arrays x 4 work group
/// processors.
#[must_use]
pub fn chip(cus: u32) -> Navi {
    Navi::new(&SPEC, cus)
}
