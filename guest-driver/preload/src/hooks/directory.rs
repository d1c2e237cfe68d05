//! Directories, and the file systems they are in.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};

use crate::cwd;
use crate::hooks::with_path;
use crate::inside::is_inside;
use crate::node;
use crate::path::{Buffer, shown};
use crate::real::PATH_MAX;
use crate::real::next;
use crate::settings::settings;

macro_rules! reads_directory {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(directory: *mut c_void) -> *mut libc::dirent64 {
            let entry = next!($name(directory): fn(*mut c_void) -> *mut libc::dirent64, else std::ptr::null_mut());
            if !entry.is_null() {
                // SAFETY: an entry is the program's until it reads the next one; both kinds are laid out alike here.
                unsafe { disguise_entry(entry) };
            }
            entry
        }
    )*};
}

reads_directory! { readdir readdir64 }

/// Replaces the type of a stand-in's entry by that of its node.
///
/// # Safety
///
/// `entry` is one of a directory: its name may be shorter than the type says, and ends with a zero.
unsafe fn disguise_entry(entry: *mut libc::dirent64) {
    // SAFETY: the caller's contract; fields are reached one by one.
    unsafe {
        let name = CStr::from_ptr((&raw const (*entry).d_name).cast()).to_bytes();
        if let Some(kind) = node::kind_of_entry((*entry).d_ino, name) {
            (*entry).d_type = kind;
        }
    }
}

/// Reads entries to a buffer of the program's: `read` returns the bytes of it that they fill.
///
/// # Safety
///
/// `read` fills the buffer with entries as the kernel has them (getdents64(2)).
pub(super) unsafe fn entries_by(buf: *mut u8, read: impl FnOnce() -> c_long) -> c_long {
    let count = read();
    let len = usize::try_from(count).unwrap_or(0);
    let mut at = 0;
    while at < len {
        // SAFETY: the kernel puts the entries one after the other; each gives its length.
        unsafe {
            let entry = buf.add(at).cast::<libc::dirent64>();
            disguise_entry(entry);
            at += usize::from((*entry).d_reclen).max(1);
        }
    }
    count
}

#[unsafe(no_mangle)]
unsafe extern "C" fn getdents64(fd: c_int, buf: *mut c_void, len: usize) -> isize {
    let read = || next!(getdents64(fd, buf, len): fn(c_int, *mut c_void, usize) -> isize, else -1) as c_long;
    // SAFETY: the program's buffer.
    unsafe { entries_by(buf.cast(), read) as isize }
}

/// Types of file systems, as `statfs` has them: sysfs, and the type of device nodes (linux/magic.h).
const SYSFS_MAGIC: libc::__fsword_t = 0x6265_6572;
const TMPFS_MAGIC: libc::__fsword_t = 0x0102_1994;

/// Replaces the prepared directory's file system in `told` by that of the path.
fn disguise_file_system(path: &[u8], told: &mut libc::statfs) {
    if path.starts_with(b"/sys/") {
        told.f_type = SYSFS_MAGIC;
        // There is no room to be used.
        (told.f_blocks, told.f_bfree, told.f_bavail, told.f_files, told.f_ffree) = (0, 0, 0, 0, 0);
    } else if path.starts_with(b"/dev/") {
        told.f_type = TMPFS_MAGIC;
    }
}

/// Tells the file system of a path: `ask` is given the path to use, and fills `buf`.
///
/// # Safety
///
/// `path` is null or a C string; where `ask` succeeds, it has filled `buf`.
#[inline(never)]
pub(super) unsafe fn statfs_by(
    path: *const c_char,
    buf: *mut libc::statfs,
    ask: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    let found = unsafe { buffer.resolve(libc::AT_FDCWD, path) };
    let result = ask(found.path);
    if result == 0
        && found.ours
        && let Some(settings) = settings()
    {
        // SAFETY: the caller's contract; the path is the buffer's.
        unsafe {
            let path = CStr::from_ptr(found.path).to_bytes();
            disguise_file_system(path.get(settings.tree.len()..).unwrap_or_default(), &mut *buf);
        }
    }
    result
}

