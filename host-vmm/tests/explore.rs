//! `belfry explore`, and `belfry run --schedule`, as a user runs them: on five programs with a race, and on their repaired twins.

use std::process::{Command, Output};

use serde_json::Value;

/// Number of schedules with which the faults of the programs show, and with which their twins show none.
const SCHEDULES: &str = "1000";
const RACY: [(&str, &str); 5] = [
    ("missing-barrier", "wrong result"),
    ("missing-fence", "wrong result"),
    ("lost-wakeup", "hang"),
    ("early-doorbell", "wrong result"),
    ("ih-ack", "hang"),
];

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The status of `belfry explore`, and its summary.
#[track_caller]
fn explore(more: &[&str], program: &str) -> (Option<i32>, Value) {
    let arguments = [&["explore", "--json", "--schedules", SCHEDULES], more, &["--", program]].concat();
    let output = belfry(&arguments);
    let said = text(&output.stdout);
    let summary = serde_json::from_str(&said);
    (output.status.code(), summary.unwrap_or_else(|error| panic!("{error}: {said}{}", text(&output.stderr))))
}

/// Explores a program with a race, and repeats each finding ten times.
#[track_caller]
fn finds(more: &[&str], name: &str, kind: &str) {
    let program = format!("racy:{name}");
    let (status, summary) = explore(more, &program);
    assert_eq!(status, Some(1), "{summary:#}");
    let found = summary["found"].as_array().unwrap();
    assert!(found.iter().all(|found| found["failure"]["kind"] == kind), "{summary:#}");
    assert!(found[0]["number"].as_u64() > Some(0), "without changes all is well: {summary:#}");
    let schedule = found[0]["smallest"].as_str().unwrap_or_else(|| panic!("{summary:#}"));
    assert!(schedule.starts_with("preempt:") && schedule.matches(',').count() < 3, "{schedule}");
    let command = found[0]["command"].as_str().unwrap();
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "belfry");
    let wanted = found[0]["failure"]["text"].as_str().unwrap();
    for time in 0..10 {
        let output = belfry(&words[1..]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{command}, time {time}: {said}");
        assert!(said.contains(wanted), "{command}, time {time}: {said}");
    }
    // The twin goes its own way under the same schedule, and to a good end.
    let repaired = command.replace(&program, &format!("{program}-repaired"));
    let output = belfry(&repaired.split(' ').skip(1).collect::<Vec<_>>());
    assert_eq!(output.status.code(), Some(0), "{repaired}: {}", text(&output.stderr));
}

#[test]
fn explore_finds_each_race_and_its_schedule_repeats_it_ten_times() {
    for (name, kind) in RACY {
        finds(&["--first"], name, kind);
    }
}

#[test]
fn explore_finds_nothing_in_repaired_twins() {
    for (name, _) in RACY {
        let (status, summary) = explore(&[], &format!("racy:{name}-repaired"));
        assert_eq!(status, Some(0), "{summary:#}");
        assert_eq!(summary["failed"], 0, "{summary:#}");
        assert!(summary["different"].as_u64() > Some(20), "schedules make a difference: {summary:#}");
    }
}

#[test]
fn explore_finds_races_on_the_other_chips_and_with_each_strategy() {
    for (chip, name) in
        [("gfx942", "missing-fence"), ("gfx1201", "missing-fence"), ("gfx942", "missing-barrier")]
    {
        finds(&["--chip", chip, "--first"], name, "wrong result");
    }
    for strategy in ["pct", "preempt"] {
        finds(&["--strategy", strategy, "--first"], "missing-barrier", "wrong result");
        finds(&["--strategy", strategy, "--first"], "lost-wakeup", "hang");
    }
}

#[test]
fn explore_is_refused_what_it_cannot_do() {
    for (arguments, words) in [
        (&["explore", "--", "no-such-program"][..], "racy:lost-wakeup"),
        (&["explore", "--deterministic", "1", "--", "vector-add"], "--deterministic is a schedule"),
        (&["run", "--schedule", "preempt:1", "--", "vector-add"], "--mode hosted"),
        (&["run", "--mode", "hosted", "--schedule", "preempt:2,1", "--", "vector-add"], "do not ascend"),
        (
            &["run", "--mode", "hosted", "--schedule", "preempt:", "--record", "x", "--", "vector-add"],
            "--record",
        ),
    ] {
        let output = belfry(arguments);
        let said = text(&output.stderr);
        assert!(!output.status.success() && said.contains(words), "{arguments:?}: {said}");
    }
    let (status, summary) = explore(&["--first"], "many-queues");
    assert_eq!(status, Some(1), "{summary:#}");
    assert!(
        summary["found"][0]["failure"]["text"].as_str().unwrap().contains("several threads"),
        "{summary:#}"
    );
}

#[test]
fn examples_end_well_under_schedules() {
    for program in ["shapes", "scratch", "grid-sync", "memory-pools"] {
        let arguments = ["explore", "--json", "--schedules", "6", "--steps", "20000000", "--", program];
        let output = belfry(&arguments);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{program}: {}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
    }
}
