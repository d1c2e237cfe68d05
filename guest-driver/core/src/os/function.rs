//! The PCI function as the operating system knows it.

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

/// Bytes of the device's BARs that programs may have the GPU store to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnPlace {
    /// Doorbells, by their offset.
    Doorbells(u64),
    /// The page of flushes, by its offset in the registers' BAR.
    Flushes(u64),
}
