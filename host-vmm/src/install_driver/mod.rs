//! `belfry image install-driver`: puts Belfry's driver into a user's own disk, by a guest of Belfry's that has it as
//! a disk.
//!
//! Belfry's kernel and init boot with a copy of the disk, enter its root file system and run a script (`guest.sh`)
//! there, which installs the package of [`dkms`]. No code of the disk's own runs before that, and it can reach
//! nothing of this machine but the copy, unless packages have to be fetched: then the guest boots once more, with a
//! network, over which the disk's programs reach what this user reaches. The copy becomes the disk once everything
//! went well; until then the disk is as it was.

mod working_copy;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use belfry_embedded::PARTS;
use belfry_guest::qemu::{accelerator_is_forced, choose_accelerator};
use belfry_guest::{Accelerator, Guest, GuestConfig, GuestError, MachineConfig, QemuConfig, Stream};
use belfry_image::dkms::{self, DkmsError};
use belfry_image::{Cache, Freshness, ImageError, Progress, artifacts};
use belfry_machine::DiskConfig;
use belfry_process::scratch::Scratch;

pub use working_copy::CopyError;
use working_copy::WorkingCopy;

/// The script of the guest's side.
const SCRIPT: &str = include_str!("guest.sh");
/// Path of the script in the guest; it is in memory, and in no folder of the disk.
const SCRIPT_PATH: &str = "/run/belfry/guest.sh";
/// Path of the package in the guest.
const PACKAGE_PATH: &str = "/run/belfry/belfry-amdgpu-dkms.deb";
/// Environment of the script and of the programs that it starts.
const ENVIRONMENT: [&str; 3] =
    ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=dumb"];
/// Memory of the guest in bytes: a compiler of the kernel's modules needs a third of it.
const MEMORY: u64 = 2 << 30;
/// Time limit of a boot with KVM; a longer one is taken for one that never ends.
const KVM_BOOT: Duration = Duration::from_secs(60);
/// Time limit of a step; a compiler under QEMU's translator takes minutes.
const STEP_LIMIT: Duration = Duration::from_secs(3 * 3600);
/// Bytes of a step's output that are read, and bytes of all steps' output that the log keeps. The disk's own programs
/// write as much as they like.
const MOST_SAID: usize = 1 << 20;
const MOST_LOGGED: usize = 64 << 20;
/// Exit status of a program that could not be started.
const NOT_STARTED: i32 = 127;

/// Reason why the disk does not have the driver; after every such error the disk is as it was.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// The disk cannot be copied or replaced.
    #[error(transparent)]
    Copy(#[from] CopyError),
    /// The package could not be made.
    #[error(transparent)]
    Package(#[from] DkmsError),
    /// The parts of the guest could not be obtained.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The guest failed.
    #[error("{disk} is as it was: {source}")]
    Guest {
        /// The disk.
        disk: PathBuf,
        /// Why.
        source: Box<GuestError>,
    },
    /// The disk has no system that can be entered.
    #[error(
        "{disk}: {why}; where the root file system is another one, encrypted or on LVM, install the package that \
         `belfry image driver-deb` writes in the system itself"
    )]
    NoSystem {
        /// The disk.
        disk: PathBuf,
        /// Contents of the disk that were found in place of a system, in words.
        why: String,
    },
    /// The system on the disk cannot have the driver.
    #[error("{disk} is as it was: {why} (what was said there is in {log})")]
    Refused {
        /// The disk.
        disk: PathBuf,
        /// Reason, and a way to mend it.
        why: String,
        /// The log.
        log: PathBuf,
    },
    /// A file of this machine failed.
    #[error("{what}: {source}")]
    Io {
        /// Step that failed.
        what: &'static str,
        /// Why.
        source: io::Error,
    },
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> InstallError {
    move |source| InstallError::Io { what, source }
}

/// Kernels of a disk after the installation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Installed {
    /// Releases of the kernels that now have the driver.
    pub kernels: Vec<String>,
    /// The other kernels, each with the reason why it cannot have it.
    pub skipped: Vec<String>,
}

/// Output of the script.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    kernels: Vec<String>,
    skipped: Vec<String>,
    missing: Vec<String>,
    refused: Option<String>,
}

