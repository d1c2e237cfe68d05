//! GC 11.0.0: Navi 31.

mod caches;
mod interrupt;
mod mes;
mod mqd;
mod pte;

use belfry_abi::gpuvm::{PRIVATE_APERTURE_HI16, SHARED_APERTURE_HI16};
use belfry_abi::kfd::drm::{AMDGPU_FAMILY_GC_11_0_0, AMDGPU_VRAM_TYPE_GDDR6};
use belfry_abi::pci::{HDP_REMAP_OFFSET, REGISTER_BAR_SIZE, doorbell};
use belfry_abi::regs::layout;
use belfry_abi::sensors::Peaks;

pub(super) use mes::{FRAMES as MES_FRAMES, launch_control};
pub(super) use mqd::{MANAGER as MQD_MANAGER, init_sdma_mqd, update_sdma_mqd};
pub(super) use pte::{NOT_RESIDENT, allowed};

use super::{
    Apertures, Asic, DoorbellLayout, Firmware, Fuses, MesFirmware, PasidTable, Product, SaveArea, SdmaLayout,
    readable,
};
use crate::config::Config;
use crate::os::PAGE_SIZE;

/// `SH_MEM_CONFIG`: 64-bit addresses, unaligned access, instruction prefetch 3 (`DEFAULT_SH_MEM_CONFIG`).
const SH_MEM_CONFIG: u32 = 3 << 2 | 3 << 14;

pub(super) const GFX1100: Asic = Asic {
    name: "gfx1100",
    gc: (11, 0, 0),
    gfx_target_version: 110_000,
    registers: layout::GFX11,
    register_bytes: REGISTER_BAR_SIZE,
    packet_registers: u32::MAX,
    // Work group processors of two.
    fuses: Fuses { cus: 2, arrays: true },
    partitions: false,
    integrated: false,
    has_xgmi: false,
    mqd: mqd::MANAGER,
    kernel_me: 3,
    firmware: Firmware::Mes(MesFirmware { frames: mes::FRAMES, on_both_pipes: false }),
    pte: pte::FORMAT,
    interrupt: interrupt::decode,
    doorbells: DoorbellLayout {
        kiq: doorbell::MES_RING1,
        kiq_stride: 0,
        scheduler: doorbell::MES_RING0,
        not_compute: (doorbell::FIRST_NON_CP, doorbell::LAST_NON_CP),
    },
    hdp_remap: HDP_REMAP_OFFSET,
    pasids: PasidTable::InterruptHandler,
    vm_context: None,
    // VMIDs 8 to 15, as `gmc_v11_0_sw_init`.
    first_kfd_vmid: 8,
    // amdgpu keeps the first two of eight for the kernel.
    compute_hqd_mask: 0xc,
    // amdgpu keeps the first two of eight for the kernel (`amdgpu_mes_init`).
    sdma: SdmaLayout {
        version: (6, 0),
        engines: 2,
        pcie_engines: 2,
        hqd_mask: 0xfc,
        first_doorbell: doorbell::SDMA_ENGINE0.dwords() / 2,
        doorbells: (doorbell::SDMA_ENGINE1.dwords() - doorbell::SDMA_ENGINE0.dwords()) / 2,
    },
    // `kfd_init_apertures_v9`.
    apertures: Apertures { lds: SHARED_APERTURE_HI16 << 48, scratch: PRIVATE_APERTURE_HI16 << 48 },
    sh_mem_config: SH_MEM_CONFIG,
    // "GFXv10 and later GPUs do not support shader preemption during page faults" (`kfd_process_xnack_mode`).
    retry: None,
    readable: &readable::NAVI,
    simds_per_cu: 2,
    cp_queues: 8,
    save_area,
    caches: caches::caches,
    // `gfx_v11_0_emit_mem_sync`.
    acquire_memory: &[0, u32::MAX, 0xff_ffff, 0, 0, 0xa, 0x4381],
    watch_control: mes::watch_control,
    capability: 0,
    // Assembled from the file of that name by `cargo xtask kernels`.
    trap_handler: include_bytes!("gfx11/trap_handler.bin"),
    // As a 7900 XTX reports them.
    product: Product {
        family: AMDGPU_FAMILY_GC_11_0_0,
        // `soc21_common_early_init`.
        external_rev: 0x1,
        fw_version: 2140,
        sdma_fw_version: 20,
        max_engine_clock: Peaks::GFX1100.engine,
        max_memory_clock: Peaks::GFX1100.memory,
        memory_type: AMDGPU_VRAM_TYPE_GDDR6,
        memory_width: 384,
        // Address watch mask 7 to 29, dispatch info always valid.
        debug_prop: 0x5d7,
    },
};

fn save_area(config: &Config) -> SaveArea {
    let cus = config.cus;
    let waves = cus * 32;
    let ctl_stack_size = (40 + waves * 12 + 8).next_multiple_of(PAGE_SIZE as u32);
    // Vector registers, scalar registers, local data share, hardware registers of each compute unit.
    let state = cus * (0x6_0000 + 0x4000 + 0x1_0000 + 0x1000);
    SaveArea {
        ctl_stack_size,
        cwsr_size: ctl_stack_size + state.next_multiple_of(PAGE_SIZE as u32),
        debug_memory_size: (waves * 32).next_multiple_of(64),
        copies: 1,
    }
}

#[cfg(test)]
mod tests {
    use belfry_abi::kfd::aperture::{LDS_BASE_V9, SCRATCH_BASE_V9};

    use super::*;

    #[test]
    fn save_area_of_the_full_chip_is_the_measured_one() {
        let area = save_area(&Config { cus: 96, ..Config::default() });
        assert_eq!((area.ctl_stack_size, area.cwsr_size), (40960, 46_047_232));
        assert_eq!(area.total(area.cwsr_size), 0x2c0_2000);
    }

    #[test]
    fn apertures_of_registers_and_of_user_space_are_the_same() {
        assert_eq!((GFX1100.apertures.lds, GFX1100.apertures.scratch), (LDS_BASE_V9, SCRATCH_BASE_V9));
        assert_eq!(GFX1100.apertures.sh_mem_bases(), 0x1_0002);
    }
}
