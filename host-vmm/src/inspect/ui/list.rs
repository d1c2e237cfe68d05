//! Lists and texts that are longer than their area on the screen.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;

/// Width from which on two parts are side by side.
const WIDE: u16 = 120;
/// Height below which one part is shown alone.
const LOW: u16 = 9;

/// Lines of which one is selected.
#[derive(Debug, Default)]
pub(super) struct List {
    selected: usize,
    /// Name of the selected line; the selection follows the name if its line moves.
    name: Option<String>,
    /// True if the selection was moved since it was drawn.
    moved: bool,
    first: usize,
    height: usize,
}

impl List {
    /// Moves the selection; returns true if the key does that.
    pub(super) fn key(&mut self, key: KeyCode) -> bool {
        let page = self.height.saturating_sub(1).max(1);
        self.selected = match key {
            KeyCode::Up => self.selected.saturating_sub(1),
            KeyCode::Down => self.selected.saturating_add(1),
            KeyCode::PageUp => self.selected.saturating_sub(page),
            KeyCode::PageDown => self.selected.saturating_add(page),
            KeyCode::Home => 0,
            KeyCode::End => usize::MAX,
            _ => return false,
        };
        self.moved = true;
        true
    }

    /// Selects the line with a name, once that line is there.
    pub(super) fn select(&mut self, name: &str) {
        (self.name, self.moved) = (Some(name.to_owned()), false);
    }

    /// Begins anew.
    pub(super) fn reset(&mut self) {
        *self = Self { height: self.height, ..Self::default() };
    }

    /// Returns the name of the selected line.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the number of the selected line, as it was drawn last.
    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    /// Moves the selection to the line that now has the selected name, or leaves it at its line number if the name is
    /// gone.
    pub(super) fn settle(&mut self, names: &[String]) {
        let place = names.iter().position(|name| Some(name) == self.name.as_ref());
        match place.filter(|_| !self.moved) {
            Some(place) => self.selected = place,
            None => {
                self.selected = self.selected.min(names.len().saturating_sub(1));
                self.name = names.get(self.selected).cloned();
            }
        }
        self.moved = false;
    }

