//! `cargo xtask`: workspace tasks, one module per command.

/// Writes a line to standard output; a reader that has left, as in `| head`, stops nothing.
macro_rules! say {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_all(&mut std::io::stdout(), format!("{}\n", format_args!($($text)*)).as_bytes());
    }};
}

/// Writes a line to standard error, if it can be written.
macro_rules! note {
    ($($text:tt)*) => {{
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{}\n", format_args!($($text)*)).as_bytes());
    }};
}

mod book;
mod cases;
mod compare;
mod fuzz;
mod installed;
mod isa_gen;
mod isa_verify;
mod kernels;
mod llvm;
mod package;
mod pictures;
mod rocm;
mod slurm;
mod stock;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(about = "Workspace tasks of Belfry")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compile the OpenCL kernels of the examples into the code objects that are committed.
    Kernels {
        /// Only prove that the committed objects are what the sources give.
        #[arg(long)]
        check: bool,
    },
    /// Generate the instruction tables of `device/isa` from LLVM's target description.
    IsaGen {
        /// `llvm-tblgen -dump-json` output of `AMDGPU.td` (made from the fetched source package when absent).
        #[arg(long)]
        json: Option<PathBuf>,
        /// Directory in which the source package and the dump are kept (`target/isa-gen` when absent).
        #[arg(long)]
        work: Option<PathBuf>,
        /// Only prove that the committed tables are what LLVM's description gives.
        #[arg(long)]
        check: bool,
    },
    /// Make a book of the documents, with a search, and follow its links.
    Book(book::Options),
    /// Checks of the instruction set.
    Isa {
        #[command(subcommand)]
        command: IsaCommand,
    },
    /// Compile and run the small programs of `tests/cases`, which say whether results are those of a card.
    Cases(cases::Options),
    /// Measure two builds of belfry in turns, and print the ratio of each figure.
    Compare(compare::Options),
    /// Run the fuzz targets of `fuzz/`, two at a time.
    Fuzz(fuzz::Options),
    /// Install belfry from a copy of the tree, move the copy away, and run what was installed without Rust.
    Installed {
        /// Install the development profile, which is built sooner.
        #[arg(long)]
        debug: bool,
    },
    /// Check the rules of the tree that no compiler checks: dependency arrows, file lengths, texts.
    Tidy(xtask::tidy::Options),
    /// Run belfry's own machine where KVM has no hardware under it: in a guest of QEMU's translator, with kvm_amd in it.
    NestedKvm {
        /// Arguments of the belfry inside, `run --mode kvm --guest bare-metal` for example (all examples when absent).
        #[arg(last = true, value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Make a root file system in which programs of another distribution run, and print its path; list them without a name.
    Rootfs {
        /// Name of the file system, `rocm` for example.
        name: Option<String>,
        /// Ask the archive for newer packages.
        #[arg(long)]
        update: bool,
    },
    /// Unbind and bind the GPU in a guest, again and again, under processes that use it in every way.
    GuestRace {
        /// Number of rounds.
        #[arg(long, default_value_t = 500)]
        rounds: u64,
        /// On a kernel with KASAN and lockdep, built from Debian's source on first use, for up to an hour.
        #[arg(long)]
        kasan: bool,
        /// Arguments for the guest's kernel, `slub_debug=FZP` for example.
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        append: String,
    },
    /// Share a program's memory with the GPU in a guest, move it to VRAM and back, and change it under the GPU.
    GuestSvm {
        /// Number of rounds.
        #[arg(long, default_value_t = 5)]
        rounds: u64,
        /// On a kernel with KASAN and lockdep, built from Debian's source on first use, for up to an hour.
        #[arg(long)]
        kasan: bool,
        /// Arguments for the guest's kernel, `slub_debug=FZP` for example.
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        append: String,
    },
    /// Kill processes that use the GPU in a guest at random points, and look for what they leave.
    GuestKills {
        /// Number of points.
        #[arg(long, default_value_t = 1000)]
        points: u64,
        /// On a kernel with KASAN and lockdep, built from Debian's source on first use, for up to an hour.
        #[arg(long)]
        kasan: bool,
        /// Arguments for the guest's kernel, `slub_debug=FZP` for example.
        #[arg(long, default_value = "", allow_hyphen_values = true)]
        append: String,
    },
    /// Make a disk with a system of its own of Debian's packages, with the driver by DKMS, and boot it with the GPU.
    OwnSystem {
        /// Make disks without the driver, and put that in by `belfry image install-driver`, for an hour.
        #[arg(long)]
        install_driver: bool,
        /// Directory in which the disks of packages are kept and found again (made anew when absent).
        #[arg(long, value_name = "DIR")]
        disks: Option<PathBuf>,
        /// Only these cases.
        cases: Vec<String>,
    },
    /// Make what people install: packages of Debian, a wheel, an image for containers, a tarball and a list of parts.
    Package(package::Options),
    /// Make the pictures of the documents from runs of belfry, and fail where one does not show what it is for.
    Pictures {
        /// Directory of the pictures (`docs/pictures` when absent).
        #[arg(long, value_name = "DIR")]
        into: Option<PathBuf>,
    },
    /// Run ROCm's tools, the suites and, with --long, Debian's tests of ROCm's libraries and of llama.cpp under `belfry exec`.
    Rocm(rocm::Options),
    /// Make a Slurm cluster of three nodes on this machine, run jobs and a matrix on its GPUs, and kill a node in the middle.
    Slurm(slurm::Options),
    /// Load, unload, rebind, reset and suspend the distribution's own driver in a guest, or run the suites under it.
    Stock(stock::Options),
    /// Run the suite of unmodified programs, in one guest for example: the long tier of `cargo test --test exec`.
    Suite {
        /// Mode that runs the cases: `exec`, or `guest` for one guest with Debian's kernel.
        #[arg(long, value_parser = ["exec", "guest"], default_value = "guest")]
        mode: String,
        /// Arguments of the test program: a part of the cases' names, `--list`, `--skip NAME`, `--exact`.
        #[arg(last = true, value_name = "ARGS")]
        arguments: Vec<String>,
    },
    /// Prove the ABI layouts against the C headers that publish them.
    HeaderCheck {
        /// Directory that holds `linux/kfd_ioctl.h` (fetched when absent).
        #[arg(long)]
        linux: Option<PathBuf>,
        /// Directory that holds `hsa/hsa.h` (fetched when absent).
        #[arg(long)]
        hsa: Option<PathBuf>,
        /// Check the kernel's own headers instead; `drivers/gpu/drm/amd/include` of this Linux tree (fetched when absent).
        #[arg(long, num_args = 0..=1, value_name = "DIR")]
        kernel: Option<Option<PathBuf>>,
    },
}

