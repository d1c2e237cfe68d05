//! The command line.

mod bench;
mod code_cache;
mod container;
mod device;
mod disassembly;
mod exec;
mod explore;
mod faults;
mod gpu;
mod gpus;
mod image;
mod inspect;
mod links;
mod matrix;
mod pages;
mod profile;
mod record;
mod replay;
mod sanitize;
mod serve;
mod shape;
mod size;
mod snapshot;
#[cfg(test)]
mod tests;
mod torture;
mod trace;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use belfry_device::GpuConfig;
use belfry_device::chip::{self, Model};
use belfry_guest::{Share, Stream};
use belfry_image::Progress;
use belfry_image::rootfs::Root;
use belfry_machine::{DiskConfig, HugePages};
use belfry_process::scratch;
use clap::{Args, Parser, Subcommand};

use crate::doctor;
use crate::doorbell::Doorbell;
use crate::output::{self, note, say};
use crate::run::{Driver, FileMapping, Firmware, GuestKind, MachineOptions, Mode, RunOptions, run};
use crate::suite::{Asked, Place};
use bench::Suite;
use exec::ExecArgs;
use explore::ScheduleArgs;
use gpu::GpuArgs;
use gpus::{GpusArgs, check_guest};
use image::{ImageArgs, image};
use inspect::{InspectArgs, InspectFlags, inspect};
use profile::{HostTime, HostTimeArgs, ProfileArgs, Profiling};
use record::{RecordArgs, Recorded};
use replay::{ReplayArgs, replay};
use sanitize::{SanitizeArgs, Sanitizing};
use serve::{ServeArgs, serve};
use size::parse_memory;
use snapshot::{ForkArgs, SnapshotArgs, SnapshotCommand};
use trace::{TraceArgs, TraceVerb};

/// Exit status for failures of belfry itself, so that a program's own status can be told from them.
pub const FAILURE: u8 = 125;

/// Endings of the names of disk files.
const DISK_ENDINGS: [&str; 3] = [".qcow2", ".raw", ".img"];

/// Time limit that no program reaches: one year.
const NO_LIMIT: Duration = Duration::from_secs(365 * 24 * 3600);

/// Ways of a guest to reach the network.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Net {
    /// Through this process's own sockets; no connection from outside reaches the guest.
    User,
}

/// An AMD GPU that exists only in software: run compiled kernels in a guest, or without one.
#[derive(Debug, Parser)]
#[command(version = pages::VERSION, long_version = pages::features(), about)]
pub struct Cli {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Runs a program on the GPU and exits with its status (125: belfry itself failed).
    ///
    /// The status stays the program's if its output can no longer be written. A reader that has left (`| head -1`) is
    /// no error; any other failure, like a full disk, is told once on stderr. Other commands fail on such a failure.
    Run(Box<RunArgs>),
    Exec(ExecArgs),
    /// Serves the GPU over vfio-user, for any QEMU from 10.1 on.
    Serve(ServeArgs),
    /// Fetches, builds and caches what a guest needs.
    Image(ImageArgs),
    /// Says what is there, what is missing, and the fix; exits with 1 if no mode of `run` can work.
    Doctor {
        #[command(flatten)]
        chip: shape::ChipArg,
    },
    /// Lists the chips that the GPU can be.
    Chips,
    /// Disassembles a code object.
    Disasm {
        /// The code object, or a bundle of several.
        file: PathBuf,
        /// The chip whose code a bundle is searched for [default: the first of `belfry chips` that it has].
        #[arg(long, value_name = "NAME", value_parser = shape::parse_name)]
        chip: Option<&'static str>,
    },
    /// Tells what is in traces that `--trace` has written.
    Trace {
        #[command(subcommand)]
        what: TraceVerb,
    },
    Inspect(InspectArgs),
    Replay(ReplayArgs),
    Snapshot(SnapshotCommand),
    Fork(Box<ForkArgs>),
    Torture(Box<torture::TortureArgs>),
    Explore(Box<explore::ExploreArgs>),
    Matrix(Box<matrix::MatrixArgs>),
    Container(container::ContainerArgs),
    /// Measures.
    Bench {
        #[command(subcommand)]
        what: Suite,
    },
    #[command(hide = true)]
    Pages(pages::PagesArgs),
}

