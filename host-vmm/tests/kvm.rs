//! `belfry run --mode kvm` as a user runs it; needs a /dev/kvm that can be used.

use std::process::{Command, Output};

use serde_json::Value;

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

#[test]
fn bare_metal_guest_verifies_and_is_summed_up() {
    for doorbell in ["trapped", "ioeventfd", "adaptive"] {
        let arguments = ["run", "--mode", "kvm", "--guest", "bare-metal", "--doorbell", doorbell, "--json"];
        let output = belfry(&arguments);
        let (stdout, stderr) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
        assert!(stderr.contains("verified"), "{stderr}");
        let summary: Value = serde_json::from_str(&stdout).unwrap();
        for (field, value) in [
            ("mode", Value::from("kvm")),
            ("program", "bare-metal".into()),
            ("exit_status", 0.into()),
            ("dispatches", 16.into()),
            ("interrupts", 16.into()),
        ] {
            assert_eq!(summary[field], value, "{field} of {stdout}");
        }
        // Four hundred rings of the process; one value found in memory may stand for several rings.
        let count = |way: &str| summary["doorbells"][way].as_u64().unwrap();
        let ways = (count("trapped"), count("woken"), count("polled"));
        match doorbell {
            "trapped" => assert_eq!(ways, (406, 0, 0)),
            "ioeventfd" => assert_eq!(ways, (6, 400, 0)),
            _ => assert!(ways.0 > 6 && ways.0 < 406 && ways.1 == 0 && ways.2 > 0, "{ways:?}"),
        }
        assert!(summary["errors"].as_object().unwrap().is_empty(), "{stdout}");
    }
}

#[test]
fn bare_metal_guest_is_recorded_and_its_gpu_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("record");
    let file = file.to_str().unwrap();
    let run = ["run", "--mode", "kvm", "--guest", "bare-metal", "--json"];
    let output = belfry(&[&run[..], &["--record", file]].concat());
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert!(stderr.contains("verified") && stderr.contains("belfry: recorded"), "{stderr}");
    let summary: Value = serde_json::from_str(&stdout).unwrap();
    // Every ring is a call.
    assert_eq!(summary["doorbells"]["trapped"], 406, "{stdout}");
    let replay = |arguments: &[&str]| {
        let output = belfry(&[&["replay"][..], arguments, &[file]].concat());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
        said
    };
    assert!(replay(&["--times", "3"]).contains("the same, 3 times"));
    let back = |checkpoints| {
        let said = replay(&["--until", "interrupt:16", "--back", "30", "--checkpoints", checkpoints]);
        said.lines().next().unwrap().to_owned()
    };
    assert_eq!(back("512M"), back("0"));
    // A guest that is stopped leaves a whole record, too.
    let stopped = belfry(&[&run[..], &["--timeout", "0", "--record", file]].concat());
    let said = String::from_utf8_lossy(&stopped.stderr);
    assert!(stopped.status.code() == Some(125) && said.contains("belfry: recorded"), "{said}");
    assert!(replay(&[]).contains("the same"));
    // A full disk ends the record, and not the run.
    let full = belfry(&[&run[..], &["--record", "/dev/full"]].concat());
    let said = String::from_utf8_lossy(&full.stderr);
    assert!(full.status.code() == Some(0) && said.contains("/dev/full ends early"), "{said}");
}

