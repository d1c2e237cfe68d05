//! `fts`: the paths that it shows of a walk are changed while the program looks at them, and put back before it goes
//! on.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};

use crate::cwd;
use crate::cwd::hidden;
use crate::path::Buffer;
use crate::real::next;
use crate::settings::settings;

/// `FTSENT` up to the last field that is changed (fts.h); both kinds are laid out alike.
#[repr(C)]
struct Entry {
    links: [usize; 3],
    number: [usize; 2],
    access_path: *mut c_char,
    path: *mut c_char,
    errno: c_int,
    descriptor: c_int,
    path_len: u16,
}

/// An entry that was changed, and its old values.
#[derive(Clone, Copy)]
struct Changed {
    walk: *mut c_void,
    entry: *mut Entry,
    access_path: *mut c_char,
    path: *mut c_char,
    path_len: u16,
}

/// Most walks in one thread whose paths are changed at a time; further walks show the paths of the prepared files.
const MOST: usize = 8;

thread_local! {
    static CHANGED: Cell<[Option<Changed>; MOST]> = const { Cell::new([None; MOST]) };
}

/// Has an entry show no prepared directory.
///
/// # Safety
///
/// `entry` is null or one of `walk`'s.
unsafe fn show(walk: *mut c_void, entry: *mut Entry) {
    // The walk may have changed the working directory, unseen.
    cwd::changed();
    let Some(settings) = settings() else { return };
    // SAFETY: the caller's contract.
    let Some(current) = (unsafe { entry.as_mut() }).filter(|current| !current.path.is_null()) else { return };
    // SAFETY: an entry's paths are C strings.
    let skip = hidden(settings, unsafe { CStr::from_ptr(current.path) }.to_bytes());
    let mut all = CHANGED.get();
    let Some(slot) = all.iter_mut().find(|slot| slot.is_none()).filter(|_| skip > 0) else { return };
    let Entry { access_path, path, path_len, .. } = *current;
    *slot = Some(Changed { walk, entry, access_path, path, path_len });
    CHANGED.set(all);
    // SAFETY: that many bytes of the paths are the prepared directory.
    unsafe {
        if !access_path.is_null() && hidden(settings, CStr::from_ptr(access_path).to_bytes()) > 0 {
            current.access_path = access_path.add(skip);
        }
        current.path = path.add(skip);
    }
    current.path_len -= skip as u16;
}

/// Puts back the paths that a walk has shown last.
///
/// # Safety
///
/// `walk` is one that was not closed.
unsafe fn hide(walk: *mut c_void) -> Option<*mut Entry> {
    let mut all = CHANGED.get();
    let slot = all.iter_mut().find(|slot| slot.is_some_and(|changed| changed.walk == walk))?;
    let Changed { entry, access_path, path, path_len, .. } = slot.take()?;
    CHANGED.set(all);
    // SAFETY: entries live until the walk goes on.
    unsafe {
        (*entry).access_path = access_path;
        (*entry).path = path;
        (*entry).path_len = path_len;
    }
    Some(entry)
}

macro_rules! opens {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            paths: *const *mut c_char, options: c_int, compare: *const c_void
        ) -> *mut c_void {
            let mut buffers = [const { None }; MOST];
            let mut changed: [*const c_char; MOST + 1] = [std::ptr::null(); MOST + 1];
            let mut count = 0;
            let mut ours = false;
            // SAFETY: the program gives a list of C strings that ends with null.
            unsafe {
                while count < MOST && !(*paths.add(count)).is_null() {
                    let buffer = buffers[count].insert(Buffer::new());
                    let found = buffer.resolve(libc::AT_FDCWD, *paths.add(count));
                    ours |= found.ours;
                    changed[count] = found.path;
                    count += 1;
                }
                // More paths than there is room for are walked as they are.
                ours &= (*paths.add(count)).is_null();
            }
            let paths = if ours { changed.as_ptr() } else { paths.cast() };
            next!(
                $name(paths, options, compare): fn(*const *const c_char, c_int, *const c_void) -> *mut c_void,
                else std::ptr::null_mut()
            )
        }
    )*};
}

opens! { fts_open fts64_open }

macro_rules! reads {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(walk: *mut c_void) -> *mut Entry {
            // SAFETY: the program gives a walk that is open.
            unsafe { hide(walk) };
            let entry = next!($name(walk): fn(*mut c_void) -> *mut Entry, else std::ptr::null_mut());
            // SAFETY: the call gives null or an entry.
            unsafe { show(walk, entry) };
            entry
        }
    )*};
}

reads! { fts_read fts64_read }

macro_rules! lists {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(walk: *mut c_void, options: c_int) -> *mut Entry {
            // SAFETY: the program gives a walk that is open.
            let shown = unsafe { hide(walk) };
            let list = next!($name(walk, options): fn(*mut c_void, c_int) -> *mut Entry, else std::ptr::null_mut());
            // The program goes on looking at the entry it has.
            if let Some(entry) = shown {
                // SAFETY: a list of the files below an entry leaves the entry.
                unsafe { show(walk, entry) };
            }
            list
        }
    )*};
}

lists! { fts_children fts64_children }

macro_rules! closes {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(walk: *mut c_void) -> c_int {
            // SAFETY: the program gives a walk that is open.
            unsafe { hide(walk) };
            let result = next!($name(walk): fn(*mut c_void) -> c_int, else -1);
            cwd::changed();
            result
        }
    )*};
}

closes! { fts_close fts64_close }
