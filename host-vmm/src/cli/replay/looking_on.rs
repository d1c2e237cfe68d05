//! A replay that has stopped: the user looks at it, and standard input says if it goes on or back.

use std::io::BufRead as _;
use std::str::FromStr;
use std::sync::mpsc::{Receiver, channel};

use anyhow::Context as _;
use belfry_device::Replayed;
use belfry_device::record::{RecordError, Until, UntilError};
use belfry_machine::signals::Signals;

use super::{Replaying, difference, place};
use crate::inspect::{InspectOptions, look_at};
use crate::output::{note, say};

/// Lines that the user can give, for messages.
const WISHES: &str = "`continue`, `continue EVENT`, `back N` or `quit`";

/// Next step of the replay.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Wish {
    /// Go on, to an event or to the end.
    Continue(Option<Until>),
    /// Go this many events back.
    Back(u64),
    /// End.
    Quit,
}

/// Lines that are no wish.
#[derive(Debug, thiserror::Error)]
enum WishError {
    /// The event is none.
    #[error(transparent)]
    Event(#[from] UntilError),
    /// The number is none.
    #[error("{0:?}: a number of events, from 1 on")]
    Number(String),
    /// The line has another form.
    #[error("{0:?} is not {WISHES}")]
    Unknown(String),
}

impl FromStr for Wish {
    type Err = WishError;

    fn from_str(text: &str) -> Result<Self, WishError> {
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["continue"] => Ok(Self::Continue(None)),
            ["continue", event] => Ok(Self::Continue(Some(event.parse()?))),
            ["back", number] => {
                let number = number.parse::<u64>().ok().filter(|&number| number > 0);
                number.map(Self::Back).ok_or_else(|| WishError::Number(text.to_owned()))
            }
            ["quit"] => Ok(Self::Quit),
            _ => Err(WishError::Unknown(text.to_owned())),
        }
    }
}

/// Event that the replay waits for.
enum Told {
    Line(String),
    /// A signal has come.
    Over,
}

/// Sends lines of standard input, if they are wanted, and the first signal.
fn listen(lines: bool) -> anyhow::Result<Receiver<Told>> {
    let signals = Signals::catch().context("cannot catch signals")?;
    let (tell, told) = channel();
    let over = tell.clone();
    std::thread::Builder::new().name("signals".into()).spawn(move || {
        signals.wait();
        // The receiver may have ended meanwhile; then it does not listen.
        let _ = over.send(Told::Over);
    })?;
    if lines {
        std::thread::Builder::new().name("input".into()).spawn(move || {
            let lines = std::io::stdin().lock().lines();
            let _ = lines.map_while(Result::ok).try_for_each(|line| tell.send(Told::Line(line)));
        })?;
    }
    Ok(told)
}

fn next_wish(told: &Receiver<Told>) -> Wish {
    loop {
        match told.recv() {
            Ok(Told::Line(line)) if line.trim().is_empty() => {}
            Ok(Told::Line(line)) => match line.parse() {
                Ok(wish) => return wish,
                Err(why) => note!("belfry: {why}"),
            },
            Ok(Told::Over) | Err(_) => return Wish::Quit,
        }
    }
}

/// Lets the device be looked at until standard input says otherwise; returns the status to end with.
pub(super) fn look_on(
    replaying: &mut Replaying<'_>,
    mut there: Replayed,
    options: &InspectOptions,
    goes_on: bool,
) -> anyhow::Result<u8> {
    let told = listen(goes_on)?;
    loop {
        let onlookers = look_at(replaying.looked_at(options.gpu)?, options)?;
        let wishes = if goes_on { format!(", say {WISHES}") } else { String::new() };
        note!("belfry: look at it with `belfry inspect {}`{wishes}; Ctrl-C ends this", std::process::id());
        let wish = next_wish(&told);
        // Halted parts of the device go on. The inspector cannot look at a device that runs.
        drop(onlookers);
        let went = match wish {
            Wish::Quit => return Ok(0),
            Wish::Continue(until) => replaying.run(until),
            Wish::Back(events) => replaying.back(&there, events),
        };
        match went {
            Ok(replayed) => there = replayed,
            Err(error) if is_refusal(&error) => {
                note!("belfry: {error:#}");
                if matches!(error.downcast_ref(), Some(RecordError::NoEvent(_))) {
                    // The search for the event has come to the end.
                    there = replaying.run(None)?;
                }
            }
            Err(error) => return difference(error),
        }
        say!("{}", place(&there, 1));
    }
}

/// Returns true if the replay is still as good as before the error.
fn is_refusal(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<RecordError>() {
        Some(error) => matches!(error, RecordError::NoEvent(_) | RecordError::Behind(_)),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wishes_are_words() {
        let event = |text: &str| Some(text.parse::<Until>().unwrap());
        for (text, wish) in [
            ("continue", Wish::Continue(None)),
            (" continue  interrupt:2 ", Wish::Continue(event("interrupt:2"))),
            ("back 7", Wish::Back(7)),
            ("quit", Wish::Quit),
        ] {
            assert_eq!(text.parse().ok(), Some(wish), "{text}");
        }
        for text in ["go", "back", "back 0", "back x", "continue lunch:1", "continue 1 2", "quit now"] {
            text.parse::<Wish>().unwrap_err();
        }
    }
}