#[derive(Debug, Subcommand)]
enum IsaCommand {
    /// Write the fixtures of the disassembly tests: compiled kernels and a sample of LLVM's vectors.
    Fixtures {
        /// Directory in which LLVM's source package is kept (`target/isa-gen` when absent).
        #[arg(long)]
        work: Option<PathBuf>,
    },
    /// Run every oracle: `llvm-mc`, the reference interpreter, OpenCL programs, random programs.
    Verify {
        /// Check many times more, for hours.
        #[arg(long)]
        long: bool,
        /// Seed of the random numbers.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Compare only with results captured on cards.
        #[arg(long)]
        cards: bool,
    },
}

fn main() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("xtask has no parent directory")?;
    match Cli::parse().command {
        Command::Book(options) => book::run(root, &options),
        Command::Kernels { check } => kernels::run(check),
        Command::IsaGen { json, work, check } => isa_gen::run(root, json.as_deref(), work.as_deref(), check),
        Command::Isa { command: IsaCommand::Fixtures { work } } => isa_gen::fixtures(root, work.as_deref()),
        Command::Isa { command: IsaCommand::Verify { long, seed, cards } } => {
            isa_verify::run(root, long, seed, cards)
        }
        Command::NestedKvm { arguments } => nested_kvm(&arguments),
        Command::GuestRace { rounds, kasan, append } => guest_trial("race", rounds, kasan, &append),
        Command::GuestSvm { rounds, kasan, append } => guest_trial("svm", rounds, kasan, &append),
        Command::GuestKills { points, kasan, append } => guest_trial("kills", points, kasan, &append),
        Command::OwnSystem { install_driver, disks, cases } => {
            own_system(install_driver, disks.as_deref(), &cases)
        }
        Command::Package(options) => package::run(root, &options),
        Command::Pictures { into } => pictures::run(root, into),
        Command::Rocm(options) => rocm::run(root, &options),
        Command::Slurm(options) => slurm::run(root, &options),
        Command::Stock(options) => stock::run(root, &options),
        Command::Suite { mode, arguments } => suite(&mode, &arguments),
        Command::Cases(options) => cases::run(root, &options),
        Command::Compare(options) => compare::run(&options),
        Command::Fuzz(options) => fuzz::run(root, &options),
        Command::Installed { debug } => installed::run(root, debug),
        Command::Tidy(options) => xtask::tidy::run(root, &options),
        Command::Rootfs { name, update } => rootfs(name.as_deref(), update),
        Command::HeaderCheck { linux, hsa, kernel } => header_check(linux, hsa, kernel),
    }
}

