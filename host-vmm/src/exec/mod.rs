//! `belfry exec`: any program with a GPU, as an ordinary process.
//!
//! The program is started with a library that serves the nodes of the driver from within (`library.rs`), and finds
//! the driver's files in a prepared directory (`tree.rs`). With a root file system, it runs in user and mount
//! namespaces of its own (`namespace.rs`), without any rights that the user does not have.
#![expect(unsafe_code, reason = "starts programs in namespaces")]

pub mod absent;
mod again;
pub mod container;
mod library;
mod mesa;
mod namespace;
mod parameters;
mod pci;
mod report;
mod search;
mod settings;
mod tree;

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use belfry_device::chip::Model;
use belfry_device::profile::ProfileOptions;
use belfry_device::sanitize::SanitizeOptions;
use belfry_kfd_hosted::prepared::{
    DEBUGGABLE_VARIABLE, FAULTS_VARIABLE, INSPECT_VARIABLE, PROFILE_VARIABLE, Prepared, RECORD_VARIABLE,
    SANITIZE_VARIABLE, SETTINGS_FILE, SUMMARY_VARIABLE, TRACE_VARIABLE, TREE_VARIABLE, WAIT_VARIABLE, Wait,
};

pub use report::{ExecReport, ProcessReport, RecordOfProcess, Stdout};

use belfry_image::Cache;
use belfry_machine::Gpus;

use crate::gdb::GdbAddress;
use crate::inspect::{self, AskedOfProcess, InspectError, InspectOptions};

use self::search::search_path;

/// Errors before the program runs.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// A file or directory of the preparation.
    #[error("{action} {path}: {source}")]
    Io {
        /// Action that failed, as a verb.
        action: &'static str,
        /// File or directory of the action.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The binary was built without the library of programs.
    #[error(
        "this belfry carries no library for programs; `cargo clean --package belfry-preload`, then build it again"
    )]
    NoLibrary,
    /// The directory of the preparation is not this user's alone.
    #[error(
        "{0}: what is in it becomes part of programs; `chmod go-w` and `chown` it once its content is known to be yours, or set \
         BELFRY_CACHE to a folder of your own"
    )]
    Folder(#[from] belfry_code_folder::FolderError),
    /// The device that the files describe.
    #[error("cannot make the GPU whose files are to be prepared: {0}")]
    Gpu(#[from] belfry_kfd_hosted::Error),
    /// The settings cannot be written.
    #[error("cannot encode the settings: {0}")]
    Encode(#[from] serde_json::Error),
    /// The directory is no root file system.
    #[error("{0} is no root file system: it has no usr/lib; `belfry image --rootfs rocm` makes one")]
    NoRoot(PathBuf),
    /// Namespaces are not available.
    #[error(
        "{what}: {source}; a root file system needs user and mount namespaces: allow them \
         (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, a container's seccomp profile), \
         or install the packages where belfry runs and leave --root out"
    )]
    Namespace {
        /// Action that failed.
        what: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// The GPU cannot be looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// The request is larger than a process can be told.
    #[error(
        "breakpoints and paths of symbols have {0} bytes, and more than {MAX_ASKED} do not reach the program; name a folder"
    )]
    Asked(usize),
    /// The program is not there.
    #[error(
        "cannot start {program}: no directory of PATH has it; `--image {image}` runs programs in a root file system with ROCm, and \
         `belfry image --rootfs` lists all there are"
    )]
    Absent {
        /// The program.
        program: String,
        /// A root file system.
        image: String,
    },
    /// The program cannot be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why it failed.
        source: io::Error,
    },
}

impl ExecError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { action, path, source }
    }
}

