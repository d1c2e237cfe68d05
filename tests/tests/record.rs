//! A guest whose GPU is recorded: the device does the same again without it.

use std::process::{Command, Stdio};

use belfry_tests::suite;

#[test]
fn guest_in_qemu_is_recorded_and_its_gpu_replayed() {
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
    let said = run(&["run", "--mode", "qemu", "--record", "r", "--", "vector-add"]);
    assert!(said.contains("belfry: recorded"), "{said}");
    let said = run(&["replay", "--times", "3", "r"]);
    assert!(said.contains("the same, 3 times"), "{said}");
    let said = run(&["replay", "--until", "interrupt:1", "r"]);
    assert!(said.contains("interrupt vector="), "{said}");
}
