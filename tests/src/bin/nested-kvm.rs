//! Runs belfry in the nested tier, with the arguments given; `cargo xtask nested-kvm` is its front.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use belfry_tests::nested::Nested;
use belfry_vmm::guest::Stream;
use belfry_vmm::image::Progress;

/// How long one belfry may take inside; its own `--timeout` is for its program.
const LIMIT: Duration = Duration::from_secs(1200);

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let started = Instant::now();
    let mut nested = Nested::boot(&Progress::new())?;
    eprintln!(
        "L1 up after {:.1} s (boot {:.1} s)",
        started.elapsed().as_secs_f64(),
        nested.boot_time().as_secs_f64()
    );
    let exit = nested.belfry(&arguments, LIMIT, &mut |stream, data| {
        let _ = match stream {
            Stream::Stdout => io::stdout().write_all(data).and_then(|()| io::stdout().flush()),
            Stream::Stderr => io::stderr().write_all(data),
        };
    })?;
    nested.power_off()?;
    Ok(ExitCode::from(u8::try_from(exit.status).unwrap_or(1)))
}
