//! Breakpoints for lines of sources whose code is not on the GPU yet.
//!
//! Packets that dispatch tell which code is on the GPU. While such a breakpoint waits, the device stands still in front
//! of each packet that dispatches; a thread looks for code of the line, and then lets the packet go on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use belfry_device::Gpu;
use belfry_tools::inspect::{BreakOn, Inspect as _};
use serde_json::{Value, json};

use super::sources::{addresses, break_at, reason, source_line};
use super::{QuestionError, answer_with};
use crate::symbols::Symbols;

/// Interval at which the thread checks if it is to end.
const BEAT: Duration = Duration::from_millis(100);

/// Thread that waits for code of lines to come to a GPU.
#[derive(Debug)]
pub(crate) struct Lines {
    symbols: Arc<Mutex<Symbols>>,
    closing: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Lines {
    pub(crate) fn of(symbols: &Arc<Mutex<Symbols>>) -> Self {
        Self { symbols: Arc::clone(symbols), closing: Arc::default(), thread: Mutex::default() }
    }

    /// Answers a question; `break line` of code that may come waits for it.
    ///
    /// # Errors
    ///
    /// As [`answer_with`].
    pub(crate) fn answer(&self, gpu: &Arc<Gpu>, question: &str) -> Result<Value, QuestionError> {
        let words: Vec<&str> = question.split_whitespace().collect();
        let ["break", "line", place] = words[..] else { return answer_with(gpu, &self.symbols, question) };
        let found = addresses(gpu, &self.symbols, place)?;
        if !found.is_empty() {
            return break_at(gpu, found);
        }
        let (file, line) = source_line(place)?;
        let can_come = self.symbols.lock().unwrap_or_else(PoisonError::into_inner).may_have(file, line);
        if !can_come {
            return Err(QuestionError::NoCode {
                known: "is known",
                place: place.to_owned(),
                why: reason(&self.symbols),
            });
        }
        self.watch(gpu)?;
        let number = gpu.inspect().add_break(BreakOn::Line(place.to_owned()));
        Ok(json!({ "breakpoints": [number?], "pending": true }))
    }

    /// Ends the thread; breakpoints that still wait for code wait for ever, unless they are removed.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = thread.join();
        }
    }

    /// Has a thread look for code.
    fn watch(&self, gpu: &Arc<Gpu>) -> Result<(), QuestionError> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_some() {
            return Ok(());
        }
        let (gpu, symbols, closing) =
            (Arc::downgrade(gpu), Arc::clone(&self.symbols), Arc::clone(&self.closing));
        let spawned = std::thread::Builder::new().name("inspect-lines".into());
        let spawned = spawned.spawn(move || look(&gpu, &symbols, &closing));
        *thread = Some(spawned.map_err(|error| QuestionError::Thread(error.to_string()))?);
        Ok(())
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        self.close();
    }
}

fn look(gpu: &Weak<Gpu>, symbols: &Mutex<Symbols>, closing: &AtomicBool) {
    while !closing.load(Ordering::SeqCst) {
        let Some(gpu) = gpu.upgrade() else { return };
        let inspector = gpu.inspect();
        match inspector.wait_for_look(BEAT) {
            Ok(true) => {
                for (number, place) in inspector.lines_without_code() {
                    let found = addresses(&gpu, symbols, &place).unwrap_or_default();
                    if found.is_empty() {
                        continue;
                    }
                    let with = found.into_iter().map(BreakOn::Pc).collect();
                    if !inspector.replace_break(number, with) {
                        log::warn!(target: "inspect", "no room for the breakpoints of line {place}");
                    }
                }
                inspector.looked();
            }
            Ok(false) => {}
            Err(_) => return,
        }
    }
}
