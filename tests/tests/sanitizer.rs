//! The sanitizer: each rule is broken once and reported as exactly that, and nothing is reported of code that keeps the
//! rules.
//!
//! `cargo test -p belfry-tests sanitizer` runs all of it.

#[path = "../../device/tests/whole_device/driver/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the tests of the device need more of it, and have it public")]
mod driver;

mod sanitizer {
    mod allocations;
    mod host_path;
    mod kernels;
    mod misuse;
    mod reports;
}
