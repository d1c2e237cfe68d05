//! The race of unbind, ioctl, mmap and close in a guest; `tests/roles/src/race.rs` is what runs inside.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use belfry_guest::{Guest, GuestConfig};
use belfry_image::Cache;

use crate::{complaint, guest_image, guest_roles, kasan_image};

/// Which kernel the guest has.
#[derive(Clone, Copy, Debug)]
pub enum RaceKernel {
    /// Debian's own, or that of the packed guest in use.
    Stock,
    /// One that looks for misuse of memory and locks, with a driver that is checked as well.
    Kasan,
}

/// Unbinds and binds the function `rounds` times under processes that use it; returns what was counted.
///
/// # Errors
///
/// When the race or the work after it fails, or the guest's kernel complains of anything.
pub fn run(kernel: RaceKernel, config: &GuestConfig, rounds: u64, limit: Duration) -> Result<String> {
    const ROLES: &str = "/bin/guest-roles";
    let cache = Cache::open()?;
    let image = match kernel {
        RaceKernel::Stock => guest_image(&cache)?,
        RaceKernel::Kasan => kasan_image(&cache)?,
    };
    let roles = std::fs::read(guest_roles()?)?;
    let mut guest = Guest::boot(&image, config, &cache)?;
    guest.load_driver()?;
    guest.put_file(ROLES, 0o755, &roles)?;
    let mut said = String::new();
    for argv in [&[ROLES, "race", &rounds.to_string()][..], &[ROLES, "work"]] {
        let (exit, stdout, stderr) = guest.run(argv, limit)?;
        ensure!(exit.status == 0, "{argv:?} failed\n{stdout}{stderr}\n{}", guest.kernel_log()?);
        said.push_str(&stdout);
    }
    crate::unload(&mut guest)?;
    let log = guest.kernel_log()?;
    if let Some(complaint) = complaint(&log) {
        bail!("the guest's kernel complained:\n{complaint}");
    }
    guest.power_off()?;
    Ok(said)
}