impl Answer {
    /// Reads the lines with a meaning; other lines, which a disk's programs may have written, are left out. The texts
    /// go to the user's terminal, and are made harmless for it.
    fn parse(text: &str) -> Self {
        let mut answer = Self::default();
        let text: String =
            text.chars().map(|c| if c.is_control() && c != '\n' { '\u{fffd}' } else { c }).collect();
        for (kind, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
            match kind {
                "kernel" => answer.kernels.push(rest.to_owned()),
                "skipped" => answer.skipped.push(rest.to_owned()),
                "missing" => answer.missing.push(rest.to_owned()),
                "refused" => answer.refused = Some(rest.to_owned()),
                _ => {}
            }
        }
        answer
    }
}

/// Puts the driver into the system on `disk`, for every kernel of its that can have it.
///
/// # Errors
///
/// [`InstallError`]; after an error the disk is as it was.
pub fn install_driver(disk: &DiskConfig, progress: &Progress) -> Result<Installed, InstallError> {
    let cache = Cache::open().map_err(ImageError::from)?;
    let copy = WorkingCopy::of(disk, progress)?;
    let directory = Scratch::new().map_err(io_error("temporary directory"))?;
    let package = dkms::package(&PARTS, directory.path())?;
    let package = std::fs::read(package).map_err(io_error("the driver's package"))?;
    let log_path = cache.root().join("logs").join(format!("install-driver-{}.log", std::process::id()));
    let log = std::fs::create_dir_all(cache.root().join("logs")).and_then(|()| File::create(&log_path));
    let mut system = System {
        guest: boot((disk, &copy), Network::None, &cache, progress)?,
        disk: &disk.path,
        log: log.map_err(io_error("the guest's log"))?,
        room: MOST_LOGGED,
        log_path,
        progress,
    };
    let seen = system.look(&package)?;
    if !seen.missing.is_empty() {
        let boot = || boot((disk, &copy), Network::User, &cache, progress);
        system = system.again(&package, boot)?;
    }
    let installed = system.install(seen)?;
    let failed = |source| failed(&disk.path, source);
    system.guest.power_off().map_err(failed)?;
    copy.replace()?;
    Ok(installed)
}

fn failed(disk: &Path, source: GuestError) -> InstallError {
    InstallError::Guest { disk: disk.to_owned(), source: Box::new(source) }
}

/// Network that the disk's programs can reach.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    None,
    /// QEMU's user network: the gateway's address reaches this machine's own addresses.
    User,
}

/// Boots Belfry's own system with the copy as a disk that it may write to.
fn boot(
    (disk, copy): (&DiskConfig, &WorkingCopy),
    network: Network,
    cache: &Cache,
    progress: &Progress,
) -> Result<Guest, InstallError> {
    let image = belfry_image::prepare(cache, &PARTS, Freshness::Cached, progress)?;
    let mut image = belfry_image::with_root(image, cache)?;
    // The last module is the GPU's driver, which has nothing to drive here.
    image.modules.pop();
    let program = artifacts::qemu(cache, Freshness::Cached, progress).map_err(ImageError::from)?;
    let attempt = |accelerator| {
        let qemu = QemuConfig { program: Some(program.clone()), accelerator, ..QemuConfig::default() };
        let default = GuestConfig::default();
        let boot_timeout = if accelerator == Accelerator::Kvm { KVM_BOOT } else { default.boot_timeout };
        let config = GuestConfig {
            machine: MachineConfig::Qemu(qemu),
            gpus: Vec::new(),
            memory: MEMORY,
            system: Some(DiskConfig { path: copy.path().to_owned(), ..disk.clone() }),
            network: network == Network::User,
            boot_timeout,
            ..default
        };
        let title = format!("booting Debian's kernel {} (QEMU, {accelerator})", image.kernel.release);
        let step = progress.spinner(&title);
        let guest = Guest::boot(&image, &config, cache)?;
        step.done("up");
        Ok(guest)
    };
    let accelerator = choose_accelerator(cache, &program);
    let booted = match attempt(accelerator) {
        Err(error) if accelerator == Accelerator::Kvm && !accelerator_is_forced() => {
            progress.line(&format!("the guest does not boot with KVM, translating instead: {error}"));
            attempt(Accelerator::Tcg)
        }
        booted => booted,
    };
    let mut guest = booted.map_err(|error| failed(&disk.path, error))?;
    guest.load_driver().map_err(|error| failed(&disk.path, error))?;
    Ok(guest)
}

/// The guest with the copy of a user's disk.
struct System<'a> {
    guest: Guest,
    disk: &'a Path,
    log: File,
    /// Bytes that the log may still grow by.
    room: usize,
    log_path: PathBuf,
    progress: &'a Progress,
}