#[test]
fn what_the_machine_does_not_do_is_said() {
    for (arguments, expected) in [
        (&["run", "--guest", "bare-metal"][..], "--mode kvm only"),
        (&["run", "--mode", "kvm", "--doorbell", "polled"], "adaptive"),
        (&["run", "--mode", "qemu", "--doorbell", "ioeventfd"], "polled"),
        (&["run", "--mode", "kvm", "--record", "/dev/null", "--doorbell", "adaptive"], "trapped alone"),
        (&["run", "--mode", "kvm", "--record", "/dev/null", "--doorbell", "ioeventfd"], "--record"),
        (&["run", "--mode", "kvm", "--record", "/dev/null", "--warm"], "--warm"),
        (&["run", "--from", "/nowhere/snapshot", "--record", "/dev/null"], "--record"),
        (&["run", "--mode", "qemu", "--huge-pages"], "--mode kvm"),
        (&["run", "--mode", "qemu", "--huge-pages=reserved"], "--mode kvm"),
        (&["run", "--mode", "hosted", "--memory", "1G"], "--mode qemu"),
        (&["run", "--mode", "kvm", "--guest", "bare-metal", "--cpus", "2"], "no other machine"),
        (&["run", "--mode", "kvm", "--guest", "bare-metal", "--doorbell", "polled"], "adaptive"),
        (&["run", "--mode", "kvm", "--guest", "bare-metal", "--", "vector-add"], "no program"),
        (&["run", "--mode", "kvm", "--guest", "bare-metal", "--vram", "3M"], "VRAM"),
    ] {
        let output = belfry(arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(expected), "{arguments:?}: {stderr}");
    }
}

#[test]
fn guest_that_takes_too_long_is_stopped() {
    let output = belfry(&["run", "--mode", "kvm", "--guest", "bare-metal", "--timeout", "0"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{stderr}");
    assert!(stderr.contains("stopped after"), "{stderr}");
}

/// Checks `{min, median, p99, samples}`; the median.
fn summary(value: &Value, samples: u64) -> f64 {
    let number = |field: &str| value[field].as_f64().unwrap_or_else(|| panic!("no {field} in {value}"));
    let (min, median, p99) = (number("min"), number("median"), number("p99"));
    assert!(0.0 <= min && min <= median && median <= p99, "{value}");
    assert_eq!(value["samples"], samples, "{value}");
    median
}

#[test]
fn machine_is_measured_in_every_way_doorbells_travel() {
    const SAMPLES: u64 = 20;
    let output = belfry(&["bench", "vmm", "--json", "--samples", &SAMPLES.to_string()]);
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let results: Value = serde_json::from_str(&stdout).unwrap();
    for exit in ["port_write_ns", "mmio_write_ns", "mmio_read_ns", "ioeventfd_ns"] {
        summary(&results["exit"][exit], SAMPLES);
    }
    let doorbell = &results["doorbell"];
    summary(&doorbell["plain_store_ns"], 3 * SAMPLES);
    for mode in ["trapped", "ioeventfd", "adaptive"] {
        let mode = &doorbell[mode];
        for series in ["ring_ns", "plain_store_ns", "to_signal_ns", "to_isr_ns"] {
            summary(&mode[series], SAMPLES);
        }
        // Each doorbell was seen, or is counted as one that was not.
        let unseen = mode["unseen"].as_u64().unwrap();
        summary(&mode["to_cp_ns"], SAMPLES - unseen);
    }
    let boot = &results["boot"];
    let phases = |guest: &Value, names: &[&str]| {
        let reached: Vec<f64> = names.iter().map(|phase| guest[phase].as_f64().unwrap()).collect();
        assert!(reached.is_sorted() && reached[0] > 0.0, "{guest}");
    };
    phases(&boot["bare_metal"], &["kernel_ms", "driver_ms", "dispatch_ms"]);
    // Either there are figures of Debian, or it says why not.
    match &boot["why_no_debian"] {
        Value::Null => phases(&boot["debian"], &["kernel_ms", "init_ms", "driver_ms", "dispatch_ms"]),
        why => assert!(boot["debian"].is_null() && !why.as_str().unwrap().is_empty(), "{boot}"),
    }
    assert_eq!(results["samples"], SAMPLES);
    assert!(results["machine"]["tsc_mhz"].as_f64().unwrap() > 100.0, "{}", results["machine"]);
}

#[test]
fn numbers_of_samples_out_of_range_are_refused() {
    for samples in ["0", "20001"] {
        let output = belfry(&["bench", "vmm", "--samples", samples]);
        assert_eq!(output.status.code(), Some(125));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains("must be 1 to 20000"), "{stderr}");
    }
}