/// A program, and the GPU that it runs on.
#[derive(Debug, Clone)]
pub struct ExecOptions {
    /// Chips, compute units, VRAM, workers and schedule of the devices in each process. Workers, schedule, tier and plan of faults are those
    /// of the first one.
    pub gpus: Gpus,
    /// The folder in which each process keeps compiled code, if it keeps any.
    pub code_folder: Option<PathBuf>,
    /// A root file system to run in.
    pub root: Option<PathBuf>,
    /// Mounts the GPU's files in their usual places, so that programs that do not load the library see them, too.
    pub namespace: bool,
    /// Directory in which each process that uses the GPU leaves its events.
    pub trace: Option<TraceTo>,
    /// The directory in which each process that uses the GPU leaves a record of it.
    pub record: Option<PathBuf>,
    /// Checks of kernels.
    pub sanitize: Option<SanitizeOptions>,
    /// Counts of kernels.
    pub profile: Option<ProfileOptions>,
    /// Options of the inspector for the GPU of each process.
    pub inspect: Option<InspectOptions>,
    /// The driver of each process is in a companion, so that a debugger may stop the program.
    pub debuggable: bool,
    /// Way in which threads wait for signals of ROCr.
    pub wait: Wait,
    /// The program and its arguments; without one, a shell.
    pub program: Vec<OsString>,
    /// Spelling of this request, if the record of this start may serve the next one.
    pub asked: Option<Asked>,
}

/// Place for the events of a trace.
#[derive(Debug, Clone)]
pub struct TraceTo {
    /// A directory, in which each process makes a file.
    pub directory: PathBuf,
    /// Size of such a file in bytes.
    pub size: usize,
}

/// Spelling of a start's request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Words of the command line between `exec` and `--`.
    pub options: Vec<OsString>,
    /// Text that was written to standard error.
    pub notice: String,
}

/// A program that is ready to start.
#[derive(Debug)]
struct Prepare {
    command: Command,
    program: String,
    /// File in which the started process describes an error of its namespaces: `spawn` returns the error's number
    /// alone.
    said: Option<File>,
    /// The GPU's chip, if the program is searched for in `PATH` on this machine.
    searched_for: Option<&'static Model>,
}

impl Prepare {
    /// Makes the error of a failed start, with the text that the process has left.
    fn failed(self, source: io::Error) -> ExecError {
        let Self { program, said, searched_for, .. } = self;
        if let Some(chip) = searched_for
            && source.kind() == io::ErrorKind::NotFound
            // Otherwise the interpreter of a script is missing.
            && !absent::is_in_path(OsStr::new(&program))
        {
            return ExecError::Absent { program, image: absent::image_for(chip) };
        }
        let mut text = String::new();
        if let Some(mut file) = said
            && file.rewind().is_ok()
            && file.read_to_string(&mut text).is_ok()
            && !text.is_empty()
        {
            return ExecError::Start { program, source: io::Error::other(text) };
        }
        ExecError::Start { program, source }
    }
}

