//! Root file systems that `belfry run --image` and `--root` refuse, before anything is fetched, built or booted.

use std::process::Command;

/// The error of a command line that belfry refuses; its cache stays empty.
#[track_caller]
fn refused(arguments: &[&str]) -> String {
    let cache = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args(arguments)
        .env("BELFRY_CACHE", cache.path())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{arguments:?}\n{error}");
    assert!(output.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0, "{arguments:?} made something");
    error
}

#[test]
fn root_file_systems_that_cannot_be_are_refused_by_name_with_the_fix() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().to_str().unwrap();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for mode in ["auto", "qemu", "kvm"] {
        for (root, parts) in [
            (["--image", "rocky"], ["\"rocky\"", "rocm, rocm-sid, rocm-exp, rccl, mesa, debian12"]),
            (["--root", "/no/such/tree"], ["/no/such/tree", "No such file"]),
            (["--root", empty], [empty, "neither bin nor usr/bin"]),
            (["--root", file], [file, "no ext4 file system"]),
            (["--root", "/dev/null"], ["/dev/null", "neither a directory nor a file"]),
        ] {
            let error = refused(&[&["run", "--mode", mode][..], &root, &["--", "true"]].concat());
            for part in parts {
                assert!(error.contains(part), "{part} in {error}");
            }
        }
    }
}

#[test]
fn options_without_a_guest_that_has_a_root_are_refused_with_the_fix() {
    for root in [["--image", "rocm"], ["--root", "/"]] {
        let run = |options: &[&str]| refused(&[&["run"][..], options, &root, &["--", "true"]].concat());
        let error = run(&["--mode", "hosted"]);
        for part in ["--mode qemu or --mode kvm", "belfry exec --image"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        for options in [&["--guest", "bare-metal"][..], &["--mode", "kvm", "--guest", "bare-metal"]] {
            let error = run(options);
            assert!(error.contains("leave out --guest bare-metal"), "{options:?}: {error}");
        }
        let error = refused(&[&["run", "--mode", "qemu"][..], &root].concat());
        assert!(error.contains("Name it behind `--`"), "{error}");
    }
    let error = refused(&["run", "--image", "rocm", "--root", "/", "--", "true"]);
    assert!(error.contains("cannot be used with"), "{error}");
}

#[test]
fn folders_that_cannot_be_shared_are_refused_by_name_with_the_fix() {
    for (options, parts) in [
        (&["--image", "rocm", "--share", "/no/such/folder"][..], ["/no/such/folder", "No such file"]),
        (&["--image", "rocm", "--share", "/proc"], ["\"/proc\"", "reserved"]),
        (&["--share", "/tmp"], ["--share", "add --image or --root"]),
    ] {
        let error = refused(&[&["run"][..], options, &["--", "true"]].concat());
        for part in parts {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}

#[test]
fn program_of_this_machine_that_is_not_there_is_refused_before_the_boot() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::create_dir(directory.path().join("bin")).unwrap();
    let root = ["--root", directory.path().to_str().unwrap()];
    for mode in ["auto", "qemu"] {
        let error = refused(&[&["run", "--mode", mode][..], &root, &["--", "./no-such-program"]].concat());
        assert!(error.contains("./no-such-program is no file of this machine"), "{error}");
    }
}

#[test]
fn networks_and_terminals_are_refused_where_no_guest_has_them() {
    let cases: [(&[&str], &str); 4] = [
        (&["--net", "user"], "--net is for guests with a root file system"),
        (&["--interactive"], "--interactive is for guests with a root file system"),
        (&["--mode", "hosted", "--image", "rocm", "-i"], "--mode qemu"),
        (&["--image", "rocm", "-i", "--json"], "cannot be used with"),
    ];
    for (options, part) in cases {
        let error = refused(&[&["run"][..], options].concat());
        assert!(error.contains(part), "{part} in {error}");
    }
}

#[test]
fn lists_that_make_no_root_file_system_are_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let list = directory.path().join("list");
    std::fs::write(&list, "less --allow-unauthenticated\n").unwrap();
    let list = list.to_str().unwrap();
    for (arguments, part) in [
        (["mine", "--from", list], "--allow-unauthenticated"),
        (["rocm", "--from", list], "built in"),
        (["mine", "--from", "/no/such/list"], "/no/such/list"),
    ] {
        let error = refused(&[&["image", "build"][..], &arguments].concat());
        assert!(error.contains(part), "{part} in {error}");
    }
}
