//! The guest's own programs as files of the cache: its init and the bundled examples.

use std::path::PathBuf;

use super::cache::{Cache, CacheError};
use super::parts::{Parts, publish};

/// The binaries.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The guest's first process.
    pub init: PathBuf,
    /// All bundled examples in one binary.
    pub examples: PathBuf,
}

/// Puts the programs into the cache, or finds them there.
pub(super) fn obtain(cache: &Cache, parts: &Parts) -> Result<Programs, CacheError> {
    Ok(Programs {
        init: publish(cache, "init", parts.init)?,
        examples: publish(cache, "examples", parts.examples)?,
    })
}
