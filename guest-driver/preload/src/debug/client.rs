//! The debugger's side: calls for other processes, which have a driver each.
//!
//! Until a program that is debugged opens the GPU, there is no driver to send calls to. A process of this
//! program's own driver, the stand-in, is debugged instead: it answers as a driver does that knows a process
//! and nothing of it. When the program's companion starts, it asks here, and is told the debugger's requests.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use belfry_abi::kfd::debug::{DbgTrapArgs, DbgTrapOp};
use belfry_abi::kfd::ioctl::DBG_TRAP;
use belfry_kfd_hosted::{HostedProcess, Node};
use belfry_lock::{Mutex, MutexGuard, rank};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::wire::{self, Memory, Message};
use super::{Answer, HOSTED, of_debugger, of_program, process};
use crate::gpu::Gpu;
use crate::inside::inside_here;
use crate::{companion, notice};

/// Interval in milliseconds at which a thread that waits for a companion checks if it is still to wait.
const LOOK_MS: i32 = 200;

/// A process that this one debugs.
enum Link {
    /// The process has not opened the GPU.
    Waits { stand_in: Box<HostedProcess>, mask: u64, notices: OwnedFd, turn: u64 },
    /// Its companion is connected.
    Joined(UnixStream),
}

#[derive(Default)]
struct Links {
    by_pid: BTreeMap<u32, Link>,
    /// Number of processes that have waited.
    turns: u64,
}

type LinksLock = Mutex<Links, rank::DebugLinks>;

/// The links; null until there are some.
static LINKS: AtomicPtr<LinksLock> = AtomicPtr::new(std::ptr::null_mut());

#[expect(unsafe_code, reason = "reads what was leaked")]
fn lock() -> Option<&'static LinksLock> {
    // SAFETY: null, or a box that `links` has leaked.
    unsafe { LINKS.load(Ordering::Acquire).as_ref() }
}

fn links() -> MutexGuard<'static, Links, rank::DebugLinks> {
    let lock = lock().unwrap_or_else(|| {
        let made: &'static LinksLock = Box::leak(Box::default());
        let at = std::ptr::from_ref(made).cast_mut();
        let first = LINKS.compare_exchange(std::ptr::null_mut(), at, Ordering::AcqRel, Ordering::Acquire);
        if first.is_ok() { made } else { lock().unwrap_or(made) }
    });
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Forgets the links in a forked child: its parent's debugging is not its own, nor is a call that was under way in the
/// parent.
pub(crate) fn forget() {
    let Some(lock) = lock() else { return };
    let Ok(mut links) = lock.try_lock() else {
        // The thread that has it is not here, and would never let it go.
        return LINKS.store(std::ptr::null_mut(), Ordering::Release);
    };
    // A stand-in is of a driver that is not here: it is left as it is.
    for (_, link) in std::mem::take(&mut links.by_pid) {
        match link {
            Link::Joined(socket) => drop(socket),
            Link::Waits { stand_in, notices, .. } => {
                std::mem::forget(stand_in);
                drop(notices);
            }
        }
    }
}

/// Runs a call of this program's own driver.
fn driver<R>(call: impl FnOnce() -> R) -> R {
    if companion::serves() { companion::run(call) } else { call() }
}

/// `DBG_TRAP`, if it is for another process.
pub(crate) fn trap(gpu: &'static Gpu, argument: *mut std::ffi::c_void) -> Option<Answer> {
    inside_here(|| {
        let at = argument as u64;
        let mut bytes = [0; size_of::<DbgTrapArgs>()];
        // A bad pointer is for the driver to refuse.
        process::read(&mut bytes, at).ok()?;
        let mut args = DbgTrapArgs::read_from_bytes(&bytes).ok()?;
        if args.pid == companion::process() as u32 || args.pid >= HOSTED {
            return None;
        }
        let mut result = links().call(gpu, &mut args);
        // Arguments go back even if the call has failed.
        if let Err(errno) = process::write(args.as_bytes(), at) {
            result = Err(errno);
        }
        Some(result)
    })
}

