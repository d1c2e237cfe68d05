//! A guest in QEMU with our GPU: boot it, load the driver, run programs, move files, switch it off.

mod channel;
pub mod qemu;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use belfry_channel::{CHUNK, Event, Request, VERSION};
use belfry_device::{Gpu, GpuConfig};

use crate::child::{KillOnDrop, die_with_parent};
use crate::image::cache::io_error;
use crate::image::{Cache, CacheError, Freshness, GuestImage, ImageError, Progress, Qemu, artifacts};
use crate::vfio_user::{DoorbellMode, ServerError, SetupError, StopHandle, serve_gpu};
use channel::Channel;
pub use qemu::Accelerator;

/// How long a step of the guest may take beyond the program's own time.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);
/// How many lines of the console an error shows.
const TAIL: usize = 25;

/// What a guest is booted with.
#[derive(Debug, Clone)]
pub struct GuestConfig {
    /// The GPU, or none at all.
    pub gpu: Option<GpuConfig>,
    /// How doorbells travel.
    pub doorbell: DoorbellMode,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Bytes of guest memory.
    pub memory: u64,
    /// The QEMU to run; found or fetched where none is given.
    pub qemu: Option<Qemu>,
    /// How guest code runs.
    pub accelerator: Accelerator,
    /// How long the boot may take.
    pub boot_timeout: Duration,
}

impl Default for GuestConfig {
    fn default() -> Self {
        Self {
            gpu: Some(GpuConfig::default()),
            doorbell: DoorbellMode::default(),
            cpus: std::thread::available_parallelism().map_or(1, |count| count.get().min(2) as u32),
            memory: 1 << 30,
            qemu: None,
            accelerator: Accelerator::Tcg,
            boot_timeout: Duration::from_secs(180),
        }
    }
}

/// What can go wrong with a guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest's parts could not be had.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The cache directory failed.
    #[error(transparent)]
    Cache(#[from] CacheError),
    /// The device or its server could not be set up.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// QEMU could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program.
        program: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file or socket on the host failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// The guest's kernel gave up.
    #[error("the guest's kernel panicked while {during}: {line}{console}")]
    Panic {
        /// What was being waited for.
        during: &'static str,
        /// The panic's first line.
        line: String,
        /// End of the console.
        console: Console,
    },
    /// QEMU ended by itself.
    #[error("QEMU ended while {during} ({status}){stderr}{console}")]
    Qemu {
        /// What was being waited for.
        during: &'static str,
        /// Its exit status.
        status: String,
        /// The end of its own messages.
        stderr: String,
        /// End of the console.
        console: Console,
    },
    /// Something took too long.
    #[error("no end within {limit:?} while {during}{console}")]
    Timeout {
        /// What was being waited for.
        during: &'static str,
        /// How long.
        limit: Duration,
        /// End of the console.
        console: Console,
    },
    /// The guest refused a request.
    #[error("{during}: {text}{console}")]
    Refused {
        /// What was asked.
        during: &'static str,
        /// The guest's words.
        text: String,
        /// The errno behind it, or 0.
        errno: i32,
        /// End of the kernel's log where it matters.
        console: Console,
    },
    /// The guest said something that makes no sense here.
    #[error("the guest's init broke the protocol while {during}: {what}")]
    Protocol {
        /// What was being waited for.
        during: &'static str,
        /// What came.
        what: String,
    },
    /// The server for the device ended.
    #[error("the vfio-user server ended: {0}")]
    Server(#[from] ServerError),
}

/// The end of what a guest's kernel said, and the file that keeps the whole of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Console {
    /// The last lines.
    pub tail: String,
    /// The file.
    pub log: Option<PathBuf>,
}

impl std::fmt::Display for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.tail.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", self.tail)?;
        match &self.log {
            Some(log) => write!(f, "\nthe whole console is in {}", log.display()),
            None => Ok(()),
        }
    }
}

/// Where a program's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Its standard output.
    Stdout,
    /// Its standard error.
    Stderr,
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit status; 128 + the signal's number for a killed program; 127 when it could not be started.
    pub status: i32,
    /// Guest time it ran.
    pub elapsed: Duration,
}

/// A number for a program running in the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProgramId(u32);

/// A booted guest; dropping it kills QEMU and stops the server.
///
/// Drop it on the thread that booted it: QEMU dies when that thread ends.
#[derive(Debug)]
pub struct Guest {
    qemu: KillOnDrop,
    channel: Channel,
    gpu: Option<Arc<Gpu>>,
    server: Option<(StopHandle, JoinHandle<Result<(), ServerError>>)>,
    directory: tempfile::TempDir,
    logs: PathBuf,
    modules: Vec<String>,
    boot: Duration,
    guest_boot: Duration,
    kernel: String,
    next_id: u32,
    output: HashMap<ProgramId, Vec<(Stream, Vec<u8>)>>,
    exits: HashMap<ProgramId, Exit>,
}

