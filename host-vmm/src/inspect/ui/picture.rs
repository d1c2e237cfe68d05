//! One screen of the user interface as a picture, for documents: `belfry inspect --picture`.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use ratatui::buffer::{Buffer, Cell};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier};

use super::app::App;
use super::draw;
use super::link::Reply;
use crate::inspect::{Client, InspectError, only};
use belfry_traces::escaped;

/// Looks at a page after each key, so that lists are filled before the next key.
const LOOKS: u32 = 3;
/// Time between two looks, on the picture's own clock.
const BETWEEN: Duration = Duration::from_secs(1);
/// Width and height of a cell, and the size of its font, in pixels.
const CELL: (f64, f64, u32) = (8.4, 17.0, 14);
const BACKGROUND: &str = "#12161c";
const FOREGROUND: &str = "#d4d8de";

/// A screen to draw.
#[derive(Clone, Debug)]
pub struct Shot {
    /// Keys to press one after the other, see [`keys`].
    pub keys: Vec<KeyCode>,
    /// Columns and rows.
    pub size: (u16, u16),
}

/// Parses keys: a word is a key's name (`up`, `down`, `left`, `right`, `enter`, `tab`, `esc`, `pageup`, `pagedown`,
/// `space`), or is typed.
#[must_use]
pub fn keys(text: &str) -> Vec<KeyCode> {
    let mut keys = Vec::new();
    for word in text.split_whitespace() {
        keys.extend(match word {
            "up" => vec![KeyCode::Up],
            "down" => vec![KeyCode::Down],
            "left" => vec![KeyCode::Left],
            "right" => vec![KeyCode::Right],
            "enter" => vec![KeyCode::Enter],
            "tab" => vec![KeyCode::Tab],
            "esc" => vec![KeyCode::Esc],
            "pageup" => vec![KeyCode::PageUp],
            "pagedown" => vec![KeyCode::PageDown],
            "space" => vec![KeyCode::Char(' ')],
            typed => typed.chars().map(KeyCode::Char).collect(),
        });
    }
    keys
}

/// Returns the screen of a process, or of the only one that there is, after some keys, as an SVG document.
///
/// # Errors
///
/// No such process, or one that ends meanwhile.
pub fn picture(pid: Option<u32>, shot: &Shot) -> Result<String, InspectError> {
    let process = only(pid)?;
    let mut client = Client::at(&process.socket)?;
    let mut app = App::new(process.pid);
    let area = Rect::new(0, 0, shot.size.0, shot.size.1);
    let mut buffer = Buffer::empty(area);
    let mut now = Instant::now();
    let mut look = |app: &mut App, buffer: &mut Buffer| -> Result<(), InspectError> {
        for _ in 0..LOOKS {
            app.ask_all(now, |question| match client.ask(question) {
                Ok(answer) => Ok(Reply::Answer(answer)),
                Err(InspectError::Refused(why)) => Ok(Reply::Refused(why)),
                Err(error) => Err(error),
            })?;
            draw::draw(app, now, buffer, area);
            now += BETWEEN;
        }
        Ok(())
    };
    look(&mut app, &mut buffer)?;
    for &key in &shot.keys {
        app.key(KeyEvent::new(key, KeyModifiers::NONE));
        look(&mut app, &mut buffer)?;
    }
    Ok(svg(&buffer))
}

/// Draws the cells of a screen as SVG.
fn svg(buffer: &Buffer) -> String {
    let area = buffer.area;
    let (width, height, font) = CELL;
    let (whole, high) = (f64::from(area.width) * width, f64::from(area.height) * height);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{whole:.0}\" height=\"{high:.0}\" viewBox=\"0 0 {whole:.0} {high:.0}\" \
         font-family=\"monospace\" font-size=\"{font}\">\n<rect width=\"100%\" height=\"100%\" fill=\"{BACKGROUND}\"/>\n"
    );
    for y in 0..area.height {
        let row: Vec<&Cell> = (0..area.width).map(|x| &buffer[(x, y)]).collect();
        let mut x = 0;
        for run in row.chunk_by(|one, next| look_of(one) == look_of(next)) {
            let (fore, back, is_bold) = look_of(run[0]);
            let symbols: String = run.iter().map(|cell| cell.symbol()).collect();
            let at = f64::from(x) * width;
            let across = run.len() as f64 * width;
            let top = f64::from(y) * height;
            if back != BACKGROUND {
                let _ = writeln!(
                    text,
                    "<rect x=\"{at:.1}\" y=\"{top:.0}\" width=\"{across:.1}\" height=\"{height:.0}\" fill=\"{back}\"/>"
                );
            }
            let words = symbols.trim_end();
            if !words.is_empty() {
                let bold = if is_bold { " font-weight=\"bold\"" } else { "" };
                let long = words.chars().count() as f64 * width;
                let base = top + height - 4.0;
                let _ = writeln!(
                    text,
                    "<text x=\"{at:.1}\" y=\"{base:.0}\" fill=\"{fore}\"{bold} textLength=\"{long:.1}\" xml:space=\"preserve\">{}</text>",
                    escaped(words)
                );
            }
            x += run.len() as u16;
        }
    }
    text + "</svg>\n"
}

/// Returns the colours of a cell's text and of its background, and true if the text is bold.
fn look_of(cell: &Cell) -> (&'static str, &'static str, bool) {
    let (fore, back) = (colour(cell.fg, FOREGROUND), colour(cell.bg, BACKGROUND));
    let (fore, back) = if cell.modifier.contains(Modifier::REVERSED) { (back, fore) } else { (fore, back) };
    let fore = if cell.modifier.contains(Modifier::DIM) { "#8a919c" } else { fore };
    (fore, back, cell.modifier.contains(Modifier::BOLD))
}

fn colour(colour: Color, usual: &'static str) -> &'static str {
    match colour {
        Color::Black => "#000000",
        Color::Red | Color::LightRed => "#f2777a",
        Color::Green | Color::LightGreen => "#99cc99",
        Color::Yellow | Color::LightYellow => "#ffcc66",
        Color::Blue | Color::LightBlue => "#6699cc",
        Color::Magenta | Color::LightMagenta => "#cc99cc",
        Color::Cyan | Color::LightCyan => "#66cccc",
        Color::Gray => "#b4b7bd",
        Color::DarkGray => "#747c88",
        Color::White => "#ffffff",
        _ => usual,
    }
}

#[cfg(test)]
mod tests {
    use ratatui::style::Style;

    use super::*;

    #[test]
    fn words_are_keys_or_what_is_typed() {
        let typed =
            [KeyCode::Char('3'), KeyCode::Down, KeyCode::Char('b'), KeyCode::Char('x'), KeyCode::Enter];
        assert_eq!(keys("3 down bx  enter"), typed);
        assert_eq!(keys(""), []);
    }

    #[test]
    fn screens_are_pictures_with_their_colours() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 12, 2));
        buffer.set_string(0, 0, "a<b & c", Style::new());
        buffer.set_string(2, 1, "red", Style::new().fg(Color::Red).add_modifier(Modifier::BOLD));
        buffer.set_string(6, 1, "on", Style::new().add_modifier(Modifier::REVERSED));
        let text = svg(&buffer);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains(">a&lt;b &amp; c</text>"), "{text}");
        assert!(text.contains("x=\"16.8\" y=\"30\" fill=\"#f2777a\" font-weight=\"bold\""), "{text}");
        assert!(
            text.contains("<rect x=\"50.4\" y=\"17\" width=\"16.8\" height=\"17\" fill=\"#d4d8de\"/>"),
            "{text}"
        );
        assert_eq!(text.matches("<text").count(), 3);
    }
}
