//! Whole-system tests: what the tests share.

pub mod assembly;
pub mod disks;
pub mod nested;
pub mod race;
pub mod suite;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use belfry_vmm::image::{Cache, Freshness, GuestImage, Progress, programs};

/// Fetches, builds and caches what a guest needs.
///
/// # Errors
///
/// When something cannot be had; the error says what, and what to do.
pub fn guest_image(cache: &Cache) -> Result<GuestImage> {
    Ok(GuestImage::prepare(cache, Freshness::Cached, &Progress::new())?)
}

/// The lines of a guest's log in which its kernel complains of something.
#[must_use]
pub fn complaints(log: &str) -> Vec<&str> {
    const COMPLAINTS: [&str; 15] = [
        "BUG:",
        "BUG ",
        "overwritten",
        "WARNING:",
        "Oops",
        "UBSAN",
        "refcount_t",
        "general protection",
        "scheduling while atomic",
        // The allocators' own, where they look for misuse.
        "Redzone",
        "Poison",
        "already free",
        "list_add",
        "list_del",
        "KFENCE: ",
    ];
    log.lines().filter(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint))).collect()
}

/// Builds the test roles as a static binary that runs in any guest.
///
/// # Errors
///
/// When cargo fails.
pub fn guest_roles(cache: &Cache) -> Result<PathBuf> {
    const TARGET: &str = "x86_64-unknown-linux-gnu";
    let target_dir = programs::target_directory(cache);
    let output = Command::new(env!("CARGO"))
        .args([
            "build",
            "--quiet",
            "--release",
            "--target",
            TARGET,
            "-p",
            "belfry-test-roles",
            "--target-dir",
        ])
        .arg(&target_dir)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("CARGO_BUILD_TARGET")
        .stdin(Stdio::null())
        .output()
        .context("running cargo")?;
    ensure!(output.status.success(), "building the roles: {}", String::from_utf8_lossy(&output.stderr));
    Ok(target_dir.join(TARGET).join("release/guest-roles"))
}
