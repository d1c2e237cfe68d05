//! Trees of packages made here: no network, but dpkg-deb.

use super::*;
use crate::cache::Manifest;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::process::Command;

/// Packs `content` as a package: paths with text, `LINK -> TARGET` for links.
fn package(directory: &Path, name: &str, content: &[(&str, &str)]) -> PathBuf {
    let tree = directory.join(name);
    fs::create_dir_all(tree.join("DEBIAN")).unwrap();
    let control = format!(
        "Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    );
    fs::write(tree.join("DEBIAN/control"), control).unwrap();
    for (path, text) in content {
        let path = tree.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match text.strip_prefix("-> ") {
            Some(target) => symlink(target, &path).unwrap(),
            None => fs::write(&path, text).unwrap(),
        }
    }
    let program = tree.join("usr/bin/su");
    if program.exists() {
        fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    }
    let script = tree.join("DEBIAN/postinst");
    if script.exists() {
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let deb = directory.join(format!("{name}_1_all.deb"));
    let output =
        Command::new("dpkg-deb").args(["--root-owner-group", "-b"]).arg(&tree).arg(&deb).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    deb
}

const RECIPE: &str = "
    about = 'a test'
    release = 'trixie'
    drop = ['usr/share/doc', 'not/there']
    promises = ['usr/bin/awk', 'bin/tool', 'lib/x/libfoo.so', 'etc/group', 'tmp']
    [links]
    'usr/bin/awk' = 'mawk'
    [files]
    'etc/deep/hosts' = 'localhost'
    [groups]
    render = 105
";

/// A package of a split `/usr`, one of a merged `/usr` and the links of a third; in an order that cannot be unpacked.
fn packages(directory: &Path) -> Vec<PathBuf> {
    vec![
        package(
            directory,
            "a-split",
            &[("lib/x/libfoo.so.1", "foo"), ("bin/tool", "tool"), ("usr/share/doc/a/copyright", "me")],
        ),
        package(
            directory,
            "base-files",
            &[
                ("bin", "-> usr/bin"),
                ("sbin", "-> usr/sbin"),
                ("lib", "-> usr/lib"),
                ("lib64", "-> usr/lib64"),
                ("usr/share/base-passwd/passwd.master", "root:*:0:0:root:/root:/bin/bash\n"),
                ("usr/share/base-passwd/group.master", "root:*:0:\n"),
            ],
        ),
        package(
            directory,
            "merged",
            &[
                ("usr/lib/x/libfoo.so", "-> /lib/x/libfoo.so.1"),
                ("usr/lib/x/null", "-> /dev/null"),
                ("usr/bin/mawk", "mawk"),
                ("usr/bin/su", "su"),
                (
                    "DEBIAN/postinst",
                    "#!/bin/sh\nupdate-alternatives --install /usr/bin/pick pick \\\n /usr/bin/mawk 5\n",
                ),
            ],
        ),
    ]
}

#[test]
fn packages_of_both_kinds_become_one_tree() {
    let directory = tempfile::tempdir().unwrap();
    let debs = packages(directory.path());
    let root = directory.path().join("root");
    let recipe = Recipe::join("test", RECIPE, &[]).unwrap();
    assemble(&recipe, &debs, &root, &Progress::silent()).unwrap();

    for name in ["bin", "sbin", "lib", "lib64"] {
        assert_eq!(fs::read_link(root.join(name)).unwrap(), Path::new("usr").join(name));
    }
    assert_eq!(fs::read_to_string(root.join("usr/lib/x/libfoo.so.1")).unwrap(), "foo", "moved");
    assert_eq!(
        fs::read_link(root.join("usr/lib/x/libfoo.so")).unwrap(),
        Path::new("../../../lib/x/libfoo.so.1")
    );
    assert_eq!(fs::read_to_string(root.join("usr/lib/x/libfoo.so")).unwrap(), "foo", "led to from outside");
    assert_eq!(fs::read_link(root.join("usr/lib/x/null")).unwrap(), Path::new("/dev/null"), "the machine's");
    assert_eq!(fs::read_to_string(root.join("usr/bin/awk")).unwrap(), "mawk");
    assert_eq!(fs::read_to_string(root.join("usr/bin/pick")).unwrap(), "mawk", "an alternative");
    assert!(!root.join("DEBIAN").exists());
    assert_eq!(fs::read_to_string(root.join("etc/group")).unwrap(), "root:*:0:\nrender:x:105:\n");
    assert_eq!(fs::read_to_string(root.join("etc/deep/hosts")).unwrap(), "localhost");
    assert!(!root.join("usr/share/doc").exists());
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode("usr/bin/su"), 0o755, "no setuid bit");
    assert_eq!(mode("tmp"), 0o1777);
}

#[test]
fn broken_promise_fails_and_names_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let debs = packages(directory.path());
    let recipe = Recipe::join("test", &RECIPE.replace("'tmp'", "'usr/bin/hipcc'"), &[]).unwrap();
    let error = assemble(&recipe, &debs, &directory.path().join("root"), &Progress::silent()).unwrap_err();
    assert!(matches!(&error, RootFsError::Promise { missing, .. } if missing == "usr/bin/hipcc"), "{error}");
}

#[test]
fn link_to_nothing_breaks_its_promise() {
    let directory = tempfile::tempdir().unwrap();
    let debs = packages(directory.path());
    let recipe = Recipe::join("test", &RECIPE.replace("'mawk'", "'gawk'"), &[]).unwrap();
    let error = assemble(&recipe, &debs, &directory.path().join("root"), &Progress::silent()).unwrap_err();
    assert!(matches!(&error, RootFsError::Promise { missing, .. } if missing == "usr/bin/awk"), "{error}");
}

#[test]
fn two_files_for_one_place_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut debs = packages(directory.path());
    debs.push(package(directory.path(), "other", &[("usr/bin/tool", "another")]));
    let recipe = Recipe::join("test", RECIPE, &[]).unwrap();
    let error = assemble(&recipe, &debs, &directory.path().join("root"), &Progress::silent()).unwrap_err();
    assert!(matches!(&error, RootFsError::Collision { path } if path.ends_with("bin/tool")), "{error}");
}

/// A tree of another recipe is not answered, nor is one that has lost a file.
#[test]
fn cached_tree_is_used_only_whole_and_of_its_recipe() {
    let directory = tempfile::tempdir().unwrap();
    let cache = Cache::at(directory.path()).unwrap();
    let recipe = Recipe::named("debian12").unwrap();
    assert!(cached(&cache, &recipe).is_none());
    let root = directory.path().join("tree");
    for path in &recipe.promises {
        fs::create_dir_all(root.join(path)).unwrap();
    }
    let manifest = Manifest {
        artifact: artifact(&recipe),
        directory: "tree".into(),
        packages: Vec::new(),
        facts: BTreeMap::new(),
    };
    cache.commit(&manifest).unwrap();
    let get = || obtain(&cache, "debian12", Freshness::Cached, &Progress::silent());
    assert_eq!(get().unwrap().path, cache.root().join("tree"));
    assert!(!directory.path().join("apt-bookworm").exists(), "nothing was asked of the archive");

    let changed = Recipe { source: format!("{} ", recipe.source), ..recipe.clone() };
    assert!(cached(&cache, &changed).is_none(), "another recipe");

    fs::remove_dir(root.join("usr/bin/python3")).unwrap();
    let error = get().unwrap_err();
    assert!(
        matches!(&error, RootFsError::Damaged { missing, .. } if missing == "usr/bin/python3"),
        "{error}"
    );
}
