//! `belfry run --image` and `--root`: unmodified programs in guests that have a root file system, in QEMU's translator.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result};
use belfry_image::rootfs::{self, Root};
use belfry_image::{Cache, Progress};
use belfry_tests::suite::process::{run, run_with_input};
use belfry_tests::suite::verdict::Verdict;
use belfry_tests::suite::{self, Ended, Outcome, Plan, Runner, Test};

/// Time limit of one guest; far more than it needs even on a loaded machine.
const LIMIT: Duration = Duration::from_secs(900);

fn belfry() -> &'static Path {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    BELFRY.get_or_init(|| suite::belfry().unwrap())
}

/// `belfry run --mode qemu OPTIONS -- ARGV` in `directory`.
fn belfry_run(directory: &Path, options: &[&str], argv: &[&str]) -> Result<Outcome> {
    let mut command = Command::new(belfry());
    command.args(["run", "--mode", "qemu"]).args(options).arg("--").args(argv).current_dir(directory);
    run(command, LIMIT)
}

#[track_caller]
fn assert_ended(outcome: &Outcome, status: i32) {
    assert_eq!(outcome.ended, Ended::Status(status), "{}{}", outcome.stdout, outcome.stderr);
}

/// Image `rocm`; programs of the suite are carried in.
struct InImage;

impl Runner for InImage {
    fn run(&self, argv: &[String], _: Duration) -> Result<Outcome> {
        let mut argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let program = Path::new(argv[0]);
        let carried = format!("./{}", program.file_name().context("a program")?.to_string_lossy());
        let directory = match program.parent().filter(|_| program.is_absolute()) {
            Some(directory) => {
                argv[0] = &carried;
                directory
            }
            None => Path::new("/"),
        };
        belfry_run(directory, &["--image", "rocm"], &argv)
    }
}

#[test]
fn unmodified_rocm_programs_use_the_gpu_of_image_rocm() {
    let progress = Progress::new();
    let plan = Plan::new().unwrap();
    let cases = ["tools::rocminfo", "hip::saxpy_of_a_million", "opencl::vector_add"];
    let wanted: Vec<&Test> = cases
        .iter()
        .map(|name| plan.tests.iter().find(|test| test.name == *name).unwrap_or_else(|| panic!("no {name}")))
        .collect();
    let tree = rootfs::rocm(&progress).unwrap();
    let ready = plan.prepare(wanted.iter().copied(), &tree, &progress).unwrap();
    for test in wanted {
        match ready.run(test, &InImage, LIMIT) {
            Ok(Verdict::Passed) => {}
            other => panic!("{}: {other:?}", test.name),
        }
    }
}

/// Checks the surroundings that programs expect, leaves an orphan, writes into the root file system, and fails.
const LOOK: &str = r#"#!/bin/bash
set -e
test "$*" = "a b c" -a $# = 2 -a "$PWD" = /root -a "$HOME" = /root -a "$TERM" = test-terminal
for file in /dev/kfd /dev/dri/renderD128 /dev/null; do test -c $file; done
test "$(cat <(echo substitution))" = substitution
test "$(stat -c %a /tmp /dev/shm | tr '\n' ' ')" = "1777 1777 "
python3 -c 'import os; assert os.ttyname(os.openpty()[1]).startswith("/dev/pts/")'
python3 -c 'import multiprocessing; multiprocessing.Lock()'
python3 -c 'import socket; s = socket.create_server(("localhost", 0)); socket.create_connection(s.getsockname())'
test "$(cat brought)" = along
test ! -e /usr/bin/written
echo something > /usr/bin/written
test "$(cat /usr/bin/written)" = something
dd if=/dev/zero of=/var/tmp/room bs=1M count=64 2>/dev/null
(sleep 0.2 &)
echo to stdout
echo to stderr >&2
exit 42
"#;

#[test]
fn programs_find_what_they_expect_and_what_they_write_is_forgotten() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("look"), LOOK).unwrap();
    fs::write(directory.path().join("file"), "along").unwrap();
    // The second guest would find the first one's writes.
    for _ in 0..2 {
        let mut command = Command::new(belfry());
        command
            .args(["run", "--mode", "qemu", "--image", "rocm", "--json", "--file", "file:brought", "--"])
            .args(["./look", "a b", "c"])
            .env("TERM", "test-terminal")
            .current_dir(directory.path());
        let outcome = run(command, LIMIT).unwrap();
        assert_ended(&outcome, 42);
        let summary: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!((&summary["root"], &summary["exit_status"]), (&"rocm".into(), &42.into()), "{summary}");
        // Beside a summary on stdout, the program's output is on stderr.
        for line in ["to stdout\n", "to stderr\n"] {
            assert!(outcome.stderr.contains(line), "{}", outcome.stderr);
        }
    }
}

#[test]
fn shared_folders_are_this_machines_under_the_same_path() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (open, closed) = (place("open"), place("closed"));
    for folder in [&open, &closed] {
        fs::create_dir(folder).unwrap();
        fs::write(format!("{folder}/input"), "from this machine\n").unwrap();
    }
    let script = format!(
        "set -e; cat {open}/input {closed}/input; cp {open}/input {open}/output; cp /bin/true {open}; {open}/true
         ! touch {closed}/output"
    );
    let shares = ["--image", "rocm", "--share", &open, "--share", &format!("{closed}:ro")];
    let outcome = belfry_run(directory.path(), &shares, &["bash", "-c", &script]).unwrap();
    assert_ended(&outcome, 0);
    assert!(outcome.stdout.starts_with("from this machine\nfrom this machine\n"), "{}", outcome.stdout);
    assert_eq!(fs::read_to_string(format!("{open}/output")).unwrap(), "from this machine\n");
    assert!(outcome.stderr.contains("Read-only file system"), "{}", outcome.stderr);
    assert_eq!(fs::read_dir(&closed).unwrap().count(), 1);
}

