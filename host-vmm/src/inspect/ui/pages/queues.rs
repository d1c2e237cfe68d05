//! Queues: their places, their registers, and their packets.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, Page, Replies, or_why, packet};
use crate::inspect::ui::fields::{field, is, items};
use crate::inspect::ui::list::Split;

#[derive(Debug, Default)]
pub(super) struct Queues {
    split: Split,
}

impl Queues {
    fn question(&self) -> Option<String> {
        self.split.list.name().map(|doorbell| format!("queue {doorbell}"))
    }
}

fn row(queue: &Value) -> Line<'static> {
    let owner = if is(queue, "kernel") { "kernel".to_owned() } else { field(queue, "pasid") };
    Line::raw(format!(
        "{:>7} {:<6} {:<4} {}/{}{} {}, {}",
        field(queue, "doorbell"),
        owner,
        field(queue, "packets"),
        field(queue, "read_index"),
        field(queue, "write_index"),
        if is(queue, "busy") { " busy" } else { "" },
        field(queue, "state"),
        field(queue, "slot"),
    ))
}

fn details(queue: &Value) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::raw(format!("state {}  slot {}", field(queue, "state"), field(queue, "slot"))),
        Line::raw(format!(
            "pasid {}  vmid {}  read {}  written {}",
            field(queue, "pasid"),
            field(queue, "vmid"),
            field(queue, "read_index"),
            field(queue, "write_index"),
        )),
        Line::raw(format!("MQD {}", field(queue, "mqd"))),
        Line::raw(format!("ring {}, {} bytes", field(queue, "ring"), field(queue, "ring_bytes"))),
        Line::raw(format!("write pointer at {}", field(queue, "write_pointer"))),
    ];
    let next = &queue["next"];
    lines.push(Line::styled(format!("packets that are not retired: {}", items(next).len()), HEAD));
    lines.extend(items(next).flat_map(packet));
    lines.push(Line::styled("registers of the hardware queue, or its MQD".to_owned(), HEAD));
    lines.extend(items(&queue["registers"]).map(|register| {
        Line::raw(format!("  {:<34} {}", field(register, "name"), field(register, "value")))
    }));
    lines
}

impl Page for Queues {
    fn questions(&self, _: &Replies) -> Vec<String> {
        ["queues".to_owned()].into_iter().chain(self.question()).collect()
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        self.split.key(key);
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let queues = replies.of("queues");
        let names: Vec<String> = items(queues).map(|queue| field(queue, "doorbell")).collect();
        self.split.list.settle(&names);
        let rows = or_why(items(queues).map(row).collect(), replies, "queues", "no queues");
        let question = self.question().unwrap_or_default();
        let queue = replies.of(&question);
        let lines = if queue.is_object() { details(queue) } else { Vec::new() };
        let lines = or_why(lines, replies, &question, "nothing is told");
        let areas = self.split.areas(area, rows.len());
        let title =
            self.split.list.name().map_or("queue".to_owned(), |name| format!("queue with doorbell {name}"));
        self.split.draw(buffer, areas, (&rows, &title, &lines));
    }
}
