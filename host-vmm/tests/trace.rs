//! `--trace` and `belfry trace` as a user runs them. The traces are parsed with Perfetto's published schema.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::perfetto::{BEGIN, Trace};

/// `TYPE_SLICE_END` and `TYPE_COUNTER` of `TrackEvent.Type`.
const END: i32 = 2;
const COUNTER: i32 = 4;

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
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

/// Runs an example hosted, with a trace.
#[track_caller]
fn record(path: &Path, more: &[&str], program: &[&str]) -> Output {
    let mut arguments = vec!["run", "--mode", "hosted", "--trace", path.to_str().unwrap()];
    arguments.extend(more);
    arguments.push("--");
    arguments.extend(program);
    succeed(&arguments)
}

fn path(directory: &tempfile::TempDir, name: &str) -> std::path::PathBuf {
    directory.path().join(name)
}

#[test]
fn gpus_of_one_machine_are_on_one_timeline() {
    let directory = tempfile::tempdir().unwrap();
    let [json, perfetto] = ["t.json", "t.pftrace"].map(|name| path(&directory, name));
    record(&json, &["--gpus", "2", "--cus", "4"], &["peers", "512"]);
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let time_of = |event: &serde_json::Value| event["time_ns"].as_u64().unwrap();
    let dispatches = |gpu: u64, kind: &str| -> Vec<u64> {
        let events = trace["events"].as_array().unwrap().iter();
        let own = events.filter(|event| event["gpu"].as_u64().unwrap_or(0) == gpu && event["event"] == kind);
        own.map(time_of).collect()
    };
    let [first, second] = [0, 1].map(|gpu| dispatches(gpu, "dispatch start"));
    let ends = dispatches(0, "dispatch end");
    assert_eq!((first.len(), second.len()), (5, 5));
    // The last kernels answer each other: the second begins before the first one ends.
    assert!(second[4] < ends[4], "{second:?} {ends:?}");
    // Each copy goes over the link, and says in which direction.
    for (gpu, other) in [(0, 1), (1, 0)] {
        let events = trace["events"].as_array().unwrap().iter();
        let own = events
            .filter(|event| event["gpu"].as_u64().unwrap_or(0) == gpu && event["event"] == "SDMA start");
        let links: Vec<_> = own.map(|event| event["text"].as_str().unwrap()).collect();
        let [from, to] = ["from", "to"].map(|way| format!("{way} GPU {other}"));
        assert!(links.contains(&&*from) && links.contains(&&*to), "{links:?}");
        assert!(links.iter().all(|link| [&*from, &*to].contains(link)), "{links:?}");
    }
    // Each GPU copies 512 words to the other one, and as many from there.
    for (gpu, kind) in
        [(0, "bytes to GPU"), (0, "bytes from GPU"), (1, "bytes to GPU"), (1, "bytes from GPU")]
    {
        let events = trace["events"].as_array().unwrap().iter();
        let own = events.filter(|event| event["gpu"].as_u64().unwrap_or(0) == gpu && event["event"] == kind);
        let last = own.map(|event| &event["arguments"]).next_back().unwrap();
        assert_eq!(
            (&last["peer"], &last["value"]),
            (&format!("{:#x}", 1 - gpu).into(), &"0x800".into()),
            "{gpu}, {kind}"
        );
    }
    let said = text(&succeed(&["trace", "summary", json.to_str().unwrap()]).stdout);
    assert!(said.contains("GPU 0: ") && said.contains("GPU 1: "), "{said}");
    let (_, links) = said.split_once("bytes over links").unwrap();
    let rows: Vec<Vec<&str>> =
        links.lines().skip(1).take(2).map(|row| row.split_whitespace().collect()).collect();
    assert_eq!(rows, [["GPU", "0", "-", "4096"], ["GPU", "1", "4096", "-"]], "{said}");
    record(&perfetto, &["--gpus", "2", "--cus", "4"], &["peers", "512"]);
    let said = text(&succeed(&["trace", "svg", perfetto.to_str().unwrap()]).stdout);
    assert!(said.contains("GPU 0, queue") && said.contains("GPU 1, queue"), "{said}");
    let tracks = Trace::read(&perfetto).tracks();
    for name in ["GPU 0", "GPU 1", "bytes to GPU 1", "bytes from GPU 0"] {
        assert!(tracks.values().any(|track| track == name), "{name}: {tracks:?}");
    }
}

