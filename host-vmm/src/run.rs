//! One program, run to its end in a guest or hosted, with everything it needs brought along.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use belfry_device::{GpuConfig, Stats};
use belfry_examples::launch;
use serde::Serialize;

use crate::doorbell::{self, Doorbell, NoSuchWay};
use crate::guest::qemu::{accelerator_is_forced, choose_accelerator};
use crate::guest::{Accelerator, Guest, GuestConfig, GuestError, MachineConfig, QemuConfig, Stream};
use crate::hosted::{self, HostedError};
use crate::image::guest::EXAMPLES;
use crate::image::{Cache, CacheError, Freshness, GuestImage, ImageError, Progress, artifacts};
use crate::kvm::{End, KvmError, bare_metal};

/// How long a boot with KVM may take before it is taken for one that never ends.
const KVM_BOOT: Duration = Duration::from_secs(60);

/// The program that runs when none is named.
pub const DEFAULT_PROGRAM: &str = "vector-add";

/// Where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In a guest where one can be had, hosted elsewhere.
    #[default]
    Auto,
    /// In this process, over the hosted driver.
    Hosted,
    /// In a Debian guest under QEMU.
    Qemu,
    /// On Belfry's own machine, over /dev/kvm; so far for the bare-metal guest only.
    Kvm,
}

/// What the machine boots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum GuestKind {
    /// Debian's kernel with the driver, and a program.
    #[default]
    Debian,
    /// A kernel that drives the GPU by itself, in a fraction of a second; takes no program.
    BareMetal,
}

/// A file to bring along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileMapping {
    /// Where it is.
    pub host: PathBuf,
    /// Where the program finds it.
    pub guest: String,
}

impl std::str::FromStr for FileMapping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.rsplit_once(':') {
            Some((host, guest)) if !host.is_empty() && !guest.is_empty() => {
                Ok(Self { host: host.into(), guest: guest.to_owned() })
            }
            _ => Err("expected HOST:GUEST".to_owned()),
        }
    }
}

/// What to run, and how.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Where.
    pub mode: Mode,
    /// In what guest, where there is one.
    pub guest: GuestKind,
    /// The program's name or path, and its arguments; empty for [`DEFAULT_PROGRAM`].
    pub program: Vec<String>,
    /// The device.
    pub gpu: GpuConfig,
    /// How doorbells travel, if not as the mode has them by default; hosted programs have no choice.
    pub doorbell: Option<Doorbell>,
    /// Files to bring along.
    pub files: Vec<FileMapping>,
    /// How long the program may run.
    pub timeout: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            mode: Mode::Auto,
            guest: GuestKind::Debian,
            program: Vec::new(),
            gpu: GpuConfig::default(),
            doorbell: None,
            files: Vec::new(),
            timeout: Duration::from_secs(600),
        }
    }
}

/// Doorbells by the way they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Doorbells {
    /// Writes that reached the device as accesses.
    pub trapped: u64,
    /// Writes announced to the device, without their value.
    pub woken: u64,
    /// Writes found in the mapped page.
    pub polled: u64,
}

/// What came of it; `--json` prints this.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunReport {
    /// Where the program ran: anything but [`Mode::Auto`].
    pub mode: Mode,
    /// `kvm` or `tcg`, where there was a guest.
    pub accelerator: Option<String>,
    /// The guest's kernel, where there was one.
    pub kernel: Option<String>,
    /// The program's name or path.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its exit status; 128 + the signal's number for a killed program.
    pub exit_status: i32,
    /// Milliseconds from the start to a machine with a device.
    pub boot_ms: f64,
    /// Milliseconds to load the driver.
    pub driver_ms: f64,
    /// Milliseconds the program took.
    pub program_ms: f64,
    /// Kernel dispatches completed.
    pub dispatches: u64,
    /// Waves run.
    pub waves: u64,
    /// Wave instructions executed.
    pub wave_instructions: u64,
    /// Doorbells.
    pub doorbells: Doorbells,
    /// GPU page table walks.
    pub page_walks: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// What the guest did wrong, by name, with how often.
    pub errors: BTreeMap<String, u64>,
    /// Registers the driver used that the device stores without any behaviour, most used first.
    pub unmodelled: Vec<Unmodelled>,
}

