//! A user's own system on a disk, in QEMU: its console on this terminal, or programs in it over ssh.

use std::fs;
use std::io::{IsTerminal as _, Read};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_device::memory::Links;
use belfry_guest::qemu::choose_accelerator;
use belfry_guest::{GuestError, QemuConfig, Stream, System, SystemConfig, Terminal};
use belfry_image::{Cache, Freshness, ImageError, Progress, artifacts, tools};
use belfry_machine::{DiskConfig, HugePages, totals};
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_process::scratch::Scratch;

use super::boot_loader::BootLoader;
use super::in_guest::Output;
use super::report::{RunReport, from_device, milliseconds};
use super::{MachineOptions, Mode, RunError, RunOptions, driver_trace, inspected};
use crate::doorbell;

/// Memory of such a guest: enough for ROCm's own compilers; only used memory costs anything.
const MEMORY: u64 = 4 << 30;
/// Time from the start of the machine until the guest's ssh has to answer.
const SSH_LIMIT: Duration = Duration::from_secs(900);
/// Pause between two attempts.
const SSH_PAUSE: Duration = Duration::from_secs(1);
/// Exit status of ssh's own failures (`ssh(1)`, "EXIT STATUS").
const SSH_FAILED: i32 = 255;

/// Firmware that starts the machine of such a system.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Firmware {
    /// A BIOS if the disk has a boot loader for it, UEFI otherwise.
    #[default]
    Auto,
    /// SeaBIOS.
    Bios,
    /// OVMF without Secure Boot.
    Uefi,
}

/// Reason why a user's own system could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SystemError {
    /// An option that such a system cannot have.
    #[error("{option} is not for a disk with a system of its own: {fix}")]
    Option {
        /// The option.
        option: &'static str,
        /// Option or step to take instead.
        fix: &'static str,
    },
    /// A disk that the machine's firmware does not boot.
    #[error("{disk} does not boot: {why}")]
    NoBootLoader {
        /// The disk.
        disk: PathBuf,
        /// The boot loader that it lacks, and a way to mend that.
        why: &'static str,
    },
    /// A program of the machine that is not there.
    #[error(
        "cannot run {program}: {source}; programs in a system of your own are run over ssh (Debian: apt install openssh-client)"
    )]
    Tool {
        /// The program.
        program: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// `ssh-keygen` failed.
    #[error("ssh-keygen makes no key: {0}")]
    Key(String),
    /// A file or socket failed.
    #[error("{what}: {source}")]
    Io {
        /// Step that failed.
        what: &'static str,
        /// Why it failed.
        source: std::io::Error,
    },
}

fn io_error(what: &'static str) -> impl FnOnce(std::io::Error) -> SystemError {
    move |source| SystemError::Io { what, source }
}

/// Boots the system on `disk` and does there all that the options ask for.
pub(super) fn run(
    options: &RunOptions,
    disk: &DiskConfig,
    progress: &Progress,
    output: Output<'_>,
) -> Result<RunReport, RunError> {
    refuse(options)?;
    if driver_trace::is_asked_for(&options.gpus.first) {
        driver_trace::note_absence(
            &"that is a system of its own, in which root reads /sys/kernel/debug/dri/*/belfry_trace",
        );
    }
    disk.check().map_err(GuestError::from)?;
    let MachineOptions { cpus, memory, disks, .. } = options.machine.clone();
    let firmware = firmware(options.firmware, disk, &disks)?;
    let over_ssh = options.ssh || !(options.interactive || options.program.is_empty());
    let ssh = over_ssh.then(Ssh::new).transpose()?;
    let cache = Cache::open()?;
    let program = artifacts::qemu(&cache, Freshness::Cached, progress);
    let program = program.map_err(ImageError::from).map_err(RunError::Image)?;
    let uefi = match firmware {
        Firmware::Uefi => {
            Some(tools::ovmf(&cache, progress).map_err(ImageError::from).map_err(RunError::Image)?)
        }
        Firmware::Auto | Firmware::Bios => None,
    };
    let accelerator = choose_accelerator(&cache, &program);
    let doorbell = doorbell::on_qemu(options.doorbell)?;
    let terminal = if over_ssh { None } else { Some(Terminal::standard().map_err(RunError::Terminal)?) };
    let config = SystemConfig {
        disk: disk.clone(),
        uefi,
        disks,
        gpus: options.gpus.all(),
        links: options.gpus.links,
        cpus: cpus.map_or_else(|| belfry_guest::GuestConfig::default().cpus, u32::from),
        memory: memory.unwrap_or(MEMORY),
        network: options.network,
        ssh: ssh.as_ref().map(|ssh| ssh.port),
        credentials: ssh.as_ref().map(Ssh::credential).into_iter().collect(),
        terminal: terminal.map(Arc::new),
        qemu: QemuConfig { program: Some(program), accelerator, doorbell },
    };
    let step = progress.spinner(&format!("booting {} (QEMU, {accelerator})", disk.path.display()));
    let mut system = System::start(&config, &cache)?;
    let inspector = inspected(options, system.gpus())?;
    let (started, exit_status) = match &ssh {
        Some(ssh) => {
            ssh.wait(&mut system)?;
            step.done("its ssh answers");
            let started = system.age();
            (started, ssh.run(&mut system, options, output)?)
        }
        None => {
            step.done("its console follows");
            if options.interactive {
                system.type_keys()?;
            }
            match system.wait(options.timeout) {
                Ok(true) | Err(GuestError::Quit) => {}
                Ok(false) => return Err(system.too_long("running a system", options.timeout).into()),
                Err(error) => return Err(error.into()),
            }
            (Duration::ZERO, 0)
        }
    };
    let whole = system.age();
    let (stats, unmodelled) = totals(system.gpus().iter().map(|gpu| &**gpu));
    if let Some(onlookers) = &inspector {
        onlookers.ended(exit_status);
    }
    drop(inspector);
    system.stop()?;
    Ok(RunReport {
        mode: Mode::Qemu,
        accelerator: Some(accelerator.to_string()),
        kernel: Some("its own kernel".to_owned()),
        root: Some(disk.path.display().to_string()),
        program: options.program.first().cloned().unwrap_or_else(|| "console".to_owned()),
        arguments: options.program.get(1..).unwrap_or_default().to_vec(),
        exit_status,
        boot_ms: milliseconds(started),
        program_ms: milliseconds(whole.saturating_sub(started)),
        ..from_device(&stats, unmodelled)
    })
}

