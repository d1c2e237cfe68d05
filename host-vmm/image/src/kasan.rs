//! A guest whose kernel looks for misuse of memory and of locks: Debian's source with KASAN and lockdep. The driver's
//! own accesses are checked as well, the Rust half's included.
//!
//! Debian's kernels have neither. The kernel is built once per source and configuration (`kasan.config`); that takes from
//! twenty minutes to an hour on two processors. The driver is built each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::artifacts::Kernel;
use crate::cache::Cache;
use crate::fetch::Apt;
use crate::freshness::Freshness;
use crate::guest::GuestImage;
use crate::module::core_object::{self, CoreInputs};
use crate::module::{
    ModuleError, create_dir, io_error, leave_outer_make, need_tool, remove_starting_with, run, short_hash,
    strip,
};
use crate::module_files::ModuleFile;
use crate::obtain::obtain;
use crate::parts::Parts;
use crate::prepare::ImageError;
use crate::programs;
use crate::progress::Progress;

/// The series of the guest's stock kernel.
const SERIES: &str = "6.12";
const CONFIG: &str = include_str!("kasan.config");
const FIX: &str =
    "install what a kernel is built with (Debian: apt install gcc make flex bison bc libelf-dev)";

/// Puts the guest together, after building its missing parts; the driver core is compiled from `sources`.
///
/// # Errors
///
/// Packages that cannot be had, programs that are missing, with the fix, and steps that fail, with their output.
pub fn guest(
    cache: &Cache,
    sources: &CoreInputs,
    parts: &Parts,
    progress: &Progress,
) -> Result<GuestImage, ImageError> {
    let kernel = kernel(cache, progress)?;
    let step = progress.spinner("building the driver with its accesses checked");
    let core = core_object::compile(sources)?.object;
    let path = link(&kernel.modules, &core, parts, &sources.directory.join("module"))?;
    step.done("up to date");
    let modules = vec![ModuleFile { name: "amdgpu".to_owned(), path }];
    Ok(GuestImage { kernel, modules, programs: programs::obtain(cache, parts)?, files: Vec::new() })
}

/// The kernel, built on first use; `modules` is its tree.
fn kernel(cache: &Cache, progress: &Progress) -> Result<Kernel, ImageError> {
    let package = format!("linux-source-{SERIES}");
    let choose = |apt: &Apt| Ok((apt.exact(&[&package])?, [].into()));
    let (source, manifest) =
        obtain(cache, "kernel-source", Freshness::Cached, progress, &choose, &|_| Ok(()))?;
    let id = format!("kasan-kernel-{}", short_hash(&[&manifest.directory, CONFIG]));
    let tree = cache.root().join(&id);
    let _lock = cache.lock("kasan-kernel", || {
        progress.line("waiting for another process that is building a kernel with KASAN");
    })?;
    if !tree.is_dir() {
        for program in ["gcc", "make", "flex", "bison", "bc"] {
            need_tool(program, FIX)?;
        }
        if !Path::new("/usr/include/gelf.h").exists() {
            return Err(ModuleError::MissingTool { program: "libelf's headers", fix: FIX }.into());
        }
        remove_starting_with(cache.root(), "kasan-kernel-")?;
        let partial = cache.root().join(format!("{id}.partial"));
        create_dir(&partial)?;
        let archive = source.join(format!("usr/src/{package}.tar.xz"));
        let step = progress.spinner("building a kernel with KASAN, which takes up to an hour");
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&partial).arg("--strip-components=1").arg("-xf").arg(&archive);
        run("unpacking the kernel's source", &mut tar)?;
        build(&partial)?;
        step.done("built");
        fs::rename(&partial, &tree).map_err(io_error("rename", &partial))?;
    }
    let release = tree.join("include/config/kernel.release");
    let release = fs::read_to_string(&release).map_err(io_error("read", &release))?.trim().to_owned();
    Ok(Kernel { image: tree.join("arch/x86/boot/bzImage"), modules: tree, release, id })
}

/// Configures and builds the kernel, and keeps the part of the tree that modules are built with.
fn build(tree: &Path) -> Result<(), ModuleError> {
    let fragment = tree.join("arch/x86/configs/kasan.config");
    fs::write(&fragment, CONFIG).map_err(io_error("write", &fragment))?;
    run("configuring the kernel", make(tree).args(["x86_64_defconfig", "kvm_guest.config", "kasan.config"]))?;
    let config = tree.join(".config");
    let config = fs::read_to_string(&config).map_err(io_error("read", &config))?;
    if let Some(what) = unmet(&config) {
        return Err(ModuleError::MissingInput {
            what: format!("{what} in the configuration"),
            path: tree.to_owned(),
        });
    }
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    run("building the kernel", make(tree).arg(format!("-j{jobs}")).args(["bzImage", "modules"]))?;
    prune(tree)
}

/// The first option of `kasan.config` that a configuration lacks: options whose dependencies are missing are dropped
/// silently.
fn unmet(config: &str) -> Option<&'static str> {
    let wanted = CONFIG.lines().filter(|line| line.starts_with("CONFIG_"));
    let mut missing = wanted.filter(|line| !config.lines().any(|have| have == *line));
    missing.next()
}

/// `make` for a kernel's tree, without the settings of a build that surrounds it.
fn make(tree: &Path) -> Command {
    let mut command = Command::new("make");
    command.arg("-C").arg(tree).arg("-s");
    leave_outer_make(&mut command);
    command
}

/// Removes objects and archives, most of the tree.
fn prune(directory: &Path) -> Result<(), ModuleError> {
    for entry in fs::read_dir(directory).map_err(io_error("list", directory))?.flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            prune(&path)?;
        } else if [".o", ".a", ".cmd"].iter().any(|end| name.ends_with(end)) || name == "vmlinux" {
            fs::remove_file(&path).map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}

/// Links the C half, which the kernel's build instruments by itself, and the driver core into `amdgpu.ko`.
fn link(tree: &Path, core: &Path, parts: &Parts, work: &Path) -> Result<PathBuf, ModuleError> {
    let _ = fs::remove_dir_all(work);
    create_dir(work)?;
    for (name, content) in parts.driver.shim.iter().copied() {
        let path = work.join(name);
        fs::write(&path, content).map_err(io_error("write", &path))?;
    }
    fs::copy(core, work.join("core.rs.o")).map_err(io_error("copy", core))?;
    run("building the kernel module", make(tree).arg(format!("M={}", work.display())).arg("modules"))?;
    let module = work.join("amdgpu.ko");
    strip(&module)?;
    Ok(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_option_is_named() {
        assert_eq!(unmet(CONFIG), None);
        let without = CONFIG.replace("CONFIG_PROVE_LOCKING=y\n", "# CONFIG_PROVE_LOCKING is not set\n");
        assert_eq!(unmet(&without), Some("CONFIG_PROVE_LOCKING=y"));
    }
}
