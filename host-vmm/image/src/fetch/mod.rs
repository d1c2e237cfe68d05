//! Debian packages without root: a private apt state, downloads by name, unpacking with `dpkg-deb -x`.
//!
//! apt itself resolves names, verifies the archive's signatures and checks every hash; nothing of it touches the
//! machine's own package state. The archive's address comes from the machine's apt configuration, or from
//! `BELFRY_DEBIAN_MIRROR` (`BELFRY_UBUNTU_MIRROR`) on a machine of another distribution.

mod apt;
mod command;
mod error;
mod mirror;
mod package;
mod release;
mod unpack;

pub use apt::{Apt, Archive};
pub(crate) use command::run_command;
pub use error::FetchError;
pub use mirror::find_mirror;
pub use package::{Package, closure_hash, recipe_hash, sha256_file};
pub use release::{BACKPORTS, Distribution, KEYRING, Release, TRIXIE};
pub use unpack::{scripts, unpack};
