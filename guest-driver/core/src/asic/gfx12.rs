//! GC 12.0.1: Navi 48. Much is as on gfx11, and says so.

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
    register_bytes: GFX1100.register_bytes,
    packet_registers: GFX1100.packet_registers,
    fuses: GFX1100.fuses,
    partitions: GFX1100.partitions,
    integrated: GFX1100.integrated,
    has_xgmi: GFX1100.has_xgmi,
    mqd: mqd::MANAGER,
    kernel_me: GFX1100.kernel_me,
    firmware: Firmware::Mes(MesFirmware { frames: mes::FRAMES, on_both_pipes: true }),
    pte: pte::FORMAT,
    interrupt: GFX1100.interrupt,
    doorbells: GFX1100.doorbells,
    hdp_remap: GFX1100.hdp_remap,
    pasids: GFX1100.pasids,
    vm_context: GFX1100.vm_context,
    first_kfd_vmid: GFX1100.first_kfd_vmid,
    compute_hqd_mask: GFX1100.compute_hqd_mask,
    sdma: GFX1100.sdma,
    apertures: GFX1100.apertures,
    sh_mem_config: GFX1100.sh_mem_config,
    retry: GFX1100.retry,
    readable: GFX1100.readable,
    simds_per_cu: GFX1100.simds_per_cu,
    cp_queues: GFX1100.cp_queues,
    save_area: GFX1100.save_area,
    caches: GFX1100.caches,
    acquire_memory: GFX1100.acquire_memory,
    watch_control: GFX1100.watch_control,
    capability: GFX1100.capability,
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
