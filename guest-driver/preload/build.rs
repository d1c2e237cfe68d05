//! Options of the linker for the library.

use std::env;
use std::process::exit;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_FEATURE").split(',').any(|feature| feature == "crt-static") {
        eprintln!(
            "belfry-preload is loaded into programs and takes their C library: build without -C target-feature=+crt-static"
        );
        exit(1);
    }
    // The library that belfry carries is known by this (`host-vmm/embedded`).
    println!("cargo::rustc-link-arg-cdylib=-Wl,--build-id=sha1");
    // Lines are for the tests' own programs: here they would be 100 MB in each program that carries the library.
    if variable("PROFILE") == "debug" {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--strip-debug");
    }
}
