//! `belfry run --trace` of whole guests: the work of the device and of the guest's driver, on one clock.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::perfetto::Trace;
use belfry_tests::suite;
use serde_json::Value;

fn belfry(arguments: &[&str]) -> Output {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    let belfry = BELFRY.get_or_init(|| suite::belfry().unwrap());
    Command::new(belfry).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> Output {
    let output = belfry(arguments);
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{}{}", said.0, said.1);
    output
}

/// Runs an example in QEMU, with a trace that says that nothing is missing.
#[track_caller]
fn record(path: &Path, program: &[&str]) {
    let options = ["run", "--mode", "qemu", "--trace", path.to_str().unwrap(), "--"];
    let output = succeed(&[&options, program].concat());
    let said = text(&output.stderr);
    assert!(!said.contains("not in the trace") && !said.contains("no events"), "{said}");
}

#[test]
fn guest_has_one_flow_for_each_dispatch_from_the_doorbell_to_the_wake() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.pftrace");
    // The example takes so long that the program sleeps before it ends.
    record(&file, &["gemm", "512"]);
    let trace = Trace::read(&file);
    let tracks = trace.tracks();
    let flows = trace.flows_of("gemm");
    assert!(!flows.is_empty(), "{tracks:?}");
    let steps = [
        "doorbell trapped",
        "KERNEL_DISPATCH",
        "workgroup",
        "signal",
        "IH entry",
        "interrupt",
        "event set",
        "event wake",
    ];
    for flow in flows {
        for step in steps {
            assert!(flow.iter().any(|name| name.starts_with(step)), "{step} in {flow:?}");
        }
    }
    for name in ["belfry-examples (", "driver calls of thread", "worker "] {
        assert!(tracks.values().any(|track| track.starts_with(name)), "{name} in {tracks:?}");
    }
    for call in ["CREATE_QUEUE", "MAP_MEMORY_TO_GPU", "WAIT_EVENTS"] {
        assert!(trace.events().iter().any(|event| event.name.as_deref() == Some(call)), "{call}");
    }
    let times: Vec<u64> = trace.packet.iter().filter_map(|packet| packet.timestamp).collect();
    assert!(times.is_sorted());
    let summary = text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
    for part in ["gemm", ": belfry-examples (", "interrupt to wake", "interrupt handled"] {
        assert!(summary.contains(part), "{part} in\n{summary}");
    }
    let picture = text(&succeed(&["trace", "svg", file.to_str().unwrap()]).stdout);
    assert!(picture.starts_with("<svg") && picture.contains("gemm"));
}

#[test]
fn driver_of_a_guest_tells_what_it_does_after_what_has_caused_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.json");
    record(&file, &["many-queues"]);
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events = trace["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let argument = |event: &Value, name: &str| {
        let text = event["arguments"][name].as_str().unwrap().trim_start_matches("0x").to_owned();
        u64::from_str_radix(&text, 16).unwrap()
    };
    // Each call ends, on the thread that made it.
    let calls = |kind| -> Vec<_> {
        let mut calls: Vec<_> =
            of(kind).into_iter().map(|call| (argument(call, "thread"), argument(call, "number"))).collect();
        calls.sort_unstable();
        calls
    };
    assert!(!calls("ioctl enter").is_empty());
    assert_eq!(calls("ioctl enter"), calls("ioctl leave"));
    // The driver has the queues that the device has, before the device has them.
    assert_eq!(of("queue created").len(), of("queue destroyed").len());
    assert!(of("queue created").len() > 1);
    // An interrupt is handled after it was raised: of each process, never more of them than there were.
    let (mut raised, mut handled, mut sets) = (0i64, 0, 0);
    let is_of_process = |event: &Value| event["process"].as_u64().is_some_and(|process| process != 0);
    for event in events {
        match event["event"].as_str() {
            Some("IH entry") => raised += 1,
            Some("interrupt handled") => {
                handled += 1;
                assert!(handled <= raised, "{event}");
            }
            Some("event set") => {
                sets += 1;
                assert!(is_of_process(event) && handled > 0, "{event}");
            }
            _ => {}
        }
    }
    assert!(sets > 0 && handled > 0, "{sets} events set by {handled} of {raised} interrupts");
    let opened = of("process opened");
    assert_eq!(opened.len(), 1, "{opened:?}");
    assert_eq!(opened[0]["text"], "belfry-examples");
    assert_eq!(of("process closed").len(), 1);
    assert!(of("driver events lost").is_empty());
}

#[test]
fn guest_whose_driver_cannot_tell_runs_its_program_and_says_why_once() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.json");
    let options = ["run", "--mode", "qemu", "--append", "debugfs=off", "--trace", file.to_str().unwrap()];
    let output = succeed(&[&options[..], &["--", "vector-add", "4096"]].concat());
    assert!(text(&output.stdout).contains("4096 floats verified"));
    let said = text(&output.stderr);
    let absent = "the trace has no events of the guest's driver: debugfs cannot be mounted in the guest";
    assert_eq!(said.matches(absent).count(), 1, "{said}");
    let trace: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events = trace["events"].as_array().unwrap();
    assert!(events.iter().any(|event| event["event"] == "dispatch end"));
    assert!(events.iter().all(|event| event["engine"] != "driver"));
}