impl Links {
    fn call(&mut self, gpu: &'static Gpu, args: &mut DbgTrapArgs) -> Answer {
        let pid = args.pid;
        let enables = args.op == DbgTrapOp::Enable as u32;
        let result = match self.by_pid.get_mut(&pid) {
            Some(Link::Joined(socket)) => {
                let socket = socket.try_clone().map_err(|_| libc::EMFILE)?;
                self.ask_joined(&socket, args)
            }
            Some(Link::Waits { .. }) if !process::lives(pid) => {
                self.remove(pid);
                Err(libc::ESRCH)
            }
            Some(Link::Waits { stand_in, mask, .. }) => {
                let result = ask_stand_in(gpu, stand_in, args);
                if args.op == DbgTrapOp::SetExceptionsEnabled as u32 && result.is_ok() {
                    *mask = u64::from(args.args[0]) | u64::from(args.args[1]) << 32;
                }
                result
            }
            None if enables => self.attach(gpu, args),
            None => match connect(pid) {
                Some(socket) => ask(&socket, args, None).unwrap_or(Err(libc::ESRCH)),
                None => Err(unknown(pid)),
            },
        };
        if args.op == DbgTrapOp::Disable as u32 && result.is_ok() {
            self.remove(pid);
        }
        result
    }

    fn remove(&mut self, pid: u32) {
        if let Some(Link::Waits { stand_in, .. }) = self.by_pid.remove(&pid) {
            driver(|| drop(stand_in));
        }
    }

    fn ask_joined(&mut self, socket: &UnixStream, args: &mut DbgTrapArgs) -> Answer {
        let pid = args.pid;
        let (enables, fd) = (args.op == DbgTrapOp::Enable as u32, args.args[5] as i32);
        let file = if enables { Some(copy_of(fd)?) } else { None };
        ask(socket, args, file.as_ref().map(|file| file.as_fd())).unwrap_or_else(|_| {
            // The program has ended, or has become another one.
            self.remove(pid);
            Err(libc::ESRCH)
        })
    }

    /// Attaches: to the companion of the process, or to it before there is one.
    fn attach(&mut self, gpu: &'static Gpu, args: &mut DbgTrapArgs) -> Answer {
        let pid = args.pid;
        if let Some(socket) = connect(pid) {
            return self.join(socket, args);
        }
        if !process::lives(pid) || !process::traces(companion::process() as u32, pid) {
            return Err(libc::ESRCH);
        }
        if process::is_debuggable(pid) != Some(true) {
            return Err(unknown(pid));
        }
        let notices = copy_of(args.args[5] as i32)?;
        let listener = of_debugger(pid).and_then(|name| UnixListener::bind_addr(&name));
        // Another debugger has attached in the same way.
        let listener = listener.map_err(|_| libc::EALREADY)?;
        let stand_in = driver(|| gpu.machine.open()).map(Box::new).map_err(|_| libc::ENOMEM)?;
        let mask = u64::from(args.args[0]) | u64::from(args.args[1]) << 32;
        let result = ask_stand_in(gpu, &stand_in, args);
        if result.is_err() {
            driver(|| drop(stand_in));
            return result;
        }
        // The companion may have started meanwhile, before the debugger listened.
        if let Some(socket) = connect(pid) {
            driver(|| drop(stand_in));
            return self.join(socket, args);
        }
        self.turns += 1;
        let turn = self.turns;
        let thread = std::thread::Builder::new().name("belfry-attach".to_owned());
        if thread.spawn(move || wait(&listener, pid, turn)).is_err() {
            driver(|| drop(stand_in));
            return Err(libc::ENOMEM);
        }
        self.by_pid.insert(pid, Link::Waits { stand_in, mask, notices, turn });
        result
    }

    fn join(&mut self, socket: UnixStream, args: &mut DbgTrapArgs) -> Answer {
        let file = copy_of(args.args[5] as i32)?;
        let result = ask(&socket, args, Some(file.as_fd())).unwrap_or(Err(libc::ESRCH));
        if result.is_ok() {
            self.by_pid.insert(args.pid, Link::Joined(socket));
        }
        result
    }
}

/// Why a process without a companion cannot be debugged; said, once, if it could be with an option.
fn unknown(pid: u32) -> i32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    if process::is_debuggable(pid) == Some(false) && LAST.swap(pid, Ordering::Relaxed) != pid {
        notice::say(format_args!(
            "process {pid} cannot be debugged: its GPU's driver stops with it; start it with `belfry exec --debuggable`"
        ));
    }
    libc::ESRCH
}

/// Another number of one of the program's descriptors.
#[expect(unsafe_code, reason = "borrows a descriptor by its number")]
fn copy_of(fd: i32) -> Result<OwnedFd, i32> {
    if fd < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: the number is only duplicated, at once: one that is no descriptor's is refused by the kernel.
    unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned().map_err(|_| libc::EBADF)
}

/// Connects to the companion of a process, if it has one.
fn connect(pid: u32) -> Option<UnixStream> {
    let socket = UnixStream::connect_addr(&of_program(pid).ok()?).ok()?;
    is_companion(&socket, pid).then_some(socket)
}

