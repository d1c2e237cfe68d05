//! Files by which roles wait for each other.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

/// Longest time a role waits for another one.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Writes a file that appears complete or not at all.
pub(crate) fn publish(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    std::fs::write(&partial, text)?;
    std::fs::rename(&partial, path).with_context(|| format!("publishing {}", path.display()))
}

/// Waits until a file exists and returns its text.
///
/// # Errors
///
/// When it does not appear.
pub fn wait_for(path: &Path) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Ok(text) = std::fs::read_to_string(path) {
            return Ok(text);
        }
        ensure!(Instant::now() < deadline, "{} did not appear", path.display());
        std::thread::sleep(Duration::from_millis(2));
    }
}
