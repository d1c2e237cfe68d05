//! `belfry exec` on the command line.

mod gpus;
mod plain;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use belfry_device::{GpuConfig, Matrices, Tier};
use belfry_image::rootfs::{self, Root};
use belfry_image::{Cache, Freshness, Progress};
use belfry_kfd_hosted::prepared::Wait;
use clap::{Args, Parser, Subcommand};

use super::code_cache::CodeCacheArg;
use super::faults::FaultFlags;
use super::gpus::GpusArgs;
use super::inspect::InspectFlags;
use super::links::LinksArg;
use super::profile::{self, ProfileArgs};
use super::record::{self, ExecRecordArgs};
use super::sanitize::{self, SanitizeArgs};
use super::shape::Kinds;
use super::size::{parse_matrices, parse_size, parse_tier, parse_wait};
use super::trace::TraceArgs;
use crate::exec::{self, ExecOptions, absent};
use crate::output::{note, say};
use crate::suite::{self, Asked, Place};
use plain::plain;

/// Largest text of a plan of faults in bytes; the text is handed on in an environment variable.
const MAX_PLAN: usize = 4000;
/// Number of strikes that are told one by one.
const SHOWN: usize = 10;

/// `belfry exec` alone: a program that does not use a GPU should not wait until the options of all other commands are
/// set up.
#[derive(Debug, Parser)]
#[command(version)]
struct ExecCli {
    #[command(subcommand)]
    command: ExecVerb,
}

#[derive(Debug, Subcommand)]
enum ExecVerb {
    Exec(ExecArgs),
}

