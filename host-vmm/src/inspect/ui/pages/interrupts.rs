//! The rings of the interrupt handler, and their last entries.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, MARKED, Page, Replies, or_why};
use crate::inspect::ui::fields::{field, is, items, word};
use crate::inspect::ui::list::Split;

#[derive(Debug, Default)]
pub(super) struct Interrupts {
    split: Split,
}

fn row(ring: &Value) -> Line<'static> {
    let flags = [("enabled", "on"), ("armed", "armed"), ("overflow", "OVERFLOW")];
    let flags: Vec<&str> = flags.iter().filter(|(name, _)| is(ring, name)).map(|(_, flag)| *flag).collect();
    Line::raw(format!(
        "ring {} {}  rptr {} wptr {} of {} bytes at {}",
        field(ring, "ring"),
        flags.join(" "),
        field(ring, "rptr"),
        field(ring, "wptr"),
        field(ring, "size"),
        field(ring, "base"),
    ))
}

fn entry(entry: &Value) -> Line<'static> {
    let name = match &entry["name"] {
        Value::Null => format!("client {} source {}", field(entry, "client"), field(entry, "source")),
        name => word(name),
    };
    let data: Vec<String> = items(&entry["data"]).take(4).map(word).collect();
    let line = format!(
        "{} {:>6} {name:<22} vmid {:>2} pasid {:>5} time {:>14} {}",
        if is(entry, "unread") { '*' } else { ' ' },
        field(entry, "offset"),
        field(entry, "vmid"),
        field(entry, "pasid"),
        field(entry, "timestamp"),
        data.join(" "),
    );
    if is(entry, "unread") { Line::styled(line, MARKED) } else { Line::raw(line) }
}

impl Page for Interrupts {
    fn questions(&self, _: &Replies) -> Vec<String> {
        vec!["interrupts".to_owned()]
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        self.split.key(key);
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let rings = replies.of("interrupts");
        let names: Vec<String> = items(rings).map(|ring| field(ring, "ring")).collect();
        self.split.list.settle(&names);
        let selected = items(rings).nth(self.split.list.selected()).unwrap_or(&Value::Null);
        let mut details: Vec<_> = items(&selected["entries"]).rev().map(entry).collect();
        if details.is_empty() {
            details.push(Line::raw("no entries"));
        } else {
            details.insert(0, Line::styled("the newest first; * was not read by the driver", HEAD));
        }
        let rows = or_why(items(rings).map(row).collect(), replies, "interrupts", "no rings");
        let areas = self.split.areas(area, rows.len());
        let title = format!("ring {}", self.split.list.name().unwrap_or("-"));
        self.split.draw(buffer, areas, (&rows, &title, &details));
    }
}
