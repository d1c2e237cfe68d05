//! The recipes of `docs/ci.md`, as far as they run without the service that they are for: the commands of the two files of CI
//! services, CTest's launcher and cargo's runner.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use super::root::Root;

/// Commands of a recipe for one value of its matrix.
struct Job {
    chip: String,
    commands: Vec<String>,
}

/// Runs the commands of `docs/ci/*.yml` in a root with ROCm that has belfry, in a folder with the program that they compile.
pub(super) fn services(tree: &Path, root: &Root) -> Result<()> {
    for (name, jobs) in [("github.yml", github as fn(&Value) -> _), ("gitlab.yml", gitlab)] {
        let path = tree.join("docs/ci").join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let file: Value = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let jobs: Vec<Job> =
            jobs(&file).with_context(|| format!("{name} has no jobs of the shape that is tried"))?;
        for Job { chip, commands } in &jobs {
            let folder = format!("/project/{name}-{chip}");
            let inside = root.folder(folder.trim_start_matches('/'))?;
            fs::copy(tree.join("docs/ci/vadd.hip"), inside.join("vadd.hip"))?;
            let variable = format!("CHIP={chip}");
            let mut said = String::new();
            for command in commands {
                said += &root.run(&folder, &["env", &variable, "sh", "-ec", command])?;
            }
            ensure!(said.matches("sums are right").count() == 2, "{name}: {said}");
            let findings = fs::read_to_string(inside.join("findings.xml"))?;
            ensure!(findings.contains("<testsuite") && !findings.contains("<failure"), "{name}: {findings}");
        }
        let commands: usize = jobs.iter().map(|job| job.commands.len()).sum();
        say!("docs/ci/{name}: its {commands} commands ran, on {} chips", jobs.len());
    }
    Ok(())
}

fn github(file: &Value) -> Option<Vec<Job>> {
    let job = &file["jobs"]["gpu"];
    let steps = job["steps"].as_array()?;
    let run: Vec<&str> = steps.iter().filter_map(|step| step["run"].as_str()).collect();
    let chips = job["strategy"]["matrix"]["chip"].as_array()?.iter();
    chips
        .map(|chip| {
            let chip = chip.as_str()?.to_owned();
            let commands = run.iter().map(|run| run.replace("${{ matrix.chip }}", &chip)).collect();
            Some(Job { chip, commands })
        })
        .collect()
}

fn gitlab(file: &Value) -> Option<Vec<Job>> {
    let job = &file["gpu"];
    let script = job["script"].as_array()?.iter().map(|line| line.as_str().map(str::to_owned));
    let commands: Vec<String> = script.collect::<Option<_>>()?;
    let chips = job["parallel"]["matrix"][0]["CHIP"].as_array()?.iter();
    chips.map(|chip| Some(Job { chip: chip.as_str()?.to_owned(), commands: commands.clone() })).collect()
}

/// A program that needs a GPU of the chip in its argument: it looks for the file of KFD, and for the chip's version.
const PROGRAM: &str = "#include <stdio.h>
#include <string.h>
int main(int count, char **arguments)
{
    char line[256];
    FILE *file = fopen(\"/sys/class/kfd/kfd/topology/nodes/1/properties\", \"r\");
    while (file && fgets(line, sizeof line, file))
        if (count == 2 && !strncmp(line, \"gfx_target_version \", 19) && !strncmp(line + 19, arguments[1], strlen(arguments[1])))
            return 0;
    return 1;
}
";

/// Runs a test by CTest with belfry as its launcher.
pub(super) fn ctest(belfry: &Path, scratch: &Path) -> Result<()> {
    let folder = scratch.join("ctest");
    fs::create_dir(&folder)?;
    fs::write(folder.join("gpu.c"), PROGRAM)?;
    fs::write(
        folder.join("CMakeLists.txt"),
        "cmake_minimum_required(VERSION 3.20)\nproject(gpu C)\nenable_testing()\nadd_executable(gpu gpu.c)\n\
         add_test(NAME there COMMAND gpu 90402)\nadd_test(NAME another COMMAND gpu 110000)\n",
    )?;
    let launcher = format!("{};exec;--quiet;--chip;gfx942;--", belfry.display());
    let run = |program: &str, arguments: &[&str]| -> Result<(bool, String)> {
        let mut command = Command::new(program);
        let output =
            command.current_dir(&folder).args(arguments).env("BELFRY_CACHE", scratch.join("cache")).output();
        let output = output.with_context(|| format!("starting {program}: apt install cmake"))?;
        let text = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    };
    let emulator = format!("-DCMAKE_CROSSCOMPILING_EMULATOR={launcher}");
    for arguments in
        [&["-DCMAKE_SYSTEM_NAME=Linux", &emulator, "-B", "build", "."][..], &["--build", "build"]]
    {
        let (good, said) = run("cmake", arguments)?;
        ensure!(good, "cmake {arguments:?}: {said}");
    }
    let (_, said) = run("ctest", &["--test-dir", "build"])?;
    let told = |name: &str, end: &str| {
        said.lines().any(|line| line.contains(&format!(": {name} ")) && line.contains(end))
    };
    if !told("there", "Passed") || !told("another", "Failed") {
        bail!("{said}");
    }
    say!("CTest: a test that needs a gfx942 passed, and one that needs a gfx1100 failed");
    Ok(())
}

/// Runs a test of a crate by cargo with belfry as its runner.
pub(super) fn cargo(belfry: &Path, scratch: &Path) -> Result<()> {
    let folder: PathBuf = scratch.join("crate");
    fs::create_dir_all(folder.join("src"))?;
    fs::write(folder.join("Cargo.toml"), "[package]\nname = \"gpu\"\nedition = \"2024\"\n[workspace]\n")?;
    fs::write(
        folder.join("src/lib.rs"),
        "#[test]\nfn there() {\n    let nodes = \"/sys/class/kfd/kfd/topology/nodes\";\n    \
         assert_eq!(std::fs::read_dir(nodes).unwrap().count(), 3);\n}\n",
    )?;
    let mut command = Command::new(env!("CARGO"));
    command.args(["test", "--quiet", "--lib", "--offline"]).current_dir(&folder);
    command.env("CARGO_TARGET_DIR", folder.join("target")).env("BELFRY_CACHE", scratch.join("cache"));
    let runner = format!("{} exec --quiet --gpus 2 --", belfry.display());
    let output = command.env("CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER", runner).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    say!("cargo: a test that needs two GPUs passed");
    Ok(())
}