/// A register without behaviour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmodelled {
    /// Its name, or its offset.
    pub register: String,
    /// How often it was read.
    pub reads: u64,
    /// How often it was written.
    pub writes: u64,
}

/// Why a program could not be run; a program that ran and failed is not an error.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The guest's parts could not be had.
    #[error("no guest can be put together: {0}")]
    Image(#[source] ImageError),
    /// The guest failed.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// The hosted driver or device failed.
    #[error(transparent)]
    Hosted(#[from] HostedError),
    /// Belfry's own machine failed.
    #[error(transparent)]
    Kvm(#[from] KvmError),
    /// Doorbells by a way the mode does not have.
    #[error(transparent)]
    Doorbell(#[from] NoSuchWay),
    /// A guest in a mode that does not boot it.
    #[error("{0}")]
    WrongGuest(&'static str),
    /// The program is neither an example nor a file.
    #[error("{0} is neither an example ({names}) nor a file", names = belfry_examples::NAMES.join(", "))]
    NoProgram(String),
    /// The arguments of `launch` make no sense, or name files that are not there.
    #[error("{0:#}")]
    Arguments(anyhow::Error),
    /// The program cannot run in a guest.
    #[error("{program}: {why}")]
    BadProgram {
        /// Its path.
        program: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Only the examples run hosted.
    #[error("{0} is not one of the examples, and hosted mode runs nothing else; use --mode qemu")]
    NotHosted(String),
    /// A file could not be read or written.
    #[error("{action} {path}: {source}")]
    File {
        /// What was tried.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Runs a program and collects what came of it; `output` gets what it writes, as it comes.
pub fn run(
    options: &RunOptions,
    progress: &Progress,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    if options.guest == GuestKind::BareMetal {
        return match options.mode {
            Mode::Kvm => bare_metal_guest(options, output),
            _ => Err(RunError::WrongGuest("the bare-metal guest runs with --mode kvm only")),
        };
    }
    let program = options.program.first().map_or(DEFAULT_PROGRAM, String::as_str);
    let arguments = options.program.get(1..).unwrap_or_default();
    let bundled = belfry_examples::NAMES.contains(&program);
    if !bundled && !Path::new(program).is_file() {
        return Err(RunError::NoProgram(program.to_owned()));
    }
    match options.mode {
        Mode::Hosted if bundled => hosted(options, program, arguments, output),
        Mode::Hosted => Err(RunError::NotHosted(program.to_owned())),
        Mode::Qemu => in_guest(options, program, arguments, progress, output),
        Mode::Kvm => Err(RunError::WrongGuest(
            "kvm mode boots the bare-metal guest only, so far; use --guest bare-metal, or --mode qemu",
        )),
        Mode::Auto => {
            let cache = Cache::open()?;
            match GuestImage::prepare(&cache, Freshness::Cached, progress) {
                Ok(image) => {
                    match boot_and_run(options, program, arguments, &cache, &image, progress, output) {
                        Err(error @ (RunError::Guest(GuestError::Start { .. }) | RunError::Image(_)))
                            if bundled =>
                        {
                            progress.line(&format!("no VM can be had here, running hosted instead: {error}"));
                            hosted(options, program, arguments, output)
                        }
                        result => result,
                    }
                }
                Err(error) if bundled => {
                    progress.line(&format!("no VM can be had here, running hosted instead: {error}"));
                    hosted(options, program, arguments, output)
                }
                Err(error) => Err(RunError::Image(error)),
            }
        }
    }
}

/// Builds and runs the bare-metal guest.
fn bare_metal_guest(
    options: &RunOptions,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    if !options.program.is_empty() || !options.files.is_empty() {
        return Err(RunError::WrongGuest("the bare-metal guest takes no program and no files"));
    }
    let doorbells = doorbell::on_kvm(options.doorbell)?;
    let mut show = |data: &[u8]| output(Stream::Stdout, data);
    let outcome = bare_metal::run(options.gpu.clone(), doorbells, options.timeout, &mut show)?;
    let End::Exit(status) = outcome.end else { return Err(KvmError::Ended(outcome.end.to_string()).into()) };
    Ok(RunReport {
        mode: Mode::Kvm,
        accelerator: Some("kvm".to_owned()),
        kernel: Some("bare-metal".to_owned()),
        program: "bare-metal".to_owned(),
        exit_status: status.into(),
        boot_ms: milliseconds(outcome.setup),
        program_ms: milliseconds(outcome.ran),
        ..from_device(&outcome.stats, outcome.unmodelled)
    })
}

fn in_guest(
    options: &RunOptions,
    program: &str,
    arguments: &[String],
    progress: &Progress,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    let cache = Cache::open()?;
    let image = GuestImage::prepare(&cache, Freshness::Cached, progress).map_err(RunError::Image)?;
    boot_and_run(options, program, arguments, &cache, &image, progress, output)
}

fn boot_and_run(
    options: &RunOptions,
    program: &str,
    arguments: &[String],
    cache: &Cache,
    image: &GuestImage,
    progress: &Progress,
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    let mut files = Vec::new();
    let mut outputs = Vec::new();
    let mut argv = vec![EXAMPLES.to_owned(), program.to_owned()];
    if program == "launch" {
        let carried = launch::files(arguments).map_err(RunError::Arguments)?;
        for file in carried.inputs {
            files.push((guest_path(&file.guest), 0o644, read(&file.host)?));
        }
        outputs = carried.outputs;
        argv.extend(carried.args);
    } else if belfry_examples::NAMES.contains(&program) {
        argv.extend_from_slice(arguments);
    } else {
        let content = read(Path::new(program))?;
        check_static(program, &content)?;
        let name = Path::new(program).file_name().unwrap_or_default();
        let path = guest_path(&Path::new("/bin").join(name));
        argv = vec![path.clone()];
        argv.extend_from_slice(arguments);
        files.push((path, 0o755, content));
    }
    for mapping in &options.files {
        files.push((guest_path(&Path::new("/root").join(&mapping.guest)), 0o755, read(&mapping.host)?));
    }

    let (mut guest, accelerator) = boot(options, cache, image, progress)?;
    let driver = guest.load_driver()?;
    let started = Instant::now();
    for (path, mode, content) in &files {
        guest.put_file(path, *mode, content)?;
    }
    // Where outputs go must be there before the program writes them.
    for output in &outputs {
        guest.put_file(&guest_path(&output.guest), 0o644, b"")?;
    }
    log::debug!(target: "run", "{} files sent in {:?}", files.len(), started.elapsed());

    let started = Instant::now();
    let environment = ["PATH=/bin", "HOME=/root", "RUST_BACKTRACE=0"].map(str::to_owned);
    let id = guest.spawn(&argv, &environment, "/root")?;
    let exit = guest.wait(id, options.timeout, output)?;
    let program_time = started.elapsed();
    if exit.status == 0 {
        for output in &outputs {
            let content = guest.get_file(&guest_path(&output.guest))?;
            fs::write(&output.host, content).map_err(|source| file_error("write", &output.host, source))?;
        }
    }
    let stats = guest.gpu().map(|gpu| gpu.stats()).unwrap_or_default();
    let unmodelled = guest.gpu().map(|gpu| gpu.unmodelled()).unwrap_or_default();
    let report = RunReport {
        mode: Mode::Qemu,
        accelerator: Some(accelerator.to_string()),
        kernel: Some(guest.kernel().to_owned()),
        program: program.to_owned(),
        arguments: arguments.to_vec(),
        exit_status: exit.status,
        boot_ms: milliseconds(guest.boot_time()),
        driver_ms: milliseconds(driver),
        program_ms: milliseconds(program_time),
        ..from_device(&stats, unmodelled)
    };
    guest.power_off()?;
    Ok(report)
}

/// Boots with KVM where it works, and says so where it only seemed to.
fn boot(
    options: &RunOptions,
    cache: &Cache,
    image: &GuestImage,
    progress: &Progress,
) -> Result<(Guest, Accelerator), RunError> {
    let doorbell = doorbell::on_qemu(options.doorbell)?;
    let qemu = artifacts::qemu(cache, Freshness::Cached, progress).map_err(ImageError::from);
    let qemu = qemu.map_err(RunError::Image)?;
    let attempt = |accelerator| {
        let machine = QemuConfig { program: Some(qemu.clone()), accelerator, doorbell };
        let mut config = GuestConfig {
            machine: MachineConfig::Qemu(machine),
            gpu: Some(options.gpu.clone()),
            ..GuestConfig::default()
        };
        if accelerator == Accelerator::Kvm {
            config.boot_timeout = KVM_BOOT;
        }
        let title = format!("booting Debian's kernel {} ({accelerator})", image.kernel.release);
        let step = progress.spinner(&title);
        let guest = Guest::boot(image, &config, cache)?;
        step.done("up");
        Ok((guest, accelerator))
    };
    match (choose_accelerator(cache, &qemu), accelerator_is_forced()) {
        (Accelerator::Kvm, false) => attempt(Accelerator::Kvm).or_else(|error: GuestError| {
            progress.line(&format!("the guest does not boot with KVM, translating instead: {error}"));
            Ok(attempt(Accelerator::Tcg)?)
        }),
        (accelerator, _) => Ok(attempt(accelerator)?),
    }
}

fn hosted(
    options: &RunOptions,
    program: &str,
    arguments: &[String],
    output: &mut (dyn FnMut(Stream, &[u8]) + Send),
) -> Result<RunReport, RunError> {
    // What a guest would find at the mapped path is here under its own name.
    let mut arguments = arguments.to_vec();
    for mapping in &options.files {
        for argument in &mut arguments {
            *argument = substitute(argument, &mapping.guest, &mapping.host.display().to_string());
        }
    }
    if program == "launch" {
        launch::check(&arguments).map_err(RunError::Arguments)?;
    }
    let outcome = hosted::run(&options.gpu, program, &arguments, options.timeout, output)?;
    Ok(RunReport {
        mode: Mode::Hosted,
        program: program.to_owned(),
        arguments: options.program.get(1..).unwrap_or_default().to_vec(),
        exit_status: outcome.exit_status,
        boot_ms: milliseconds(outcome.device),
        driver_ms: milliseconds(outcome.driver),
        program_ms: milliseconds(outcome.program),
        ..from_device(&outcome.stats, outcome.unmodelled)
    })
}

/// Replaces `guest` by `host` where it is the whole argument or a path within a buffer's specification.
fn substitute(argument: &str, guest: &str, host: &str) -> String {
    if argument == guest {
        return host.to_owned();
    }
    let mut text = argument.to_owned();
    for key in ["file:", "out="] {
        let wanted = format!("{key}{guest}");
        if let Some(at) = text.find(&wanted) {
            let end = at + wanted.len();
            if end == text.len() || text[end..].starts_with(":out=") {
                text.replace_range(at + key.len()..end, host);
            }
        }
    }
    text
}

/// A report with what the device counted, and nothing else.
fn from_device(stats: &Stats, unmodelled: Vec<(String, u64, u64)>) -> RunReport {
    RunReport {
        mode: Mode::Auto,
        accelerator: None,
        kernel: None,
        program: String::new(),
        arguments: Vec::new(),
        exit_status: 0,
        boot_ms: 0.0,
        driver_ms: 0.0,
        program_ms: 0.0,
        dispatches: stats.dispatches,
        waves: stats.waves,
        wave_instructions: stats.wave_instructions,
        doorbells: Doorbells {
            trapped: stats.doorbells_trapped,
            woken: stats.doorbells_woken,
            polled: stats.doorbells_polled,
        },
        page_walks: stats.page_walks,
        interrupts: stats.interrupts,
        errors: stats.errors.iter().map(|(&name, &count)| (name.to_owned(), count)).collect(),
        unmodelled: unmodelled
            .into_iter()
            .map(|(register, reads, writes)| Unmodelled { register, reads, writes })
            .collect(),
    }
}

impl RunReport {
    /// What the device refused and what it does not model, as `run --unmodelled` prints it.
    #[must_use]
    pub fn shortcomings(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::from("refused or failed, by name:\n");
        for (name, count) in &self.errors {
            let _ = writeln!(text, "  {count:>8}  {name}");
        }
        text.push_str("registers without behaviour, most used first (reads, writes):\n");
        for Unmodelled { register, reads, writes } in &self.unmodelled {
            let _ = writeln!(text, "  {reads:>8} {writes:>8}  {register}");
        }
        text
    }
}

impl std::fmt::Display for RunReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let place = match (&self.kernel, &self.accelerator) {
            (Some(kernel), Some(accelerator)) => format!("guest {kernel}, {accelerator}"),
            _ => "hosted".to_owned(),
        };
        writeln!(f, "{} ({place}): exit status {}", self.program, self.exit_status)?;
        writeln!(
            f,
            "  time         boot {:.0} ms, driver {:.0} ms, program {:.0} ms",
            self.boot_ms, self.driver_ms, self.program_ms
        )?;
        writeln!(
            f,
            "  work         {} dispatches, {} waves, {} wave instructions",
            self.dispatches, self.waves, self.wave_instructions
        )?;
        let Doorbells { trapped, woken, polled } = self.doorbells;
        writeln!(f, "  doorbells    {trapped} trapped, {woken} woken, {polled} polled")?;
        write!(f, "  page walks   {}\n  interrupts   {}", self.page_walks, self.interrupts)
    }
}

/// Only what needs no loader and no libraries runs in a guest that has none.
fn check_static(program: &str, content: &[u8]) -> Result<(), RunError> {
    use object::read::elf::{FileHeader as _, ProgramHeader as _};
    let bad = |why| RunError::BadProgram { program: program.to_owned(), why };
    let header = object::elf::FileHeader64::<object::Endianness>::parse(content)
        .map_err(|_| bad("not a 64-bit ELF program"))?;
    let endian = header.endian().map_err(|_| bad("not a 64-bit ELF program"))?;
    if header.e_machine(endian) != object::elf::EM_X86_64 {
        return Err(bad("not an x86-64 program"));
    }
    let segments =
        header.program_headers(endian, content).map_err(|_| bad("its program headers are damaged"))?;
    if segments.iter().any(|segment| segment.p_type(endian) == object::elf::PT_INTERP) {
        return Err(bad("dynamically linked, and the guest has no libraries; link it statically"));
    }
    Ok(())
}

/// The same path in the guest.
fn guest_path(path: &Path) -> String {
    path.display().to_string()
}

fn read(path: &Path) -> Result<Vec<u8>, RunError> {
    fs::read(path).map_err(|source| file_error("read", path, source))
}

fn file_error(action: &'static str, path: &Path, source: io::Error) -> RunError {
    RunError::File { action, path: path.to_owned(), source }
}

fn milliseconds(duration: Duration) -> f64 {
    // Three decimals are what the clock is worth.
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_split_at_the_last_colon() {
        let mapping: FileMapping = "/a:b/c:/guest/x".parse().unwrap();
        assert_eq!(mapping, FileMapping { host: "/a:b/c".into(), guest: "/guest/x".into() });
        for text in ["", "x", ":x", "x:"] {
            assert!(text.parse::<FileMapping>().is_err(), "{text}");
        }
    }

    #[test]
    fn substitution_touches_whole_paths_only() {
        for (argument, expected) in [
            ("/g/a", "/h/b"),
            ("/g/ab", "/g/ab"),
            ("buf:f32:4:file:/g/a", "buf:f32:4:file:/h/b"),
            ("buf:f32:4:file:/g/a:out=/g/a", "buf:f32:4:file:/h/b:out=/h/b"),
            ("buf:f32:4:file:/g/abc", "buf:f32:4:file:/g/abc"),
            ("i32:5", "i32:5"),
        ] {
            assert_eq!(substitute(argument, "/g/a", "/h/b"), expected);
        }
    }

    #[test]
    fn programs_that_cannot_run_are_named() {
        assert!(matches!(check_static("x", b"#!/bin/sh\n"), Err(RunError::BadProgram { .. })));
        let own = fs::read("/proc/self/exe").unwrap();
        let error = check_static("self", &own).unwrap_err();
        assert!(error.to_string().contains("dynamically linked"), "{error}");
        let options = RunOptions { program: vec!["no-such-program".into()], ..RunOptions::default() };
        let error = run(&options, &Progress::silent(), &mut |_, _| ()).unwrap_err();
        assert!(error.to_string().contains("vector-add"), "{error}");
    }

    #[test]
    fn report_is_one_object_with_the_promised_names() {
        let report = RunReport { program: "x".into(), ..from_device(&Stats::default(), Vec::new()) };
        let json = serde_json::to_value(&report).unwrap();
        for name in [
            "mode",
            "program",
            "exit_status",
            "boot_ms",
            "driver_ms",
            "program_ms",
            "dispatches",
            "waves",
            "wave_instructions",
            "doorbells",
            "interrupts",
        ] {
            assert!(json.get(name).is_some(), "{name}");
        }
        assert_eq!(serde_json::to_value(Mode::Qemu).unwrap(), "qemu");
    }
}
