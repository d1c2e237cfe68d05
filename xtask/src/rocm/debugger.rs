//! The debugger's cases: AMD's ROCdbgapi as Debian's sid packages it, and programs that it debugs, in a guest under QEMU and under
//! `belfry exec --debuggable`.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::plan::{Image, Place, Step};
use super::{Runner, guest};

/// The name of the step in a guest, and of the image.
const NAME: &str = "debugger";
/// The name of the same without a guest.
const WITHOUT_GUEST: &str = "debugger-exec";
/// The library, and its header.
const PACKAGES: &str = "librocm-dbgapi0 amd-dbgapi-dev";
/// Directory of the sources.
const SOURCES: &str = "tests/programs/debugger";
/// Commands that make the programs: the first one, which also needs the chip's name, is debugged by the
/// second.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("debugged", &["hipcc", "-g", "-O1", "debugged.hip", "-o"]),
    (
        "cases",
        &[
            "clang",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "cases.c",
            "session.c",
            "waves.c",
            "-lrocm-dbgapi",
            "-o",
        ],
    ),
];
/// Seconds for all cases; each case has a limit of its own.
const LIMIT: u32 = 7200;

/// Returns true if a name is that of one of the steps.
pub(super) fn has(name: &str) -> bool {
    [NAME, WITHOUT_GUEST].contains(&name)
}

pub(super) fn image() -> Image {
    Image {
        name: NAME,
        packages: Some(("rocm-sid", PACKAGES)),
        alone: None,
        steps: [(NAME, Place::DebuggableInGuest), (WITHOUT_GUEST, Place::Debuggable)]
            .map(|(name, place)| Step {
                name: name.to_owned(),
                command: Vec::new(),
                limit: LIMIT,
                place,
                expected: None,
            })
            .into(),
        lists: None,
    }
}

/// Makes the programs with the image's own compilers; the command that runs them.
pub(super) fn command(runner: &Runner, root: &Path, step: &Step) -> Result<Command> {
    let folder = runner.logs.join(NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let folder = folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))?;
    let architecture = format!("--offload-arch={}", guest::name(&runner.chip));
    for (name, compile) in PROGRAMS {
        let status = runner
            .exec(NAME, 300)
            .args(compile)
            .arg(folder.join(name))
            .args((name == "debugged").then_some(&architecture))
            .current_dir(root.join(SOURCES))
            .stdin(Stdio::null())
            .status()
            .context("running timeout")?;
        ensure!(status.success(), "{compile:?} in image {NAME}: {status}");
    }
    let limit = step.limit;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit.to_string()]);
    if step.place == Place::Debuggable {
        command.arg(&runner.belfry).args(["exec", "--quiet", "--debuggable"]);
        command.args(["--chip", &runner.chip, "--image", NAME, "--"]);
        command.args([folder.join("cases"), folder.join("debugged")]);
        return Ok(command);
    }
    command.arg(&runner.belfry).args(["run", "--mode", "qemu", "--image", NAME]);
    command.args(["--chip", &runner.chip, "--timeout", &limit.to_string(), "--share"]);
    command.args([folder.clone().into_os_string(), OsString::from("--")]);
    command.args([folder.join("cases"), folder.join("debugged")]);
    Ok(command)
}
