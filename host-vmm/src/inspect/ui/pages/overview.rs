//! Counters and queues with their rates, and the breakpoints.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, MARKED, Page, Refusal, Replies, or_why};
use crate::inspect::ui::fields::{field, fields, items, number, word};
use crate::inspect::ui::list::List;

const COUNTERS: [(&str, &str); 9] = [
    ("dispatches", "dispatches"),
    ("workgroups", "workgroups"),
    ("waves", "waves"),
    ("wave_instructions", "wave instructions"),
    ("tlb_misses", "TLB misses"),
    ("page_walks", "page walks"),
    ("ih_entries", "IH entries"),
    ("interrupts", "interrupts"),
    ("resets", "resets"),
];

/// A count at two times of the device.
#[derive(Clone, Copy, Debug)]
struct Count {
    /// Nanoseconds of the last look, and the count at that time.
    last: (u64, u64),
    /// Change per second.
    rate: Option<f64>,
}

#[derive(Debug, Default)]
pub(super) struct Overview {
    scroll: List,
    /// The device's time of the last answer.
    time: Option<u64>,
    counts: BTreeMap<String, Count>,
}

impl Overview {
    fn count(&mut self, name: &str, now: u64, value: Option<u64>) {
        let Some(value) = value else { return };
        let count = self.counts.entry(name.to_owned()).or_insert(Count { last: (now, value), rate: None });
        let (before, had) = count.last;
        if now > before {
            let seconds = (now - before) as f64 / 1e9;
            count.rate = Some(value.saturating_sub(had) as f64 / seconds);
            count.last = (now, value);
        }
    }

    fn rate(&self, name: &str) -> String {
        match self.counts.get(name).and_then(|count| count.rate) {
            Some(rate) => short(rate),
            None => "-".to_owned(),
        }
    }
}

/// Returns a rate in few characters.
fn short(rate: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    match units.iter().find(|(unit, _)| rate >= *unit) {
        Some((unit, name)) => format!("{:.2} {name}", rate / unit),
        None => format!("{rate:.1}"),
    }
}

fn size(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} MiB", bytes >> 20))
}

impl Page for Overview {
    fn questions(&self, _: &Replies) -> Vec<String> {
        vec!["overview".to_owned(), "queues".to_owned()]
    }

    fn take(&mut self, question: &str, reply: &Result<Value, Refusal>) {
        let Ok(answer) = reply else { return };
        if question == "overview" {
            let Some(now) = number(answer, "time") else { return };
            self.time = Some(now);
            for (name, _) in COUNTERS {
                self.count(name, now, number(answer, name));
            }
            for (way, count) in fields(&answer["doorbells"]).take(16) {
                self.count(&format!("doorbells {way}"), now, count.as_u64());
            }
        } else if question == "queues"
            && let Some(now) = self.time
        {
            self.counts.retain(|name, _| {
                !name.starts_with("queue ") || items(answer).any(|queue| *name == name_of(queue))
            });
            for queue in items(answer) {
                self.count(&name_of(queue), now, number(queue, "read_index"));
            }
        }
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        self.scroll.key(key);
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let overview = replies.of("overview");
        let mut lines = Vec::new();
        if overview.is_object() {
            lines.push(Line::styled(
                format!(
                    "{}  {} compute units  VRAM {}  age {:.1} s",
                    field(overview, "chip"),
                    field(overview, "compute_units"),
                    size(number(overview, "vram")),
                    number(overview, "time").unwrap_or(0) as f64 / 1e9,
                ),
                MARKED,
            ));
            lines.push(Line::styled(format!("{:<18} {:>16} {:>12}", "", "count", "per second"), HEAD));
            let line =
                |title: &str, count: String, rate| Line::raw(format!("{title:<18} {count:>16} {rate:>12}"));
            for (name, title) in COUNTERS {
                lines.push(line(title, field(overview, name), self.rate(name)));
            }
            for (way, count) in fields(&overview["doorbells"]).take(16) {
                let title = format!("doorbells {way}");
                let rate = self.rate(&title);
                lines.push(line(&title, word(count), rate));
            }
            for (error, count) in fields(&overview["errors"]) {
                lines.push(Line::styled(format!("refused: {error}: {}", word(count)), MARKED));
            }
        }
        let queues = replies.of("queues");
        if items(queues).len() > 0 {
            lines.push(Line::styled(
                format!(
                    "{:<8} {:>6} {:<5} {:<16} {:>12} {:>12} {:>10}",
                    "queue", "pasid", "kind", "state", "read", "written", "per second"
                ),
                HEAD,
            ));
        }
        for queue in items(queues) {
            lines.push(Line::raw(format!(
                "{:<8} {:>6} {:<5} {:<16} {:>12} {:>12} {:>10}",
                field(queue, "doorbell"),
                field(queue, "pasid"),
                field(queue, "packets"),
                field(queue, "state"),
                field(queue, "read_index"),
                field(queue, "write_index"),
                self.rate(&name_of(queue)),
            )));
        }
        for on in items(&replies.of("status")["breakpoints"]) {
            lines.push(Line::styled(format!("breakpoint {}: {}", word(&on[0]), word(&on[1])), MARKED));
        }
        let lines = or_why(lines, replies, "overview", "nothing is told");
        self.scroll.scroll(buffer, area, &lines);
    }
}

/// Returns a queue's name among the counts.
fn name_of(queue: &Value) -> String {
    format!("queue {}", field(queue, "doorbell"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rates_are_differences_over_the_time_of_the_device() {
        let mut page = Overview::default();
        for (time, waves, read) in [(1_000_000_000_u64, 10, 100), (1_500_000_000, 1_010, 102)] {
            page.take(
                "overview",
                &Ok(json!({ "time": time, "waves": waves, "doorbells": { "polled": waves } })),
            );
            page.take("queues", &Ok(json!([{ "doorbell": 4, "read_index": read }])));
        }
        assert_eq!(
            (page.rate("waves"), page.rate("queue 4"), page.rate("none")),
            ("2.00 k".into(), "4.0".into(), "-".into())
        );
        assert_eq!(page.rate("doorbells polled"), "2.00 k");
        // Time that stands still, or counts that fall, as after a reset, give no rate.
        page.take("overview", &Ok(json!({ "time": 1_500_000_000_u64, "waves": 0 })));
        assert_eq!(page.rate("waves"), "2.00 k");
        page.take("overview", &Ok(json!({ "time": 2_500_000_000_u64, "waves": 0 })));
        assert_eq!(page.rate("waves"), "0.0");
        page.take("queues", &Ok(json!([])));
        assert_eq!(page.rate("queue 4"), "-");
    }
}
