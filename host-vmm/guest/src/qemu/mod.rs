//! A guest in QEMU, with the GPU served over vfio-user by a thread of this process.

mod accelerator;
mod command;
mod console_log;
mod disks;
mod monitor;

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_device::memory::Links;
use belfry_device::{Gpu, GpuConfig};
use belfry_image::{Cache, Freshness, GuestImage, ImageError, Progress, artifacts};
use belfry_process::child::{KillOnDrop, die_with_parent, forgo_set_id};
use belfry_process::scratch::Scratch;
use belfry_vfio_user::{ServerError, StopHandle, serve_gpus};

use super::config::{GuestConfig, QemuConfig, SystemConfig};
use super::host::Host;
use super::terminal::{self, Terminal};
use crate::error::{GuestError, failed};
use command::Boot;
use console_log::ConsoleLog;
use monitor::Monitor;

pub use accelerator::{accelerator_is_forced, choose_accelerator};

/// The name of the monitor's socket.
const MONITOR: &str = "monitor.sock";

/// Parts of a machine.
struct Parts<'a> {
    gpus: &'a [GpuConfig],
    links: Links,
    terminal: Option<&'a Arc<Terminal>>,
    cpus: u32,
    memory: u64,
    boot: Boot<'a>,
    /// Options of disks, folders and other devices.
    more: Vec<String>,
}

/// QEMU's process, the devices' servers, and the files between them.
#[derive(Debug)]
pub(super) struct QemuHost {
    qemu: KillOnDrop,
    gpus: Vec<Arc<Gpu>>,
    /// One for each GPU.
    servers: Vec<(StopHandle, JoinHandle<Result<(), ServerError>>)>,
    console: ConsoleLog,
    directory: Scratch,
    initramfs: Option<PathBuf>,
    /// The user's end of the guest's serial port.
    terminal: Option<UnixStream>,
}

impl QemuHost {
    /// Starts server and QEMU with a guest of Belfry's; the guest's init will connect to the returned socket.
    pub(super) fn start(
        image: &GuestImage,
        config: &GuestConfig,
        qemu: &QemuConfig,
        cache: &Cache,
    ) -> Result<(Self, UnixListener), GuestError> {
        let directory = Scratch::new().map_err(failed("temporary directory"))?;
        let path = |name: &str| directory.path().join(name);
        let (initramfs, channel) = (path("initramfs.cpio"), path("channel.sock"));
        fs::write(&initramfs, image.initramfs().map_err(ImageError::from)?).map_err(failed("initramfs"))?;
        let listener = UnixListener::bind(&channel).map_err(failed("guest channel"))?;
        let mut more = Vec::new();
        for (number, disk) in config.all_disks().enumerate() {
            more.extend(disks::arguments(number, disk)?);
        }
        if let Some(system) = &config.system {
            more.extend(disks::kept(config.all_disks().count(), system)?);
        }
        for (number, share) in config.shares.iter().enumerate() {
            more.extend(command::share(number, share));
        }
        if config.network {
            more.extend(command::user_network(None));
        }
        let boot = Boot::Kernel {
            kernel: &image.kernel.image,
            initramfs: &initramfs,
            command_line: &config.command_line(),
            channel: &channel,
            monitor: &path(MONITOR),
        };
        let (cpus, memory, links) = (config.cpus, config.memory, config.links);
        let (gpus, terminal) = (&*config.gpus, config.terminal.as_ref());
        let parts = Parts { gpus, links, terminal, cpus, memory, boot, more };
        let mut host = Self::launch(parts, directory, qemu, cache)?;
        host.initramfs = Some(initramfs);
        Ok((host, listener))
    }

    /// Starts server and QEMU with a user's own system.
    pub(super) fn start_system(config: &SystemConfig, cache: &Cache) -> Result<Self, GuestError> {
        let directory = Scratch::new().map_err(failed("temporary directory"))?;
        let mut more = Vec::new();
        for (number, disk) in std::iter::once(&config.disk).chain(&config.disks).enumerate() {
            let [drive, node, device, options] = disks::arguments(number, disk)?;
            more.extend([drive, node, device, format!("{options},bootindex={number}")]);
        }
        if config.network || config.ssh.is_some() {
            more.extend(command::user_network(config.ssh));
        }
        for (name, content) in &config.credentials {
            more.extend(command::credential(name, content));
        }
        if let Some(uefi) = &config.uefi {
            // Variables are forgotten with all other writes of the guest.
            let variables = directory.path().join("variables.fd");
            fs::copy(&uefi.variables, &variables).map_err(failed("the firmware's variables"))?;
            more.extend(command::flash(&uefi.code, &variables));
        }
        let (cpus, memory, links, boot) = (config.cpus, config.memory, config.links, Boot::Disk);
        let (gpus, terminal) = (&*config.gpus, config.terminal.as_ref());
        let parts = Parts { gpus, links, terminal, cpus, memory, boot, more };
        Self::launch(parts, directory, &config.qemu, cache)
    }

