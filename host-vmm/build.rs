//! Builds the library that `belfry exec` preloads, for the binary to carry.
//!
//! It is a package of the workspace, built by cargo itself in a directory of its own, always optimised: what runs in it is
//! the execution engine. Flags of the build at hand (instrumentation of fuzzers, static linking) are not for it.

use std::env;
use std::error::Error;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources the library is made of.
const SOURCES: [&str; 9] = [
    "Cargo.toml",
    "Cargo.lock",
    "abi/src",
    "device/src",
    "device/isa/src",
    "guest-driver/core/src",
    "guest-driver/hosted/src",
    "guest-driver/preload/src",
    "pci/src",
];

fn main() -> Result<(), Box<dyn Error>> {
    let workspace = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("..");
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", workspace.join(source).display());
    }
    let target = target_directory(&workspace);
    let status = Command::new(env::var("CARGO")?)
        .args(["build", "--quiet", "--package", "belfry-preload", "--profile", "preload"])
        .args(["--target", "x86_64-unknown-linux-gnu"])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("CARGO_BUILD_TARGET")
        .status()?;
    if !status.success() {
        return Err(format!("building the library to preload (package belfry-preload): {status}").into());
    }
    let built = target.join("x86_64-unknown-linux-gnu/preload/libbelfry_preload.so");
    let library = PathBuf::from(env::var("OUT_DIR")?).join("libbelfry_preload.so");
    fs::copy(&built, &library).map_err(|error| format!("{}: {error}", built.display()))?;
    println!("cargo::rustc-env=BELFRY_PRELOAD={}", library.display());
    let mut identity = DefaultHasher::new();
    fs::read(&library)?.hash(&mut identity);
    println!("cargo::rustc-env=BELFRY_PRELOAD_IDENTITY={:016x}", identity.finish());
    Ok(())
}

/// Where it is built: beside the workspace's own output, so that every profile finds it built.
fn target_directory(workspace: &Path) -> PathBuf {
    let beside = workspace.join("target");
    let beside = fs::canonicalize(&beside).unwrap_or(beside);
    let writable = fs::create_dir_all(beside.join("preload")).is_ok();
    match env::var("OUT_DIR") {
        Ok(out) if !writable => PathBuf::from(out).join("target"),
        _ => beside.join("preload"),
    }
}
