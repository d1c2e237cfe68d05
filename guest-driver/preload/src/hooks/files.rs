//! Opening files and directories, and asking whether one may.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use crate::identity::{self, raw_close};
use crate::path::{Buffer, Resolved};
use crate::real::{next, set_errno};
use crate::{gpu, live, node, opening, shared};

/// Flags that ask for more than reading.
const WRITES: c_int = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;

/// The flags to open a prepared file with: nodes are opened for reading, even if writing was asked for;
/// nothing else is written.
fn flags_for(found: &Resolved, flags: c_int) -> Result<c_int, c_int> {
    if found.is_node {
        Ok(flags & !WRITES)
    } else if found.ours && flags & WRITES != 0 {
        Err(libc::EACCES)
    } else {
        Ok(flags)
    }
}

/// Finishes the opening of a prepared file: the GPU starts when a node that needs it is opened, and a file whose content
/// changes is filled.
fn finish(found: &Resolved, fd: c_int) -> c_int {
    if fd < 0 {
        return fd;
    }
    if !found.is_node {
        // SAFETY: the found path is the program's, which the call has taken, or the buffer's.
        return match live::fill(unsafe { CStr::from_ptr(found.path) }, fd) {
            Ok(()) => fd,
            Err(errno) => {
                raw_close(fd);
                set_errno(errno);
                -1
            }
        };
    }
    let Some(which) = node::node_of(fd) else { return fd };
    node::opened();
    opening::opened();
    if which == node::Which::Kfd
        && gpu::running().is_none()
        && let Err(errno) = opening::start()
    {
        raw_close(fd);
        set_errno(errno);
        return -1;
    }
    fd
}

/// Opens a file: `open` is given the path and the flags to use.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe fn open_by(
    at: c_int,
    path: *const c_char,
    flags: c_int,
    open: impl FnOnce(*const c_char, c_int) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve_for(at, path, flags & WRITES != 0) };
    match flags_for(&found, flags) {
        Ok(flags) => finish(&found, open(found.path, flags)),
        Err(errno) => {
            set_errno(errno);
            -1
        }
    }
}

macro_rules! opens {
    ($(fn $name:ident($(in $directory:ident)? $(with $mode:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($directory: c_int,)? path: *const c_char, flags: c_int $(, $mode: c_uint)?
        ) -> c_int {
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            let open = |path: *const c_char, flags: c_int| next!(
                $name($($directory,)? path, flags $(, $mode)?):
                fn($(opens!(@int $directory),)? *const c_char, c_int $(, opens!(@mode $mode))?) -> c_int, else -1
            );
            // SAFETY: the program gives a C string or null.
            unsafe { open_by(at, path, flags, open) }
        }
    )*};
    (@int $any:ident) => { c_int };
    (@mode $any:ident) => { c_uint };
}

opens! {
    fn open(with mode);
    fn open64(with mode);
    fn openat(in directory with mode);
    fn openat64(in directory with mode);
    // What `_FORTIFY_SOURCE` makes of them: without a mode.
    fn __open_2();
    fn __open64_2();
    fn __openat_2(in directory);
    fn __openat64_2(in directory);
}

/// Returns true if a mode of `fopen` asks for more than reading.
///
/// # Safety
///
/// `mode` is null or a C string.
unsafe fn writes(mode: *const c_char) -> bool {
    // SAFETY: the caller's contract.
    !mode.is_null() && unsafe { CStr::from_ptr(mode) }.to_bytes().iter().any(|byte| b"wa+".contains(byte))
}

macro_rules! streams {
    ($(fn $name:ident($($stream:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            path: *const c_char, mode: *const c_char $(, $stream: *mut c_void)?
        ) -> *mut c_void {
            let mut buffer = Buffer::new();
            // SAFETY: the program gives C strings or null.
            let (found, writes) = unsafe {
                let writes = writes(mode);
                (buffer.resolve_for(libc::AT_FDCWD, path, writes), writes)
            };
            if found.ours && !found.is_node && writes {
                set_errno(libc::EACCES);
                return std::ptr::null_mut();
            }
            let mode = if found.is_node { c"re".as_ptr() } else { mode };
            if found.is_node {
                node::opened();
                opening::opened();
            }
            let opened = next!(
                $name(found.path, mode $(, $stream)?):
                fn(*const c_char, *const c_char $(, streams!(@type $stream))?) -> *mut c_void,
                else std::ptr::null_mut()
            );
            if !opened.is_null() && !found.path.is_null() && !found.is_node {
                // SAFETY: the stream was opened just now, by a path that the call has taken; nothing was read from it.
                let filled = unsafe {
                    live::fill(CStr::from_ptr(found.path), libc::fileno(opened.cast()))
                };
                if let Err(errno) = filled {
                    // SAFETY: the program has not been given it.
                    unsafe { libc::fclose(opened.cast()) };
                    set_errno(errno);
                    return std::ptr::null_mut();
                }
            }
            opened
        }
    )*};
    (@type $any:ident) => { *mut c_void };
}

streams! {
    fn fopen();
    fn fopen64();
    fn freopen(stream);
    fn freopen64(stream);
}

macro_rules! creates {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: c_uint) -> c_int {
            // SAFETY: the definition of this function (creat(2)), with the program's arguments.
            unsafe { open(path, libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC, mode) }
        }
    )*};
}

