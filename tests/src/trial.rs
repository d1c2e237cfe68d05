//! The race of unbind, ioctl, mmap and close in a guest, processes that are killed at random points, and memory that is
//! shared with the GPU. `race.rs`, `kills.rs` and `svm.rs` of `tests/roles/src` run inside.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use belfry_guest::{Guest, GuestConfig};
use belfry_image::Cache;

use crate::{complaint, guest_image, guest_roles, kasan_image};

/// Kernel of the guest.
#[derive(Clone, Copy, Debug)]
pub enum TrialKernel {
    /// Debian's own kernel, or that of the packed guest in use.
    Stock,
    /// A kernel that looks for misuse of memory and locks, with a driver that is checked as well.
    Kasan,
}

/// Trial of a guest.
#[derive(Clone, Copy, Debug)]
pub enum Trial {
    /// Unbinds and binds the function this many times under processes that use it.
    Race(u64),
    /// Kills processes at this many random points.
    Kills(u64),
    /// Has programs share their memory with the GPU this many times, and unbinds the function under the last one.
    SharedMemory(u64),
}

/// Subjects a guest to a trial; returns the counts.
///
/// # Errors
///
/// When the trial or the work after it fails, or the guest's kernel complains of anything.
pub fn run(kernel: TrialKernel, config: &GuestConfig, trial: Trial, limit: Duration) -> Result<String> {
    const ROLES: &str = "/bin/guest-roles";
    let cache = Cache::open()?;
    let image = match kernel {
        TrialKernel::Stock => guest_image(&cache)?,
        TrialKernel::Kasan => kasan_image(&cache)?,
    };
    let roles = guest_roles()?;
    let mut guest = Guest::boot(&image, config, &cache)?;
    guest.load_driver()?;
    guest.put_file(ROLES, 0o755, &roles)?;
    let mut said = String::new();
    let programs: Vec<Vec<String>> = match trial {
        Trial::Race(rounds) => vec![vec!["race".into(), rounds.to_string()]],
        Trial::Kills(points) => vec![vec!["kills".into(), points.to_string()]],
        Trial::SharedMemory(rounds) => {
            let rounds = (0..rounds).map(|_| vec!["svm".to_owned()]);
            rounds.chain([vec!["unbind".to_owned()]]).collect()
        }
    };
    for program in programs.into_iter().chain([vec!["work".to_owned()]]) {
        let argv: Vec<&str> = std::iter::once(ROLES).chain(program.iter().map(String::as_str)).collect();
        let (exit, stdout, stderr) = guest.run(&argv, limit)?;
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
