//! Notices to the user: one line each on the program's standard error.

use std::fmt::{Arguments, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_kfd_hosted::prepared::LOG_VARIABLE;

use crate::real::raw;

/// A line on standard error that is cut to the size of one write.
struct Line {
    text: [u8; 1024],
    len: usize,
}

impl std::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        // One byte stays for the end of the line.
        let room = self.text.len() - 1 - self.len;
        let taken = &text.as_bytes()[..text.len().min(room)];
        self.text[self.len..self.len + taken.len()].copy_from_slice(taken);
        self.len += taken.len();
        Ok(())
    }
}

/// Says something; allocates nothing.
pub(crate) fn say(message: Arguments<'_>) {
    let mut line = Line { text: [0; 1024], len: 0 };
    let _ = write!(line, "belfry exec: {message}");
    line.text[line.len] = b'\n';
    raw::write(2, &line.text[..=line.len]);
}

/// Prints a message the first time it is called in this process.
pub(crate) fn say_once(said: &AtomicBool, message: Arguments<'_>) {
    if !said.swap(true, Ordering::Relaxed) {
        say(message);
    }
}

/// The driver's log: messages that a kernel driver would put into the kernel's log.
struct Log;

impl log::Log for Log {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            say(format_args!("{}: {}", record.target(), record.args()));
        }
    }

    fn flush(&self) {}
}

/// Takes the driver's log, of which no message is shown yet. Called before there is a second thread: threads that come
/// to do so together would wait for the first one, and a forked child for ever.
pub(crate) fn take_log() {
    // Fails when there is a logger already, which is this one.
    let _ = log::set_logger(&Log);
}

/// Shows errors and warnings of driver and device, or the level that [`LOG_VARIABLE`] names.
pub(crate) fn start_log() {
    let level = std::env::var(LOG_VARIABLE).ok().and_then(|level| level.parse().ok());
    log::set_max_level(level.unwrap_or(log::LevelFilter::Warn));
}
