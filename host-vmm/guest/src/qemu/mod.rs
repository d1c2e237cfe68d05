//! A guest in QEMU, with the GPU served over vfio-user by a thread of this process.

mod accelerator;
mod command;
mod disks;

use std::fs;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_channel::Network;
use belfry_device::Gpu;
use belfry_image::{Cache, Freshness, GuestImage, ImageError, Progress, artifacts};
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_process::scratch::Scratch;
use belfry_vfio_user::{ServerError, StopHandle, serve_gpu};

use super::config::{GuestConfig, QemuConfig};
use super::host::Host;
use super::terminal::{self, Terminal};
use super::{GuestError, failed};
pub use accelerator::{Accelerator, accelerator_is_forced, choose_accelerator};

/// Addresses behind QEMU's network of its own user (`-netdev user`), which are always these.
pub(super) const USER_NETWORK: Network = Network {
    address: [10, 0, 2, 15],
    mask: [255, 255, 255, 0],
    gateway: [10, 0, 2, 2],
    resolver: [10, 0, 2, 3],
};

/// QEMU's process, the device's server, and the files between them.
#[derive(Debug)]
pub(super) struct QemuHost {
    qemu: KillOnDrop,
    gpu: Option<Arc<Gpu>>,
    server: Option<(StopHandle, JoinHandle<Result<(), ServerError>>)>,
    directory: Scratch,
    initramfs: PathBuf,
    /// The user's end of the guest's serial port.
    terminal: Option<UnixStream>,
}

impl QemuHost {
    /// Starts server and QEMU, which will connect to the socket that comes with it.
    pub(super) fn start(
        image: &GuestImage,
        config: &GuestConfig,
        qemu: &QemuConfig,
        cache: &Cache,
    ) -> Result<(Self, UnixListener), GuestError> {
        let directory = Scratch::new().map_err(failed("temporary directory"))?;
        let path = |name: &str| directory.path().join(name);
        let initramfs = path("initramfs.cpio");
        fs::write(&initramfs, image.initramfs()?).map_err(failed("initramfs"))?;

        let gpu_socket = path("gpu.sock");
        let (gpu, server) = match &config.gpu {
            Some(gpu) => {
                let mut server = serve_gpu(&gpu_socket, gpu.clone(), qemu.doorbell)?;
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

        let terminal_socket = path("terminal.sock");
        let terminal = config.terminal.as_ref().map(|_| UnixListener::bind(&terminal_socket)).transpose();
        let terminal = terminal.map_err(failed("the guest's terminal"))?;

        let program = match &qemu.program {
            Some(program) => program.clone(),
            None => {
                artifacts::qemu(cache, Freshness::Cached, &Progress::silent()).map_err(ImageError::from)?
            }
        };
        let mut command = Command::new(&program.program);
        command.args(&program.arguments);
        command.args(command::arguments(&command::Machine {
            accelerator: qemu.accelerator,
            cpus: config.cpus,
            memory: config.memory,
            kernel: &image.kernel.image,
            initramfs: &initramfs,
            command_line: &config.command_line(),
            console: &path("console.log"),
            terminal: terminal.is_some().then_some(&*terminal_socket),
            channel: &channel_socket,
            gpu: gpu.is_some().then_some(&*gpu_socket),
        }));
        for (number, disk) in config.all_disks().enumerate() {
            command.args(disks::arguments(number, disk)?);
        }
        for (number, share) in config.shares.iter().enumerate() {
            command.args(command::share(number, share));
        }
        if config.network {
            command.args(command::USER_NETWORK);
        }
        let stderr = fs::File::create(path("qemu.log")).map_err(failed("QEMU's log"))?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        die_with_parent(&mut command);
        log::debug!(target: "guest", "starting {command:?}");
        let child = command.spawn();
        let child = child.map_err(|source| GuestError::Start { program: program.program, source })?;
        let mut qemu = KillOnDrop(child);
        let terminal = match (terminal, &config.terminal) {
            (Some(listener), Some(user)) => {
                connect(&listener, &mut qemu, user).map_err(failed("the guest's terminal"))?
            }
            _ => None,
        };
        Ok((Self { qemu, gpu, server, directory, initramfs, terminal }, listener))
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
}

/// Takes QEMU's connection, and shows what comes; none if QEMU ends before.
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

    fn gpu(&self) -> Option<&Arc<Gpu>> {
        self.gpu.as_ref()
    }

    fn ended(&mut self) -> Option<String> {
        self.qemu.0.try_wait().ok().flatten().map(|status| status.to_string())
    }

    fn console(&self) -> Vec<u8> {
        fs::read(self.directory.path().join("console.log")).unwrap_or_default()
    }

    fn keyboard(&self) -> Option<io::Result<UnixStream>> {
        self.terminal.as_ref().map(UnixStream::try_clone)
    }

    fn messages(&self) -> String {
        // QEMU says of every device without error recovery that it has none.
        let messages = fs::read_to_string(self.directory.path().join("qemu.log")).unwrap_or_default();
        let lines = messages.lines().filter(|line| !line.contains("error recovery"));
        lines.fold(String::new(), |text, line| text + "\n" + line)
    }

    fn check(&mut self) -> Result<(), GuestError> {
        if self.server.as_ref().is_some_and(|(_, thread)| thread.is_finished()) {
            self.stop_server()?;
        }
        Ok(())
    }

    fn setup_time(&self) -> Option<Duration> {
        None
    }

    fn booted(&self) {
        // The guest has its own copy now, and that of a killed belfry stays until the next run.
        let _ = fs::remove_file(&self.initramfs);
    }

    fn stop(&mut self) -> Result<(), GuestError> {
        let _ = self.qemu.0.kill();
        let _ = self.qemu.0.wait();
        let stopped = self.stop_server();
        if let Some(gpu) = &self.gpu {
            gpu.stop();
        }
        stopped
    }
}

impl Drop for QemuHost {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
