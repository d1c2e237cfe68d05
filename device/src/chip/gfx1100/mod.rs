//! Navi 31: GC 11.0.0.

mod interrupts;
mod ips;
mod kernel;
mod mqd;
pub(super) mod pte;
mod shader;

use belfry_abi::pci;
use belfry_abi::regs::layout;
use belfry_abi::sensors::Peaks;
use belfry_isa::inst::Arch;

use super::navi::{BoardMemory, GcInfo, MemoryTable, Names, Navi, Spec};
use super::{
    Card, Firmware, Firmwares, Generation, Identity, MesFirmware, MesFrames, Model, Pm4Packets, PteFormat,
    RegisterBar, SdmaMqdForm, SdmaPackets, SdmaRules, Shape, SmuFirmware, UserRegisters,
};
pub(super) use interrupts::FORMAT as INTERRUPTS;
pub use ips::dword;
pub(super) use kernel::RULES as KERNEL_RULES;
pub(super) use mqd::LAYOUT as GENERATION_MQD;
pub(super) use shader::RULES as SHADER_RULES;

/// The model that a configuration can name.
pub static MODEL: Model = Model {
    name: "gfx1100",
    product: "Navi 31, Radeon RX 7900 XTX",
    modelled: "compute: AQL queues, MES, KIQ",
    generation: &GENERATION,
    default: Shape::one(8),
    max_cus: SPEC.cus(),
    cu_step: 2,
    max_xccs: 1,
    has_xgmi: false,
    // Room for the tables and firmware at the top. A card has 24 GiB, which is no power of two; the size of a
    // BAR has to be one.
    vram: 16 << 20..=16 << 30,
    make: |shape| Box::new(chip(shape.cus)),
};

/// GC 11.0.0.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx1100,
    // API 14, firmware 0x84: new enough for queues that frames map and for write pointers in the GART.
    firmware: Firmwares(&[
        Firmware::Mes(MesFirmware { frames: MesFrames::V11, version: 14 << 12 | 0x84, on_both_pipes: false }),
        Firmware::SdmaRings,
    ]),
    // Firmware 78.135.0: from 78.41.0 on it takes Mode1Reset.
    smu: Some(SmuFirmware { version: 0x004e_8700, interface: 0x3d, peaks: Peaks::GFX1100 }),
    shader: shader::RULES,
    kernel: kernel::RULES,
    // RX 7900 XTX: 2482 MHz by its driver, 960 GB/s (20 Gbit/s on 384 bits). A SIMD does 32 lanes per cycle,
    // a quarter of that for transcendental functions, a sixteenth for doubles, and 256 floating-point
    // operations per cycle for matrices (8192 each).
    card: Card { clock_mhz: 2482, gigabytes_per_second: 960, cycles: [1, 4, 16, 32, 1], cache_bytes: 128 },
    mqd: mqd::LAYOUT,
    pm4: Pm4Packets::V10,
    sdma: SdmaRules { mqd: SdmaMqdForm::V11, packets: SdmaPackets::V6 },
    user_registers: USER_REGISTERS,
    pte: PteFormat::Gfx11,
    interrupts: interrupts::FORMAT,
    register_bar: RegisterBar::NAVI,
    local_register: |index, _| index,
    resets: &[],
};

/// `BIF_BX_PF0_GPU_HDP_FLUSH_*` of linux `nbio_4_3_0_offset.h`, `SQ_THREAD_TRACE_USERDATA_*` of `gc_11_0_0_offset.h`.
pub(super) const USER_REGISTERS: UserRegisters =
    UserRegisters { hdp_flush_req: 0xe26, hdp_flush_done: 0xe27, thread_trace_userdata: 0xc340..=0xc347 };

/// PCI identity of a Radeon RX 7900 XTX.
const IDENTITY: Identity = Identity {
    vendor: pci::VENDOR_ID,
    device: pci::DEVICE_ID,
    class: pci::CLASS,
    revision: pci::REVISION,
    subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
    subsystem: pci::SUBSYSTEM_ID,
};

pub(super) static SPEC: Spec = Spec {
    identity: IDENTITY,
    ips: ips::IPS,
    registers: layout::GFX11,
    names: Names::new(include_str!("names.txt")),
    shader_engines: 6,
    wgps_per_array: 4,
    gc: GcInfo {
        render_backends: 4,
        gl2_channels: 24,
        sdp_interfaces: 8,
        gl1_per_array: 1,
        gl1_kib: 256,
        gl2_kib: 6144,
    },
    memory: Some(BoardMemory { channels: 24, table: MemoryTable::VramInfo }),
};

/// A Navi 31 with this number of compute units; the real chip has 96 in 6 engines x 2 arrays x 4 work group
/// processors.
#[must_use]
pub fn chip(cus: u32) -> Navi {
    Navi::new(&SPEC, cus)
}
