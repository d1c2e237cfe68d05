//! A companion: a process of its own that device and driver run in, beside a program that may be debugged.
//!
//! A debugger that stops a program stops all threads of its process. With `--debuggable`, the threads of the device and
//! the driver are not among them: they are in a companion, a process that shares the program's memory and descriptors
//! and nothing else (`clone` with `CLONE_VM` and `CLONE_FILES`, without `CLONE_THREAD`). No tracer gets the companion
//! (`CLONE_UNTRACED`), and the program's `wait` does not wait for it (no signal when it ends). The companion's threads
//! make the calls of the driver, while the program's threads wait. So no lock of the driver is held by a thread that a
//! debugger can stop.
//!
//! A thread of the C library has memory that only the library can make. So the program starts one that does nothing but to
//! make the companion and to wait for its end: the companion's first thread goes on with that memory.
//!
//! | end | noticed by |
//! | --- | --- |
//! | the program ends, is killed, or becomes another one | the kernel, which kills the companion when the thread that made it is gone; where it may not, as the program has become another user's, it clears a word that the companion waits for |
//! | the companion ends | the thread that made it, which ends the program in the same way |
#![expect(unsafe_code, reason = "makes a process, and hands calls over to its threads")]

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use crate::alloc::ALLOCATOR;
use crate::notice;
use crate::real::{errno, raw, set_errno};
use crate::thread_kind::{Kind, become_thread_of, inside_here, is_companion_thread};

/// Threads that make calls: as many as the program's threads can wait for at a time.
const MOST: usize = 256;
/// Stack of the companion's first thread, which starts others.
const STACK: usize = 256 << 10;
/// Pause between looks for a free thread, if all are busy.
const TURN: Duration = Duration::from_millis(1);

/// The program, for which there is a companion; 0 where there is none.
static PROGRAM: AtomicI32 = AtomicI32::new(0);
/// The companion takes calls.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Cleared by the kernel when the thread that made the companion is gone, and with it the program.
static LIVES: AtomicU32 = AtomicU32::new(0);
/// State of its start.
static STATE: AtomicU32 = AtomicU32::new(STARTING);
/// Number of times that no free thread was there to make a call.
static MISSED: AtomicU32 = AtomicU32::new(0);

const STARTING: u32 = 0;
const STARTED: u32 = 1;
const FAILED: u32 = 2;

/// A thread of the companion, and the call that it makes.
struct Caller {
    state: AtomicU32,
    call: UnsafeCell<Option<Call>>,
    /// `errno` of the thread that waits.
    errno: AtomicI32,
}

