//! A booted guest, and all requests to it.

mod bound;
mod driver_trace;
mod kept;
mod pending;
mod programs;

pub use kept::Kept;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_channel::{CHUNK, Event, Request, VERSION};
use belfry_device::Gpu;
use belfry_image::{Cache, GuestImage};

use super::channel::{Channel, Next};
use super::config::{GuestConfig, MachineConfig};
use super::console::{Console, panic_of};
use super::host::Host;
use super::kvm::KvmHost;
use super::network;
use super::qemu::QemuHost;
use super::share::{self, Share};
use super::terminal::{Terminal, Typing};
use crate::error::{GuestError, failed};
use crate::phases::Phases;
use crate::program::{Exit, ProgramId, Stream};
use belfry_traces::driver::DriverEvents;
use pending::Pending;

/// Time limit of a step of the guest beyond the program's own time.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);
/// Time by which a step may end late: earlier messages of the guest are still taken, but a guest that never stops is
/// cut off.
const GRACE: Duration = Duration::from_secs(10);
/// Largest file of a guest that is read, in bytes.
const MOST_OF_FILE: usize = 4 << 30;

/// A booted guest; dropping it ends the machine.
///
/// Drop it on the thread that booted it: QEMU dies when that thread ends.
#[derive(Debug)]
pub struct Guest {
    host: Box<dyn Host>,
    channel: Channel,
    logs: PathBuf,
    modules: Vec<String>,
    root: Option<String>,
    system: Option<String>,
    shares: Vec<Share>,
    network: bool,
    terminal: Option<Arc<Terminal>>,
    typing: Option<Typing>,
    started: Instant,
    phases: Phases,
    kernel: String,
    next_id: u32,
    pending: Pending,
    driver: DriverEvents,
    /// The [`VERSION`] of its init.
    version: u32,
}

impl Guest {
    /// Starts a machine and waits until the guest's init answers.
    ///
    /// # Errors
    ///
    /// Parts of the guest that are missing, a machine that cannot be started, and a guest that does not
    /// answer in time.
    pub fn boot(image: &GuestImage, config: &GuestConfig, cache: &Cache) -> Result<Self, GuestError> {
        let started = Instant::now();
        match &config.machine {
            MachineConfig::Qemu(qemu) => {
                let (host, listener) = QemuHost::start(image, config, qemu, cache)?;
                let channel = Channel::listen(listener).map_err(failed("guest channel"))?;
                Self::greet(Box::new(host), channel, started, image, config, cache)
            }
            MachineConfig::Kvm(kvm) => {
                let (host, stream) = KvmHost::start(image, config, kvm, cache)?;
                let channel = Channel::over(stream).map_err(failed("guest channel"))?;
                Self::greet(Box::new(host), channel, started, image, config, cache)
            }
        }
    }

    fn greet(
        host: Box<dyn Host>,
        channel: Channel,
        started: Instant,
        image: &GuestImage,
        config: &GuestConfig,
        cache: &Cache,
    ) -> Result<Self, GuestError> {
        let mut guest = Self {
            phases: Phases { entry: host.setup_time(), ..Phases::default() },
            host,
            channel,
            logs: cache.root().join("logs"),
            modules: image.guest_modules(),
            root: config.root_serial(),
            system: config.system_serial(),
            shares: config.shares.clone(),
            network: config.network,
            terminal: config.terminal.clone(),
            typing: None,
            started,
            kernel: String::new(),
            next_id: 1,
            pending: Pending::default(),
            driver: DriverEvents::default(),
            version: VERSION,
        };
        match guest.next_event("booting", config.boot_timeout)? {
            Event::Hello { version: VERSION, init_ns, kernel } => {
                guest.phases.guest_init = Duration::from_nanos(init_ns);
                guest.kernel = kernel;
            }
            event => return Err(guest.unexpected("booting", &event)),
        }
        guest.phases.init = started.elapsed();
        guest.host.booted();
        Ok(guest)
    }

