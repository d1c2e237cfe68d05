//! The render node's questions about the device (`amdgpu_kms.c`, `amdgpu_info_ioctl`).

use belfry_abi::kfd::drm::{
    AMDGPU_INFO_ACCEL_WORKING, AMDGPU_INFO_DEV_INFO, AMDGPU_INFO_GTT_USAGE, AMDGPU_INFO_MEMORY,
    AMDGPU_INFO_READ_MMR_REG, AMDGPU_INFO_VIS_VRAM_USAGE, AMDGPU_INFO_VRAM_GTT, AMDGPU_INFO_VRAM_USAGE,
    DrmAmdgpuHeapInfo, DrmAmdgpuInfo, DrmAmdgpuInfoDevice, DrmAmdgpuMemoryInfo,
};
use belfry_abi::regs::gc;
use core::sync::atomic::Ordering;
use zerocopy::IntoBytes;

use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::Os;

/// kHz of the golden counter.
const COUNTER_KHZ: u32 = 100_000;

impl<O: Os> Device<O> {
    /// AMDGPU_INFO: writes at most `return_size` bytes of the answer.
    ///
    /// # Errors
    ///
    /// `EINVAL` for a query or register that is not known, `EFAULT`.
    pub(crate) fn amdgpu_info(&self, request: &DrmAmdgpuInfo) -> Result<()> {
        let os = self.hw.os();
        if request.return_size == 0 || request.return_pointer == 0 {
            return Err(Errno::EINVAL);
        }
        let answer = |bytes: &[u8]| {
            let len = bytes.len().min(request.return_size as usize);
            os.copy_to_user(request.return_pointer, &bytes[..len])
        };
        let vram_used = self.vram.size() - self.vram.free_bytes();
        let gtt_used = self.gtt_used.load(Ordering::Relaxed);
        match request.query {
            AMDGPU_INFO_ACCEL_WORKING => answer(u32::from(!self.wedged()).as_bytes()),
            AMDGPU_INFO_DEV_INFO => self.device_info(|info| answer(info.as_bytes())),
            AMDGPU_INFO_READ_MMR_REG => {
                // One register is all that user space needs: the tiling configuration.
                if request.args[0] != self.hw.registers().dword::<gc::GB_ADDR_CONFIG>()
                    || request.args[1] != 1
                {
                    return Err(Errno::EINVAL);
                }
                answer(self.config.gb_addr_config.as_bytes())
            }
            AMDGPU_INFO_VRAM_USAGE | AMDGPU_INFO_VIS_VRAM_USAGE => answer(vram_used.as_bytes()),
            AMDGPU_INFO_GTT_USAGE => answer(gtt_used.as_bytes()),
            AMDGPU_INFO_VRAM_GTT => answer([self.vram.size(), self.vram.size(), self.gtt_limit].as_bytes()),
            AMDGPU_INFO_MEMORY => {
                let heap = |total: u64, used: u64| DrmAmdgpuHeapInfo {
                    total_heap_size: total,
                    usable_heap_size: total,
                    heap_usage: used,
                    max_allocation: total / 4 * 3,
                };
                let vram = heap(self.vram.size(), vram_used);
                let memory = DrmAmdgpuMemoryInfo {
                    vram,
                    cpu_accessible_vram: vram,
                    gtt: heap(self.gtt_limit, gtt_used),
                };
                answer(memory.as_bytes())
            }
            _ => Err(Errno::EINVAL),
        }
    }

    #[inline(never)]
    fn device_info(&self, use_it: impl FnOnce(&DrmAmdgpuInfoDevice) -> Result<()>) -> Result<()> {
        let config = &self.config;
        let product = &self.hw.asic().product;
        let mut info = DrmAmdgpuInfoDevice {
            device_id: u32::from(self.info.device_id),
            external_rev: 1,
            pci_rev: u32::from(self.info.revision_id),
            family: product.family,
            num_shader_engines: config.shader_engines,
            num_shader_arrays_per_engine: config.arrays_per_engine,
            gpu_counter_freq: COUNTER_KHZ,
            max_engine_clock: u64::from(product.max_engine_clock) * 1000,
            max_memory_clock: u64::from(product.max_memory_clock) * 1000,
            cu_active_number: config.cus,
            pcie_gen: 4,
            virtual_address_offset: 0x20_0000,
            virtual_address_max: 0x8000_0000_0000,
            virtual_address_alignment: 4096,
            pte_fragment_size: 1 << 21,
            gart_page_size: 4096,
            vram_type: product.memory_type,
            vram_bit_width: product.memory_width,
            wave_front_size: config.wave_size,
            num_cu_per_sh: config.cus_per_array,
            pcie_num_lanes: 16,
            high_va_offset: 0xffff_8000_0000_0000,
            high_va_max: 0xffff_ffff_ffe0_0000,
            tcp_cache_size: config.l1_kib,
            num_sqc_per_wgp: 1,
            sqc_data_cache_size: config.scalar_cache_kib,
            sqc_inst_cache_size: config.instruction_cache_kib,
            gl1c_cache_size: config.gl1_kib,
            gl2c_cache_size: config.l2_kib,
            ..DrmAmdgpuInfoDevice::default()
        };
        for engine in 0..config.shader_engines.min(4) {
            for array in 0..config.arrays_per_engine.min(4) {
                let bitmap = config.cu_bitmap.get((engine * config.arrays_per_engine + array) as usize);
                info.cu_bitmap[engine as usize][array as usize] = bitmap.copied().unwrap_or(0);
            }
        }
        info.cu_ao_bitmap = info.cu_bitmap;
        use_it(&info)
    }
}