/// Typed lines: the shell has a terminal of its own with job control, and ends with a status.
const TYPED: &str = "test -t 0 && echo terminal $(tty), $(stty size), shell $0
(exit 3) & wait $!; echo job ended with $?
exit 42
";

#[test]
fn interactive_guest_has_a_shell_on_a_terminal() {
    let directory = tempfile::tempdir().unwrap();
    let keys = directory.path().join("keys");
    fs::write(&keys, TYPED).unwrap();
    let mut command = Command::new(belfry());
    command.args(["run", "--mode", "qemu", "--image", "rocm", "--interactive"]);
    let outcome = run_with_input(command, File::open(keys).unwrap().into(), LIMIT).unwrap();
    assert_ended(&outcome, 42);
    for line in ["terminal /dev/ttyS0, 24 80, shell /usr/bin/bash", "job ended with 3"] {
        assert!(outcome.stdout.contains(line), "{line}: {}", outcome.stdout);
    }
    for complaint in ["no job control", "Inappropriate ioctl"] {
        assert!(!outcome.stdout.contains(complaint), "{}", outcome.stdout);
    }
    assert!(outcome.stdout.contains("exit status 42"), "the summary follows: {}", outcome.stdout);
}

#[test]
fn input_that_ends_ends_the_shell() {
    let mut command = Command::new(belfry());
    command.args(["run", "--mode", "qemu", "--image", "rocm", "-i", "--", "sh", "-c", "cat; exit 5"]);
    let outcome = run(command, LIMIT).unwrap();
    assert_ended(&outcome, 5);
}

/// Sends a line to the machine that runs the guest, and prints the answer.
const CALL: &str = "import socket, sys
line = socket.create_connection(('10.0.2.2', int(sys.argv[1])))
line.sendall(b'from the guest')
line.shutdown(socket.SHUT_WR)
print(line.makefile().read(), open('/etc/resolv.conf').read())
";

#[test]
fn guests_with_a_network_reach_this_machine() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    // Ends with the process where no guest calls.
    let answering = std::thread::spawn(move || {
        let (mut caller, _) = listener.accept().unwrap();
        let mut heard = String::new();
        caller.read_to_string(&mut heard).unwrap();
        caller.write_all(b"heard: ").unwrap();
        caller.write_all(heard.as_bytes()).unwrap();
    });
    let options = ["--image", "rocm", "--net", "user"];
    let outcome = belfry_run(Path::new("/"), &options, &["python3", "-c", CALL, &port]).unwrap();
    assert_ended(&outcome, 0);
    assert!(outcome.stdout.contains("heard: from the guest nameserver 10.0.2.3"), "{}", outcome.stdout);
    answering.join().unwrap();
}

#[test]
fn ends_of_programs_come_back() {
    let root = Path::new("/");
    let image = ["--image", "rocm"];
    assert_ended(&belfry_run(root, &image, &["sh", "-c", "kill -SEGV $$"]).unwrap(), 128 + 11);
    let missing = belfry_run(root, &image, &["/usr/bin/no-such-program"]).unwrap();
    assert_ended(&missing, 127);
    assert!(missing.stderr.contains("/usr/bin/no-such-program"), "{}", missing.stderr);
}

#[test]
fn directories_and_images_of_users_are_roots_and_stay_as_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    fs::create_dir_all(tree.join("bin")).unwrap();
    let source = directory.path().join("where.c");
    let text = "#include <stdio.h>\n#include <unistd.h>\n\
                int main(void) { return !(puts(\"in a root of its own\") > 0 && !access(\"/dev/kfd\", F_OK)\n\
                && access(\"/written\", F_OK) && fopen(\"/written\", \"w\")); }\n";
    fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    assert!(cc.arg("-static").arg(&source).arg("-o").arg(tree.join("bin/where")).status().unwrap().success());
    let disk = Root::Path(tree.clone()).disk(&Cache::open().unwrap(), &Progress::new()).unwrap();
    for root in [tree.as_path(), disk.path.as_path()] {
        let changed = || fs::metadata(root).unwrap().modified().unwrap();
        let before = changed();
        for _ in 0..2 {
            let outcome =
                belfry_run(directory.path(), &["--root", root.to_str().unwrap()], &["where"]).unwrap();
            assert_ended(&outcome, 0);
            assert!(outcome.stdout.contains("in a root of its own"), "{}", outcome.stdout);
        }
        assert_eq!(changed(), before);
    }
    assert_eq!(fs::read_dir(&tree).unwrap().count(), 1, "mount points are made in the guest alone");
    let folder = disk.path.ancestors().nth(2).unwrap().to_owned();
    drop(disk);
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn disk_without_a_file_system_that_mounts_is_an_error_that_names_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let image = directory.path().join("bad.ext4");
    let mut content = vec![0; 1 << 20];
    content[0x438..0x43a].copy_from_slice(&0xef53_u16.to_le_bytes());
    fs::write(&image, content).unwrap();
    let outcome = belfry_run(directory.path(), &["--root", "bad.ext4"], &["true"]).unwrap();
    assert_ended(&outcome, 125);
    for part in ["mount disk belfry-0 (/dev/vda) as the root file system", "EXT4-fs"] {
        assert!(outcome.stderr.contains(part), "{part} in {}", outcome.stderr);
    }
}
