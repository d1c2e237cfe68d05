//! Fetches one package of Debian 13 on first use, without its dependencies, and prints the directory of its files.
//!
//! A program of its own, so that tasks that run a package's programs do not depend on the code that fetches it.

use std::error::Error;
use std::io::Write as _;

use belfry_image::{Cache, Progress, tools};

fn main() -> Result<(), Box<dyn Error>> {
    let name = std::env::args().nth(1).ok_or("usage: belfry-package NAME")?;
    let directory = tools::package(&Cache::open()?, &name, &Progress::new())?;
    writeln!(std::io::stdout(), "{}", directory.display())?;
    Ok(())
}
