//! Results of accesses to the device, as values.

/// Result of an access to a BAR.
pub type IoResult = Result<(), IoError>;

/// Reasons why a BAR access did not happen; reads then yield zeros, never all ones, which drivers take for a
/// dead device.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum IoError {
    /// The device has no such BAR.
    #[error("there is no BAR {0}")]
    NoSuchBar(u8),
    /// The access starts or ends outside of the BAR.
    #[error("access of {len} bytes at {offset:#x} leaves BAR {bar}")]
    OutOfRange {
        /// The BAR.
        bar: u8,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
    /// Registers and doorbells take naturally aligned accesses of 4 or 8 bytes (and registers narrower reads).
    #[error("access of {len} bytes at {offset:#x} in BAR {bar} has an unsupported width or alignment")]
    Unsupported {
        /// The BAR.
        bar: u8,
        /// First byte.
        offset: u64,
        /// Bytes.
        len: usize,
    },
}
