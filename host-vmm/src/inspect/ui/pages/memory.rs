//! Memory of a process, shown by its kind of content.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{Page, Refusal, Replies, named, or_why, packet};
use crate::inspect::ui::fields::{digits, field, items, word};
use crate::inspect::ui::list::Split;

const LABEL: &str = "PASID ADDRESS [BYTES] [words|packets|signals|descriptors]: ";
const KINDS: [&str; 4] = ["words", "packets", "signals", "descriptors"];
/// Default number of bytes that are shown.
const BYTES: &str = "256";

#[derive(Debug, Default)]
pub(super) struct Memory {
    split: Split,
    /// PASID, address and bytes.
    place: Option<[String; 3]>,
    /// One of [`KINDS`].
    kind: usize,
}

impl Memory {
    fn question(&self) -> Option<String> {
        self.place.as_ref().map(|place| format!("memory {} {}", place.join(" "), KINDS[self.kind]))
    }
}

fn row(item: &Value) -> Line<'static> {
    if let [at, words] = items(&item["words"]).collect::<Vec<_>>()[..] {
        let words: Vec<String> = items(words).map(digits).collect();
        return Line::raw(format!("{} {}", word(at), words.join(" ")));
    }
    if let [at, fields] = items(&item["fields"]).collect::<Vec<_>>()[..] {
        let first = ["kind", "value", "entry", "kernarg_size"];
        let first: Vec<String> = first
            .iter()
            .filter(|name| !fields[**name].is_null())
            .map(|name| format!("{name} {}", field(fields, name)))
            .collect();
        return Line::raw(format!("{} {}", word(at), first.join("  ")));
    }
    let packet = &item["packet"];
    let kernel =
        if packet["fields"]["kernel"].is_null() { String::new() } else { field(&packet["fields"], "kernel") };
    Line::raw(format!("{} {} {kernel}", field(packet, "address"), field(packet, "kind")))
}

impl Page for Memory {
    fn questions(&self, _: &Replies) -> Vec<String> {
        self.question().into_iter().collect()
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        let further = match key {
            KeyCode::Right => 1,
            KeyCode::Left => KINDS.len() - 1,
            key => {
                self.split.key(key);
                return;
            }
        };
        self.kind = (self.kind + further) % KINDS.len();
        (self.split.inside, self.split.list) = (false, Default::default());
    }

    fn place(&self) -> Option<(&'static str, String)> {
        let place = self.place.as_ref().map(|place| format!("{} {}", place.join(" "), KINDS[self.kind]));
        Some((LABEL, place.unwrap_or_default()))
    }

    fn go(&mut self, place: &str) -> Result<(), Refusal> {
        let mut words: Vec<&str> = place.split_whitespace().collect();
        if let Some(kind) = words.last().and_then(|last| KINDS.iter().position(|kind| kind == last)) {
            self.kind = kind;
            words.pop();
        }
        let (pasid, address, bytes) = match words[..] {
            [pasid, address] => (pasid, address, BYTES),
            [pasid, address, bytes] => (pasid, address, bytes),
            _ => return Err(Refusal(LABEL.trim_end_matches(": ").to_owned())),
        };
        self.place = Some([pasid, address, bytes].map(str::to_owned));
        self.split = Split::default();
        Ok(())
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let Some(question) = self.question() else {
            let lines =
                [Line::raw("g goes to an address; PASID 0 is the kernel"), Line::raw("Left, Right: as what")];
            crate::inspect::ui::list::lines_at(buffer, area, &lines);
            return;
        };
        let answer = replies.of(&question);
        let rows = or_why(items(answer).map(row).collect(), replies, &question, "no item is whole");
        let selected = items(answer).nth(self.split.list.selected()).unwrap_or(&Value::Null);
        let details = match items(&selected["fields"]).nth(1) {
            Some(fields) => named(fields).collect(),
            None if selected["packet"].is_object() => packet(&selected["packet"]),
            None => Vec::new(),
        };
        let mut areas = self.split.areas(area, rows.len());
        if KINDS[self.kind] == "words" && area.height > 1 {
            // Words have no details: their lines have all of the room, except for the title.
            let (above, below) = (area.height - 1, area.y + area.height - 1);
            areas = (Rect { height: above, ..area }, Rect { y: below, height: 1, ..area });
        }
        self.split.draw(buffer, areas, (&rows, &question, &details));
    }
}
