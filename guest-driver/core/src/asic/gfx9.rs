//! GC 9.4.3: MI300X.

mod caches;
mod interrupt;
mod mqd;
mod packets;
mod pte;

use belfry_abi::gpuvm::{PTE_PRT, PTE_SYSTEM, PTE_VALID};
use belfry_abi::kfd::drm::{AMDGPU_FAMILY_AI, AMDGPU_VRAM_TYPE_HBM};
use belfry_abi::kfd::topology::{
    HSA_CAP_SRAM_EDCSUPPORTED, HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED,
};
use belfry_abi::pci::{doorbell_layout1, mi300x};
use belfry_abi::regs::layout;

use super::gfx11::GFX1100;
use super::{
    Asic, DoorbellLayout, Firmware, Fuses, PasidTable, Product, Retry, SaveArea, SdmaLayout, readable,
};
use crate::config::Config;
use crate::os::PAGE_SIZE;

/// `SH_MEM_CONFIG`: unaligned access (`ALIGNMENT_MODE` 4:3), 8-bit floats as this chip has them (`F8_MODE` 8), and faults are not
/// retried unless the process wants that; `update_qpd_v9`.
const SH_MEM_CONFIG: u32 = 3 << 3 | 1 << 8 | RETRY_DISABLE;
/// `SH_MEM_CONFIG.RETRY_DISABLE`.
const RETRY_DISABLE: u32 = 1 << 12;
/// `VM_CONTEXTn_CNTL`: enabled, depth 2 and block size 9 (`translate_further`), every fault tells and stops its wave, and faults
/// that may be retried are where their process wants that (`gfxhub_v1_2_xcc_setup_vmid_config`).
const VM_CONTEXT_CNTL: u32 = 1 | 2 << 1 | 9 << 3 | 1 << 7 | 0x1ff_fe00;

pub(super) const GFX942: Asic = Asic {
    name: "gfx942",
    gc: (9, 4, 3),
    gfx_target_version: 90_402,
    registers: layout::GFX9,
    register_bytes: mi300x::REGISTER_BAR_SIZE,
    // `NORMALIZE_XCC_REG_OFFSET`.
    packet_registers: 0xffff,
    fuses: Fuses { cus: 1, arrays: false },
    partitions: true,
    integrated: false,
    has_xgmi: true,
    mqd: mqd::MANAGER,
    kernel_me: 2,
    firmware: Firmware::Hiq(packets::PACKETS),
    pte: pte::FORMAT,
    interrupt: interrupt::decode,
    doorbells: DoorbellLayout {
        kiq: doorbell_layout1::KIQ,
        kiq_stride: doorbell_layout1::XCC_RANGE,
        scheduler: doorbell_layout1::HIQ,
        not_compute: (doorbell_layout1::FIRST_NON_CP, doorbell_layout1::LAST_NON_CP),
    },
    hdp_remap: mi300x::HDP_REMAP_OFFSET,
    pasids: PasidTable::AddressTranslation,
    vm_context: Some(VM_CONTEXT_CNTL),
    // VMIDs 3 to 15, as `gmc_v9_0_sw_init` on chips of several dies.
    first_kfd_vmid: 3,
    // amdgpu keeps the first two of eight for the kernel.
    compute_hqd_mask: 0xfc,
    sdma: SdmaLayout {
        version: (4, 4),
        engines: 16,
        pcie_engines: 2,
        // None is kept for the kernel.
        hqd_mask: 0xff,
        first_doorbell: doorbell_layout1::SDMA_ENGINE0.dwords() / 2,
        doorbells: doorbell_layout1::SDMA_RANGE,
    },
    // `kfd_init_apertures_v9`, which is for gfx11 as well.
    apertures: GFX1100.apertures,
    sh_mem_config: SH_MEM_CONFIG,
    retry: Some(Retry { disable: RETRY_DISABLE, refused: PTE_VALID | PTE_SYSTEM | PTE_PRT }),
    readable: &readable::GFX9,
    simds_per_cu: 4,
    cp_queues: 24,
    save_area,
    caches: caches::caches,
    // `gfx_v9_0_emit_mem_sync`: SH_ICACHE, SH_KCACHE, TC, TCL1 and TC_WB actions over all of memory.
    acquire_memory: &[1 << 29 | 1 << 27 | 1 << 23 | 1 << 22 | 1 << 18, u32::MAX, 0xff_ffff, 0, 0, 0xa],
    watch_control: packets::watch_control,
    // Its memories have ECC: the target's `sramecc+`.
    capability: HSA_CAP_SRAM_EDCSUPPORTED | HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED,
    // Assembled from the file of that name by `cargo xtask kernels`.
    trap_handler: include_bytes!("gfx9/trap_handler.bin"),
    // As an Instinct MI300X reports them.
    product: Product {
        family: AMDGPU_FAMILY_AI,
        // `soc15_common_early_init`.
        external_rev: 0x46,
        // The first with which ROCr has two scratch memories and takes them back (`GFX94X_MIN_CP_FW_VERSION_REQUIRED`), as the
        // device does, and RCCL 2.27 runs without HSA_NO_SCRATCH_RECLAIM.
        fw_version: 177,
        sdma_fw_version: 22,
        max_engine_clock: 2100,
        max_memory_clock: 1300,
        memory_type: AMDGPU_VRAM_TYPE_HBM,
        memory_width: 8192,
        // Address watch mask 7 to 30, dispatch info always valid.
        debug_prop: 0x5e7,
    },
};

