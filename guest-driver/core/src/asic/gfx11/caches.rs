//! Caches of gfx11: of compute units and work group processors, of shader arrays, and of the chip
//! (`kfd_fill_gpu_cache_info_from_gfx_config`).

use alloc::vec::Vec;

use belfry_abi::kfd::topology::{HSA_CACHE_TYPE_DATA, HSA_CACHE_TYPE_INSTRUCTION};

use crate::asic::{Asic, Cache};
use crate::config::Config;

pub(super) fn caches(config: &Config, asic: &Asic) -> Vec<Cache> {
    let mut caches = Vec::new();
    let simds_per_cu = asic.simds_per_cu;
    let simds_per_array = config.cus_per_array * simds_per_cu;
    for wgp in 0..config.cus / 2 {
        let first_simd = wgp * 2 * simds_per_cu;
        for (kib, kind) in [
            (config.instruction_cache_kib, HSA_CACHE_TYPE_INSTRUCTION),
            (config.scalar_cache_kib, HSA_CACHE_TYPE_DATA),
        ] {
            caches.push(Cache { level: 1, kib, kind, simds: 2 * simds_per_cu, first_simd });
        }
        for cu in 0..2 {
            let first_simd = first_simd + cu * simds_per_cu;
            caches.push(Cache {
                level: 1,
                kib: config.l1_kib,
                kind: HSA_CACHE_TYPE_DATA,
                simds: simds_per_cu,
                first_simd,
            });
        }
    }
    let simds = config.cus * simds_per_cu;
    for first_simd in (0..simds).step_by(simds_per_array.max(1) as usize) {
        let simds = simds_per_array.min(simds - first_simd);
        caches.push(Cache { level: 1, kib: config.gl1_kib, kind: HSA_CACHE_TYPE_DATA, simds, first_simd });
    }
    caches.push(Cache { level: 2, kib: config.l2_kib, kind: HSA_CACHE_TYPE_DATA, simds, first_simd: 0 });
    caches.retain(|cache| cache.kib > 0);
    caches
}
