//! Targets of cargo: no test lies where `cargo test` does not run it.
//!
//! Most tests of a package are modules of one program, and targets without tests make no program of their own
//! (docs/building.md). A file that is forgotten in either would be a test that passes because it never runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{links, metadata};

/// Files of tests that no target runs, and tests in targets that are said to have none.
pub(super) fn findings(root: &Path) -> Result<Vec<String>> {
    let metadata = metadata(&root.join("Cargo.toml"))?;
    let packages: Vec<Package> =
        metadata["packages"].as_array().into_iter().flatten().map(Package::new).collect::<Result<_>>()?;
    let mut run = BTreeSet::new();
    for target in packages.iter().flat_map(|package| &package.targets).filter(|target| target.is_run_test()) {
        run.extend(modules(&target.source, &fs::read_to_string(&target.source)?));
        run.insert(target.source.clone());
    }
    let mut findings = Vec::new();
    for package in &packages {
        findings.extend(package.findings(&run)?);
    }
    Ok(findings)
}

/// A package with its targets.
struct Package {
    folder: PathBuf,
    targets: Vec<Target>,
}

/// A target, as `cargo metadata` describes it.
struct Target {
    kind: String,
    source: PathBuf,
    test: bool,
    doctest: bool,
}

impl Target {
    fn is_run_test(&self) -> bool {
        self.kind == "test" && self.test
    }
}

impl Package {
    fn new(package: &Value) -> Result<Self> {
        let path = |value: &Value| value.as_str().map(PathBuf::from).context("cargo metadata names a path");
        let manifest = path(&package["manifest_path"])?;
        let mut targets = Vec::new();
        for target in package["targets"].as_array().into_iter().flatten() {
            targets.push(Target {
                kind: target["kind"][0].as_str().unwrap_or_default().to_owned(),
                source: path(&target["src_path"])?,
                test: target["test"] == true,
                doctest: target["doctest"] == true,
            });
        }
        Ok(Self { folder: manifest.parent().unwrap_or(Path::new("")).to_owned(), targets })
    }

    fn findings(&self, run: &BTreeSet<PathBuf>) -> Result<Vec<String>> {
        let mut findings = Vec::new();
        for file in programs(&self.folder.join("tests"))?.difference(run) {
            findings.push(format!("{}: no target of cargo runs its tests", file.display()));
        }
        for target in self.targets.iter().filter(|target| ["lib", "cdylib", "bin"].contains(&&*target.kind)) {
            let whole = target.kind != "bin";
            for file in sources(if whole { &self.folder } else { &target.source })? {
                let of_bin = file.starts_with(self.folder.join("src/bin")) || file.ends_with("src/main.rs");
                if whole && of_bin {
                    continue;
                }
                let text = fs::read_to_string(&file)?;
                if !target.test && text.lines().any(|line| line.trim() == "#[test]") {
                    findings.push(format!("{}: its target has `test = false`", file.display()));
                }
                if whole && !target.doctest && has_doctest(&text) {
                    findings.push(format!("{}: its target has `doctest = false`", file.display()));
                }
            }
        }
        Ok(findings)
    }
}

/// Files in a folder of tests that cargo would take for programs: `x.rs` and `x/main.rs`.
fn programs(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut programs = BTreeSet::new();
    if !folder.is_dir() {
        return Ok(programs);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let main = path.join("main.rs");
        if path.extension().is_some_and(|ending| ending == "rs") {
            programs.insert(path);
        } else if main.exists() {
            programs.insert(main);
        }
    }
    Ok(programs)
}

/// Sources of a package's library (`place` is its folder) or of a program (`place` is its main file).
fn sources(place: &Path) -> Result<Vec<PathBuf>> {
    let main = place.ends_with("main.rs") && !place.ends_with("src/main.rs");
    let folder = match place {
        folder if folder.is_dir() => folder.join("src"),
        file if main => file.parent().unwrap_or(Path::new("")).to_owned(),
        file => return Ok(vec![file.to_owned()]),
    };
    let (mut folders, mut files) = (vec![folder], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// Files of the modules that a program's main file names.
fn modules(main: &Path, text: &str) -> Vec<PathBuf> {
    let folder = main.parent().unwrap_or(Path::new(""));
    let (mut files, mut path) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("#[path = \"").and_then(|rest| rest.strip_suffix("\"]")) {
            path = Some(named.to_owned());
        } else if let Some(name) = line.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
            let file = path.take().unwrap_or_else(|| format!("{name}.rs"));
            files.push(links::within(&folder.join(file)));
        }
    }
    files
}

/// Returns true if a comment for readers has a block of code that rustdoc would run.
fn has_doctest(text: &str) -> bool {
    let mut inside = false;
    let comments = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))
    });
    for line in comments {
        if let Some(language) = line.trim().strip_prefix("```") {
            if !inside && ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language) {
                return true;
            }
            inside = !inside;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_no_target_runs_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let manifest = "[package]\nname = \"a\"\nedition = \"2024\"\nautotests = false\n\n\
                        [lib]\ntest = false\ndoctest = false\n\n[[bin]]\nname = \"b\"\ntest = false\n\n\
                        [[test]]\nname = \"all\"\npath = \"tests/main.rs\"\n\n[[test]]\nname = \"off\"\ntest = false\n\n\
                        [workspace]\n";
        write("Cargo.toml", manifest);
        write("src/lib.rs", "mod c;\n");
        write("src/c.rs", "/// ```text\n/// a\n/// ```\n//\n");
        write("src/bin/b.rs", "fn main() {}\n");
        write("tests/main.rs", "mod one;\n#[path = \"two/main.rs\"]\nmod two;\n");
        for file in ["tests/one.rs", "tests/two/main.rs", "tests/two/part.rs", "tests/common/mod.rs"] {
            write(file, "#[test]\nfn t() {}\n");
        }
        write("tests/off.rs", "");
        let found = || {
            let found = findings(folder.path()).unwrap();
            let place = format!("{}/", folder.path().display());
            found.iter().map(|text| text.replace(&place, "")).collect::<Vec<_>>()
        };
        assert_eq!(found(), ["tests/off.rs: no target of cargo runs its tests"]);
        write("tests/main.rs", "mod one;\nmod off;\n");
        write("tests/three.rs", "");
        write(
            "src/c.rs",
            "/// ```\n/// a();\n/// ```\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n",
        );
        write("src/bin/b.rs", "fn main() {}\n#[test]\nfn t() {}\n");
        assert_eq!(
            found(),
            [
                "tests/three.rs: no target of cargo runs its tests",
                "tests/two/main.rs: no target of cargo runs its tests",
                "src/c.rs: its target has `test = false`",
                "src/c.rs: its target has `doctest = false`",
                "src/bin/b.rs: its target has `test = false`",
            ]
        );
    }
}
