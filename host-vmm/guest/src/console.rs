//! The output of a guest's kernel on its serial port: kept in a file, and cut down to the lines that matter.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use belfry_image::cache::io_error;

/// Lines of the console that an error shows.
const TAIL: usize = 25;

/// The last lines of a guest kernel's output, and the file that keeps more of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Console {
    /// The last lines.
    pub tail: String,
    /// The file.
    pub log: Option<PathBuf>,
}

impl std::fmt::Display for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.tail.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", self.tail)?;
        match &self.log {
            Some(log) => write!(f, "\nmore of the console is in {}", log.display()),
            None => Ok(()),
        }
    }
}

impl Console {
    /// Keeps a console's content in `logs`, and shows its end, or the lines from its kernel's panic on.
    pub(super) fn keep(content: &[u8], logs: &Path) -> Self {
        // Each of several guests of one process keeps its own file.
        static KEPT: AtomicU32 = AtomicU32::new(0);
        let number = KEPT.fetch_add(1, Ordering::Relaxed);
        let _ = fs::create_dir_all(logs);
        let kept = logs.join(format!("guest-{}-{number}.log", std::process::id()));
        if let Err(error) = fs::write(&kept, content).map_err(io_error("write", &kept)) {
            log::warn!(target: "guest", "{error}");
        }
        Self { tail: tail(&String::from_utf8_lossy(content), TAIL), log: Some(kept) }
    }

    /// Returns the end of another text, which is not kept in a file.
    pub(super) fn excerpt(text: &str) -> Self {
        Self { tail: tail(text, TAIL), log: None }
    }
}

/// Returns the reason of a panic, and the console from the first sign of the panic on.
pub(super) fn panic_of(console: &str) -> Option<(String, String)> {
    const SIGNS: [&str; 4] = ["BUG:", "Oops:", "general protection fault", "Kernel panic"];
    let lines: Vec<&str> = console.lines().map(str::trim_end).collect();
    let line = lines.iter().find(|line| line.contains("Kernel panic"))?;
    let first = lines.iter().position(|line| SIGNS.iter().any(|sign| line.contains(sign)))?;
    let from = first.saturating_sub(3);
    Some(((*line).to_owned(), lines[from..lines.len().min(from + TAIL)].join("\n")))
}

/// Returns the last `count` lines that are not empty.
fn tail(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_by_its_first_sign() {
        let console =
            "boot\r\nabc\n[1] BUG: kernel NULL pointer\n[1] RIP: x\n[1] Kernel panic - not syncing: Fatal\n";
        let (line, tail) = panic_of(console).unwrap();
        assert_eq!(line, "[1] Kernel panic - not syncing: Fatal");
        assert!(tail.contains("NULL pointer") && tail.contains("RIP: x"));
        assert_eq!(panic_of("all is well\n"), None);
    }

    #[test]
    fn tail_skips_empty_lines() {
        assert_eq!(tail("a\n\nb\r\nc\n", 2), "b\nc");
        assert_eq!(tail("", 2), "");
    }
}
