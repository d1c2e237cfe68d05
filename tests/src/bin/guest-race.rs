//! The long form of the race of unbind, ioctl, mmap and close; `cargo xtask guest-race` is its front.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use belfry_guest::GuestConfig;
use belfry_tests::race;

/// How long a round may take, and what comes before the first.
const ROUND: Duration = Duration::from_secs(60);
const BOOT: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let rounds: u64 = arguments.next().context("usage: guest-race ROUNDS [KERNEL ARGUMENTS]")?.parse()?;
    let config = GuestConfig { append: arguments.collect(), boot_timeout: BOOT, ..GuestConfig::default() };
    let started = Instant::now();
    let limit = ROUND.saturating_mul(u32::try_from(rounds)?);
    print!("{}", race::run(&config, rounds, limit)?);
    println!("guest-race: the kernel complained of nothing in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
