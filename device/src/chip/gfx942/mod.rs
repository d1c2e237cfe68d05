//! MI300X: GC 9.4.3.

pub(super) mod discovery;
mod interrupts;
pub(super) mod ips;
mod kernel;
mod mqd;
pub(super) mod pte;
mod shader;

use belfry_abi::pci::{self, mi300x};
use belfry_abi::regs::layout;
use belfry_abi::regs::{Ip, Register as _, gc};
use belfry_isa::inst::Arch;

use super::instinct::{Instinct, Spec};
use super::navi::Names;
pub(super) use interrupts::FORMAT as INTERRUPTS;
pub(super) use kernel::RULES as KERNEL_RULES;
pub(super) use mqd::LAYOUT as MQD;
pub(super) use shader::RULES as SHADER_RULES;

use super::{
    Card, Firmware, Firmwares, Generation, HwsFirmware, Identity, Model, Pm4Packets, PteFormat, RegisterBar,
    SdmaMqdForm, SdmaPackets, SdmaRules, Shape, UserRegisters,
};

/// The model that a configuration can name.
pub static MODEL: Model = Model {
    name: "gfx942",
    product: "MI300X",
    modelled: "compute: AQL queues on the XCCs of each partition, HWS, KIQ",
    generation: &GENERATION,
    default: Shape::one(8),
    max_cus: WHOLE.cus,
    cu_step: 1,
    max_xccs: WHOLE.xccs,
    has_xgmi: true,
    // A card has 192 GiB, which is no power of two; the size of a BAR has to be one.
    vram: 16 << 20..=16 << 30,
    make: |shape| Box::new(chip(shape)),
};

/// Eight XCCs with 38 compute units each.
pub const WHOLE: Shape = Shape { xccs: ips::XCCS, cus: ips::XCCS * 38 };

/// GC 9.4.3.
pub static GENERATION: Generation = Generation {
    arch: Arch::Gfx942,
    firmware: Firmwares(&[Firmware::Hws(HwsFirmware)]),
    smu: None,
    shader: shader::RULES,
    kernel: kernel::RULES,
    // 2100 MHz, 5300 GB/s. A SIMD does 16 lanes per cycle, of doubles as well; a matrix instruction takes 16
    // cycles, as the one of 16x16x16 halves does.
    card: Card { clock_mhz: 2100, gigabytes_per_second: 5300, cycles: [4, 16, 4, 16, 4], cache_bytes: 64 },
    mqd: mqd::LAYOUT,
    pm4: Pm4Packets::V9,
    sdma: SdmaRules { mqd: SdmaMqdForm::V9, packets: SdmaPackets::V4 },
    user_registers: USER_REGISTERS,
    pte: PteFormat::Gfx9,
    interrupts: interrupts::FORMAT,
    register_bar: RegisterBar { size: mi300x::REGISTER_BAR_SIZE, hdp_remap: mi300x::HDP_REMAP_OFFSET },
    local_register,
    // The golden value of linux `gfx_v9_4_3.c`.
    resets: &[(gc::GB_ADDR_CONFIG::AT, 0x2a11_4042)],
};

/// `BIF_BX_PF0_GPU_HDP_FLUSH_*` of linux `nbio_7_9_0_offset.h`, `SQ_THREAD_TRACE_USERDATA_*` of `gc_9_4_3_offset.h`.
pub(super) const USER_REGISTERS: UserRegisters =
    UserRegisters { hdp_flush_req: 0xe26, hdp_flush_done: 0xe27, thread_trace_userdata: 0xc340..=0xc343 };

/// Registers of the first SDMA engine.
pub(super) const SDMA: std::ops::Range<u32> = 0x1260..0x1660;

/// Registers of the graphics core in its first and its second segment (linux `gfx_v9_4_3.c`, `NORMALIZE_XCC_REG_OFFSET`).
const LOCAL: [std::ops::Range<u32>; 2] = [0x2000..0x3400, 0xa000..0x1_0000];

pub(super) fn local_register(index: u32, xcc: u8) -> u32 {
    // Packets may have the number of the core in the index, too; only the number of the core that executes
    // them counts.
    let first = index & 0xffff;
    let is_local = LOCAL.iter().any(|range| range.contains(&first)) && index >> 16 < ips::XCCS;
    if is_local { first + u32::from(xcc) * ips::XCC_STRIDE } else { index }
}

const IDENTITY: Identity = Identity {
    vendor: pci::VENDOR_ID,
    device: mi300x::DEVICE_ID,
    class: mi300x::CLASS,
    revision: 0,
    subsystem_vendor: pci::SUBSYSTEM_VENDOR_ID,
    subsystem: mi300x::DEVICE_ID,
};

pub(super) static SPEC: Spec = Spec {
    identity: IDENTITY,
    model: &MODEL,
    ips: ips::ips,
    registers: layout::GFX9,
    names: Names::new(include_str!("names.txt")),
    shader_engines: 4,
    sdma_engines: ips::engines,
    // The list has the first instance of each block.
    strides: &[(Ip::MMHUB, ips::DIE_STRIDE), (Ip::GC, ips::XCC_STRIDE)],
    sdma: SDMA,
    discovery: discovery::table,
};