impl ExecOptions {
    fn prepare(&self, summary: Option<&Path>) -> Result<Prepare, ExecError> {
        let directory = directory()?;
        let library = library::publish(&directory)?;
        let settings = self.settings()?;
        let tree = tree::publish(&directory, &settings)?;
        let shell = || {
            if self.root.is_some() {
                "/bin/sh".into()
            } else {
                std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into())
            }
        };
        let program = self.program.first().cloned().unwrap_or_else(shell);
        let mut command = Command::new(&program);
        command.args(self.program.iter().skip(1));
        let trace = self.trace.as_ref().map(|trace| trace.directory.clone());
        let inspect = self.inspect.as_ref().map(|_| inspect::folder()).transpose()?;
        let summary = summary.map(Path::to_path_buf);
        let record = self.record.as_deref().map(std::path::absolute).transpose();
        let record = record.map_err(ExecError::io("find", self.record.clone().unwrap_or_default()))?;
        let mut places = namespace::Places { tree, library, summary, trace, record, inspect };
        let mut said = None;
        if self.root.is_some() || self.namespace {
            let root = self.root.as_deref();
            let files = self.namespace.then_some(settings.paths.as_slice());
            let space = namespace::Namespace::new(&directory, root, files, &mut places)?;
            let file = tempfile::tempfile().map_err(ExecError::io("create in", std::env::temp_dir()))?;
            let place = file.try_clone().map_err(ExecError::io("copy", "a temporary file"))?;
            said = Some(file);
            let enter = move || {
                space.enter().inspect_err(|error| {
                    // Without this text, the error's number is reported.
                    let _ = write!(&place, "{error}");
                })
            };
            // SAFETY: between fork and exec of a process with one thread, which may do anything; if the process is
            // replaced without a fork, the same holds.
            unsafe { command.pre_exec(enter) };
        }
        let preload = match std::env::var_os("LD_PRELOAD") {
            Some(others) if !others.is_empty() => {
                let mut all = places.library.into_os_string();
                all.push(":");
                all.push(others);
                all
            }
            _ => {
                self.record(&directory, &places, &settings);
                places.library.into_os_string()
            }
        };
        command.env("LD_PRELOAD", preload).env(TREE_VARIABLE, &places.tree);
        if let Some(root) = &self.root {
            command.env("PATH", search_path(root, std::env::var_os("PATH").as_deref()));
            let drivers = mesa::drivers_of_rusticl(root, std::env::var_os(mesa::DRIVERS).as_deref());
            command.envs(drivers.map(|drivers| (mesa::DRIVERS, drivers)));
        }
        match &places.summary {
            Some(summary) => command.env(SUMMARY_VARIABLE, summary),
            None => command.env_remove(SUMMARY_VARIABLE),
        };
        match (&places.trace, &self.trace) {
            (Some(directory), Some(trace)) => {
                let mut value = OsString::from(format!("{}:", trace.size));
                value.push(directory);
                command.env(TRACE_VARIABLE, value)
            }
            _ => command.env_remove(TRACE_VARIABLE),
        };
        match &places.record {
            Some(directory) => command.env(RECORD_VARIABLE, directory),
            None => command.env_remove(RECORD_VARIABLE),
        };
        match &self.sanitize {
            Some(sanitize) => command.env(SANITIZE_VARIABLE, serde_json::to_string(sanitize)?),
            None => command.env_remove(SANITIZE_VARIABLE),
        };
        match &self.profile {
            Some(profile) => command.env(PROFILE_VARIABLE, serde_json::to_string(profile)?),
            None => command.env_remove(PROFILE_VARIABLE),
        };
        let first = &self.gpus.first;
        if first.faults.is_off() {
            command.env_remove(FAULTS_VARIABLE);
        } else {
            command.env(FAULTS_VARIABLE, first.faults.to_string());
        }
        match (places.inspect, &self.inspect) {
            (Some(folder), Some(options)) => {
                command.env(INSPECT_VARIABLE, asked_of_process(folder, options)?)
            }
            _ => command.env_remove(INSPECT_VARIABLE),
        };
        if self.debuggable {
            command.env(DEBUGGABLE_VARIABLE, "1");
        } else {
            command.env_remove(DEBUGGABLE_VARIABLE);
        }
        match self.wait {
            Wait::Auto => command.env_remove(WAIT_VARIABLE),
            wait => command.env(WAIT_VARIABLE, wait.name()),
        };
        let is_searched_for = self.root.is_none() && absent::is_searched_for(&program);
        let searched_for = is_searched_for.then_some(first.chip);
        let program = program.to_string_lossy().into_owned();
        Ok(Prepare { command, program, said, searched_for })
    }

    /// Leaves a record of the findings of this start, if the next start can use it.
    fn record(&self, directory: &Path, places: &namespace::Places, settings: &Prepared) {
        let Some(Asked { options, notice }) = &self.asked else { return };
        if self.root.is_some()
            || self.namespace
            || places.summary.is_some()
            || places.trace.is_some()
            || places.record.is_some()
            || places.inspect.is_some()
            || self.debuggable
            || self.wait != Wait::Auto
        {
            return;
        }
        let present = places.tree.join(SETTINGS_FILE);
        let again = again::Again {
            options,
            notice,
            present: &[&present, &places.library],
            absent: &tree::signs_of_buses(settings),
            variables: &[
                ("LD_PRELOAD", places.library.as_os_str()),
                (TREE_VARIABLE, places.tree.as_os_str()),
            ],
            without: &[
                SUMMARY_VARIABLE,
                TRACE_VARIABLE,
                RECORD_VARIABLE,
                SANITIZE_VARIABLE,
                PROFILE_VARIABLE,
                FAULTS_VARIABLE,
                INSPECT_VARIABLE,
                DEBUGGABLE_VARIABLE,
                WAIT_VARIABLE,
            ],
        };
        again.write(directory);
    }
}

