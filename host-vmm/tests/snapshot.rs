//! `belfry run --snapshot`, `--from`, `belfry snapshot` and `belfry fork` as a user runs them; needs a /dev/kvm that can be used.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const BARE: [&str; 5] = ["run", "--mode", "kvm", "--guest", "bare-metal"];

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// Runs the bare-metal guest to its end, saved on the way; its output.
fn saved(file: &Path, at: &str, more: &[&str]) -> (String, String) {
    let file = file.to_str().unwrap();
    let output = belfry(&[&BARE[..], &["--json", "--snapshot", file, "--snapshot-at", at], more].concat());
    assert_eq!(output.status.code(), Some(0), "{:?}", texts(&output));
    texts(&output)
}

/// Goes on from a file; the summary and the guest's output.
fn resumed(file: &Path, more: &[&str]) -> (Value, String) {
    let output = belfry(&[&["run", "--json", "--from", file.to_str().unwrap()], more].concat());
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    (serde_json::from_str(&stdout).unwrap(), stderr)
}

#[test]
fn dispatches_in_flight_end_as_they_would_have() {
    for (doorbell, moment) in [
        ("adaptive", "dispatch:3"),
        ("ioeventfd", "workgroup:7"),
        ("trapped", "dispatch:16"),
        ("adaptive", "30ms"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("snapshot");
        let (summary, said) = saved(&file, moment, &["--doorbell", doorbell]);
        let whole: Value = serde_json::from_str(&summary).unwrap();
        assert!(said.contains("belfry: saved ") && said.contains("verified"), "{said}");
        // Several go on from the same file, and the counters go on as well.
        for workers in ["1", "3"] {
            let (summary, said) = resumed(&file, &["--verify", "--workers", workers]);
            assert!(said.contains("verified: 256 sums, 16 times"), "{moment}: {said}");
            for field in ["exit_status", "dispatches", "waves", "wave_instructions", "interrupts", "errors"] {
                assert_eq!(summary[field], whole[field], "{field} from {moment} on: {summary}");
            }
        }
    }
}

#[test]
fn run_that_was_resumed_is_saved_again() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    saved(&first, "dispatch:3", &[]);
    resumed(&first, &["--snapshot", second.to_str().unwrap(), "--snapshot-at", "dispatch:5"]);
    let (summary, said) = resumed(&second, &["--verify"]);
    assert!(said.contains("verified") && summary["dispatches"] == 16, "{said}");
}

#[test]
fn moment_that_does_not_come_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let (_, said) = saved(&file, "dispatch:99999", &[]);
    assert!(said.contains("there is no snapshot") && said.contains("verified"), "{said}");
    assert!(!file.exists());
}

#[test]
fn disk_that_is_full_costs_the_run_nothing() {
    // The file system has no room for files at all; the output and the status are the run's own.
    let (_, said) = saved(Path::new("/proc/snapshot"), "dispatch:3", &[]);
    assert!(said.contains("cannot write the snapshot /proc/snapshot") && said.contains("verified"), "{said}");
}

#[test]
fn futures_differ_by_their_faults_alone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    saved(&file, "dispatch:3", &[]);
    let path = file.to_str().unwrap();
    let output = belfry(&["fork", "-n", "4", "--json", path]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let futures: Vec<Value> = serde_json::from_str(&stdout).unwrap();
    assert_eq!(futures.len(), 4);
    for future in &futures {
        assert_eq!((&future["status"], &future["dispatches"]), (&0.into(), &16.into()), "{future}");
        assert!(future["last"].as_str().unwrap().contains("verified"), "{future}");
    }
    // Faults at every moment: none of these ends well, each has its own seed, and all are told of.
    let output = belfry(&["fork", "-n", "3", "--chaos", "7:0.5", "--timeout", "5", path]);
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(1), "{stdout}{stderr}");
    assert_eq!(stdout.lines().count(), 3, "{stdout}");
    for seed in 7..10 {
        assert!(stdout.contains(&format!("chaos {seed}:0.5")), "{stdout}");
    }
}

#[test]
fn run_is_forked_at_a_moment_without_a_file_of_its_own() {
    let arguments = ["fork", "-n", "2", "--at", "dispatch:2", "--"];
    let output = belfry(&[&arguments[..], &BARE[1..]].concat());
    let (stdout, stderr) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert_eq!(stdout.lines().filter(|line| line.contains("verified")).count(), 2, "{stdout}");
}

