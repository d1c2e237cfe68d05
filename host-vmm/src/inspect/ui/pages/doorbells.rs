//! Doorbells that a queue listens to.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, Page, Replies, or_why};
use crate::inspect::ui::fields::{field, is, items};
use crate::inspect::ui::list::{List, lines_at};

#[derive(Debug, Default)]
pub(super) struct Doorbells {
    list: List,
}

fn row(doorbell: &Value) -> Line<'static> {
    Line::raw(format!(
        "{:>8} {:>8} {:<7} {:<5} {:<4} {}",
        field(doorbell, "doorbell"),
        field(doorbell, "offset"),
        field(doorbell, "owner"),
        if is(doorbell, "rung") { "rung" } else { "-" },
        if is(doorbell, "busy") { "busy" } else { "-" },
        field(doorbell, "value"),
    ))
}

impl Page for Doorbells {
    fn questions(&self, _: &Replies) -> Vec<String> {
        vec!["doorbells".to_owned()]
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        self.list.key(key);
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let doorbells = replies.of("doorbells");
        let names: Vec<String> = items(doorbells).map(|doorbell| field(doorbell, "doorbell")).collect();
        self.list.settle(&names);
        let head =
            format!("{:>8} {:>8} {:<7} {:<5} {:<4} value", "doorbell", "offset", "owner", "rung", "work");
        lines_at(buffer, Rect { height: area.height.min(1), ..area }, &[Line::styled(head, HEAD)]);
        let rows = or_why(items(doorbells).map(row).collect(), replies, "doorbells", "no doorbells");
        let below = Rect { y: area.y + area.height.min(1), height: area.height.saturating_sub(1), ..area };
        self.list.draw(buffer, below, &rows);
    }
}