/// Refuses options that only Belfry's own guests have.
fn refuse(options: &RunOptions) -> Result<(), RunError> {
    let refusals = [
        (matches!(options.mode, Mode::Kvm | Mode::Hosted), "--mode", "QEMU alone boots it; use --mode qemu"),
        (options.machine.huge_pages != HugePages::Off, "--huge-pages", "it is for Belfry's own machine"),
        (!options.machine.append.is_empty(), "--append", "its boot loader tells its kernel what to do"),
        (!options.files.is_empty(), "--file", "add --net user and copy files over ssh"),
        (
            options.gpus.links == Links::None,
            "--links none",
            "its driver has the parameter pcie_p2p=0 for that",
        ),
        (!options.shares.is_empty(), "--share", "add --net user and copy files over ssh"),
    ];
    match refusals.into_iter().find(|(asked, ..)| *asked) {
        Some((_, option, fix)) => Err(SystemError::Option { option, fix }.into()),
        None => Ok(()),
    }
}

/// Returns the firmware that boots a disk, or another disk that has its boot loader; refuses disks that the wanted
/// firmware does not boot.
fn firmware(wanted: Firmware, disk: &DiskConfig, others: &[DiskConfig]) -> Result<Firmware, RunError> {
    let (mut bios, mut uefi) = (false, false);
    for disk in std::iter::once(disk).chain(others) {
        let loader = BootLoader::of(disk).map_err(GuestError::from)?;
        bios |= loader.bios;
        uefi |= loader.uefi;
    }
    let why = match (wanted, bios, uefi) {
        (Firmware::Auto | Firmware::Bios, true, _) => return Ok(Firmware::Bios),
        (Firmware::Auto | Firmware::Uefi, _, true) => return Ok(Firmware::Uefi),
        (_, false, false) => {
            "its first sector has no boot loader and it has no EFI system partition; install a boot loader on it (Debian: \
             grub-pc)"
        }
        (Firmware::Bios, ..) => "it boots by UEFI alone; leave --firmware bios away",
        (Firmware::Uefi, ..) => "it has no EFI system partition; leave --firmware uefi away",
    };
    Err(SystemError::NoBootLoader { disk: disk.path.clone(), why }.into())
}

/// The way into the guest: a port of this machine, and a key made for this run.
#[derive(Debug)]
struct Ssh {
    port: u16,
    directory: Scratch,
    public: String,
}

