//! Configuration of hosted GPUs.

use std::ops::Range;
use std::sync::Arc;

use belfry_device::GpuConfig;
use belfry_device::memory::Links;
use belfry_kfd_core::os::{MAX_PARTITIONS, Numa};

/// Bytes of system memory the driver may hand out unless told otherwise; pages exist once touched.
const SYSTEM_MEMORY: usize = 8 << 30;

/// PCI address and minor number that a hosted GPU reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// PCI domain.
    pub domain: u32,
    /// Bus number << 8 | device << 3 | function.
    pub location_id: u32,
    /// Minor number of the render node.
    pub render_minor: u32,
    /// Memory node that it is at.
    pub numa_node: u32,
}

impl Place {
    /// Minor numbers of the render nodes of partitions after the first one, of a GPU that can have them.
    #[must_use]
    pub fn partition_minors(&self, gpu: &GpuConfig) -> [u32; MAX_PARTITIONS - 1] {
        let mut minors = [0; MAX_PARTITIONS - 1];
        for (minor, number) in minors.iter_mut().zip(1..gpu.xccs) {
            *minor = self.render_minor + number;
        }
        minors
    }
}

impl Default for Place {
    fn default() -> Self {
        Self { domain: 0, location_id: 1 << 8, render_minor: 128, numa_node: 0 }
    }
}

/// Part of this process's memory that a device reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The driver's memory and pinned memory: anything else is no memory to the device.
    #[default]
    Pinned,
    /// All of the process's memory, so that pinning costs nothing; only the driver's page tables limit the device.
    Process,
}

/// Told which parts of the process's memory are pinned, so that a host can watch them.
///
/// Called while pins change: it must not call back.
pub trait PinObserver: Send + Sync {
    /// A range was pinned, once more perhaps.
    fn pinned(&self, range: Range<u64>);
    /// No part of a range is pinned any more.
    fn unpinned(&self, range: Range<u64>);
}

/// Configuration of a hosted GPU.
#[derive(Clone)]
pub struct HostedConfig {
    /// The device.
    pub gpu: GpuConfig,
    /// Bytes of system memory the driver may hand out, whole pages; they exist once touched.
    pub system_memory: usize,
    /// PCI address and minor number that it reports.
    pub place: Place,
    /// Links to the other GPUs of its machine; those of the first configuration count.
    pub links: Links,
    /// Memory nodes of its machine; those of the first configuration count.
    pub numa: Numa,
    /// Part of the process's memory that it reaches.
    pub reach: Reach,
    /// Observer of pins.
    pub pins: Option<Arc<dyn PinObserver>>,
    /// The number by which its processes name themselves.
    pub pid: u32,
}

impl std::fmt::Debug for HostedConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedConfig")
            .field("gpu", &self.gpu)
            .field("system_memory", &self.system_memory)
            .field("place", &self.place)
            .field("links", &self.links)
            .field("numa", &self.numa)
            .field("reach", &self.reach)
            .finish_non_exhaustive()
    }
}

impl From<GpuConfig> for HostedConfig {
    fn from(gpu: GpuConfig) -> Self {
        Self {
            gpu,
            system_memory: SYSTEM_MEMORY,
            place: Place::default(),
            links: Links::default(),
            numa: Numa::default(),
            reach: Reach::default(),
            pins: None,
            pid: std::process::id(),
        }
    }
}