/// Returns true if the companion of a process is at the other end: a child of it, which others cannot be.
fn is_companion(socket: &UnixStream, pid: u32) -> bool {
    process::peer(socket).and_then(|(companion, _)| process::parent(companion)) == Some(pid)
}

/// Makes a call for a stand-in.
fn ask_stand_in(gpu: &'static Gpu, stand_in: &HostedProcess, args: &mut DbgTrapArgs) -> Answer {
    let pid = std::mem::replace(&mut args.pid, stand_in.pid());
    let pointer = std::ptr::from_mut(args) as usize;
    let result = driver(|| gpu.process.ioctl(Node::Kfd, DBG_TRAP, pointer as *mut _));
    args.pid = pid;
    result.map_err(|errno| errno.raw())
}

/// Makes a call of the companion at the other end.
fn ask(socket: &UnixStream, args: &mut DbgTrapArgs, file: Option<BorrowedFd<'_>>) -> io::Result<Answer> {
    let given = *args;
    let mut message = Message { result: 0, args: given, memory: Vec::new(), file: None };
    wire::cut(&mut message.args);
    let sent = message.args;
    let memory = Memory::of(&sent);
    if let Some(memory) = memory.filter(|memory| memory.is_read) {
        message.memory = vec![0; memory.len];
        if let Err(errno) = process::read(&mut message.memory, memory.address(&given)) {
            return Ok(Err(errno));
        }
    }
    match wire::send(socket, &message, file) {
        // Who has closed may have said why.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => return Err(error),
        _ => {}
    }
    let answer = wire::receive(socket)?;
    if answer.args.op == sent.op {
        *args = answer.args;
    }
    if answer.result < 0 {
        return Ok(Err(answer.result.saturating_neg()));
    }
    let written = match memory {
        None => Ok(()),
        Some(memory) if wire::is_snapshot(&given) => {
            give_entries(memory.address(&given), (&given, &sent), &answer)
        }
        Some(memory) => {
            let len = answer.memory.len().min(memory.len);
            process::write(&answer.memory[..len], memory.address(&given))
        }
    };
    Ok(written.map(|()| answer.result))
}

/// Copies the entries of a snapshot to where the program wants them, which may be further apart than they were sent.
fn give_entries(at: u64, (given, sent): (&DbgTrapArgs, &DbgTrapArgs), answer: &Message) -> Result<(), i32> {
    let (room, step) = (u64::from(given.args[5]), sent.args[5] as usize);
    let count = sent.args[4].min(answer.args.args[4]) as usize;
    if step == 0 {
        return Ok(());
    }
    let mut at = at;
    for entry in answer.memory.chunks(step).take(count) {
        let len = (answer.args.args[5] as usize).min(entry.len());
        process::write(&entry[..len], at)?;
        at = at.checked_add(room).ok_or(libc::EFAULT)?;
    }
    Ok(())
}

/// Waits for the companion of a process that has not opened the GPU, and attaches to it.
fn wait(listener: &UnixListener, pid: u32, turn: u64) {
    let waits =
        |links: &Links| matches!(links.by_pid.get(&pid), Some(Link::Waits { turn: now, .. }) if *now == turn);
    loop {
        let mut polled = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        poll(&mut polled);
        if polled.revents == 0 {
            if !waits(&links()) {
                return;
            }
            continue;
        }
        let Ok((socket, _)) = listener.accept() else { continue };
        if !is_companion(&socket, pid) {
            continue;
        }
        let mut links = links();
        if !waits(&links) {
            return;
        }
        let Some(Link::Waits { stand_in, mask, notices, .. }) = links.by_pid.remove(&pid) else { return };
        driver(|| drop(stand_in));
        let mut args = DbgTrapArgs { pid, op: DbgTrapOp::Enable as u32, args: [0; 6] };
        let mut info = [0u8; 16];
        let pointer = info.as_mut_ptr() as u64;
        args.args =
            [mask as u32, (mask >> 32) as u32, pointer as u32, (pointer >> 32) as u32, info.len() as u32, 0];
        if let Ok(Ok(_)) = ask(&socket, &mut args, Some(notices.as_fd())) {
            links.by_pid.insert(pid, Link::Joined(socket));
        } else {
            notice::say(format_args!("process {pid} has opened the GPU, and cannot be debugged any more"));
        }
        return;
    }
}

#[expect(unsafe_code, reason = "a system call")]
fn poll(polled: &mut libc::pollfd) {
    // SAFETY: one structure, which lives as long as the call.
    unsafe { libc::poll(polled, 1, LOOK_MS) };
}
