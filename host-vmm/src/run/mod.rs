//! One program, run to its end in a guest or hosted, with everything it needs brought along.
//!
//! | part | file |
//! | --- | --- |
//! | the mode that fits, guests and their reports | `in_guest.rs` |
//! | a program with its files | `program.rs` |
//! | this process as the guest | `in_process.rs` |
//! | the summary | `report.rs` |
//! | the bare-metal guest, and runs from a snapshot | `on_machine.rs` |
//! | the GPU of a hosted program, from a snapshot | `alone.rs` |
//! | saving and resuming, and the runs that cannot | `snapshots.rs` |
//! | a guest with a program, from a snapshot | `resumed.rs` |
//! | snapshots of guests that have booted | `warm.rs` |
//! | a disk with a system of its own | `system.rs` |
//! | events of a guest's driver in a trace | `driver_trace.rs` |
//! | the kernel's own driver | `stock.rs` |

mod alone;
mod boot_loader;
mod driver_trace;
mod in_guest;
mod in_process;
mod on_machine;
mod program;
pub(crate) mod report;
mod resumed;
mod snapshots;
mod stock;
mod system;
mod warm;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use belfry_channel::path::{self, PathError};
use belfry_device::Gpu;
use belfry_guest::{GuestError, Share, Stream};
use belfry_image::rootfs::{Root, RootFsError};
use belfry_image::{Cache, CacheError, ImageError, Progress};
use belfry_machine::snapshot::SnapshotError;
use belfry_machine::{DiskConfig, Gpus, HugePages, KvmError};
use serde::Serialize;

use crate::doorbell::{Doorbell, NoSuchWay};
use crate::hosted::HostedError;
use crate::inspect::{self, InspectError, InspectOptions, Onlookers};
use crate::racy;
use crate::snapshot::SnapshotOptions;
use crate::suite::Suite;
pub(crate) use in_guest::ENVIRONMENT;
use in_guest::Job;
pub use report::{BootPhases, Doorbells, RunReport, Unmodelled};
pub use system::{Firmware, SystemError};

/// Directory of programs in a guest.
const PROGRAM_DIRECTORY: &str = "/root";

/// The program that runs when none is named.
pub const DEFAULT_PROGRAM: &str = "vector-add";

/// Place in which a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In a guest if one is available, hosted otherwise.
    #[default]
    Auto,
    /// In this process, over the hosted driver.
    Hosted,
    /// In a Debian guest under QEMU.
    Qemu,
    /// In a Debian guest on Belfry's own machine, over /dev/kvm.
    Kvm,
}

/// System that the machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum GuestKind {
    /// Debian's kernel with the driver, and a program.
    #[default]
    Debian,
    /// A kernel that drives the GPU by itself, in a fraction of a second; takes no program.
    BareMetal,
}

/// Driver of the GPU in a guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    /// Belfry's, built for the guest's kernel.
    #[default]
    Own,
    /// The kernel's own `amdgpu`, unmodified and without parameters; how far it gets is in docs/stock-driver.md.
    Stock,
}

/// Program of an interactive guest if none is named: the better shell of those that are there, as at a login.
const SHELL: [&str; 3] = ["sh", "-c", "exec \"$(command -v bash || command -v sh)\" -l"];

/// A file to bring along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    /// Path on this machine.
    pub host: PathBuf,
    /// Path at which the program finds it.
    pub guest: String,
}

impl FileMapping {
    /// Returns the file's path in the guest, without any `..`.
    pub(super) fn path(&self) -> Result<String, PathError> {
        path::writable(&Path::new(PROGRAM_DIRECTORY).join(&self.guest).to_string_lossy())
    }
}

/// Reasons why a text is no file to bring along.
#[derive(Debug, thiserror::Error)]
pub enum FileMappingError {
    /// The text has another form.
    #[error("expected HOST:GUEST")]
    Form,
    /// The guest's path is refused.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl std::str::FromStr for FileMapping {
    type Err = FileMappingError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((host, guest)) if !host.is_empty() && !guest.is_empty() => {
                let mapping = Self { host: host.into(), guest: guest.to_owned() };
                mapping.path()?;
                Ok(mapping)
            }
            _ => Err(FileMappingError::Form),
        }
    }
}

