//! Reasons why a device could not be made.

use crate::config::ConfigError;

/// Error of [`Gpu::new`](crate::Gpu::new).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is out of range.
    #[error("the device cannot be configured so: {0}")]
    Config(#[source] ConfigError),
    /// The VRAM region handed in is not as large as the configuration says.
    #[error("the VRAM region has {actual} bytes, the configuration says {expected}")]
    VramRegion {
        /// Bytes the configuration asks for.
        expected: u64,
        /// Bytes of the region.
        actual: u64,
    },
    /// The doorbell region handed in has the wrong size.
    #[error("the doorbell region has {actual} bytes, it must have {expected}")]
    DoorbellRegion {
        /// Bytes of BAR2.
        expected: u64,
        /// Bytes of the region.
        actual: u64,
    },
    /// The shader engine could not be started.
    #[error("the shader engine cannot be started: {0}")]
    Shader(#[source] crate::shader::Error),
    /// The record is complete, or has as many devices as a machine.
    #[error(
        "a record is of the devices of one machine, and this one has them all already: make another record"
    )]
    Recorded,
    /// Memory for a device's own doorbells could not be had.
    #[error("no memory for the doorbells of a device that is recorded: {0}")]
    Memory(String),
    /// A thread could not be started.
    #[error("cannot start a thread of the device: {0}")]
    Thread(#[source] std::io::Error),
}
