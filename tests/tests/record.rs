//! A guest whose GPU is recorded: the device does the same again without it.

use std::process::{Command, Stdio};

use belfry_tests::suite;

#[test]
fn guest_is_recorded_and_its_gpu_replayed() {
    let place = tempfile::tempdir().unwrap();
    let belfry = suite::belfry().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&belfry);
        command.args(arguments).current_dir(place.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{arguments:?}: {said}");
        said
    };
    // In QEMU, and wherever a guest can be had.
    for mode in [&["--mode", "qemu"][..], &[]] {
        let said = run(&[&["run", "--record", "r"], mode, &["--", "vector-add"]].concat());
        assert!(said.contains("belfry: recorded"), "{mode:?}: {said}");
        let said = run(&["replay", "--times", "3", "r"]);
        assert!(said.contains("the same, 3 times"), "{mode:?}: {said}");
        let said = run(&["replay", "--until", "interrupt:1", "r"]);
        assert!(said.contains("interrupt vector="), "{mode:?}: {said}");
    }
}
