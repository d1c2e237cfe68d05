//! A guest, ready to boot: kernel, modules in load order, initramfs.

use std::fs;
use std::path::PathBuf;

use super::artifacts::Kernel;
use super::cache::{CacheError, io_error};
use super::cpio::Archive;
use super::module_files::ModuleFile;
use super::programs::Programs;

/// Directory of the initramfs that has the bundled examples.
pub const EXAMPLES: &str = "/bin/belfry-examples";

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
    pub fn initramfs(&self) -> Result<Vec<u8>, CacheError> {
        let read = |path: &PathBuf| fs::read(path).map_err(io_error("read", path));
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