    fn launch(
        parts: Parts<'_>,
        directory: Scratch,
        qemu: &QemuConfig,
        cache: &Cache,
    ) -> Result<Self, GuestError> {
        let path = |name: &str| directory.path().join(name);
        let sockets: Vec<PathBuf> =
            (0..parts.gpus.len()).map(|number| path(&format!("gpu{number}.sock"))).collect();
        let servers = sockets.iter().map(PathBuf::as_path).zip(parts.gpus.iter().cloned());
        let (mut gpus, mut threads) = (Vec::new(), Vec::new());
        for mut server in serve_gpus(servers, parts.links, qemu.doorbell)? {
            let stop = server.stop_handle();
            gpus.push(server.function().gpu().clone());
            let thread = std::thread::Builder::new()
                .name("vfio-user".into())
                .spawn(move || server.run())
                .map_err(failed("server thread"))?;
            threads.push((stop, thread));
        }
        let terminal_socket = path("terminal.sock");
        let terminal = parts.terminal.map(|_| UnixListener::bind(&terminal_socket)).transpose();
        let terminal = terminal.map_err(failed("the guest's terminal"))?;

        let program = match &qemu.program {
            Some(program) => program.clone(),
            None => {
                artifacts::qemu(cache, Freshness::Cached, &Progress::silent()).map_err(ImageError::from)?
            }
        };
        let console = path("console.log");
        let mut command = Command::new(&program.program);
        command.args(&program.arguments);
        command.args(command::arguments(&command::Machine {
            accelerator: qemu.accelerator,
            cpus: parts.cpus,
            memory: parts.memory,
            boot: parts.boot,
            console: &console,
            terminal: terminal.is_some().then_some(&*terminal_socket),
            gpus: &sockets,
        }));
        command.args(parts.more);
        let stderr = fs::File::create(path("qemu.log")).map_err(failed("QEMU's log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        die_with_parent(&mut command);
        forgo_set_id(&mut command);
        log::debug!(target: "guest", "starting {command:?}");
        let child = command.spawn();
        let child = child.map_err(|source| GuestError::Start { program: program.program, source })?;
        let mut qemu = KillOnDrop(child);
        let terminal = match (terminal, parts.terminal) {
            (Some(listener), Some(user)) => {
                connect(&listener, &mut qemu, user).map_err(failed("the guest's terminal"))?
            }
            _ => None,
        };
        let console = ConsoleLog::new(console).map_err(failed("the guest's console"))?;
        Ok(Self { qemu, gpus, servers: threads, console, directory, initramfs: None, terminal })
    }

    /// Returns true if QEMU has ended without an error.
    pub(super) fn succeeded(&mut self) -> bool {
        self.qemu.0.try_wait().ok().flatten().is_some_and(|status| status.success())
    }

    fn stop_servers(&mut self) -> Result<(), GuestError> {
        let servers = std::mem::take(&mut self.servers);
        servers.iter().for_each(|(stop, _)| stop.stop());
        // All of them end, even if one of them has failed.
        let ended = servers.into_iter().map(|(_, thread)| match thread.join() {
            Ok(result) => Ok(result?),
            Err(_) => Err(GuestError::Io {
                what: "the vfio-user server".into(),
                source: io::Error::other("it panicked; this is a bug in belfry"),
            }),
        });
        ended.fold(Ok(()), Result::and)
    }
}

/// Takes QEMU's connection, and shows its output; `None` if QEMU ends first.
fn connect(
    listener: &UnixListener,
    qemu: &mut KillOnDrop,
    user: &Arc<Terminal>,
) -> io::Result<Option<UnixStream>> {
    listener.set_nonblocking(true)?;
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                terminal::show(Arc::clone(user), stream.try_clone()?)?;
                return Ok(Some(stream));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if qemu.0.try_wait()?.is_some() {
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

impl Host for QemuHost {
    fn name(&self) -> &'static str {
        "QEMU"
    }

    fn gpus(&self) -> &[Arc<Gpu>] {
        &self.gpus
    }

    fn ended(&mut self) -> Option<String> {
        self.qemu.0.try_wait().ok().flatten().map(|status| status.to_string())
    }

    fn console(&self) -> Vec<u8> {
        self.console.end()
    }

    fn keyboard(&self) -> Option<io::Result<UnixStream>> {
        self.terminal.as_ref().map(UnixStream::try_clone)
    }

    fn messages(&self) -> String {
        // QEMU reports for every device without error recovery that it has none.
        let messages = fs::read_to_string(self.directory.path().join("qemu.log")).unwrap_or_default();
        let lines = messages.lines().filter(|line| !line.contains("error recovery"));
        lines.fold(String::new(), |text, line| text + "\n" + line)
    }

    fn check(&mut self) -> Result<(), GuestError> {
        if self.servers.iter().any(|(_, thread)| thread.is_finished()) {
            self.stop_servers()?;
        }
        Ok(())
    }

    fn setup_time(&self) -> Option<Duration> {
        None
    }

    fn wake(&mut self) -> Result<bool, GuestError> {
        let woken =
            Monitor::connect(&self.directory.path().join(MONITOR)).and_then(|mut monitor| monitor.wake());
        woken.map_err(failed("QEMU's monitor"))
    }

    fn booted(&self) {
        // The guest has its own copy now; the file of a killed belfry stays until the next run.
        let _ = self.initramfs.as_ref().map(fs::remove_file);
    }

    fn stop(&mut self) -> Result<(), GuestError> {
        let _ = self.qemu.0.kill();
        let _ = self.qemu.0.wait();
        let stopped = self.stop_servers();
        self.gpus.iter().for_each(|gpu| gpu.stop());
        stopped
    }
}

impl Drop for QemuHost {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
