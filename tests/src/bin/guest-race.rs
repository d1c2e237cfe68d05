//! The long form of the race of unbind, ioctl, mmap and close; `cargo xtask guest-race` is its front.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use belfry_guest::GuestConfig;
use belfry_tests::race::{self, RaceKernel};

/// How long a round may take, and what comes before the first.
const ROUND: Duration = Duration::from_secs(60);
const BOOT: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().context("usage: guest-race ROUNDS stock|kasan KERNEL_ARGUMENTS");
    let rounds: u64 = argument()?.parse()?;
    let kernel = match argument()?.as_str() {
        "stock" => RaceKernel::Stock,
        "kasan" => RaceKernel::Kasan,
        other => bail!("kernel {other}: stock or kasan"),
    };
    let config = GuestConfig { append: vec![argument()?], boot_timeout: BOOT, ..GuestConfig::default() };
    let started = Instant::now();
    let limit = ROUND.saturating_mul(u32::try_from(rounds)?);
    print!("{}", race::run(kernel, &config, rounds, limit)?);
    println!("guest-race: the kernel complained of nothing in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
