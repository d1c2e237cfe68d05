//! `belfry container` on the command line.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, bail};
use belfry_device::GpuConfig;
use belfry_device::chip;
use belfry_kfd_hosted::prepared::Wait;
use belfry_machine::Gpus;
use clap::{Args, Subcommand};

use super::gpus::GpusArgs;
use super::shape::Kinds;
use super::size::parse_size;
use crate::exec::{ExecOptions, container};
use crate::output::{note, say};

/// Gives the programs of containers a GPU: each process that opens it has one of its own. Nothing of the host is needed: no device, no
/// rights, no driver.
#[derive(Debug, Args)]
pub(super) struct ContainerArgs {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Writes a specification of devices (CDI), with which podman, docker and containerd take `--device belfry.dev/gpu=CHIP`.
    Cdi {
        #[command(flatten)]
        machine: MachineArgs,
        /// File of the specification: podman and docker read /etc/cdi and /run/cdi [default: standard output].
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Runs a program in a container with a GPU, through podman or docker.
    Run {
        #[command(flatten)]
        machine: MachineArgs,
        /// Engine of containers: a program of PATH, or a path [default: podman, or docker].
        #[arg(long, value_name = "PROGRAM")]
        engine: Option<OsString>,
        /// A further option of the engine's `run`, as in --option=--volume=/data:/data; repeatable.
        #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
        option: Vec<OsString>,
        /// Image of the container.
        image: OsString,
        /// The program and its arguments [default: the image's own].
        #[arg(last = true)]
        program: Vec<OsString>,
    },
}

/// GPUs of each process.
#[derive(Debug, Args)]
struct MachineArgs {
    /// Chip of the GPU, and its size; for several GPUs in one machine: repeatable. With `cdi`: chips of the devices [default: gfx1100; with
    /// `cdi` all chips].
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
}

impl MachineArgs {
    /// Returns the options of a machine with these chips.
    fn options(&self, chips: &[String]) -> anyhow::Result<ExecOptions> {
        let plain = GpuConfig { cus: self.cus, vram_size: self.vram, ..GpuConfig::default() };
        let kinds = Kinds::of(chips, self.gpus.usual_chip(), &plain)?;
        let gpu = kinds.first().clone();
        gpu.validate()?;
        let gpus: Gpus = self.gpus.machine(&gpu, &kinds, &[])?;
        Ok(ExecOptions {
            gpus,
            code_folder: None,
            root: None,
            namespace: false,
            trace: None,
            record: None,
            sanitize: None,
            profile: None,
            inspect: None,
            debuggable: false,
            wait: Wait::Auto,
            program: Vec::new(),
            asked: None,
        })
    }

    /// Returns the devices of a specification: one for each chip, named after it, with `-xN` for several GPUs.
    fn devices(&self) -> anyhow::Result<Vec<serde_json::Value>> {
        let chips = if self.chip.is_empty() {
            chip::MODELS.iter().map(|chip| chip.name.to_owned()).collect()
        } else {
            self.chip.clone()
        };
        let named = |chip: &String| {
            let options = self.options(std::slice::from_ref(chip))?;
            // A device's name has letters, digits and `_-.:` alone.
            let mut name: String =
                chip.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
            if options.gpus.count() > 1 {
                name += &format!("-x{}", options.gpus.count());
            }
            Ok(options.container_parts()?.device(&name))
        };
        chips.iter().map(named).collect()
    }
}

pub(super) fn execute(args: ContainerArgs) -> anyhow::Result<u8> {
    match args.task {
        Task::Cdi { machine, out } => {
            let spec = format!("{:#}", container::cdi(&machine.devices()?));
            match out {
                None => say!("{spec}"),
                Some(path) => {
                    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                    folder.map_or(Ok(()), fs::create_dir_all).with_context(|| path.display().to_string())?;
                    fs::write(&path, spec + "\n").with_context(|| path.display().to_string())?;
                    note!("belfry container: {} has the devices of {}", path.display(), container::CDI_KIND);
                }
            }
            Ok(0)
        }
        Task::Run { machine, engine, option, image, program } => {
            let parts = machine.options(&machine.chip)?.container_parts()?;
            let engines =
                engine.map_or_else(|| vec!["podman".into(), "docker".into()], |engine| vec![engine]);
            for engine in &engines {
                let mut command = Command::new(engine);
                command.args(["run", "--rm"]).args(parts.options()).args(&option).arg(&image).args(&program);
                // It returns only if the engine cannot be started.
                let error = command.exec();
                if error.kind() != io::ErrorKind::NotFound {
                    return Err(error).with_context(|| engine.display().to_string());
                }
            }
            let names: Vec<_> = engines.iter().map(|engine| engine.display().to_string()).collect();
            bail!(
                "no directory of PATH has {}: install podman, or name an engine with --engine",
                names.join(" or ")
            )
        }
    }
}