/// Runs any program with a GPU of its own, as an ordinary process: no guest, no VM, no rights.
#[derive(Debug, Args)]
pub(super) struct ExecArgs {
    /// A root file system to run in: a directory.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// The root file system of that name, which is made of packages on first use; `belfry image --rootfs` lists them.
    #[arg(long, value_name = "NAME", conflicts_with = "root")]
    image: Option<String>,
    /// Chip of the GPU, and its size; `belfry chips` lists the chips. For several GPUs in one machine: repeatable [default: gfx1100].
    #[arg(long, value_name = "NAME[:xccs=N,partition=MODE,cus=N,vram=SIZE]")]
    chip: Vec<String>,
    #[command(flatten)]
    gpus: GpusArgs,
    /// Compute units of each GPU: even, 2 to as many as the chip has.
    #[arg(long, value_name = "N", default_value_t = GpuConfig::default().cus)]
    cus: u32,
    /// VRAM: a power of two in the range of the chip (gfx1100: 16M to 16G).
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    vram: u64,
    /// Worker threads that execute waves.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Executes waves in an order that follows from this number alone, on one worker thread.
    #[arg(long, value_name = "SEED")]
    deterministic: Option<u64>,
    /// Selects the code of kernels that is compiled to machine code: none, all, or the code that is used often.
    #[arg(long, value_name = "0|1|auto", default_value_t = Tier::Auto, value_parser = parse_tier)]
    tier: Tier,
    /// Sums of matrix instructions of 16-bit floats: fast, or exactly as cards form them, which takes many times as
    /// long.
    #[arg(long, value_name = "fast|exact", default_value_t = Matrices::Fast, value_parser = parse_matrices)]
    matrix: Matrices,
    #[command(flatten)]
    code: CodeCacheArg,
    /// Mounts the GPU's files under /sys and /dev for this program alone, for programs that are linked statically:
    /// they see these files, but cannot use the GPU.
    #[arg(long)]
    namespace: bool,
    /// Runs driver and device of each process in another process, so that a debugger can stop the program and debug
    /// its kernels (DBG_TRAP).
    #[arg(long)]
    debuggable: bool,
    /// Way in which threads wait for signals of ROCr: as the program asks for (HIP spins), asleep, or asleep if the
    /// processors are few.
    #[arg(long, value_name = "auto|spin|block", default_value_t = Wait::Auto, value_parser = parse_wait)]
    wait: Wait,
    /// Lets compiled code count its time, for the summary of --json: how the time of waves is divided, with the costliest
    /// operations. Kernels run somewhat slower.
    #[arg(long, requires = "json")]
    costs: bool,
    /// Prints a summary as one JSON object on stdout; the program's output goes to stderr.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    record: ExecRecordArgs,
    #[command(flatten)]
    sanitize: SanitizeArgs,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    faults: FaultFlags,
    #[command(flatten)]
    inspect: InspectFlags,
    /// A file with debug information, for --gdb, --inspect, and the source lines of a profile and of what the sanitizer finds: a code
    /// object, a bundle, a HIP program, or a folder of such files; repeatable.
    #[arg(long, value_name = "PATH")]
    symbols: Vec<PathBuf>,
    /// Says nothing of its own.
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments [default: a shell].
    ///
    /// `hip-suite`, `opencl-suite`, `hsa-suite`, `thunk-suite` and `vulkan-suite` are belfry's own suites of programs, compiled
    /// in the root file system on first use; `hip-suite --help` lists their options. `ddp-loop` is a program of belfry's own
    /// over RCCL.
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// Parses the options of `belfry exec ...`; `None` for another command.
pub(super) fn parse(arguments: &[OsString]) -> Option<Result<ExecArgs, clap::Error>> {
    let options = arguments.get(1).filter(|verb| *verb == "exec").map(|_| &arguments[2..])?;
    Some(plain(options).map_or_else(|| parse_with_clap(arguments), Ok))
}

/// Returns the words between `exec` and `--`; `None` if there is no `--`.
pub(super) fn spelling(arguments: &[OsString]) -> Option<Vec<OsString>> {
    let options = arguments.get(1).filter(|verb| *verb == "exec").map(|_| &arguments[2..])?;
    let end = options.iter().position(|word| word == "--")?;
    Some(options[..end].to_vec())
}

fn parse_with_clap(arguments: &[OsString]) -> Result<ExecArgs, clap::Error> {
    let ExecCli { command: ExecVerb::Exec(args) } = ExecCli::try_parse_from(arguments)?;
    Ok(args)
}

impl ExecArgs {
    /// Spells the options of that many devices for a `belfry exec` that prints nothing of its own.
    fn of_device(&self, gpus: usize) -> Vec<OsString> {
        let mut options: Vec<OsString> = vec!["--quiet".into()];
        options.extend(self.sanitize.spelled());
        options.extend(self.profile.spelled());
        options.extend(self.faults.spelled());
        options.extend(self.code.spelled());
        for path in &self.symbols {
            options.extend(["--symbols".into(), path.into()]);
        }
        let mut add = |name: &str, value: String| options.extend([name.into(), value.into()]);
        for chip in &self.chip {
            add("--chip", chip.clone());
        }
        add("--gpus", gpus.to_string());
        add("--cus", self.cus.to_string());
        add("--vram", self.vram.to_string());
        if let Some(links) = &self.gpus.links {
            add("--links", links.to_string());
        }
        if let Some(workers) = self.workers {
            add("--workers", workers.to_string());
        }
        if let Some(seed) = self.deterministic {
            add("--deterministic", seed.to_string());
        }
        if self.tier != Tier::Auto {
            add("--tier", self.tier.to_string());
        }
        if self.wait != Wait::Auto {
            add("--wait", self.wait.to_string());
        }
        if self.matrix != Matrices::Fast {
            add("--matrix", self.matrix.to_string());
        }
        if self.namespace {
            options.push("--namespace".into());
        }
        if self.debuggable {
            options.push("--debuggable".into());
        }
        options
    }
}

/// Becomes the program, or runs it and reports its end.
///
/// `asked` holds the options as they were spelled, if a program followed them.
pub(super) fn execute(mut args: ExecArgs, asked: Option<Vec<OsString>>) -> anyhow::Result<u8> {
    let plain = GpuConfig { cus: args.cus, vram_size: args.vram, ..GpuConfig::default() };
    let kinds = Kinds::of(&args.chip, args.gpus.usual_chip(), &plain)?;
    let mut gpu = kinds.first().clone();
    gpu.workers = args.workers.unwrap_or(gpu.workers);
    gpu.deterministic = args.deterministic;
    gpu.tier = args.tier;
    gpu.matrices = args.matrix;
    gpu.counts_code = args.costs;
    gpu.faults = args.faults.plan()?;
    let text = gpu.faults.to_string().len();
    ensure!(text <= MAX_PLAN, "a plan for exec has {MAX_PLAN} bytes at most, and this one has {text}");
    let strikes = !gpu.faults.is_off();
    gpu.validate()?;
    let names_no_root = args.image.is_none() && args.root.is_none();
    if names_no_root {
        args.image =
            absent::image_with(&args.program, &kinds.all().map(|kind| kind.chip).collect::<Vec<_>>())?;
    }
    let named = args.image.clone().map(Root::Named).or(args.root.clone().map(Root::Path));
    let (mut suite, mut own) = (None, None);
    match Asked::new(Place::Exec, named.as_ref(), &args.program)? {
        Asked::Program => {}
        Asked::Printed => return Ok(0),
        Asked::Suite(asked) => suite = Some(asked),
        Asked::Own(program) => own = Some(program),
    }
    if let Some(suite) = &mut suite {
        suite.set_chip(kinds.only_chip("a suite")?);
    }
    ensure!(suite.is_none() || !args.json, "--json tells of one program, and a suite is many; leave it out");
    ensure!(
        suite.is_none() || !args.trace.is_asked_for(),
        "--trace tells of one program, and a suite is many; leave it out"
    );
    let record = args.record.folder();
    ensure!(
        suite.is_none() || record.is_none(),
        "--record is of the processes of one program, and a suite is many; leave it out"
    );
    let inspect = args.inspect.options(&args.symbols);
    ensure!(
        suite.is_none() || inspect.is_none(),
        "--inspect and --gdb are for one program, and a suite is many; leave them out"
    );
    let is_shown = inspect.is_some() || args.profile.is_asked_for() || args.sanitize.is_asked_for();
    ensure!(
        is_shown || args.symbols.is_empty(),
        "--symbols is for --gdb, --inspect, --profile and --sanitize, and none of them is there"
    );
    let gpus = gpus::offered(&args, &gpu, &kinds)?;
    let device = args.of_device(gpus.count());
    if let Some(folder) = record {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("making the folder of records {}", folder.display()))?;
    }
    let root = match args.image {
        Some(name) => {
            if names_no_root && !args.quiet {
                let program = args.program[0].display();
                note!(
                    "belfry exec: {program} is not on this machine, and runs in root file system {name} (--image {name})"
                );
            }
            let tree = rootfs::obtain(&Cache::open()?, &name, Freshness::Cached, &Progress::new());
            Some(tree.with_context(|| format!("no image {name}"))?.path)
        }
        // Programs of suites start in another folder.
        None => args.root.map(std::path::absolute).transpose().context("--root")?,
    };
    args.sanitize.check_with(&[("--inspect and --gdb", inspect.is_some())])?;
    let sanitizing = args.sanitize.start(&args.symbols)?;
    let profiling = args.profile.start(&gpus, &args.symbols)?;
    let mut options = ExecOptions {
        gpus,
        code_folder: args.code.folder()?,
        root,
        namespace: args.namespace,
        debuggable: args.debuggable,
        wait: args.wait,
        inspect,
        trace: None,
        record: record.map(Into::into),
        sanitize: sanitizing.as_ref().map(|sanitizing| sanitizing.options().clone()),
        profile: profiling.as_ref().map(|profiling| profiling.options().clone()),
        program: args.program,
        asked: None,
    };
    let mut notice = String::new();
    if !args.quiet {
        notice = gpus::notice(&options.gpus);
        note!("{}", notice.trim_end());
    }
    let recorded = options.record.clone();
    let reports = args.json || sanitizing.is_some() || profiling.is_some() || strikes || recorded.is_some();
    // The next start would not see changes of the file.
    let has_file = matches!(args.gpus.links, Some(LinksArg::File(_)));
    if suite.is_none() && !reports && !args.trace.is_asked_for() && !has_file {
        options.asked = asked.map(|options| exec::Asked { options, notice });
    }
    if let (Some(own), Some(tree)) = (own, &options.root) {
        let program = own.compile(
            tree,
            suite::processor(kinds.only_chip("a program of belfry's own")?),
            &Progress::new(),
        )?;
        options.program.splice(..1, [program.into()]);
    }
    if let (Some(suite), Some(tree)) = (suite, &options.root) {
        return suite.compile(tree, &Progress::new())?.run(tree, device);
    }
    let recording = args.trace.start_processes()?;
    options.trace = recording.as_ref().map(|recording| exec::TraceTo {
        directory: recording.directory().to_owned(),
        size: recording.ring_size(),
    });
    let mut broken = false;
    let status = match (reports, &recording) {
        (false, None) => return Err(exec::replace(&options).into()),
        (false, Some(_)) => exec::wait(&options).map_err(anyhow::Error::from),
        (true, _) => {
            let stdout = if args.json { exec::Stdout::Moved } else { exec::Stdout::Kept };
            exec::run(&options, stdout).map_err(anyhow::Error::from).and_then(|mut report| {
                if let Some(profiling) = profiling {
                    let each = report.processes.iter_mut();
                    let all = each.filter_map(|of| profile::of_process(of.pid, &of.program, &mut of.profile));
                    profiling.finish_with(&all.collect::<Vec<_>>())?;
                }
                if let Some(sanitizing) = sanitizing {
                    let found = report.processes.iter_mut().filter_map(|process| process.sanitizer.take());
                    broken = sanitizing.quiet_if(args.quiet).finish_with(found)?;
                }
                if strikes && !args.quiet {
                    tell_faults(&report.processes);
                }
                if let Some(folder) = recorded.filter(|_| !args.quiet) {
                    report
                        .processes
                        .iter()
                        .filter_map(|of| of.record.as_ref())
                        .for_each(|of| record::tell_process(&folder, of));
                }
                if args.json {
                    say!("{}", serde_json::to_string(&report)?);
                }
                Ok(report.exit_status)
            })
        }
    };
    if let Some(recording) = recording {
        recording.finish();
    }
    Ok(sanitize::status(status?, broken))
}

