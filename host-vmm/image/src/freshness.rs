//! Freshness of artifacts.

/// Choice between the cached artifact and a question to the archive for a newer one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Use the cache, without touching the network, when it has the artifact.
    Cached,
    /// Ask the archive; keep the cached artifact when nothing newer is there.
    Update,
}
