//! `belfry exec -- hip-suite` and `opencl-suite` as a user starts them.
//!
//! The tests of `exec.rs` prove that every case passes; they are made of the same parts.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use belfry_image::{Progress, rootfs};
use belfry_tests::suite;

/// `belfry exec OPTIONS -- WORDS`.
fn exec(options: &[&str], words: &[&str]) -> Output {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    let mut command = Command::new(BELFRY.get_or_init(|| suite::belfry().unwrap()));
    command.args(["exec", "--quiet"]).args(options).arg("--").args(words);
    command.stdin(Stdio::null()).current_dir("/").output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn assert_status(output: &Output, status: i32) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{}{said}", stdout(output));
}

#[test]
fn cases_are_listed_without_a_root_file_system() {
    let listed = exec(&[], &["hip-suite", "--list"]);
    assert_status(&listed, 0);
    let names = stdout(&listed);
    assert!(names.lines().count() >= 150, "{names}");
    assert!(names.lines().any(|name| name == "hip::memcpy_2d"), "{names}");
    let some = exec(&[], &["opencl-suite", "vector_add", "--list"]);
    assert!(stdout(&some).lines().any(|name| name == "opencl::vector_add"), "{}", stdout(&some));
}

#[test]
fn chosen_cases_run_side_by_side_and_are_counted() {
    rootfs::rocm(&Progress::new()).unwrap();
    let words =
        ["hip-suite", "--exact", "atomics_int", "memset_8", "memcpy_2d", "--skip", "memset_8", "-j", "2"];
    let output = exec(&["--image", "rocm", "--chip", "gfx942"], &words);
    assert_status(&output, 0);
    let said = stdout(&output);
    assert!(said.contains("hip::atomics_int ... pass\n"), "{said}");
    assert!(said.contains("hip::memcpy_2d ... absent: "), "{said}");
    assert!(said.ends_with("\n1 passed, 0 failed, 1 absent\n"), "{said}");
}

#[test]
fn failing_case_shows_what_it_said_and_sets_the_status() {
    // It needs more memory than this device has.
    let options = ["--image", "rocm", "--vram", "128M"];
    let output = exec(&options, &["hip-suite", "--exact", "large_allocation"]);
    assert_status(&output, 1);
    let said = stdout(&output);
    assert!(said.starts_with("hip::large_allocation ... FAIL\n"), "{said}");
    assert!(said.contains("gave hipErrorOutOfMemory, not hipSuccess"), "{said}");
    assert!(said.ends_with("\n0 passed, 1 failed, 0 absent\n"), "{said}");
}

#[test]
fn what_is_missing_is_an_error_that_names_it() {
    let tree = tempfile::tempdir().unwrap();
    for folder in ["usr/bin", "usr/lib/x86_64-linux-gnu"] {
        std::fs::create_dir_all(tree.path().join(folder)).unwrap();
    }
    let root = |path: &Path| path.to_str().unwrap().to_owned();
    let cases: [(&[&str], &str, &str); 3] = [
        (&["--root", &root(tree.path())], "hip-suite", "has no hipcc"),
        (&["--root", &root(tree.path())], "opencl-suite", "has no cc"),
        (&["--image", "rocm", "--json"], "hip-suite", "--json"),
    ];
    for (options, program, says) in cases {
        let output = exec(options, &[program]);
        assert_status(&output, 125);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(says), "{says} in {said}");
    }
}

/// The cells of a table of rocm-smi, without the names of its rows: what it says of each pair of GPUs.
fn table<'a>(said: &'a str, title: &str) -> Vec<Vec<&'a str>> {
    let lines = said.lines().skip_while(|line| !line.contains(title)).skip(2);
    let rows = lines.take_while(|line| line.starts_with("GPU"));
    rows.map(|row| row.split_whitespace().skip(1).collect()).collect()
}

#[test]
fn topology_of_eight_gpus_is_that_of_their_links() {
    rootfs::rocm(&Progress::new()).unwrap();
    for (options, weight, hops, kind) in [
        (&[][..], "15", "1", "XGMI"),
        (&["--links", "xgmi"], "15", "1", "XGMI"),
        (&["--links", "pcie"], "40", "2", "PCIE"),
    ] {
        let of_gpus = ["--image", "rocm", "--gpus", "8", "--chip", "gfx942:vram=64M"];
        let output = exec(&[&of_gpus[..], options].concat(), &["rocm-smi", "--showtopo"]);
        assert_status(&output, 0);
        let said = stdout(&output);
        for (title, cell) in [("Weight between", weight), ("Hops between", hops), ("Link Type between", kind)]
        {
            let rows = table(&said, title);
            assert_eq!(rows.len(), 8, "{said}");
            for (from, row) in rows.iter().enumerate() {
                let wanted: Vec<_> = (0..8).map(|to| if from == to { "0" } else { cell }).collect();
                assert_eq!(*row, wanted, "{title} of GPU {from} with {options:?}");
            }
        }
    }
}