/// Prints the faults that have struck in each process.
fn tell_faults(processes: &[exec::ProcessReport]) {
    for process in processes {
        let Some(faults) = &process.faults else { continue };
        let all: u64 = faults.struck.values().sum();
        note!("{} ({}): {all} faults have struck", process.program, process.pid);
        for strike in faults.strikes.iter().take(SHOWN) {
            note!("  {strike}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn plain_options_mean_what_they_mean_to_clap() {
        for line in [
            "belfry exec",
            "belfry exec --",
            "belfry exec -q -- true",
            "belfry exec --quiet -- program -q -- --root x",
            "belfry exec --root /tmp/tree --chip gfx1100 --cus 4 --vram 256M -- program",
            "belfry exec --chip=gfx9000",
            "belfry exec --root=/tmp/a=b --cus=4 --vram=2G --json -- program",
            "belfry exec --workers 3 --deterministic=7 --namespace",
            "belfry exec --tier 0",
            "belfry exec --matrix exact --tier=1 -- program",
            "belfry exec --code-cache /tmp/code -- program",
            "belfry exec --debuggable -- program",
            "belfry exec --gpus 2 -- program",
            "belfry exec --wait=block -- program",
            "belfry exec --image rocm-sid -- rocminfo",
        ] {
            let words = words(line);
            let plain = plain(&words[2..]).unwrap_or_else(|| panic!("{line} is left to clap"));
            let clap = parse_with_clap(&words).unwrap();
            assert_eq!(format!("{plain:?}"), format!("{clap:?}"), "{line}");
        }
    }

    #[test]
    fn device_of_a_suite_is_that_of_the_command_line() {
        let line = words(
            "belfry exec --gpus 2 --cus 4 --vram 256M --workers 3 --deterministic 7 --tier 1 --matrix exact --wait spin --code-cache code --namespace --debuggable -- hip-suite",
        );
        let args = plain(&line[2..]).unwrap();
        let mut again = vec![OsString::from("belfry"), OsString::from("exec")];
        again.extend(args.of_device(2));
        again.extend(["--".into(), "hip-suite".into()]);
        let again = plain(&again[2..]).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", ExecArgs { quiet: true, ..args }));
    }

    #[test]
    fn options_that_are_not_plain_are_left_to_clap() {
        for line in [
            "belfry exec --help",
            "belfry exec program",
            "belfry exec --cus",
            "belfry exec --cus -1",
            "belfry exec --cus many",
            "belfry exec --gpus 0 -- true",
            "belfry exec --gpus 9 -- true",
            "belfry exec --cus 2 --cus 4",
            "belfry exec --json --json",
            "belfry exec --json=yes",
            "belfry exec --root -- true",
            "belfry exec --root= -- true",
            "belfry exec --root / --image rocm -- true",
            "belfry exec --vram 1X",
            "belfry exec --unknown 1 -- true",
            "belfry exec --tier 2 -- true",
            "belfry exec --wait long -- true",
            "belfry exec --matrix slow -- true",
            "belfry exec --code-cache -- true",
            "belfry exec -qq",
        ] {
            assert!(plain(&words(line)[2..]).is_none(), "{line}");
        }
    }
}
