//! The suite in one guest: Debian's kernel with Belfry's driver, and the root tree on a disk.
//!
//! The longer way to run a case, and the one that has nothing in common with `belfry exec` but the device and the driver core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use belfry_device::GpuConfig;
use belfry_guest::{Guest, GuestConfig, GuestError, Stream};
use belfry_image::module_files::stock_modules;
use belfry_image::{Cache, InitramfsFile, Progress};
use belfry_machine::DiskConfig;
use sha2::{Digest as _, Sha256};

use crate::suite::process::{self, Ended, Outcome};
use crate::suite::runner::Runner;
use crate::{guest_image, guest_roles};

/// The roles, the programs and the tree, as the guest has them.
const ROLES: &str = "/bin/guest-roles";
const PROGRAMS: &str = "/suite";
const TREE: &str = "/tree";
/// Where the programs are once the tree is the root.
const PROGRAMS_IN_TREE: &str = "/tmp/suite";
/// Arguments of mke2fs, for a disk that is only read.
const MAKE_FILE_SYSTEM: [&str; 6] = ["-q", "-t", "ext4", "-O", "^has_journal", "-m0"];
/// Modules of the stock kernel for it: ext4 asks the kernel for checksums, and does not name the module that has them.
const MODULES: [&str; 2] = ["crc32c_generic", "ext4"];
/// How long making the disk may take.
const DISK_LIMIT: Duration = Duration::from_secs(1200);
/// How long mounting it may take.
const MOUNT_LIMIT: Duration = Duration::from_secs(120);
const SIGKILL: i32 = 9;

/// A guest that runs cases, one after the other.
///
/// It lives on a thread of its own, since a guest cannot change threads and tests run on several.
#[derive(Debug)]
pub struct InGuest {
    requests: Mutex<Sender<Request>>,
    thread: JoinHandle<Result<()>>,
}

/// A program to run, and where to say what came of it.
type Request = (Vec<String>, Duration, Sender<Result<Outcome>>);

impl InGuest {
    /// Makes a disk of `tree`, boots a guest with it, and puts `programs` into that.
    ///
    /// # Errors
    ///
    /// What cannot be built, had or booted.
    pub fn boot(tree: &Path, programs: Vec<PathBuf>, progress: &Progress) -> Result<Self> {
        let (tree, progress) = (tree.to_owned(), progress.clone());
        let (requests, received) = channel();
        let (up, booted) = channel();
        let thread = std::thread::spawn(move || match boot(&tree, &programs, &progress) {
            Ok(guest) => {
                let _ = up.send(Ok(()));
                serve(guest, &received)
            }
            Err(error) => {
                let _ = up.send(Err(error));
                Ok(())
            }
        });
        booted.recv().context("the guest's thread panicked while booting")??;
        Ok(Self { requests: Mutex::new(requests), thread })
    }

    /// Switches the guest off.
    ///
    /// # Errors
    ///
    /// A guest that does not answer.
    pub fn power_off(self) -> Result<()> {
        drop(self.requests);
        self.thread.join().ok().context("the guest's thread panicked")?
    }
}

impl Runner for InGuest {
    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome> {
        let (sender, outcome) = channel();
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        requests.send((argv.to_vec(), limit, sender)).ok().context("the guest is gone")?;
        outcome.recv().context("the guest is gone")?
    }
}

/// Runs the requested cases until the requests end.
fn serve(mut guest: Guest, requests: &Receiver<Request>) -> Result<()> {
    for (argv, limit, answer) in requests {
        let _ = answer.send(run(&mut guest, &argv, limit));
    }
    Ok(guest.power_off()?)
}