    /// Draws lines with the selected one marked.
    pub(super) fn draw(&mut self, buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
        self.height = usize::from(area.height);
        self.selected = self.selected.min(lines.len().saturating_sub(1));
        if self.selected < self.first {
            self.first = self.selected;
        }
        self.first = self.first.max((self.selected + 1).saturating_sub(self.height.max(1)));
        self.first = self.first.min(lines.len().saturating_sub(self.height));
        lines_at(buffer, area, &lines[self.first.min(lines.len())..]);
        let row = self.selected.saturating_sub(self.first);
        if row < self.height && !lines.is_empty() {
            let row = Rect { y: area.y + row as u16, height: 1, ..area };
            buffer.set_style(row, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Draws scrolled lines without a selection.
    pub(super) fn scroll(&mut self, buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
        self.height = usize::from(area.height);
        self.selected = self.selected.min(lines.len().saturating_sub(self.height));
        (self.first, self.moved) = (self.selected, false);
        lines_at(buffer, area, &lines[self.first..]);
    }
}

/// Draws as many lines as there is room for.
pub(super) fn lines_at(buffer: &mut Buffer, area: Rect, lines: &[Line<'_>]) {
    let area = area.intersection(buffer.area);
    for (line, y) in lines.iter().zip(area.top()..area.bottom()) {
        buffer.set_line(area.x, y, line, area.width);
    }
}

/// A list, and details of its selected line.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) list: List,
    pub(super) detail: List,
    /// True if arrows scroll the details.
    pub(super) inside: bool,
}

impl Split {
    /// Moves the selection, or scrolls the details; returns true if the key does that.
    pub(super) fn key(&mut self, key: KeyCode) -> bool {
        match key {
            KeyCode::Enter => self.inside = true,
            KeyCode::Esc | KeyCode::Backspace => self.inside = false,
            _ if self.inside => return self.detail.key(key),
            _ => {
                let moved = self.list.key(key);
                if moved {
                    self.detail.reset();
                }
                return moved;
            }
        }
        true
    }

    /// Returns the areas of the list and the details; either may be empty. The list has `lines` lines.
    pub(super) fn areas(&self, area: Rect, lines: usize) -> (Rect, Rect) {
        let nothing = Rect { height: 0, ..area };
        if area.height < LOW {
            return if self.inside { (nothing, area) } else { (area, nothing) };
        }
        if area.width >= WIDE {
            let width = area.width * 2 / 5;
            let detail = Rect { x: area.x + width + 1, width: area.width - width - 1, ..area };
            return (Rect { width, ..area }, detail);
        }
        let height = u16::try_from(lines).unwrap_or(u16::MAX).clamp(1, area.height / 3);
        let detail = Rect { y: area.y + height, height: area.height - height, ..area };
        (Rect { height, ..area }, detail)
    }

    /// Draws both, the details below a title.
    pub(super) fn draw(
        &mut self,
        buffer: &mut Buffer,
        (list, detail): (Rect, Rect),
        (lines, title, details): (&[Line<'_>], &str, &[Line<'_>]),
    ) {
        self.list.draw(buffer, list, lines);
        let inside = titled(buffer, detail, title, self.inside);
        self.detail.scroll(buffer, inside, details);
    }
}

/// Draws a title, marked if arrows act below it; returns the rest of the area.
pub(super) fn titled(buffer: &mut Buffer, area: Rect, title: &str, active: bool) -> Rect {
    if area.height == 0 {
        return area;
    }
    let mark = if active { "=" } else { "-" };
    let rest = usize::from(area.width).saturating_sub(title.chars().count() + 4);
    let line = format!("{mark}{mark} {title} {}", mark.repeat(rest));
    let style = if active { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
    lines_at(buffer, Rect { height: 1, ..area }, &[Line::styled(line, style)]);
    Rect { y: area.y + 1, height: area.height - 1, ..area }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draw(list: &mut List, lines: usize, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, 4, height);
        let mut buffer = Buffer::empty(area);
        let lines: Vec<_> = (0..lines).map(|line| Line::raw(format!("{line}"))).collect();
        list.draw(&mut buffer, area, &lines);
        (0..height).map(|y| buffer[(0, y)].symbol().to_owned()).collect()
    }

    #[test]
    fn selection_stays_in_sight_and_within_what_there_is() {
        let mut list = List::default();
        assert_eq!(draw(&mut list, 9, 3), ["0", "1", "2"]);
        list.key(KeyCode::End);
        assert_eq!(draw(&mut list, 9, 3), ["6", "7", "8"]);
        assert_eq!(list.selected(), 8);
        list.key(KeyCode::PageUp);
        assert_eq!((draw(&mut list, 9, 3), list.selected()), (vec!["6".into(), "7".into(), "8".into()], 6));
        assert_eq!((draw(&mut list, 2, 3), list.selected()), (vec!["0".into(), "1".into(), " ".into()], 1));
        assert_eq!((draw(&mut list, 0, 3).len(), list.selected()), (3, 0));
        draw(&mut list, 5, 0);
        list.key(KeyCode::Down);
        draw(&mut list, 5, 1);
    }

    #[test]
    fn what_is_selected_stays_so_where_it_moves() {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let mut list = List::default();
        list.settle(&names(&["a", "b"]));
        assert_eq!(list.name(), Some("a"));
        list.settle(&names(&["x", "a"]));
        assert_eq!((list.name(), list.selected()), (Some("a"), 1));
        list.key(KeyCode::Up);
        list.settle(&names(&["x", "a"]));
        assert_eq!(list.name(), Some("x"));
        list.select("c");
        list.settle(&names(&["x", "a", "c"]));
        assert_eq!(list.selected(), 2);
        list.settle(&[]);
        assert_eq!(list.name(), None);
    }
}
