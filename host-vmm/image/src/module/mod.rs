//! Builds `amdgpu.ko`: the driver core as one Rust object, the C shim around it, linked by the kernel's own kbuild.
//!
//! The Rust half ([`core_object`]) is compiled for the bare target with the kernel's mitigation flags, `core` and `alloc`
//! included (the prebuilt ones lack the flags), checked by [`gate`], and handed to kbuild as an object that refers to nothing
//! of the kernel but the shim. It depends on no version of the kernel: it is compiled when belfry is, and travels in the
//! binary. [`build`] then needs neither Rust nor Belfry's sources. Nothing here knows the VMM: inputs are paths and bytes,
//! progress is a closure.

pub mod core_object;
pub mod gate;
mod identity;
mod kbuild;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use sha2::{Digest as _, Sha256};

use crate::cache::{mark_used, remove_unused};

pub use gate::{GateError, Violation};

/// Raised when the way the module is built changes in a way the hashed inputs do not show.
const RECIPE: u32 = 1;

/// Inputs of a module's build.
#[derive(Debug, Clone)]
pub struct ModuleInputs {
    /// Kernel release string, `6.12.107+deb13-amd64` for example.
    pub release: String,
    /// Root of the unpacked header packages: `usr/src/linux-headers-*` and `usr/lib/linux-kbuild-*`.
    pub headers: PathBuf,
    /// Root of the libraries kbuild's programs run with: `usr/lib/x86_64-linux-gnu` with loader and C library.
    pub kbuild_libs: PathBuf,
    /// The driver core, as [`core_object::compile`] gives it.
    pub core: &'static [u8],
    /// Names and contents of the shim's files.
    pub shim: &'static [(&'static str, &'static [u8])],
    /// Directory for results and intermediate files.
    pub cache: PathBuf,
}

/// Errors of building the module.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// A program the build needs is not there.
    #[error("building the kernel module needs `{program}`, which does not run here; {fix}")]
    MissingTool {
        /// Program that was tried.
        program: &'static str,
        /// Way to mend it.
        fix: &'static str,
    },
    /// The compiler is not the one the library sources belong to.
    #[error(
        "building the kernel module needs rustc {wanted}, and `rustc --version` says `{found}`; `rustup toolchain \
         install {wanted}` and build from within the source tree, which selects it"
    )]
    WrongRustc {
        /// The version of the library sources.
        wanted: &'static str,
        /// Version that the compiler reports.
        found: String,
    },
    /// An input directory whose content is not as expected.
    #[error("{what} not found below {path}")]
    MissingInput {
        /// Input that was looked for.
        what: String,
        /// Path at which it was looked for.
        path: PathBuf,
    },
    /// The kernel's Makefiles take no such path.
    #[error(
        "the kernel's Makefiles cannot work below {path}: choose a cache directory without blanks or colons"
    )]
    CachePath {
        /// The directory.
        path: PathBuf,
    },
    /// A file could not be used.
    #[error("{action} {path}: {source}")]
    Io {
        /// Action that failed.
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A step of the build failed.
    #[error("{step} failed ({status}):\n{output}")]
    Step {
        /// Name of the step.
        step: &'static str,
        /// Exit status of the program.
        status: String,
        /// The last lines it wrote.
        output: String,
    },
    /// An object does not meet the kernel's rules.
    #[error(transparent)]
    Gate(#[from] GateError),
}

/// Builds the module, or returns the one in the cache when nothing it is made of has changed.
///
/// `progress` is told one line per step. Two processes may call this at once: the second waits.
///
/// # Errors
///
/// [`ModuleError`]; a missing tool is named together with its fix.
pub fn build(inputs: &ModuleInputs, progress: &dyn Fn(&str)) -> Result<PathBuf, ModuleError> {
    let directory = inputs.cache.join("module");
    create_dir(&directory)?;
    let identity = identity::identity(inputs)?;
    let module = directory.join(format!("amdgpu-{}-{}.ko", inputs.release, &identity[..16]));
    if module.is_file() {
        mark_used(&module);
        return Ok(module);
    }

    let lock_path = directory.join("lock");
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(io_error("open", &lock_path))?;
    lock.lock().map_err(io_error("lock", &lock_path))?;
    if module.is_file() {
        mark_used(&module);
        return Ok(module);
    }

    if directory.to_string_lossy().contains(|c: char| c.is_whitespace() || c == ':') {
        return Err(ModuleError::CachePath { path: directory });
    }
    kbuild::check_tools()?;
    progress("linking amdgpu.ko");
    let linked = kbuild::link(inputs, &directory)?;
    gate::check_module(&linked)?;
    strip(&linked)?;

    remove_unused(&directory, "amdgpu-");
    fs::rename(&linked, &module).map_err(io_error("rename", &linked))?;
    Ok(module)
}

/// Drops debug sections: most of the file, and no use to the loader.
pub(crate) fn strip(module: &Path) -> Result<(), ModuleError> {
    run("objcopy", Command::new("objcopy").arg("--strip-debug").arg(module)).map(drop)
}

/// Keeps the settings of a `make` or a build that surrounds this process away from the kernel's, which answers in English.
pub(crate) fn leave_outer_make(command: &mut Command) {
    for name in ["MAKEFLAGS", "MFLAGS", "MAKELEVEL", "ARCH", "CROSS_COMPILE", "KCFLAGS", "LLVM", "CC", "LD"] {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C");
}

/// Runs a step and returns its output, stderr after stdout.
pub(crate) fn run(step: &'static str, command: &mut Command) -> Result<String, ModuleError> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| ModuleError::Step {
        step,
        status: error.to_string(),
        output: format!("{command:?}"),
    })?;
    let text = text_of(&output);
    if output.status.success() {
        return Ok(text);
    }
    Err(ModuleError::Step { step, status: output.status.to_string(), output: last_lines(&text, 60) })
}

fn text_of(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Fails with the fix when `program --version` does not run.
pub(crate) fn need_tool(program: &'static str, fix: &'static str) -> Result<(), ModuleError> {
    match Command::new(program).arg("--version").stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => Ok(()),
        _ => Err(ModuleError::MissingTool { program, fix }),
    }
}

/// Removes the entries of `directory` whose names start with `prefix`: leftovers of an earlier build.
pub(crate) fn remove_starting_with(directory: &Path, prefix: &str) -> Result<(), ModuleError> {
    for old in fs::read_dir(directory).map_err(io_error("list", directory))?.flatten() {
        if old.file_name().to_string_lossy().starts_with(prefix) {
            let path = old.path();
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            removed.map_err(io_error("remove", &path))?;
        }
    }
    Ok(())
}

/// Returns 16 hexadecimal digits that stand for `texts`.
pub(crate) fn short_hash(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn create_dir(path: &Path) -> Result<(), ModuleError> {
    fs::create_dir_all(path).map_err(io_error("create", path))
}

/// Makes the closure that names the action and the path of an I/O error.
pub(crate) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ModuleError + use<'a> {
    move |source| ModuleError::Io { action, path: path.to_owned(), source }
}
