//! The render node's questions about the device (`amdgpu_kms.c`, `amdgpu_info_ioctl`).

use belfry_abi::kfd::drm::{
    self as nr, AMDGPU_HW_IP_COMPUTE, AMDGPU_HW_IP_DMA, AMDGPU_HW_IP_GFX, AMDGPU_HW_IP_INSTANCE_MAX_COUNT,
    AMDGPU_HW_IP_NUM, AMDGPU_HW_IP_VPE, AMDGPU_IDS_FLAGS_FUSION, AMDGPU_INFO_FW_GFX_MEC, AMDGPU_INFO_FW_SDMA,
    AMDGPU_INFO_FW_VCE, AMDGPU_INFO_FW_VPE, DrmAmdgpuHeapInfo, DrmAmdgpuInfo, DrmAmdgpuInfoDevice,
    DrmAmdgpuInfoFirmware, DrmAmdgpuInfoGds, DrmAmdgpuInfoHwIp, DrmAmdgpuMemoryInfo,
};
use zerocopy::IntoBytes;

use super::Client;
use super::context::rings;
use super::registers::read_registers;
use crate::card::{Sensor, Source};
use crate::device::Device;
use crate::errno::{Errno, Result};
use crate::os::Os;
use crate::space::{END_VA, UPPER_HALF};
use crate::trace::COUNTER_HZ;

/// kHz of the golden counter.
const COUNTER_KHZ: u32 = COUNTER_HZ / 1000;
/// Most indirect buffers of one submission (`amdgpu_ring_max_ibs`): of graphics, of compute, of all others.
const MAX_IBS: (u32, u32, u32) = (192, 125, 49);

/// A question that is not answered; for the documentation. All are `EINVAL`.
#[derive(Clone, Copy, Debug)]
pub struct RefusedQuery {
    /// One of `AMDGPU_INFO_*`.
    pub query: u32,
    /// Why.
    pub reason: &'static str,
}

/// Questions that are not answered.
pub const REFUSED_QUERIES: &[RefusedQuery] = &[
    RefusedQuery { query: nr::AMDGPU_INFO_CRTC_FROM_ID, reason: "no display" },
    RefusedQuery { query: nr::AMDGPU_INFO_VCE_CLOCK_TABLE, reason: "no video engine" },
    RefusedQuery { query: nr::AMDGPU_INFO_VBIOS, reason: "no video BIOS" },
    RefusedQuery {
        query: nr::AMDGPU_INFO_NUM_HANDLES,
        reason: "no video engine of that age, as on a real card",
    },
    RefusedQuery { query: nr::AMDGPU_INFO_VIDEO_CAPS, reason: "no video engine" },
];

