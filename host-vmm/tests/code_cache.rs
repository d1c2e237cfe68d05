//! Compiled code that one run keeps and another finds.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Runs an example of large kernels; the report about its code, and its standard error.
fn run(folder: &Path) -> (Value, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args(["run", "--mode", "hosted", "--json", "--tier", "1", "--code-cache"])
        .arg(folder)
        .args(["--", "gemm"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let summary: Value = serde_json::from_slice(&output.stdout).unwrap();
    (summary["kept_code"].clone(), said)
}

fn count(counts: &Value, name: &str) -> u64 {
    counts[name].as_u64().unwrap_or_else(|| panic!("no {name} in {counts}"))
}

#[test]
fn code_that_a_run_has_kept_is_found_by_the_next() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("code");
    let (first, said) = run(&folder);
    if count(&first, "left_out") == 0 && count(&first, "stored") == 0 {
        return println!("nothing is compiled on this host: there is nothing to see");
    }
    let stored = count(&first, "stored");
    assert!(stored > 0 && count(&first, "loaded") == 0, "{first}");
    assert!(!said.contains("code"), "{said}");
    let files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len() as u64, stored);

    let (second, said) = run(&folder);
    assert_eq!((count(&second, "loaded"), count(&second, "stored")), (stored, 0), "{second}");
    assert!(!said.contains("code"), "{said}");

    // Another user that may write to a file may have changed it.
    fs::set_permissions(&files[0], Permissions::from_mode(0o666)).unwrap();
    let (third, said) = run(&folder);
    let counts = ["loaded", "stored", "refused"].map(|name| count(&third, name));
    assert_eq!(counts, [stored - 1, 1, 1], "{third}");
    assert_eq!(said.matches("may be written to by others").count(), 1, "{said}");

    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let (fourth, said) = run(&folder);
    assert_eq!(fourth, Value::Null, "it runs without the folder");
    assert!(said.contains("no code is kept"), "{said}");
}