impl System<'_> {
    /// Enters the system, and finds its kernels and the packages that are missing.
    fn look(&mut self, package: &[u8]) -> Result<Answer, InstallError> {
        self.enter(package)?;
        let seen = self.script("looking at the system", "look", &[])?;
        for kernel in &seen.skipped {
            self.progress.line(&format!("no driver for {kernel}"));
        }
        Ok(seen)
    }

    /// Closes the file system, ends this guest, and enters the system in another one, which `boot` makes after that.
    fn again(
        mut self,
        package: &[u8],
        boot: impl FnOnce() -> Result<Guest, InstallError>,
    ) -> Result<Self, InstallError> {
        self.script("closing the file system", "finish", &[])?;
        let Self { guest, disk, log, room, log_path, progress } = self;
        guest.power_off().map_err(|error| failed(disk, error))?;
        let mut system = Self { guest: boot()?, disk, log, room, log_path, progress };
        system.enter(package)?;
        Ok(system)
    }

    fn enter(&mut self, package: &[u8]) -> Result<(), InstallError> {
        self.guest.enter_system().map_err(|error| match error {
            GuestError::Refused { text, .. } => {
                InstallError::NoSystem { disk: self.disk.to_owned(), why: text }
            }
            error => failed(self.disk, error),
        })?;
        self.put(SCRIPT_PATH, SCRIPT.as_bytes())?;
        self.put(PACKAGE_PATH, package)
    }

    /// Builds the driver with the system's packages, or with those that it can fetch.
    fn install(&mut self, seen: Answer) -> Result<Installed, InstallError> {
        let Answer { kernels, skipped, missing, .. } = seen;
        let title = format!("building the driver for {}", kernels.join(", "));
        let words: Vec<&str> =
            std::iter::once(PACKAGE_PATH).chain(kernels.iter().map(String::as_str)).collect();
        if missing.is_empty() {
            self.script(&title, "install", &words)?;
        } else {
            let title = format!("fetching {} with the system's apt, {title}", missing.join(", "));
            self.script("looking at the resolver", "keep-resolver", &[])?;
            self.guest.set_up_network().map_err(|error| failed(self.disk, error))?;
            self.script(&title, "fetch", &words)?;
            self.script("restoring the resolver", "restore-resolver", &[])?;
        }
        self.script("closing the file system", "finish", &[])?;
        Ok(Installed { kernels, skipped })
    }

    fn put(&mut self, path: &str, content: &[u8]) -> Result<(), InstallError> {
        self.guest.put_file(path, 0o644, content).map_err(|error| failed(self.disk, error))
    }

    /// Runs one part of the script to its end.
    fn script(&mut self, title: &str, part: &str, words: &[&str]) -> Result<Answer, InstallError> {
        let argv: Vec<String> =
            ["/bin/sh", SCRIPT_PATH, part].iter().chain(words).map(|&word| word.to_owned()).collect();
        let step = self.progress.spinner(title);
        let (log, room, mut said, mut lost) = (&mut self.log, &mut self.room, Vec::new(), None);
        let id = self.guest.spawn(&argv, &ENVIRONMENT.map(str::to_owned), "/");
        let exit = id.and_then(|id| {
            self.guest.wait(id, STEP_LIMIT, &mut |stream, data| {
                if stream == Stream::Stdout && said.len() < MOST_SAID {
                    said.extend_from_slice(data);
                }
                let data = &data[..data.len().min(*room)];
                *room -= data.len();
                lost = lost.take().or(log.write_all(data).err());
            })
        });
        let exit = exit.map_err(|error| failed(self.disk, error))?;
        if let Some(error) = lost {
            return Err(io_error("the guest's log")(error));
        }
        let answer = Answer::parse(&String::from_utf8_lossy(&said));
        if exit.status == 0 && answer.refused.is_none() {
            step.done("done");
            return Ok(answer);
        }
        let why = answer.refused.unwrap_or_else(|| match exit.status {
            NOT_STARTED => {
                "its /bin/sh does not run here: it is a system for another architecture than x86-64, or \
                            damaged"
                    .to_owned()
            }
            status => format!("{title} failed with status {status}"),
        });
        Err(InstallError::Refused { disk: self.disk.to_owned(), why, log: self.log_path.clone() })
    }
}

#[cfg(test)]
mod tests;
