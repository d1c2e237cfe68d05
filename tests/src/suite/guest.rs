//! The suite in one guest, made as `belfry run --root` makes it: Debian's kernel with Belfry's driver, and the root tree.
//!
//! The longer way to run a case, and the one that has nothing in common with `belfry exec` but the device and the driver core.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_device::GpuConfig;
use belfry_guest::{Guest, GuestConfig};
use belfry_image::rootfs::{Root, RootDisk};
use belfry_image::{Cache, Progress};
use belfry_machine::{DiskConfig, DiskFormat};
use belfry_suite::guest::Booted;

use crate::guest_image;
use crate::suite::{Outcome, Runner};

/// A guest that runs cases, one after the other.
///
/// The guest lives on a thread of its own, since it cannot change threads and tests run on several.
#[derive(Debug)]
pub struct InGuest {
    requests: Mutex<Sender<Request>>,
    thread: JoinHandle<Result<()>>,
}

/// A program to run, its time limit, and the channel for the outcome.
type Request = (Vec<String>, Duration, Sender<Result<Outcome>>);

impl InGuest {
    /// Boots a guest with the root file system `root`, and puts `programs` into that.
    ///
    /// # Errors
    ///
    /// A part that cannot be built, fetched or booted.
    pub fn boot(root: Root, programs: Vec<PathBuf>, progress: &Progress) -> Result<Self> {
        let progress = progress.clone();
        let (requests, received) = channel();
        let (up, booted) = channel();
        let thread = std::thread::spawn(move || match boot(&root, &progress) {
            Ok((guest, _disk)) => serve(guest, &programs, &up, &received),
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

/// Says that the guest is up, and runs the requested cases until the requests end.
fn serve(
    mut guest: Guest,
    programs: &[PathBuf],
    up: &Sender<Result<()>>,
    requests: &Receiver<Request>,
) -> Result<()> {
    match Booted::new(&mut guest, programs) {
        Ok(runner) => {
            let _ = up.send(Ok(()));
            for (argv, limit, answer) in requests {
                let _ = answer.send(runner.run(&argv, limit));
            }
        }
        Err(error) => drop(up.send(Err(error))),
    }
    Ok(guest.power_off()?)
}

fn boot(root: &Root, progress: &Progress) -> Result<(Guest, RootDisk)> {
    let cache = Cache::open()?;
    let disk = root.disk(&cache, progress)?;
    let image = belfry_image::with_root(guest_image(&cache)?, &cache)?;
    let root = DiskConfig { format: DiskFormat::Raw, ..DiskConfig::new(&disk.path) };
    // As much VRAM as under `belfry exec`: one case allocates as much as a guest has by default.
    let gpu = GpuConfig { vram_size: 1 << 30, ..GpuConfig::default() };
    let config = GuestConfig { memory: 4 << 30, root: Some(root), gpus: vec![gpu], ..GuestConfig::default() };
    let step = progress.spinner("booting the guest");
    let mut guest = Guest::boot(&image, &config, &cache)?;
    guest.load_driver()?;
    guest.enter_root()?;
    step.done("up");
    Ok((guest, disk))
}
