//! The hosted driver under programs that know nothing of it: a library to preload.
//!
//! A program started with this library finds `/dev/kfd`, a render node and their files under `/sys`, served by the driver
//! core and a device in its own process. The library is the third shim of the core, beside the kernel module and
//! [`belfry_kfd_hosted`], on which it sits: it turns calls of the C library into those of a
//! [`HostedProcess`](belfry_kfd_hosted::HostedProcess). `belfry exec` prepares the files, names them in the environment
//! and starts the program.
//!
//! # Calls and their replacements
//!
//! | call | becomes | file |
//! | --- | --- | --- |
//! | with a path of ours | the same call with the path of a prepared file | `path.rs`, `hooks/` |
//! | `stat` of a device node | a character device's answer | `node.rs` |
//! | `ioctl`, `mmap` of a device node | a call of the driver | `hooks/memory.rs`, `hooks/ioctl.rs` |
//! | `mmap`, `lseek` of memory that processes share | its pages, its size | `hooks/memory.rs`, `hooks/files.rs` |
//! | `munmap`, `mremap`, `mprotect` of memory the GPU uses | the driver is told first | `hooks/memory.rs` |
//! | `exec`, `posix_spawn` | the same with this library in the environment | `hooks/process.rs` |
//! | `sigaction` for a signal that may end a process with a summary | the summary comes first | `hooks/signals.rs`, `bridge.rs`, `ending.rs` |
//! | `dlsym` in the C library | the function of this library, where there is one | `hooks/lookup.rs` |
//! | `DBG_TRAP` of another process | a call of that process's driver | `debug/` |
//!
//! In a program that may be debugged (`belfry exec --debuggable`), driver and device are in a process beside it, which shares
//! its memory: `companion.rs`.
//!
//! # Rules
//!
//! 1. A call that does not concern the GPU goes on unchanged and allocates nothing: a call can come from inside an
//!    allocator or a signal handler. Until the GPU runs it takes no lock; then `munmap` and its like ask the driver, which
//!    holds its locks with signals blocked alone.
//! 2. Allocations of this library come from an allocator of its own (`alloc.rs`), never from the program's.
//! 3. Calls that the driver and the device make of the C library are not for this library: `thread_kind.rs` and `inside.rs` tell them apart.
//!    Their clocks are the kernel's, also where the program's are not: `clock.rs`.
//! 4. Before the program opens the GPU, nothing is done but to note some variables of the environment; nothing is left
//!    behind when it ends, however it ends.

#![cfg_attr(
    test,
    allow(dead_code, reason = "the hooks are left out of tests, which would be subject to them")
)]

mod alloc;
mod begin;
mod bridge;
mod card;
mod clock;
mod code_objects;
mod companion;
mod costs;
mod cwd;
mod debug;
mod doorbells;
mod ending;
mod file_limit;
mod fork;
mod gpu;
mod identity;
mod inside;
mod live;
mod new_file;
mod node;
mod notice;
mod onlookers;
mod opening;
mod path;
mod process;
mod program_file;
mod real;
mod record;
mod settings;
mod shared;
mod start;
mod summary;
mod thread_kind;
mod trace;
mod unmapped;
mod userfault;

// A test binary has its own calls answered by the C library.
#[cfg(not(test))]
mod hooks;
