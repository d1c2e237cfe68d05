//! Flame graphs: where the time of this process's threads went, by emulated part, as folded stacks or an SVG.
//!
//! The crate that others use for it, `inferno`, is under the CDDL, which this workspace does not carry; a graph of a dozen boxes is drawn here.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use belfry_device::spent::Spent;

/// Pixels of a graph, of a row and at its sides.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 18.0;
const SIDE: f64 = 10.0;
/// Pixels that a character takes, about.
const CHARACTER: f64 = 7.0;
/// Name of the lowest box, which holds all others.
const ALL: &str = "all threads";

/// Formats of a graph.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Format {
    /// A line for each stack: its frames with `;` between them, and microseconds. Speedscope and `flamegraph.pl` read it.
    Folded,
    /// A picture.
    Svg,
}

impl Format {
    /// Returns the format that a file's name ends in.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        if path.extension().is_some_and(|ending| ending == "svg") { Self::Svg } else { Self::Folded }
    }
}

/// Returns the graph in a format.
#[must_use]
pub fn render(spent: &[Spent], format: Format) -> String {
    match format {
        Format::Folded => folded(spent),
        Format::Svg => svg(spent),
    }
}

fn folded(spent: &[Spent]) -> String {
    let mut text = String::new();
    for Spent { path, ns } in spent {
        let _ = writeln!(text, "{} {}", path.join(";"), ns.div_ceil(1000));
    }
    text
}

/// A box, and those on top of it by name.
#[derive(Default)]
struct Frame {
    ns: u64,
    inside: BTreeMap<&'static str, Self>,
}

impl Frame {
    fn of(spent: &[Spent]) -> Self {
        let mut all = Self::default();
        for Spent { path, ns } in spent {
            let mut frame = &mut all;
            frame.ns += ns;
            for name in path {
                frame = frame.inside.entry(name).or_default();
                frame.ns += ns;
            }
        }
        all
    }

    fn depth(&self) -> usize {
        1 + self.inside.values().map(Self::depth).max().unwrap_or(0)
    }

    /// Draws it from `left` on in the row above `bottom`; `all` nanoseconds are the whole width.
    fn draw(&self, name: &str, (left, bottom): (f64, f64), all: u64, into: &mut String) {
        let part = self.ns as f64 / all.max(1) as f64;
        let width = part * (WIDTH - 2.0 * SIDE);
        let label = format!("{name} ({:.1} ms, {:.1} %)", self.ns as f64 / 1e6, part * 100.0);
        let shown: String = match (width / CHARACTER) as usize {
            room if room >= label.len() => label.clone(),
            room if room >= name.len() => name.to_owned(),
            room if room > 3 => name.chars().take(room - 2).chain("..".chars()).collect(),
            _ => String::new(),
        };
        // A name has one colour everywhere.
        let hue = name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into())) % 50;
        let top = bottom - ROW;
        let _ = writeln!(
            into,
            "<g><title>{label}</title><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{:.1}\" \
             fill=\"hsl({hue},85%,65%)\" rx=\"2\"/><text x=\"{:.1}\" y=\"{:.1}\">{shown}</text></g>",
            ROW - 1.0,
            left + 3.0,
            bottom - 5.0
        );
        let mut at = left;
        for (name, frame) in &self.inside {
            frame.draw(name, (at, top), all, into);
            at += frame.ns as f64 / all.max(1) as f64 * (WIDTH - 2.0 * SIDE);
        }
    }
}

fn svg(spent: &[Spent]) -> String {
    let all = Frame::of(spent);
    let height = all.depth() as f64 * ROW + 2.0 * SIDE + ROW;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         font-family=\"monospace\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{SIDE}\" y=\"{ROW}\">belfry: time of this process's threads by emulated part</text>\n"
    );
    all.draw(ALL, (SIDE, height - SIDE), all.ns, &mut text);
    text.push_str("</svg>\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent() -> Vec<Spent> {
        let spent = |path: &[&'static str], ns| Spent { path: path.to_vec(), ns };
        vec![
            spent(&["firmware", "packets"], 250_000),
            spent(&["workgroups"], 250_000),
            spent(&["workgroups", "waves", "tier 0"], 500_000),
        ]
    }

    #[test]
    fn stacks_are_folded() {
        let text = render(&spent(), Format::Folded);
        assert_eq!(text, "firmware;packets 250\nworkgroups 250\nworkgroups;waves;tier 0 500\n");
    }

    #[test]
    fn boxes_are_as_wide_as_their_time() {
        let text = render(&spent(), Format::Svg);
        for part in [
            "<title>all threads (1.0 ms, 100.0 %)</title><rect x=\"10.0\" y=\"82.0\" width=\"1180.0\"",
            "<title>firmware (0.2 ms, 25.0 %)</title><rect x=\"10.0\" y=\"64.0\" width=\"295.0\"",
            "<title>workgroups (0.8 ms, 75.0 %)</title><rect x=\"305.0\" y=\"64.0\" width=\"885.0\"",
            "<title>tier 0 (0.5 ms, 50.0 %)</title><rect x=\"305.0\" y=\"28.0\" width=\"590.0\"",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert_eq!(text.matches("<g>").count(), text.matches("</g>").count());
        // Nothing was counted: a graph with one empty box.
        assert!(render(&[], Format::Svg).contains("<title>all threads (0.0 ms, 0.0 %)</title>"));
    }

    #[test]
    fn files_are_written_as_their_names_end() {
        assert_eq!(Format::of(Path::new("a.svg")), Format::Svg);
        assert_eq!(Format::of(Path::new("a.folded")), Format::Folded);
    }
}