/// AMDGPU_INFO: writes at most `return_size` bytes of the answer.
///
/// # Errors
///
/// `EINVAL` for a query, engine, firmware or sensor that is not known; `EFAULT`, also for a register that may not be read.
pub(crate) fn answer_query<O: Os>(client: &Client<O>, request: &DrmAmdgpuInfo) -> Result<()> {
    let device = &**client.device();
    let os = device.hw.os();
    if request.return_size == 0 || request.return_pointer == 0 {
        return Err(Errno::EINVAL);
    }
    let answer = |bytes: &[u8]| {
        let len = bytes.len().min(request.return_size as usize);
        os.copy_to_user(request.return_pointer, &bytes[..len])
    };
    let (vram_used, gtt_used) = device.memory_used();
    match request.query {
        nr::AMDGPU_INFO_ACCEL_WORKING => answer(u32::from(!device.wedged()).as_bytes()),
        nr::AMDGPU_INFO_DEV_INFO => device_info(device, |info| answer(info.as_bytes())),
        nr::AMDGPU_INFO_READ_MMR_REG => read_registers(device, request.args, answer),
        nr::AMDGPU_INFO_HW_IP_INFO => answer(engine(device, request.args[0], request.args[1])?.as_bytes()),
        nr::AMDGPU_INFO_HW_IP_COUNT => {
            let count = match request.args[0] {
                AMDGPU_HW_IP_GFX | AMDGPU_HW_IP_COMPUTE | AMDGPU_HW_IP_DMA => 1u32,
                ..=AMDGPU_HW_IP_VPE => 0,
                _ => return Err(Errno::EINVAL),
            };
            answer(count.as_bytes())
        }
        nr::AMDGPU_INFO_TIMESTAMP => answer(device.hw.clock_counter().as_bytes()),
        nr::AMDGPU_INFO_FW_VERSION => {
            let [kind, instance, index, _] = request.args;
            answer(firmware(device, kind, instance, index)?.as_bytes())
        }
        // Memory stays where it was made.
        nr::AMDGPU_INFO_NUM_BYTES_MOVED
        | nr::AMDGPU_INFO_NUM_EVICTIONS
        | nr::AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS => answer(0u64.as_bytes()),
        nr::AMDGPU_INFO_VRAM_USAGE | nr::AMDGPU_INFO_VIS_VRAM_USAGE => answer(vram_used.as_bytes()),
        nr::AMDGPU_INFO_GTT_USAGE => answer(gtt_used.as_bytes()),
        // Programs get none of it.
        nr::AMDGPU_INFO_GDS_CONFIG => answer(DrmAmdgpuInfoGds::default().as_bytes()),
        nr::AMDGPU_INFO_VRAM_GTT => {
            answer([device.vram.size(), device.vram.size(), device.gtt_limit].as_bytes())
        }
        nr::AMDGPU_INFO_MEMORY => {
            let heap = |total: u64, used: u64| DrmAmdgpuHeapInfo {
                total_heap_size: total,
                usable_heap_size: total,
                heap_usage: used,
                max_allocation: total / 4 * 3,
            };
            let vram = heap(device.vram.size(), vram_used);
            let memory = DrmAmdgpuMemoryInfo {
                vram,
                cpu_accessible_vram: vram,
                gtt: heap(device.gtt_limit, gtt_used),
            };
            answer(memory.as_bytes())
        }
        nr::AMDGPU_INFO_SENSOR => {
            let sensor = sensor(request.args[0])?;
            answer(sensor.value(&device.card(), &device.figures(Source::Activity)).as_bytes())
        }
        nr::AMDGPU_INFO_VRAM_LOST_COUNTER => answer((device.epoch() as u32).as_bytes()),
        // No memory errors are counted.
        nr::AMDGPU_INFO_RAS_ENABLED_FEATURES => answer(0u64.as_bytes()),
        nr::AMDGPU_INFO_MAX_IBS => answer(max_ibs().as_bytes()),
        nr::AMDGPU_INFO_GPUVM_FAULT => answer(client.last_fault().as_bytes()),
        _ => Err(Errno::EINVAL),
    }
}

/// HW_IP_INFO: engines that are not there have no rings.
fn engine<O: Os>(device: &Device<O>, kind: u32, instance: u32) -> Result<DrmAmdgpuInfoHwIp> {
    if instance >= AMDGPU_HW_IP_INSTANCE_MAX_COUNT || kind >= AMDGPU_HW_IP_NUM {
        return Err(Errno::EINVAL);
    }
    let (major, minor, revision) = device.config.gc_version;
    let graphics = DrmAmdgpuInfoHwIp {
        hw_ip_version_major: major.into(),
        hw_ip_version_minor: minor.into(),
        ib_start_alignment: 32,
        ib_size_alignment: 32,
        ip_discovery_version: u32::from(major) << 16 | u32::from(minor) << 8 | u32::from(revision),
        ..Default::default()
    };
    let sdma = device.hw.asic().sdma.version;
    let engine = match kind {
        AMDGPU_HW_IP_GFX | AMDGPU_HW_IP_COMPUTE => graphics,
        AMDGPU_HW_IP_DMA => DrmAmdgpuInfoHwIp {
            hw_ip_version_major: sdma.0,
            hw_ip_version_minor: sdma.1,
            ib_start_alignment: 256,
            ib_size_alignment: 4,
            ip_discovery_version: sdma.0 << 16 | sdma.1 << 8,
            ..Default::default()
        },
        _ => DrmAmdgpuInfoHwIp::default(),
    };
    Ok(DrmAmdgpuInfoHwIp { available_rings: (1 << rings(kind)) - 1, ..engine })
}

