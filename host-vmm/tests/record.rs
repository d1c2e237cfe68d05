//! `belfry run --record` and `belfry replay` as a user runs them.

use std::path::Path;
use std::process::{Command, Output};

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> (String, String) {
    let output = belfry(arguments);
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{}{}", said.0, said.1);
    said
}

/// The status and the words of a command that fails.
#[track_caller]
fn fail(arguments: &[&str]) -> (i32, String) {
    let output = belfry(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let error = text(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    (output.status.code().unwrap(), error)
}

/// Runs an example hosted and records it.
#[track_caller]
fn record(path: &Path, more: &[&str], program: &[&str]) -> String {
    let mut arguments = vec!["run", "--mode", "hosted", "--record", path.to_str().unwrap()];
    arguments.extend(more);
    arguments.push("--");
    arguments.extend(program);
    let (_, said) = succeed(&arguments);
    assert!(said.contains("belfry: recorded"), "{said}");
    said
}

/// The number of events and the digest of memory of a replay.
#[track_caller]
fn end(said: &str) -> (u64, String) {
    let line = said.lines().find(|line| line.starts_with("the same")).unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let at = |name| words.iter().position(|word| *word == name).unwrap();
    (words[at("events") - 1].parse().unwrap(), words[at("memory") + 1].to_owned())
}

#[test]
fn runs_of_every_chip_replay_ten_times_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for chip in ["gfx1100", "gfx1201", "gfx942"] {
        for program in [&["vector-add"][..], &["many-queues", "8"]] {
            let path = folder.path().join(format!("{chip}-{}", program[0]));
            record(&path, &["--chip", chip], program);
            let (said, _) = succeed(&["replay", "--times", "10", path.to_str().unwrap()]);
            let (events, _) = end(&said);
            assert!(said.contains("10 times") && events > 20, "{chip} {program:?}: {said}");
        }
    }
}

#[test]
fn faults_strike_again_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults");
    let file = path.to_str().unwrap();
    for (plan, program) in [
        (
            &["--fault", "interrupt-late@2", "--fault", "signal-late@1,for:3ms"][..],
            &["vector-add", "4096"][..],
        ),
        (&["--fault", "doorbell-late@2,for:2ms"], &["many-queues", "4"]),
        (&["--chaos", "5:0.02"], &["vector-add", "4096"]),
        (&["--fault", "function-reset@40"], &["vector-add", "256"]),
        (&["--fault", "removal@40"], &["vector-add", "256"]),
    ] {
        let run = ["run", "--mode", "hosted", "--record", file, "--timeout", "120"];
        let output = belfry(&[&run[..], plan, &["--"], program].concat());
        let said = text(&[output.stdout, output.stderr].concat());
        assert!(said.contains("belfry: recorded"), "{plan:?}: {said}");
        let (replayed, _) = succeed(&["replay", "--times", "3", file]);
        let strikes =
            |said: &str| said.lines().filter(|line| line.contains(" at ") && line.contains(" ms: ")).count();
        assert!(strikes(&replayed) > 0, "{plan:?}: {said}\n{replayed}");
        // A program that fails has no summary.
        if output.status.success() {
            assert_eq!(strikes(&replayed), strikes(&said), "{plan:?}: {said}\n{replayed}");
        } else {
            assert!(
                plan[1].contains("removal") || plan[1].contains("reset") || plan[0] == "--chaos",
                "{plan:?}: {said}"
            );
        }
        assert!(replayed.contains("the same, 3 times: "), "{replayed}");
    }
    let refused =
        ["run", "--mode", "hosted", "--record", file, "--fault", "vram-exhausted", "--", "vector-add"];
    let (_, said) = fail(&refused);
    assert!(said.contains("a device that is recorded has no faults of its driver"), "{said}");
}

#[test]
fn replays_stop_at_events_and_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    record(&path, &[], &["vector-add"]);
    let path = path.to_str().unwrap();
    let (at, _) = succeed(&["replay", "--until", "dispatch:1", path]);
    assert!(at.contains("dispatch start kernel_object=") && at.contains("Gpu {"), "{at}");
    let number = |said: &str| -> u64 {
        let words =
            said.lines().find_map(|line| line.strip_prefix("event ")).unwrap_or_else(|| panic!("{said}"));
        words.split(' ').next().unwrap().parse().unwrap()
    };
    let dispatch = number(&at);
    let (same, _) = succeed(&["replay", "--until", &dispatch.to_string(), path]);
    assert_eq!(same.lines().next(), at.lines().next());
    let (before, _) = succeed(&["replay", "--until", "dispatch:1", "--back", "3", path]);
    assert_eq!(number(&before), dispatch - 3, "{before}");
    let (interrupt, _) = succeed(&["replay", "--until", "interrupt:1", path]);
    assert!(number(&interrupt) > 0 && interrupt.contains("interrupt vector="), "{interrupt}");
    let (status, error) = fail(&["replay", "--until", "dispatch:1000", path]);
    assert!(status == 125 && error.contains("ends before dispatch-start:1000"), "{error}");
    let (_, error) = fail(&["replay", "--until", "9999999", path]);
    assert!(error.contains("ends before event:9999999"), "{error}");
    let (_, error) = fail(&["replay", "--until", "dispatch:1", "--back", "100000", path]);
    assert!(error.contains("before the first of"), "{error}");
    let (_, error) = fail(&["replay", "--until", "lunch:1", path]);
    assert!(error.contains("interrupt"), "{error}");
}

#[test]
fn what_is_no_whole_record_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("record");
    record(&whole, &[], &["vector-add"]);
    let bytes = std::fs::read(&whole).unwrap();
    let path = folder.path().join("damaged");
    let with = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        fail(&["replay", path.to_str().unwrap()]).1
    };
    assert!(with(b"a text").contains("no record"));
    assert!(with(&[]).contains("no record"));
    assert!(with(&bytes[..bytes.len() - 1]).contains("ends after"));
    let mut other = bytes.clone();
    other[8] = 99;
    assert!(with(&other).contains("version 99"));
    let mut other = bytes.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    assert!(with(&other).contains("damaged"));
    assert!(with(&[&bytes[..], b"more"].concat()).contains("behind its end"));
    assert!(fail(&["replay", "/nowhere/record"]).1.contains("/nowhere/record"));
    assert!(fail(&["replay", folder.path().to_str().unwrap()]).1.contains("folder"));
}

#[test]
fn records_that_cannot_be_written_leave_the_run_alone() {
    // A device that is full.
    let arguments = ["run", "--mode", "hosted", "--record", "/dev/full", "--", "vector-add"];
    let (_, said) = succeed(&arguments);
    assert!(said.contains("/dev/full ends early") && said.contains("not affected"), "{said}");
    let (status, error) = fail(&["run", "--mode", "hosted", "--record", "/nowhere/file", "--", "vector-add"]);
    assert!(status == 125 && error.contains("/nowhere/file"), "{error}");
    let (_, error) = fail(&["run", "--record", "/tmp/never", "--", "vector-add"]);
    assert!(error.contains("--mode hosted"), "{error}");
    let (_, error) = fail(&["run", "--mode", "hosted", "--record", "/tmp/never", "--sanitize"]);
    assert!(error.contains("--sanitize"), "{error}");
    assert!(!Path::new("/tmp/never").exists());
}
