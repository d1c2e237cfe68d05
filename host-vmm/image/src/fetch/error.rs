//! Errors of fetching packages.

use std::path::PathBuf;

use crate::cache::CacheError;

/// Errors of fetching packages.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// A program this needs is not installed.
    #[error("{program} is not installed; install the package {package}")]
    Missing {
        /// The program that could not be started.
        program: String,
        /// The Debian package that holds it.
        package: &'static str,
    },
    /// The archive's keys are not on this machine, so nothing could be verified.
    #[error("{path} is missing; install the package {package} (packages are never taken unverified)")]
    NoKeyring {
        /// Path at which the keys are expected.
        path: PathBuf,
        /// The package that holds them.
        package: &'static str,
    },
    /// The machine's apt configuration names no archive of the distribution.
    #[error(
        "no {distribution} archive in this machine's apt configuration; set {variable} to the URI of one"
    )]
    NoMirror {
        /// Distribution whose archive is wanted.
        distribution: &'static str,
        /// The environment variable that names one.
        variable: &'static str,
    },
    /// The archive could not be reached, or its content was refused.
    #[error(
        "packages of {release} cannot be fetched from {mirror} ({reason}); check the network and the mirror, which is \
         the one in this machine's apt configuration unless {variable} names another, or set BELFRY_CACHE to a \
         cache directory filled on another machine"
    )]
    Archive {
        /// The release.
        release: String,
        /// URI of the archive, without credentials.
        mirror: String,
        /// Message of apt.
        reason: String,
        /// The environment variable that names another archive.
        variable: &'static str,
    },
    /// apt or dpkg failed.
    #[error("{command} failed ({status}): {stderr}")]
    Command {
        /// The command's name and verb.
        command: String,
        /// Its exit status.
        status: String,
        /// The last lines it wrote to stderr.
        stderr: String,
    },
    /// The disk of the cache has no room for the packages, or for their files.
    #[error(
        "{command}: no space is left on the disk of the cache; free some (`belfry image prune --list` shows what can go), or set \
         BELFRY_CACHE to a directory on another disk"
    )]
    DiskFull {
        /// The command's name and verb.
        command: String,
    },
    /// A package does not exist in the release, or not in the version asked for.
    #[error("package {0} is not in the Debian archive")]
    NoPackage(String),
    /// apt's answer could not be read.
    #[error("cannot read apt's answer: {0}")]
    Parse(String),
    /// A downloaded file is not the one the signed index names.
    #[error("{file}: SHA-256 is {actual}, the archive's index says {expected}")]
    Hash {
        /// The file concerned.
        file: String,
        /// Hash from the signed index.
        expected: String,
        /// Hash of the file.
        actual: String,
    },
}