/// FW_VERSION: firmware that is not loaded has version 0.
fn firmware<O: Os>(
    device: &Device<O>,
    kind: u32,
    instance: u32,
    index: u32,
) -> Result<DrmAmdgpuInfoFirmware> {
    let product = &device.hw.asic().product;
    let ver = match kind {
        _ if instance != 0 => return Err(Errno::EINVAL),
        AMDGPU_INFO_FW_GFX_MEC if index == 0 => product.fw_version,
        // The second compute engine has none.
        AMDGPU_INFO_FW_GFX_MEC if index == 1 => 0,
        AMDGPU_INFO_FW_SDMA if index < device.config.sdma_engines => product.sdma_fw_version,
        AMDGPU_INFO_FW_GFX_MEC | AMDGPU_INFO_FW_SDMA => return Err(Errno::EINVAL),
        AMDGPU_INFO_FW_VCE..=AMDGPU_INFO_FW_VPE if kind != 9 => 0,
        _ => return Err(Errno::EINVAL),
    };
    Ok(DrmAmdgpuInfoFirmware { ver, feature: 0 })
}

#[inline(never)]
fn device_info<O: Os>(
    device: &Device<O>,
    use_it: impl FnOnce(&DrmAmdgpuInfoDevice) -> Result<()>,
) -> Result<()> {
    let config = &device.config;
    let product = &device.hw.asic().product;
    let mut info = DrmAmdgpuInfoDevice {
        device_id: u32::from(device.info.device_id),
        external_rev: product.external_rev,
        pci_rev: u32::from(device.info.revision_id),
        family: product.family,
        ids_flags: if device.hw.asic().integrated { AMDGPU_IDS_FLAGS_FUSION } else { 0 },
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
        num_tcc_blocks: config.l2_channels,
        pcie_num_lanes: 16,
        high_va_offset: 0xffff_8000_0000_0000,
        high_va_max: UPPER_HALF | END_VA,
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

/// Most indirect buffers of one submission, by kind of engine.
pub(super) fn max_ibs() -> [u32; AMDGPU_HW_IP_NUM as usize] {
    core::array::from_fn(|kind| match kind as u32 {
        AMDGPU_HW_IP_GFX => MAX_IBS.0,
        AMDGPU_HW_IP_COMPUTE => MAX_IBS.1,
        _ => MAX_IBS.2,
    })
}

/// The sensor of a number; `EINVAL` for those that the card has not.
fn sensor(number: u32) -> Result<Sensor> {
    Ok(match number {
        nr::AMDGPU_INFO_SENSOR_GFX_SCLK => Sensor::EngineClock,
        nr::AMDGPU_INFO_SENSOR_GFX_MCLK => Sensor::MemoryClock,
        nr::AMDGPU_INFO_SENSOR_GPU_TEMP => Sensor::Temperature,
        nr::AMDGPU_INFO_SENSOR_GPU_LOAD => Sensor::Load,
        nr::AMDGPU_INFO_SENSOR_GPU_AVG_POWER => Sensor::Power,
        nr::AMDGPU_INFO_SENSOR_VDDGFX => Sensor::Voltage,
        nr::AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK => Sensor::PeakEngineClock,
        nr::AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK => Sensor::PeakMemoryClock,
        _ => return Err(Errno::EINVAL),
    })
}
