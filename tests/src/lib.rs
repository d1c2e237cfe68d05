//! Parts that tests with guests and of the binary share. Tests in one process are in `tests/hosted`.

mod built;
pub mod disks;
pub mod nested;
pub mod own_system;
pub mod shared_guest;
pub mod stock;
pub mod suite;
pub mod trial;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use belfry_embedded::PARTS;
use belfry_guest::{Guest, GuestError, ProgramId};
use belfry_image::artifacts::rust_sources;
use belfry_image::kasan;
use belfry_image::module::core_object::CoreInputs;
use belfry_image::{Cache, Freshness, GuestImage, Progress};

pub use built::guest_roles;

/// Fetches, builds and caches the parts of a guest.
///
/// # Errors
///
/// When a part cannot be had; the error names it, and the way to get it.
pub fn guest_image(cache: &Cache) -> Result<GuestImage> {
    Ok(belfry_image::prepare(cache, &PARTS, Freshness::Cached, &Progress::new())?)
}

/// The guest of [`guest_image`] with the kernel's own driver.
///
/// # Errors
///
/// When a part cannot be had; the error names it, and the way to get it.
pub fn stock_image(cache: &Cache) -> Result<GuestImage> {
    Ok(belfry_image::prepare_stock(cache, &PARTS, Freshness::Cached, &Progress::new())?)
}

/// The guest of [`guest_image`] on a kernel with KASAN and lockdep, which is built on first use, for up to an hour.
///
/// # Errors
///
/// When a part cannot be had; the error names it, and the way to get it.
pub fn kasan_image(cache: &Cache) -> Result<GuestImage> {
    let progress = Progress::new();
    let sources = CoreInputs {
        cargo: env!("CARGO").into(),
        rustc: "rustc".into(),
        rust_src: rust_sources(cache, Freshness::Cached, &progress)?.library,
        workspace: std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))?,
        directory: std::path::absolute(target_directory("kasan"))?,
        address_sanitizer: true,
    };
    Ok(kasan::guest(cache, &sources, &PARTS, &progress)?)
}

/// Unloads the driver once it is unused: the last file of a process that has ended is released by a work of the
/// driver's, a moment later.
///
/// # Errors
///
/// The guest's error; after half a minute also the error that the driver is in use.
pub fn unload(guest: &mut Guest) -> std::result::Result<(), GuestError> {
    let mut tries = 300;
    loop {
        match guest.unload_driver() {
            Err(GuestError::Refused { errno: libc::EAGAIN, .. }) if tries > 0 => {
                tries -= 1;
                std::thread::sleep(Duration::from_millis(100));
            }
            unloaded => return unloaded.map(drop),
        }
    }
}

/// Wakes the guest up as soon as it is suspended to memory, which a program in it brings about within `limit`.
///
/// # Errors
///
/// A guest that is not suspended in time (with the program's output), or a machine that does not answer.
pub fn wake(guest: &mut Guest, program: ProgramId, limit: Duration) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !guest.wake()? {
        if Instant::now() > deadline {
            let mut said = String::new();
            let ended = guest.wait(program, Duration::from_secs(1), &mut |_, data| {
                said.push_str(&String::from_utf8_lossy(data));
            });
            bail!("the guest is not suspended ({ended:?}): {said}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Number of interrupts that the guest's kernel has handed to the driver.
///
/// # Errors
///
/// The guest's error, or a kernel that knows no interrupt of the driver.
pub fn driver_interrupts(guest: &mut Guest) -> Result<u64> {
    let table = guest.get_file("/proc/interrupts")?;
    let table = String::from_utf8_lossy(&table);
    let line = table.lines().find(|line| line.ends_with("amdgpu"));
    let line = line.with_context(|| format!("no interrupt of the driver:\n{table}"))?;
    // The interrupt's number, the count of each processor, and the sender.
    Ok(line.split_whitespace().skip(1).map_while(|count| count.parse::<u64>().ok()).sum())
}

/// A guest's log from the first line on in which its kernel complains of something, as far as the complaint may go.
#[must_use]
pub fn complaint(log: &str) -> Option<String> {
    const LINES: usize = 60;
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
    let lines: Vec<_> = log.lines().collect();
    let first = lines.iter().position(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))?;
    Some(lines[first..].iter().take(LINES).copied().collect::<Vec<_>>().join("\n"))
}

/// Directory in which cargo builds programs with flags of their own: `name` below the workspace's target
/// directory.
fn target_directory(name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target")).join(name)
}
