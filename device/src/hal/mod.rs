//! What differs from chip to chip.

pub mod gfx1100;

use std::fmt::Debug;

use crate::config::GpuConfig;

/// How the compute units are laid out.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Topology {
    /// Shader engines.
    pub shader_engines: u32,
    /// Shader arrays per engine.
    pub arrays_per_engine: u32,
    /// Work group processors per array the chip is built with; some may be fused off.
    pub wgps_per_array: u32,
    /// Work group processors that work, in all.
    pub wgps: u32,
}

impl Topology {
    /// Work group processors that work in one array, counted over all engines.
    #[must_use]
    pub fn active_wgps(&self, array: u32) -> u32 {
        let arrays = self.shader_engines * self.arrays_per_engine;
        if array >= arrays {
            return 0;
        }
        self.wgps / arrays + u32::from(array < self.wgps % arrays)
    }
}

/// One chip: identity, static tables, and the constants its registers read as.
pub trait Chip: Debug + Send + Sync {
    /// PCI device id.
    fn device_id(&self) -> u16;

    /// PCI revision.
    fn revision(&self) -> u8;

    /// Layout of the compute units.
    fn topology(&self) -> Topology;

    /// The IP discovery table, to be placed at the top of VRAM.
    fn discovery(&self) -> Vec<u8>;

    /// Bytes from the end of VRAM to the start of the discovery table.
    fn discovery_offset(&self) -> u64;

    /// Version word of the scheduler firmware: version 11:0, API 23:12.
    fn mes_version(&self) -> u32;

    /// First byte of the frame buffer in VMID 0, as the card's own firmware leaves it.
    fn fb_base(&self) -> u64;
}

/// The chip a configuration asks for.
#[must_use]
pub fn chip(config: &GpuConfig) -> Box<dyn Chip> {
    Box::new(gfx1100::Gfx1100::new(config.cus))
}
