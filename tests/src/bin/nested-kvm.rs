//! Runs belfry in the nested tier; `cargo xtask nested-kvm` is its front.
//!
//! With arguments, belfry is run with them, and its exit status is this program's. Without, the example that runs by
//! default boots a guest of its own, then all examples run in another one; the status is 0 only if each has succeeded.

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use belfry_guest::Stream;
use belfry_image::Progress;
use belfry_tests::nested::{BELFRY, Nested};

/// Time limit of one belfry inside; its own `--timeout` is for its program.
const LIMIT: Duration = Duration::from_secs(1200);

/// Command lines of belfry that run if there are no arguments.
const DEFAULT: [&[&str]; 3] = [
    &["run", "--mode", "kvm", "--guest", "bare-metal"],
    &["run", "--mode", "kvm"],
    &["run", "--mode", "kvm", "--", "all"],
];

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let started = Instant::now();
    let mut nested = Nested::boot(&Progress::new())?;
    nested.load_kvm()?;
    let boot = nested.boot_time();
    eprintln!("L1: Debian's kernel in QEMU's translator, booted in {:.1} s", boot.as_secs_f64());
    let status = if arguments.is_empty() {
        let mut failed = 0;
        for arguments in DEFAULT {
            println!("\n$ belfry {}", arguments.join(" "));
            let started = Instant::now();
            let status = belfry(&mut nested, arguments)?;
            println!("-> exit status {status} after {:.1} s", started.elapsed().as_secs_f64());
            failed += u8::from(status != 0);
        }
        println!("\nnested-kvm: {} of {} succeeded", DEFAULT.len() - usize::from(failed), DEFAULT.len());
        u8::from(failed > 0)
    } else {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        belfry(&mut nested, &arguments)?
    };
    nested.power_off()?;
    eprintln!("nested tier done after {:.1} s", started.elapsed().as_secs_f64());
    Ok(ExitCode::from(status))
}

fn belfry(nested: &mut Nested, arguments: &[&str]) -> Result<u8> {
    let mut argv = vec![BELFRY];
    argv.extend(arguments);
    let exit = nested.run(&argv, LIMIT, &mut |stream, data| {
        // A reader that has left does not stop the run.
        let _ = match stream {
            Stream::Stdout => io::stdout().write_all(data).and_then(|()| io::stdout().flush()),
            Stream::Stderr => io::stderr().write_all(data),
        };
    })?;
    Ok(u8::try_from(exit.status).unwrap_or(1))
}
