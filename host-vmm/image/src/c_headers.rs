//! The C headers the ABI layouts are checked against: the kernel's user headers, HSA's, and the kernel's own.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cache::Cache;
use super::fetch::{Apt, FetchError};
use super::freshness::Freshness;
use super::obtain::obtain;
use super::progress::Progress;

/// The kernel series whose own headers are checked; the guest's kernel is of this series.
const SERIES: &str = "6.12";
/// Directory in which the kernel keeps amdgpu's register and structure headers.
const AMD_INCLUDE: &str = "drivers/gpu/drm/amd/include";
/// Directories in which it keeps the headers of its drivers: packets, page tables, doorbells.
const AMD_DRIVERS: [&str; 2] = ["drivers/gpu/drm/amd/amdgpu", "drivers/gpu/drm/amd/amdkfd"];

/// The user-visible headers.
#[derive(Debug, Clone)]
pub struct UserHeaders {
    /// Directory that holds `linux/kfd_ioctl.h` and `drm/amdgpu_drm.h`.
    pub linux: PathBuf,
    /// Directory that holds `hsa/hsa.h`.
    pub hsa: PathBuf,
}

/// Fetches the newest kernel user headers Debian 13 offers (backports included) and HSA's.
///
/// # Errors
///
/// No archive is known, apt or dpkg is missing or fails, a package is not in the release or has the wrong
/// hash, or the cache cannot be written.
pub fn user_headers(
    cache: &Cache,
    freshness: Freshness,
    progress: &Progress,
) -> Result<UserHeaders, FetchError> {
    let choose = |apt: &Apt| {
        let mut packages = vec![apt.with_prefix("linux-libc-dev", "7.")?];
        packages.extend(apt.exact(&["libhsa-runtime-dev"])?);
        Ok((packages, BTreeMap::new()))
    };
    let (root, _) = obtain(cache, "c-headers", freshness, progress, &choose, &|_| Ok(()))?;
    let include = root.join("usr/include");
    Ok(UserHeaders { linux: include.clone(), hsa: include })
}

/// Fetches the guest kernel's source package and keeps amdgpu's headers of it; returns their directory.
///
/// # Errors
///
/// No archive is known, apt or dpkg is missing or fails, a package is not in the release or has the wrong
/// hash, or the cache cannot be written. The source archive cannot be unpacked.
pub fn kernel_headers_of_amdgpu(
    cache: &Cache,
    freshness: Freshness,
    progress: &Progress,
) -> Result<PathBuf, FetchError> {
    let choose = |apt: &Apt| Ok((apt.exact(&[&format!("linux-source-{SERIES}")])?, BTreeMap::new()));
    let (root, _) = obtain(cache, "linux-source-amd", freshness, progress, &choose, &keep_amd_headers)?;
    Ok(root.join(format!("linux-source-{SERIES}")).join(AMD_INCLUDE))
}

/// Takes the headers out of the source archive and drops the rest, some 1.5 GB.
fn keep_amd_headers(root: &Path) -> Result<(), FetchError> {
    let archive = root.join(format!("usr/src/linux-source-{SERIES}.tar.xz"));
    let command = || format!("tar -xf {}", archive.display());
    let parts = [AMD_INCLUDE].into_iter().chain(AMD_DRIVERS);
    let output = Command::new("tar")
        .arg("-C")
        .arg(root)
        .arg("-xf")
        .arg(&archive)
        .args(parts.map(|part| format!("linux-source-{SERIES}/{part}")))
        .output()
        .map_err(|_| FetchError::Missing { program: "tar".into(), package: "tar and xz-utils" })?;
    if !output.status.success() {
        return Err(FetchError::Command {
            command: command(),
            status: output.status.to_string(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        });
    }
    let _ = std::fs::remove_dir_all(root.join("usr"));
    Ok(())
}
