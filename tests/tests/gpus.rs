//! `belfry run --gpus` in QEMU: guests with several functions, whose driver binds to each.

use std::process::Command;
use std::time::Duration;

use belfry_tests::suite::process::run;
use belfry_tests::suite::{self, Ended};

/// Time limit of one guest; far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);

#[test]
fn programs_of_guests_reach_the_memory_of_each_gpu() {
    let folder = tempfile::tempdir().unwrap();
    for (chip, links) in [("gfx1100", "pcie"), ("gfx942", "xgmi")] {
        let trace = folder.path().join(format!("{chip}.json"));
        let mut command = Command::new(suite::belfry().unwrap());
        command.args(["run", "--mode", "qemu", "--gpus", "2", "--chip", chip, "--links", links]);
        command.arg("--trace").arg(&trace).args(["--", "peers", "3001"]);
        let outcome = run(command, LIMIT).unwrap();
        let said = format!("{chip}, {links}: {}{}", outcome.stdout, outcome.stderr);
        assert_eq!(outcome.ended, Ended::Status(0), "{said}");
        assert!(outcome.stdout.contains("peers: 2 GPUs"), "{said}");
        let trace: serde_json::Value = serde_json::from_slice(&std::fs::read(&trace).unwrap()).unwrap();
        let events = trace["events"].as_array().unwrap();
        let dispatches = [0, 1].map(|gpu| {
            let is_one = |event: &&serde_json::Value| {
                event["event"] == "dispatch start" && event["gpu"].as_u64().unwrap_or(0) == gpu
            };
            events.iter().filter(is_one).count()
        });
        assert_eq!(dispatches, [5, 5], "{said}");
        assert!(events.iter().any(|event| event["event"] == "ioctl enter"), "the driver is there: {said}");
    }
}