/// Of each graphics core.
fn save_area(config: &Config) -> SaveArea {
    save_area_with(config, 0x1_0000)
}

/// The same for compute units with this many bytes of LDS.
pub(super) fn save_area_with(config: &Config, lds: u32) -> SaveArea {
    let xccs = config.xccs.max(1);
    let cus = config.cus / xccs;
    let arrays = xccs * config.shader_engines * config.arrays_per_engine;
    let engines = arrays / config.arrays_per_engine.max(1);
    let waves = (cus * 40).min(engines * 512);
    let ctl_stack_size = (40 + waves * 8 + 8).next_multiple_of(PAGE_SIZE as u32);
    // Vector registers, scalar registers, local data share, hardware registers of each compute unit.
    let state = cus * (0x8_0000 + 0x4000 + lds + 0x1000);
    SaveArea {
        ctl_stack_size,
        cwsr_size: ctl_stack_size + state.next_multiple_of(PAGE_SIZE as u32),
        debug_memory_size: (waves * 32).next_multiple_of(64),
        copies: xccs,
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// A whole MI300X: two compute units of each graphics core are fused off.
    fn whole() -> Config {
        Config {
            xccs: 8,
            shader_engines: 4,
            arrays_per_engine: 1,
            cus_per_array: 10,
            cus: 8 * 38,
            cu_bitmap: [0x3ff, 0x3ff, 0x1ff, 0x1ff].repeat(8),
            cus_per_sqc: 2,
            l1_kib: 32,
            instruction_cache_kib: 64,
            scalar_cache_kib: 16,
            l2_kib: 4096,
            ..Config::default()
        }
    }

    #[test]
    fn save_area_of_the_full_chip_is_the_measured_one() {
        let area = save_area(&whole());
        assert_eq!((area.ctl_stack_size, area.cwsr_size, area.debug_memory_size), (12288, 23_203_840, 48640));
        assert_eq!(area.total(area.cwsr_size), 8 * (23_203_840 + 48640));
    }

    #[test]
    fn caches_of_the_full_chip_are_as_many_as_it_reports() {
        let caches = caches::caches(&whole(), &GFX942);
        assert_eq!(caches.len(), 626);
        let of = |level, kib| caches.iter().filter(|cache| (cache.level, cache.kib) == (level, kib)).count();
        assert_eq!([of(1, 32), of(1, 64), of(1, 16), of(2, 4096), of(3, 262_144)], [304, 160, 160, 1, 1]);
        let bare = Config { cu_bitmap: vec![0b1], cus: 1, xccs: 1, ..whole() };
        assert_eq!(caches::caches(&bare, &GFX942).len(), 5);
    }

    #[test]
    fn first_entries_of_the_table_are_those_of_other_chips_with_these_names() {
        assert_eq!(GFX942.apertures.sh_mem_bases(), 0x1_0002);
        assert_eq!((GFX942.sdma.queues_per_engine(), GFX942.cp_queues), (8, 4 * 6));
    }
}
