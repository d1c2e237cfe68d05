//! Registers by block and field, changed registers, and used registers without a model.

use std::collections::{BTreeMap, BTreeSet};

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{MARKED, Page, Refusal, Replies, or_why};
use crate::inspect::ui::fields::{field, is, items, word};
use crate::inspect::ui::list::Split;

/// Number of looks for which a changed register is marked.
const MARK: u8 = 8;
/// Choices beside the blocks.
const CHANGED: &str = "changed";
const UNMODELLED: &str = "unmodelled";
const LABEL: &str = "block, changed or unmodelled: ";

#[derive(Debug)]
pub(super) struct Registers {
    split: Split,
    /// A block, or one of the two choices above.
    what: String,
    blocks: BTreeSet<String>,
    /// Values by names, and the number of looks for which they stay marked.
    values: BTreeMap<String, (String, u8)>,
}

impl Default for Registers {
    fn default() -> Self {
        let blocks = ["GC", "MMHUB", "ATHUB", "OSSSYS", "NBIF", "SMUIO", "MP0"].map(str::to_owned);
        Self {
            split: Split::default(),
            what: CHANGED.to_owned(),
            blocks: blocks.into_iter().collect(),
            values: BTreeMap::new(),
        }
    }
}

fn name(register: &Value) -> String {
    format!("{} {}", field(register, "block"), field(register, "name"))
}

impl Registers {
    fn question(&self) -> String {
        match self.what.as_str() {
            CHANGED => "registers".to_owned(),
            UNMODELLED => UNMODELLED.to_owned(),
            block => format!("registers {block}"),
        }
    }

    fn choices(&self) -> Vec<String> {
        let blocks = self.blocks.iter().cloned();
        [CHANGED.to_owned()].into_iter().chain(blocks).chain([UNMODELLED.to_owned()]).collect()
    }

    fn choose(&mut self, what: String) {
        (self.what, self.split) = (what, Split::default());
        self.values.clear();
    }

    fn row(&self, register: &Value) -> Line<'static> {
        let name = name(register);
        let now = self.values.get(&name).is_some_and(|(_, marked)| *marked > 0);
        let mark = if now { '!' } else { ' ' };
        let reset = if is(register, "changed") { '*' } else { ' ' };
        let line = format!("{mark}{reset} {:<44} {}", name, field(register, "value"));
        if now { Line::styled(line, MARKED) } else { Line::raw(line) }
    }
}

fn unmodelled(one: &Value) -> Line<'static> {
    Line::raw(format!(
        "{:>10} reads {:>10} writes {}",
        field(one, "reads"),
        field(one, "writes"),
        field(one, "name")
    ))
}

fn details(register: &Value) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::raw(format!("value {}  after reset {}", field(register, "value"), field(register, "reset"))),
        Line::raw(format!("at {} in BAR5", field(register, "offset"))),
    ];
    for one in items(&register["fields"]) {
        let bits = format!("[{}:{}]", word(&one["bits"][0]), word(&one["bits"][1]));
        lines.push(Line::raw(format!("{bits:>8} {:<36} {}", field(one, "name"), field(one, "value"))));
    }
    lines
}

impl Page for Registers {
    fn questions(&self, _: &Replies) -> Vec<String> {
        vec![self.question()]
    }

    fn take(&mut self, question: &str, reply: &Result<Value, Refusal>) {
        let Ok(answer) = reply else { return };
        if question != self.question() || self.what == UNMODELLED {
            return;
        }
        let before = std::mem::take(&mut self.values);
        for register in items(answer) {
            let (name, value) = (name(register), field(register, "value"));
            let marked = match before.get(&name) {
                Some((had, _)) if *had != value => MARK,
                Some((_, marked)) => marked.saturating_sub(1),
                None => 0,
            };
            if self.blocks.len() < 64 {
                self.blocks.insert(field(register, "block"));
            }
            self.values.insert(name, (value, marked));
        }
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        let choices = self.choices();
        let further = match key {
            KeyCode::Right => 1,
            KeyCode::Left => choices.len() - 1,
            key => {
                self.split.key(key);
                return;
            }
        };
        let place = choices.iter().position(|choice| *choice == self.what).unwrap_or(0);
        self.choose(choices[(place + further) % choices.len()].clone());
    }

    fn place(&self) -> Option<(&'static str, String)> {
        Some((LABEL, String::new()))
    }

    fn go(&mut self, place: &str) -> Result<(), Refusal> {
        if place.split_whitespace().count() != 1 {
            return Err(Refusal(format!("one of {}", self.choices().join(", "))));
        }
        self.choose(place.to_owned());
        Ok(())
    }

    fn breakpoint(&self, replies: &Replies) -> Option<String> {
        let register = items(replies.of(&self.question())).nth(self.split.list.selected())?;
        Some(format!("register {}", field(register, "name")))
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let question = self.question();
        let answer = replies.of(&question);
        let names: Vec<String> = items(answer).map(name).collect();
        self.split.list.settle(&names);
        let selected = items(answer).nth(self.split.list.selected()).unwrap_or(&Value::Null);
        let (rows, lines) = if self.what == UNMODELLED {
            (items(answer).map(unmodelled).collect(), Vec::new())
        } else {
            (items(answer).map(|register| self.row(register)).collect(), details(selected))
        };
        let rows = or_why(rows, replies, &question, "none");
        let areas = self.split.areas(area, rows.len());
        let title = format!("{} < {} >", self.split.list.name().unwrap_or("none"), self.what);
        self.split.draw(buffer, areas, (&rows, &title, &lines));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn register_that_changes_is_marked_for_some_looks() {
        let mut page = Registers::default();
        let register = |value: &str| json!({ "block": "GC", "name": "A", "value": value, "changed": true });
        let look = |page: &mut Registers, value: &str| {
            page.take("registers", &Ok(json!([register(value)])));
            page.row(&register(value)).to_string()
        };
        assert!(look(&mut page, "0x1").starts_with(" * GC A"));
        assert!(look(&mut page, "0x2").starts_with("!* GC A"));
        for _ in 1..MARK {
            assert!(look(&mut page, "0x2").starts_with("!* "));
        }
        assert!(look(&mut page, "0x2").starts_with(" * "));
    }
}