/// Runs the nested tier and ends with its status; a program of its own, because it is made of belfry's library.
///
/// Building it may take minutes; cargo shows the progress.
fn nested_kvm(arguments: &[String]) -> Result<()> {
    program_of_tests("nested-kvm", arguments)
}

/// Has belfry make a root file system; a program of its own, because it is made by belfry's library.
fn rootfs(name: Option<&str>, update: bool) -> Result<()> {
    let status = process::Command::new(env!("CARGO"))
        .args(["run", "--package", "belfry", "--bin", "belfry", "--", "image", "--rootfs"])
        .args(name)
        .args(update.then_some("--update"))
        .status()
        .context("running belfry image --rootfs")?;
    process::exit(status.code().unwrap_or(1));
}

/// Runs a trial of the driver and ends with its status; a program of its own, as the nested tier is.
fn guest_trial(name: &str, number: u64, kasan: bool, append: &str) -> Result<()> {
    let number = number.to_string();
    program_of_tests("guest-trial", [name, &number, if kasan { "kasan" } else { "stock" }, append])
}

/// Makes and boots a system of a user's own; a program of its own, because it is made of belfry's library.
fn own_system(install_driver: bool, disks: Option<&Path>, cases: &[String]) -> Result<()> {
    let install = install_driver.then_some(OsStr::new("--install-driver"));
    let disks = disks.iter().flat_map(|disks| [OsStr::new("--disks"), disks.as_os_str()]);
    program_of_tests("own-system", install.into_iter().chain(disks).chain(cases.iter().map(OsStr::new)))
}

/// Runs the suite and ends with its status; a program of its own, because it is made of belfry's library.
fn suite(mode: &str, arguments: &[String]) -> Result<()> {
    program_of_tests("suite", std::iter::once(mode).chain(arguments.iter().map(String::as_str)))
}

/// Runs a program of belfry-tests, which cargo builds first, and ends with its status.
fn program_of_tests(name: &str, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Result<()> {
    let status = process::Command::new(env!("CARGO"))
        .args(["run", "--package", "belfry-tests", "--bin", name, "--"])
        .args(arguments)
        .status()
        .with_context(|| format!("running {name}"))?;
    process::exit(status.code().unwrap_or(1));
}

/// Checks against the headers named on the command line, and fetches headers that are not named.
fn header_check(linux: Option<PathBuf>, hsa: Option<PathBuf>, kernel: Option<Option<PathBuf>>) -> Result<()> {
    let held = if let Some(include) = kernel {
        let include = match include {
            Some(include) => include,
            None => fetch_headers("kernel")?,
        };
        xtask::header_check::check_kernel(&include)?
    } else {
        let linux = linux.map_or_else(|| fetch_headers("linux"), Ok)?;
        let hsa = hsa.map_or_else(|| fetch_headers("hsa"), Ok)?;
        xtask::header_check::check_user(&linux, &hsa)?
    };
    say!("header-check: {held} layouts and constants agree with the headers");
    Ok(())
}

/// Has the header package fetched and returns where its headers are.
///
/// A program of its own, so that the tasks that generate code do not depend on the crates they generate it for.
fn fetch_headers(which: &str) -> Result<PathBuf> {
    let output = process::Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--package", "belfry-tests", "--bin", "fetch-headers", "--", which])
        .stderr(process::Stdio::inherit())
        .output()
        .context("running fetch-headers")?;
    ensure!(output.status.success(), "the {which} headers could not be fetched");
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