#[test]
fn driver_tells_of_memory_that_it_maps_and_of_interrupts_that_it_handles() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(&directory, "t.json");
    record(&file, &[], &["gemm"]);
    let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let events = trace["events"].as_array().unwrap();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let ranges = |kind| -> Vec<_> {
        of(kind)
            .iter()
            .map(|event| (event["arguments"]["address"].clone(), event["arguments"]["bytes"].clone()))
            .collect()
    };
    let (mapped, unmapped) = (ranges("memory mapped"), ranges("memory unmapped"));
    assert!(!mapped.is_empty() && !unmapped.is_empty(), "{mapped:?} {unmapped:?}");
    assert!(unmapped.iter().all(|range| mapped.contains(range)), "{unmapped:?} of {mapped:?}");
    assert!(mapped.iter().all(|(_, bytes)| bytes.as_str().is_some_and(|bytes| bytes != "0x0")), "{mapped:?}");
    // What sets an event is an interrupt of the process that was handled before.
    let set = of("event set");
    assert!(!set.is_empty());
    let time = |event: &serde_json::Value| event["time_ns"].as_u64().unwrap();
    for set in set {
        let of_process = |handled: &&&serde_json::Value| {
            handled["arguments"]["process"] == set["arguments"]["process"] && time(handled) <= time(set)
        };
        assert!(of("interrupt handled").iter().any(|handled| of_process(&handled)), "{set}");
    }
}

#[test]
fn gemm_has_one_flow_for_each_dispatch_from_the_doorbell_to_the_wake() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(&directory, "t.pftrace");
    record(&file, &[], &["gemm"]);
    let trace = Trace::read(&file);
    let (tracks, events) = (trace.tracks(), trace.events());
    assert!(events.iter().all(|event| tracks.contains_key(&event.track_uuid.unwrap())));
    let flows = trace.flows_of("gemm");
    assert!(!flows.is_empty());
    for flow in flows {
        for step in ["doorbell", "KERNEL_DISPATCH", "gemm", "workgroup", "signal", "IH", "interrupt", "event"]
        {
            assert!(flow.iter().any(|name| name.split(' ').next() == Some(step)), "{step} in {flow:?}");
        }
    }
    // The process that opened the driver is this one.
    assert!(tracks.values().any(|track| track.starts_with("belfry (")), "{tracks:?}");

    // What begins ends on its track, and nothing ends that has not begun.
    let mut open: BTreeMap<u64, i64> = BTreeMap::new();
    for event in &events {
        let depth = open.entry(event.track_uuid.unwrap()).or_default();
        *depth += match event.kind {
            Some(BEGIN) => 1,
            Some(END) => -1,
            _ => 0,
        };
        assert!(*depth >= 0);
    }
    for name in
        ["worker", "waves resident", "LDS in use", "VGPRs in use", "page walks", "interrupts", "driver calls"]
    {
        assert!(tracks.values().any(|track| track.starts_with(name)), "{name} in {tracks:?}");
    }
    assert!(events.iter().any(|event| event.kind == Some(COUNTER) && event.counter_value > Some(0)));
    let times: Vec<u64> = trace.packet.iter().filter_map(|packet| packet.timestamp).collect();
    assert!(times.is_sorted());
    assert!(!path(&directory, "t.pftrace.ring").exists());

    let summary = || text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
    for part in ["gemm", "doorbell to packet", "signal to interrupt"] {
        assert!(summary().contains(part), "{part} in\n{}", summary());
    }
    // A program that sees its signal before it asks the driver to wait has no wake: about one run in ten.
    let woken = (0..10).any(|_| {
        record(&file, &[], &["gemm"]);
        summary().contains("interrupt to wake")
    });
    assert!(woken, "{}", summary());
    let picture = text(&succeed(&["trace", "svg", file.to_str().unwrap()]).stdout);
    assert!(picture.starts_with("<svg") && picture.contains("worker ") && picture.contains("gemm"));
    let same = text(&succeed(&["trace", "diff", file.to_str().unwrap(), file.to_str().unwrap()]).stdout);
    assert!(same.contains("+0.0 %"), "{same}");
}

#[test]
fn forms_say_the_same_and_filters_leave_what_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let (json, csv) = (path(&directory, "t.json"), path(&directory, "t.csv"));
    record(&json, &[], &["vector-add", "1024"]);
    let summary = text(&succeed(&["trace", "summary", json.to_str().unwrap()]).stdout);
    assert!(summary.contains("vecadd") && summary.contains("doorbell to packet"), "{summary}");
    record(&csv, &["--trace-only", "engine=ih"], &["vector-add", "1024"]);
    let rows = std::fs::read_to_string(&csv).unwrap();
    assert!(rows.lines().count() > 1);
    assert!(rows.lines().skip(1).all(|row| row.split(',').nth(2) == Some("ih")), "{rows}");
}