impl Guest {
    /// Starts server and QEMU and waits until the guest's init answers.
    pub fn boot(image: &GuestImage, config: &GuestConfig, cache: &Cache) -> Result<Self, GuestError> {
        let started = Instant::now();
        let failed = |what: &str| {
            let what = what.to_owned();
            move |source| GuestError::Io { what, source }
        };
        let directory =
            tempfile::Builder::new().prefix("belfry-").tempdir().map_err(failed("temporary directory"))?;
        let path = |name: &str| directory.path().join(name);
        let initramfs = path("initramfs.cpio");
        fs::write(&initramfs, image.initramfs()?).map_err(failed("initramfs"))?;

        let gpu_socket = path("gpu.sock");
        let (gpu, server) = match &config.gpu {
            Some(gpu) => {
                let mut server = serve_gpu(&gpu_socket, gpu.clone(), config.doorbell)?;
                let stop = server.stop_handle();
                let gpu = server.function().gpu().clone();
                let thread = std::thread::Builder::new()
                    .name("vfio-user".into())
                    .spawn(move || server.run())
                    .map_err(failed("server thread"))?;
                (Some(gpu), Some((stop, thread)))
            }
            None => (None, None),
        };
        let channel_socket = path("channel.sock");
        let listener = UnixListener::bind(&channel_socket).map_err(failed("guest channel"))?;

        let qemu = match &config.qemu {
            Some(qemu) => qemu.clone(),
            None => {
                artifacts::qemu(cache, Freshness::Cached, &Progress::silent()).map_err(ImageError::from)?
            }
        };
        let mut command = Command::new(&qemu.program);
        command.args(&qemu.arguments);
        command.args(qemu::arguments(&qemu::Machine {
            accelerator: config.accelerator,
            cpus: config.cpus,
            memory: config.memory,
            kernel: &image.kernel.image,
            initramfs: &initramfs,
            console: &path("console.log"),
            channel: &channel_socket,
            gpu: gpu.is_some().then_some(&*gpu_socket),
        }));
        let stderr = fs::File::create(path("qemu.log")).map_err(failed("QEMU's log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        die_with_parent(&mut command);
        log::debug!(target: "guest", "starting {command:?}");
        let child =
            command.spawn().map_err(|source| GuestError::Start { program: qemu.program.clone(), source })?;

        let mut guest = Self {
            qemu: KillOnDrop(child),
            channel: Channel::listen(listener).map_err(failed("guest channel"))?,
            gpu,
            server,
            logs: cache.root().join("logs"),
            directory,
            modules: image.guest_modules(),
            boot: Duration::ZERO,
            guest_boot: Duration::ZERO,
            kernel: String::new(),
            next_id: 1,
            output: HashMap::new(),
            exits: HashMap::new(),
        };
        match guest.next_event("booting", config.boot_timeout)? {
            Event::Hello { version: VERSION, init_ns, kernel } => {
                guest.guest_boot = Duration::from_nanos(init_ns);
                guest.kernel = kernel;
            }
            event => return Err(guest.unexpected("booting", &event)),
        }
        guest.boot = started.elapsed();
        // The guest has its own copy now, and a killed belfry leaves its directory behind.
        let _ = fs::remove_file(&initramfs);
        Ok(guest)
    }

    /// The device, when the guest has one.
    #[must_use]
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpu.as_ref()
    }

    /// Time from the start of QEMU to the first word of the guest's init.
    #[must_use]
    pub fn boot_time(&self) -> Duration {
        self.boot
    }

    /// The part of it that the guest's kernel counted.
    #[must_use]
    pub fn guest_boot_time(&self) -> Duration {
        self.guest_boot
    }

    /// The guest's kernel release.
    #[must_use]
    pub fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Loads the driver and what it needs; answers how long that took.
    pub fn load_driver(&mut self) -> Result<Duration, GuestError> {
        let started = Instant::now();
        self.request("loading the driver", &Request::LoadModules { paths: self.modules.clone() })?;
        Ok(started.elapsed())
    }

    /// Unloads the driver alone.
    pub fn unload_driver(&mut self) -> Result<Duration, GuestError> {
        let started = Instant::now();
        self.request("unloading the driver", &Request::UnloadModule { name: "amdgpu".into() })?;
        Ok(started.elapsed())
    }

    /// Writes a file in the guest; missing directories are made.
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
    pub fn get_file(&mut self, path: &str) -> Result<Vec<u8>, GuestError> {
        self.read("fetching a file", &Request::GetFile { path: path.to_owned() })
    }

    /// Reads the guest kernel's log.
    pub fn kernel_log(&mut self) -> Result<String, GuestError> {
        let log = self.read("reading the kernel's log", &Request::KernelLog)?;
        Ok(String::from_utf8_lossy(&log).into_owned())
    }

    /// Starts a program; [`Self::wait`] tells how it ends.
    pub fn spawn(
        &mut self,
        argv: &[String],
        env: &[String],
        directory: &str,
    ) -> Result<ProgramId, GuestError> {
        let id = ProgramId(self.next_id);
        self.next_id += 1;
        let request = Request::Run {
            id: id.0,
            argv: argv.to_vec(),
            env: env.to_vec(),
            directory: directory.to_owned(),
        };
        self.send("starting a program", &request)?;
        Ok(id)
    }

    /// Waits for a program, handing over what it writes as it comes.
    ///
    /// What other programs write meanwhile is kept for their own wait.
    pub fn wait(
        &mut self,
        id: ProgramId,
        limit: Duration,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Exit, GuestError> {
        let started = Instant::now();
        loop {
            for (stream, data) in self.output.remove(&id).unwrap_or_default() {
                output(stream, &data);
            }
            if let Some(exit) = self.exits.remove(&id) {
                return Ok(exit);
            }
            let left = limit.saturating_sub(started.elapsed());
            let event = self.next_event_of("running a program", left, limit)?;
            if !self.note(&event) {
                return Err(self.unexpected("running a program", &event));
            }
        }
    }

    /// Runs a program to its end and collects what it writes.
    pub fn run(&mut self, argv: &[&str], limit: Duration) -> Result<(Exit, String, String), GuestError> {
        let argv: Vec<String> = argv.iter().map(|&argument| argument.to_owned()).collect();
        let id = self.spawn(&argv, &[], "/root")?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let exit = self.wait(id, limit, &mut |stream, data| match stream {
            Stream::Stdout => stdout.extend_from_slice(data),
            Stream::Stderr => stderr.extend_from_slice(data),
        })?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((exit, text(stdout), text(stderr)))
    }

    /// Sends a signal to a program.
    pub fn kill(&mut self, id: ProgramId, signal: i32) -> Result<(), GuestError> {
        self.request("sending a signal", &Request::Kill { id: id.0, signal })
    }

    /// Switches the guest off and waits for QEMU to end.
    pub fn power_off(mut self) -> Result<(), GuestError> {
        self.send("switching off", &Request::PowerOff)?;
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            match self.qemu.0.try_wait() {
                Ok(Some(_)) => break,
                _ => std::thread::sleep(Duration::from_millis(5)),
            }
        }
        self.stop_server()
    }

    /// Keeps the console's log and answers how it ends.
    fn keep_log(&self) -> Console {
        let console = fs::read(self.directory.path().join("console.log")).unwrap_or_default();
        let _ = fs::create_dir_all(&self.logs);
        let kept = self.logs.join(format!("guest-{}.log", std::process::id()));
        if let Err(error) = fs::write(&kept, &console).map_err(io_error("write", &kept)) {
            log::warn!(target: "guest", "{error}");
        }
        Console { tail: tail(&String::from_utf8_lossy(&console), TAIL), log: Some(kept) }
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
                let modules = matches!(request, Request::LoadModules { .. } | Request::UnloadModule { .. });
                let log = if modules { self.kernel_log().unwrap_or_default() } else { String::new() };
                let console = Console { tail: tail(&log, TAIL), log: None };
                Err(GuestError::Refused { during, text, errno, console })
            }
            event => Err(self.unexpected(during, &event)),
        }
    }

    fn send(&mut self, during: &'static str, request: &Request) -> Result<(), GuestError> {
        match self.channel.send(request) {
            Ok(()) => Ok(()),
            // The peer is gone; why, QEMU's end will tell.
            Err(_) => Err(self.ended(during)),
        }
    }

    /// The next event that is not a program's.
    fn answer(&mut self, during: &'static str) -> Result<Event, GuestError> {
        let started = Instant::now();
        loop {
            let left = STEP_TIMEOUT.saturating_sub(started.elapsed());
            let event = self.next_event_of(during, left, STEP_TIMEOUT)?;
            if !self.note(&event) {
                return Ok(event);
            }
        }
    }

    /// Files away what a program wrote or how it ended; answers whether the event was of that kind.
    fn note(&mut self, event: &Event) -> bool {
        match event {
            Event::Output { id, stream, data } => {
                let stream = if *stream == 1 { Stream::Stdout } else { Stream::Stderr };
                self.output.entry(ProgramId(*id)).or_default().push((stream, data.clone()));
                true
            }
            Event::Exit { id, status, elapsed_ns } => {
                let exit = Exit { status: *status, elapsed: Duration::from_nanos(*elapsed_ns) };
                self.exits.insert(ProgramId(*id), exit);
                true
            }
            _ => false,
        }
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
                channel::Next::Event(event) => return Ok(event),
                channel::Next::Closed => return Err(self.ended(during)),
                channel::Next::Malformed(what) => return Err(GuestError::Protocol { during, what }),
                channel::Next::Nothing => {}
            }
            self.check_server()?;
            if matches!(self.qemu.0.try_wait(), Ok(Some(_))) {
                // What it said before it ended may still be on its way.
                if let channel::Next::Event(event) =
                    self.channel.next(Instant::now() + Duration::from_secs(1))
                {
                    return Ok(event);
                }
                return Err(self.ended(during));
            }
            if Instant::now() >= deadline {
                return Err(GuestError::Timeout { during, limit, console: self.keep_log() });
            }
        }
    }

    /// The error for a guest that is gone.
    fn ended(&mut self, during: &'static str) -> GuestError {
        let deadline = Instant::now() + Duration::from_secs(5);
        let status = loop {
            match self.qemu.0.try_wait() {
                Ok(Some(status)) => break status.to_string(),
                _ if Instant::now() > deadline => break "still running; its channel closed".to_owned(),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let mut console = self.keep_log();
        let whole = console.log.as_ref().and_then(|log| fs::read(log).ok()).unwrap_or_default();
        if let Some((line, tail)) = panic_of(&String::from_utf8_lossy(&whole)) {
            console.tail = tail;
            return GuestError::Panic { during, line, console };
        }
        // QEMU says of every device without error recovery that it has none.
        let stderr = fs::read_to_string(self.directory.path().join("qemu.log")).unwrap_or_default();
        let stderr: String = stderr
            .lines()
            .filter(|line| !line.contains("error recovery"))
            .fold(String::new(), |text, line| text + "\n" + line);
        GuestError::Qemu { during, status, stderr, console }
    }

    fn check_server(&mut self) -> Result<(), GuestError> {
        if self.server.as_ref().is_some_and(|(_, thread)| thread.is_finished()) {
            self.stop_server()?;
        }
        Ok(())
    }

    fn stop_server(&mut self) -> Result<(), GuestError> {
        let Some((stop, thread)) = self.server.take() else { return Ok(()) };
        stop.stop();
        match thread.join() {
            Ok(result) => Ok(result?),
            Err(_) => Err(GuestError::Io {
                what: "the vfio-user server".into(),
                source: io::Error::other("it panicked; this is a bug in belfry"),
            }),
        }
    }

    fn unexpected(&self, during: &'static str, event: &Event) -> GuestError {
        let mut what = format!("{event:?}");
        what.truncate(200);
        GuestError::Protocol { during, what }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.qemu.0.kill();
        let _ = self.qemu.0.wait();
        let _ = self.stop_server();
        if let Some(gpu) = &self.gpu {
            gpu.stop();
        }
    }
}

/// The reason of a panic, and the console from the first sign of it on.
fn panic_of(console: &str) -> Option<(String, String)> {
    const SIGNS: [&str; 4] = ["BUG:", "Oops:", "general protection fault", "Kernel panic"];
    let lines: Vec<&str> = console.lines().map(str::trim_end).collect();
    let line = lines.iter().find(|line| line.contains("Kernel panic"))?;
    let first = lines.iter().position(|line| SIGNS.iter().any(|sign| line.contains(sign)))?;
    let from = first.saturating_sub(3);
    Some(((*line).to_owned(), lines[from..lines.len().min(from + TAIL)].join("\n")))
}

/// The last `count` lines that say something.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_first_sign() {
        let console =
            "boot\r\nabc\n[1] BUG: kernel NULL pointer\n[1] RIP: x\n[1] Kernel panic - not syncing: Fatal\n";
        let (line, tail) = panic_of(console).unwrap();
        assert_eq!(line, "[1] Kernel panic - not syncing: Fatal");
        assert!(tail.contains("NULL pointer") && tail.contains("RIP: x"));
        assert_eq!(panic_of("all is well\n"), None);
    }

    #[test]
    fn tail_skips_empty_lines() {
        assert_eq!(tail("a\n\nb\r\nc\n", 2), "b\nc");
        assert_eq!(tail("", 2), "");
    }
}
