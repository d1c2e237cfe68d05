//! GC 11.5.1: Strix Halo. What Linux 6.12 does for GC 11.0 it does here too, except where this says otherwise.

use belfry_abi::kfd::drm::{AMDGPU_FAMILY_GC_11_5_0, AMDGPU_VRAM_TYPE_LPDDR5};
use belfry_abi::regs::layout;

use super::gfx11::GFX1100;
use super::{Asic, Product, SdmaLayout};

pub(super) static GFX1151: Asic = Asic {
    name: "gfx1151",
    gc: (11, 5, 1),
    gfx_target_version: 110_501,
    registers: layout::GFX11_5,
    register_bytes: GFX1100.register_bytes,
    packet_registers: GFX1100.packet_registers,
    fuses: GFX1100.fuses,
    partitions: GFX1100.partitions,
    // `AMD_IS_APU` (`amdgpu_discovery_set_ip_blocks`).
    integrated: true,
    has_xgmi: GFX1100.has_xgmi,
    mqd: GFX1100.mqd,
    kernel_me: GFX1100.kernel_me,
    firmware: GFX1100.firmware,
    pte: GFX1100.pte,
    interrupt: GFX1100.interrupt,
    doorbells: GFX1100.doorbells,
    hdp_remap: GFX1100.hdp_remap,
    pasids: GFX1100.pasids,
    vm_context: GFX1100.vm_context,
    first_kfd_vmid: GFX1100.first_kfd_vmid,
    compute_hqd_mask: GFX1100.compute_hqd_mask,
    sdma: SdmaLayout { version: (6, 1), engines: 1, pcie_engines: 1, ..GFX1100.sdma },
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
    trap_handler: GFX1100.trap_handler,
    product: Product {
        family: AMDGPU_FAMILY_GC_11_5_0,
        // `soc21_common_early_init`.
        external_rev: 0xc1,
        // Chosen: those of Navi 31.
        fw_version: GFX1100.product.fw_version,
        sdma_fw_version: GFX1100.product.sdma_fw_version,
        max_engine_clock: 2900,
        // LPDDR5X-8000: four transfers in a cycle of the clock that is reported.
        max_memory_clock: 1000,
        memory_type: AMDGPU_VRAM_TYPE_LPDDR5,
        memory_width: 256,
        debug_prop: GFX1100.product.debug_prop,
    },
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn save_area_is_by_the_rule_of_gfx11() {
        let area = (GFX1151.save_area)(&Config { cus: 40, ..Config::default() });
        assert_eq!((area.ctl_stack_size, area.debug_memory_size), (16384, 40960));
    }
}
