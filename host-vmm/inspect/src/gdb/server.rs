//! Listener of the stub. One client is served at a time; others wait for it to leave.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_device::Gpu;
use belfry_tools::inspect::{BreakOn, Inspect as _};

use super::session::{self, PATIENCE};
use super::{GdbError, peer};
use crate::symbols::Symbols;

/// Pause between looks for a client that connects.
const GLANCE: Duration = Duration::from_millis(20);

/// State that the thread of the stub shares with the code that has started it.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) gpu: Weak<Gpu>,
    pub(super) closing: AtomicBool,
    pub(super) symbols: Arc<Mutex<Symbols>>,
    /// The program's exit status, once it has ended.
    pub(super) status: AtomicI32,
}

/// A stub of a GPU; it is gone when this is dropped.
#[derive(Debug)]
pub struct Server {
    at: String,
    path: Option<PathBuf>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// The stream of a client.
#[derive(Debug)]
pub(super) enum Stream {
    Tcp {
        stream: TcpStream,
        /// True once the peer was checked again after its first bytes had come: the bytes are the checked user's.
        is_known: bool,
    },
    Unix(UnixStream),
}

fn another_users() -> io::Error {
    io::Error::other("of another user")
}

/// Address at which the stub of a process listens.
#[derive(Debug)]
pub(crate) enum Place {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Listener {
    fn at(address: &Place) -> io::Result<(Self, String)> {
        Ok(match address {
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let at = listener.local_addr()?.to_string();
                (Self::Tcp(listener), at)
            }
            Place::Unix(path) => {
                let listener = UnixListener::bind(path)?;
                listener.set_nonblocking(true)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
                (Self::Unix(listener), path.display().to_string())
            }
        })
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                if !peer::may_command(&stream)? {
                    return Err(another_users());
                }
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Stream::Tcp { stream, is_known: false })
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let user = rustix::net::sockopt::socket_peercred(&stream)?.uid;
                if user != rustix::process::geteuid() {
                    return Err(another_users());
                }
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

impl Stream {
    /// Reads bytes that have come, and waits for them for at most `limit`.
    pub(super) fn read(&mut self, bytes: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Tcp { stream, is_known } => {
                let read = stream.set_read_timeout(Some(limit)).and_then(|()| stream.read(bytes));
                if !*is_known && matches!(read, Ok(1..)) {
                    if !peer::may_command(stream)? {
                        return Err(another_users());
                    }
                    *is_known = true;
                }
                read
            }
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)).and_then(|()| stream.read(bytes)),
        };
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    pub(super) fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Tcp { stream, .. } => stream.write_all(bytes),
            Self::Unix(stream) => stream.write_all(bytes),
        }
    }
}

impl Server {
    /// Lets GDB debug the waves of a GPU, which stays at its first dispatch until GDB lets it go on.
    ///
    /// # Errors
    ///
    /// A place where it cannot listen, no thread, or a device that has ended.
    pub(crate) fn start(
        gpu: &Arc<Gpu>,
        address: &Place,
        symbols: &Arc<Mutex<Symbols>>,
    ) -> Result<Self, GdbError> {
        let (at, path) = match address {
            Place::Tcp(address) => (address.to_string(), None),
            Place::Unix(path) => (path.display().to_string(), Some(path.clone())),
        };
        let (listener, at) = Listener::at(address).map_err(|source| GdbError::Listen { at, source })?;
        let first = gpu.inspect().add_break(BreakOn::Packet("KERNEL_DISPATCH".to_owned()))?;
        let shared = Arc::new(Shared {
            gpu: Arc::downgrade(gpu),
            symbols: Arc::clone(symbols),
            closing: AtomicBool::new(false),
            status: AtomicI32::new(-1),
        });
        let serving = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("gdb".into());
        let thread = thread.spawn(move || serve(&listener, &serving, first)).map_err(GdbError::Thread)?;
        Ok(Self { at, path, shared, thread: Some(thread) })
    }

    /// Address, as GDB's `target remote` takes it.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// Tells GDB that the program has ended with a status.
    pub fn ended(&self, status: i32) {
        self.shared.status.store(status & 0xff, Ordering::SeqCst);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        // If another program has put a socket there since, it is left alone.
        if let Some(path) = &self.path
            && fs::symlink_metadata(path)
                .is_ok_and(|found| found.uid() == rustix::process::geteuid().as_raw())
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn serve(listener: &Listener, shared: &Arc<Shared>, first: u32) {
    let mut first = Some(first);
    while !shared.closing.load(Ordering::SeqCst) {
        match listener.accept() {
            Ok(stream) => {
                let ended = session::serve(stream, shared, &mut first);
                log::debug!(target: "gdb", "client left: {ended:?}");
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(GLANCE),
            Err(error) => {
                log::debug!(target: "gdb", "client not served: {error}");
                std::thread::sleep(GLANCE);
            }
        }
    }
    // No wave stays at the first dispatch if no debugger has come.
    if let (Some(first), Some(gpu)) = (first, shared.gpu.upgrade()) {
        gpu.inspect().remove_break(first);
        gpu.inspect().proceed();
    }
}