#[derive(Debug, Args)]
struct RunArgs {
    /// In a guest, in this process, or in the first of them that works here.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// System that the machine boots.
    #[arg(long, value_enum, default_value_t)]
    guest: GuestKind,
    /// Driver of the GPU in the guest.
    #[arg(long, value_enum, default_value_t, hide_default_value = true)]
    driver: Driver,
    #[command(flatten)]
    gpu: GpuArgs,
    #[command(flatten)]
    gpus: GpusArgs,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    inspect: InspectFlags,
    #[command(flatten)]
    sanitize: SanitizeArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    host_time: HostTimeArgs,
    #[command(flatten)]
    record: RecordArgs,
    #[command(flatten)]
    snapshot: SnapshotArgs,
    #[command(flatten)]
    schedule: ScheduleArgs,
    /// Way in which doorbells reach the device [default: the mode's].
    #[arg(long, value_enum)]
    doorbell: Option<Doorbell>,
    #[command(flatten)]
    machine: MachineArgs,
    /// Gives the guest the root file system of that name, which is made of packages on first use; `belfry image --rootfs`
    /// lists them. What a program writes is forgotten.
    ///
    /// A path (with a slash, or ending in .qcow2, .raw or .img) is that of a disk with a system of its own: QEMU boots it as
    /// it is, with its own kernel, which needs the driver (`belfry image install-driver`). Programs run there over ssh.
    #[arg(long, value_name = "NAME|DISK", conflicts_with = "root")]
    image: Option<String>,
    /// Gives the guest a copy of a directory, or an ext4 image, as its root file system; neither is written to.
    #[arg(long, value_name = "DIR|FILE")]
    root: Option<PathBuf>,
    /// A folder of this machine that such a guest has under the same path, to write to unless it ends in `:ro`;
    /// repeatable.
    #[arg(long = "share", value_name = "DIR[:ro]")]
    shares: Vec<Share>,
    /// Firmware that starts the machine of a disk with a system of its own.
    #[arg(long, value_name = "KIND", value_enum, default_value_t, hide_default_value = true)]
    firmware: Firmware,
    /// Runs the program, or a login shell, over ssh in a disk with a system of its own; implied by a program.
    #[arg(long, conflicts_with = "interactive")]
    ssh: bool,
    /// Gives such a guest this machine's network, as this user has it.
    #[arg(long, value_name = "KIND", value_enum)]
    net: Option<Net>,
    /// Gives the program of such a guest this terminal: a shell, if none is named. Ctrl-A x ends the guest.
    #[arg(long, short, conflicts_with = "json")]
    interactive: bool,
    /// Prints the summary as one JSON object on stdout; the program's output goes to stderr.
    #[arg(long)]
    json: bool,
    /// Prints afterwards what the device refused, and the registers it has no behaviour for, most used first.
    #[arg(long)]
    unmodelled: bool,
    /// A file to bring along; repeatable. A relative GUEST is below the program's directory.
    #[arg(long = "file", value_name = "HOST:GUEST")]
    files: Vec<FileMapping>,
    /// Time limit of the program in seconds [default: 600; no limit with --interactive].
    #[arg(long, value_name = "SECS")]
    timeout: Option<u64>,
    /// A bundled example by name or a static program by path, and its arguments [default: vector-add].
    ///
    /// With --image or --root: a program of the root file system by name or absolute path, or one of this machine by a
    /// relative path with a slash (./prog), which is carried in; or `hip-suite`, `opencl-suite`, `hsa-suite`, `thunk-suite`
    /// or `vulkan-suite`, belfry's own suites.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<String>,
}

/// The machine of a guest; hosted programs have none.
#[derive(Debug, Args)]
struct MachineArgs {
    /// Virtual CPUs of the guest [default: 2, or as many as there are].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    cpus: Option<u8>,
    /// Memory of the guest, whole megabytes [default: 1G; 4G with --image or --root].
    #[arg(long, value_name = "SIZE", value_parser = parse_memory)]
    memory: Option<u64>,
    /// Makes the guest's memory of huge pages, with --mode kvm [without a kind: transparent].
    #[arg(long, value_name = "KIND", value_enum, default_value_t, hide_default_value = true)]
    #[arg(num_args = 0..=1, require_equals = true, default_missing_value = "transparent")]
    huge_pages: HugePages,
    /// A disk image, which is never written to: PATH[,format=auto|raw|qcow2][,ro][,backing=PATH]; repeatable. The guest
    /// finds it as /dev/vda, /dev/vdb and so on.
    #[arg(long = "disk", value_name = "DISK")]
    disks: Vec<DiskConfig>,
    /// Further arguments for the guest's kernel, one or several in one string; repeatable.
    #[arg(long, value_name = "KERNEL_ARGS", allow_hyphen_values = true)]
    append: Vec<String>,
}

