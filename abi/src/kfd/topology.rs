//! Bits and numbers inside the topology's text files (`HSA_CAP_*`, `CRAT_*`, `HSA_MEM_HEAP_TYPE_*`;
//! `include/uapi/linux/kfd_sysfs.h`, `drivers/gpu/drm/amd/amdkfd/kfd_crat.h`).

/// Global wave sync resources of a GPU (`num_gws`; `gds.gws_size`, `gfx_v11_0_set_gds_init`).
pub const NUM_GWS: u32 = 64;

/// There are address watches (`HSA_CAP_WATCH_POINTS_SUPPORTED`).
pub const HSA_CAP_WATCH_POINTS_SUPPORTED: u32 = 0x0000_0080;
/// `capability`, bits 11:8: the binary logarithm of how many (`HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT`).
pub const HSA_CAP_WATCH_POINTS_TOTALBITS_SHIFT: u32 = 8;
/// `capability`, bits 13:12: type of the doorbells, 2 is 64-bit.
pub const HSA_CAP_DOORBELL_TYPE_SHIFT: u32 = 12;
/// 64-bit doorbells (`HSA_CAP_DOORBELL_TYPE_2_0`).
pub const HSA_CAP_DOORBELL_TYPE_2_0: u32 = 2;
/// DBG_TRAP works (`HSA_CAP_TRAP_DEBUG_SUPPORT`).
pub const HSA_CAP_TRAP_DEBUG_SUPPORT: u32 = 0x0000_8000;
/// A debugger may have waves trap for exceptions (`HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED`).
pub const HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_TRAP_OVERRIDE_SUPPORTED: u32 = 0x0001_0000;
/// A debugger may have waves begin halted (`HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED`).
pub const HSA_CAP_TRAP_DEBUG_WAVE_LAUNCH_MODE_SUPPORTED: u32 = 0x0002_0000;
/// A debugger may have each access of memory be over before the next instruction
/// (`HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED`).
pub const HSA_CAP_TRAP_DEBUG_PRECISE_MEMORY_OPERATIONS_SUPPORTED: u32 = 0x0004_0000;
/// The firmware does its part for debuggers (`HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED`).
pub const HSA_CAP_TRAP_DEBUG_FIRMWARE_SUPPORTED: u32 = 0x2000_0000;
/// `HSA_CAP_SRAM_EDCSUPPORTED`: errors in the memories of the GPU itself are corrected.
pub const HSA_CAP_SRAM_EDCSUPPORTED: u32 = 1 << 26;
/// The SVM ioctl works (`HSA_CAP_SVMAPI_SUPPORTED`).
pub const HSA_CAP_SVMAPI_SUPPORTED: u32 = 0x0800_0000;

/// Memory of the system (`HSA_MEM_HEAP_TYPE_SYSTEM`).
pub const HSA_MEM_HEAP_TYPE_SYSTEM: u32 = 0;
/// VRAM the processor reaches (`HSA_MEM_HEAP_TYPE_FB_PUBLIC`).
pub const HSA_MEM_HEAP_TYPE_FB_PUBLIC: u32 = 1;

/// Data cache (`HSA_CACHE_TYPE_DATA`).
pub const HSA_CACHE_TYPE_DATA: u32 = 1;
/// Instruction cache (`HSA_CACHE_TYPE_INSTRUCTION`).
pub const HSA_CACHE_TYPE_INSTRUCTION: u32 = 2;
/// Cache of processors (`HSA_CACHE_TYPE_CPU`).
pub const HSA_CACHE_TYPE_CPU: u32 = 4;
/// Cache of a GPU (`HSA_CACHE_TYPE_HSACU`).
pub const HSA_CACHE_TYPE_HSACU: u32 = 8;

/// PCI Express link (`CRAT_IOLINK_TYPE_PCIEXPRESS`).
pub const CRAT_IOLINK_TYPE_PCIEXPRESS: u32 = 2;
/// Link between GPUs, and between partitions of one (`CRAT_IOLINK_TYPE_XGMI`).
pub const CRAT_IOLINK_TYPE_XGMI: u32 = 11;
/// The link is there (`CRAT_IOLINK_FLAGS_ENABLED`).
pub const CRAT_IOLINK_FLAGS_ENABLED: u32 = 1;
/// Caches of one end do not follow the memory of the other one (`CRAT_IOLINK_FLAGS_NON_COHERENT`).
pub const CRAT_IOLINK_FLAGS_NON_COHERENT: u32 = 2;

/// First SIMD id of the first GPU (`gpu_processor_id_low`, `kfd_crat.c`).
pub const GPU_PROCESSOR_ID_LOW: u32 = 0x8000_1000;
