//! A user's own system with the GPU: a disk with a kernel of its own, in QEMU.

use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_device::Gpu;
use belfry_image::Cache;

use super::config::SystemConfig;
use super::console::Console;
use super::host::Host as _;
use super::qemu::QemuHost;
use super::terminal::{Terminal, Typing};
use crate::error::{GuestError, failed};

/// A user's own system that runs; dropping it ends the machine.
#[derive(Debug)]
pub struct System {
    host: QemuHost,
    terminal: Option<Arc<Terminal>>,
    typing: Option<Typing>,
    started: Instant,
    cache: Cache,
}

impl System {
    /// Starts the machine; all further steps are up to the system on the disk.
    ///
    /// # Errors
    ///
    /// A disk that cannot be used, no QEMU, a device that cannot be made.
    pub fn start(config: &SystemConfig, cache: &Cache) -> Result<Self, GuestError> {
        let started = Instant::now();
        let host = QemuHost::start_system(config, cache)?;
        Ok(Self { host, terminal: config.terminal.clone(), typing: None, started, cache: cache.clone() })
    }

    /// Returns the first GPU.
    #[must_use]
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpus().first()
    }

    /// Returns the GPUs, in the order in which the guest finds them.
    #[must_use]
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        self.host.gpus()
    }

    /// Returns the time since the start of the machine.
    #[must_use]
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Passes keys of the configured terminal to the guest from now on.
    ///
    /// # Errors
    ///
    /// A system without a terminal, or whose terminal is gone.
    pub fn type_keys(&mut self) -> Result<(), GuestError> {
        let terminal = self.terminal.clone().ok_or(GuestError::NoTerminal)?;
        let keyboard = self.host.keyboard().ok_or(GuestError::NoTerminal)?;
        let typing = keyboard.and_then(|keyboard| Typing::start(terminal, keyboard));
        self.typing = Some(typing.map_err(failed("the terminal"))?);
        Ok(())
    }

    /// Waits until the guest has switched itself off; `false` if it still runs after `limit`.
    ///
    /// # Errors
    ///
    /// A machine that failed; [`GuestError::Quit`] if the user ended it.
    pub fn wait(&mut self, limit: Duration) -> Result<bool, GuestError> {
        let deadline = Instant::now() + limit;
        loop {
            self.host.check()?;
            if self.typing.as_ref().is_some_and(Typing::quit) {
                return Err(GuestError::Quit);
            }
            if let Some(status) = self.host.ended() {
                return self.ended(&status).map(|()| true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
    }

    /// Returns the error for a guest that takes too long.
    #[must_use]
    pub fn too_long(&self, during: &'static str, limit: Duration) -> GuestError {
        GuestError::Timeout { during, limit, console: self.keep_console() }
    }

    /// Ends the machine at once, without asking the guest.
    ///
    /// # Errors
    ///
    /// The machine cannot be stopped.
    pub fn stop(mut self) -> Result<(), GuestError> {
        self.typing = None;
        self.host.stop()
    }

    fn ended(&mut self, status: &str) -> Result<(), GuestError> {
        // QEMU ends without an error when its guest switches itself off, and with -no-reboot when it restarts.
        if self.host.succeeded() {
            return Ok(());
        }
        let how = format!("({status}){}", self.host.messages());
        let console = self.keep_console();
        Err(GuestError::Ended { machine: self.host.name(), during: "running a system", how, console })
    }

    fn keep_console(&self) -> Console {
        Console::keep(&self.host.console(), &self.cache.root().join("logs"))
    }
}
