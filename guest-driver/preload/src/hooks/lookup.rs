//! Functions that a program looks up in the C library itself. `dlsym` with a handle of that library, as Python's ctypes
//! uses it, finds the C library's functions and passes this library by. The program gets this library's functions
//! instead. The same holds for a lookup of ROCr's waits.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void;

/// Result of a lookup.
#[repr(C)]
struct Choice {
    /// A function of this library; null where the C library is to answer.
    own: *mut c_void,
    /// The C library's `dlsym`.
    next: *mut c_void,
}

unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Looks up a function. The C library's answer depends on the caller: it has to find this function's own
/// return address on the stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    core::arch::naked_asm!(
        "push rdi",
        "push rsi",
        "sub rsp, 8",
        "call {choose}",
        "add rsp, 8",
        "pop rsi",
        "pop rdi",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "jmp rdx",
        choose = sym choose,
    )
}

/// The C library's `dlsym`, which this library's is not asked for: it has the same name.
fn next() -> *mut c_void {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
    let known = NEXT.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // The version that it has on x86-64 wherever it is (glibc `dlfcn/Versions`).
    // SAFETY: the names are C strings; looking up changes nothing.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, c"dlsym".as_ptr(), c"GLIBC_2.2.5".as_ptr()) };
    if found.is_null() {
        // There is no way to look anything up, and nothing of this library works.
        std::process::abort();
    }
    NEXT.store(found, Ordering::Relaxed);
    found
}

/// Finds the function of a name in a library and those it depends on, even if this library replaces it.
///
/// # Safety
///
/// The handle is that of a loaded library.
pub(super) unsafe fn in_library(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: it is the C library's function of this name and type; the handle is the caller's promise.
    unsafe {
        let lookup: Dlsym = std::mem::transmute(next());
        lookup(handle, name.as_ptr())
    }
}

/// Address at which the library of `address` begins.
fn library(address: *const c_void) -> Option<*mut c_void> {
    // SAFETY: all zeros are a value of the structure, which is this function's own; any address may be asked about.
    let info = unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address, &raw mut info) != 0).then_some(info)
    };
    info.map(|info| info.dli_fbase)
}

/// Chooses the function that a program gets. A lookup in the C library itself finds this library's function,
/// if it has one of that name. All other lookups, and those with `RTLD_DEFAULT` or `RTLD_NEXT`, are passed on
/// unchanged.
unsafe extern "C" fn choose(handle: *mut c_void, name: *const c_char) -> Choice {
    let next = next();
    let pass_on = Choice { own: null_mut(), next };
    if handle == libc::RTLD_DEFAULT || handle == libc::RTLD_NEXT || name.is_null() {
        return pass_on;
    }
    // SAFETY: it is the C library's function of this name and type.
    let lookup: Dlsym = unsafe { std::mem::transmute(next) };
    // SAFETY: the program's own arguments. A failure is reported again by the lookup that follows.
    let found = unsafe { lookup(handle, name) };
    if found.is_null() {
        return pass_on;
    }
    // SAFETY: the name is a C string that was found.
    if let Some(own) = super::waits::own(unsafe { CStr::from_ptr(name) }) {
        return Choice { own, next };
    }
    if library(found) != library(next) {
        return pass_on;
    }
    // The C library has it, so that this finds it, here or there.
    // SAFETY: the name is a C string that was found before.
    let first = unsafe { lookup(libc::RTLD_DEFAULT, name) };
    let is_own = !first.is_null() && library(first) == library(choose as *const c_void);
    Choice { own: if is_own { first } else { null_mut() }, next }
}
