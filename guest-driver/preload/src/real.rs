//! The functions that the hooks replace: those of the next library, and the kernel's.
#![expect(unsafe_code, reason = "looks functions up by name and makes system calls")]

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the libraries that come after this one, looked up when it is first needed.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; null where the C library has no such function.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a C string; looking up changes nothing.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

impl Next {
    /// Tells whether the function begins with a jump to somewhere else: a program has put something of its own in its place, as UCX
    /// (`bistro`) and Open MPI (`patcher`) do with functions that change memory.
    pub(crate) fn is_patched(&self) -> bool {
        let code = self.address().cast::<[u8; 16]>();
        if code.is_null() {
            return false;
        }
        // SAFETY: functions of the C library are longer, or are followed by others of it; their code is readable.
        let code = unsafe { code.read_unaligned() };
        jumps(&code)
    }
}

/// Tells whether code begins with a jump, a call, a breakpoint, or an address to jump to.
fn jumps(code: &[u8]) -> bool {
    // `endbr64`
    let code = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
    matches!(
        code,
        // `jmp` and `call` by a distance; `push` of an address, for `ret`; `int3`
        [0xe8 | 0xe9 | 0xeb | 0x68 | 0xcc, ..]
        // `jmp` to an address in a register or in memory
        | [0xff, 0x20..=0x2f | 0xe0..=0xef, ..] | [0x41, 0xff, 0xe0..=0xe7, ..]
        // `movabs`
        | [0x48 | 0x49, 0xb8..=0xbf, ..]
    )
}

/// Calls the function of the given name and type in the next library; fails with `ENOSYS` if there is none.
macro_rules! next {
    ($name:ident ( $($argument:expr),* $(,)? ) : fn( $($type:ty),* ) -> $result:ty, else $missing:expr) => {{
        static NEXT: $crate::real::Next = {
            const NAME: &std::ffi::CStr =
                match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
            $crate::real::Next::new(NAME)
        };
        $crate::real::through!(NEXT, ($($argument),*): fn($($type),*) -> $result, else $missing)
    }};
}
pub(crate) use next;

/// Calls the function of a [`Next`] that has a name.
macro_rules! through {
    ($next:expr, ( $($argument:expr),* ) : fn( $($type:ty),* ) -> $result:ty, else $missing:expr) => {{
        let address = $next.address();
        if address.is_null() {
            $crate::real::set_errno(libc::ENOSYS);
            $missing
        } else {
            // SAFETY: the C library's function of this name has this type (its header), and the arguments are the ones
            // this function's own caller vouches for.
            unsafe {
                let function: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(address);
                function($($argument),*)
            }
        }
    }};
}
pub(crate) use through;

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(errno: i32) {
    // SAFETY: the location is the thread's own.
    unsafe { *libc::__errno_location() = errno };
}

/// The calling thread's `errno`.
pub(crate) fn errno() -> i32 {
    // SAFETY: the location is the thread's own.
    unsafe { *libc::__errno_location() }
}

/// Turns an answer of the kernel into that of a function of the C library: a failure is -1, and `errno`.
pub(crate) fn answer(result: isize) -> isize {
    if (-4095..0).contains(&result) {
        set_errno(-result as i32);
        return -1;
    }
    result
}

/// The longest path the kernel takes, with its zero.
pub(crate) const PATH_MAX: usize = 4096;

/// System calls that go to the kernel even if functions are hooked, and leave `errno` alone unless they say
/// otherwise.
pub(crate) mod raw {
    use std::arch::asm;
    use std::sync::atomic::AtomicU32;
    use std::time::Duration;

    /// One system call; the result as the kernel gives it: a negative errno on failure.
    ///
    /// # Safety
    ///
    /// The arguments have to be those that the call takes.
    pub(crate) unsafe fn call(number: libc::c_long, arguments: [usize; 6]) -> isize {
        let result: isize;
        // SAFETY: the kernel's calling convention; the caller vouches for the arguments.
        unsafe {
            asm!(
                "syscall",
                inlateout("rax") number as isize => result,
                in("rdi") arguments[0],
                in("rsi") arguments[1],
                in("rdx") arguments[2],
                in("r10") arguments[3],
                in("r8") arguments[4],
                in("r9") arguments[5],
                lateout("rcx") _,
                lateout("r11") _,
                options(nostack),
            );
        }
        result
    }

