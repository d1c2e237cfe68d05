//! Arrows between the top-level modules of a crate, as the paths in its sources draw them: they must form no cycle.
//!
//! An `impl` block of a type draws one as well, from the module that has the type to the module that has the block: all who have a
//! value can call its methods and name no module for it. Implementations of traits draw none, as a trait is what turns an arrow round.
//!
//! Tests may look wherever they like: files of tests and inline test modules do not count.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// A source file: its path below the crate's `src`, and its text.
pub(super) struct Source {
    pub(super) path: String,
    pub(super) text: String,
}

/// From a module to the modules it names, and where it first names each.
type Arrows = BTreeMap<String, BTreeMap<String, String>>;

/// A name that a module takes from the crate's root.
struct Hidden {
    name: String,
    place: String,
}

/// Findings about the modules of one crate.
pub(super) fn findings(sources: &[Source]) -> Vec<String> {
    let (arrows, hidden) = arrows(sources);
    let named = hidden.iter().map(|Hidden { name, place }| {
        format!("{place} names {name} through the crate's root: name its module")
    });
    named.chain(cycles(&arrows)).collect()
}

/// The arrows of a crate, and the names that hide one.
fn arrows(sources: &[Source]) -> (Arrows, Vec<Hidden>) {
    let modules: BTreeSet<&str> = sources.iter().filter_map(|source| module(&source.path)).collect();
    let homes = homes(sources);
    let mut hidden = Vec::new();
    let mut arrows = Arrows::new();
    let mut draw = |from: &str, to: &str, place: String| {
        if from != to {
            arrows.entry(from.to_owned()).or_default().entry(to.to_owned()).or_insert(place);
        }
    };
    for source in sources {
        let Some(from) = module(&source.path) else { continue };
        for (line, name) in names(&source.path, &source.text) {
            let place = format!("{}:{line}", source.path);
            if modules.contains(name.as_str()) {
                draw(from, &name, place);
            } else if name.starts_with(char::is_uppercase) {
                hidden.push(Hidden { name, place });
            }
        }
        for (line, name) in blocks(&source.text) {
            if let Some(&Some(home)) = homes.get(name.as_str()) {
                draw(home, from, format!("{}:{line}", source.path));
            }
        }
    }
    (arrows, hidden)
}

/// The module that has each type; `None` for a name that several modules give to a type.
fn homes(sources: &[Source]) -> BTreeMap<String, Option<&str>> {
    let mut homes: BTreeMap<String, Option<&str>> = BTreeMap::new();
    for source in sources {
        let Some(home) = module(&source.path) else { continue };
        for line in code(&source.text).lines() {
            let line = line.trim_start();
            let line = line
                .strip_prefix("pub(")
                .and_then(|rest| rest.split_once(')'))
                .map_or(line, |(_, rest)| rest);
            let mut words =
                line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
            let keyword = words.find(|word| *word != "pub");
            if let (Some("struct" | "enum" | "union"), Some(name)) = (keyword, words.next()) {
                let same = |known: &mut Option<&str>| *known = known.filter(|known| *known == home);
                homes.entry(name.to_owned()).and_modify(same).or_insert(Some(home));
            }
        }
    }
    homes
}

/// The `impl` blocks of types: line, and name of the type.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let code = code(text);
    let head = |line: &str| -> Option<String> {
        let rest = line.strip_prefix("impl")?;
        let rest = match rest.strip_prefix('<') {
            Some(generics) => &generics[after_generics(generics)?..],
            None => rest.strip_prefix(' ')?,
        };
        let of_trait = rest.contains(" for ") || !rest.trim_end().ends_with('{');
        let name = rest.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        (!of_trait).then_some(name)
    };
    (1..).zip(code.lines()).filter_map(|(line, text)| Some((line, head(text)?))).collect()
}

/// The place at which a list of generics that has been opened is over.
fn after_generics(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}

/// The top-level module a file belongs to; `None` for the crate's root and for tests.
fn module(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?.strip_suffix(".rs")?;
    let is_test = name == "tests" || name.ends_with("_tests") || path.starts_with("tests/");
    if is_test || matches!(path, "lib.rs" | "main.rs") {
        return None;
    }
    Some(path.split('/').next()?.trim_end_matches(".rs"))
}

/// Number of modules from the crate's root down to a file.
fn depth(path: &str) -> usize {
    Path::new(path).components().count() - usize::from(path.ends_with("/mod.rs"))
}

/// The code of a file, without comments and tests; its lines keep their numbers.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let inline = |next: &&str| next.trim_start().starts_with("mod ") && next.trim_end().ends_with('{');
        if line.trim() == "#[cfg(test)]" && lines.peek().is_some_and(inline) {
            // Test modules end their files.
            break;
        }
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// Names at the crate's root that a file has: line and name.
fn names(path: &str, text: &str) -> Vec<(usize, String)> {
    let code = code(text);
    let mut found = Vec::new();
    let root = "super::".repeat(depth(path));
    for prefix in ["crate::", root.as_str()] {
        for (at, _) in code.match_indices(prefix) {
            let before = &code[..at];
            if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
                continue;
            }
            let line = before.matches('\n').count() + 1;
            found.extend(heads(&code[at + prefix.len()..]).into_iter().map(|name| (line, name)));
        }
    }
    found
}