/// Most bytes of inspector options that a process can be given.
const MAX_ASKED: usize = 4000;

/// Encodes the inspector options for a process.
fn asked_of_process(folder: PathBuf, options: &InspectOptions) -> Result<String, ExecError> {
    // The program may be in another directory by the time it opens the GPU.
    let whole = |path: &PathBuf| std::path::absolute(path).map_err(ExecError::io("find", path));
    let symbols = options.symbols.iter().map(whole).collect::<Result<_, ExecError>>()?;
    let gdb = match &options.gdb {
        Some(GdbAddress::Unix(path)) => Some(GdbAddress::Unix(whole(path)?)),
        other => other.clone(),
    };
    let options = InspectOptions { symbols, gdb, ..options.clone() };
    let asked = serde_json::to_string(&AskedOfProcess { folder, options })?;
    if asked.len() > MAX_ASKED { Err(ExecError::Asked(asked.len())) } else { Ok(asked) }
}

/// Replaces this process by the program; returns only when that fails.
pub fn replace(options: &ExecOptions) -> ExecError {
    match options.prepare(None) {
        Ok(mut prepared) => {
            let source = prepared.command.exec();
            prepared.failed(source)
        }
        Err(error) => error,
    }
}

/// Returns no error if programs can have namespaces of their own; a process that does nothing else tries it.
///
/// # Errors
///
/// The kernel's refusal.
pub fn namespaces() -> io::Result<()> {
    let mut command = Command::new("/bin/true");
    // SAFETY: between fork and exec; makes system calls and nothing else.
    unsafe { command.pre_exec(namespace::try_unshare) };
    command.status().map(|_| ())
}

/// Returns true if this user may have a userfaultfd for faults of its own programs.
#[must_use]
pub fn userfault() -> bool {
    const USER_MODE_ONLY: libc::c_int = 1;
    // SAFETY: makes a descriptor, which is closed below.
    let fd = unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | USER_MODE_ONLY) };
    if fd >= 0 {
        // SAFETY: the descriptor is this function's own.
        unsafe { libc::close(fd as libc::c_int) };
    }
    fd >= 0
}

/// Runs the program and reports its end.
///
/// # Errors
///
/// The program, the library or the cache cannot be used, the options contradict each other, or the program
/// cannot be started. A program that fails is a report.
pub fn run(options: &ExecOptions, stdout: Stdout) -> Result<ExecReport, ExecError> {
    report::run(options, stdout)
}

/// Runs the program with its own output, and returns its exit status: 128 + the signal's number for a killed one.
///
/// # Errors
///
/// As for [`run`].
pub fn wait(options: &ExecOptions) -> Result<i32, ExecError> {
    report::wait(options)
}

/// Returns the directory of the library and the files: the cache, or the temporary directory if there is no cache.
fn directory() -> Result<PathBuf, ExecError> {
    let cached = Cache::open().ok().map(|cache| cache.root().join("exec"));
    let make = |path: &Path| DirBuilder::new().recursive(true).mode(0o755).create(path);
    if let Some(path) = cached
        && make(&path).is_ok()
        && rustix::fs::access(&path, rustix::fs::Access::WRITE_OK).is_ok()
    {
        belfry_code_folder::check(&path)?;
        return Ok(path);
    }
    let own = format!("belfry-exec-{}", rustix::process::geteuid().as_raw());
    let path = std::env::temp_dir().join(own);
    make(&path).map_err(ExecError::io("create", &path))?;
    belfry_code_folder::check(&path)?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_others_may_write_to_is_refused_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let error = ExecError::from(belfry_code_folder::check(folder.path()).unwrap_err()).to_string();
        assert!(error.contains("may be written to by others: its mode is 777"), "{error}");
        assert!(error.contains("BELFRY_CACHE"), "{error}");
    }
}