/// The call, in the memory of the thread that waits for it.
type Call = *mut (dyn FnMut() + 'static);

// SAFETY: the call is the waiting thread's while the state is `TAKEN`, and the companion's while it is `CALLED`.
unsafe impl Sync for Caller {}

/// There is no such thread.
const ABSENT: u32 = 0;
const FREE: u32 = 1;
const TAKEN: u32 = 2;
const CALLED: u32 = 3;
const DONE: u32 = 4;

static CALLERS: [Caller; MOST] = [const {
    Caller { state: AtomicU32::new(ABSENT), call: UnsafeCell::new(None), errno: AtomicI32::new(0) }
}; MOST];

fn set(word: &AtomicU32, value: u32) {
    word.store(value, Ordering::Release);
    raw::futex(word, libc::FUTEX_WAKE, u32::MAX >> 1, None);
}

/// Waits until a word is another one.
fn wait_while(word: &AtomicU32, value: u32) {
    while word.load(Ordering::Acquire) == value {
        raw::futex(word, libc::FUTEX_WAIT, value, None);
    }
}

/// The number of the process that the program knows itself by.
pub(crate) fn process() -> i32 {
    match PROGRAM.load(Ordering::Relaxed) {
        program if program != 0 && is_companion_thread() => program,
        _ => raw::getpid(),
    }
}

/// Returns true if calls of this thread are for the companion: not in it, and not in a child of `vfork`.
pub(crate) fn serves() -> bool {
    SERVES.load(Ordering::Acquire)
        && !is_companion_thread()
        && PROGRAM.load(Ordering::Relaxed) == raw::getpid()
}

/// Starts the companion of this process, if it has none.
///
/// # Errors
///
/// `ENOMEM` if there is no memory or no process for it; the user is told.
pub(crate) fn start() -> Result<(), c_int> {
    if SERVES.load(Ordering::Acquire) {
        return Ok(());
    }
    let started = ALLOCATOR.divide() && {
        PROGRAM.store(raw::getpid(), Ordering::Relaxed);
        STATE.store(STARTING, Ordering::Relaxed);
        let thread = std::thread::Builder::new().name("belfry-parent".to_owned()).stack_size(64 << 10);
        // Its signals are blocked as those of this thread are.
        inside_here(|| thread.spawn(parent)).is_ok() && {
            wait_while(&STATE, STARTING);
            STATE.load(Ordering::Acquire) == STARTED
        }
    };
    if !started {
        PROGRAM.store(0, Ordering::Relaxed);
        notice::say(format_args!("the process that --debuggable runs the GPU in cannot be started"));
        return Err(libc::ENOMEM);
    }
    SERVES.store(true, Ordering::Release);
    Ok(())
}

/// In a forked child there is none.
pub(crate) fn forget() {
    SERVES.store(false, Ordering::Release);
    PROGRAM.store(0, Ordering::Relaxed);
    for caller in &CALLERS {
        caller.state.store(ABSENT, Ordering::Relaxed);
    }
}

/// The thread that makes the companion. From then on its thread-local memory, `errno` included, is not its own.
fn parent() {
    LIVES.store(1, Ordering::Relaxed);
    // SAFETY: the word is static; the C library's own word serves threads that join this one, and no thread
    // does.
    unsafe { raw::call(libc::SYS_set_tid_address, [LIVES.as_ptr() as usize, 0, 0, 0, 0, 0]) };
    // SAFETY: memory for a stack, which is never given back; the function is one that never returns.
    let child = unsafe {
        let Some(stack) = raw::mmap_anonymous(STACK) else {
            set(&STATE, FAILED);
            return;
        };
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_FS | libc::CLONE_UNTRACED;
        libc::clone(first, stack.add(STACK).cast(), flags, std::ptr::null_mut())
    };
    if child < 0 {
        set(&STATE, FAILED);
        return;
    }
    let mut status: c_int = 0;
    loop {
        let arguments = [child as usize, (&raw mut status) as usize, libc::__WALL as usize, 0, 0, 0];
        // SAFETY: the status is this function's own.
        match unsafe { raw::call(libc::SYS_wait4, arguments) } {
            interrupted if interrupted == -(libc::EINTR as isize) => {}
            ended if ended == child as isize => break,
            // Another thread has waited for it.
            _ => {
                status = libc::SIGKILL;
                break;
            }
        }
    }
    if STATE.load(Ordering::Acquire) == FAILED {
        // It has not begun to serve, and the program goes on without a GPU.
        return;
    }
    notice::say(format_args!(
        "the process with the GPU's driver has ended (status {status:#x}), and the program with it"
    ));
    end_like(libc::WTERMSIG(status));
}

/// Ends this process by a signal, even if the program handles or blocks it.
fn end_like(signal: c_int) {
    let signal = if signal == 0 { libc::SIGABRT } else { signal };
    let default = [0u64; 4];
    let mask = 0u64;
    // SAFETY: the kernel's structures of an action and a mask, all zeros; signals to this process alone.
    unsafe {
        let (action, mask) = ((&raw const default) as usize, (&raw const mask) as usize);
        raw::call(libc::SYS_rt_sigaction, [signal as usize, action, 0, 8, 0, 0]);
        raw::call(libc::SYS_rt_sigprocmask, [libc::SIG_SETMASK as usize, mask, 0, 8, 0, 0]);
        let pid = raw::getpid() as usize;
        let thread = raw::call(libc::SYS_gettid, [0; 6]) as usize;
        raw::call(libc::SYS_tgkill, [pid, thread, signal as usize, 0, 0, 0]);
        raw::call(libc::SYS_kill, [pid, libc::SIGKILL as usize, 0, 0, 0, 0]);
    }
}

/// The companion's first thread: starts the others.
extern "C" fn first(_: *mut c_void) -> c_int {
    let program = PROGRAM.load(Ordering::Relaxed);
    // SAFETY: the kernel's calls, with what they take: the actions of this process are its own, and all its signals blocked.
    unsafe {
        raw::call(libc::SYS_prctl, [libc::PR_SET_PDEATHSIG as usize, libc::SIGKILL as usize, 0, 0, 0, 0]);
        if raw::call(libc::SYS_getppid, [0; 6]) != program as isize {
            raw::call(libc::SYS_exit_group, [0; 6]);
        }
        let default = [0u64; 4];
        for signal in 1..65 {
            raw::call(libc::SYS_rt_sigaction, [signal, (&raw const default) as usize, 0, 8, 0, 0]);
        }
        raw::call(
            libc::SYS_prctl,
            [libc::PR_SET_NAME as usize, c"belfry-driver".as_ptr() as usize, 0, 0, 0, 0],
        );
    }
    become_thread_of(Kind::Companion);
    look_up();
    if std::thread::Builder::new().name("belfry-end".to_owned()).spawn(end_with_program).is_err() {
        set(&STATE, FAILED);
    }
    for _ in 0..4 {
        add();
    }
    if STATE.load(Ordering::Acquire) == STARTING {
        set(&STATE, if has_free() { STARTED } else { FAILED });
    }
    if STATE.load(Ordering::Acquire) == FAILED {
        return 1;
    }
    let mut seen = 0;
    loop {
        wait_while(&MISSED, seen);
        seen = MISSED.load(Ordering::Acquire);
        if !has_free() {
            add();
        }
    }
}

/// Waits until the program is gone, and ends the companion.
fn end_with_program() {
    while LIVES.load(Ordering::Acquire) != 0 {
        // The kernel wakes one thread, of any process: not with `FUTEX_PRIVATE_FLAG`.
        // SAFETY: the word is static; without a timeout, the other arguments are not looked at.
        unsafe {
            raw::call(libc::SYS_futex, [LIVES.as_ptr() as usize, libc::FUTEX_WAIT as usize, 1, 0, 0, 0]);
        }
    }
    // SAFETY: ends this process; no process waits for it any more.
    unsafe { raw::call(libc::SYS_exit_group, [0; 6]) };
}

/// Looks up the functions that the hooks replace. Later, a thread that a debugger has stopped may hold the dynamic
/// linker's lock.
fn look_up() {
    // SAFETY: descriptors and ranges that there are not.
    unsafe {
        let nothing = std::ptr::null_mut::<c_void>();
        libc::mmap(nothing, 0, 0, 0, -1, 0);
        libc::mmap64(nothing, 0, 0, 0, -1, 0);
        libc::munmap(nothing, 0);
        libc::mremap(nothing, 0, 0, 0);
        libc::mprotect(nothing, 0, 0);
        libc::ioctl(-1, 0, nothing);
        libc::close(-1);
        libc::dup2(-1, -1);
        libc::dup3(-1, -1, 0);
        libc::lseek(-1, 0, 0);
        libc::lseek64(-1, 0, 0);
        libc::open(c"".as_ptr(), 0);
        libc::open64(c"".as_ptr(), 0);
        libc::openat(-1, c"".as_ptr(), 0);
        libc::openat64(-1, c"".as_ptr(), 0);
        libc::readlink(c"".as_ptr(), nothing.cast(), 0);
        libc::fstat(-1, nothing.cast());
        libc::fstat64(-1, nothing.cast());
        libc::stat(c"".as_ptr(), nothing.cast());
        libc::stat64(c"".as_ptr(), nothing.cast());
        libc::statx(-1, c"".as_ptr(), 0, 0, nothing.cast());
        libc::syscall(libc::SYS_getpid);
        libc::sigaction(0, std::ptr::null(), std::ptr::null_mut());
    }
}

fn has_free() -> bool {
    CALLERS.iter().any(|caller| caller.state.load(Ordering::Acquire) == FREE)
}

/// Adds a thread that makes calls.
fn add() {
    let Some(caller) = CALLERS.iter().find(|caller| caller.state.load(Ordering::Acquire) == ABSENT) else {
        return;
    };
    caller.state.store(FREE, Ordering::Release);
    let thread = std::thread::Builder::new().name("belfry-call".to_owned());
    if thread.spawn(|| serve(caller)).is_err() {
        let result = caller.state.compare_exchange(FREE, ABSENT, Ordering::AcqRel, Ordering::Acquire);
        if result.is_err() {
            // A thread has taken it, and would wait for ever.
            std::process::abort();
        }
    }
}

fn serve(caller: &'static Caller) {
    loop {
        let state = caller.state.load(Ordering::Acquire);
        if state != CALLED {
            raw::futex(&caller.state, libc::FUTEX_WAIT, state, None);
            continue;
        }
        set_errno(caller.errno.load(Ordering::Relaxed));
        // SAFETY: the state says that the call is this thread's; the calling thread waits until it is done.
        let made = unsafe {
            (*caller.call.get())
                .take()
                .map(|call| std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (*call)())))
        };
        if !matches!(made, Some(Ok(()))) {
            std::process::abort();
        }
        caller.errno.store(errno(), Ordering::Relaxed);
        set(&caller.state, DONE);
    }
}

