//! A line that the user types.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Largest number of characters of a line: a question has to stay below the longest one allowed.
const MOST: usize = 200;

/// Purpose of a line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// A place for a page to show.
    Place,
    /// A breakpoint to add.
    Break,
    /// A breakpoint to remove.
    Unbreak,
}

/// Effect of a key.
#[derive(Debug, Eq, PartialEq)]
pub(super) enum Typed {
    /// The line is not complete.
    More,
    /// The user has given the line up.
    Nothing,
    /// The line.
    Line(String),
}

/// A line while the user types it.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) purpose: Purpose,
    /// Hint of the text to type.
    pub(super) label: &'static str,
    pub(super) text: String,
}

impl Prompt {
    pub(super) fn key(&mut self, key: KeyEvent) -> Typed {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Esc => return Typed::Nothing,
            KeyCode::Char('c') if control => return Typed::Nothing,
            KeyCode::Enter => return Typed::Line(self.text.trim().to_owned()),
            KeyCode::Backspace => {
                self.text.pop();
            }
            KeyCode::Char('u') if control => self.text.clear(),
            KeyCode::Char(character)
                if !control && !character.is_control() && self.text.chars().count() < MOST =>
            {
                self.text.push(character);
            }
            _ => {}
        }
        Typed::More
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_is_edited_bounded_and_given_up() {
        let mut prompt = Prompt { purpose: Purpose::Place, label: "", text: "ab".to_owned() };
        let mut typed = |code| prompt.key(KeyEvent::new(code, KeyModifiers::NONE));
        typed(KeyCode::Backspace);
        typed(KeyCode::Char('c'));
        typed(KeyCode::Char(' '));
        assert_eq!(typed(KeyCode::Enter), Typed::Line("ac".to_owned()));
        assert_eq!(typed(KeyCode::Esc), Typed::Nothing);
        for _ in 0..1000 {
            assert_eq!(typed(KeyCode::Char('é')), Typed::More);
        }
        assert_eq!(prompt.text.chars().count(), MOST);
        prompt.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL));
        prompt.key(KeyEvent::new(KeyCode::Backspace, KeyModifiers::NONE));
        assert_eq!(prompt.text, "");
        assert_eq!(prompt.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Typed::Nothing);
    }
}
