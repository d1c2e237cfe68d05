//! The beginning of a process with this library, before the program's own code.
#![expect(unsafe_code, reason = "a function for the dynamic linker")]

use std::ffi::{c_char, c_int};

use crate::{fork, notice, settings};

/// Called by the dynamic linker.
extern "C" fn begin(_count: c_int, _arguments: *const *const c_char, lines: *const *const c_char) {
    // SAFETY: the environment of a new process is a list of C strings that ends with null (System V ABI), and it has one thread.
    unsafe { settings::note(lines) };
    notice::take_log();
    fork::register();
}

#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;
