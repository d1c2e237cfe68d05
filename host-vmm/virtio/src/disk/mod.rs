//! Disks: their configuration, and the images that have their contents.

mod config;
pub(super) mod image;
mod qcow2_tables;

pub use config::{DiskConfig, DiskConfigError, DiskFormat};
pub use image::DiskError;
