//! Where the stub listens. One client is served at a time; others wait for it to leave.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_device::Gpu;
use belfry_device::inspect::BreakOn;

use super::session::{self, PATIENCE};
use super::{GdbAddress, GdbError};
use crate::symbols::Symbols;

/// How often somebody is looked for who connects.
const GLANCE: Duration = Duration::from_millis(20);

/// What the thread of the stub shares with whoever has started it.
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
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    fn at(address: &GdbAddress) -> io::Result<(Self, String)> {
        Ok(match address {
            GdbAddress::Tcp(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                let at = listener.local_addr()?.to_string();
                (Self::Tcp(listener), at)
            }
            GdbAddress::Unix(path) => {
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
                let (stream, peer) = listener.accept()?;
                // Of who comes from elsewhere, nobody knows, and the user has chosen that address.
                if peer.ip().is_loopback() && !is_ours(peer, stream.local_addr()?)? {
                    return Err(io::Error::other("of another user"));
                }
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Stream::Tcp(stream))
            }
            Self::Unix(listener) => {
                let (stream, _) = listener.accept()?;
                let user = rustix::net::sockopt::socket_peercred(&stream)?.uid;
                if user != rustix::process::geteuid() {
                    return Err(io::Error::other("of another user"));
                }
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

/// Whether the connection from a socket of this machine to another one is this user's, as the kernel's table has it.
fn is_ours(from: SocketAddr, to: SocketAddr) -> io::Result<bool> {
    let table = if from.is_ipv4() { "/proc/self/net/tcp" } else { "/proc/self/net/tcp6" };
    let user = rustix::process::geteuid().as_raw();
    Ok(user_of(&fs::read_to_string(table)?, from, to) == Some(user))
}

/// The user of a connection in the kernel's table: addresses as words in hexadecimal, the user in the eighth column.
fn user_of(table: &str, from: SocketAddr, to: SocketAddr) -> Option<u32> {
    let text = |address: SocketAddr| {
        let octets = match address.ip() {
            IpAddr::V4(ip) => ip.octets().to_vec(),
            IpAddr::V6(ip) => ip.octets().to_vec(),
        };
        let words = octets.as_chunks::<4>().0.iter();
        let words: String = words.map(|word| format!("{:08X}", u32::from_ne_bytes(*word))).collect();
        format!("{words}:{:04X}", address.port())
    };
    let (from, to) = (text(from), text(to));
    table.lines().find_map(|line| {
        let mut columns = line.split_whitespace().skip(1);
        let ends = (columns.next()?, columns.next()?);
        if ends == (from.as_str(), to.as_str()) { columns.nth(4)?.parse().ok() } else { None }
    })
}

impl Stream {
    /// Reads what has come, and waits so long for it.
    pub(super) fn read(&mut self, bytes: &mut [u8], limit: Duration) -> io::Result<Option<usize>> {
        let read = match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(limit)).and_then(|()| stream.read(bytes)),
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
            Self::Tcp(stream) => stream.write_all(bytes),
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
    pub fn start(
        gpu: &Arc<Gpu>,
        address: &GdbAddress,
        symbols: &Arc<Mutex<Symbols>>,
    ) -> Result<Self, GdbError> {
        let at = match address {
            GdbAddress::Tcp(address) => address.to_string(),
            GdbAddress::Unix(path) => path.display().to_string(),
        };
        let (listener, at) = Listener::at(address).map_err(|source| GdbError::Listen { at, source })?;
        let path = match address {
            GdbAddress::Tcp(_) => None,
            GdbAddress::Unix(path) => Some(path.clone()),
        };
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

    /// Where it listens, as GDB's `target remote` takes it.
    #[must_use]
    pub fn at(&self) -> &str {
        &self.at
    }

    /// The program has ended with a status, which GDB is told.
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
        // A socket that somebody has put there since is left alone.
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
    // Nobody stays at the first dispatch because no debugger has come.
    if let (Some(first), Some(gpu)) = (first, shared.gpu.upgrade()) {
        gpu.inspect().remove_break(first);
        gpu.inspect().proceed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_known_by_both_ends_and_their_user() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     \x20  0: 0100007F:0D05 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 11 1\n\
                     \x20  1: 0100007F:9C40 0100007F:0D05 01 00000000:00000000 00:00000000 00000000  1001        0 12 1\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(user_of(table, at(40000), at(3333)), Some(1001));
        assert_eq!((user_of(table, at(3333), at(40000)), user_of("", at(1), at(2))), (None, None));
    }

    #[test]
    fn own_connections_are_this_users() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            // A machine without IPv6 has no such address.
            let Ok(listener) = TcpListener::bind(address) else {
                assert!(address.starts_with('['), "{address}");
                continue;
            };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (served, peer) = listener.accept().unwrap();
            assert_eq!(peer, client.local_addr().unwrap());
            assert!(is_ours(peer, served.local_addr().unwrap()).unwrap(), "{address}");
        }
    }
}
