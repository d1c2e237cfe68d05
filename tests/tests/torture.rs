//! `belfry torture` as a user has it.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use belfry_tests::suite;

fn torture(options: &[&str], place: &Path) -> (Output, String) {
    let mut command = Command::new(suite::belfry().unwrap());
    command.arg("torture").args(options).current_dir(place).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
    (output, said)
}

const PROGRAM: [&str; 3] = ["--", "vector-add", "256"];

#[test]
fn nothing_is_found_where_there_is_nothing() {
    let place = tempfile::tempdir().unwrap();
    let options = [&["--plans", "50", "--seed", "2", "--json", "--findings", "found"][..], &PROGRAM].concat();
    let (output, said) = torture(&options, place.path());
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["plans"], &summary["found"]), (&50.into(), &serde_json::json!([])), "{said}");
    assert!(summary["struck"].as_u64().unwrap() > 20, "{said}");
    assert_eq!(std::fs::read_dir(place.path().join("found")).unwrap().count(), 0);
}

#[test]
fn a_bug_is_found_with_its_smallest_plan_and_shown_again() {
    let place = tempfile::tempdir().unwrap();
    let bug = ["--plans", "50", "--seed", "2", "--bug", "keeps-descriptor"];
    let (output, said) =
        torture(&[&bug[..], &["--json", "--findings", "found"], &PROGRAM].concat(), place.path());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = summary["found"].as_array().unwrap();
    assert_eq!(found.len(), 1, "{said}");
    assert_eq!(found[0]["finding"]["Leak"], "1 descriptors", "{said}");
    let smallest = found[0]["smallest"].as_str().unwrap();
    assert!(smallest.contains('@') && !smallest.contains(';'), "one rule at one moment: {smallest}");

    let file = place.path().join("found/1-leak.json");
    let (output, said) = torture(&["--replay", "found/1-leak.json"], place.path());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("plan     {smallest}")) && said.contains("again    in run "), "{said}");
    // Without the bug the same plan shows nothing.
    let text = std::fs::read_to_string(&file).unwrap();
    let mended = text.replace("    \"--bug\",\n    \"keeps-descriptor\",\n", "");
    assert_ne!(mended, text, "{text}");
    std::fs::write(&file, mended).unwrap();
    let (output, said) = torture(&["--replay", "found/1-leak.json"], place.path());
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("again    no; in the last run: it ended with"), "{said}");
}

#[test]
fn programs_in_guests_end_well_or_in_an_error_and_leave_a_driver_that_works() {
    let place = tempfile::tempdir().unwrap();
    let options = ["--mode", "qemu", "--plans", "3", "--jobs", "1", "--limit", "15", "--json"];
    let (output, said) = torture(&[&options[..], &PROGRAM].concat(), place.path());
    assert_eq!(output.status.code(), Some(0), "{said}");
    let summary: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&summary["plans"], &summary["found"]), (&3.into(), &serde_json::json!([])), "{said}");
    assert!(summary["struck"].as_u64().unwrap() >= 3, "{said}");
    assert!(summary["met"]["doorbell"].as_u64().unwrap() > 0, "{said}");
}

#[test]
fn what_is_no_finding_is_refused() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("bad"), "{}").unwrap();
    for (options, why) in [
        (&["--replay", "bad"][..], "bad is no finding of `belfry torture --findings`"),
        (&["--replay", "nowhere"], "nowhere: "),
        (&["--replay", "bad", "--findings", "x"], "cannot be used with"),
        (&["--mode", "qemu", "--bug", "keeps-descriptor", "--", "vector-add"], "--bug is for --mode hosted"),
        (&["--plans", "1", "--", "nonsense"], "nonsense is none of the bundled programs"),
    ] {
        let (output, said) = torture(options, place.path());
        assert!(!output.status.success() && said.contains(why), "{options:?}: {said}");
    }
}
