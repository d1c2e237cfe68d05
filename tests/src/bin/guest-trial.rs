//! The long forms of the race of unbind, ioctl, mmap and close, of killing processes, and of shared memory; `cargo xtask
//! guest-race`, `guest-kills` and `guest-svm` are their fronts.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use belfry_guest::GuestConfig;
use belfry_tests::trial::{self, Trial, TrialKernel};

/// Time limits of a round, and of the boot before the first one.
const ROUND: Duration = Duration::from_secs(60);
const BOOT: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument =
        || arguments.next().context("usage: guest-trial race|kills|svm NUMBER stock|kasan KERNEL_ARGUMENTS");
    let name = argument()?;
    let number: u64 = argument()?.parse()?;
    let trial = match name.as_str() {
        "race" => Trial::Race(number),
        "kills" => Trial::Kills(number),
        "svm" => Trial::SharedMemory(number),
        other => bail!("trial {other}: race, kills or svm"),
    };
    let kernel = match argument()?.as_str() {
        "stock" => TrialKernel::Stock,
        "kasan" => TrialKernel::Kasan,
        other => bail!("kernel {other}: stock or kasan"),
    };
    let config = GuestConfig { append: vec![argument()?], boot_timeout: BOOT, ..GuestConfig::default() };
    let started = Instant::now();
    let limit = ROUND.saturating_mul(u32::try_from(number)?);
    print!("{}", trial::run(kernel, &config, trial, limit)?);
    println!("guest-{name}: the kernel complained of nothing in {:.0} s", started.elapsed().as_secs_f64());
    Ok(())
}
