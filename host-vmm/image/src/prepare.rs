//! A guest put together from packages, from the driver that is built for its kernel, and from this binary's parts.

use std::path::PathBuf;

use super::artifacts::{self, Kernel};
use super::cache::{Cache, CacheError};
use super::fetch::FetchError;
use super::firmware;
use super::freshness::Freshness;
use super::guest::{GuestImage, InitramfsFile};
use super::module::{self, ModuleError, ModuleInputs};
use super::module_files::{ModuleFile, ModuleFileError, load_order, stock_modules};
use super::packed::{self, PackedError};
use super::parts::{self, AbsentPart, Parts};
use super::programs;
use super::progress::Progress;
use super::rootfs;

/// Modules of the stock kernel for folders of the host, over 9p.
const SHARE_MODULES: [&str; 2] = ["9pnet_virtio", "9p"];

/// Modules of the stock kernel for network cards.
const NETWORK_MODULES: [&str; 1] = ["virtio_net"];

/// Directory of an initramfs in which the kernel looks for firmware.
const FIRMWARE: &str = "/lib/firmware";

/// Why a guest could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// Packages could not be had.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// The kernel module could not be built.
    #[error(transparent)]
    Module(#[from] ModuleError),
    /// Modules of the stock kernel could not be read.
    #[error(transparent)]
    ModuleFile(#[from] ModuleFileError),
    /// This binary lacks the driver.
    #[error(transparent)]
    Absent(#[from] AbsentPart),
    /// The packed guest in use has nothing for a root file system.
    #[error("{variable} names a packed guest, which has no modules for disks with a root file system; unset it", variable = packed::VARIABLE)]
    PackedRoot,
    /// The packed guest in use has a driver already.
    #[error("{variable} names a packed guest, which has Belfry's driver; unset it for the kernel's own", variable = packed::VARIABLE)]
    PackedDriver,
    /// The packed guest in use is none.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// Fetches, builds and caches the parts that are not there yet; opens the packed guest if one is named.
///
/// # Errors
///
/// Parts that cannot be fetched, built or read; a packed guest that is none.
pub fn prepare(
    cache: &Cache,
    parts: &Parts,
    freshness: Freshness,
    progress: &Progress,
) -> Result<GuestImage, ImageError> {
    if let Some(directory) = packed::directory() {
        return Ok(packed::open(&directory)?);
    }
    let kernel = artifacts::kernel(cache, freshness, progress)?;
    let programs = programs::obtain(cache, parts)?;
    let driver = driver(cache, parts, &kernel, freshness, progress)?;
    let disks = stock_modules(cache, &kernel, &["virtio_blk"])?;
    let mut roots: Vec<PathBuf> = disks.into_iter().map(|module| module.path).collect();
    roots.push(driver);
    let modules = load_order(cache, &kernel, &roots)?;
    Ok(GuestImage { kernel, modules, programs, files: Vec::new() })
}

/// As [`prepare`], with the kernel's own driver instead of Belfry's, and with its firmware files ([`firmware::stubs`]).
///
/// # Errors
///
/// Parts that cannot be fetched or read; a packed guest.
pub fn prepare_stock(
    cache: &Cache,
    parts: &Parts,
    freshness: Freshness,
    progress: &Progress,
) -> Result<GuestImage, ImageError> {
    if packed::directory().is_some() {
        return Err(ImageError::PackedDriver);
    }
    let kernel = artifacts::kernel(cache, freshness, progress)?;
    let programs = programs::obtain(cache, parts)?;
    let modules = stock_modules(cache, &kernel, &["virtio_blk", "amdgpu"])?;
    let files = firmware::stubs().into_iter().map(|stub| {
        let name = format!("firmware-{}", stub.name.replace('/', "-"));
        let host = parts::publish(cache, &name, &stub.content)?;
        Ok(InitramfsFile { guest: format!("{FIRMWARE}/{}", stub.name), mode: 0o644, host })
    });
    let files = files.collect::<Result<_, CacheError>>()?;
    Ok(GuestImage { kernel, modules, programs, files })
}

/// Adds the modules that a root file system on a disk needs ([`rootfs::Root`]), shared folders and the network.
///
/// # Errors
///
/// A packed guest that does not have them; modules that cannot be read.
pub fn with_root(mut image: GuestImage, cache: &Cache) -> Result<GuestImage, ImageError> {
    let names = [&rootfs::DISK_MODULES[..], &SHARE_MODULES, &NETWORK_MODULES].concat();
    if packed::directory().is_some() {
        let there = |name: &&str| image.modules.iter().any(|module| module.name == **name);
        return if names.iter().all(there) { Ok(image) } else { Err(ImageError::PackedRoot) };
    }
    let needed = stock_modules(cache, &image.kernel, &names)?;
    image.modules = together(needed, image.modules);
    Ok(image)
}

/// Returns modules in an order in which they load, of two lists in such an order: the second one's last stays the last. What both
/// have, the first one's modules may need.
fn together(first: Vec<ModuleFile>, second: Vec<ModuleFile>) -> Vec<ModuleFile> {
    let rest: Vec<_> = second.into_iter().filter(|module| !first.contains(module)).collect();
    [first, rest].concat()
}

/// Builds `amdgpu.ko` for `kernel`, or finds it in the cache.
fn driver(
    cache: &Cache,
    parts: &Parts,
    kernel: &Kernel,
    freshness: Freshness,
    progress: &Progress,
) -> Result<PathBuf, ImageError> {
    let core = parts.driver.core.content("the guest's driver")?;
    let headers = artifacts::kernel_headers(cache, kernel, freshness, progress)?;
    let inputs = ModuleInputs {
        release: kernel.release.clone(),
        kbuild_libs: headers.root.clone(),
        headers: headers.root,
        core,
        shim: parts.driver.shim,
        cache: cache.root().to_owned(),
    };
    let step = progress.spinner("building the kernel module");
    let module = module::build(&inputs, &|text| progress.line(text))?;
    step.done("up to date");
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_that_both_lists_have_comes_before_all_that_need_it() {
        let list = |names: &[&str]| -> Vec<ModuleFile> {
            let file = |name: &&str| ModuleFile { name: (*name).into(), path: format!("{name}.ko").into() };
            names.iter().map(file).collect()
        };
        // Of Debian 13: both ext4 and amdgpu need crc16.
        let both =
            together(list(&["virtio_blk", "crc16", "ext4"]), list(&["virtio_blk", "drm", "crc16", "amdgpu"]));
        assert_eq!(both, list(&["virtio_blk", "crc16", "ext4", "drm", "amdgpu"]));
    }
}
