//! The life of the distribution's own driver in a guest; `cargo xtask stock` is its front.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_device::GpuConfig;
use belfry_guest::GuestConfig;
use belfry_tests::stock::{Life, PARTS};

/// Time limit of the boot.
const BOOT: Duration = Duration::from_secs(600);

fn main() -> Result<()> {
    const USAGE: &str = "usage: stock-life LOGS TIMES [PART...]";
    let mut arguments = std::env::args().skip(1);
    let logs = PathBuf::from(arguments.next().context(USAGE)?);
    let times = arguments.next().context(USAGE)?.parse()?;
    let asked: Vec<String> = arguments.collect();
    for part in &asked {
        ensure!(PARTS.iter().any(|known| known.name == part), "no part {part:?}");
    }
    let gpu = GpuConfig::default();
    let gpu = GpuConfig { rom: gpu.card_rom(), ..gpu };
    let config = GuestConfig { gpus: vec![gpu], boot_timeout: BOOT, ..GuestConfig::default() };
    let mut failed = 0;
    for part in PARTS.iter().filter(|part| asked.is_empty() || asked.iter().any(|name| name == part.name)) {
        // A guest for each: what one leaves behind is not the next one's failure.
        let outcome = Life::boot(&config).and_then(|mut life| part.run(&mut life, times, &logs));
        match outcome {
            Ok(said) => println!("passed  {:<10} {said}", part.name),
            Err(error) => {
                failed += 1;
                println!("FAILED  {:<10} {error:#}", part.name);
            }
        }
    }
    ensure!(failed == 0, "{failed} parts failed");
    Ok(())
}
