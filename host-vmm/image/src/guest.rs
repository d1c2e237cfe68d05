//! A guest, ready to boot: kernel, modules in load order, initramfs.

use std::fs;
use std::path::PathBuf;

use super::artifacts::{self, Kernel};
use super::cache::{Cache, CacheError, io_error};
use super::cpio::Archive;
use super::fetch::FetchError;
use super::freshness::Freshness;
use super::module::{self, ModuleError, ModuleInputs};
use super::module_files::{ModuleFile, ModuleFileError, load_order, stock_modules};
use super::packed::{self, PackedError};
use super::parts::{AbsentPart, Parts};
use super::programs::{self, Programs};
use super::progress::Progress;
use super::rootfs;

/// Directory of the initramfs that has the bundled examples.
pub const EXAMPLES: &str = "/bin/belfry-examples";

/// Modules of the stock kernel for folders of the host, over 9p.
const SHARE_MODULES: [&str; 2] = ["9pnet_virtio", "9p"];

/// Modules of the stock kernel for network cards.
const NETWORK_MODULES: [&str; 1] = ["virtio_net"];

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
    /// The packed guest in use is none.
    #[error(transparent)]
    Packed(#[from] PackedError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// One more file of an initramfs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitramfsFile {
    /// Absolute path in the guest.
    pub guest: String,
    /// Permission bits.
    pub mode: u32,
    /// File on this machine that has its content.
    pub host: PathBuf,
}

/// Everything a boot needs.
#[derive(Debug, Clone)]
pub struct GuestImage {
    /// The stock kernel.
    pub kernel: Kernel,
    /// Drivers of disks, and the GPU's with the modules it needs, in load order; the GPU's is the last.
    pub modules: Vec<ModuleFile>,
    /// The guest's own programs.
    pub programs: Programs,
    /// Other files of the initramfs.
    pub files: Vec<InitramfsFile>,
}

impl GuestImage {
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
    ) -> Result<Self, ImageError> {
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
        Ok(Self { kernel, modules, programs, files: Vec::new() })
    }

    /// Adds the modules that a root file system on a disk needs ([`rootfs::Root`]), shared folders and the network.
    ///
    /// # Errors
    ///
    /// A packed guest that does not have them; modules that cannot be read.
    pub fn with_root(mut self, cache: &Cache) -> Result<Self, ImageError> {
        let names = [&rootfs::DISK_MODULES[..], &SHARE_MODULES, &NETWORK_MODULES].concat();
        if packed::directory().is_some() {
            let there = |name: &&str| self.modules.iter().any(|module| module.name == **name);
            return if names.iter().all(there) { Ok(self) } else { Err(ImageError::PackedRoot) };
        }
        let needed = stock_modules(cache, &self.kernel, &names)?;
        let there = |name: &str| self.modules.iter().any(|module| module.name == name);
        // The GPU's driver stays the last.
        let mut modules: Vec<_> = needed.into_iter().filter(|module| !there(&module.name)).collect();
        modules.append(&mut self.modules);
        Ok(Self { modules, ..self })
    }

    /// Paths of the modules in the guest, in load order.
    #[must_use]
    pub fn guest_modules(&self) -> Vec<String> {
        self.modules.iter().map(|module| format!("/lib/modules/{}.ko", module.name)).collect()
    }

    /// The initramfs: init, the examples and the modules.
    ///
    /// # Errors
    ///
    /// A file that cannot be read.
    pub fn initramfs(&self) -> Result<Vec<u8>, ImageError> {
        let read = |path: &PathBuf| fs::read(path).map_err(io_error("read", path)).map_err(ImageError::from);
        let mut archive = Archive::new();
        archive.file("/init", 0o755, &read(&self.programs.init)?);
        archive.file(EXAMPLES, 0o755, &read(&self.programs.examples)?);
        archive.file("/lib/modules/boot.list", 0o644, b"");
        for (module, path) in self.modules.iter().zip(self.guest_modules()) {
            archive.file(&path, 0o644, &read(&module.path)?);
        }
        for file in &self.files {
            archive.file(&file.guest, file.mode, &read(&file.host)?);
        }
        archive.directory("/root");
        Ok(archive.finish())
    }
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
