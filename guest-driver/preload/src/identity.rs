//! Identities of files: by them the stand-ins of device nodes are recognised.

use std::ffi::CStr;

use crate::real::raw;

/// Identity of a file, by any name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

impl Identity {
    /// Of the file at a path.
    pub(crate) fn of_path(path: &CStr) -> Option<Self> {
        // `O_PATH` asks for no right to the file.
        let fd = raw_open(path, libc::O_PATH | libc::O_CLOEXEC)?;
        let identity = Self::of_descriptor(fd);
        raw_close(fd);
        identity
    }

    /// Of an open file.
    pub(crate) fn of_descriptor(fd: i32) -> Option<Self> {
        raw::fstat(fd).map(|stat| Self { device: stat.st_dev, inode: stat.st_ino })
    }
}

pub(crate) fn raw_open(path: &CStr, flags: i32) -> Option<i32> {
    open(path, flags, 0)
}

/// Opens a file; one that is made has the rights of `mode`.
#[expect(unsafe_code, reason = "system calls")]
fn open(path: &CStr, flags: i32, mode: usize) -> Option<i32> {
    let (at, path) = (libc::AT_FDCWD as usize, path.as_ptr() as usize);
    // SAFETY: the path is a C string.
    let fd = unsafe { raw::call(libc::SYS_openat, [at, path, flags as usize, mode, 0, 0]) };
    i32::try_from(fd).ok().filter(|&fd| fd >= 0)
}

/// Opens a file of this user's own for reading and writing, and makes it if it is not there: `size` zeros. `None` for any other user's
/// file, and for a link.
#[expect(unsafe_code, reason = "system calls")]
pub(crate) fn raw_open_own(path: &CStr, size: usize) -> Option<i32> {
    let fd = open(path, libc::O_RDWR | libc::O_CREAT | libc::O_NOFOLLOW | libc::O_CLOEXEC, 0o600)?;
    // SAFETY: asks for a number.
    let user = unsafe { raw::call(libc::SYS_geteuid, [0; 6]) };
    let is_own = |stat: libc::stat| {
        stat.st_mode & libc::S_IFMT == libc::S_IFREG
            && i64::from(stat.st_uid) == user as i64
            && stat.st_mode & 0o077 == 0
    };
    // Two processes that both give it its size give it the same one.
    // SAFETY: the descriptor is this function's.
    let sized = || unsafe { raw::call(libc::SYS_ftruncate, [fd as usize, size, 0, 0, 0, 0]) == 0 };
    let fits = raw::fstat(fd).filter(|&stat| is_own(stat)).is_some_and(|stat| stat.st_size != 0 || sized());
    if fits {
        return Some(fd);
    }
    raw_close(fd);
    None
}

#[expect(unsafe_code, reason = "system calls")]
pub(crate) fn raw_close(fd: i32) {
    // SAFETY: the descriptor is the caller's to close.
    unsafe { raw::call(libc::SYS_close, [fd as usize, 0, 0, 0, 0, 0]) };
}

/// Minor number of the node for displays beside a render node with this one, which is also its number.
pub(crate) fn card_minor(render: u32) -> u32 {
    render.saturating_sub(128)
}

/// The stand-ins of the nodes that DRM has for a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DrmNodes {
    /// Minor number of the render node.
    pub(crate) minor: u32,
    pub(crate) render: Identity,
    pub(crate) card: Identity,
}
