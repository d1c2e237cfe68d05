//! `belfry exec` on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use belfry_device::GpuConfig;
use belfry_device::chip::{self, Model};
use clap::{Args, Parser, Subcommand};

use super::size::parse_size;
use crate::exec::{self, ExecOptions};
use crate::output::{note, say};

/// `belfry exec` alone: a program that has nothing to do with a GPU is not to wait for the other commands' options.
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
    /// A root file system to run in: a directory, made by `cargo xtask rootfs` for example.
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Which chip the GPU is; `belfry chips` lists them.
    #[arg(long, value_name = "NAME", default_value = chip::DEFAULT.name)]
    chip: String,
    /// Compute units: even, 2 to as many as the chip has.
    #[arg(long, value_name = "N", default_value_t = GpuConfig::default().cus)]
    cus: u32,
    /// VRAM: a power of two from 16M to 16G.
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    vram: u64,
    /// Worker threads that execute waves.
    #[arg(long, value_name = "N")]
    workers: Option<usize>,
    /// Executes waves in an order that follows from this number alone, on one worker thread.
    #[arg(long, value_name = "SEED")]
    deterministic: Option<u64>,
    /// Mounts the GPU's files under /sys and /dev for this program alone, for programs that are linked statically: they
    /// see them, but cannot use the GPU.
    #[arg(long)]
    namespace: bool,
    /// Prints a summary as one JSON object on stdout; the program's output goes to stderr.
    #[arg(long)]
    json: bool,
    /// Says nothing of its own.
    #[arg(long, short)]
    quiet: bool,
    /// The program and its arguments [default: a shell].
    #[arg(last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The options of `belfry exec ...`; none if that is not what a command line says.
pub(super) fn parse(arguments: &[OsString]) -> Option<Result<ExecArgs, clap::Error>> {
    let is_exec = arguments.get(1).is_some_and(|verb| verb == "exec");
    is_exec.then(|| {
        let ExecCli { command: ExecVerb::Exec(args) } = ExecCli::try_parse_from(arguments)?;
        Ok(args)
    })
}

/// Becomes the program, or runs it and tells what came of it.
pub(super) fn execute(args: ExecArgs) -> anyhow::Result<u8> {
    let chip = Model::named(&args.chip)?;
    let mut gpu = GpuConfig { chip, cus: args.cus, vram_size: args.vram, ..GpuConfig::default() };
    gpu.workers = args.workers.unwrap_or(gpu.workers);
    gpu.deterministic = args.deterministic;
    gpu.validate()?;
    let options = ExecOptions { gpu, root: args.root, namespace: args.namespace, program: args.program };
    if !args.quiet {
        let GpuConfig { chip, cus, vram_size, .. } = options.gpu;
        note!(
            "belfry exec: {chip} with {cus} CUs and {} MiB in each process that opens it; guest driver and VM are not in the path",
            vram_size >> 20
        );
    }
    if !args.json {
        return Err(exec::replace(&options).into());
    }
    let report = exec::run(&options)?;
    say!("{}", serde_json::to_string(&report)?);
    Ok(u8::try_from(report.exit_status).unwrap_or(1))
}
