//! Links, and paths as results: the prepared directory is not shown.

use std::ffi::{c_char, c_int};

use crate::inside::is_inside;
use crate::path::{Buffer, PATH_MAX, hidden, reveal};
use crate::real::{next, set_errno};
use crate::settings::settings;

macro_rules! reads_link {
    ($(fn $name:ident($(in $directory:ident,)? path, buf, len $(, $room:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($directory: c_int,)? path: *const c_char, buf: *mut c_char, len: usize $(, $room: usize)?
        ) -> isize {
            let mut buffer = Buffer::new();
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            // SAFETY: the program gives a C string or null.
            let found = unsafe { buffer.resolve(at, path) };
            let read = |to: *mut c_char, len: usize| next!(
                $name($($directory,)? found.path, to, len $(, $room.max(len))?):
                fn($(reads_link!(@int $directory),)? *const c_char, *mut c_char, usize $(, reads_link!(@size $room))?) -> isize,
                else -1
            );
            let count = read(buf, len);
            if count <= 0 || is_inside() {
                return count;
            }
            // SAFETY: the call has filled that many bytes.
            let first = unsafe { *buf };
            if first != b'/' as c_char {
                return count;
            }
            // What was read may be cut short: the whole is needed to take its beginning away.
            let mut whole = [0u8; PATH_MAX];
            let all = read(whole.as_mut_ptr().cast(), PATH_MAX);
            let whole = whole.get(..all.max(0) as usize).unwrap_or_default();
            let skip = settings().map_or(0, |settings| hidden(settings, whole));
            if skip == 0 {
                return count;
            }
            let shown = &whole[skip..];
            let fits = shown.len().min(len);
            // SAFETY: the program's buffer has room for `len` bytes.
            unsafe { std::ptr::copy_nonoverlapping(shown.as_ptr(), buf.cast(), fits) };
            fits as isize
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

/// The working directory for a buffer of the program's: what it shows may fit where the whole would not.
///
/// # Safety
///
/// `buf` has room for `len` bytes.
unsafe fn copy_cwd(buf: *mut c_char, len: usize) -> *mut c_char {
    let mut whole = [0; PATH_MAX];
    let all = next!(
        getcwd(whole.as_mut_ptr(), PATH_MAX): fn(*mut c_char, usize) -> *mut c_char, else std::ptr::null_mut()
    );
    if all.is_null() && len > PATH_MAX {
        let result =
            next!(getcwd(buf, len): fn(*mut c_char, usize) -> *mut c_char, else std::ptr::null_mut());
        // SAFETY: the C library gives null or the program's buffer.
        return unsafe { reveal(result) };
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
        // The C library's function says what is wrong, and ends the program.
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

#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the program gives a C string or null.
    let found = unsafe { buffer.resolve(libc::AT_FDCWD, path) };
    let result = next!(chdir(found.path): fn(*const c_char) -> c_int, else -1);
    crate::cwd::changed();
    result
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
