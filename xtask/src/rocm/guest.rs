//! ROCm's rocminfo and the suites in a guest under QEMU's translator, and their results there.

use std::process::Command;

use super::Runner;
use super::plan::{Image, Place, Step};
use super::verdict::{Counts, Expected};

/// First word of the names of the steps.
const NAME: &str = "guest";
/// ROCm of Debian's sid, which knows every chip.
const IMAGE: &str = "rocm-sid";
/// Results of the suites on a chip with image instructions, and on one without: passed, failed and absent cases
/// (docs/exec-suite.md has the reasons of absent ones).
const SUITES: [(&str, [u64; 3], [u64; 3]); 3] = [
    ("hip-suite", [233, 0, 0], [232, 0, 1]),
    ("hsa-suite", [85, 0, 1], [85, 0, 1]),
    ("opencl-suite", [29, 0, 1], [28, 0, 2]),
];
/// The chip without image instructions.
const WITHOUT_IMAGES: &str = "gfx942";
/// Seconds for a guest.
const LIMIT: u32 = 7200;
/// As much VRAM as `belfry exec` gives.
const VRAM: &str = "1G";

/// Returns true if a part of a step's name is one of these steps'.
pub(super) fn has(only: &str) -> bool {
    only.starts_with(NAME)
}

/// One guest for each step, on a chip of this name.
pub(super) fn image(chip: &str) -> Image {
    let step = |program: &str, expected| Step {
        name: format!("{NAME} {program}"),
        command: vec![program.to_owned()],
        limit: LIMIT,
        place: Place::Guest,
        expected: Some(expected),
    };
    let suites = SUITES.map(|(program, with, without)| {
        let [passed, failed, skipped] = if name(chip) == WITHOUT_IMAGES { without } else { with };
        step(program, Expected::Cases(Counts { passed, failed, skipped }))
    });
    let mut steps = vec![step("rocminfo", Expected::Word(name(chip).to_owned()))];
    steps.extend(suites);
    Image { name: IMAGE, packages: None, alone: None, steps, lists: None }
}

/// The name of a chip, without its shape.
pub(super) fn name(chip: &str) -> &str {
    chip.split(':').next().unwrap_or_default()
}

/// Command that runs a step; the step's program is still to be added.
pub(super) fn command(runner: &Runner, step: &Step) -> Command {
    let limit = step.limit.to_string();
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit]).arg(&runner.belfry);
    command.args(["run", "--mode", "qemu", "--image", IMAGE, "--chip", &runner.chip]);
    command.args(["--driver", &runner.driver, "--vram", VRAM, "--timeout", &limit, "--"]);
    command
}
