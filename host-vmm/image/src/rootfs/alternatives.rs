//! `update-alternatives --install` of packages' maintainer scripts, which do not run.
//!
//! Many programs and libraries have no other name than the link that this makes: `libblas.so.3`, `editor`. Commands
//! that are written out in a script are understood; commands that are made of the shell's variables are ignored.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::error::{RootFsError, io_error};

/// Directory of the second link of each alternative.
const ALTERNATIVES: &str = "etc/alternatives";

/// A link, the name it has among the alternatives, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Link {
    path: String,
    name: String,
    target: String,
}

/// Possible target of a name, with the links that follow it (`--slave`).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Alternative {
    priority: i32,
    links: Vec<Link>,
}

/// Makes the links that the scripts ask for: of each name the alternative of the highest priority.
///
/// A target that is not in the tree gets none, and neither does a path where something else than a link is.
pub(super) fn install(scripts: &[String], root: &Path) -> Result<(), RootFsError> {
    let mut chosen: BTreeMap<String, Alternative> = BTreeMap::new();
    for alternative in scripts.iter().flat_map(|script| alternatives(script)) {
        let exists = |link: &Link| root.join(link.target.trim_start_matches('/')).exists();
        if !alternative.links.first().is_some_and(exists) {
            continue;
        }
        let name = alternative.links[0].name.clone();
        let better = |old: &Alternative| old.priority < alternative.priority;
        if chosen.get(&name).is_none_or(better) {
            chosen.insert(name, alternative);
        }
    }
    for link in chosen.values().flat_map(|alternative| &alternative.links) {
        make(link, root)?;
    }
    Ok(())
}

fn make(link: &Link, root: &Path) -> Result<(), RootFsError> {
    let path = root.join(link.path.trim_start_matches('/'));
    let name = root.join(ALTERNATIVES).join(&link.name);
    if !root.join(link.target.trim_start_matches('/')).exists() || path.symlink_metadata().is_ok() {
        return Ok(());
    }
    for (path, target) in [(&path, format!("/{ALTERNATIVES}/{}", link.name)), (&name, link.target.clone())] {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io_error("create", parent))?;
        }
        if path.is_symlink() {
            fs::remove_file(path).map_err(io_error("remove", path))?;
        }
        symlink(target, path).map_err(io_error("link", path))?;
    }
    Ok(())
}

/// The alternatives that a script installs, as far as they are written out.
fn alternatives(script: &str) -> Vec<Alternative> {
    let joined = script.replace("\\\n", " ");
    joined.lines().filter(|line| line.contains("update-alternatives")).filter_map(command).collect()
}

/// One command: `... --install LINK NAME PATH PRIORITY [--slave LINK NAME PATH]...`.
fn command(line: &str) -> Option<Alternative> {
    let line = line.split('#').next()?;
    let words: Vec<&str> = line
        .split_whitespace()
        .take_while(|word| !["||", "&&", "|", ";", "fi", "}"].contains(word))
        .map(|word| word.trim_end_matches(';').trim_matches(['"', '\'']))
        .collect();
    let mut words = words.into_iter().skip_while(|&word| word != "--install").skip(1);
    let first = link(&mut words)?;
    let priority = words.next()?.parse().ok()?;
    let mut links = vec![first];
    while let Some(word) = words.next() {
        // What is not written out is left away alone.
        if word == "--slave" {
            links.extend(link(&mut words));
        }
    }
    Some(Alternative { priority, links })
}

/// Three words that are two absolute paths, without a way up, and a name.
fn link<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<Link> {
    let (path, name, target) = (words.next()?, words.next()?, words.next()?);
    let plain = |word: &str| !word.is_empty() && !word.contains(['$', '`', '*', '?', '(', '{', '"', '\'']);
    let is_path =
        |path: &str| plain(path) && path.starts_with('/') && !path.split('/').any(|part| part == "..");
    let is_name = plain(name) && !name.contains('/') && !name.starts_with(['.', '-']);
    (is_path(path) && is_path(target) && is_name).then(|| Link {
        path: path.to_owned(),
        name: name.to_owned(),
        target: target.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLAS: &str = "#!/bin/sh
set -e
update-alternatives --install /usr/lib/x86_64-linux-gnu/libblas.so.3 \\
                    libblas.so.3-x86_64-linux-gnu \\
\t\t    /usr/lib/x86_64-linux-gnu/blas/libblas.so.3 10
if [ \"$1\" = configure ]; then
    update-alternatives --quiet --install /usr/bin/c++ c++ /usr/bin/g++ 20 --slave /usr/share/c++.1 c++.1 /usr/share/g++.1 || true
    for i in ex vi; do update-alternatives --install /usr/bin/$i $i /usr/bin/vim 60; done
    # update-alternatives --install /usr/bin/no no /usr/bin/none 1
    update-alternatives --remove old /usr/bin/old
fi
";

    #[test]
    fn commands_that_are_written_out_are_understood() {
        let found = alternatives(BLAS);
        let text: Vec<_> = found
            .iter()
            .map(|found| {
                (found.priority, found.links.iter().map(|link| link.name.as_str()).collect::<Vec<_>>())
            })
            .collect();
        assert_eq!(text, [(10, vec!["libblas.so.3-x86_64-linux-gnu"]), (20, vec!["c++", "c++.1"])]);
        assert_eq!(found[0].links[0].target, "/usr/lib/x86_64-linux-gnu/blas/libblas.so.3");
        for bad in [
            "update-alternatives --install",
            "update-alternatives --install /a a",
            "update-alternatives --install /a a /b high",
            "update-alternatives --install a a /b 1",
            "update-alternatives --install /a ../a /b 1",
            "update-alternatives --install /../a a /b 1",
            "update-alternatives --install /a a /b/../../c 1",
        ] {
            assert_eq!(alternatives(bad), [], "{bad}");
        }
    }

    #[test]
    fn highest_priority_gets_the_link_and_files_stay() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for file in ["usr/bin/nano", "usr/bin/ed", "usr/bin/more", "bin/pager"] {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, file).unwrap();
        }
        let script = |line: &str| format!("update-alternatives --install {line}\n");
        let scripts = [
            script("/usr/bin/editor editor /usr/bin/ed -100"),
            script("/usr/bin/editor editor /usr/bin/nano 40"),
            script("/usr/bin/editor editor /usr/bin/missing 90"),
            script("/bin/pager pager /usr/bin/more 50"),
        ];
        install(&scripts, root).unwrap();
        assert_eq!(
            fs::read_link(root.join("usr/bin/editor")).unwrap(),
            Path::new("/etc/alternatives/editor")
        );
        assert_eq!(fs::read_link(root.join("etc/alternatives/editor")).unwrap(), Path::new("/usr/bin/nano"));
        assert_eq!(fs::read_to_string(root.join("bin/pager")).unwrap(), "bin/pager");
    }
}
