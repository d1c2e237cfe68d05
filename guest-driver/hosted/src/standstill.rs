//! All other threads of this process stand still for a moment, wherever they are, so that memory is read as it is at one time.
//!
//! Each is sent a signal, whose handler waits. Threads may stand still in the middle of anything, with any lock: the
//! holder of a [`Standstill`] takes no lock and allocates nothing before it is dropped.
#![expect(unsafe_code, reason = "sends signals to threads, and handles them")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Longest time until the threads stand still: a thread in an uninterruptible sleep comes later.
const LIMIT: Duration = Duration::from_secs(10);
/// Pause between looks at whether they stand still.
const LOOK: Duration = Duration::from_micros(50);
/// Most threads of a process that stands still.
const THREADS: usize = 4096;

/// Set while threads are to stand still; also the word that they wait at.
static STAND: AtomicU32 = AtomicU32::new(0);
/// Threads in the handler.
static STANDING: AtomicU32 = AtomicU32::new(0);
/// Lock that lets one standstill be made at a time.
static ONE: Mutex<()> = Mutex::new(());

/// The number of the signal: the machine's vCPUs have the first one of real time.
fn signal() -> libc::c_int {
    libc::SIGRTMIN() + 3
}

extern "C" fn stand(_number: libc::c_int) {
    // SAFETY: the address of this thread's `errno`, which lives as long as the thread.
    let before = unsafe { *libc::__errno_location() };
    STANDING.fetch_add(1, Ordering::SeqCst);
    while STAND.load(Ordering::SeqCst) == 1 {
        wait(&STAND, 1);
    }
    STANDING.fetch_sub(1, Ordering::SeqCst);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = before };
}

fn wait(word: &AtomicU32, value: u32) {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is a static; without a time limit no other pointer is read (futex(2)).
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, ptr::null::<libc::timespec>()) };
}

fn wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is a static, of which the address alone is used.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, libc::c_int::MAX) };
}

fn install() -> io::Result<()> {
    static DONE: OnceLock<Option<i32>> = OnceLock::new();
    let failed = DONE.get_or_init(|| {
        // SAFETY: all zeros are a valid `sigaction`: no flags, an empty mask, the default action.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = stand as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        // SAFETY: points to a `sigaction` of this frame; the handler makes system calls and uses atomics alone.
        let result = unsafe { libc::sigaction(signal(), &raw const action, ptr::null_mut()) };
        (result != 0).then(|| io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL))
    });
    failed.map_or(Ok(()), |number| Err(io::Error::from_raw_os_error(number)))
}

/// The threads of this process, by their directory; reads it without allocating.
struct Tasks(libc::c_int);

impl Tasks {
    fn open() -> io::Result<Self> {
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the name is a C string.
        let fd = unsafe { libc::open(c"/proc/self/task".as_ptr(), flags) };
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(Self(fd)) }
    }

    /// Calls `each` for every thread.
    fn each(&self, each: &mut dyn FnMut(i32)) -> io::Result<()> {
        // SAFETY: sets the position of a descriptor of this value.
        if unsafe { libc::lseek(self.0, 0, libc::SEEK_SET) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut buffer = [0u8; 4096];
        loop {
            // SAFETY: the buffer is of this frame, and as long as is said.
            let read =
                unsafe { libc::syscall(libc::SYS_getdents64, self.0, buffer.as_mut_ptr(), buffer.len()) };
            let Ok(end) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
            if end == 0 {
                return Ok(());
            }
            let mut at = 0;
            // struct linux_dirent64: d_ino, d_off, d_reclen (2 bytes), d_type, d_name
            while let Some(entry) = buffer.get(at..end).filter(|entry| entry.len() > 19) {
                let length = usize::from(u16::from_ne_bytes([entry[16], entry[17]]));
                let name = entry[19..].iter().take_while(|byte| byte.is_ascii_digit());
                let (digits, number) = name.fold((0, 0i32), |(digits, number), byte| {
                    (digits + 1, number.wrapping_mul(10).wrapping_add(i32::from(byte - b'0')))
                });
                if digits > 0 {
                    each(number);
                }
                at += length.max(1);
            }
        }
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        // SAFETY: the descriptor is this value's own.
        unsafe { libc::close(self.0) };
    }
}

/// All other threads stand still until this is dropped.
pub(crate) struct Standstill {
    /// Threads that were told; given back when they have gone on.
    told: Vec<i32>,
    _one: MutexGuard<'static, ()>,
}

impl Standstill {
    /// Has all other threads stand still.
    ///
    /// # Errors
    ///
    /// No handler, too many threads, or one that does not come: all go on.
    pub(crate) fn begin() -> io::Result<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        install()?;
        let tasks = Tasks::open()?;
        // Allocated before the first of them stands still, perhaps in the allocator.
        let mut still = Self { told: Vec::with_capacity(THREADS), _one: one };
        STAND.store(1, Ordering::SeqCst);
        still.call(&tasks)?;
        Ok(still)
    }

    fn call(&mut self, tasks: &Tasks) -> io::Result<()> {
        let told = &mut self.told;
        let begun = Instant::now();
        // SAFETY: take nothing and cannot fail.
        let (process, own) = unsafe { (libc::getpid(), libc::gettid()) };
        loop {
            let (mut others, mut too_many) = (0, false);
            tasks.each(&mut |task| {
                if task == own {
                    return;
                }
                others += 1;
                if told.contains(&task) {
                    return;
                }
                if told.len() == told.capacity() {
                    too_many = true;
                    return;
                }
                told.push(task);
                // SAFETY: sends a signal whose handler is installed; a thread that has gone is no error.
                unsafe { libc::syscall(libc::SYS_tgkill, process, task, signal()) };
            })?;
            if too_many {
                return Err(io::ErrorKind::Unsupported.into());
            }
            // Those that stand start no other thread: a list that was made while all of it stood has all there are.
            if STANDING.load(Ordering::SeqCst) == others {
                let mut again = 0;
                tasks.each(&mut |task| again += u32::from(task != own))?;
                if again == others && STANDING.load(Ordering::SeqCst) == others {
                    return Ok(());
                }
            }
            if begun.elapsed() > LIMIT {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        STAND.store(0, Ordering::SeqCst);
        wake(&STAND);
        // The next standstill must find no thread on its way out.
        while STANDING.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(LOOK);
        }
    }
}
