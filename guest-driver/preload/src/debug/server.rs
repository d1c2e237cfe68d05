//! The companion's side: debuggers of the program, and the notices that are sent to them.
//!
//! One thread serves all of them, one call after the other. Its sockets are in a table of descriptors that
//! the program does not share, so that the program cannot close them. A second thread with the same table
//! writes notices, as the driver's threads have another table.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use belfry_abi::kfd::debug::{DbgTrapArgs, DbgTrapOp};
use belfry_kfd_hosted::{HostedProcess, Notices, leave_descriptors, write_notice};
use belfry_lock::{Condvar, Mutex, rank};

use super::wire::{self, Memory, Message};
use super::{of_debugger, of_program, process};
use crate::companion;
use crate::gpu::Gpu;
use crate::notice;
use crate::real::raw;

/// Debuggers that may be connected at a time; one is attached.
const PEERS: usize = 8;
/// Longest time the rest of a message may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Threads for the driver's work that are there before a debugger is.
const WORKERS: usize = 4;

/// 1 while a call of a debugger is made that it has no answer to yet.
static ANSWERING: AtomicU32 = AtomicU32::new(0);

/// A call of a debugger, until that has its answer.
struct Answering;

impl Answering {
    fn begin() -> Self {
        ANSWERING.store(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        ANSWERING.store(0, Ordering::SeqCst);
        raw::futex(&ANSWERING, libc::FUTEX_WAKE, u32::MAX >> 1, None);
    }
}

/// Waits until a debugger has its answer whose call this thread of the program may go on by: the program may be about to end,
/// and the companion with it.
#[cfg(not(test))]
pub(crate) fn let_answer() {
    if ANSWERING.load(Ordering::SeqCst) == 0 {
        return;
    }
    let until = std::time::Instant::now() + PATIENCE;
    while ANSWERING.load(Ordering::SeqCst) != 0 {
        let left = until.saturating_duration_since(std::time::Instant::now());
        if left.is_zero() {
            return;
        }
        raw::futex(&ANSWERING, libc::FUTEX_WAIT, 1, Some(left));
    }
}

/// In a forked child, which no debugger has called.
pub(crate) fn forget() {
    ANSWERING.store(0, Ordering::SeqCst);
}

/// Notices that are to be written.
#[derive(Default)]
struct Outbox {
    files: Mutex<Vec<Arc<Told>>, rank::DebugNotices>,
    rung: Condvar,
}

/// A debugger's descriptor, as the driver knows it.
struct Told {
    outbox: Arc<Outbox>,
    is_due: AtomicBool,
    /// Of the serving thread's table: taken out by that.
    file: Mutex<Option<File>, rank::DebugNotice>,
}

impl Notices for Told {
    fn notify(&self) {
        self.is_due.store(true, Ordering::Release);
        // The writer looks and sleeps under the lock, which is held for a write that does not wait at most.
        drop(self.outbox.files.lock().unwrap_or_else(PoisonError::into_inner));
        self.outbox.rung.notify_one();
    }
}

impl Outbox {
    /// Writes notices that are due, for ever.
    fn write(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            for told in files.iter().filter(|told| told.is_due.swap(false, Ordering::AcqRel)) {
                if let Some(file) = &*told.file.lock().unwrap_or_else(PoisonError::into_inner) {
                    write_notice(file);
                }
            }
            if !files.iter().any(|told| told.is_due.load(Ordering::Acquire)) {
                files = self.rung.wait(files).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

/// A debugger, or a process that asks to be one.
struct Peer {
    socket: UnixStream,
    pid: u32,
    /// Stands for it in the driver.
    process: HostedProcess,
    told: Arc<Told>,
    is_attached: bool,
}

/// The thread.
struct Server {
    gpu: &'static Gpu,
    outbox: Arc<Outbox>,
    peers: Vec<Peer>,
}

/// Starts to serve debuggers of this program, and lets one attach that waits for it.
///
/// Without a socket or a thread, of which the user is told, the program goes on, and cannot be debugged.
pub(crate) fn serve(gpu: &'static Gpu) {
    gpu.machine.gpus().iter().for_each(|gpu| gpu.add_work_threads(WORKERS));
    let (started, start) = sync_channel(1);
    let thread = std::thread::Builder::new().name("belfry-debug".to_owned());
    let spawned = thread.spawn(move || run(gpu, &started));
    if let Err(error) = spawned.and_then(|_| start.recv().map_err(io::Error::other)?) {
        notice::say(format_args!("debuggers of this program cannot be served: {error}"));
    }
}

fn run(gpu: &'static Gpu, started: &SyncSender<io::Result<()>>) {
    let prepared = prepare(gpu);
    match prepared {
        Ok((listener, mut server)) => {
            server.look_for_debugger();
            let _ = started.send(Ok(()));
            server.run(&listener);
        }
        Err(error) => {
            let _ = started.send(Err(error));
        }
    }
}

fn prepare(gpu: &'static Gpu) -> io::Result<(UnixListener, Server)> {
    leave_descriptors()?;
    let outbox = Arc::<Outbox>::default();
    let writer = outbox.clone();
    std::thread::Builder::new().name("belfry-notices".to_owned()).spawn(move || writer.write())?;
    let listener = UnixListener::bind_addr(&of_program(companion::process() as u32)?)?;
    Ok((listener, Server { gpu, outbox, peers: Vec::new() }))
}

impl Server {
    /// A debugger may have attached before there was a GPU: its first call is made at once.
    fn look_for_debugger(&mut self) {
        let pid = companion::process() as u32;
        if process::tracer(pid).is_none() {
            return;
        }
        let Some(socket) = of_debugger(pid).and_then(|name| UnixStream::connect_addr(&name)).ok() else {
            return;
        };
        if self.add(socket) && !self.call(0) {
            self.remove(0);
        }
    }

    fn add(&mut self, socket: UnixStream) -> bool {
        let Some((pid, user)) = process::peer(&socket) else { return false };
        // Other users can trace nothing here, and would keep those waiting that can.
        let may = user == process::user() || user == 0;
        if !may {
            let args = DbgTrapArgs { pid: 0, op: u32::MAX, args: [0; 6] };
            let refused = Message { result: -libc::EPERM, args, memory: Vec::new(), file: None };
            // The socket is new, so that there is room; a peer that does not listen is not told.
            let _ = wire::send(&socket, &refused, None);
            return false;
        }
        let patient = socket.set_read_timeout(Some(PATIENCE)).and(socket.set_write_timeout(Some(PATIENCE)));
        if patient.is_err() || self.peers.len() == PEERS {
            return false;
        }
        let Ok(process) = self.gpu.machine.open() else { return false };
        let told = Arc::new(Told {
            outbox: self.outbox.clone(),
            is_due: AtomicBool::new(false),
            file: Mutex::default(),
        });
        self.outbox.files.lock().unwrap_or_else(PoisonError::into_inner).push(told.clone());
        self.peers.push(Peer { socket, pid, process, told, is_attached: false });
        true
    }

    /// Its process in the driver ends, which detaches it.
    fn remove(&mut self, index: usize) {
        let Peer { process, told, .. } = self.peers.remove(index);
        drop(process);
        told.set_file(None);
        let mut files = self.outbox.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.retain(|file| !Arc::ptr_eq(file, &told));
    }

    fn run(&mut self, listener: &UnixListener) {
        loop {
            let sockets = self.peers.iter().map(|peer| peer.socket.as_raw_fd());
            let fds = std::iter::once(listener.as_raw_fd()).chain(sockets);
            let mut polled: Vec<_> =
                fds.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
            poll(&mut polled);
            // From the end, as the removal of a peer moves those after it.
            for index in (0..self.peers.len()).rev() {
                if polled[index + 1].revents != 0 && !self.call(index) {
                    self.remove(index);
                }
            }
            if polled[0].revents != 0
                && let Ok((socket, _)) = listener.accept()
            {
                self.add(socket);
            }
        }
    }

    /// Makes the next call of a debugger; `false` when there will be none.
    fn call(&mut self, index: usize) -> bool {
        let peer = &mut self.peers[index];
        let Ok(mut message) = wire::receive(&peer.socket) else { return false };
        let file = message.file.take().map(File::from);
        let _answering = Answering::begin();
        message.result = match peer.make(self.gpu, &mut message, file) {
            Ok(value) => value,
            Err(errno) => -errno,
        };
        wire::send(&peer.socket, &message, None).is_ok()
    }
}

impl Told {
    fn set_file(&self, file: Option<File>) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

impl Peer {
    /// Makes one call, which updates its arguments and memory in `message`.
    fn make(&mut self, gpu: &Gpu, message: &mut Message, file: Option<File>) -> Result<i32, i32> {
        let given = std::mem::take(&mut message.memory);
        let is_enable = message.args.op == DbgTrapOp::Enable as u32;
        if !self.is_attached && !process::traces(self.pid, companion::process() as u32) {
            return Err(libc::EPERM);
        }
        if is_enable && !self.is_attached {
            self.told.set_file(Some(file.ok_or(libc::EBADF)?));
        }
        let mut args = message.args;
        args.pid = gpu.process.pid();
        wire::cut(&mut args);
        let memory = Memory::of(&args);
        let mut room = vec![0u8; memory.map_or(0, |memory| memory.len)];
        if let Some(memory) = memory {
            if memory.is_read {
                let len = given.len().min(room.len());
                room[..len].copy_from_slice(&given[..len]);
            }
            memory.set_address(&mut args, room.as_mut_ptr() as u64);
        }
        let notices: Arc<dyn Notices> = self.told.clone();
        let result = self.process.debug(&mut args, &notices);
        if let Some(memory) = memory {
            memory.set_address(&mut args, memory.address(&message.args));
        }
        args.pid = message.args.pid;
        (message.args, message.memory) = (args, room);
        match (is_enable, &result) {
            (true, Ok(_)) => self.is_attached = true,
            (true, Err(_)) if !self.is_attached => self.told.set_file(None),
            (false, Ok(_)) if message.args.op == DbgTrapOp::Disable as u32 => {
                self.is_attached = false;
                self.told.set_file(None);
            }
            _ => {}
        }
        result.map_err(|errno| errno.raw())
    }
}

#[expect(unsafe_code, reason = "a system call")]
fn poll(polled: &mut [libc::pollfd]) {
    // SAFETY: as many structures as it says, which live as long as the call.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, -1) };
}
