//! The suite in one guest, made as `belfry run --root` makes it: Debian's kernel with Belfry's driver, and the root tree.
//!
//! The longer way to run a case, and the one that has nothing in common with `belfry exec` but the device and the driver core.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_device::GpuConfig;
use belfry_guest::{Guest, GuestConfig, GuestError, Stream};
use belfry_image::rootfs::{Root, RootDisk};
use belfry_image::{Cache, Progress};
use belfry_machine::{DiskConfig, DiskFormat};

use crate::guest_image;
use crate::suite::process::{Ended, Outcome};
use crate::suite::runner::Runner;

/// Where the guest has the programs.
const PROGRAMS: &str = "/tmp/suite";
/// What they find in their environment.
const ENVIRONMENT: [&str; 2] = ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp"];
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
    /// Boots a guest with the root file system `root`, and puts `programs` into that.
    ///
    /// # Errors
    ///
    /// What cannot be built, had or booted.
    pub fn boot(root: Root, programs: Vec<PathBuf>, progress: &Progress) -> Result<Self> {
        let progress = progress.clone();
        let (requests, received) = channel();
        let (up, booted) = channel();
        let thread = std::thread::spawn(move || match boot(&root, &programs, &progress) {
            Ok((guest, _disk)) => {
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

fn boot(root: &Root, programs: &[PathBuf], progress: &Progress) -> Result<(Guest, RootDisk)> {
    let cache = Cache::open()?;
    let disk = root.disk(&cache, progress)?;
    let image = guest_image(&cache)?.with_root(&cache)?;
    let root = DiskConfig { format: DiskFormat::Raw, ..DiskConfig::new(&disk.path) };
    // As much VRAM as under `belfry exec`: one case allocates what is all of a guest's by default.
    let gpu = GpuConfig { vram_size: 1 << 30, ..GpuConfig::default() };
    let config = GuestConfig { memory: 4 << 30, root: Some(root), gpu: Some(gpu), ..GuestConfig::default() };
    let step = progress.spinner("booting the guest");
    let mut guest = Guest::boot(&image, &config, &cache)?;
    guest.load_driver()?;
    guest.enter_root()?;
    for program in programs {
        let content = std::fs::read(program).with_context(|| program.display().to_string())?;
        guest.put_file(&in_guest(program)?, 0o755, &content)?;
    }
    step.done("up");
    Ok((guest, disk))
}

/// Where the guest has a program of this machine.
fn in_guest(program: &Path) -> Result<String> {
    let name = program.file_name().context("a program without a name")?;
    Ok(format!("{PROGRAMS}/{}", name.to_string_lossy()))
}

fn run(guest: &mut Guest, argv: &[String], limit: Duration) -> Result<Outcome> {
    let mut command = argv.to_vec();
    // A program of the suite is named by its path on this machine.
    if let Some(path) = command.first_mut().filter(|path| path.starts_with('/')) {
        *path = in_guest(Path::new(path.as_str()))?;
    }
    let id = guest.spawn(&command, &ENVIRONMENT.map(str::to_owned), "/tmp")?;
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
