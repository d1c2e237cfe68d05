//! `belfry image` and the parts of the binary: root file systems as files, the cache, the version.

use std::process::Command;

use super::cli::text;

#[test]
fn version_says_what_this_build_has() {
    let belfry = |option| Command::new(env!("CARGO_BIN_EXE_belfry")).arg(option).output().unwrap();
    let (long, short) = (text(&belfry("--version").stdout), text(&belfry("-V").stdout));
    for wanted in ["chips: gfx1100, gfx942, gfx1201", "compiled code on this processor: ", "guests: "] {
        assert!(long.lines().any(|line| line.starts_with(wanted)), "{wanted} is not in {long}");
    }
    assert_eq!(long.lines().next(), short.lines().next());
    assert_eq!(short.lines().count(), 1, "{short}");
}

#[test]
fn root_file_systems_that_are_not_there_are_not_exported_and_rubbish_is_not_imported() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "rubbish").unwrap();
    let image = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.arg("image").args(arguments).env("BELFRY_CACHE", folder.path().join("cache"));
        command.current_dir(folder.path()).output().unwrap()
    };
    for (arguments, reason) in [
        (&["export", "rocm"] as &[_], "is not in the cache; `belfry image --rootfs rocm` makes it"),
        (&["export", "nothing"], "no root file system is called"),
        (&["import", "file"], "holds no root file system"),
        (&["import", "missing"], "No such file"),
    ] {
        let output = image(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(text(&output.stderr).contains(reason), "{arguments:?}: {}", text(&output.stderr));
    }
    assert!(!folder.path().join("rocm.tar.gz").exists());
    let listed = image(&["prune", "--list"]);
    assert_eq!((listed.status.code(), text(&listed.stdout).contains("could be removed")), (Some(0), true));
}
