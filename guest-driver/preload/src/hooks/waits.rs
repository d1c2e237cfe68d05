//! Waits of ROCr for signals. A thread that waits actively takes a processor. On a small machine that is one of those
//! that execute the awaited work; there the thread sleeps instead, once ROCr has spun for a moment.
//!
//! HIP waits actively by default. ROCr spins for 200 us in either kind of wait, then a blocked one sleeps until the signal's
//! interrupt (ROCr 6.4, `core/runtime/interrupt_signal.cpp`).

use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, Ordering};

use belfry_kfd_hosted::prepared::Wait;

use crate::costs;
use crate::inside::inside;
use crate::settings::settings;

/// `HSA_WAIT_STATE_BLOCKED` (ROCr `inc/hsa.h`).
const BLOCKED: c_int = 0;
/// Number of processors from which on a spinning one is a small part of them.
const MANY: usize = 8;

/// A part of the names of ROCr's library, wherever it is from.
const ROCR: &[u8] = b"libhsa-runtime64";

/// State of the choice to let waits sleep: not known yet, no, yes.
static SLEEPS: AtomicU8 = AtomicU8::new(0);

/// State in which a wait waits, if the program has asked for `asked`.
fn state(asked: c_int) -> c_int {
    let sleeps = match SLEEPS.load(Ordering::Relaxed) {
        0 => {
            let sleeps = inside(are_asked_to_sleep);
            SLEEPS.store(1 + u8::from(sleeps), Ordering::Relaxed);
            sleeps
        }
        known => known == 2,
    };
    if sleeps { BLOCKED } else { asked }
}

fn are_asked_to_sleep() -> bool {
    let Some(settings) = settings() else { return false };
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    sleeps(settings.wait, processors, settings.workers())
}

/// Returns true if waits sleep on `processors` processors of which `workers` workers execute waves.
fn sleeps(wait: Wait, processors: usize, workers: usize) -> bool {
    match wait {
        Wait::Spin => false,
        Wait::Block => true,
        Wait::Auto => processors <= workers && processors < MANY,
    }
}

/// A function of ROCr. Its library may have been loaded for another library alone, where the dynamic linker's search for the next
/// function does not come.
struct OfRocr {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl OfRocr {
    fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name is a C string; looking up changes nothing.
        let next = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        let found = if next.is_null() { in_loaded_library(self.name) } else { next };
        self.address.store(found, Ordering::Relaxed);
        if found.is_null() {
            crate::notice::say(format_args!("{}: no library of ROCr has it", self.name.to_string_lossy()));
        }
        found
    }
}

/// The function of that name in the first library that is ROCr's by its file's name; null where none is loaded.
fn in_loaded_library(name: &CStr) -> *mut c_void {
    let mut search = Search { name, found: null_mut() };
    // SAFETY: the function is called with the value given here, while this waits.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

struct Search<'n> {
    name: &'n CStr,
    found: *mut c_void,
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _size: usize, search: *mut c_void) -> c_int {
    // SAFETY: `in_loaded_library` gives its own search, and the C library a description whose name is a C string or null.
    unsafe {
        let (search, path) = (&mut *search.cast::<Search<'_>>(), (*info).dlpi_name);
        if path.is_null() || !CStr::from_ptr(path).to_bytes().windows(ROCR.len()).any(|part| part == ROCR) {
            return 0;
        }
        let handle = libc::dlopen(path, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return 0;
        }
        search.found = super::lookup::in_library(handle, search.name);
        // It stays loaded: its address is kept.
        c_int::from(!search.found.is_null())
    }
}

macro_rules! waits {
    ($(fn $name:ident($($argument:ident: $type:ty,)* [wait] $(, $after:ident: $after_type:ty)*) -> $result:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type,)* wait: c_int $(, $after: $after_type)*) -> $result {
                static OF_ROCR: OfRocr = OfRocr {
                    name: match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => c"",
                    },
                    address: AtomicPtr::new(null_mut()),
                };
                let address = OF_ROCR.address();
                if address.is_null() {
                    return 0;
                }
                // SAFETY: ROCr's function of this name has this type (`inc/hsa.h`, `inc/hsa_ext_amd.h`); the arguments are
                // the caller's.
                costs::of_wait(|| unsafe {
                    let function: unsafe extern "C" fn($($type,)* c_int $(, $after_type)*) -> $result =
                        std::mem::transmute(address);
                    function($($argument,)* state(wait) $(, $after)*)
                })
            }
        )*

        /// This library's function of a name, if it is one of these waits.
        pub(super) fn own(name: &CStr) -> Option<*mut c_void> {
            let name = name.to_bytes();
            $(
                if name == stringify!($name).as_bytes() {
                    return Some($name as *mut c_void);
                }
            )*
            None
        }
    };
}

waits! {
    fn hsa_signal_wait_scacquire(signal: u64, condition: c_int, value: i64, timeout: u64, [wait]) -> i64;
    fn hsa_signal_wait_acquire(signal: u64, condition: c_int, value: i64, timeout: u64, [wait]) -> i64;
    fn hsa_signal_wait_relaxed(signal: u64, condition: c_int, value: i64, timeout: u64, [wait]) -> i64;
    fn hsa_amd_signal_wait_any(
        count: u32, signals: *mut u64, conditions: *mut c_int, values: *mut i64, timeout: u64, [wait], satisfying: *mut i64
    ) -> u32;
    fn hsa_amd_signal_wait_all(
        count: u32, signals: *mut u64, conditions: *mut c_int, values: *mut i64, timeout: u64, [wait], satisfying: *mut i64
    ) -> u32;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_sleep_where_they_would_take_a_workers_processor() {
        for (wait, processors, workers, expected) in [
            (Wait::Auto, 2, 2, true),
            (Wait::Auto, 1, 2, true),
            (Wait::Auto, 4, 2, false),
            (Wait::Auto, 16, 16, false),
            (Wait::Spin, 1, 2, false),
            (Wait::Block, 64, 2, true),
        ] {
            assert_eq!(sleeps(wait, processors, workers), expected, "{wait:?}, {processors}, {workers}");
        }
    }

    #[test]
    fn own_waits_are_found_by_their_names() {
        assert!(own(c"hsa_signal_wait_scacquire").is_some_and(|own| !own.is_null()));
        assert!(own(c"hsa_amd_signal_wait_any").is_some());
        assert!(own(c"hsa_signal_wait").is_none() && own(c"hsa_init").is_none());
    }

    #[test]
    fn functions_of_a_library_that_is_not_loaded_are_not_found() {
        assert!(in_loaded_library(c"hsa_signal_wait_scacquire").is_null());
    }
}
