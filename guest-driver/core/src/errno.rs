//! The error numbers the driver hands to its callers.

use core::fmt;

/// A Linux error number, positive, as `asm-generic/errno-base.h` and `errno.h` give them.
///
/// The operating system's side negates it; `ERESTARTSYS` and `ENOTSUPP` are the kernel-internal ones of
/// `include/linux/errno.h`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(i32);

/// Result of everything the driver does on behalf of a user.
pub type Result<T> = core::result::Result<T, Errno>;

macro_rules! errnos {
    ($($name:ident = $value:literal, $text:literal;)*) => {
        impl Errno {
            $(#[doc = $text] pub const $name: Errno = Errno($value);)*

            /// Returns the symbolic name, `"E?"` for a number the driver does not use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self.0 { $($value => stringify!($name),)* _ => "E?" }
            }
        }
    };
}

errnos! {
    EPERM = 1, "Operation not permitted.";
    ENOENT = 2, "No such file or directory.";
    ESRCH = 3, "No such process.";
    EINTR = 4, "Interrupted system call.";
    EIO = 5, "Input or output error.";
    EBADF = 9, "Bad file descriptor.";
    EAGAIN = 11, "Try again.";
    ENOMEM = 12, "Out of memory.";
    EACCES = 13, "Permission denied.";
    EFAULT = 14, "Bad address.";
    EBUSY = 16, "Device or resource busy.";
    EEXIST = 17, "File exists.";
    ENODEV = 19, "No such device.";
    EINVAL = 22, "Invalid argument.";
    ENFILE = 23, "Too many open files in the system.";
    EMFILE = 24, "Too many open files.";
    ENOTTY = 25, "Not a typewriter: no such ioctl.";
    ENOSPC = 28, "No space left.";
    ERANGE = 34, "Result out of range.";
    ENODATA = 61, "No data available.";
    EOVERFLOW = 75, "Value too large.";
    ENOSYS = 38, "Function not implemented.";
    ETIME = 62, "Timer expired.";
    EOPNOTSUPP = 95, "Operation not supported.";
    EADDRINUSE = 98, "Address already in use.";
    EALREADY = 114, "Operation already in progress.";
    ECANCELED = 125, "Operation cancelled.";
    ETIMEDOUT = 110, "Connection timed out.";
    ERESTARTSYS = 512, "A signal arrived: the system call may be restarted.";
    ENOTSUPP = 524, "Operation is not supported (kernel-internal number that amdkfd leaks to user space).";
}

impl Errno {
    /// Wraps a positive error number; anything else becomes `EIO`.
    #[must_use]
    pub const fn from_raw(value: i32) -> Errno {
        if value > 0 && value < 4096 { Errno(value) } else { Errno::EIO }
    }

    /// Returns the positive error number.
    #[must_use]
    pub const fn raw(self) -> i32 {
        self.0
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Errno {}
