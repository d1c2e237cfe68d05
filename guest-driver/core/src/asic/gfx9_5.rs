//! GC 9.5.0: MI350X. What Linux does for GC 9.4.3 it does here too, except where this says otherwise.

use belfry_abi::gpuvm::gfx9::{MTYPE_RW, pte_mtype};
use belfry_abi::gpuvm::{MTYPE_NC, MTYPE_UC, PTE_SNOOPED};
use belfry_abi::kfd::drm::AMDGPU_VRAM_TYPE_HBM;

use super::gfx9::{self, GFX942};
use super::{Asic, PageRights, Product, PteFormat, SaveArea, gfx11};
use crate::config::Config;

/// `SH_MEM_CONFIG` without `F8_MODE`: 8-bit floats are those of OCP.
const SH_MEM_CONFIG: u32 = GFX942.sh_mem_config & !(1 << 8);

pub(super) static GFX950: Asic = Asic {
    name: "gfx950",
    gc: (9, 5, 0),
    gfx_target_version: 90_500,
    registers: GFX942.registers,
    register_bytes: GFX942.register_bytes,
    packet_registers: GFX942.packet_registers,
    fuses: GFX942.fuses,
    partitions: GFX942.partitions,
    integrated: GFX942.integrated,
    has_xgmi: GFX942.has_xgmi,
    mqd: GFX942.mqd,
    kernel_me: GFX942.kernel_me,
    firmware: GFX942.firmware,
    pte: PteFormat { page, ..GFX942.pte },
    interrupt: GFX942.interrupt,
    doorbells: GFX942.doorbells,
    hdp_remap: GFX942.hdp_remap,
    pasids: GFX942.pasids,
    vm_context: GFX942.vm_context,
    first_kfd_vmid: GFX942.first_kfd_vmid,
    compute_hqd_mask: GFX942.compute_hqd_mask,
    sdma: GFX942.sdma,
    apertures: GFX942.apertures,
    sh_mem_config: SH_MEM_CONFIG,
    retry: GFX942.retry,
    readable: GFX942.readable,
    simds_per_cu: GFX942.simds_per_cu,
    cp_queues: GFX942.cp_queues,
    save_area,
    caches: GFX942.caches,
    acquire_memory: GFX942.acquire_memory,
    watch_control: GFX942.watch_control,
    capability: GFX942.capability,
    // Assembled from the file of that name by `cargo xtask kernels`.
    trap_handler: include_bytes!("gfx9_5/trap_handler.bin"),
    product: Product {
        family: GFX942.product.family,
        // `soc15_common_early_init`.
        external_rev: 0x50,
        // The first with which RCCL 2.27 runs without HSA_NO_SCRATCH_RECLAIM.
        fw_version: 24,
        sdma_fw_version: GFX942.product.sdma_fw_version,
        max_engine_clock: 2200,
        // 8 Gbit/s: four transfers in a cycle of the clock that is reported.
        max_memory_clock: 2000,
        memory_type: AMDGPU_VRAM_TYPE_HBM,
        memory_width: 8192,
        debug_prop: GFX942.product.debug_prop,
    },
};

/// Memory of the GPU itself is cached for writes as well; system memory is without a coherence of its own, where gfx942 does not cache
/// it (`gmc_v9_0_get_coherence_flags`).
fn page(rights: PageRights) -> u64 {
    let mtype = match rights {
        PageRights { uncached: true, .. } => MTYPE_UC,
        PageRights { system: true, .. } => MTYPE_NC,
        _ => MTYPE_RW,
    };
    gfx11::allowed(rights) | PTE_SNOOPED | pte_mtype(mtype)
}

/// Of each graphics core: with the LDS that its compute units have (`kfd_get_lds_size_per_cu`).
fn save_area(config: &Config) -> SaveArea {
    gfx9::save_area_with(config, config.lds_kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_memory_may_be_cached() {
        let none =
            PageRights { readable: true, writable: false, executable: false, system: false, uncached: false };
        assert_eq!(page(none), 1 << 57 | 0x25);
        assert_eq!(page(PageRights { system: true, ..none }), 0x27);
        assert_eq!(page(PageRights { uncached: true, ..none }), 3 << 57 | 0x25);
        assert_eq!(page(PageRights { system: true, uncached: true, ..none }), 3 << 57 | 0x27);
    }

    #[test]
    fn save_area_has_room_for_the_larger_lds() {
        let whole = Config {
            xccs: 8,
            shader_engines: 4,
            arrays_per_engine: 1,
            cus: 8 * 32,
            lds_kib: 160,
            ..Config::default()
        };
        let (area, old) = (save_area(&whole), (GFX942.save_area)(&whole));
        assert_eq!(area.cwsr_size - old.cwsr_size, 32 * (96 << 10));
        assert_eq!((area.ctl_stack_size, area.copies), (old.ctl_stack_size, 8));
    }

    #[test]
    fn floats_of_eight_bits_are_the_chips_own() {
        assert_eq!(GFX950.sh_mem_config, 3 << 3 | 1 << 12);
    }
}
