//! The binary with unmodified programs and with guests: one program, so that it is linked once.
//!
//! `exec.rs` is a program of its own since it makes its list of tests itself; `guest.rs` and `nested.rs` since each of their tests
//! has whole guests, which take a machine's memory.

#[path = "../../device/tests/whole_device/driver/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the device need more of it, and have it public")]
mod driver;
mod exec_debug;
mod exec_look;
mod exec_processes;
mod exec_record;
mod exec_suite;
mod exec_trace;
mod gpus;
mod header_check;
mod kvm;
mod launch;
#[path = "../../host-vmm/tests/perfetto/mod.rs"]
mod perfetto;
mod profile;
mod readme;
mod record;
mod root;
mod run_trace;
mod sanitizer;
/// Memory that waves share with threads of the host, in all back ends and tiers: the engine's own tests.
#[path = "../../device/isa/tests/torn.rs"]
mod torn;
mod torture;