/// Takes a thread of the companion that is free.
fn take() -> &'static Caller {
    loop {
        let free = CALLERS.iter().find(|caller| {
            caller.state.load(Ordering::Relaxed) == FREE
                && caller.state.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
        });
        if let Some(caller) = free {
            return caller;
        }
        let missed = MISSED.fetch_add(1, Ordering::AcqRel);
        raw::futex(&MISSED, libc::FUTEX_WAKE, 1, None);
        raw::futex(&MISSED, libc::FUTEX_WAIT, missed.wrapping_add(1), Some(TURN));
    }
}

/// Has the companion make a call, and waits until it is made.
///
/// # Safety
///
/// The target of `call` lives until this returns; if a signal handler leaves this function for good, for
/// ever.
unsafe fn make(call: *mut (dyn FnMut() + '_)) {
    let caller = take();
    // SAFETY: the caller is this thread's; the lifetime is what this function's own caller vouches for.
    unsafe { *caller.call.get() = Some(std::mem::transmute::<*mut (dyn FnMut() + '_), Call>(call)) };
    caller.errno.store(errno(), Ordering::Relaxed);
    set(&caller.state, CALLED);
    wait_while(&caller.state, CALLED);
    set_errno(caller.errno.load(Ordering::Relaxed));
    caller.state.store(FREE, Ordering::Release);
}

/// Has the companion do something, while this thread waits. Signals are blocked: no handler runs meanwhile.
pub(crate) fn run<R>(work: impl FnOnce() -> R) -> R {
    let mut work = Some(work);
    let mut result = None;
    let mut call = || result = work.take().map(|work| work());
    // SAFETY: no handler leaves this function.
    unsafe { make(&raw mut call) };
    let Some(result) = result else {
        // It was made, as it says.
        std::process::abort()
    };
    result
}

/// Runs `work` as [`run`] does, if it may take long: signals are not blocked, and a handler need not come back.
///
/// Such a handler leaves the waiting call as it is, with the memory that it needs.
pub(crate) fn wait_for<R: 'static>(work: impl FnOnce() -> R + 'static) -> R {
    if !serves() {
        return work();
    }
    struct Waits<W, R>(Option<W>, Option<R>);
    let waits = inside_here(|| Box::into_raw(Box::new(Waits(Some(work), None))));
    let call = move || {
        // SAFETY: the box is the companion's until the call is made.
        let waits = unsafe { &mut *waits };
        waits.1 = waits.0.take().map(|work| work());
    };
    let call = inside_here(|| Box::into_raw(Box::new(call)));
    // SAFETY: boxes live until they are dropped, which is below.
    unsafe { make(call) };
    // SAFETY: the call is made, and only this thread has the boxes.
    let result = inside_here(|| unsafe {
        drop(Box::from_raw(call));
        Box::from_raw(waits).1
    });
    let Some(result) = result else { std::process::abort() };
    result
}
