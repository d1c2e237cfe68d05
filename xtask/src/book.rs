//! `cargo xtask book`: the documents as a book with a search, made by mdBook.
//!
//! The pages are README.md, docs/README.md and every document that these lead to; docs/README.md gives their parts and their order.
//! Each link of the finished book is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use xtask::tidy::links::{targets, within};

/// The mdBook that the book is made with.
const VERSION: &str = "0.4.52";
/// Pages that the others are found from.
const FIRST: [&str; 2] = ["README.md", "docs/README.md"];

/// Folder of the book.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder that the pages are written to (`target/book/html` when absent); what it has goes.
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Makes the book and follows its links.
///
/// # Errors
///
/// A link that leads nowhere; no mdBook and no way to install it.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let mdbook = program(&target)?;
    let folder = target.join("book");
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source).with_context(|| format!("removing {}", source.display()))?;
    }
    let files = files(root)?;
    for (path, content) in &files {
        let to = source.join(path);
        fs::create_dir_all(to.parent().unwrap_or(&source))?;
        fs::write(&to, content).with_context(|| format!("writing {}", to.display()))?;
    }
    // Without mdBook's own changes of the texts: they would rename README.md and not the links to it.
    let pages = files.keys().filter(|path| is_page(path)).count();
    fs::write(source.join("SUMMARY.md"), summary(&files)?)?;
    fs::write(
        folder.join("book.toml"),
        "[book]\ntitle = \"Belfry\"\nlanguage = \"en\"\nsrc = \"src\"\n\n[build]\nuse-default-preprocessors = false\n\n[output.html]\nno-section-label = true\n\
         fold = { enable = false }\n",
    )?;
    let html = options.into.clone().unwrap_or_else(|| folder.join("html"));
    let html = std::path::absolute(html)?;
    let built = Command::new(mdbook).args(["build", "--dest-dir"]).arg(&html).arg(&folder).output()?;
    ensure!(built.status.success(), "mdbook: {}\n{}", built.status, String::from_utf8_lossy(&built.stderr));
    let (links, lost) = follow(&html)?;
    ensure!(lost.is_empty(), "{} links of the book lead nowhere:\n{}", lost.len(), lost.join("\n"));
    ensure!(
        html.join("searchindex.json").exists() || html.join("searchindex.js").exists(),
        "the book has no search"
    );
    say!("{}: {pages} pages, {links} links followed", html.join("index.html").display());
    Ok(())
}

/// Finds mdBook in `PATH` or among the tools of the target folder, or installs it there.
fn program(target: &Path) -> Result<PathBuf> {
    let is_there = |program: &Path| {
        let said = Command::new(program).arg("--version").output();
        said.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(VERSION))
    };
    let tools = target.join("tools");
    let own = tools.join("bin/mdbook");
    if let Some(found) = [PathBuf::from("mdbook"), own.clone()].into_iter().find(|program| is_there(program))
    {
        return Ok(found);
    }
    note!("book: installing mdBook {VERSION} into {}", tools.display());
    let installed = Command::new(env!("CARGO"))
        .args(["install", "--locked", "--no-default-features", "--features", "search"])
        .arg(format!("mdbook@{VERSION}"))
        .arg("--root")
        .arg(&tools)
        .env_remove("CARGO_TARGET_DIR")
        .status()
        .context("starting cargo")?;
    ensure!(installed.success(), "cargo install mdbook: {installed}");
    Ok(own)
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md")
}

/// Reads the pages and all files that they lead to, by their paths.
fn files(root: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut wanted: Vec<PathBuf> = FIRST.iter().map(PathBuf::from).collect();
    while let Some(path) = wanted.pop() {
        if files.contains_key(&path) {
            continue;
        }
        let content = fs::read(root.join(&path)).with_context(|| format!("reading {}", path.display()))?;
        if is_page(&path) {
            let text = String::from_utf8_lossy(&content);
            let folder = path.parent().unwrap_or(Path::new(""));
            let paths =
                targets(&text).filter_map(|target| target.split('#').next().filter(|path| !path.is_empty()));
            wanted.extend(paths.map(|target| within(&folder.join(target))));
        }
        files.insert(path, content);
    }
    Ok(files)
}