#[test]
fn summary_of_a_profiled_run_has_what_its_kernels_did() {
    let directory = tempfile::tempdir().unwrap();
    let (profile, programs) = (path(&directory, "profile.json"), [["gemm", "64"], ["vector-add", "1000"]]);
    for (form, program) in [("t.pftrace", programs[0]), ("t.json", programs[0]), ("u.json", programs[1])] {
        let file = path(&directory, form);
        let profiles = format!("--profile={}", profile.to_str().unwrap());
        record(&file, &[&profiles], &program);
        let summary = text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
        let kernels: serde_json::Value = serde_json::from_slice(&std::fs::read(&profile).unwrap()).unwrap();
        let kernel = &kernels["processes"][0]["kernels"][0];
        let name = kernel["name"].as_str().unwrap();
        let profiled = summary.split_once("\nprofiled").expect(&summary).1;
        let mut lines = profiled.lines().skip_while(|line| !line.starts_with(name));
        let figures: Vec<&str> = lines.next().unwrap().split_whitespace().skip(1).collect();
        let classes = lines.next().unwrap();
        let sum = |path: &str, field: &str| -> u64 {
            kernel[path].as_array().unwrap().iter().map(|site| site[field].as_u64().unwrap()).sum()
        };
        assert_eq!(figures[1], sum("memory", "bytes").to_string(), "{summary}");
        assert_eq!(figures[2], sum("memory", "lines").to_string(), "{summary}");
        assert_eq!(figures[3], sum("lds", "bytes").to_string(), "{summary}");
        assert_eq!(figures[4], sum("lds", "conflicts").to_string(), "{summary}");
        assert_eq!(figures[5], kernel["scalar_bytes"].as_u64().unwrap().to_string(), "{summary}");
        assert_ne!(figures[5], "0", "kernel arguments are scalar loads: {summary}");
        for (class, count) in kernel["instructions_by_class"].as_object().unwrap() {
            assert!(classes.contains(&format!("{class} {count} (")), "{classes}");
        }
    }
    // Without a profile there is none.
    let file = path(&directory, "t.json");
    record(&file, &[], &programs[1]);
    let summary = text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
    assert!(!summary.contains("\nprofiled") && summary.contains("TLB misses"), "{summary}");
}

#[test]
fn small_trace_keeps_the_last_events_and_says_what_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let file = path(&directory, "t.pftrace");
    let output = record(&file, &["--trace-size", "16K"], &["vector-add"]);
    assert!(text(&output.stderr).contains("--trace-size"), "{}", text(&output.stderr));
    let summary = text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
    assert!(summary.contains("incomplete"), "{summary}");
}

#[test]
fn full_disk_does_not_change_the_program_and_is_said() {
    let output = record(Path::new("/dev/full"), &[], &["vector-add", "1024"]);
    assert!(text(&output.stdout).contains("verified"));
    assert!(text(&output.stderr).contains("/dev/full"), "{}", text(&output.stderr));
}

#[test]
fn ring_of_a_killed_process_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let (file, ring) = (path(&directory, "t.pftrace"), path(&directory, "t.pftrace.ring"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args([
            "run",
            "--mode",
            "hosted",
            "--timeout",
            "60",
            "--trace",
            file.to_str().unwrap(),
            "--",
            // Takes seconds, so that it is killed before it ends.
            "gemm",
            "2048",
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let summary = || belfry(&["trace", "summary", ring.to_str().unwrap()]);
    let end = Instant::now() + Duration::from_secs(60);
    while !text(&summary().stdout).contains("gemm") && Instant::now() < end {
        if child.try_wait().unwrap().is_some() {
            break;
        }
    }
    let _ = child.kill();
    child.wait().unwrap();
    let output = summary();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("gemm"), "{}", text(&output.stdout));
}

#[test]
fn server_that_a_signal_ends_has_written_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let (file, socket) = (path(&directory, "t.json"), path(&directory, "socket"));
    let mut server = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args(["serve", "--socket", socket.to_str().unwrap(), "--trace", file.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let end = Instant::now() + Duration::from_secs(60);
    while !socket.exists() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let server_id = rustix::process::Pid::from_child(&server);
    rustix::process::kill_process(server_id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(128 + 15));
    let summary = text(&succeed(&["trace", "summary", file.to_str().unwrap()]).stdout);
    assert!(summary.contains("events in"), "{summary}");
    assert!(!path(&directory, "t.json.ring").exists());
}

#[test]
fn files_that_are_no_traces_are_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let whole = path(&directory, "whole.pftrace");
    record(&whole, &[], &["vector-add", "1024"]);
    let whole = std::fs::read(whole).unwrap();
    let cases: [(&str, &[u8], &str); 6] = [
        ("empty", b"", "empty"),
        ("text", b"hello", "no trace of belfry's"),
        ("json", b"{\"format\": \"other\"}", "no trace of belfry's"),
        ("cut.json", b"{\"format\": \"bel", "truncated or damaged"),
        ("cut.pftrace", &whole[..whole.len() - 7], "truncated or damaged"),
        ("cut.ring", b"BELTRC01", "truncated or damaged"),
    ];
    for (name, bytes, why) in cases {
        let file = path(&directory, name);
        std::fs::write(&file, bytes).unwrap();
        let output = belfry(&["trace", "summary", file.to_str().unwrap()]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{name}: {said}");
        assert!(said.contains(why) && said.contains(name), "{name}: {said}");
    }
    let missing = belfry(&["trace", "svg", "/nowhere/t.pftrace"]);
    assert!(text(&missing.stderr).contains("/nowhere/t.pftrace"));
}
