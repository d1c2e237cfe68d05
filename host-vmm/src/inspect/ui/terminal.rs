//! The terminal while it shows the inspector, and its state from before.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use belfry_machine::interrupted;
use ratatui::DefaultTerminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::app::App;
use super::draw;
use crate::inspect::InspectError;

/// Time that a signal has to end the loop.
const GRACE: Duration = Duration::from_secs(1);
/// Time between two checks for a signal.
const WATCH: Duration = Duration::from_millis(200);

/// Returns no error if standard output is a terminal to show on, and standard input one to take keys from.
pub(super) fn check() -> Result<(), InspectError> {
    let both = io::stdout().is_terminal() && io::stdin().is_terminal();
    if both { Ok(()) } else { Err(InspectError::NoTerminal) }
}

/// Waits for a key, a signal or the end of a time; returns true if the terminal is still there.
pub(super) fn wait(limit: Duration) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(_) => Ok(!fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL)),
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

/// A thread that ends the process after a signal if the loop does not, as when reading or writing the terminal does
/// not return.
#[derive(Debug)]
pub(super) struct Watched {
    done: Arc<AtomicBool>,
}

impl Watched {
    pub(super) fn start() -> io::Result<Self> {
        let done = Arc::new(AtomicBool::new(false));
        let mine = Arc::clone(&done);
        std::thread::Builder::new().name("inspect-signals".into()).spawn(move || {
            let mut since = None;
            while !mine.load(Ordering::SeqCst) {
                std::thread::sleep(WATCH);
                let Some(number) = interrupted() else { continue };
                if since.get_or_insert_with(Instant::now).elapsed() >= GRACE && !mine.load(Ordering::SeqCst) {
                    let _ = ratatui::try_restore();
                    std::process::exit(128 + number);
                }
            }
        })?;
        Ok(Self { done })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.done.store(true, Ordering::SeqCst);
    }
}

/// The terminal in raw mode, on its other screen. Its old state returns when this is dropped, and before a panic is
/// printed.
pub(super) struct Screen {
    terminal: DefaultTerminal,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init().inspect_err(|_| ratatui::restore())?;
        Ok(Self { terminal })
    }

    pub(super) fn draw(&mut self, app: &mut App, now: Instant) -> io::Result<()> {
        self.terminal.draw(|frame| {
            let area = frame.area();
            draw::draw(app, now, frame.buffer_mut(), area);
        })?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone needs no repair.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}