/// Writes mdBook's list of chapters: a part for each section of docs/README.md, then the pages that it does not name.
fn summary(files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<String> {
    let text = |path: &Path| -> Result<String> {
        let content = files.get(path).with_context(|| format!("{} is no page", path.display()))?;
        Ok(String::from_utf8_lossy(content).into_owned())
    };
    let title = |path: &Path| -> Result<String> {
        let text = text(path)?;
        let heading = text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("Untitled");
        Ok(heading.replace(['[', ']'], ""))
    };
    let mut list = String::from("# Summary\n\n");
    let mut named = BTreeSet::new();
    let mut add = |list: &mut String, path: PathBuf| -> Result<()> {
        if is_page(&path) && named.insert(path.clone()) {
            *list += &format!("- [{}]({})\n", title(&path)?, path.display());
        }
        Ok(())
    };
    for first in FIRST {
        add(&mut list, first.into())?;
    }
    for line in text(Path::new(FIRST[1]))?.lines() {
        if let Some(part) = line.strip_prefix("## ") {
            list += &format!("\n# {part}\n\n");
        } else if line.starts_with("- ") || line.starts_with("  ") {
            for target in targets(line) {
                let path = target.split('#').next().unwrap_or(target);
                add(&mut list, within(&Path::new("docs").join(path)))?;
            }
        }
    }
    list += "\n# Further\n\n";
    for path in files.keys() {
        add(&mut list, path.clone())?;
    }
    Ok(list)
}

/// Follows every link of the pages in a folder. Returns the number of links, and those that lead nowhere.
fn follow(html: &Path) -> Result<(usize, Vec<String>)> {
    let mut pages = BTreeMap::new();
    let mut folders = vec![html.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "html") {
                let text = fs::read_to_string(&path)?;
                pages.insert(path, text);
            }
        }
    }
    let mut links = 0;
    let mut lost = Vec::new();
    for (path, text) in &pages {
        // The page that holds all others repeats their links, from another place.
        if path.file_name().is_some_and(|name| name == "print.html" || name == "404.html") {
            continue;
        }
        for target in values(text, "href=\"").chain(values(text, "src=\"")) {
            if target.contains(':') || target.is_empty() {
                continue;
            }
            links += 1;
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let to = if file.is_empty() {
                path.clone()
            } else {
                within_root(&path.parent().unwrap_or(html).join(file))
            };
            let is_there = if anchor.is_empty() {
                to.exists()
            } else {
                pages.get(&to).is_some_and(|page| page.contains(&format!("id=\"{anchor}\"")))
            };
            if !is_there {
                lost.push(format!("{}: {target}", path.strip_prefix(html).unwrap_or(path).display()));
            }
        }
    }
    Ok((links, lost))
}

/// The absolute path without `.` and `..`.
fn within_root(path: &Path) -> PathBuf {
    Path::new("/").join(within(path.strip_prefix("/").unwrap_or(path)))
}

/// Values of an attribute.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    text.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_index_and_pages_it_does_not_name_come_last() {
        let files = [
            ("README.md", "# Belfry\n[docs](docs/README.md)"),
            ("docs/README.md", "# Documentation\n## For users\n- [a](a.md#x): of [b](b.md)\n- [a](a.md)\n"),
            ("docs/a.md", "# The `a`\n"),
            ("docs/b.md", "# B\n[c](../c/c.md)"),
            ("c/c.md", "# C\n"),
            ("docs/x.csv", ""),
        ];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.as_bytes().to_vec()));
        let list = summary(&BTreeMap::from(files)).unwrap();
        assert_eq!(
            list,
            "# Summary\n\n- [Belfry](README.md)\n- [Documentation](docs/README.md)\n\n# For users\n\n\
             - [The `a`](docs/a.md)\n- [B](docs/b.md)\n\n# Further\n\n- [C](c/c.md)\n"
        );
    }

    #[test]
    fn links_of_a_book_that_lead_nowhere_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("docs")).unwrap();
        fs::write(
            folder.path().join("index.html"),
            "<a href=\"docs/a.html#there\"><a href=\"https://x\"><a href=\"b.html\">",
        )
        .unwrap();
        fs::write(
            folder.path().join("docs/a.html"),
            "<h1 id=\"there\"><a href=\"#gone\"><img src=\"../index.html\">",
        )
        .unwrap();
        let (links, lost) = follow(folder.path()).unwrap();
        assert_eq!(
            (links, lost),
            (4, vec!["docs/a.html: #gone".to_owned(), "index.html: b.html".to_owned()])
        );
    }
}