/// Runs the whole process: logs as `RUST_LOG` says, and runs the command line it was started with.
#[must_use]
pub fn process() -> ExitCode {
    if let Err(error) = belfry_process::file_limit::catch() {
        note!("belfry: a write beyond the limit of files ends this process: {error}");
    }
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).init();
    ExitCode::from(main(std::env::args_os()))
}

/// Runs the command line and answers the exit status.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let asked = exec::spelling(&arguments);
    let cli = match exec::parse(&arguments) {
        Some(args) => args.map(|args| Cli { command: Verb::Exec(args) }),
        None => Cli::try_parse_from(arguments),
    };
    let cli = match cli {
        Ok(cli) => cli,
        Err(error) => {
            output::check(error.print());
            return if error.use_stderr() || output::is_lost() { FAILURE } else { 0 };
        }
    };
    // The status of `run` is the program's, even if its output is lost.
    let of_program = matches!(cli.command, Verb::Run(_) | Verb::Exec(_));
    let result = match cli.command {
        Verb::Run(args) => run_program(*args),
        Verb::Exec(args) => exec::execute(args, asked),
        Verb::Serve(args) => serve(&args),
        Verb::Image(args) => image(&args),
        Verb::Doctor { chip } => examine(&chip),
        Verb::Chips => {
            list_chips();
            Ok(0)
        }
        Verb::Disasm { file, chip } => disassembly::disassemble(&file, chip),
        Verb::Trace { what } => trace::trace(what),
        Verb::Inspect(args) => inspect(&args),
        Verb::Replay(args) => replay(&args),
        Verb::Snapshot(args) => snapshot::snapshot(&args),
        Verb::Fork(args) => snapshot::execute_fork(&args),
        Verb::Torture(args) => torture::execute(&args),
        Verb::Explore(args) => explore::execute(&args),
        Verb::Matrix(args) => matrix::execute(&args),
        Verb::Container(args) => container::execute(args),
        Verb::Bench { what } => bench::measure(what),
        Verb::Pages(args) => pages::write(&args),
    };
    let status = result.unwrap_or_else(|error| {
        note!("belfry: {}", describe(&error));
        interrupted_status().unwrap_or(FAILURE)
    });
    if status == 0 && !of_program && output::is_lost() { FAILURE } else { status }
}

/// Returns the status that a shell gives a program that a signal has ended; `None` if no signal has come.
fn interrupted_status() -> Option<u8> {
    belfry_machine::interrupted().and_then(|number| u8::try_from(128 + number).ok())
}

