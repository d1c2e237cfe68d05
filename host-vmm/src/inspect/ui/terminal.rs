//! The terminal while it shows the inspector, and as it was before.

use std::io::{self, IsTerminal as _};
use std::time::Instant;

use ratatui::DefaultTerminal;

use super::app::App;
use super::draw;
use crate::inspect::InspectError;

/// Whether there is a terminal to show anything on.
pub(super) fn check() -> Result<(), InspectError> {
    if io::stdout().is_terminal() { Ok(()) } else { Err(InspectError::NoTerminal) }
}

/// The terminal in raw mode, on its other screen. It is as before once this is dropped, and before a panic is told.
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
        // A terminal that is gone needs nothing.
        let _ = self.terminal.show_cursor();
        let _ = ratatui::try_restore();
    }
}
