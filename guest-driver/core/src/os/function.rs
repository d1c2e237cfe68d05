//! The PCI function as the operating system knows it.

use belfry_abi::doorbell::DoorbellOffset;

use crate::errno::Result;

/// Properties of the PCI function that the bus knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// PCI vendor id.
    pub vendor_id: u16,
    /// PCI device id.
    pub device_id: u16,
    /// PCI revision id.
    pub revision_id: u8,
    /// PCI subsystem vendor id.
    pub subsystem_vendor_id: u16,
    /// PCI subsystem id.
    pub subsystem_id: u16,
    /// PCI domain.
    pub domain: u32,
    /// Bus number << 8 | device << 3 | function.
    pub location_id: u32,
    /// Minor number of the DRM render node, 0 while it is not registered.
    pub render_minor: u32,
    /// Minor numbers of the render nodes of partitions after the first, 0 for those that there are not.
    pub partition_minors: [u32; MAX_PARTITIONS - 1],
    /// Memory node that it is at, one of [`Os::numa`](super::Os::numa) (`pcibus_to_node`).
    pub numa_node: u32,
    /// Number of its hive among those of the machine, where the system knows of several.
    pub hive: u32,
}

/// Partitions that a GPU can have, each with a render node (`MAX_XCP`).
pub const MAX_PARTITIONS: usize = 8;

impl DeviceInfo {
    /// The minor number of a partition's render node.
    pub(crate) fn minor_of(&self, partition: u32) -> u32 {
        match partition.checked_sub(1) {
            None => self.render_minor,
            Some(at) => self.partition_minors.get(at as usize).copied().unwrap_or(0),
        }
    }
}

/// Bytes of a device's BARs that GPUs reach over the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPlace {
    /// Doorbells, by their offset.
    Doorbells(u64),
    /// The page of flushes, by its offset in the registers' BAR.
    Flushes(u64),
    /// VRAM, by its offset: for other devices.
    Vram(u64),
}

/// A PCI function: registers, doorbells and VRAM of one GPU.
///
/// The operating system keeps its BARs mapped as long as the driver has it. Nothing here is called from a hard interrupt.
pub trait Function: Send + Sync + 'static {
    /// Returns what the bus knows about the function.
    fn device_info(&self) -> DeviceInfo;

    /// Reads the 32-bit register at byte `offset` of BAR5; all ones past its end or when the device is gone.
    fn reg_read(&self, offset: u32) -> u32;

    /// Writes the 32-bit register at byte `offset` of BAR5.
    fn reg_write(&self, offset: u32, value: u32);

    /// Returns the size of BAR2 in bytes.
    fn doorbell_size(&self) -> u64;

    /// Writes a 64-bit doorbell, after all earlier writes to memory and VRAM are visible.
    fn doorbell_write(&self, offset: DoorbellOffset, value: u64);

    /// Returns the address at which devices find bytes of this one's BARs, as entries of page tables for system memory name them.
    fn own_bus_address(&self, place: OwnPlace) -> u64;

    /// Returns the size of BAR0 in bytes.
    fn vram_size(&self) -> u64;

    /// Reads VRAM through BAR0; the range is inside it.
    fn vram_read(&self, offset: u64, data: &mut [u8]);

    /// Writes VRAM through BAR0; the range is inside it. Aligned groups of 8 bytes are written as one.
    fn vram_write(&self, offset: u64, data: &[u8]);

    /// Fills `len` bytes of VRAM with `byte`; the range is inside BAR0.
    fn vram_fill(&self, offset: u64, len: u64, byte: u8);

    /// So many bytes at byte `offset` of VRAM, which are zeros, will be a process's at a GPU virtual address. A system that checks
    /// whether memory is written before it is read may put something else there.
    fn vram_unwritten(&self, _va: u64, _offset: u64, _bytes: u64) {}

    /// Returns the bytes of VRAM and of system memory that other devices use which are one card with this one, as a system has it that gives each
    /// of its programs a device of its own.
    fn used_by_others(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Makes all earlier writes to VRAM and system memory visible to the device before any later register write.
    fn write_barrier(&self);

    /// Resets the function (FLR) and restores its configuration space and interrupts as they were when it was enabled.
    ///
    /// # Errors
    ///
    /// When the function cannot be reset, or is not on the bus any more.
    fn reset_function(&self) -> Result<()>;
}
