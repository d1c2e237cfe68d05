//! Links, and paths as results: the prepared directory is not shown.

use std::ffi::{CStr, c_char, c_int};

use crate::inside::is_inside;
use crate::node::shown_elsewhere;
use crate::path::{Buffer, reveal, shown};
use crate::real::PATH_MAX;
use crate::real::{next, set_errno};
use crate::settings::settings;

/// Reads a link: `read` is given the path to use, and a buffer with its length.
///
/// # Safety
///
/// `path` is null or a C string, and `buf` has room for `len` bytes.
#[inline(never)]
pub(super) unsafe fn read_link_by(
    at: c_int,
    path: *const c_char,
    (buf, len): (*mut c_char, usize),
    read: impl Fn(*const c_char, *mut c_char, usize) -> isize,
) -> isize {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(at, path) };
    let as_it_is = || read(found.path, buf, len);
    let Some(settings) = settings().filter(|_| !is_inside() && len > 0) else { return as_it_is() };
    // The program's buffer gets the shown target and no more: the program may count on the zeros after it.
    let mut whole = [0u8; PATH_MAX];
    let count = read(found.path, whole.as_mut_ptr().cast(), PATH_MAX);
    let Ok(count) = usize::try_from(count) else { return count };
    let whole = whole.get(..count).unwrap_or_default();
    let elsewhere = || {
        // SAFETY: a link was read at this path, so that it is a C string.
        let link = unsafe { CStr::from_ptr(found.path) };
        shown_elsewhere(at, link, whole)
    };
    let Some(shown) = shown(settings, whole).or_else(elsewhere) else { return as_it_is() };
    let fits = shown.len().min(len);
    // SAFETY: the caller's contract.
    unsafe { std::ptr::copy_nonoverlapping(shown.as_ptr(), buf.cast(), fits) };
    fits as isize
}

macro_rules! reads_link {
    ($(fn $name:ident($(in $directory:ident,)? path, buf, len $(, $room:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($directory: c_int,)? path: *const c_char, buf: *mut c_char, len: usize $(, $room: usize)?
        ) -> isize {
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            let read = |path: *const c_char, to: *mut c_char, len: usize| next!(
                $name($($directory,)? path, to, len $(, $room.max(len))?):
                fn($(reads_link!(@int $directory),)? *const c_char, *mut c_char, usize $(, reads_link!(@size $room))?) -> isize,
                else -1
            );
            // SAFETY: the program gives a C string or null, and a buffer.
            unsafe { read_link_by(at, path, (buf, len), read) }
        }
    )*};
    (@int $any:ident) => { c_int };
    (@size $any:ident) => { usize };
}

reads_link! {
    fn readlink(path, buf, len);
    fn readlinkat(in directory, path, buf, len);
    fn __readlink_chk(path, buf, len, room);
    fn __readlinkat_chk(in directory, path, buf, len, room);
}

macro_rules! gives_path {
    ($(fn $name:ident(path $(, $argument:ident: $type:ty)*);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char $(, $argument: $type)*) -> *mut c_char {
            let mut buffer = Buffer::new();
            // SAFETY: the program gives a C string or null.
            let found = unsafe { buffer.resolve(libc::AT_FDCWD, path) };
            let result = next!(
                $name(found.path $(, $argument)*): fn(*const c_char $(, $type)*) -> *mut c_char,
                else std::ptr::null_mut()
            );
            // SAFETY: the C library gives a string that is the caller's, or null.
            unsafe { reveal(result) }
        }
    )*};
}

gives_path! {
    fn realpath(path, resolved: *mut c_char);
    fn __realpath_chk(path, resolved: *mut c_char, room: usize);
    fn canonicalize_file_name(path);
}

/// The working directory for a buffer of the program's: the shown path may fit where the whole would not. `read` writes
/// the whole path to a buffer, whose address it returns, or null.
///
/// # Safety
///
/// `buf` has room for `len` bytes.
#[inline(never)]
pub(super) unsafe fn cwd_by(
    buf: *mut c_char,
    len: usize,
    read: impl Fn(*mut c_char, usize) -> *mut c_char,
) -> *mut c_char {
    let mut whole = [0; PATH_MAX];
    let all = read(whole.as_mut_ptr(), PATH_MAX);
    if all.is_null() && len > PATH_MAX {
        // SAFETY: null, or the program's buffer.
        return unsafe { reveal(read(buf, len)) };
    }
    // SAFETY: the buffer is this function's own.
    if all.is_null() || unsafe { reveal(all) }.is_null() {
        return std::ptr::null_mut();
    }
    let shown = whole.iter().position(|&byte| byte == 0).map_or(PATH_MAX, |end| end + 1);
    if shown > len {
        set_errno(if len == 0 { libc::EINVAL } else { libc::ERANGE });
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's contract.
    unsafe { std::ptr::copy_nonoverlapping(whole.as_ptr(), buf, shown) };
    buf
}

/// Reads the working directory by the C library; as [`cwd_by`].
///
/// # Safety
///
/// As there.
unsafe fn copy_cwd(buf: *mut c_char, len: usize) -> *mut c_char {
    let read = |to: *mut c_char, room: usize| next!(getcwd(to, room): fn(*mut c_char, usize) -> *mut c_char, else std::ptr::null_mut());
    // SAFETY: the caller's contract.
    unsafe { cwd_by(buf, len, read) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getcwd(buf: *mut c_char, len: usize) -> *mut c_char {
    if !buf.is_null() && !is_inside() {
        // SAFETY: the program's buffer has that much room.
        return unsafe { copy_cwd(buf, len) };
    }
    if len > 0 && !is_inside() {
        // SAFETY: a block of that size, which becomes the program's or is given back.
        return unsafe {
            let made = libc::malloc(len).cast::<c_char>();
            let result = if made.is_null() { made } else { copy_cwd(made, len) };
            if result.is_null() {
                libc::free(made.cast());
            }
            result
        };
    }
    let result = next!(getcwd(buf, len): fn(*mut c_char, usize) -> *mut c_char, else std::ptr::null_mut());
    // SAFETY: as above.
    unsafe { reveal(result) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __getcwd_chk(buf: *mut c_char, len: usize, room: usize) -> *mut c_char {
    if len > room {
        // The C library's function reports the error, and ends the program.
        return next!(
            __getcwd_chk(buf, len, room): fn(*mut c_char, usize, usize) -> *mut c_char, else std::ptr::null_mut()
        );
    }
    // SAFETY: as above.
    unsafe { getcwd(buf, len) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn get_current_dir_name() -> *mut c_char {
    let result = next!(get_current_dir_name(): fn() -> *mut c_char, else std::ptr::null_mut());
    // SAFETY: as above.
    unsafe { reveal(result) }
}

/// Changes the working directory: `change` is given the path to use.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe fn chdir_by(path: *const c_char, change: impl FnOnce(*const c_char) -> c_int) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(libc::AT_FDCWD, path) };
    let result = change(found.path);
    crate::cwd::changed();
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    let change = |path: *const c_char| next!(chdir(path): fn(*const c_char) -> c_int, else -1);
    // SAFETY: the program gives a C string or null.
    unsafe { chdir_by(path, change) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchdir(fd: c_int) -> c_int {
    let result = next!(fchdir(fd): fn(c_int) -> c_int, else -1);
    crate::cwd::changed();
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chroot(path: *const c_char) -> c_int {
    let result = next!(chroot(path): fn(*const c_char) -> c_int, else -1);
    crate::cwd::changed();
    result
}
