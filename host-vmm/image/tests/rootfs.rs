//! The root file system `rocm`, whole: fetched on first use (some 220 MB), then used from the cache.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use belfry_image::rootfs::{self, Recipe};
use belfry_image::{Cache, Freshness, Progress};

/// Runs the tree's own loader with `arguments`: it needs neither rights nor a changed root.
fn loader(root: &Path, arguments: &[&str]) -> Output {
    let library = root.join("usr/lib/x86_64-linux-gnu");
    Command::new(root.join("lib64/ld-linux-x86-64.so.2"))
        .args(["--inhibit-cache", "--library-path"])
        .arg(library)
        .args(arguments)
        .env_clear()
        .output()
        .unwrap()
}

/// Checks by `--list` of the loader that every library `object` needs is of the tree.
fn assert_closed(root: &Path, object: &str) {
    let path = root.join(object);
    let output = loader(root, &["--list", path.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{object}: {output:?}");
    let libraries: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(" => ")).map(|(_, to)| to).collect();
    assert!(!libraries.is_empty(), "{object}: {text}");
    for library in libraries {
        assert!(library.starts_with(root.to_str().unwrap()), "{object} needs {library}");
    }
}

/// Every link below `directory` leads to something inside the tree, those into the machine's directories excepted.
fn assert_links_stay_inside(root: &Path, directory: &Path) {
    for entry in fs::read_dir(directory).unwrap() {
        let entry = entry.unwrap();
        let path = entry.path();
        let kind = entry.file_type().unwrap();
        if kind.is_symlink() {
            let target = fs::read_link(&path).unwrap();
            let of_the_machine =
                ["/dev", "/proc", "/run", "/sys"].iter().any(|start| target.starts_with(start));
            if !of_the_machine {
                let real =
                    fs::canonicalize(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                assert!(real.starts_with(root), "{} leads to {}", path.display(), real.display());
            }
        } else if kind.is_dir() {
            assert_links_stay_inside(root, &path);
        }
    }
}

#[test]
fn rocm_tree_has_what_is_promised_and_needs_nothing_of_the_machine() {
    let cache = Cache::open().unwrap();
    let tree = rootfs::obtain(&cache, "rocm", Freshness::Cached, &Progress::new()).unwrap();
    let root = tree.path.as_path();

    let recipe = Recipe::named("rocm").unwrap();
    assert_eq!(recipe.broken_promise(root), None);
    for name in &recipe.packages {
        assert!(tree.packages.iter().any(|package| package.name == *name), "{name} is not in the tree");
    }
    let hip = tree.packages.iter().find(|package| package.name == "libamdhip64-5").unwrap();
    assert!(hip.version.starts_with("5.7."), "the recipe's line and docs/rootfs.md name it: {hip:?}");

    for object in [
        "usr/bin/rocminfo",
        "usr/bin/clinfo",
        "usr/bin/clang",
        "usr/bin/cc",
        "usr/lib/llvm-17/bin/ld.lld",
        "usr/lib/x86_64-linux-gnu/libamdhip64.so.5",
        "usr/lib/x86_64-linux-gnu/libamdocl64.so",
        "usr/lib/x86_64-linux-gnu/libasan.so.8",
    ] {
        assert_closed(root, object);
    }
    assert_links_stay_inside(root, root);

    let python = root.join("usr/bin/python3");
    let output = loader(root, &[python.to_str().unwrap(), "-c", "import ctypes; print(ctypes.__file__)"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with(root.to_str().unwrap()), "{output:?}");
}
