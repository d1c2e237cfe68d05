//! Waves: their places, the events they wait for, their code and registers.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{HEAD, MARKED, Page, Refusal, Replies, or_why};
use crate::inspect::ui::fields::{digits, field, is, items, plain, volume, word};
use crate::inspect::ui::list::{List, Split, titled};

const LABEL: &str = "wave DISPATCH:X,Y,Z:WAVE, or vN [LANE]: ";
/// Width from which on the code and another part are side by side.
const WIDE: u16 = 100;
/// Columns of the code on such a screen.
const CODE: u16 = 56;
/// Bytes of LDS in a line.
const LDS_BYTES: usize = 16;
/// Largest number of lines of LDS.
const LDS_LINES: usize = 4096;

/// Parts of a wave that can be shown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Part {
    #[default]
    Code,
    Scalars,
    Vectors,
    Lds,
}

const PARTS: [(Part, &str); 4] =
    [(Part::Code, "code"), (Part::Scalars, "scalars"), (Part::Vectors, "vectors"), (Part::Lds, "LDS")];

#[derive(Debug, Default)]
pub(in crate::inspect::ui) struct Waves {
    split: Split,
    part: Part,
    /// The line of code that the user has chosen.
    code: List,
    /// A wave that the user has asked for, even if the list does not have it.
    chosen: Option<String>,
    /// A vector register, or a lane of one, as the user typed it.
    vector: Option<String>,
}

impl Waves {
    /// Returns the selected wave.
    pub(in crate::inspect::ui) fn current(&self) -> Option<&str> {
        self.chosen.as_deref().or(self.split.list.name())
    }

    /// Selects a wave.
    pub(in crate::inspect::ui) fn choose(&mut self, wave: &str) {
        self.chosen = Some(wave.to_owned());
        self.split.list.select(wave);
        self.code = List::default();
    }

    fn question(&self) -> Option<String> {
        self.current().map(|wave| format!("wave {wave}"))
    }

    fn vector_question(&self) -> Option<String> {
        Some(format!("{} {}", self.question()?, self.vector.as_ref()?))
    }

    /// Returns the line of code for a breakpoint: the chosen line, or that of the next instruction.
    fn line<'a>(&self, wave: &'a Value) -> Option<&'a Value> {
        let mut code = items(&wave["code"]);
        match self.code.name() {
            Some(chosen) => code.find(|line| field(line, "address") == chosen),
            None => code.find(|line| is(line, "next")),
        }
    }

    fn scrolls_code(&self) -> bool {
        self.split.inside && self.part == Part::Code
    }

    fn code(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let question = self.question().unwrap_or_default();
        let wave = replies.of(&question);
        let lines: Vec<Line<'static>> = items(&wave["code"]).map(|line| code_line(line, replies)).collect();
        let lines = or_why(lines, replies, &question, "no code can be read there");
        let below = titled(buffer, area, &self.title(Part::Code), self.scrolls_code());
        let names: Vec<String> = items(&wave["code"]).map(|line| field(line, "address")).collect();
        if !self.split.inside || self.code.name().is_none() {
            let next = items(&wave["code"]).find(|line| is(line, "next"));
            self.code.select(&next.map(|line| field(line, "address")).unwrap_or_default());
        }
        self.code.settle(&names);
        self.code.draw(buffer, below, &lines);
    }

    fn title(&self, part: Part) -> String {
        let name = PARTS.iter().find(|(known, _)| *known == part).map_or("", |(_, name)| name);
        match self.current() {
            Some(wave) if part == self.part => format!("{wave} < {name} >"),
            Some(wave) => format!("{wave} {name}"),
            None => "no wave".to_owned(),
        }
    }

    fn part_lines(&self, part: Part, replies: &Replies, width: u16) -> Vec<Line<'static>> {
        let question = self.question().unwrap_or_default();
        let wave = replies.of(&question);
        let lines = match part {
            Part::Code => Vec::new(),
            Part::Scalars => scalars(wave, width),
            Part::Vectors => self.vectors(wave, replies, width),
            Part::Lds => lds(wave),
        };
        or_why(lines, replies, &question, "nothing there")
    }

    fn vectors(&self, wave: &Value, replies: &Replies, width: u16) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        if let Some(question) = self.vector_question() {
            let (what, answer) = (self.vector.as_deref().unwrap_or_default(), replies.of(&question));
            let values: Vec<String> =
                items(&answer["vgprs"]).flat_map(|register| items(&register[1])).map(word).collect();
            let lane = what.split(' ').nth(1);
            let name = what.split(' ').next().unwrap_or_default();
            let line = match lane {
                Some(lane) => format!("{name} lane {lane} = {}", values.join(" ")),
                None => format!("{name} = {}", values.join(" ")),
            };
            let refused = replies.refusal(&question).map(str::to_owned);
            lines.push(Line::styled(refused.unwrap_or(line), MARKED));
        }
        lines.push(Line::raw(format!("EXEC {}", field(wave, "exec"))));
        let across = (usize::from(width).saturating_sub(8) / 9).clamp(1, 64);
        // A power of two, so that lane numbers at the line starts are round.
        let across = 1 << across.ilog2();
        for register in items(&wave["vgprs"]) {
            let lanes: Vec<String> = items(&register[1]).take(64).map(digits).collect();
            for (lanes, first) in lanes.chunks(across).zip((0..).step_by(across)) {
                let name = if first == 0 { word(&register[0]) } else { String::new() };
                lines.push(Line::raw(format!("{name:<4} {first:>2} {}", lanes.join(" "))));
            }
        }
        lines
    }
}