/// Changes to the default machine of a mode; hosted programs have no machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MachineOptions {
    /// Virtual CPUs.
    pub cpus: Option<u8>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Kind of memory pages; only Belfry's own machine has the choice.
    pub huge_pages: HugePages,
    /// Disks, in the order the guest finds them.
    pub disks: Vec<DiskConfig>,
    /// Arguments for the guest's kernel beside the usual ones.
    pub append: Vec<String>,
}

/// Program to run, and all choices of the run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Place in which the program runs.
    pub mode: Mode,
    /// Kind of guest, if there is one.
    pub guest: GuestKind,
    /// Driver of the GPU in the guest.
    pub driver: Driver,
    /// The program's name or path, and its arguments; empty for [`DEFAULT_PROGRAM`].
    pub program: Vec<String>,
    /// The suite of belfry's that the program is, if it is one; it runs in a guest with a root file system.
    pub suite: Option<Suite>,
    /// The GPUs.
    pub gpus: Gpus,
    /// Way of doorbells, if it is not the mode's default; hosted programs have no choice.
    pub doorbell: Option<Doorbell>,
    /// The machine of a guest.
    pub machine: MachineOptions,
    /// A disk with a system of its own, which is booted as it is.
    pub system: Option<DiskConfig>,
    /// Firmware that starts its machine.
    pub firmware: Firmware,
    /// True if programs run in that system over ssh even if none is named.
    pub ssh: bool,
    /// The root file system of a guest; without one it has the examples and static programs alone.
    pub root: Option<Root>,
    /// Folders of this machine that such a guest has under their own paths.
    pub shares: Vec<Share>,
    /// True if such a guest has this machine's network.
    pub network: bool,
    /// True if the program has this process's terminal; without a name it is a shell.
    pub interactive: bool,
    /// Files to bring along.
    pub files: Vec<FileMapping>,
    /// Options of the inspector, if the GPU can be looked at.
    pub inspect: Option<InspectOptions>,
    /// File and moment of a snapshot, if one is taken.
    pub snapshot: Option<SnapshotOptions>,
    /// A snapshot that it goes on from, which has the guest and its program.
    pub from: Option<PathBuf>,
    /// True if the guest starts from a snapshot that an earlier run kept after its boot, or is kept for later runs.
    pub warm: bool,
    /// Time limit of the program.
    pub timeout: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            guest: GuestKind::Debian,
            driver: Driver::Own,
            program: Vec::new(),
            suite: None,
            gpus: Gpus::default(),
            doorbell: None,
            machine: MachineOptions::default(),
            system: None,
            firmware: Firmware::Auto,
            ssh: false,
            root: None,
            shares: Vec::new(),
            network: false,
            interactive: false,
            files: Vec::new(),
            inspect: None,
            snapshot: None,
            from: None,
            warm: false,
            timeout: Duration::from_secs(600),
        }
    }
}

