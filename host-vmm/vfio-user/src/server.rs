//! Accepts clients one after another and serves each until it leaves.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vfio_bindings::bindings::vfio::{
    VFIO_DEVICE_FLAGS_PCI, VFIO_DEVICE_FLAGS_RESET, VFIO_IRQ_INFO_EVENTFD, VFIO_PCI_MSIX_IRQ_INDEX,
    VFIO_PCI_NUM_IRQS,
};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};

use super::connection::{Connection, ConnectionError, Incoming};
use super::dma::{DmaError, DmaTable};
use super::error::ServerError;
use super::function::Function;
use super::irqs::Irqs;
use super::protocol::{Fields, MAX_TRANSFER, Message, Reply, command, negotiate};
use super::regions::{Regions, Target};

/// Default time limit of a client to introduce itself, to end a message that it has begun, and to take a reply.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest number of held replies to changes of the guest's memory; they wait until the device was told of all the
/// changes.
const HELD_REPLIES: usize = 1024;

/// Counts of one server over its life.
#[derive(Debug, Default)]
pub struct Counters {
    /// Clients that connected.
    pub clients: AtomicU64,
    /// Messages handled.
    pub messages: AtomicU64,
    /// Messages answered with an error.
    pub errors: AtomicU64,
}

/// Stops a server from another thread.
#[derive(Debug, Clone)]
pub struct StopHandle {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stopping: AtomicBool,
    /// Signalled to stop, and when a file of the client can no longer be read.
    wake: Arc<OwnedFd>,
    client: Mutex<Option<UnixStream>>,
    counters: Counters,
}

impl StopHandle {
    /// Ends the current connection and makes [`Server::run`] return.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        let _ = rustix::io::write(&*self.shared.wake, &1u64.to_ne_bytes());
        if let Some(stream) = &*lock(&self.shared.client) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Returns the counts of the server so far.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

/// The vfio-user server for one device.
#[derive(Debug)]
pub struct Server<F> {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket at `path`.
    identity: (u64, u64),
    client_timeout: Duration,
    function: Arc<F>,
    regions: Regions,
    irqs: Arc<Irqs>,
    dma: DmaTable,
    shared: Arc<Shared>,
}

impl<F: Function> Server<F> {
    /// Returns the function that is served.
    #[must_use]
    pub fn function(&self) -> &Arc<F> {
        &self.function
    }

    /// Returns the socket's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets the time limit of a client to introduce itself, to end a message that it has begun, and to take a reply.
    ///
    /// Between messages a client may be silent for any time; the default is [`CLIENT_TIMEOUT`].
    pub fn set_client_timeout(&mut self, limit: Duration) {
        self.client_timeout = limit;
    }

    /// Listens on `path`. The socket is removed when the server is dropped, unless another server's socket has taken
    /// its place.
    ///
    /// # Errors
    ///
    /// [`ServerError::Exists`] when the path exists and is no abandoned socket, [`ServerError::Listen`] when
    /// the socket cannot be made.
    pub fn bind(
        path: &Path,
        function: Arc<F>,
        regions: Regions,
        irqs: Arc<Irqs>,
        memory: GuestMemoryAtomic<GuestMemoryMmap>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { path: path.to_owned(), source };
        // A socket without a listener was left by a killed server.
        if let Ok(metadata) = fs::symlink_metadata(path) {
            // Connecting to a plain file is refused, too: it must not be taken for a stale socket.
            let is_socket = metadata.file_type().is_socket();
            match UnixStream::connect(path) {
                Err(error) if is_socket && error.kind() == io::ErrorKind::ConnectionRefused => {
                    fs::remove_file(path).map_err(failed)?;
                }
                _ => return Err(ServerError::Exists(path.to_owned())),
            }
        }
        use rustix::event::EventfdFlags;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let wake = Arc::new(wake);
        // The listener must not block: a client that leaves before it is accepted must not make the server wait for
        // the next one.
        let listener = UnixListener::bind(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let socket = fs::symlink_metadata(path).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            identity: (socket.dev(), socket.ino()),
            client_timeout: CLIENT_TIMEOUT,
            function,
            regions,
            irqs,
            dma: DmaTable::new(memory, wake.clone()),
            shared: Arc::new(Shared {
                stopping: AtomicBool::new(false),
                wake,
                client: Mutex::new(None),
                counters: Counters::default(),
            }),
        })
    }