creates! { creat creat64 }

/// Cuts a file: `truncate` is given the path to use.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe fn truncate_by(
    path: *const c_char,
    truncate: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve_for(libc::AT_FDCWD, path, true) };
    if found.ours {
        set_errno(if found.is_node { libc::EINVAL } else { libc::EACCES });
        return -1;
    }
    truncate(found.path)
}

macro_rules! truncates {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, len: libc::off_t) -> c_int {
            let cut = |path: *const c_char| {
                next!($name(path, len): fn(*const c_char, libc::off_t) -> c_int, else -1)
            };
            // SAFETY: the program gives a C string or null.
            unsafe { truncate_by(path, cut) }
        }
    )*};
}

truncates! { truncate truncate64 }

/// Moves in a file, unless it is memory that processes share.
pub(super) fn seek_by(
    fd: c_int,
    offset: libc::off_t,
    whence: c_int,
    seek: impl FnOnce() -> libc::off_t,
) -> libc::off_t {
    match shared::find(fd).map(|memory| shared::seek(memory.size(), offset, whence)) {
        Some(Ok(place)) => place,
        Some(Err(errno)) => {
            set_errno(errno);
            -1
        }
        None => seek(),
    }
}

macro_rules! seeks {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(fd: c_int, offset: libc::off_t, whence: c_int) -> libc::off_t {
            seek_by(fd, offset, whence, || {
                next!($name(fd, offset, whence): fn(c_int, libc::off_t, c_int) -> libc::off_t, else -1)
            })
        }
    )*};
}

seeks! { lseek lseek64 }

/// Returns true if a node allows an access, as a device file that all may use would.
fn allowed(found: &Resolved, mode: c_int) -> bool {
    // Directories of nodes are asked about as they are.
    found.is_node
        && mode & libc::X_OK == 0
        // SAFETY: the path is one of the buffer's.
        && identity::Identity::of_path(unsafe { CStr::from_ptr(found.path) }).is_some_and(node::is_stand_in)
}

/// Asks for the right to a file: `access` is given the path to use.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe fn access_by(
    at: c_int,
    path: *const c_char,
    mode: c_int,
    access: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(at, path) };
    if allowed(&found, mode) { 0 } else { access(found.path) }
}

macro_rules! access {
    ($(fn $name:ident($(in $directory:ident,)? path, mode $(, $flags:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($directory: c_int,)? path: *const c_char, mode: c_int $(, $flags: c_int)?
        ) -> c_int {
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            let access = |path: *const c_char| next!(
                $name($($directory,)? path, mode $(, $flags)?):
                fn($(access!(@type $directory),)? *const c_char, c_int $(, access!(@type $flags))?) -> c_int,
                else -1
            );
            // SAFETY: the program gives a C string or null.
            unsafe { access_by(at, path, mode, access) }
        }
    )*};
    (@type $any:ident) => { c_int };
}

access! {
    fn access(path, mode);
    fn eaccess(path, mode);
    fn euidaccess(path, mode);
    fn faccessat(in directory, path, mode, flags);
}
