//! Runs in a guest: on Belfry's own machine, in QEMU, or on the best of them that works.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_embedded::PARTS;
use belfry_guest::qemu::{accelerator_is_forced, choose_accelerator};
use belfry_guest::{
    Accelerator, Guest, GuestConfig, GuestError, KvmConfig, MachineConfig, QemuConfig, Stream, Terminal,
};
use belfry_image::rootfs::RootDisk;
use belfry_image::{Cache, Freshness, GuestImage, ImageError, Progress, artifacts};
use belfry_machine::{DiskConfig, DiskFormat, HugePages, KvmError, totals};
use belfry_vfio_user::DoorbellMode;

use super::program::Errand;
use super::report::{RunReport, from_device, milliseconds};
use super::{
    Driver, MachineOptions, Mode, PROGRAM_DIRECTORY, RunError, RunOptions, driver_trace, in_process,
    inspected, stock, warm,
};
use crate::doorbell::{self, NoSuchWay};
use crate::hosted;
use crate::own_machine::{self, Unusable};
use crate::snapshot::{Source, Taking, Watch};
use crate::suite::Compiled;

/// Time limit of a boot of QEMU with KVM; a longer one is taken for one that never ends.
const KVM_BOOT: Duration = Duration::from_secs(60);

/// Memory of a guest with a root file system: enough for ROCm's own compilers; only used memory costs anything.
const ROOT_MEMORY: u64 = 4 << 30;
/// Environment of every program.
pub(crate) const ENVIRONMENT: [&str; 3] = ["PATH=/bin", "HOME=/root", "RUST_BACKTRACE=0"];
/// Environment of programs in a root file system, as a login has it; TERM comes from this process.
const ROOT_ENVIRONMENT: [&str; 6] = [
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/root",
    "USER=root",
    "LOGNAME=root",
    "SHELL=/bin/sh",
    "LANG=C.UTF-8",
];

/// A program to run, and all that is needed for the run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Job<'a> {
    pub(super) options: &'a RunOptions,
    pub(super) program: &'a str,
    pub(super) arguments: &'a [String],
    /// The suite of belfry's that the program is, if it is one.
    pub(super) suite: Option<&'a Compiled<'a>>,
    pub(super) cache: &'a Cache,
    pub(super) progress: &'a Progress,
}

/// Function that takes the program's output.
pub(super) type Output<'a> = &'a mut (dyn FnMut(Stream, &[u8]) + Send);

/// Files that a guest is booted from.
struct Parts {
    image: GuestImage,
    /// The disk with its root file system; it stays in the cache as long as this value lives.
    root: Option<RootDisk>,
}

/// A guest that has booted.
struct Booted {
    guest: Guest,
    mode: Mode,
    accelerator: Accelerator,
    /// Time that the driver took to load, if it is loaded already.
    driver: Option<Duration>,
}

