//! Fetches LLVM 19 on first use and prints the directory of its programs.
//!
//! A program of its own, so that tests and tasks that start a compiler do not depend on what fetches it.

use std::error::Error;
use std::io::Write as _;

use belfry_image::{Cache, Freshness, Progress, tools};

fn main() -> Result<(), Box<dyn Error>> {
    let programs = tools::llvm(&Cache::open()?, Freshness::Cached, &Progress::new())?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", programs.display())?;
    Ok(())
}
