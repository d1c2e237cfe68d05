//! The frame of a page: tabs and state above it, messages and typed text below it.

use std::time::Instant;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

use super::app::App;
use super::fields::{field, is};
use super::keys::HELP;
use super::list::lines_at;
use super::pages::PageName;

const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
const HALTED: Style = Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD);

/// Draws everything; parts without room are left out.
pub(super) fn draw(app: &mut App, now: Instant, buffer: &mut Buffer, area: Rect) {
    buffer.reset();
    let row = |y: u16| Rect { y: area.y + y.min(area.height), height: u16::from(y < area.height), ..area };
    lines_at(buffer, row(0), &[tabs(app.page, area.width)]);
    if area.height > 1 {
        lines_at(buffer, row(area.height - 1), &[footer(app, area.width)]);
    }
    if area.height > 2 {
        lines_at(buffer, row(1), &[state(app, now)]);
    }
    let body = Rect { y: area.y + 2.min(area.height), height: area.height.saturating_sub(3), ..area };
    if app.help {
        let lines: Vec<Line<'_>> = HELP.lines().map(Line::raw).collect();
        lines_at(buffer, body, &lines);
    } else if body.height > 0 {
        app.pages.at_mut(app.page).draw(buffer, body, &app.replies);
    }
}

/// Returns the names of the pages, with the shown one marked; only the shown one if there is too little room.
fn tabs(shown: PageName, width: u16) -> Line<'static> {
    let marked = Style::new().add_modifier(Modifier::REVERSED);
    let mut spans = Vec::new();
    for (page, number) in PageName::ALL.into_iter().zip(1..) {
        let style = if page == shown { marked } else { Style::new() };
        spans.push(Span::styled(format!("{number} {}", page.short()), style));
        spans.push(Span::raw(" "));
    }
    let line = Line::from(spans);
    if line.width() <= usize::from(width) + 1 {
        return line;
    }
    Line::styled(format!("{}/{} {}", shown as usize + 1, PageName::ALL.len(), shown.short()), marked)
}

fn state(app: &App, now: Instant) -> Line<'static> {
    if app.over.is_some() {
        return Line::styled(format!("NO MORE ANSWERS of process {}", app.pid), BAD);
    }
    if let Some(silent) = app.silent(now) {
        return Line::styled(format!("no answer for {} s by process {}", silent.as_secs(), app.pid), BAD);
    }
    let status = app.replies.of("status");
    if status.is_null() {
        return Line::raw(format!("process {}", app.pid));
    }
    if !is(status, "halted") {
        return Line::raw(format!("runs: process {}", app.pid));
    }
    let mut text = format!("HALTED: {}", field(status, "why"));
    if !status["breakpoint"].is_null() {
        text = format!("HALTED at breakpoint {}: {}", field(status, "breakpoint"), field(status, "why"));
    }
    if !status["wave"].is_null() {
        text = format!("{text}, wave {}", field(status, "wave"));
    }
    Line::styled(text, HALTED)
}

fn footer(app: &App, width: u16) -> Line<'static> {
    let width = usize::from(width);
    if let Some(prompt) = &app.prompt {
        // The end of the typed text stays in sight, and as much of the label as there is room for.
        let typed: Vec<char> = format!("{}_", prompt.text).chars().collect();
        let label: String = prompt.label.chars().take(width.saturating_sub(typed.len())).collect();
        let typed: String = typed[typed.len().saturating_sub(width)..].iter().collect();
        return Line::from(vec![
            Span::raw(label),
            Span::styled(typed, Style::new().add_modifier(Modifier::BOLD)),
        ]);
    }
    if let Some(why) = &app.over {
        return Line::styled(format!("{why}; q quits"), BAD);
    }
    match &app.notice {
        Some(notice) if notice.wrong => Line::styled(notice.text.clone(), BAD),
        Some(notice) => Line::raw(notice.text.clone()),
        None => Line::raw("? help  q quit  p pause  c continue  s step  b break  g go to"),
    }
}
