//! The commands of README.md, as a newcomer enters them: in order, in one folder, with its examples.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use belfry_image::{Cache, Freshness, Progress, tools};
use belfry_tests::suite;
use rustix::process::{Pid, Signal, kill_process};

/// A clone's way to start the binary; the tests start the one that cargo has built beside them.
const BELFRY: &str = "cargo run --release --";
/// README's whole test command, which runs this file.
const TESTS: &str = "cargo test --workspace";

fn workspace() -> PathBuf {
    fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

/// Command lines in README's blocks of code, without comments.
fn commands() -> Vec<String> {
    let text = fs::read_to_string(workspace().join("README.md")).unwrap();
    // Blocks alternate with text; a block that names no program shows output.
    text.split("```")
        .skip(1)
        .step_by(2)
        .flat_map(str::lines)
        .filter(|line| line.starts_with("cargo ") || line.starts_with("clang-"))
        .map(|line| line.split(" # ").next().unwrap_or(line).trim().to_owned())
        .collect()
}

/// A folder with the repository's examples.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let examples = folder.path().join("examples");
    fs::create_dir(&examples).unwrap();
    for entry in fs::read_dir(workspace().join("examples")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), examples.join(entry.file_name())).unwrap();
    }
    folder
}

/// Program and arguments of a command line.
fn command_of(line: &str, folder: &Path) -> Command {
    let (program, arguments) = match line.strip_prefix(BELFRY) {
        Some(arguments) => (suite::belfry().unwrap(), arguments),
        None => {
            let (program, arguments) = line.split_once(' ').unwrap();
            let programs = tools::llvm(&Cache::open().unwrap(), Freshness::Cached, &Progress::new()).unwrap();
            (programs.join(program), arguments)
        }
    };
    let mut command = Command::new(program);
    command.args(arguments.split_whitespace()).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs a command line to its end and returns its output.
fn enter(line: &str, folder: &Path) -> String {
    let output = command_of(line, folder).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{line}: {}\n{said}", output.status);
    said
}

/// Starts a server, reads its first lines up to the one for QEMU, and ends it.
fn serve(line: &str, folder: &Path) -> String {
    let mut server = command_of(line, folder).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let device = lines.map(Result::unwrap).find(|line| line.contains("-device"));
    kill_process(Pid::from_child(&server), Signal::TERM).unwrap();
    server.wait().unwrap();
    device.unwrap_or_else(|| panic!("{line} has printed no -device"))
}

#[test]
fn every_command_of_readme_works_as_it_stands() {
    let folder = folder();
    let socket = folder.path().join("gpu.sock");
    let mut expected = Vec::new();
    for line in commands().into_iter().filter(|line| line != TESTS) {
        // The server's socket gets a name that no other run has.
        let entered = line.replace("/tmp/gpu.sock", socket.to_str().unwrap());
        let arguments = line.strip_prefix(BELFRY).unwrap_or("compiler").trim();
        let (wanted, said) = match arguments.split(' ').next().unwrap() {
            "serve" => ("vfio-user-pci", serve(&entered, folder.path())),
            "compiler" => ("", enter(&entered, folder.path())),
            "disasm" => ("s_endpgm", enter(&entered, folder.path())),
            _ if arguments == "run" => ("1048576 floats verified", enter(&entered, folder.path())),
            _ if arguments.contains("rocminfo") => ("gfx1100", enter(&entered, folder.path())),
            _ if arguments.contains("hipcc") => ("", enter(&entered, folder.path())),
            _ if arguments.contains("./vadd") => {
                ("1048576 sums are right on gfx1100", enter(&entered, folder.path()))
            }
            _ if arguments.contains("launch") => ("argument 0", enter(&entered, folder.path())),
            _ => panic!("{line}: say here which output it must have"),
        };
        assert!(said.contains(wanted), "{line}: no {wanted:?} in\n{said}");
        expected.push(wanted);
    }
    // A README whose blocks are not found would pass without running anything.
    assert!(expected.len() >= 9, "{expected:?}");
    let result = fs::read(folder.path().join("result.bin")).unwrap();
    let floats: Vec<f32> =
        result.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
    let scaled: Vec<f32> = (0..1024).map(|index| index as f32 * 1.5).collect();
    assert_eq!(floats, scaled);
}
