//! The pages. Each has its questions, a selection, and a picture of the answers.

mod doorbells;
mod interrupts;
mod kernels;
mod memory;
mod overview;
mod queues;
mod registers;
mod tables;
mod waves;

use std::fmt;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use serde_json::Value;

use super::app::{Refusal, Replies};
use super::fields::field;

/// Style of lines that should catch the eye.
const MARKED: Style = Style::new().fg(Color::Cyan).add_modifier(Modifier::BOLD);
/// Column heads.
const HEAD: Style = Style::new().add_modifier(Modifier::UNDERLINED);

/// A page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PageName {
    Overview,
    Queues,
    Waves,
    Tables,
    Registers,
    Interrupts,
    Doorbells,
    Memory,
    Kernels,
}

impl PageName {
    pub(super) const ALL: [Self; 9] = [
        Self::Overview,
        Self::Queues,
        Self::Waves,
        Self::Tables,
        Self::Registers,
        Self::Interrupts,
        Self::Doorbells,
        Self::Memory,
        Self::Kernels,
    ];

    /// Returns the page's name for narrow screens.
    pub(super) fn short(self) -> &'static str {
        ["overview", "queues", "waves", "tables", "regs", "ints", "bells", "memory", "kernels"][self as usize]
    }

    /// Returns the page `further` pages on, around the end.
    pub(super) fn beside(self, further: usize) -> Self {
        Self::ALL[(self as usize + further) % Self::ALL.len()]
    }
}

/// A page of the user interface.
pub(super) trait Page: fmt::Debug {
    /// Returns the questions that are asked a few times a second while the page is shown.
    fn questions(&self, replies: &Replies) -> Vec<String>;

    /// Sees a reply before it replaces the last one.
    fn take(&mut self, _question: &str, _reply: &Result<Value, Refusal>) {}

    /// Moves the selection.
    fn key(&mut self, key: KeyCode, replies: &Replies);

    /// Returns the label of the line in which the user types a place, and the text that this line begins with.
    fn place(&self) -> Option<(&'static str, String)> {
        None
    }

    /// Goes to a place; an error says why it cannot.
    fn go(&mut self, _place: &str) -> Result<(), Refusal> {
        Ok(())
    }

    /// Returns a breakpoint for the selected line.
    fn breakpoint(&self, _replies: &Replies) -> Option<String> {
        None
    }

    /// Draws the page.
    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies);
}

/// All pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    overview: overview::Overview,
    queues: queues::Queues,
    pub(super) waves: waves::Waves,
    tables: tables::Tables,
    registers: registers::Registers,
    interrupts: interrupts::Interrupts,
    doorbells: doorbells::Doorbells,
    memory: memory::Memory,
    kernels: kernels::Kernels,
}

impl Pages {
    pub(super) fn at(&self, page: PageName) -> &dyn Page {
        match page {
            PageName::Overview => &self.overview,
            PageName::Queues => &self.queues,
            PageName::Waves => &self.waves,
            PageName::Tables => &self.tables,
            PageName::Registers => &self.registers,
            PageName::Interrupts => &self.interrupts,
            PageName::Doorbells => &self.doorbells,
            PageName::Memory => &self.memory,
            PageName::Kernels => &self.kernels,
        }
    }

    pub(super) fn at_mut(&mut self, page: PageName) -> &mut dyn Page {
        match page {
            PageName::Overview => &mut self.overview,
            PageName::Queues => &mut self.queues,
            PageName::Waves => &mut self.waves,
            PageName::Tables => &mut self.tables,
            PageName::Registers => &mut self.registers,
            PageName::Interrupts => &mut self.interrupts,
            PageName::Doorbells => &mut self.doorbells,
            PageName::Memory => &mut self.memory,
            PageName::Kernels => &mut self.kernels,
        }
    }
}

/// Returns the lines of a page, or, if there are none, the refusal of the question or the meaning of an empty list.
fn or_why(
    lines: Vec<Line<'static>>,
    replies: &Replies,
    question: &str,
    empty: &'static str,
) -> Vec<Line<'static>> {
    if !lines.is_empty() {
        return lines;
    }
    let text = match replies.refusal(question) {
        Some(why) => why.to_owned(),
        None if replies.has(question) => empty.to_owned(),
        None => "...".to_owned(),
    };
    vec![Line::raw(text)]
}

/// Describes a packet in lines: its kind, its fields, its dwords.
fn packet(packet: &Value) -> Vec<Line<'static>> {
    let head =
        format!("#{} {} at {}", field(packet, "index"), field(packet, "kind"), field(packet, "address"));
    let mut lines = vec![Line::styled(head, MARKED)];
    lines.extend(named(&packet["fields"]));
    lines.extend(words(&packet["words"]));
    lines
}

/// Describes fields by name, each in a line.
fn named(fields: &Value) -> impl Iterator<Item = Line<'static>> + '_ {
    super::fields::fields(fields)
        .map(|(name, value)| Line::raw(format!("  {name:<26} {}", super::fields::word(value))))
}

/// Describes dwords, four in a line.
fn words(words: &Value) -> Vec<Line<'static>> {
    let words: Vec<String> = super::fields::items(words).map(super::fields::digits).collect();
    words.chunks(4).map(|words| Line::raw(format!("  {}", words.join(" ")))).collect()
}
