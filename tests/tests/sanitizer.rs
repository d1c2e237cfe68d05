//! The sanitizer: each rule is broken once and reported as exactly that, and nothing is reported of code that keeps the
//! rules.
//!
//! `cargo test -p belfry-tests sanitizer` runs all of it.

mod allocations;
mod host_path;
mod kernels;
mod misuse;
mod reports;
