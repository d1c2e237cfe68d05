//! Fetches LLVM 19, or 22 or 23 if that is the argument, on first use and prints the directory of its programs.
//!
//! A program of its own, so that tests and tasks that start a compiler do not depend on the code that fetches it.

use std::error::Error;
use std::io::Write as _;

use belfry_image::{Cache, Freshness, Progress, tools};

fn main() -> Result<(), Box<dyn Error>> {
    let (cache, progress) = (Cache::open()?, Progress::new());
    let programs = match std::env::args().nth(1).as_deref() {
        None | Some("19") => tools::llvm(&cache, Freshness::Cached, &progress)?,
        Some("22") => tools::tables_llvm(&cache, Freshness::Cached, &progress)?,
        Some("23") => tools::newer_llvm(&cache, Freshness::Cached, &progress)?,
        Some(other) => return Err(format!("there is LLVM 19, 22 and 23 here, and no {other}").into()),
    };
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", programs.display())?;
    Ok(())
}
