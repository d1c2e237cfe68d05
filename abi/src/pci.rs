//! The PCI function: identity, base address registers, and the doorbell layout of BAR2.
//!
//! Identity and BAR order are those of a Radeon RX 7900 XTX (Navi 31). Doorbell assignment: Linux
//! `drivers/gpu/drm/amd/amdgpu/amdgpu_doorbell.h`, `enum AMDGPU_NAVI10_DOORBELL_ASSIGNMENT`, in units of 64 bits.

pub use crate::doorbell::{DOORBELL_BAR_SIZE, DOORBELL_SIZE};

/// AMD.
pub const VENDOR_ID: u16 = 0x1002;
/// Navi 31.
pub const DEVICE_ID: u16 = 0x744c;
/// Revision of the XTX.
pub const REVISION: u8 = 0xc8;
/// Display controller, other: nothing attaches a console to it.
pub const CLASS: u32 = 0x03_8000;
/// Subsystem vendor.
pub const SUBSYSTEM_VENDOR_ID: u16 = 0x1002;
/// Subsystem id.
pub const SUBSYSTEM_ID: u16 = 0x0e3b;

/// The part number in the VBIOS of a card with this device ID.
///
/// Linux's `vbios_version` shows it. Tools take a card that has none for a virtual one: `rocm_smi_lib` 5.2 does not count it.
#[derive(Clone, Copy, Debug)]
pub struct VbiosPartNumber(pub u16);

impl core::fmt::Display for VbiosPartNumber {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "BELFRY-{:04X}", self.0)
    }
}

/// BAR of the video memory, 64-bit prefetchable (BAR1 holds its upper half).
pub const BAR_VRAM: u8 = 0;
/// BAR of the doorbells, 64-bit prefetchable (BAR3 holds its upper half).
pub const BAR_DOORBELLS: u8 = 2;
/// BAR of the registers, 32-bit.
pub const BAR_REGISTERS: u8 = 5;
/// Expansion ROM, by the place of its register among those of the BARs (PCI Local Bus 3.0 section 6.2.5.2).
pub const BAR_ROM: u8 = 8;

/// Bytes of [`BAR_REGISTERS`].
pub const REGISTER_BAR_SIZE: u64 = 1 << 20;

/// Offset of the MSI-X table in [`BAR_REGISTERS`]; on MI300X, over registers of graphics pipelines.
pub const MSIX_TABLE_OFFSET: u64 = 0xe_0000;
/// Offset of the MSI-X pending bits in [`BAR_REGISTERS`].
pub const MSIX_PBA_OFFSET: u64 = 0xe_8000;
/// MSI-X vectors offered; the device raises vector 0 only, as amdgpu asks for one.
pub const MSIX_VECTORS: u16 = 4;

/// Offset of the mmio remap page, set by the driver (`REMAP_HDP_MEM_FLUSH_CNTL`): writing its first dword
/// flushes the HDP.
pub const HDP_REMAP_OFFSET: u64 = 0x7_f000;

/// Bytes of the configuration space.
pub const CONFIG_SPACE_SIZE: usize = 4096;

/// Bytes of a process's doorbell slice: two pages, 1024 doorbells.
pub const DOORBELL_SLICE_SIZE: u64 = 8192;

/// Doorbells of the kernel's own slice (`AMDGPU_NAVI10_DOORBELL_*`, in units of 64 bits).
pub mod doorbell {
    use crate::doorbell::DoorbellIndex;