/// The first segments of the path after a `crate::`: one, or those of a group.
fn heads(rest: &str) -> Vec<String> {
    let identifier = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = rest.strip_prefix('{') else { return vec![identifier(rest)] };
    let (mut heads, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                heads.push(identifier(&group[start..at]));
                start = at + 1;
                if c == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    heads.retain(|head| !head.is_empty());
    heads
}

/// The shortest cycle through each module that is on one, each set of modules once.
fn cycles(arrows: &Arrows) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let mut findings = Vec::new();
    for start in arrows.keys() {
        let Some(cycle) = shortest(arrows, start, start) else { continue };
        if !seen.insert(cycle.iter().cloned().collect::<BTreeSet<_>>()) {
            continue;
        }
        let places: Vec<_> =
            cycle.iter().zip(cycle.iter().skip(1)).map(|(from, to)| arrows[from][to].as_str()).collect();
        findings.push(format!("modules {} form a cycle ({})", cycle.join(" -> "), places.join(", ")));
    }
    findings
}

/// The shortest way from a module to another one, or back to itself.
fn shortest(arrows: &Arrows, start: &str, end: &str) -> Option<Vec<String>> {
    let mut ways = VecDeque::from([vec![start.to_owned()]]);
    let mut visited = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let Some(next) = way.last().and_then(|last| arrows.get(last)) else { continue };
        for to in next.keys() {
            let mut longer = way.clone();
            longer.push(to.clone());
            if to == end {
                return Some(longer);
            }
            if visited.insert(to.clone()) {
                ways.push_back(longer);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(sources: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = sources
            .iter()
            .map(|&(path, text)| Source { path: path.to_owned(), text: text.to_owned() })
            .collect();
        findings(&sources)
    }

    #[test]
    fn cycle_over_three_modules_is_named_with_its_places() {
        let found = check(&[
            ("lib.rs", "mod bus;\nmod queue;\nmod vm;\n"),
            ("bus.rs", "use std::fmt;\nuse crate::queue::Ring;\n"),
            ("queue/mod.rs", "mod ring;\n"),
            ("queue/ring.rs", "fn look() {\n    crate::vm::walk();\n}\n"),
            ("vm/mod.rs", "use crate::{\n    bus::{Bar, Way},\n    vm::walk,\n};\n"),
        ]);
        assert_eq!(
            found,
            ["modules bus -> queue -> vm -> bus form a cycle (bus.rs:2, queue/ring.rs:2, vm/mod.rs:1)"]
        );
    }

    #[test]
    fn path_over_super_counts_where_it_reaches_the_root() {
        let sources = [
            ("bus/mod.rs", "use super::queue::Ring;\n"),
            ("queue/a/b.rs", "use super::super::super::bus::Bar;\nuse super::super::ring::Ring;\n"),
        ];
        assert_eq!(
            check(&sources),
            ["modules bus -> queue -> bus form a cycle (bus/mod.rs:1, queue/a/b.rs:1)"]
        );
        assert!(check(&sources[..1]).is_empty());
    }

    #[test]
    fn comments_and_tests_draw_no_arrows() {
        let found = check(&[
            ("bus.rs", "/// See [`crate::queue::Ring`].\nuse crate::queue::Ring;\n"),
            ("queue/mod.rs", "// crate::bus\n#[cfg(test)]\nmod tests {\n    use crate::bus::Bar;\n}\n"),
            ("queue/tests.rs", "use crate::bus::Bar;\n"),
            ("queue/ring_tests.rs", "use crate::bus::Bar;\n"),
            ("tests/ring.rs", "use crate::bus::Bar;\n"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn name_taken_from_the_root_hides_an_arrow_and_is_a_finding() {
        let found = check(&[("bus.rs", "\nuse crate::{Gpu, queue};\n"), ("queue.rs", "")]);
        assert_eq!(found, ["bus.rs:2 names Gpu through the crate's root: name its module"]);
    }

    #[test]
    fn block_of_another_modules_type_is_an_arrow_from_that_module() {
        let bus =
            "use crate::queue::Ring;\n\nimpl<'a, O: Into<u8>> Ring<'a, O> {\n    fn look(&self) {}\n}\n";
        let queue = "pub(crate) struct Ring<'a, O>(&'a O);\nimpl<O> Ring<'_, O> {}\n";
        assert_eq!(
            check(&[("bus.rs", bus), ("queue.rs", queue)]),
            ["modules bus -> queue -> bus form a cycle (bus.rs:1, bus.rs:3)"]
        );
        let of_trait = "use crate::queue::Ring;\nimpl<O> Drop for Ring<'_, O> {\n}\n";
        assert_eq!(check(&[("bus.rs", of_trait), ("queue.rs", queue)]), [""; 0]);
        // A name that two modules have says nothing.
        for also in ["pub enum Ring {}\n", "pub(in crate::vm) struct Ring;\n"] {
            assert_eq!(check(&[("bus.rs", bus), ("queue.rs", queue), ("vm.rs", also)]), [""; 0]);
        }
    }
}