/// Describes a line of the listing: `>` for the next instruction, `*` for a breakpoint.
fn code_line(line: &Value, replies: &Replies) -> Line<'static> {
    let address = field(line, "address");
    let here = format!("pc {address}");
    let stop = if replies.breaks().any(|on| on == here) { '*' } else { ' ' };
    let next = if is(line, "next") { '>' } else { ' ' };
    let target =
        if line["target"].is_null() { String::new() } else { format!(" -> {}", field(line, "target")) };
    let source =
        if line["source"].is_null() { String::new() } else { format!("  ; {}", field(line, "source")) };
    let text = format!("{stop}{next} {address} {}{target}{source}", field(line, "text"));
    if next == '>' { Line::styled(text, MARKED) } else { Line::raw(text) }
}

fn scalars(wave: &Value, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![
        Line::raw(format!("pc {}  EXEC {}", field(wave, "pc"), field(wave, "exec"))),
        Line::raw(format!(
            "{} lanes, {} instructions executed",
            field(wave, "lanes"),
            field(wave, "instructions")
        )),
        Line::raw(format!("waits: {}", field(wave, "waits"))),
    ];
    for one in items(&wave["status"]) {
        lines.push(Line::raw(format!("{:<8} {:<10} {}", word(&one[0]), word(&one[1]), word(&one[2]))));
    }
    for one in items(&wave["special"]) {
        lines.push(Line::raw(format!("{:<8} {}", field(one, "name"), field(one, "value"))));
    }
    let across = (usize::from(width).saturating_sub(6) / 9).clamp(1, 8);
    let across = 1 << across.ilog2();
    let sgprs: Vec<String> = items(&wave["sgprs"]).map(digits).collect();
    for (values, first) in sgprs.chunks(across).zip((0..).step_by(across)) {
        lines.push(Line::raw(format!("s{first:<4} {}", values.join(" "))));
    }
    lines
}

fn lds(wave: &Value) -> Vec<Line<'static>> {
    let Some(lds) = wave["lds"].as_str().filter(|lds| !lds.is_empty()) else {
        return if wave.is_object() { vec![Line::raw("no LDS")] } else { Vec::new() };
    };
    let parts = lds.as_bytes().chunks(LDS_BYTES * 2).zip((0..).step_by(LDS_BYTES)).take(LDS_LINES);
    let line = |(part, at): (&[u8], usize)| {
        let bytes: Vec<String> = part.chunks(8).map(|word| plain(&String::from_utf8_lossy(word))).collect();
        Line::raw(format!("{at:04x} {}", bytes.join(" ")))
    };
    parts.map(line).collect()
}

fn dispatch(dispatch: &Value) -> Line<'static> {
    let line = format!(
        "dispatch {} {}: grid {} by {}, {} of {} workgroups ended, {} not begun",
        field(dispatch, "dispatch"),
        field(dispatch, "kernel"),
        volume(&dispatch["grid"]),
        volume(&dispatch["workgroup"]),
        field(dispatch, "ended"),
        field(dispatch, "workgroups"),
        field(dispatch, "not_begun"),
    );
    Line::styled(line, HEAD)
}

/// Returns the sort key of a wave: dispatch, workgroup with its last dimension first, number.
fn order(id: &str) -> Vec<u64> {
    let mut numbers: Vec<u64> =
        id.split([':', ',']).map(|number| number.parse().unwrap_or(u64::MAX)).collect();
    if let [_, workgroup @ .., _] = &mut numbers[..] {
        workgroup.reverse();
    }
    numbers
}

