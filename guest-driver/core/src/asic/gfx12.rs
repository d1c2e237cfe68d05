//! GC 12.0.1: Navi 48. What is not here is as on gfx11.

mod mes;
mod mqd;
mod pte;

use belfry_abi::kfd::drm::{AMDGPU_FAMILY_GC_12_0_0, AMDGPU_VRAM_TYPE_GDDR6};
use belfry_abi::regs::layout;

use super::gfx11::GFX1100;
use super::{Asic, Firmware, MesFirmware, Product};

pub(super) static GFX1201: Asic = Asic {
    name: "gfx1201",
    gc: (12, 0, 1),
    gfx_target_version: 120_001,
    registers: layout::GFX12,
    mqd: mqd::MANAGER,
    firmware: Firmware::Mes(MesFirmware { frames: mes::FRAMES, on_both_pipes: true }),
    pte: pte::FORMAT,
    trap_handler: include_bytes!("gfx12/trap_handler.bin"),
    // As a Radeon RX 9070 XT reports them.
    product: Product {
        family: AMDGPU_FAMILY_GC_12_0_0,
        // `soc24_common_early_init`.
        external_rev: 0x50,
        fw_version: 3010,
        sdma_fw_version: 20,
        max_engine_clock: 2350,
        max_memory_clock: 1258,
        memory_type: AMDGPU_VRAM_TYPE_GDDR6,
        memory_width: 256,
        debug_prop: GFX1100.product.debug_prop,
    },
    ..GFX1100
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn save_area_of_the_full_chip_is_the_measured_one() {
        let area = (GFX1201.save_area)(&Config { cus: 64, ..Config::default() });
        assert_eq!((area.ctl_stack_size, area.cwsr_size), (28672, 30_699_520));
        assert_eq!(area.debug_memory_size, 65536);
    }
}