/// An MI300X of this shape; the real chip has 304 compute units on 8 XCCs, of 4 engines each.
#[must_use]
pub fn chip(shape: Shape) -> Instinct {
    Instinct::new(&SPEC, shape)
}

#[cfg(test)]
mod tests {
    use belfry_abi::regs::{self, Offset};

    use super::*;
    use crate::chip::{Chip as _, Topology};

    #[test]
    fn every_number_of_compute_units_is_laid_out_exactly() {
        for cus in 1..=38 {
            let topology = chip(Shape::one(cus)).topology();
            let arrays = topology.shader_engines * topology.arrays_per_engine;
            assert_eq!((0..arrays).map(|array| topology.active_wgps(array)).sum::<u32>(), cus);
            assert!((0..arrays).all(|array| topology.active_wgps(array) <= topology.wgps_per_array));
            assert!(topology.shader_engines <= 4 && topology.wgps_per_array <= 10);
        }
        let whole = chip(WHOLE).topology();
        assert_eq!(
            whole,
            Topology { xccs: 8, shader_engines: 4, arrays_per_engine: 1, wgps_per_array: 10, wgps: 38 }
        );
    }

    #[test]
    fn declared_registers_are_where_their_names_say() {
        let chip = chip(WHOLE);
        let blocks = [
            (gc::IP, gc::ALL),
            (regs::gfx9::gc::IP, regs::gfx9::gc::ALL),
            (regs::mmhub::IP, regs::mmhub::ALL),
            (regs::gfx9::mmhub::IP, regs::gfx9::mmhub::ALL),
            (regs::osssys::IP, regs::osssys::ALL),
            (regs::gfx9::osssys::IP, regs::gfx9::osssys::ALL),
            (regs::gfx9::athub::IP, regs::gfx9::athub::ALL),
            (regs::nbio::IP, regs::nbio::ALL),
            (regs::gfx9::nbio::IP, regs::gfx9::nbio::ALL),
            (regs::smuio::IP, regs::smuio::ALL),
            (regs::mp::IP, regs::mp::ALL),
        ];
        for (ip, all) in blocks {
            for register in all.iter().filter(|register| layout::GFX9.has(ip, register.at)) {
                let place = chip.dword(ip, 0, register.at);
                let name = place.and_then(|place| chip.register_name(place)).unwrap_or("none");
                // The hubs' registers have no prefix.
                let tail = ["GCVM_", "GCMC_", "MMVM_", "MMMC_", "RCC_"]
                    .into_iter()
                    .find_map(|prefix| register.name.strip_prefix(prefix))
                    .unwrap_or(register.name);
                assert!(
                    name.ends_with(tail) || register.name == "RCC_STRAP0",
                    "{name} is not {}",
                    register.name
                );
            }
        }
    }

    #[test]
    fn registers_of_other_instances_have_the_names_of_the_first() {
        let chip = chip(WHOLE);
        let at = |ip, instance, at: Offset| {
            chip.dword(ip, instance, at).and_then(|dword| chip.register_name(dword))
        };
        assert_eq!(at(Ip::GC, 7, gc::CP_HQD_ACTIVE::AT), Some("CP_HQD_ACTIVE"));
        assert_eq!(at(Ip::MMHUB, 3, regs::mmhub::MMVM_CONTEXT0_CNTL::AT), Some("VM_CONTEXT0_CNTL"));
        assert_eq!(at(Ip::SDMA0, 7, Offset { segment: 0, dword: 0 }), Some("SDMA_UCODE_ADDR"));
        assert_eq!(chip.register_name(0x8_0000), None);
        assert_eq!(SPEC.names.name(0x7_ffff), None);
    }

    #[test]
    fn packets_reach_the_registers_of_their_own_core() {
        let local = |index| [0, 3].map(|xcc| (GENERATION.local_register)(index, xcc));
        assert_eq!(local(0x2e12), [0x2e12, 0x3_2e12]);
        assert_eq!(local(0x1_c040), [0xc040, 0x3_c040]);
        // Of the interrupt handler, and of a memory hub.
        assert_eq!((local(0x10a0), local(0x1_8b67)), ([0x10a0; 2], [0x1_8b67; 2]));
    }

    #[test]
    fn no_two_blocks_share_a_register() {
        let chip = chip(WHOLE);
        let mut seen = std::collections::HashMap::new();
        for block in chip.ips() {
            for all in [gc::ALL, regs::gfx9::gc::ALL] {
                for register in all.iter().filter(|register| layout::GFX9.has(Ip::GC, register.at)) {
                    if block.ip != Ip::GC {
                        continue;
                    }
                    let dword = chip.dword(Ip::GC, block.instance, register.at).expect("it has the block");
                    assert!(u64::from(dword) < mi300x::REGISTER_BAR_SIZE / 4);
                    assert_eq!(
                        seen.insert(dword, (block.instance, register.name)),
                        None,
                        "{}",
                        register.name
                    );
                }
            }
        }
        for die in 0..4 {
            for register in regs::mmhub::ALL {
                let dword = chip.dword(Ip::MMHUB, die, register.at).expect("it has the hub");
                assert_eq!(seen.insert(dword, (die, register.name)), None, "{}", register.name);
            }
        }
    }
}