/// Why a program could not be run; a program that ran and failed is not an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The guest's parts are not available.
    #[error("no guest can be put together: {0}")]
    Image(#[source] ImageError),
    /// The guest failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The guest's program did not end.
    #[error("{running}\n{source}")]
    Hung {
        /// Waves and faults that are on the GPU, as text.
        running: String,
        /// Step that took too long, with the guest's console.
        source: Box<GuestError>,
    },
    /// The root file system is not available.
    #[error(transparent)]
    RootFs(#[from] RootFsError),
    /// A root file system for a run without a guest that could have it, and the fix.
    #[error("--image and --root give a Debian guest its root file system, and {0}")]
    NoRoot(&'static str),
    /// A root file system, but no program to run in it.
    #[error(
        "which program of the root file system? Name it behind `--`, for example: -- rocminfo; or ask for a shell with \
         --interactive"
    )]
    NoProgramInRoot,
    /// This process has no terminal to give away.
    #[error("--interactive needs standard input and output: {0}")]
    Terminal(#[source] io::Error),
    /// A program of this machine that is not there.
    #[error(
        "{0} is no file of this machine; a program of the root file system is named without a slash, or by its absolute \
         path"
    )]
    NoFile(String),
    /// A disk with a system of its own could not be used.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The hosted driver or device failed.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// Belfry's own machine failed.
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// A snapshot of a hosted program cannot be used.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The bare-metal guest is not available.
    #[error(transparent)]
    BareMetal(#[from] belfry_image::bare_metal::BareMetalError),
    /// The GPU cannot be looked at.
    #[error(transparent)]
    Inspect(#[from] InspectError),
    /// A way of doorbells that the mode does not have.
    #[error(transparent)]
    Doorbell(#[from] NoSuchWay),
    /// A guest in a mode that does not boot it.
    #[error("{0}")]
    WrongGuest(&'static str),
    /// Options of a machine for a run without one.
    #[error(
        "--cpus, --memory, --disk and --append are for guests, and hosted programs have none; use --mode kvm or --mode qemu"
    )]
    NoMachine,
    /// The program is neither an example nor a file.
    #[error("{0} is neither an example ({names}) nor a file", names = belfry_examples::NAMES.join(", "))]
    NoProgram(String),
    /// The arguments of `launch` make no sense, or name files that are not there.
    #[error("{0:#}")]
    Arguments(anyhow::Error),
    /// A suite could not be compiled, or not be brought into the guest.
    #[error("{0:#}")]
    Suite(anyhow::Error),
    /// The program cannot run in a guest.
    #[error("{program}: {why}")]
    BadProgram {
        /// Its path.
        program: String,
        /// Reason.
        why: &'static str,
    },
    /// Only the examples run hosted.
    #[error("{0} is not one of the examples, and hosted mode runs nothing else; use --mode qemu")]
    NotHosted(String),
    /// A file could not be read or written.
    #[error("{action} {path}: {source}")]
    File {
        /// Action that failed.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Lets the GPU that is chosen be looked at, if that is asked for.
fn inspected(options: &RunOptions, gpus: &[Arc<Gpu>]) -> Result<Option<Onlookers>, InspectError> {
    let Some(options) = &options.inspect else { return Ok(None) };
    gpus.get(options.gpu).map(|gpu| inspect::look_at(gpu, options)).transpose()
}

/// Runs a program and collects its results; `output` gets the program's output as it comes.
///
/// # Errors
///
/// Options that do not fit each other, a guest that cannot be prepared, booted or reached, and a program that
/// does not end in time. A program that fails is a report.
pub fn run(
    options: &RunOptions,
    progress: &Progress,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    if let Some(file) = &options.from {
        return snapshots::go_on(options, file, output);
    }
    snapshots::check(options)?;
    stock::check(options)?;
    if let Some(disk) = &options.system {
        return system::run(options, disk, progress, output);
    }
    if options.firmware != Firmware::Auto {
        return Err(RunError::WrongGuest(
            "--firmware is for disks with a system of their own; add --image PATH",
        ));
    }
    if options.ssh {
        return Err(RunError::WrongGuest("--ssh is for disks with a system of their own; add --image PATH"));
    }
    if let Some(root) = &options.root {
        return in_root(options, root, progress, output);
    }
    let of_roots = [
        (!options.shares.is_empty(), "--share is for guests with a root file system; add --image or --root"),
        (options.network, "--net is for guests with a root file system; add --image or --root"),
        (options.interactive, "--interactive is for guests with a root file system; add --image or --root"),
    ];
    if let Some((_, refusal)) = of_roots.into_iter().find(|(asked, _)| *asked) {
        return Err(RunError::WrongGuest(refusal));
    }
    if options.guest == GuestKind::BareMetal {
        return match options.mode {
            Mode::Kvm => on_machine::bare_metal_guest(options, output),
            _ => Err(RunError::WrongGuest("the bare-metal guest runs with --mode kvm only")),
        };
    }
    let program = options.program.first().map_or(DEFAULT_PROGRAM, String::as_str);
    let arguments = options.program.get(1..).unwrap_or_default();
    let bundled =
        belfry_examples::NAMES.contains(&program) || (options.mode == Mode::Hosted && racy::is_one(program));
    if !bundled && !Path::new(program).is_file() {
        return Err(RunError::NoProgram(program.to_owned()));
    }
    if options.mode == Mode::Hosted {
        if options.machine != MachineOptions::default() {
            return Err(RunError::NoMachine);
        }
        return match bundled {
            true => in_process::run(options, program, arguments, output),
            false => Err(RunError::NotHosted(program.to_owned())),
        };
    }
    let job = Job { options, program, arguments, suite: None, cache: &Cache::open()?, progress };
    match options.mode {
        Mode::Kvm => job.on_kvm(output),
        Mode::Qemu => job.in_qemu(output),
        Mode::Auto | Mode::Hosted => job.anywhere(output),
    }
}

/// Runs a program in a guest with a root file system.
fn in_root(
    options: &RunOptions,
    root: &Root,
    progress: &Progress,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    if options.guest == GuestKind::BareMetal {
        return Err(RunError::NoRoot("the bare-metal guest has none; leave out --guest bare-metal"));
    }
    if options.mode == Mode::Hosted {
        return Err(RunError::NoRoot(
            "a hosted program has none; use --mode qemu or --mode kvm, or `belfry exec --image` for a process without a guest",
        ));
    }
    if options.suite.is_some() && options.interactive {
        return Err(RunError::WrongGuest("a suite reads nothing; leave out --interactive"));
    }
    let shell = SHELL.map(str::to_owned);
    let (program, arguments) = match options.program.split_first() {
        Some(program) => program,
        None if options.interactive => (&shell[0], &shell[1..]),
        None => return Err(RunError::NoProgramInRoot),
    };
    // The check comes before anything is fetched or built.
    let cache = Cache::open()?;
    root.check(&cache)?;
    let compiled = options.suite.as_ref().map(|suite| suite.compile_for(root, &cache, progress));
    let compiled = compiled.transpose().map_err(RunError::Suite)?;
    let job = Job { options, program, arguments, suite: compiled.as_ref(), cache: &cache, progress };
    match options.mode {
        Mode::Kvm => job.on_kvm(output),
        Mode::Qemu => job.in_qemu(output),
        Mode::Auto | Mode::Hosted => job.anywhere(output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_split_at_the_last_colon() {
        let mapping: FileMapping = "/a:b/c:/guest/x".parse().unwrap();
        assert_eq!(mapping, FileMapping { host: "/a:b/c".into(), guest: "/guest/x".into() });
        // Paths that leave the guest's root or replace init's own files are refused before anything starts.
        for text in
            ["", "x", ":x", "x:", "x:../../init", "x:../init", "x:/init", "x:/lib/modules/y", "x:/root/"]
        {
            assert!(text.parse::<FileMapping>().is_err(), "{text}");
        }
    }

    #[test]
    fn root_file_systems_need_a_guest_and_a_program() {
        let root = Some(Root::Named("rocm".into()));
        let run = |options| run(&options, &Progress::silent(), &mut |_, _| ()).unwrap_err().to_string();
        let base = RunOptions { root, program: vec!["rocminfo".into()], ..RunOptions::default() };
        let hosted = run(RunOptions { mode: Mode::Hosted, ..base.clone() });
        assert!(hosted.contains("--mode qemu") && hosted.contains("belfry exec --image"), "{hosted}");
        for mode in [Mode::Auto, Mode::Kvm] {
            let bare = run(RunOptions { mode, guest: GuestKind::BareMetal, ..base.clone() });
            assert!(bare.contains("leave out --guest bare-metal"), "{bare}");
        }
        let without = run(RunOptions { mode: Mode::Qemu, program: Vec::new(), ..base.clone() });
        assert!(without.contains("rocminfo"), "{without}");
        let root = Some(Root::Named("rocky".into()));
        let unknown = run(RunOptions { root, mode: Mode::Qemu, ..base });
        assert!(unknown.contains("rocky") && unknown.contains("rocm-sid"), "{unknown}");
    }

    #[test]
    fn unknown_programs_are_told_the_examples() {
        let options = RunOptions { program: vec!["no-such-program".into()], ..RunOptions::default() };
        let error = run(&options, &Progress::silent(), &mut |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("vector-add"), "{error}");
    }
}