/// A process that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn waves_in_the_middle_of_their_work_are_saved_from_another_process() {
    let folder = tempfile::tempdir().unwrap();
    let file: PathBuf = folder.path().join("snap shot");
    let mut run = Command::new(env!("CARGO_BIN_EXE_belfry"));
    run.args(BARE).args(["--json", "--inspect", "--break", "packet KERNEL_DISPATCH"]);
    run.env("XDG_RUNTIME_DIR", folder.path()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut run = Running(run.spawn().unwrap());
    let of = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        texts(&command.args(arguments).env("XDG_RUNTIME_DIR", folder.path()).output().unwrap())
    };
    let ask = |question: &str| {
        let words: Vec<&str> = ["inspect", "--json"].into_iter().chain(question.split(' ')).collect();
        serde_json::from_str::<Value>(&of(&words).0).unwrap_or_default()
    };
    let started = std::time::Instant::now();
    while ask("wait 10")["halted"] != true {
        assert!(started.elapsed().as_secs() < 60, "it does not come to its first packet");
    }
    // Waves stay in front of the kernel's first instruction.
    let entry = ask("kernels")[0]["fields"]["entry"].as_str().unwrap().to_owned();
    ask(&format!("break pc {entry}"));
    ask("unbreak 1");
    ask("continue");
    assert_eq!(ask("wait 60")["halted"], true);
    let (stdout, stderr) = of(&["snapshot", file.to_str().unwrap()]);
    let waves: u32 = stdout.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_default();
    assert!(waves > 0, "{stdout}{stderr}");
    let (_, stderr) = of(&["snapshot", "/proc/snapshot"]);
    assert!(stderr.contains("cannot write") && stderr.contains("goes on"), "{stderr}");
    // The first run goes on, and ends as it would have without the snapshot.
    ask("unbreak all");
    ask("continue");
    let mut whole = String::new();
    std::io::Read::read_to_string(&mut run.0.stdout.take().unwrap(), &mut whole).unwrap();
    let whole: Value = serde_json::from_str(&whole).unwrap();
    assert_eq!(whole["exit_status"], 0, "{whole}");

    let (stdout, stderr) = of(&["snapshot", "--check", file.to_str().unwrap()]);
    let expected = format!("{waves} waves in flight");
    assert!(stdout.contains(&expected) && stdout.contains("gfx1100"), "{stdout}{stderr}");
    for workers in ["1", "3"] {
        let (summary, said) = resumed(&file, &["--workers", workers]);
        assert!(said.contains("verified"), "{said}");
        for field in ["exit_status", "dispatches", "waves", "wave_instructions", "interrupts", "errors"] {
            assert_eq!(summary[field], whole[field], "{field} of {summary}");
        }
    }
}

#[test]
fn what_has_no_snapshot_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("snapshot");
    let path = file.to_str().unwrap();
    let take = ["--snapshot", path, "--snapshot-at", "1s"];
    for (arguments, expected) in [
        (&[&["run", "--mode", "qemu"], &take[..]].concat()[..], "--mode kvm"),
        (
            &[&["run", "--mode", "kvm", "--image", "rocm", "--net", "user"], &take[..]].concat(),
            "leave these away",
        ),
        (&["run", "--mode", "kvm", "--warm", "--disk", "/dev/null"], "leave --warm away"),
        (&["run", "--mode", "hosted", "--warm"], "--mode kvm"),
        (&["run", "--mode", "qemu", "--warm"], "--mode kvm"),
        (&["run", "--from", path, "--warm"], "--warm"),
        (&["run", "--mode", "kvm", "--snapshot", path], "--snapshot-at"),
        (&["run", "--from", path], "No such file"),
        (&["run", "--mode", "qemu", "--from", path], "QEMU has no snapshots"),
        (&["run", "--from", path, "--chip", "gfx1201"], "--chip"),
        (&["run", "--from", "/dev/zero"], "no snapshot of a machine"),
        (&["fork", path], "No such file"),
        (&["fork", "-n", "0", path], "0"),
        (&["fork", "--at", "dispatch:1", path], "cannot be used"),
        (&["snapshot", "--check", path], "No such file"),
    ] {
        let output = belfry(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let (_, stderr) = texts(&output);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
    assert!(!file.exists());
}