impl Ssh {
    fn new() -> Result<Self, SystemError> {
        let directory = Scratch::new().map_err(io_error("temporary directory"))?;
        let key = key_of(&directory);
        let output = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", "belfry", "-f"])
            .arg(&key)
            .stdin(Stdio::null())
            .output()
            .map_err(|source| SystemError::Tool { program: "ssh-keygen", source })?;
        if !output.status.success() {
            return Err(SystemError::Key(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        let public = fs::read_to_string(key.with_extension("pub")).map_err(io_error("the new key"))?;
        // QEMU takes the port a moment later; if another process takes it in between, QEMU reports an error.
        let listener = TcpListener::bind("127.0.0.1:0").map_err(io_error("a free port"))?;
        let port = listener.local_addr().map_err(io_error("a free port"))?.port();
        Ok(Self { port, directory, public })
    }

    /// Returns the key as systemd installs it for root (`systemd.system-credentials(7)`).
    fn credential(&self) -> (String, String) {
        ("ssh.authorized_keys.root".to_owned(), self.public.trim().to_owned())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("ssh");
        command.arg("-i").arg(key_of(&self.directory)).args(["-p", &self.port.to_string()]);
        // The guest makes its own host key anew at each boot, as its writes are forgotten.
        for option in [
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "GlobalKnownHostsFile=/dev/null",
            "LogLevel=ERROR",
            "BatchMode=yes",
            "IdentitiesOnly=yes",
            "ConnectTimeout=20",
        ] {
            command.args(["-o", option]);
        }
        command.args(["-F", "none", "root@127.0.0.1"]);
        die_with_parent(&mut command);
        command
    }

    /// Waits until the guest accepts the key.
    fn wait(&self, system: &mut System) -> Result<(), RunError> {
        loop {
            if system.wait(SSH_PAUSE)? {
                return Err(system
                    .too_long("waiting for ssh; the guest has switched itself off", system.age())
                    .into());
            }
            let attempt = self.command().arg("true").stdin(Stdio::null()).output();
            if attempt.map_err(|source| SystemError::Tool { program: "ssh", source })?.status.success() {
                return Ok(());
            }
            if system.age() > SSH_LIMIT {
                let what =
                    "waiting for the guest's ssh (it needs systemd 252 or newer, sshd, and DHCP on its card)";
                return Err(system.too_long(what, SSH_LIMIT).into());
            }
        }
    }

    /// Runs the program, or a login shell, and returns its exit status.
    fn run(&self, system: &mut System, options: &RunOptions, output: Output<'_>) -> Result<i32, RunError> {
        let mut command = self.command();
        let on_terminal = options.interactive || options.program.is_empty();
        if on_terminal {
            if std::io::stdin().is_terminal() {
                command.arg("-t");
            }
        } else {
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        if !options.program.is_empty() {
            command.arg("--").arg(quoted(&options.program));
        }
        let child = command.spawn().map_err(|source| SystemError::Tool { program: "ssh", source })?;
        let mut child = KillOnDrop(child);
        let streams: [(Stream, Option<Box<dyn Read + Send>>); 2] = [
            (Stream::Stdout, child.0.stdout.take().map(|stream| Box::new(stream) as _)),
            (Stream::Stderr, child.0.stderr.take().map(|stream| Box::new(stream) as _)),
        ];
        let (sender, said) = std::sync::mpsc::sync_channel::<(Stream, Vec<u8>)>(64);
        for (stream, source) in streams {
            let Some(mut source) = source else { continue };
            let sender = sender.clone();
            std::thread::spawn(move || {
                let mut buffer = vec![0; 64 << 10];
                while let Ok(count @ 1..) = source.read(&mut buffer) {
                    if sender.send((stream, buffer[..count].to_vec())).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let deadline = Instant::now() + options.timeout;
        let status = loop {
            match said.recv_timeout(Duration::from_millis(20)) {
                Ok((stream, data)) => output(stream, &data),
                // Both streams have ended, or neither was taken.
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = child.0.try_wait().map_err(io_error("ssh"))? {
                said.iter().for_each(|(stream, data)| output(stream, &data));
                break status.code().unwrap_or(SSH_FAILED);
            }
            if Instant::now() > deadline {
                return Err(system.too_long("running a program", options.timeout).into());
            }
            if system.wait(Duration::ZERO)? && !on_terminal {
                log::debug!(target: "run", "the guest has switched itself off");
            }
        };
        Ok(status)
    }
}

fn key_of(directory: &Scratch) -> PathBuf {
    Path::new(directory.path()).join("key")
}

/// Joins words for the guest's shell, which gets a single text from ssh.
fn quoted(words: &[String]) -> String {
    let quote = |word: &String| format!("'{}'", word.replace('\'', r"'\''"));
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_words_in_the_guests_shell() {
        let words = ["echo", "a b", "it's", "$HOME", ""].map(str::to_owned);
        assert_eq!(quoted(&words), r"'echo' 'a b' 'it'\''s' '$HOME' ''");
        let output = Command::new("sh").arg("-c").arg(quoted(&words)).output().unwrap();
        assert_eq!(output.stdout, b"a b it's $HOME \n");
    }

    #[test]
    fn options_of_other_guests_are_refused_with_the_fix() {
        let refused = |options: RunOptions| refuse(&options).unwrap_err().to_string();
        let base = RunOptions::default;
        assert!(refused(RunOptions { mode: Mode::Kvm, ..base() }).contains("--mode qemu"));
        assert!(refused(RunOptions { mode: Mode::Hosted, ..base() }).contains("--mode qemu"));
        let machine = MachineOptions { append: vec!["quiet".into()], ..MachineOptions::default() };
        assert!(refused(RunOptions { machine, ..base() }).contains("--append"));
        refuse(&RunOptions { interactive: true, network: true, ..base() }).unwrap();
    }
}