    /// FUTEX_WAIT or FUTEX_WAKE on a word of this process, a wait for `patience` at most.
    pub(crate) fn futex(word: &AtomicU32, operation: libc::c_int, value: u32, patience: Option<Duration>) {
        let operation = (operation | libc::FUTEX_PRIVATE_FLAG) as usize;
        let time = patience.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(time.subsec_nanos()),
        });
        let time = time.as_ref().map_or(0, |time| std::ptr::from_ref(time) as usize);
        // SAFETY: the word and the time live as long as the call.
        unsafe {
            call(libc::SYS_futex, [word.as_ptr() as usize, operation, value as usize, time, 0, 0]);
        }
    }

    /// Maps private zeroed memory.
    ///
    /// # Safety
    ///
    /// None beyond those of any memory.
    pub(crate) unsafe fn mmap_anonymous(size: usize) -> Option<*mut u8> {
        let prot = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
        // SAFETY: a new mapping at a place the kernel chooses.
        let at = unsafe { call(libc::SYS_mmap, [0, size, prot, flags, usize::MAX, 0]) };
        (at > 0).then_some(at as *mut u8)
    }

    /// Maps private zeroed memory where there is nothing yet, and fails with `EEXIST` where any of the range is mapped.
    ///
    /// Nothing is replaced, so that nothing can come of it but memory that is taken.
    pub(crate) fn mmap_free(at: usize, size: usize, prot: libc::c_int) -> Result<(), libc::c_int> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
        // SAFETY: a new mapping, which replaces none.
        let result =
            unsafe { call(libc::SYS_mmap, [at, size, prot as usize, flags as usize, usize::MAX, 0]) };
        if result < 0 { Err(-result as libc::c_int) } else { Ok(()) }
    }

    /// Unmaps.
    ///
    /// # Safety
    ///
    /// Nothing may use the range any more.
    pub(crate) unsafe fn munmap(at: usize, size: usize) -> isize {
        // SAFETY: the caller's contract.
        unsafe { call(libc::SYS_munmap, [at, size, 0, 0, 0, 0]) }
    }

    /// Result of `stat` for a descriptor.
    pub(crate) fn fstat(fd: i32) -> Option<libc::stat> {
        // SAFETY: all zeros are a value of the structure.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is the caller's own and has the kernel's layout.
        let result = unsafe { call(libc::SYS_fstat, [fd as usize, (&raw mut stat) as usize, 0, 0, 0, 0]) };
        (result == 0).then_some(stat)
    }

    /// Result of `stat` for the file at a path from a directory.
    pub(crate) fn stat_at(at: i32, path: &std::ffi::CStr) -> Option<libc::stat> {
        // SAFETY: all zeros are a value of the structure.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        let (path, to) = (path.as_ptr() as usize, (&raw mut stat) as usize);
        // SAFETY: the path is a C string; the structure is the caller's own and has the kernel's layout.
        let result = unsafe { call(libc::SYS_newfstatat, [at as usize, path, to, 0, 0, 0]) };
        (result == 0).then_some(stat)
    }

    /// Writes to a descriptor, as much of it as goes.
    pub(crate) fn write(fd: i32, data: &[u8]) {
        let mut rest = data;
        while !rest.is_empty() {
            // SAFETY: the buffer is live and as long as it says.
            let count =
                unsafe { call(libc::SYS_write, [fd as usize, rest.as_ptr() as usize, rest.len(), 0, 0, 0]) };
            match usize::try_from(count) {
                Ok(count) if count > 0 => rest = rest.get(count..).unwrap_or_default(),
                _ => return,
            }
        }
    }

    /// Reads a link into a buffer; the number of bytes.
    pub(crate) fn readlink(path: &std::ffi::CStr, buffer: &mut [u8]) -> Option<usize> {
        // SAFETY: the path is a C string, the buffer is live and as long as it says.
        let count = unsafe {
            let at = libc::AT_FDCWD as usize;
            let (path, to) = (path.as_ptr() as usize, buffer.as_mut_ptr() as usize);
            call(libc::SYS_readlinkat, [at, path, to, buffer.len(), 0, 0])
        };
        usize::try_from(count).ok()
    }

    /// Nanoseconds since the machine was started.
    pub(crate) fn boot_ns() -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is this function's own.
        unsafe {
            let clock = libc::CLOCK_BOOTTIME as usize;
            call(libc::SYS_clock_gettime, [clock, (&raw mut time) as usize, 0, 0, 0, 0]);
        }
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }

    /// Sleeps for some microseconds, less than a second.
    pub(crate) fn sleep_us(us: u64) {
        let time = libc::timespec { tv_sec: 0, tv_nsec: us as i64 * 1000 };
        // SAFETY: the structure is this function's own; the time left after a signal is not asked for.
        unsafe { call(libc::SYS_nanosleep, [(&raw const time) as usize, 0, 0, 0, 0, 0]) };
    }

    /// The identity of the calling process.
    pub(crate) fn getpid() -> i32 {
        // SAFETY: takes nothing and cannot fail.
        unsafe { call(libc::SYS_getpid, [0; 6]) as i32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_that_begin_with_a_jump_are_told_from_those_of_a_c_library() {
        let jumping: [&[u8]; 8] = [
            &[0xe9, 1, 2, 3, 4],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0xe9, 1, 2, 3, 4],
            &[0xff, 0x25, 0, 0, 0, 0],
            &[0x49, 0xbb, 1, 2, 3, 4, 5, 6, 7, 8, 0x41, 0xff, 0xe3],
            &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0xff, 0xe0],
            &[0x68, 1, 2, 3, 4, 0xc3],
            &[0xcc],
            &[0xff, 0xe0],
        ];
        assert!(jumping.iter().all(|code| jumps(code)));
        // `munmap` and `mmap` of glibc 2.36 and 2.41, `munmap` of musl 1.2.5.
        let plain: [&[u8]; 4] = [
            &[0xb8, 0x0b, 0, 0, 0, 0x0f, 0x05],
            &[0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0xf7, 0xc1, 0xff, 0x0f],
            &[0x41, 0xf7, 0xc1, 0xff, 0x0f, 0, 0],
            &[0x55, 0x48, 0x89, 0xfd],
        ];
        assert!(!plain.iter().any(|code| jumps(code)));
        for name in [c"mmap", c"munmap", c"mremap", c"mprotect", c"pkey_mprotect"] {
            assert!(!Next::new(name).is_patched(), "{name:?}");
        }
    }

    #[test]
    fn answers_of_the_kernel_become_those_of_functions() {
        assert_eq!(answer(5), 5);
        assert_eq!(answer(-4096), -4096);
        assert_eq!((answer(-2), errno()), (-1, libc::ENOENT));
    }
}