impl Job<'_> {
    /// Runs where the probe and the machine allow: on Belfry's own machine, in QEMU, or hosted; prints the choice and
    /// its reason.
    pub(super) fn anywhere(&self, output: Output<'_>) -> Result<RunReport, RunError> {
        let errand = self.errand()?;
        let parts = match self.parts() {
            Ok(parts) => parts,
            Err(error) => return self.hosted_instead(error, output),
        };
        // A record is of one machine: after a guest that does not boot, no other one can be recorded.
        let is_only_one = self.options.gpus.first.record.is_some();
        let why_not_kvm = match (self.doorbell_on_kvm(), own_machine::usable(self.cache)) {
            (Err(error), _) => error.to_string(),
            (_, Err(error)) => error.to_string(),
            (Ok(_), Ok(speed)) => {
                self.progress.line(&format!("mode kvm: {speed} on this /dev/kvm"));
                match self.boot_on_kvm(&parts) {
                    Ok(guest) => return self.carry_out(guest, &errand, None, output),
                    Err(error) if is_only_one => return Err(error),
                    Err(error) => format!("the guest does not boot on Belfry's own machine: {error}"),
                }
            }
        };
        self.progress.line(&format!("mode qemu: {why_not_kvm}"));
        match self.boot_in_qemu(&parts) {
            Ok(guest) => self.carry_out(guest, &errand, None, output),
            Err(error @ (RunError::Guest(GuestError::Start { .. }) | RunError::Image(_))) if !is_only_one => {
                self.hosted_instead(error, output)
            }
            Err(error) => Err(error),
        }
    }

    /// Runs on Belfry's own machine, even if the probe found it slow.
    pub(super) fn on_kvm(&self, output: Output<'_>) -> Result<RunReport, RunError> {
        self.doorbell_on_kvm()?;
        match own_machine::usable(self.cache) {
            Ok(_) => {}
            Err(Unusable::NoMachine(error)) => return Err(error.into()),
            Err(error @ Unusable::Slow(_)) => {
                let hint =
                    "a stock kernel takes very long to boot so, if it boots at all; --mode qemu is faster";
                self.progress.line(&format!("warning: {error}; {hint}"));
            }
        }
        let errand = self.errand()?;
        let parts = self.parts()?;
        let mut gpus = self.options.gpus.clone();
        let watch = Watch::over(&mut gpus.first, self.options.snapshot.as_ref());
        let options = RunOptions { gpus, ..self.options.clone() };
        let job = Job { options: &options, ..*self };
        let guest = match options.warm {
            false => job.boot_on_kvm(&parts)?,
            true => job.warm(&parts)?,
        };
        job.carry_out(guest, &errand, watch.as_deref(), output)
    }

    /// Returns a guest that has its driver already: from a snapshot, or a booted one that is saved for later runs.
    fn warm(&self, parts: &Parts) -> Result<Booted, RunError> {
        let doorbell = self.doorbell_on_kvm()?;
        let machine = MachineConfig::Kvm(KvmConfig { doorbell, huge_pages: self.options.machine.huge_pages });
        let config = self.config(machine)?;
        let place = warm::place(&parts.image, &config, doorbell, self.cache)?;
        match warm::resume(&place, self.options.gpus.first.clone(), self.cache) {
            Ok(Some(guest)) => {
                self.progress.line("going on from a guest that has booted");
                let (mode, accelerator, driver) = (Mode::Kvm, Accelerator::Kvm, Some(Duration::ZERO));
                return Ok(Booted { guest, mode, accelerator, driver });
            }
            Ok(None) => {}
            Err(error) => self.progress.line(&format!("a guest that has booted cannot go on: {error}")),
        }
        let mut booted = self.boot_on_kvm(parts)?;
        booted.driver = Some(booted.guest.load_driver()?);
        match warm::keep(&booted.guest, &place) {
            Ok(text) => self.progress.line(&text),
            // The next run then boots as well.
            Err(error) => self.progress.line(&format!("this guest is not kept for the next run: {error}")),
        }
        Ok(booted)
    }

    /// Runs in QEMU.
    pub(super) fn in_qemu(&self, output: Output<'_>) -> Result<RunReport, RunError> {
        self.on_qemu()?;
        let errand = self.errand()?;
        let parts = self.parts()?;
        let guest = self.boot_in_qemu(&parts)?;
        self.carry_out(guest, &errand, None, output)
    }

    fn errand(&self) -> Result<Errand, RunError> {
        Errand::new(self.options, self.program, self.arguments)
    }

    fn parts(&self) -> Result<Parts, RunError> {
        let prepare = match self.options.driver {
            Driver::Own => belfry_image::prepare,
            Driver::Stock => belfry_image::prepare_stock,
        };
        let image = prepare(self.cache, &PARTS, Freshness::Cached, self.progress);
        let image = image.map_err(RunError::Image)?;
        let Some(root) = &self.options.root else { return Ok(Parts { image, root: None }) };
        let image = belfry_image::with_root(image, self.cache).map_err(RunError::Image)?;
        let root = root.disk(self.cache, self.progress)?;
        Ok(Parts { image, root: Some(root) })
    }

    /// Runs the examples hosted if no guest is available.
    fn hosted_instead(&self, error: RunError, output: Output<'_>) -> Result<RunReport, RunError> {
        let asks_for_a_machine = self.options.machine != MachineOptions::default()
            || self.options.root.is_some()
            || self.options.driver == Driver::Stock;
        if asks_for_a_machine || !belfry_examples::NAMES.contains(&self.program) {
            return Err(error);
        }
        self.progress.line(&format!("mode hosted: no VM can be had here: {error}"));
        in_process::run(self.options, self.program, self.arguments, output)
    }

    fn config(&self, machine: MachineConfig) -> Result<GuestConfig, RunError> {
        let MachineOptions { cpus, memory, disks, append, .. } = self.options.machine.clone();
        let default = GuestConfig::default();
        let terminal = self.options.interactive.then(Terminal::standard).transpose();
        let terminal = terminal.map_err(RunError::Terminal)?.map(Arc::new);
        Ok(GuestConfig {
            machine,
            gpus: self
                .options
                .gpus
                .all()
                .into_iter()
                .map(|gpu| stock::gpu(self.options.driver, gpu))
                .collect(),
            links: self.options.gpus.links,
            cpus: cpus.map_or(default.cpus, u32::from),
            memory: memory.unwrap_or(if self.options.root.is_some() { ROOT_MEMORY } else { default.memory }),
            disks,
            shares: self.options.shares.clone(),
            network: self.options.network,
            terminal,
            append,
            ..default
        })
    }

    /// Returns the doorbell mode of Belfry's own machine.
    fn doorbell_on_kvm(&self) -> Result<belfry_machine::DoorbellMode, NoSuchWay> {
        doorbell::on_kvm(self.options.doorbell, self.options.gpus.first.works_on_copy())
    }

    fn boot_on_kvm(&self, parts: &Parts) -> Result<Booted, RunError> {
        let doorbell = self.doorbell_on_kvm()?;
        let huge_pages = self.options.machine.huge_pages;
        let machine = MachineConfig::Kvm(KvmConfig { doorbell, huge_pages });
        let guest = self.boot(parts, self.config(machine)?, "Belfry's own machine")?;
        Ok(Booted { guest, mode: Mode::Kvm, accelerator: Accelerator::Kvm, driver: None })
    }

    /// Returns the doorbell mode of QEMU, and refuses options that QEMU does not have.
    fn on_qemu(&self) -> Result<DoorbellMode, RunError> {
        if self.options.machine.huge_pages != HugePages::Off {
            return Err(RunError::WrongGuest("--huge-pages is for Belfry's own machine; use --mode kvm"));
        }
        Ok(doorbell::on_qemu(self.options.doorbell)?)
    }

    /// Boots with KVM if it works, and reports a KVM that only seemed to work.
    fn boot_in_qemu(&self, parts: &Parts) -> Result<Booted, RunError> {
        let doorbell = self.on_qemu()?;
        let program = artifacts::qemu(self.cache, Freshness::Cached, self.progress);
        let program = program.map_err(ImageError::from).map_err(RunError::Image)?;
        let attempt = |accelerator| -> Result<Booted, RunError> {
            let qemu = QemuConfig { program: Some(program.clone()), accelerator, doorbell };
            let mut config = self.config(MachineConfig::Qemu(qemu))?;
            if accelerator == Accelerator::Kvm {
                config.boot_timeout = KVM_BOOT;
            }
            let guest = self.boot(parts, config, &format!("QEMU, {accelerator}"))?;
            Ok(Booted { guest, mode: Mode::Qemu, accelerator, driver: None })
        };
        match (choose_accelerator(self.cache, &program), accelerator_is_forced()) {
            // A record is of one machine, so that a failed boot is not followed by a second one.
            (Accelerator::Kvm, false) if self.options.gpus.first.record.is_none() => {
                attempt(Accelerator::Kvm).or_else(|error| {
                    let text = format!("the guest does not boot with KVM, translating instead: {error}");
                    self.progress.line(&text);
                    attempt(Accelerator::Tcg)
                })
            }
            (accelerator, _) => attempt(accelerator),
        }
    }

    fn boot(&self, parts: &Parts, config: GuestConfig, what: &str) -> Result<Guest, GuestError> {
        let Parts { image, root } = parts;
        let root = root.as_ref().map(|disk| DiskConfig {
            format: if disk.qcow2 { DiskFormat::Qcow2 } else { DiskFormat::Raw },
            ..DiskConfig::new(&disk.path)
        });
        let config = GuestConfig { root, ..config };
        let title = format!("booting Debian's kernel {} ({what})", image.kernel.release);
        let step = self.progress.spinner(&title);
        let guest = Guest::boot(image, &config, self.cache)?;
        step.done("up");
        Ok(guest)
    }

    fn environment(&self) -> Vec<String> {
        if self.options.root.is_none() {
            return ENVIRONMENT.map(str::to_owned).to_vec();
        }
        let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
        let own = ROOT_ENVIRONMENT.iter().map(|&entry| entry.to_owned());
        own.chain([format!("TERM={terminal}")]).collect()
    }

    /// Runs the program to its end; returns its exit status.
    fn run_program(&self, guest: &mut Guest, errand: &Errand, output: Output<'_>) -> Result<i32, RunError> {
        let (argv, environment) = (&errand.argv, self.environment());
        let id = match self.options.interactive {
            false => guest.spawn(argv, &environment, PROGRAM_DIRECTORY)?,
            true => guest.spawn_on_terminal(argv, &environment, PROGRAM_DIRECTORY)?,
        };
        // A snapshot keeps the program's number, so that the run that goes on from it can wait for this program.
        guest.keep(Some((id, argv)));
        match guest.wait(id, self.options.timeout, output) {
            Err(source @ GuestError::Timeout { .. }) if guest.gpu().is_some() => {
                let running = guest.gpu().map(|gpu| hosted::running(gpu)).unwrap_or_default();
                Err(RunError::Hung { running, source: Box::new(source) })
            }
            exit => Ok(exit?.status),
        }
    }

    /// Loads the driver, runs the program and switches the guest off.
    fn carry_out(
        &self,
        booted: Booted,
        errand: &Errand,
        watch: Option<&Watch>,
        output: Output<'_>,
    ) -> Result<RunReport, RunError> {
        let Booted { mut guest, mode, accelerator, driver } = booted;
        let inspector = inspected(self.options, guest.gpus())?;
        if let (Some(onlookers), Some(saver)) = (&inspector, guest.saver()) {
            onlookers.can_save(Source::Machine(Arc::downgrade(&saver)).into_save());
        }
        let driver = driver.map_or_else(|| guest.load_driver(), Ok)?;
        if self.options.driver == Driver::Stock {
            guest.check_bound()?;
        }
        guest.enter_root()?;
        let is_recorded = driver_trace::start(&mut guest, &self.options.gpus.first)?;
        let started = Instant::now();
        errand.send(&mut guest)?;
        log::debug!(target: "run", "files sent in {:?}", started.elapsed());

        let taking = match (&self.options.snapshot, guest.saver()) {
            (Some(snapshot), Some(saver)) => {
                let taking =
                    Taking::start(snapshot, (Source::Machine(Arc::downgrade(&saver)), guest.gpu()), watch);
                Some(taking.map_err(|source| KvmError::Setup { what: "start a thread", source })?)
            }
            _ => None,
        };
        let started = Instant::now();
        let exit_status = match self.suite {
            None => self.run_program(&mut guest, errand, output),
            Some(suite) => {
                let mut line = |text: &str| output(Stream::Stdout, format!("{text}\n").as_bytes());
                suite.run_in(&mut guest, &mut line).map(i32::from).map_err(RunError::Suite)
            }
        };
        taking.into_iter().for_each(Taking::finish);
        let exit_status = exit_status?;
        let program_time = started.elapsed();
        driver_trace::finish(&mut guest, is_recorded)?;
        if exit_status == 0 {
            errand.fetch(&mut guest)?;
        }
        let (stats, unmodelled) = totals(guest.gpus().iter().map(|gpu| &**gpu));
        let phases = guest.phases();
        let report = RunReport {
            mode,
            accelerator: Some(accelerator.to_string()),
            kernel: Some(guest.kernel().to_owned()),
            root: self.options.root.as_ref().map(ToString::to_string),
            driver: Some(self.options.driver),
            program: self.program.to_owned(),
            arguments: self.arguments.to_vec(),
            exit_status,
            boot_ms: milliseconds(phases.init),
            driver_ms: milliseconds(driver),
            program_ms: milliseconds(program_time),
            phases: Some(phases.into()),
            ..from_device(&stats, unmodelled)
        }
        .with_faults(&guest.gpu().map(|gpu| gpu.faults().report()).unwrap_or_default());
        if let Some(onlookers) = &inspector {
            onlookers.ended(exit_status);
        }
        // A GPU that was left halted goes on, so that its driver can let go of it.
        drop(inspector);
        guest.power_off()?;
        Ok(report)
    }
}
