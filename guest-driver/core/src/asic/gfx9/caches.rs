//! Caches of gfx9: of compute units, of groups of them, and of the chip (`kfd_fill_gpu_cache_info_from_gfx_config_v2`).

use alloc::vec::Vec;

use belfry_abi::kfd::topology::{HSA_CACHE_TYPE_DATA, HSA_CACHE_TYPE_INSTRUCTION};

use crate::asic::{Asic, Cache};
use crate::config::Config;

/// The last-level cache behind all memory, in KiB.
const L3_KIB: u32 = 256 << 10;

pub(super) fn caches(config: &Config, asic: &Asic) -> Vec<Cache> {
    let simds = |cus: u32| cus * asic.simds_per_cu;
    let mut caches = Vec::new();
    let mut first = 0;
    for bitmap in &config.cu_bitmap {
        // Groups that share caches are there as long as one of their units is.
        for group in (0..config.cus_per_array).step_by(config.cus_per_sqc.max(1) as usize) {
            let units = (bitmap >> group & ((1 << config.cus_per_sqc) - 1)).count_ones();
            if units == 0 {
                continue;
            }
            let first_simd = simds(first);
            for (kib, kind) in [
                (config.instruction_cache_kib, HSA_CACHE_TYPE_INSTRUCTION),
                (config.scalar_cache_kib, HSA_CACHE_TYPE_DATA),
            ] {
                caches.push(Cache { level: 1, kib, kind, simds: simds(units), first_simd });
            }
            for unit in first..first + units {
                let (kib, kind) = (config.l1_kib, HSA_CACHE_TYPE_DATA);
                caches.push(Cache { level: 1, kib, kind, simds: simds(1), first_simd: simds(unit) });
            }
            first += units;
        }
    }
    for (level, kib) in [(2, config.l2_kib), (3, L3_KIB)] {
        let simds = simds(config.cus);
        caches.push(Cache { level, kib, kind: HSA_CACHE_TYPE_DATA, simds, first_simd: 0 });
    }
    caches.retain(|cache| cache.kib > 0);
    caches
}
