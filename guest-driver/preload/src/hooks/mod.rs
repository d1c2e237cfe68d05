//! The functions of the C library that a program finds here first.
//!
//! A function that takes a path and does nothing else of note is one line of [`with_path`]; the others are written out.
//! Their types are those of the C library's headers; a variadic function takes the arguments it may have here, as the
//! calling convention allows.
#![expect(unsafe_code, reason = "takes the place of C functions")]

mod directory;
mod exec;
mod files;
mod find;
mod fts;
mod ioctl;
mod links;
mod lookup;
mod memory;
mod process;
mod signals;
mod stat;
mod syscall;
mod waits;

/// Defines functions that take a path: it is looked up, and the replaced function gets the result.
macro_rules! with_path {
    ($(
        fn $name:ident ( $($before:ident : $before_type:ty,)* [ $path:ident $(in $directory:ident)? ] $(, $after:ident : $after_type:ty)* ) -> $result:ty, else $missing:expr;
    )*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            $($before: $before_type,)* $path: *const std::ffi::c_char $(, $after: $after_type)*
        ) -> $result {
            let mut buffer = $crate::path::Buffer::new();
            let directory = libc::AT_FDCWD;
            $(let _ = directory; let directory = $directory;)?
            // SAFETY: the program gives a C string or null.
            let found = unsafe { buffer.resolve(directory, $path) };
            $crate::real::next!(
                $name($($before,)* found.path $(, $after)*):
                fn($($before_type,)* *const std::ffi::c_char $(, $after_type)*) -> $result,
                else $missing
            )
        }
    )*};
}
use with_path;