    /// `KIQ`.
    pub const KIQ: DoorbellIndex = DoorbellIndex::of_number(0x000);
    /// `MEC_RING0`; seven more follow.
    pub const MEC_RING0: DoorbellIndex = DoorbellIndex::of_number(0x003);
    /// `MES_RING0`: the scheduler's ring.
    pub const MES_RING0: DoorbellIndex = DoorbellIndex::of_number(0x00b);
    /// `MES_RING1`: the KIQ when the scheduler is in use.
    pub const MES_RING1: DoorbellIndex = DoorbellIndex::of_number(0x00c);
    /// `GFX_RING0`.
    pub const GFX_RING0: DoorbellIndex = DoorbellIndex::of_number(0x08b);
    /// `sDMA_ENGINE0`.
    pub const SDMA_ENGINE0: DoorbellIndex = DoorbellIndex::of_number(0x100);
    /// `sDMA_ENGINE1`.
    pub const SDMA_ENGINE1: DoorbellIndex = DoorbellIndex::of_number(0x10a);
    /// `IH`: the read pointer of interrupt ring 0, in bytes, 32 bits wide.
    pub const IH: DoorbellIndex = DoorbellIndex::of_number(0x178);
    /// Number of the first doorbell of a slice that is not for compute queues (`FIRST_NON_CP`).
    pub const FIRST_NON_CP: u32 = 0x100;
    /// Number of the last doorbell of a slice that is not for compute queues (`LAST_NON_CP`).
    pub const LAST_NON_CP: u32 = 0x18f;
}

/// Doorbells of the kernel's own slice on MI300X (`AMDGPU_DOORBELL_LAYOUT1_*`, in units of 64 bits).
///
/// Linux `amdgpu_doorbell.h`, `enum AMDGPU_DOORBELL_ASSIGNMENT_LAYOUT1`.
pub mod doorbell_layout1 {
    use crate::doorbell::DoorbellIndex;

    /// `KIQ_START` of XCC 0; the KIQ of each further XCC is [`XCC_RANGE`] further.
    pub const KIQ: DoorbellIndex = DoorbellIndex::of_number(0x000);
    /// `HIQ`, which all XCCs of a partition read.
    pub const HIQ: DoorbellIndex = DoorbellIndex::of_number(0x001);
    /// `DIQ`.
    pub const DIQ: DoorbellIndex = DoorbellIndex::of_number(0x002);
    /// `MEC_RING_START` of XCC 0; seven more follow.
    pub const MEC_RING0: DoorbellIndex = DoorbellIndex::of_number(0x008);
    /// Doorbells of one XCC (`XCC1_KIQ_START`).
    pub const XCC_RANGE: u32 = 0x20;
    /// `sDMA_ENGINE_START`; engine n is [`SDMA_RANGE`] * n further.
    pub const SDMA_ENGINE0: DoorbellIndex = DoorbellIndex::of_number(0x100);
    /// Doorbells of one engine (`sdma_doorbell_range` / 2).
    pub const SDMA_RANGE: u32 = 0xa;
    /// `IH`: the read pointer of interrupt ring 0.
    pub const IH: DoorbellIndex = DoorbellIndex::of_number(0x1a0);
    /// Number of the first doorbell of a slice that is not for compute queues (`FIRST_NON_CP`).
    pub const FIRST_NON_CP: u32 = 0x100;
    /// Number of the last doorbell of a slice that is not for compute queues (`LAST_NON_CP`).
    pub const LAST_NON_CP: u32 = 0x1e8;

    /// The KIQ's doorbell of an XCC.
    #[must_use]
    pub const fn kiq(xcc: u32) -> DoorbellIndex {
        DoorbellIndex::of_number(xcc * XCC_RANGE)
    }

    /// The HIQ's doorbell of the partition that an XCC is the first of.
    #[must_use]
    pub const fn hiq(xcc: u32) -> DoorbellIndex {
        DoorbellIndex::of_number(xcc * XCC_RANGE + 1)
    }
}

/// Constants of MI300X that differ from those of the Navi chips.
pub mod mi300x {
    /// PCI device id of MI300X.
    pub const DEVICE_ID: u16 = 0x74a1;
    /// Processing accelerator.
    pub const CLASS: u32 = 0x12_0000;
    /// Bytes of [`BAR_REGISTERS`](super::BAR_REGISTERS).
    pub const REGISTER_BAR_SIZE: u64 = 2 << 20;
    /// Offset of the mmio remap page, set by the driver (linux `nbio_v7_9.c`).
    pub const HDP_REMAP_OFFSET: u64 = 0x1_a000;
}

/// MI350X.
pub mod mi350x {
    pub use super::mi300x::{CLASS, HDP_REMAP_OFFSET, REGISTER_BAR_SIZE};

    /// PCI device id of MI350X.
    pub const DEVICE_ID: u16 = 0x75a0;
}
