//! Links of documents: each leads to a file, and each anchor to a heading.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Finds links in a document that lead nowhere; `path` is its place below `root`.
pub(super) fn findings(root: &Path, path: &Path, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for target in targets(text) {
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let to = match file {
            "" => path.to_owned(),
            file => within(&path.parent().unwrap_or(Path::new("")).join(file)),
        };
        let place = root.join(&to);
        if !file.is_empty() && !place.exists() {
            findings.push(format!("{}: the link to {target} leads to no file", path.display()));
        } else if !anchor.is_empty() && to.extension().is_some_and(|ending| ending == "md") {
            let there =
                if file.is_empty() { text.to_owned() } else { fs::read_to_string(place).unwrap_or_default() };
            if !anchors(&there).contains(anchor) {
                findings.push(format!("{}: the link to {target} leads to no heading", path.display()));
            }
        }
    }
    findings
}

/// Paths and anchors of a document's links, without links to other sites.
pub fn targets(text: &str) -> impl Iterator<Item = &str> {
    prose(text)
        .flat_map(|line| line.split("](").skip(1))
        .filter_map(|rest| rest.split([')', ' ']).next())
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

/// Lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        inside ^= fence;
        !inside && !fence
    })
}

/// Anchors of a document's headings, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    prose(text)
        .filter(|line| line.starts_with('#'))
        .map(|line| {
            let title = line.trim_start_matches('#').trim().to_lowercase();
            let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
            kept.map(|c| if c == ' ' { '-' } else { c }).collect()
        })
        .collect()
}

/// The path without `.` and `..`.
#[must_use]
pub fn within(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            other => parts.push(other),
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_missing_files_and_headings_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        fs::write(folder.path().join("docs/a.md"), "# One `two`: three\n```\n# no heading\n```\n").unwrap();
        let text = "[a](docs/a.md) [b](docs/a.md#one-two-three) [c](docs/b.md) [d](docs/a.md#no-heading)\n\
                    [e](#here) [f](https://example.invalid/x) `[g](not` \n## Here\n```\n[h](nowhere)\n```\n";
        let found = findings(folder.path(), Path::new("README.md"), text);
        assert_eq!(
            found,
            [
                "README.md: the link to docs/b.md leads to no file",
                "README.md: the link to docs/a.md#no-heading leads to no heading",
                "README.md: the link to not` leads to no file",
            ]
        );
        let up = findings(folder.path(), Path::new("docs/a.md"), "[x](../docs/a.md) [y](../z.md)");
        assert_eq!(up, ["docs/a.md: the link to ../z.md leads to no file"]);
    }
}