fn boot(tree: &Path, programs: &[PathBuf], progress: &Progress) -> Result<Guest> {
    let cache = Cache::open()?;
    let disk = disk(&cache, tree, progress)?;
    let mut image = guest_image(&cache)?;
    let ext4 = stock_modules(&cache, &image.kernel, &MODULES)?;
    let there = |name: &str| image.modules.iter().any(|module| module.name == name);
    let mut modules: Vec<_> = ext4.into_iter().filter(|module| !there(&module.name)).collect();
    modules.append(&mut image.modules);
    image.modules = modules;
    for program in programs {
        let name = program.file_name().context("a program without a name")?.to_string_lossy();
        let guest = format!("{PROGRAMS}/{name}");
        image.files.push(InitramfsFile { guest, mode: 0o755, host: program.clone() });
    }
    image.files.push(InitramfsFile { guest: ROLES.to_owned(), mode: 0o755, host: guest_roles()? });
    let disk = DiskConfig { read_only: true, ..DiskConfig::new(disk) };
    // As much VRAM as under `belfry exec`: one case allocates what is all of a guest's by default.
    let gpu = GpuConfig { vram_size: 1 << 30, ..GpuConfig::default() };
    let config = GuestConfig { memory: 4 << 30, disks: vec![disk], gpu: Some(gpu), ..GuestConfig::default() };
    let step = progress.spinner("booting the guest");
    let mut guest = Guest::boot(&image, &config, &cache)?;
    guest.load_driver()?;
    let (exit, stdout, stderr) = guest.run(&[ROLES, "mount", "/dev/vda", TREE], MOUNT_LIMIT)?;
    if exit.status != 0 {
        bail!("the tree cannot be mounted in the guest: {stdout}{stderr}\n{}", guest.kernel_log()?);
    }
    step.done("up");
    Ok(guest)
}

fn run(guest: &mut Guest, argv: &[String], limit: Duration) -> Result<Outcome> {
    let mut command = vec![ROLES.to_owned(), "enter".to_owned(), TREE.to_owned()];
    command.extend(argv.iter().cloned());
    // A program of the suite is named by its path on this machine.
    let path = argv.first().map(Path::new).filter(|path| path.is_absolute());
    if let Some(name) = path.and_then(Path::file_name) {
        command[3] = format!("{PROGRAMS_IN_TREE}/{}", name.to_string_lossy());
    }
    let id = guest.spawn(&command, &[], "/")?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut output = |stream, data: &[u8]| match stream {
        Stream::Stdout => stdout.extend_from_slice(data),
        Stream::Stderr => stderr.extend_from_slice(data),
    };
    let ended = match guest.wait(id, limit, &mut output) {
        Ok(exit) if exit.status > 128 => Ended::Signal(exit.status - 128),
        Ok(exit) => Ended::Status(exit.status),
        Err(GuestError::Timeout { .. }) => {
            guest.kill(id, SIGKILL)?;
            guest.wait(id, limit, &mut output)?;
            Ended::TimedOut(limit)
        }
        Err(error) => return Err(error.into()),
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Outcome { ended, stdout: text(stdout), stderr: text(stderr) })
}

/// An ext4 image of the tree, made once for each tree.
fn disk(cache: &Cache, tree: &Path, progress: &Progress) -> Result<PathBuf> {
    let tree = fs::canonicalize(tree).with_context(|| tree.display().to_string())?;
    let made_of = format!("{} {}", tree.display(), MAKE_FILE_SYSTEM.join(" "));
    let id: String =
        Sha256::digest(made_of.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let folder = cache.root().join("suite");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let place = folder.join(format!("tree-{id}.ext4"));
    let waits = || progress.line("another run makes the disk; waiting for it");
    let _lock = cache.lock(&format!("suite-tree-{id}"), waits)?;
    if place.exists() {
        return Ok(place);
    }
    let step = progress.spinner("making a disk of the root tree");
    let made = tempfile::Builder::new().prefix(".disk-").tempdir_in(&folder)?;
    let image = made.path().join("image");
    let mut command = Command::new("mke2fs");
    // A file that is sparse where the tree does not fill it.
    command.args(MAKE_FILE_SYSTEM).arg("-d").arg(&tree).arg(&image).arg("3G");
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    let outcome =
        process::run(command, DISK_LIMIT).context("mke2fs, of package e2fsprogs, makes the guest's disk")?;
    if outcome.ended != Ended::Status(0) {
        bail!("mke2fs of {}: {}\n{}{}", tree.display(), outcome.ended, outcome.stdout, outcome.stderr);
    }
    fs::rename(&image, &place).with_context(|| place.display().to_string())?;
    step.done("done");
    Ok(place)
}
