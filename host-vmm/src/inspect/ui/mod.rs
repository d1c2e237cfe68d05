//! The terminal's user interface of `belfry inspect`: a view of the same answers that `--json` prints.
//!
//! | part | file |
//! | --- | --- |
//! | the terminal, and giving it back | `terminal.rs` |
//! | the connection, on a thread of its own | `link.rs` |
//! | the questions and the known answers | `app.rs` |
//! | keys, and the line that is typed in | `keys.rs`, `prompt.rs` |
//! | the frame of a page | `draw.rs` |
//! | the pages | `pages/` |
//! | lists and their details | `list.rs` |
//! | the fields of answers | `fields.rs` |
//! | a screen as a picture | `picture.rs` |
//!
//! One question is under way at a time. The loop below never waits for its answer: a missing answer is shown as
//! missing, and keys go on to work.

mod app;
mod draw;
mod fields;
mod keys;
mod link;
mod list;
mod pages;
mod picture;
mod prompt;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use belfry_machine::interrupted;
use belfry_machine::signals::Signals;
use ratatui::crossterm::event::{self, Event, KeyEventKind};

pub use picture::{Shot, keys, picture};

use super::{Client, InspectError, only};
use app::App;
use link::Link;
use terminal::Screen;

/// Time that the loop waits for a key before it looks for an answer.
const TURN: Duration = Duration::from_millis(40);
/// Time between two pictures if nothing is new: the picture shows for how long there was no answer.
const TICK: Duration = Duration::from_millis(500);
/// Largest number of keys that are taken between two pictures.
const MOST_KEYS: usize = 64;

/// Shows the GPU of a process, or of the only one that there is, until the user quits; returns the exit status, which
/// is that of a signal if one has ended this.
///
/// # Errors
///
/// Standard output is no terminal, the terminal fails, or there is no such process.
pub fn run(pid: Option<u32>) -> Result<u8, InspectError> {
    terminal::check()?;
    let process = only(pid)?;
    let link = Link::start(Client::at(&process.socket)?)?;
    let signals = Signals::catch().map_err(InspectError::Terminal)?;
    let watched = terminal::Watched::start().map_err(InspectError::Thread)?;
    let mut screen = Screen::open().map_err(InspectError::Terminal)?;
    let mut app = App::new(process.pid);
    let mut drawn = None;
    loop {
        let now = Instant::now();
        let mut news = false;
        while let Some((question, reply)) = link.reply() {
            app.take(&question, reply, now);
            news = true;
        }
        if let Some(question) = app.next_question(now) {
            link.ask(question);
        }
        if news || drawn.is_none_or(|drawn: Instant| now.duration_since(drawn) >= TICK) {
            screen.draw(&mut app, now).map_err(InspectError::Terminal)?;
            drawn = Some(now);
        }
        // This comes before the read of events: on a terminal that has gone, the read would not return.
        if interrupted().is_some() || !terminal::wait(TURN).map_err(InspectError::Terminal)? {
            break;
        }
        for _ in 0..MOST_KEYS {
            if !event::poll(Duration::ZERO).map_err(InspectError::Terminal)? {
                break;
            }
            match event::read().map_err(InspectError::Terminal)? {
                Event::Key(key) if key.kind != KeyEventKind::Release => app.key(key),
                _ => {}
            }
            drawn = None;
        }
        if app.has_quit() {
            break;
        }
    }
    drop(screen);
    drop(watched);
    drop(signals);
    Ok(interrupted().and_then(|number| u8::try_from(128 + number).ok()).unwrap_or(0))
}
