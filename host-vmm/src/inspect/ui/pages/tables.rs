//! Page tables: the walk of an address level by level, and the way back from a physical page.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, MARKED, Page, Refusal, Replies, or_why};
use crate::inspect::ui::fields::{field, is, items, word};
use crate::inspect::ui::list::List;

const LABEL: &str = "walk PASID ADDRESS, or vram|system ADDRESS: ";

#[derive(Debug, Default)]
pub(super) struct Tables {
    scroll: List,
    /// Place that the user has typed.
    place: String,
    walk: Option<String>,
    /// The physical page, and true if it was asked about: the question takes long, and is not repeated.
    backwards: Option<(String, bool)>,
}

impl Tables {
    fn ask_backwards(&mut self, page: &str) {
        self.backwards = Some((format!("backwards {page}"), false));
    }
}

fn walk(answer: &Value) -> Vec<Line<'static>> {
    if !answer.is_object() {
        return Vec::new();
    }
    let mut lines = vec![
        Line::styled(format!("{} of PASID {}", field(answer, "address"), field(answer, "pasid")), MARKED),
        Line::raw(match answer["memory"].is_null() {
            true => "is not mapped".to_owned(),
            false => format!(
                "is at {}, {}, in {} bytes",
                field(answer, "memory"),
                field(answer, "allowed"),
                field(answer, "page")
            ),
        }),
        Line::styled(format!("{:<5} {:>6} {:<18} meaning", "level", "index", "entry"), HEAD),
    ];
    for level in items(&answer["levels"]) {
        let (name, index) = (field(level, "level"), field(level, "index"));
        lines.push(Line::raw(format!(
            "{name:<5} {index:>6} {:<18} {}",
            field(level, "entry"),
            field(level, "meaning")
        )));
        lines.push(Line::raw(format!("{:<12} at {}", "", field(level, "at"))));
    }
    lines
}

fn backwards(answer: &Value) -> Vec<Line<'static>> {
    if !answer.is_object() {
        return Vec::new();
    }
    let mapped = &answer["mapped"];
    let mut lines = vec![Line::styled(
        format!("{} is mapped {} times", field(answer, "page"), items(mapped).len()),
        MARKED,
    )];
    for place in items(mapped) {
        lines.push(Line::raw(format!(
            "PASID {} at {}, {} bytes",
            word(&place[0]),
            word(&place[1]),
            word(&place[2])
        )));
    }
    if !is(answer, "complete") {
        lines.push(Line::raw("the search was given up: there may be more"));
    }
    lines
}

impl Page for Tables {
    fn questions(&self, replies: &Replies) -> Vec<String> {
        let backwards = self.backwards.iter().filter(|(question, done)| !done || replies.has(question));
        self.walk.iter().cloned().chain(backwards.map(|(question, _)| question.clone())).collect()
    }

    fn take(&mut self, question: &str, _: &Result<Value, Refusal>) {
        if let Some((asked, done)) = &mut self.backwards
            && asked == question
        {
            *done = true;
        }
    }

    fn key(&mut self, key: KeyCode, replies: &Replies) {
        if key != KeyCode::Enter {
            self.scroll.key(key);
        } else if let Some(found) = self.walk.as_ref().and_then(|walk| replies.of(walk)["memory"].as_str()) {
            let found = found.to_owned();
            self.ask_backwards(&found);
        }
    }

    fn place(&self) -> Option<(&'static str, String)> {
        Some((LABEL, self.place.clone()))
    }

    fn go(&mut self, place: &str) -> Result<(), Refusal> {
        let words: Vec<&str> = place.split_whitespace().collect();
        match words[..] {
            ["vram" | "system", _] => self.ask_backwards(place),
            [_, _] => (self.walk, self.backwards) = (Some(format!("walk {place}")), None),
            _ => return Err(Refusal("PASID ADDRESS, vram ADDRESS or system ADDRESS".to_owned())),
        }
        self.place = place.to_owned();
        self.scroll.reset();
        Ok(())
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let mut lines = Vec::new();
        if let Some(question) = &self.walk {
            lines.extend(or_why(walk(replies.of(question)), replies, question, "nothing is told"));
            lines.push(Line::raw("Enter: where else is this page mapped?"));
        }
        if let Some((question, _)) = &self.backwards {
            lines.extend(or_why(backwards(replies.of(question)), replies, question, "nothing is told"));
        }
        if lines.is_empty() {
            lines.push(Line::raw("g goes to an address; PASID 0 is the kernel"));
        }
        self.scroll.scroll(buffer, area, &lines);
    }
}
