//! The bare-metal guest as a file: of the packed guest in use, or of the cache.

use std::path::PathBuf;

use super::cache::{Cache, CacheError};
use super::packed::{self, PackedError};
use super::parts::{AbsentPart, Parts, publish};

/// Why the guest could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BareMetalError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The packed guest in use lacks it.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// This binary lacks it.
    #[error(transparent)]
    Absent(#[from] AbsentPart),
}

/// Puts the guest into the cache, or finds it there or in the packed guest in use.
///
/// # Errors
///
/// The packed guest in use or this binary lacks it, or the cache cannot be written.
pub fn obtain(cache: &Cache, parts: &Parts) -> Result<PathBuf, BareMetalError> {
    if let Some(kernel) = packed::bare_metal() {
        return Ok(kernel?);
    }
    Ok(publish(cache, "bare-metal", parts.bare_metal.content("the bare-metal guest")?)?)
}
