//! `cargo xtask stock`: the life of the distribution's own driver in a guest, and the suites under it
//! (docs/stock-driver.md).

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::rocm;

/// Parts of the task, and how often.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// `reload`: loads and unloads, unbinds and binds, resets and sleeps in one guest; `suites`: rocminfo and the suites of
    /// unmodified programs.
    #[arg(long, value_parser = ["reload", "suites"], default_value = "reload")]
    only: String,
    /// Loads and unloads; half as many of everything else.
    #[arg(long, default_value_t = 20)]
    times: u32,
    /// Only these parts of `reload`: load, bind, rescan, recovery, idle, memory.
    #[arg(value_name = "PART")]
    parts: Vec<String>,
}

/// Does it, and fails if anything fails.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let logs = root.join("target/stock");
    if options.only == "suites" {
        return rocm::run(root, &rocm::Options::in_stock_guests(logs));
    }
    fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    // A program of its own, because it is made of belfry's library.
    let times = options.times.to_string();
    let parts = options.parts.iter().map(OsStr::new);
    crate::program_of_tests("stock-life", [logs.as_os_str(), OsStr::new(&times)].into_iter().chain(parts))
}
