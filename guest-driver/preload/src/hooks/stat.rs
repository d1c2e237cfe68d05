//! Kinds of files: nodes are character devices.

use std::ffi::{c_char, c_int, c_uint};

use crate::node::{disguise, disguise_x};
use crate::path::Buffer;
use crate::real::next;

/// Tells the kind of a file: `stat` is given the path to use, and fills `buf`.
///
/// # Safety
///
/// `path` is null or a C string; where `stat` succeeds, it has filled `buf`.
#[inline(never)]
pub(super) unsafe fn stat_by(
    at: c_int,
    path: *const c_char,
    buf: *mut libc::stat,
    stat: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(at, path) };
    // Any way leads here: also a descriptor with an empty path, or a link of /proc.
    // SAFETY: the caller's contract.
    unsafe { disguised(stat(found.path), buf) }
}

/// Disguises the result of `stat` for a file.
///
/// # Safety
///
/// If the result is 0, `buf` is filled.
pub(super) unsafe fn disguised(result: c_int, buf: *mut libc::stat) -> c_int {
    if result == 0 {
        // SAFETY: the caller's contract.
        disguise(unsafe { &mut *buf });
    }
    result
}

/// Tells the kind of a file by `statx`; as [`stat_by`].
///
/// # Safety
///
/// As there.
#[inline(never)]
pub(super) unsafe fn statx_by(
    at: c_int,
    path: *const c_char,
    buf: *mut libc::statx,
    statx: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(at, path) };
    let result = statx(found.path);
    if result == 0 {
        // SAFETY: the caller's contract.
        disguise_x(unsafe { &mut *buf });
    }
    result
}

macro_rules! stats {
    ($(fn $name:ident($(version $version:ident,)? $(in $directory:ident,)? path, buf $(, $flags:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($version: c_int,)? $($directory: c_int,)? path: *const c_char, buf: *mut libc::stat $(, $flags: c_int)?
        ) -> c_int {
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            let stat = |path: *const c_char| next!(
                $name($($version,)? $($directory,)? path, buf $(, $flags)?):
                fn($(stats!(@int $version),)? $(stats!(@int $directory),)? *const c_char, *mut libc::stat $(, stats!(@int $flags))?) -> c_int,
                else -1
            );
            // SAFETY: the program gives a C string or null.
            unsafe { stat_by(at, path, buf, stat) }
        }
    )*};
    (@int $any:ident) => { c_int };
}

stats! {
    fn stat(path, buf);
    fn stat64(path, buf);
    fn lstat(path, buf);
    fn lstat64(path, buf);
    fn fstatat(in directory, path, buf, flags);
    fn fstatat64(in directory, path, buf, flags);
    fn __xstat(version version, path, buf);
    fn __xstat64(version version, path, buf);
    fn __lxstat(version version, path, buf);
    fn __lxstat64(version version, path, buf);
    fn __fxstatat(version version, in directory, path, buf, flags);
    fn __fxstatat64(version version, in directory, path, buf, flags);
}

macro_rules! descriptor_stats {
    ($(fn $name:ident($($version:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($version: c_int,)? fd: c_int, buf: *mut libc::stat) -> c_int {
            let result = next!(
                $name($($version,)? fd, buf): fn($(descriptor_stats!(@int $version),)? c_int, *mut libc::stat) -> c_int,
                else -1
            );
            // SAFETY: a call that has succeeded has filled it.
            unsafe { disguised(result, buf) }
        }
    )*};
    (@int $any:ident) => { c_int };
}

descriptor_stats! {
    fn fstat();
    fn fstat64();
    fn __fxstat(version);
    fn __fxstat64(version);
}

#[unsafe(no_mangle)]
unsafe extern "C" fn statx(
    directory: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    buf: *mut libc::statx,
) -> c_int {
    let ask = |path: *const c_char| {
        next!(
            statx(directory, path, flags, mask, buf):
            fn(c_int, *const c_char, c_int, c_uint, *mut libc::statx) -> c_int, else -1
        )
    };
    // SAFETY: the program gives a C string or null.
    unsafe { statx_by(directory, path, buf, ask) }
}
