//! `belfry matrix` as a user runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const FILE: &str = r#"
title = "Three <ends>"
limit = "100s"
memory = "1M"

[[program]]
name = "vector-add"
run = ["vector-add", "1024"]
mode = "hosted"
chip = ["gfx1100", "gfx1201", "gfx942"]
seed = [0, 1]
absent = [{ chip = "gfx1201", why = "left out" }]

[[program]]
name = "wrong"
run = ["racy:missing-barrier"]
mode = "hosted"
options = ["--schedule", "nonsense"]

[[program]]
name = "process"
run = ["sh", "-c", "echo from the program; exit 3"]
expect = 3
"#;

fn belfry(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).current_dir(folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn matrix_runs_reports_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("m.toml"), FILE).unwrap();
    let run = |more: &[&str]| {
        let output = belfry(folder, &[&["matrix", "m.toml", "--json"], more].concat());
        let json: Value =
            serde_json::from_str(&text(&output.stdout)).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        assert_eq!(output.status.code(), Some(1), "{json:#}");
        json
    };
    let count =
        |json: &Value| ["passed", "failed", "absent", "missing"].map(|end| json[end].as_u64().unwrap());

    let first = run(&["--shard", "1/2"]);
    assert_eq!(count(&first).iter().sum::<u64>(), 4, "{first:#}");
    let gathered = run(&["--gather"]);
    assert_eq!(count(&gathered).iter().sum::<u64>(), 8);
    assert_eq!(gathered["missing"], 4, "the other shard has not run: {gathered:#}");

    let all = run(&["--junit", "r.xml", "--html", "r.html"]);
    assert_eq!(count(&all), [5, 1, 2, 0], "{all:#}");
    let cells = all["cells"].as_array().unwrap();
    let kept = cells.iter().filter(|cell| cell["kept"] == true).count() as u64;
    assert_eq!(kept, first["passed"].as_u64().unwrap(), "those that passed do not run again: {all:#}");
    let process = &cells[7]["result"];
    assert_eq!((&process["outcome"], &process["output"]), (&"passed".into(), &"from the program\n".into()));
    assert!(cells[6]["result"]["why"].as_str().unwrap().starts_with("exit status "), "{all:#}");

    let junit = fs::read_to_string(folder.join("r.xml")).unwrap();
    assert!(junit.contains("tests=\"8\" failures=\"1\" errors=\"0\" skipped=\"2\""), "{junit}");
    let page = fs::read_to_string(folder.join("r.html")).unwrap();
    assert!(
        page.contains("<h1>Three &lt;ends&gt;</h1>") && page.contains("5 passed, 1 failed, 2 absent"),
        "{page}"
    );
}

/// Stands in for Slurm: it runs the tasks of an array one after the other, and loses one of them the first time.
const SBATCH: &str = r#"#!/bin/sh
for script; do :; done
tasks=$(sed -n 's/^#SBATCH --array=\([0-9,]*\).*/\1/p' "$script" | tr , ' ')
echo "$*: $tasks" >>"$LIST"
for task in $tasks; do
    if [ "$task" = 4 ] && [ ! -e "$LIST.died" ]; then
        touch "$LIST.died"
        continue
    fi
    SLURM_ARRAY_TASK_ID=$task sh "$script"
done
echo "Submitted batch job 1"
"#;

#[test]
fn slurm_runs_the_cells_and_those_of_a_node_that_died_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("m.toml"), FILE).unwrap();
    fs::write(folder.join("sbatch"), SBATCH).unwrap();
    fs::set_permissions(folder.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::join_paths(
        [folder.to_owned()].into_iter().chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args([
            "matrix",
            "m.toml",
            "--engine",
            "slurm",
            "--sbatch=--partition=short",
            "--no-records",
            "--out",
            "o",
        ])
        .current_dir(folder)
        .env("PATH", path.unwrap())
        .env("LIST", folder.join("list"))
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("5 passed, 1 failed, 2 absent;"), "{said}{}", text(&output.stderr));
    let list = fs::read_to_string(folder.join("list")).unwrap();
    let tasks: Vec<&str> = list.lines().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    assert_eq!(tasks, ["0 1 4 5 6 7", "4"], "{list}");
    assert!(list.contains("--wait --partition=short "), "{list}");
}

#[test]
fn mistakes_are_named_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    fs::write(folder.join("m.toml"), FILE).unwrap();
    for (arguments, part) in [
        (&["matrix", "missing.toml"][..], "missing.toml"),
        (&["matrix", "m.toml", "--html", "/nonexistent/r.html"], "/nonexistent/r.html"),
        (&["matrix", "m.toml", "--engine", "slurm"], "sbatch: "),
        (&["matrix", "m.toml", "--out", "m.toml"], "m.toml: "),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .args(arguments)
            .current_dir(folder)
            .env("PATH", "/nonexistent")
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        let said = text(&output.stderr);
        assert!(said.contains(part), "{arguments:?}: {said}");
    }
    let output =
        belfry(folder, &["matrix", "m.toml", "--emit", "kubernetes", "--container-image", "belfry:1"]);
    let list: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(list["items"][2]["spec"]["completions"], 8);
    let words =
        ["matrix", "m.toml", "--emit", "kubernetes", "--container-image", "belfry:1", "--into", "job"];
    assert!(belfry(folder, &words).stdout.is_empty());
    let written: Value = serde_json::from_slice(&fs::read(folder.join("job/matrix.yaml")).unwrap()).unwrap();
    assert_eq!(written, list);
    let kustomization = fs::read_to_string(folder.join("job/kustomization.yaml")).unwrap();
    assert!(kustomization.contains("- matrix.yaml"), "{kustomization}");
}
