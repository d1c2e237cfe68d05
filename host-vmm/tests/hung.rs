//! Programs that do not end: the work that is on the GPU is reported.

use std::process::Command;

const ENDLESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/endless.gfx1100.hsaco");

#[test]
fn program_that_does_not_end_is_told_with_the_waves_on_the_gpu() {
    for mode in ["hosted", "qemu"] {
        let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .args(["run", "--mode", mode, "--timeout", "3", "--", "launch", ENDLESS, "--kernel", "endless"])
            .args(["--grid", "128", "--block", "64", "--arg", "buf:u32:4:zero"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        for part in [
            "4 waves are on the GPU, 0 workgroups have not begun",
            "workgroup (1, 0, 0), wave 1: ",
            "behind the kernel's entry: s_",
        ] {
            assert!(said.contains(part), "{mode}: {said}");
        }
    }
}
