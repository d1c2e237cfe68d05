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
        // Four hundred rings of the process; what was found in memory may be several rings at once.
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
fn what_the_machine_does_not_do_is_said() {
    for (arguments, expected) in [
        (&["run", "--guest", "bare-metal"][..], "--mode kvm only"),
        (&["run", "--mode", "kvm", "--doorbell", "polled"], "adaptive"),
        (&["run", "--mode", "qemu", "--doorbell", "ioeventfd"], "polled"),
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
