//! Questions of `AMDGPU_INFO` beyond those about memory and the device as a whole.

macro_rules! numbers {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $value;)*
    };
}

macro_rules! queries {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        $(#[doc = $text] pub const $name: u32 = $value;)*

        /// Every question of the interface with its name, in order of their numbers.
        pub const INFO_QUERIES: &[(&str, u32)] = &[$((stringify!($name), $name),)*];
    };
}

queries! {
    AMDGPU_INFO_ACCEL_WORKING = 0x00, "Whether acceleration works.";
    AMDGPU_INFO_CRTC_FROM_ID = 0x01, "Number of a display controller.";
    AMDGPU_INFO_HW_IP_INFO = 0x02, "[`DrmAmdgpuInfoHwIp`] of a kind of engine.";
    AMDGPU_INFO_HW_IP_COUNT = 0x03, "Instances of a kind of engine.";
    AMDGPU_INFO_TIMESTAMP = 0x05, "The golden counter.";
    AMDGPU_INFO_FW_VERSION = 0x0e, "[`DrmAmdgpuInfoFirmware`] of a kind of firmware.";
    AMDGPU_INFO_NUM_BYTES_MOVED = 0x0f, "Bytes the driver has moved between kinds of memory.";
    AMDGPU_INFO_VRAM_USAGE = 0x10, "Used VRAM in bytes.";
    AMDGPU_INFO_GTT_USAGE = 0x11, "Used system memory in bytes.";
    AMDGPU_INFO_GDS_CONFIG = 0x13, "[`DrmAmdgpuInfoGds`].";
    AMDGPU_INFO_VRAM_GTT = 0x14, "Sizes of VRAM and system memory.";
    AMDGPU_INFO_READ_MMR_REG = 0x15, "Registers.";
    AMDGPU_INFO_DEV_INFO = 0x16, "[`DrmAmdgpuInfoDevice`](super::DrmAmdgpuInfoDevice).";
    AMDGPU_INFO_VIS_VRAM_USAGE = 0x17, "Used VRAM the processor reaches, in bytes.";
    AMDGPU_INFO_NUM_EVICTIONS = 0x18, "Buffer objects that were moved to make room.";
    AMDGPU_INFO_MEMORY = 0x19, "[`DrmAmdgpuMemoryInfo`](super::DrmAmdgpuMemoryInfo).";
    AMDGPU_INFO_VCE_CLOCK_TABLE = 0x1a, "Clocks of the video encoder.";
    AMDGPU_INFO_VBIOS = 0x1b, "The video BIOS.";
    AMDGPU_INFO_NUM_HANDLES = 0x1c, "Handles of the old video decoder.";
    AMDGPU_INFO_SENSOR = 0x1d, "A sensor.";
    AMDGPU_INFO_NUM_VRAM_CPU_PAGE_FAULTS = 0x1e, "Faults of the processor's maps of VRAM that moved memory.";
    AMDGPU_INFO_VRAM_LOST_COUNTER = 0x1f, "How often the contents of VRAM were lost.";
    AMDGPU_INFO_RAS_ENABLED_FEATURES = 0x20, "Blocks whose memory errors are counted.";
    AMDGPU_INFO_VIDEO_CAPS = 0x21, "Capabilities of the video engines.";
    AMDGPU_INFO_MAX_IBS = 0x22, "Most indirect buffers of one submission, by kind of engine.";
    AMDGPU_INFO_GPUVM_FAULT = 0x23, "[`DrmAmdgpuInfoGpuvmFault`] of the last memory fault.";
}

numbers! {
    AMDGPU_HW_IP_GFX = 0, "Graphics.";
    AMDGPU_HW_IP_COMPUTE = 1, "Compute.";
    AMDGPU_HW_IP_DMA = 2, "Copies.";
    AMDGPU_HW_IP_VPE = 9, "Video processing: the last of the video engines, which are between this and [`AMDGPU_HW_IP_DMA`].";
    AMDGPU_HW_IP_NUM = 10, "Kinds of engines.";
    AMDGPU_HW_IP_INSTANCE_MAX_COUNT = 1, "Instances that can be told apart.";

    AMDGPU_INFO_FW_VCE = 0x1, "The first kind of firmware.";
    AMDGPU_INFO_FW_GFX_MEC = 0x08, "Compute.";
    AMDGPU_INFO_FW_SDMA = 0x0b, "Copies.";
    AMDGPU_INFO_FW_VPE = 0x1c, "The last kind of firmware.";

    AMDGPU_INFO_SENSOR_GFX_SCLK = 0x1, "MHz.";
    AMDGPU_INFO_SENSOR_GFX_MCLK = 0x2, "MHz.";
    AMDGPU_INFO_SENSOR_GPU_TEMP = 0x3, "Thousandths of a degree Celsius.";
    AMDGPU_INFO_SENSOR_GPU_LOAD = 0x4, "Percent.";
    AMDGPU_INFO_SENSOR_GPU_AVG_POWER = 0x5, "Watts.";
    AMDGPU_INFO_SENSOR_VDDGFX = 0x7, "Millivolts.";
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_SCLK = 0xa, "MHz.";
    AMDGPU_INFO_SENSOR_PEAK_PSTATE_GFX_MCLK = 0xb, "MHz.";
}

uapi_struct! {
    /// A kind of engine (`struct drm_amdgpu_info_hw_ip`).
    DrmAmdgpuInfoHwIp: 32 {
        /// Version of the block.
        hw_ip_version_major @ 0: u32,
        /// Version of the block.
        hw_ip_version_minor @ 4: u32,
        /// Capabilities.
        capabilities_flags @ 8: u64,
        /// Alignment of the start of indirect buffers in bytes.
        ib_start_alignment @ 16: u32,
        /// Alignment of their size in bytes.
        ib_size_alignment @ 20: u32,
        /// Rings, one bit each.
        available_rings @ 24: u32,
        /// Version of the discovery table: major, minor, revision, a byte each.
        ip_discovery_version @ 28: u32,
    }
}

uapi_struct! {
    /// A kind of firmware (`struct drm_amdgpu_info_firmware`).
    DrmAmdgpuInfoFirmware: 8 {
        /// Version.
        ver @ 0: u32,
        /// Feature version.
        feature @ 4: u32,
    }
}

uapi_struct! {
    /// Global data share (`struct drm_amdgpu_info_gds`).
    DrmAmdgpuInfoGds: 32 {
        /// Of graphics.
        gds_gfx_partition_size @ 0: u32,
        /// Of compute.
        compute_partition_size @ 4: u32,
        /// In all.
        gds_total_size @ 8: u32,
        /// Of graphics.
        gws_per_gfx_partition @ 12: u32,
        /// Of compute.
        gws_per_compute_partition @ 16: u32,
        /// Of graphics.
        oa_per_gfx_partition @ 20: u32,
        /// Of compute.
        oa_per_compute_partition @ 24: u32,
        /// Padding.
        pad @ 28: u32,
    }
}

uapi_struct! {
    /// A memory fault (`struct drm_amdgpu_info_gpuvm_fault`).
    DrmAmdgpuInfoGpuvmFault: 16 {
        /// The address.
        addr @ 0: u64,
        /// The status register.
        status @ 8: u32,
        /// The hub.
        vmhub @ 12: u32,
    }
}
