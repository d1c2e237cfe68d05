//! Writing to standard output and standard error, in one place that never panics.
//!
//! A reader that has left (`| head -1`) is no error: the rest is dropped, and the command goes on to its usual end. A
//! write that fails in any other way (`> /dev/full`) is told once on standard error, and [`is_lost`] says so from then
//! on.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

/// Writes a line to standard output.
macro_rules! say {
    ($($text:tt)*) => { $crate::output::line(format_args!($($text)*)) };
}

/// Writes a line to standard error, if it can be written.
macro_rules! note {
    ($($text:tt)*) => { $crate::output::note_line(format_args!($($text)*)) };
}

pub(crate) use {note, say};

/// State of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Everything written so far has arrived.
    Open,
    /// The reader has left.
    Closed,
    /// A write has failed.
    Lost,
}

static STDOUT: Mutex<State> = Mutex::new(State::Open);

/// Writes to standard output and flushes it.
pub(crate) fn write(data: &[u8]) {
    let mut state = STDOUT.lock().unwrap_or_else(PoisonError::into_inner);
    if *state != State::Open {
        return;
    }
    let mut stdout = io::stdout().lock();
    *state = state_after(stdout.write_all(data).and_then(|()| stdout.flush()));
}

/// Records the result of a write to standard output that was made by other means.
pub(crate) fn check(result: io::Result<()>) {
    *STDOUT.lock().unwrap_or_else(PoisonError::into_inner) = state_after(result);
}

/// Writes to standard error, if it can be written.
pub(crate) fn write_error(data: &[u8]) {
    let _ = io::stderr().write_all(data);
}

pub(crate) fn line(text: fmt::Arguments<'_>) {
    write(format!("{text}\n").as_bytes());
}

pub(crate) fn note_line(text: fmt::Arguments<'_>) {
    write_error(format!("{text}\n").as_bytes());
}

/// Returns true if output was lost although its reader was still there.
pub(crate) fn is_lost() -> bool {
    *STDOUT.lock().unwrap_or_else(PoisonError::into_inner) == State::Lost
}

/// Tells a reader that has left from a write that has failed, and reports a failed write on standard error.
fn state_after(result: io::Result<()>) -> State {
    match result {
        Ok(()) => State::Open,
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => State::Closed,
        Err(error) => {
            note!("belfry: cannot write to standard output: {error}; the rest of it is dropped");
            State::Lost
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_device_is() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert_eq!(state_after(writer.write_all(b"x")), State::Open);
        drop(reader);
        assert_eq!(state_after(writer.write_all(b"x")), State::Closed);
        let mut full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        assert_eq!(state_after(full.write_all(b"x")), State::Lost);
    }
}