/// Formats an error with its causes, each of them once: some messages hold their cause already.
fn describe(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Returns the code object that is launched, if it is a file of this machine.
fn launched(program: &[String]) -> Option<PathBuf> {
    match program {
        [launch, file, ..] if launch == "launch" => Some(PathBuf::from(file)).filter(|file| file.is_file()),
        _ => None,
    }
}

fn run_program(mut args: RunArgs) -> anyhow::Result<u8> {
    scratch::sweep();
    let limit = if args.interactive || args.ssh { NO_LIMIT } else { RunOptions::default().timeout };
    let is_disk = |image: &&str| image.contains('/') || DISK_ENDINGS.iter().any(|end| image.ends_with(end));
    let system = args.image.as_deref().filter(is_disk).map(str::parse::<DiskConfig>).transpose()?;
    let image = args.image.clone().filter(|_| system.is_none());
    let root = image.map(Root::Named).or(args.root.clone().map(Root::Path));
    let words: Vec<OsString> = args.program.iter().map(OsString::from).collect();
    let kinds = args.gpu.device.kinds(args.gpus.usual_chip())?;
    let gpus = u8::try_from(args.gpus.count(&kinds)?).unwrap_or(u8::MAX);
    let mut suite = match Asked::new(Place::Guest { gpus }, root.as_ref(), &words)? {
        Asked::Program => None,
        Asked::Printed => return Ok(0),
        Asked::Suite(suite) => Some(suite),
        Asked::Own(program) => anyhow::bail!("{} runs under `belfry exec` alone", program.name),
    };
    args.gpu.check_symbols(&args.inspect, args.profile.is_asked_for() || args.sanitize.is_asked_for())?;
    args.gpu.symbols.extend(launched(&args.program));
    let mut gpu = args.gpu.config(kinds.first().clone())?;
    // Before any file is made.
    let board = args.gpus.machine(&gpu, &kinds, &alone(&args, &gpu))?;
    args.inspect.check_gpu(board.count())?;
    if args.mode != Mode::Hosted {
        check_guest(&board)?;
    }
    let recording = args.trace.start()?;
    if let Some(recording) = &recording {
        gpu.trace = Some(recording.sink());
    }
    args.sanitize.check_with(&[
        ("--inspect and --gdb", args.inspect.options(&[]).is_some()),
        ("--trace-isa", args.gpu.trace_isa.is_some()),
        ("--snapshot, --from and --warm", args.snapshot.is_asked_for()),
        ("--schedule", args.schedule.is_asked_for()),
        ("a mode that is found out: say --mode hosted, --mode qemu or --mode kvm", args.mode == Mode::Auto),
    ])?;
    let mut sanitizing = args.sanitize.start(&args.gpu.symbols)?;
    gpu.sanitizer = sanitizing.as_mut().map(Sanitizing::sanitizer);
    let mut profiling = args.profile.start(&board, &args.gpu.symbols)?;
    let host = args.host_time.start(&mut gpu);
    args.schedule.apply(args.mode, &mut gpu)?;
    let recorded = args.record.start()?;
    gpu.record = recorded.as_ref().map(Recorded::recording);
    if let Some(suite) = &mut suite {
        suite.set_chip(kinds.only_chip("a suite")?);
    }
    let mut gpus = args.gpus.machine(&gpu, &kinds, &[])?;
    if let Some(profiling) = &mut profiling {
        profiling.watch(&mut gpus);
    }
    let inspect = args.inspect.options(&args.gpu.symbols);
    let warm = args.snapshot.warm;
    let (snapshot, from) = args.snapshot.options()?;
    let options = RunOptions {
        mode: args.mode,
        guest: args.guest,
        driver: args.driver,
        program: args.program,
        suite,
        gpus,
        doorbell: args.doorbell,
        machine: MachineOptions {
            cpus: args.machine.cpus,
            memory: args.machine.memory,
            huge_pages: args.machine.huge_pages,
            disks: args.machine.disks,
            append: args.machine.append,
        },
        system,
        firmware: args.firmware,
        ssh: args.ssh,
        root,
        shares: args.shares,
        network: args.net.is_some(),
        interactive: args.interactive,
        files: args.files,
        inspect,
        snapshot,
        from,
        warm,
        timeout: args.timeout.map_or(limit, Duration::from_secs),
    };
    let (json, unmodelled) = (args.json, args.unmodelled);
    let report = run(&options, &Progress::new(), &mut |stream, data| {
        // Neither a reader that has left nor a full disk stops the program.
        match stream {
            Stream::Stdout if !json => output::write(data),
            _ => output::write_error(data),
        }
    });
    if let Some(recording) = recording {
        recording.finish();
    }
    profiling.map_or(Ok(()), Profiling::finish)?;
    host.map_or(Ok(()), HostTime::finish)?;
    recorded.into_iter().for_each(Recorded::finish);
    let broken = sanitizing.map_or(Ok(false), Sanitizing::finish)?;
    let report = report?;
    if json {
        say!("{}", serde_json::to_string(&report)?);
    } else {
        say!("\n{report}");
        if unmodelled {
            output::write(report.shortcomings().as_bytes());
        }
    }
    Ok(sanitize::status(report.exit_status, broken))
}

/// Lists what a run can have that looks at one GPU, and whether it was asked for.
fn alone(args: &RunArgs, gpu: &GpuConfig) -> [(&'static str, bool); 5] {
    [
        ("--trace-isa", args.gpu.trace_isa.is_some()),
        ("--sanitize", args.sanitize.is_asked_for()),
        ("--snapshot, --from and --warm", args.snapshot.is_asked_for()),
        ("--schedule", args.schedule.is_asked_for()),
        ("a plan of faults", !gpu.faults.is_off()),
    ]
}

fn examine(chip: &shape::ChipArg) -> anyhow::Result<u8> {
    let report = doctor::examine(chip.config()?);
    say!("{report}");
    Ok(u8::from(!report.guest_possible() && !report.hosted_possible()))
}

fn list_chips() {
    for Model { name, product, modelled, max_cus, max_xccs, .. } in chip::MODELS {
        let xccs = if *max_xccs > 1 { format!(" on up to {max_xccs} XCCs") } else { String::new() };
        say!("{name}  {product}, up to {max_cus} CUs{xccs}; {modelled}");
    }
}