fn row(wave: &Value) -> Line<'static> {
    let (id, kernel, pc) = (field(wave, "wave"), field(wave, "kernel"), field(wave, "pc"));
    Line::raw(format!("{id} {kernel} {pc} {} ({})", field(wave, "instruction"), field(wave, "waits")))
}

impl Page for Waves {
    fn questions(&self, _: &Replies) -> Vec<String> {
        ["waves".to_owned()].into_iter().chain(self.question()).chain(self.vector_question()).collect()
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        let further = match key {
            KeyCode::Right => 1,
            KeyCode::Left => PARTS.len() - 1,
            _ if self.scrolls_code() && self.code.key(key) => return,
            key => {
                let inside = self.split.inside;
                if self.split.key(key) && !inside && !self.split.inside {
                    (self.chosen, self.code) = (None, List::default());
                }
                return;
            }
        };
        self.part = PARTS[(self.part as usize + further) % PARTS.len()].0;
        self.split.detail.reset();
    }

    fn place(&self) -> Option<(&'static str, String)> {
        Some((LABEL, self.vector.clone().unwrap_or_default()))
    }

    fn go(&mut self, place: &str) -> Result<(), Refusal> {
        let words: Vec<&str> = place.split_whitespace().collect();
        match words[..] {
            [] => self.vector = None,
            [wave] if wave.contains(':') => self.choose(wave),
            [register] | [register, _] if register.starts_with('v') => {
                (self.vector, self.part) = (Some(words.join(" ")), Part::Vectors);
                self.split.detail.reset();
            }
            _ => return Err(Refusal("DISPATCH:X,Y,Z:WAVE, vN or vN LANE".to_owned())),
        }
        Ok(())
    }

    fn breakpoint(&self, replies: &Replies) -> Option<String> {
        let line = self.line(replies.of(&self.question()?))?;
        Some(format!("pc {}", field(line, "address")))
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let waves = replies.of("waves");
        let mut listed: Vec<&Value> = items(&waves["waves"]).collect();
        // The device lists waves in no fixed order.
        listed.sort_by_cached_key(|wave| order(&field(wave, "wave")));
        let mut rows: Vec<Line<'static>> = listed.iter().copied().map(row).collect();
        let names: Vec<String> = listed.iter().map(|wave| field(wave, "wave")).collect();
        if let Some(chosen) = &self.chosen
            && names.contains(chosen)
        {
            self.split.list.select(chosen);
        }
        self.split.list.settle(&names);
        rows = or_why(rows, replies, "waves", "no waves are on the GPU");
        let heads: Vec<Line<'static>> = items(&waves["dispatches"]).take(2).map(dispatch).collect();
        let (list, detail) = self.split.areas(area, rows.len() + heads.len());
        let (head, list) = if usize::from(list.height) > heads.len() + 1 {
            let head = Rect { height: heads.len() as u16, ..list };
            (head, Rect { y: list.y + head.height, height: list.height - head.height, ..list })
        } else {
            (Rect { height: 0, ..list }, list)
        };
        crate::inspect::ui::list::lines_at(buffer, head, &heads);
        self.split.list.draw(buffer, list, &rows);
        if detail.width >= WIDE {
            self.code(buffer, Rect { width: CODE, ..detail }, replies);
            let part = if self.part == Part::Code { Part::Scalars } else { self.part };
            self.other(part, buffer, (detail.x + CODE + 1, detail), replies);
        } else if self.part == Part::Code {
            self.code(buffer, detail, replies);
        } else {
            self.other(self.part, buffer, (detail.x, detail), replies);
        }
    }
}

impl Waves {
    fn other(&mut self, part: Part, buffer: &mut Buffer, (x, area): (u16, Rect), replies: &Replies) {
        let area = Rect { x, width: area.x + area.width - x, ..area };
        let below = titled(buffer, area, &self.title(part), self.split.inside && self.part != Part::Code);
        let lines = self.part_lines(part, replies, below.width);
        self.split.detail.scroll(buffer, below, &lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_are_in_the_order_of_their_workgroups() {
        let mut ids = ["1:0,0,0:0", "x", "0:1,0,0:10", "0:1,0,0:9", "0:0,1,0:0", "0:2,0,0:0"];
        ids.sort_by_cached_key(|id| order(id));
        assert_eq!(ids, ["0:1,0,0:9", "0:1,0,0:10", "0:2,0,0:0", "0:0,1,0:0", "1:0,0,0:0", "x"]);
    }
}
