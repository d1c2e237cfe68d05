//! The debugger's cases: AMD's ROCdbgapi as Debian's sid packages it, and programs that it debugs, in a guest under QEMU.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Runner;
use super::plan::{Image, Place, Step};

/// The name of the step and of its image.
pub(super) const NAME: &str = "debugger";
/// The library, and its header.
const PACKAGES: &str = "librocm-dbgapi0 amd-dbgapi-dev";
/// Where the sources are.
const SOURCES: &str = "tests/programs/debugger";
/// How the programs are made: the first one is debugged by the second.
const PROGRAMS: [(&str, &[&str]); 2] = [
    ("debugged", &["hipcc", "--offload-arch=gfx1100", "-g", "-O1", "debugged.hip", "-o"]),
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
/// Seconds for all cases, of which each has a limit of its own.
const LIMIT: u32 = 7200;

pub(super) fn image() -> Image {
    Image {
        name: NAME,
        packages: Some(("rocm-sid", PACKAGES)),
        alone: None,
        steps: vec![Step { name: NAME.to_owned(), command: Vec::new(), limit: LIMIT, place: Place::Guest }],
        lists: None,
    }
}

/// Makes the programs with the image's own compilers; the command that runs them in a guest.
pub(super) fn command(runner: &Runner, root: &Path, limit: u32) -> Result<Command> {
    let folder = runner.logs.join(NAME);
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let folder = folder.canonicalize().with_context(|| format!("looking for {}", folder.display()))?;
    for (name, compile) in PROGRAMS {
        let status = runner
            .exec(NAME, 300)
            .args(compile)
            .arg(folder.join(name))
            .current_dir(root.join(SOURCES))
            .stdin(Stdio::null())
            .status()
            .context("running timeout")?;
        ensure!(status.success(), "{compile:?} in image {NAME}: {status}");
    }
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", &limit.to_string()]);
    command.arg(&runner.belfry).args(["run", "--mode", "qemu", "--image", NAME]);
    command.args(["--timeout", &limit.to_string(), "--share"]);
    command.args([folder.clone().into_os_string(), OsString::from("--")]);
    command.args([folder.join("cases"), folder.join("debugged")]);
    Ok(command)
}