/// Tells the file system of a descriptor; as [`statfs_by`].
///
/// # Safety
///
/// If `ask` succeeds, it has filled `buf`.
#[inline(never)]
pub(super) unsafe fn fstatfs_by(fd: c_int, buf: *mut libc::statfs, ask: impl FnOnce() -> c_int) -> c_int {
    let result = ask();
    if result != 0 || is_inside() {
        return result;
    }
    let mut room = [0; PATH_MAX];
    if let Some(settings) = settings()
        && let Some(len) = cwd::opened(fd, &mut room)
        && let Some(path) = room.get(..len).and_then(|path| shown(settings, path))
    {
        // SAFETY: the caller's contract.
        disguise_file_system(path, unsafe { &mut *buf });
    }
    result
}

// Both kinds are laid out alike here.
macro_rules! file_systems {
    ($($by_path:ident $by_descriptor:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $by_path(path: *const c_char, buf: *mut libc::statfs) -> c_int {
            let ask = |path: *const c_char| {
                next!($by_path(path, buf): fn(*const c_char, *mut libc::statfs) -> c_int, else -1)
            };
            // SAFETY: the program gives a C string or null.
            unsafe { statfs_by(path, buf, ask) }
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $by_descriptor(fd: c_int, buf: *mut libc::statfs) -> c_int {
            let ask = || next!($by_descriptor(fd, buf): fn(c_int, *mut libc::statfs) -> c_int, else -1);
            // SAFETY: a call that has succeeded has filled it.
            unsafe { fstatfs_by(fd, buf, ask) }
        }
    )*};
}

file_systems! { statfs fstatfs statfs64 fstatfs64 }

/// Makes a call about a path: `call` is given the one to use.
///
/// # Safety
///
/// `path` is null or a C string.
#[inline(never)]
pub(super) unsafe fn path_by(
    at: c_int,
    path: *const c_char,
    call: impl FnOnce(*const c_char) -> c_int,
) -> c_int {
    let mut buffer = Buffer::new();
    // SAFETY: the caller's contract.
    call(unsafe { buffer.resolve(at, path) }.path)
}

type Entries = *mut *mut *mut libc::dirent64;

macro_rules! scans {
    ($(fn $name:ident($($directory:ident)?);)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($directory: c_int,)? path: *const c_char, list: Entries, filter: Filter, compare: Compare
        ) -> c_int {
            let mut buffer = Buffer::new();
            let at = libc::AT_FDCWD;
            $(let _ = at; let at = $directory;)?
            // SAFETY: the program gives a C string or null.
            let found = unsafe { buffer.resolve(at, path) };
            let count = next!(
                $name($($directory,)? found.path, list, filter, compare):
                fn($(scans!(@type $directory),)? *const c_char, Entries, Filter, Compare) -> c_int, else -1
            );
            if found.is_node {
                for index in 0..usize::try_from(count).unwrap_or(0) {
                    // SAFETY: the call has made a list of that many entries.
                    unsafe { disguise_entry(*(*list).add(index)) };
                }
            }
            count
        }
    )*};
    (@type $any:ident) => { c_int };
}

scans! {
    fn scandir();
    fn scandir64();
    fn scandirat(directory);
    fn scandirat64(directory);
}

type Filter = Option<unsafe extern "C" fn(*const c_void) -> c_int>;
type Compare = Option<unsafe extern "C" fn(*const c_void, *const c_void) -> c_int>;

with_path! {
    fn opendir([path]) -> *mut c_void, else std::ptr::null_mut();
    fn statvfs([path], buf: *mut c_void) -> c_int, else -1;
    fn statvfs64([path], buf: *mut c_void) -> c_int, else -1;
    fn inotify_add_watch(fd: c_int, [path], mask: u32) -> c_int, else -1;
    fn getxattr([path], name: *const c_char, value: *mut c_void, size: usize) -> isize, else -1;
    fn lgetxattr([path], name: *const c_char, value: *mut c_void, size: usize) -> isize, else -1;
    fn listxattr([path], list: *mut c_char, size: usize) -> isize, else -1;
    fn llistxattr([path], list: *mut c_char, size: usize) -> isize, else -1;
    fn pathconf([path], name: c_int) -> c_long, else -1;
}