    /// Returns the first GPU, if the guest has one.
    #[must_use]
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpus().first()
    }

    /// Returns the GPUs, in the order in which the guest finds them.
    #[must_use]
    pub fn gpus(&self) -> &[Arc<Gpu>] {
        self.host.gpus()
    }

    /// Returns the time from the start of the machine to the first message of the guest's init.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.phases.init
    }

    /// Returns the times at which the machine has reached its phases, so far.
    #[must_use]
    pub fn phases(&self) -> Phases {
        let first = self.gpu().and_then(|gpu| gpu.first_dispatch());
        Phases {
            dispatch: first.map(|first| first.saturating_duration_since(self.started)),
            ..self.phases.clone()
        }
    }

    /// Returns the guest's kernel release.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Loads the driver and the modules that it needs; returns the time that this took.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn load_driver(&mut self) -> Result<Duration, GuestError> {
        let started = Instant::now();
        self.request("loading the driver", &Request::LoadModules { paths: self.modules.clone() })?;
        self.phases.driver.get_or_insert(self.started.elapsed());
        Ok(started.elapsed())
    }

    /// Makes the configured disk the root of all later files and programs, mounts the configured shares and sets up
    /// the network card; returns the time that this took.
    ///
    /// The modules of [`Self::load_driver`] must be loaded. A guest that was configured without a root stays as it is.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn enter_root(&mut self) -> Result<Duration, GuestError> {
        let started = Instant::now();
        if let Some(serial) = self.root.clone() {
            self.request("entering the root file system", &Request::EnterRoot { serial })?;
        }
        for (number, Share { path, read_only }) in self.shares.clone().into_iter().enumerate() {
            let tag = share::tag(number);
            self.request("sharing a folder", &Request::MountShare { tag, path, read_only })?;
        }
        if self.network {
            self.request("setting up the network", &Request::Network(network::USER_NETWORK))?;
        }
        Ok(started.elapsed())
    }

    /// Makes the root file system of the configured disk with a system the root of all later requests.
    ///
    /// The modules of [`Self::load_driver`] must be loaded. Only [`Self::set_up_network`] sets up its network.
    ///
    /// # Errors
    ///
    /// A disk without exactly one system in an ext4 file system; the error names its contents. A guest that was
    /// configured without such a disk.
    pub fn enter_system(&mut self) -> Result<(), GuestError> {
        let serial = self.system.clone().ok_or(GuestError::NoSystem)?;
        self.request("looking for the system on the disk", &Request::EnterSystem { serial })
    }

    /// Configures the network card, and replaces `/etc/resolv.conf` of the root.
    ///
    /// # Errors
    ///
    /// A guest that was configured without a network.
    pub fn set_up_network(&mut self) -> Result<(), GuestError> {
        self.request("setting up the network", &Request::Network(network::USER_NETWORK))
    }

    /// Unloads the driver, but not the modules that it needs.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn unload_driver(&mut self) -> Result<Duration, GuestError> {
        let started = Instant::now();
        self.request("unloading the driver", &Request::UnloadModule { name: "amdgpu".into() })?;
        Ok(started.elapsed())
    }

    /// Writes a file in the guest; missing directories are made.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request. Earlier pieces of the file may have been written.
    pub fn put_file(&mut self, path: &str, mode: u32, content: &[u8]) -> Result<(), GuestError> {
        let mut pieces: Vec<&[u8]> = content.chunks(CHUNK).collect();
        if pieces.is_empty() {
            pieces.push(&[]);
        }
        for (index, piece) in pieces.into_iter().enumerate() {
            let request =
                Request::PutFile { path: path.to_owned(), mode, append: index > 0, data: piece.to_vec() };
            self.request("sending a file", &request)?;
        }
        Ok(())
    }

    /// Reads a file of the guest.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn get_file(&mut self, path: &str) -> Result<Vec<u8>, GuestError> {
        self.read("fetching a file", &Request::GetFile { path: path.to_owned() })
    }

    /// Reads the guest kernel's log.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn kernel_log(&mut self) -> Result<String, GuestError> {
        let log = self.read("reading the kernel's log", &Request::KernelLog)?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Wakes the guest's system up if it is suspended to memory; returns true if it was.
    ///
    /// Only QEMU has this state. The guest's programs are not told, and go on.
    ///
    /// # Errors
    ///
    /// QEMU does not answer.
    pub fn wake(&mut self) -> Result<bool, GuestError> {
        self.host.wake()
    }

    /// Switches the guest off and waits for its machine to end.
    ///
    /// # Errors
    ///
    /// The channel to the guest has failed, or its machine cannot be stopped.
    pub fn power_off(mut self) -> Result<(), GuestError> {
        self.typing = None;
        self.send("switching off", &Request::PowerOff)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while self.host.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.host.stop()
    }

    fn read(&mut self, during: &'static str, request: &Request) -> Result<Vec<u8>, GuestError> {
        self.send(during, request)?;
        let mut content = Vec::new();
        loop {
            match self.answer(during)? {
                Event::File { last, data } => {
                    content.extend_from_slice(&data);
                    if last {
                        return Ok(content);
                    }
                    if content.len() > MOST_OF_FILE {
                        let what = format!("a file of more than {} GiB", MOST_OF_FILE >> 30);
                        return Err(GuestError::Protocol { during, what });
                    }
                }
                Event::Failed { text, errno } => {
                    return Err(GuestError::Refused { during, text, errno, console: Console::default() });
                }
                event => return Err(self.unexpected(during, &event)),
            }
        }
    }

    fn request(&mut self, during: &'static str, request: &Request) -> Result<(), GuestError> {
        self.send(during, request)?;
        match self.answer(during)? {
            Event::Done { .. } => Ok(()),
            Event::Failed { text, errno } => {
                let of_kernel = matches!(
                    request,
                    Request::LoadModules { .. }
                        | Request::UnloadModule { .. }
                        | Request::EnterRoot { .. }
                        | Request::MountShare { .. }
                        | Request::Network(_)
                );
                let log = if of_kernel { self.kernel_log().unwrap_or_default() } else { String::new() };
                let console = Console::excerpt(&log);
                Err(GuestError::Refused { during, text, errno, console })
            }
            event => Err(self.unexpected(during, &event)),
        }
    }

    fn send(&mut self, during: &'static str, request: &Request) -> Result<(), GuestError> {
        match self.channel.send(request) {
            Ok(()) => Ok(()),
            // The connection has ended; the machine's end gives the reason.
            Err(_) => Err(self.ended(during)),
        }
    }

    /// Returns the next event that is not a program's.
    fn answer(&mut self, during: &'static str) -> Result<Event, GuestError> {
        let started = Instant::now();
        loop {
            let event = self.next_event_since(during, started, STEP_TIMEOUT)?;
            if let Some(event) = self.note(during, event)? {
                return Ok(event);
            }
        }
    }

    /// Keeps the output and ends of programs, and events of the driver; returns other events.
    fn note(&mut self, during: &'static str, event: Event) -> Result<Option<Event>, GuestError> {
        // Events of unknown programs are dropped: no caller waits for them.
        let is_known = |id: u32| (1..self.next_id).contains(&id);
        match event {
            Event::Output { id, stream, data } if is_known(id) => {
                let stream = if stream == 1 { Stream::Stdout } else { Stream::Stderr };
                self.pending.wrote(ProgramId(id), stream, data).map_err(|most| {
                    let what = format!("more than {} MiB of output that nobody waits for", most >> 20);
                    GuestError::Protocol { during, what }
                })?;
            }
            Event::Exit { id, status, elapsed_ns } if is_known(id) => {
                let exit = Exit { status, elapsed: Duration::from_nanos(elapsed_ns) };
                self.pending.ended(ProgramId(id), exit);
            }
            Event::Output { .. } | Event::Exit { .. } => {}
            Event::DriverTrace { data } => self.driver_said(&data),
            event => return Ok(Some(event)),
        }
        Ok(None)
    }

    /// Returns the next event of a step that began at `started`, unless the step's time is over.
    fn next_event_since(
        &mut self,
        during: &'static str,
        started: Instant,
        limit: Duration,
    ) -> Result<Event, GuestError> {
        let passed = started.elapsed();
        if passed >= limit.saturating_add(GRACE) {
            return Err(GuestError::Timeout { during, limit, console: self.keep_console() });
        }
        self.next_event_of(during, limit.saturating_sub(passed), limit)
    }

    fn next_event(&mut self, during: &'static str, limit: Duration) -> Result<Event, GuestError> {
        self.next_event_of(during, limit, limit)
    }

    fn next_event_of(
        &mut self,
        during: &'static str,
        left: Duration,
        limit: Duration,
    ) -> Result<Event, GuestError> {
        let deadline = Instant::now() + left;
        loop {
            match self.channel.next(deadline.min(Instant::now() + Duration::from_millis(100))) {
                Next::Event(event) => return Ok(event),
                Next::Closed => return Err(self.ended(during)),
                Next::Malformed(what) => return Err(GuestError::Protocol { during, what }),
                Next::Nothing => {}
            }
            self.host.check()?;
            if self.typing.as_ref().is_some_and(Typing::quit) {
                return Err(GuestError::Quit);
            }
            if self.host.ended().is_some() {
                // Messages that the guest sent before its end may still be on their way.
                if let Next::Event(event) = self.channel.next(Instant::now() + Duration::from_secs(1)) {
                    return Ok(event);
                }
                return Err(self.ended(during));
            }
            if Instant::now() >= deadline {
                return Err(GuestError::Timeout { during, limit, console: self.keep_console() });
            }
        }
    }

    fn keep_console(&self) -> Console {
        Console::keep(&self.host.console(), &self.logs)
    }

    /// Returns the error for a guest that is gone.
    fn ended(&mut self, during: &'static str) -> GuestError {
        let deadline = Instant::now() + Duration::from_secs(5);
        let status = loop {
            match self.host.ended() {
                Some(status) => break status,
                None if Instant::now() > deadline => break "still running; its channel closed".to_owned(),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let whole = self.host.console();
        let mut console = Console::keep(&whole, &self.logs);
        if let Some((line, tail)) = panic_of(&String::from_utf8_lossy(&whole)) {
            console.tail = tail;
            return GuestError::Panic { during, line, console };
        }
        let how = format!("({status}){}", self.host.messages());
        GuestError::Ended { machine: self.host.name(), during, how, console }
    }

    fn unexpected(&self, during: &'static str, event: &Event) -> GuestError {
        let mut what = format!("{event:?}");
        what.truncate(200);
        GuestError::Protocol { during, what }
    }
}
