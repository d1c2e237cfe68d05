//! A guest on Belfry's own machine.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use belfry_device::{Gpu, GpuConfig};
use belfry_image::{Cache, GuestImage, ImageError};
use belfry_machine::snapshot::{Saver, Snapshot};
use belfry_machine::{Config, Initramfs, KvmError, Machine, Running, SharedFolder};

use super::config::{GuestConfig, KvmConfig};
use super::host::{CONSOLE, Host};
use super::network::Passt;
use super::share;
use super::terminal::Terminal;
use crate::error::{GuestError, failed};

/// Limit of the machine itself; the callers of the guest have limits of their own.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);
/// Bytes of the console that are kept.
const KEPT: usize = CONSOLE as usize;

/// Time for a machine to end once its network program has ended.
const PASST_BEFORE: Duration = Duration::from_secs(1);

/// The machine and its output.
#[derive(Debug)]
pub(super) struct KvmHost {
    machine: Option<Running>,
    end: Option<String>,
    gpus: Vec<Arc<Gpu>>,
    console: Arc<Mutex<Vec<u8>>>,
    keyboard: Option<UnixStream>,
    passt: Option<Passt>,
    /// The saver of the machine.
    saver: Weak<Saver>,
    setup: Duration,
}

impl KvmHost {
    /// Starts a machine; the returned stream is the host's end of its guest's channel.
    pub(super) fn start(
        image: &GuestImage,
        config: &GuestConfig,
        kvm: &KvmConfig,
        cache: &Cache,
    ) -> Result<(Self, UnixStream), GuestError> {
        let started = Instant::now();
        if config.system.is_some() {
            return Err(GuestError::NoKeptDisks);
        }
        let (ours, theirs) = UnixStream::pair().map_err(failed("guest channel"))?;
        let cpus = u8::try_from(config.cpus)
            .map_err(|_| KvmError::Config(format!("{} vCPUs are too many", config.cpus)))?;
        let passt = config.network.then(|| Passt::start(cache)).transpose()?;
        let (passt, network) = passt.unzip();
        let keyboard = config.terminal.as_ref().map(|_| UnixStream::pair()).transpose();
        let (keyboard, keys) = keyboard.map_err(failed("the guest's terminal"))?.unzip();
        let machine = Machine::new(Config {
            initramfs: Some(Initramfs::Bytes(image.initramfs().map_err(ImageError::from)?)),
            command_line: config.command_line(),
            memory: config.memory,
            cpus,
            gpus: config.gpus.clone(),
            links: config.links,
            doorbells: kvm.doorbell,
            huge_pages: kvm.huge_pages,
            catch_signals: true,
            disks: config.all_disks().cloned().collect(),
            shares: shares(config),
            network,
            input: keys.map(|keys| File::from(OwnedFd::from(keys))),
            channel: Some(theirs),
            ..Config::new(&image.kernel.image)
        })?;
        let mut host = Self::run(machine, started, config.terminal.clone())?;
        (host.keyboard, host.passt) = (keyboard, passt);
        Ok((host, ours))
    }

    /// Goes on with a saved machine; the stream is the host's end of its guest's channel.
    pub(super) fn resume(snapshot: &Snapshot, gpu: GpuConfig) -> Result<(Self, UnixStream), GuestError> {
        let started = Instant::now();
        let (ours, theirs) = UnixStream::pair().map_err(failed("guest channel"))?;
        let config =
            Config { gpus: vec![gpu], channel: Some(theirs), catch_signals: true, ..snapshot.config() };
        Ok((Self::run(Machine::resume(snapshot, config)?, started, None)?, ours))
    }

    fn run(machine: Machine, started: Instant, terminal: Option<Arc<Terminal>>) -> Result<Self, GuestError> {
        let (gpus, saver) = (machine.gpus().to_vec(), Arc::downgrade(&machine.saver()));
        let console = Arc::new(Mutex::new(Vec::new()));
        let said = Arc::clone(&console);
        let setup = started.elapsed();
        let machine = machine.start(FOREVER, move |data| {
            keep(&said, data);
            if let Some(terminal) = &terminal {
                terminal.show(data);
            }
        })?;
        let machine = Some(machine);
        Ok(Self { machine, end: None, gpus, console, keyboard: None, passt: None, saver, setup })
    }

    /// Waits for a machine that has ended, or was told to end.
    fn finish(&mut self) -> Result<(), GuestError> {
        let Some(machine) = self.machine.take() else { return Ok(()) };
        let outcome = machine.wait()?;
        self.end = Some(outcome.end.to_string());
        Ok(())
    }
}

impl Host for KvmHost {
    fn name(&self) -> &'static str {
        "the machine"
    }

    fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }

    fn ended(&mut self) -> Option<String> {
        if self.machine.as_ref().is_some_and(Running::is_finished)
            && let Err(error) = self.finish()
        {
            self.end = Some(error.to_string());
        }
        self.end.clone()
    }

    fn console(&self) -> Vec<u8> {
        self.console.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keyboard(&self) -> Option<io::Result<UnixStream>> {
        self.keyboard.as_ref().map(UnixStream::try_clone)
    }

    fn messages(&self) -> String {
        String::new()
    }

    fn check(&mut self) -> Result<(), GuestError> {
        let Some(passt) = &mut self.passt else { return Ok(()) };
        let Err(error) = passt.check() else { return Ok(()) };
        // The network program ends with the machine, too, a moment before the machine is known to have ended.
        let deadline = Instant::now() + PASST_BEFORE;
        while self.machine.as_ref().is_some_and(|machine| !machine.is_finished()) {
            if Instant::now() > deadline {
                return Err(error.into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn saver(&self) -> Option<Arc<Saver>> {
        self.saver.upgrade()
    }

    fn setup_time(&self) -> Option<Duration> {
        Some(self.setup)
    }

    fn stop(&mut self) -> Result<(), GuestError> {
        if let Some(machine) = &self.machine {
            machine.handle().stop();
        }
        self.finish()
    }
}

impl Drop for KvmHost {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Returns the folders of a guest, with the names by which the guest mounts them.
fn shares(config: &GuestConfig) -> Vec<SharedFolder> {
    let folder = |(number, share): (usize, &share::Share)| SharedFolder {
        tag: share::tag(number),
        path: share.path.clone().into(),
        read_only: share.read_only,
    };
    config.shares.iter().enumerate().map(folder).collect()
}

/// Appends output, and drops the oldest part if there is too much.
fn keep(console: &Mutex<Vec<u8>>, data: &[u8]) {
    let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
    console.extend_from_slice(data);
    if console.len() > 2 * KEPT {
        let from = console.len() - KEPT;
        console.drain(..from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endless_consoles_keep_their_end() {
        let console = Mutex::new(Vec::new());
        for number in 0..100_000u32 {
            keep(&console, format!("line {number:>44}\n").as_bytes());
        }
        let kept = console.into_inner().unwrap();
        assert!((KEPT..=2 * KEPT).contains(&kept.len()), "{}", kept.len());
        assert!(kept.ends_with(b"99999\n"));
    }
}