    /// Returns a handle that stops this server.
    #[must_use]
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle { shared: self.shared.clone() }
    }

    /// Serves client after client until stopped; the device is reset before the next client is accepted.
    ///
    /// # Errors
    ///
    /// [`ServerError::Accept`] when it cannot wait for clients, [`ServerError::Renew`] when the device cannot
    /// be made ready for the next one.
    pub fn run(&mut self) -> Result<(), ServerError> {
        while let Some(stream) = self.accept()? {
            self.shared.counters.clients.fetch_add(1, Ordering::Relaxed);
            log::info!(target: "vfio_user", "client connected");
            if let Err(error) = self.serve(stream) {
                log::warn!(target: "vfio_user", "client dropped: {error}");
            }
            *lock(&self.shared.client) = None;
            self.irqs.clear();
            self.dma.clear();
            self.publish();
            let renewed = self.function.client_left(&mut self.regions);
            renewed.map_err(|error| ServerError::Renew(Box::new(error)))?;
            log::info!(target: "vfio_user", "client gone; device reset");
        }
        Ok(())
    }

    /// Tells the device all changes of the guest's memory.
    fn publish(&mut self) {
        let function = &self.function;
        self.dma.publish(|| function.memory_changed());
    }

    /// Takes back the signal that ended a wait; returns true if the server has to stop.
    fn woken(&self) -> bool {
        let _ = rustix::io::read(&*self.shared.wake, &mut [0; 8]);
        self.shared.stopping.load(Ordering::SeqCst)
    }

    fn accept(&self) -> Result<Option<UnixStream>, ServerError> {
        use rustix::event::{PollFd, PollFlags, poll};
        loop {
            if self.shared.stopping.load(Ordering::SeqCst) {
                return Ok(None);
            }
            let mut fds = [
                PollFd::new(&self.listener, PollFlags::IN),
                PollFd::from_borrowed_fd(self.shared.wake.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(ServerError::Accept(errno.into())),
                Ok(_) => {}
            }
            if !fds[1].revents().is_empty() && self.woken() {
                return Ok(None);
            }
            match self.listener.accept() {
                Ok((stream, _)) => return Ok(Some(stream)),
                Err(error) => match error.kind() {
                    // The client left before it was accepted, or there was none.
                    io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::WouldBlock
                    | io::ErrorKind::Interrupted => {}
                    _ => return Err(ServerError::Accept(error)),
                },
            }
        }
    }

    /// Serves one client until it leaves; the error is the reason to drop it.
    fn serve(&mut self, stream: UnixStream) -> Result<(), ConnectionError> {
        *lock(&self.shared.client) = Some(stream.try_clone()?);
        // `stop` may have looked for a client just before this one came.
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Ok(());
        }
        let shared = self.shared.clone();
        let mut connection = Connection::new(stream, shared.wake.clone(), self.client_timeout);
        let mut greeted = false;
        let mut held = 0;
        loop {
            if held > 0 && (held == HELD_REPLIES || !connection.is_ready()) {
                self.publish();
                connection.release()?;
                held = 0;
            }
            let silence = (!greeted).then_some(self.client_timeout);
            let mut message = match connection.receive(silence)? {
                Incoming::Message(message) => message,
                Incoming::Closed => return Ok(()),
                Incoming::Woken if self.woken() => return Ok(()),
                Incoming::Woken if self.dma.is_lost() => {
                    log::error!(target: "vfio_user", "client dropped: a file of its guest's memory was cut short");
                    return Ok(());
                }
                Incoming::Woken => continue,
            };
            shared.counters.messages.fetch_add(1, Ordering::Relaxed);
            if !message.header.is_command() {
                log::warn!(target: "vfio_user", "reply to nothing: command={}", message.header.command);
                continue;
            }
            let of_memory = matches!(message.header.command, command::DMA_MAP | command::DMA_UNMAP);
            if held > 0 && !of_memory {
                self.publish();
                connection.release()?;
                held = 0;
            }
            let fds = std::mem::take(&mut message.fds);
            let first = !greeted;
            if first && message.header.command != command::VERSION {
                connection.reply(&message.header, Err(libc::EINVAL))?;
                log::warn!(target: "vfio_user", "client dropped: no version agreed");
                return Ok(());
            }
            if of_memory {
                // The reply tells the client that the device has been told. So it is held back, and may wait for
                // further changes.
                let answer = self.change_memory(&message, fds);
                count_error(&shared.counters, message.header.command, answer.as_ref().err());
                if self.dma.is_changed() {
                    connection.hold(&message.header, answer);
                    held += 1;
                } else {
                    connection.reply(&message.header, answer)?;
                }
                continue;
            }
            let answer = self.handle(&message, fds);
            count_error(&shared.counters, message.header.command, answer.as_ref().err());
            let refused = first && answer.is_err();
            greeted = true;
            connection.reply(&message.header, answer)?;
            if refused {
                log::warn!(target: "vfio_user", "client dropped: no version agreed");
                return Ok(());
            }
        }
    }

    /// Carries out DMA_MAP and DMA_UNMAP.
    fn change_memory(&mut self, message: &Message, fds: Vec<OwnedFd>) -> Result<Reply<'static>, i32> {
        let mut fields = Fields::new(&message.payload);
        let (_argsz, flags) = (fields.u32()?, fields.u32()?);
        let (changed, reply) = if message.header.command == command::DMA_MAP {
            let (offset, start, size) = (fields.u64()?, fields.u64()?, fields.u64()?);
            if fds.len() > 1 {
                return Err(libc::EINVAL);
            }
            (self.dma.map(flags, offset, start, size, fds.into_iter().next()), Vec::new())
        } else {
            let (start, size) = (fields.u64()?, fields.u64()?);
            (self.dma.unmap(flags, start, size), message.payload[..24].to_vec())
        };
        changed.map(|()| reply.into()).map_err(|error| {
            // Memory that cannot be shared is not the guest's fault: the log reports it to the user who started QEMU.
            let level =
                if matches!(error, DmaError::File { .. }) { log::Level::Error } else { log::Level::Warn };
            if may_be_said(&self.shared.counters) {
                log::log!(target: "vfio_user", level, "{error}");
            }
            error.errno()
        })
    }

    fn handle(&mut self, message: &Message, fds: Vec<OwnedFd>) -> Result<Reply<'_>, i32> {
        let mut fields = Fields::new(&message.payload);
        match message.header.command {
            command::VERSION => negotiate(&message.payload).map(Reply::from),
            command::DEVICE_GET_INFO => {
                let words = [
                    16,
                    VFIO_DEVICE_FLAGS_PCI | VFIO_DEVICE_FLAGS_RESET,
                    self.regions.count(),
                    VFIO_PCI_NUM_IRQS,
                ];
                Ok(words_to_bytes(&words).into())
            }
            command::DEVICE_GET_REGION_INFO => {
                let (argsz, _flags, index) = (fields.u32()?, fields.u32()?, fields.u32()?);
                let (payload, file) = self.regions.info(index, argsz)?;
                Ok(Reply { payload, fds: file.into_iter().collect() })
            }
            command::DEVICE_GET_IRQ_INFO => {
                let (_argsz, _flags, index) = (fields.u32()?, fields.u32()?, fields.u32()?);
                if index >= VFIO_PCI_NUM_IRQS {
                    return Err(libc::EINVAL);
                }
                let count = if index == VFIO_PCI_MSIX_IRQ_INDEX { u32::from(self.irqs.count()) } else { 0 };
                // No NORESIZE: with it, QEMU disconnects all vectors each time one is added.
                let flags = if count == 0 { 0 } else { VFIO_IRQ_INFO_EVENTFD };
                Ok(words_to_bytes(&[16, flags, index, count]).into())
            }
            command::DEVICE_SET_IRQS => {
                let (_argsz, flags) = (fields.u32()?, fields.u32()?);
                let (index, start, count) = (fields.u32()?, fields.u32()?, fields.u32()?);
                match index {
                    VFIO_PCI_MSIX_IRQ_INDEX => self.irqs.set(flags, start, count, fields.rest(), fds)?,
                    // QEMU also disables the kinds that the device does not have.
                    _ if index < VFIO_PCI_NUM_IRQS && count == 0 => {}
                    _ => return Err(libc::EINVAL),
                }
                Ok(Reply::default())
            }
            command::REGION_READ => {
                let (offset, index, count) = (fields.u64()?, fields.u32()?, fields.u32()?);
                if count as usize > MAX_TRANSFER {
                    return Err(libc::EINVAL);
                }
                let target = self.regions.resolve(index, offset, u64::from(count))?;
                let mut payload = vec![0; 16 + count as usize];
                let (head, data) = payload.split_at_mut(16);
                head.copy_from_slice(&message.payload[..16]);
                match target {
                    Target::Bar(bar) => self.function.bar_read(bar, offset, data)?,
                    Target::Config => self.function.config_read(offset as usize, data),
                }
                Ok(payload.into())
            }
            command::REGION_WRITE => {
                let (offset, index, count) = (fields.u64()?, fields.u32()?, fields.u32()?);
                self.region_write(index, offset, fields.bytes(count as usize)?)?;
                Ok(message.payload[..16].to_vec().into())
            }
            command::REGION_WRITE_MULTI => {
                let writes = fields.u64()?;
                for _ in 0..writes {
                    let (offset, index, count) = (fields.u64()?, fields.u32()?, fields.u32()?);
                    let data = fields.bytes(8)?.get(..count as usize).ok_or(libc::EINVAL)?;
                    self.region_write(index, offset, data)?;
                }
                Ok(writes.to_le_bytes().to_vec().into())
            }
            command::DEVICE_RESET => {
                self.function.reset();
                Ok(Reply::default())
            }
            _ => Err(libc::ENOTSUP),
        }
    }

    fn region_write(&self, index: u32, offset: u64, data: &[u8]) -> Result<(), i32> {
        match self.regions.resolve(index, offset, data.len() as u64)? {
            Target::Bar(bar) => self.function.bar_write(bar, offset, data),
            Target::Config => {
                self.function.config_write(offset as usize, data);
                Ok(())
            }
        }
    }
}

impl<F> Drop for Server<F> {
    fn drop(&mut self) {
        // The user may have removed the socket meanwhile, and another server may have made its own.
        let ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|socket| (socket.dev(), socket.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Counts an error, and logs it unless there have been many.
fn count_error(counters: &Counters, command: u16, errno: Option<&i32>) {
    let Some(&errno) = errno else { return };
    if may_be_said(counters) {
        log::warn!(target: "vfio_user", "command={command} failed: {}", io::Error::from_raw_os_error(errno));
    }
    counters.errors.fetch_add(1, Ordering::Relaxed);
}

/// Returns true if the next error is worth a line: a client may make any number of them.
fn may_be_said(counters: &Counters) -> bool {
    let count = counters.errors.load(Ordering::Relaxed);
    count < 20 || count.is_power_of_two()
}

fn words_to_bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
