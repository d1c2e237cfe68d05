//! `belfry exec --inspect` and `--gdb`: the GPU in a program's process, looked at from outside.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use belfry_image::{Cache, Progress, rootfs, tools};
use belfry_process::child::{KillOnDrop, die_with_parent};
use belfry_tests::suite;
use serde_json::Value;

const VECADD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../host-vmm/tests/kernels/vecadd.gfx1100.hsaco");
const ENDLESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/endless.gfx1100.hsaco");

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(120);

fn belfry() -> &'static Path {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    BELFRY.get_or_init(|| suite::belfry().unwrap())
}

/// A program under `belfry exec`, and the folder that has its socket.
struct Run {
    child: KillOnDrop,
    folder: tempfile::TempDir,
}

impl Run {
    fn endless(options: &[&str]) -> Self {
        let kernel = ["--kernel", "endless", "--grid", "128", "--block", "64", "--arg", "buf:u32:4:zero"];
        Self::start(options, &[&["launch", ENDLESS], &kernel[..]].concat())
    }

    /// Adds vectors of 128 elements; the first dispatch waits for GDB.
    fn vecadd(options: &[&str]) -> Self {
        let run = Self::start(&[options, &["--symbols", VECADD]].concat(), &VECADD_LAUNCH);
        run.until("the stub listens", || run.gdb_socket().exists());
        run
    }

    fn start(options: &[&str], program: &[&str]) -> Self {
        Self::start_any(options, &[&[env!("CARGO_BIN_EXE_run-example")], program].concat())
    }

    fn start_any(options: &[&str], program: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = fs::File::create(folder.path().join("out")).unwrap();
        let mut command = Command::new(belfry());
        command.env("XDG_RUNTIME_DIR", folder.path()).current_dir(folder.path());
        command.args(["exec", "--vram", "256M"]).args(options).arg("--");
        command.args(program);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        die_with_parent(&mut command);
        Self { child: KillOnDrop(command.spawn().unwrap()), folder }
    }

    fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    fn gdb_socket(&self) -> PathBuf {
        self.folder.path().join("gdb.sock")
    }

    #[track_caller]
    fn until(&self, what: &str, mut holds: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Answer to a question, or the error.
    fn try_ask(&self, question: &str) -> Result<Value, String> {
        let mut command = Command::new(belfry());
        command.env("XDG_RUNTIME_DIR", self.folder.path()).args(["inspect", "--json"]);
        let output = command.args(question.split(' ')).output().unwrap();
        let failed = |_| String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).map_err(failed)
    }

    #[track_caller]
    fn ask(&self, question: &str) -> Value {
        self.try_ask(question).unwrap_or_else(|said| panic!("{question}: {said}"))
    }

    /// Has GDB carry out commands; its output.
    fn gdb(&self, commands: &[&str]) -> String {
        let gdb = tools::gdb(&Cache::open().unwrap(), &Progress::silent()).unwrap();
        let script = self.folder.path().join("commands");
        let target = format!("target remote {}", self.gdb_socket().display());
        let first =
            ["set confirm off", "set pagination off", "set breakpoint pending on", &target].join("\n");
        fs::write(&script, format!("{first}\n{}\n", commands.join("\n"))).unwrap();
        let mut command = Command::new(gdb);
        command.args(["-nx", "-batch", "-x"]).arg(script).env_remove("DEBUGINFOD_URLS").stdin(Stdio::null());
        die_with_parent(&mut command);
        // Both in one file, in the order in which they are written.
        let path = self.folder.path().join("said");
        let out = fs::File::create(&path).unwrap();
        let status = command.stdout(out.try_clone().unwrap()).stderr(out).status().unwrap();
        let said = String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        assert!(status.success(), "{status}: {said}");
        said
    }

    /// Waits for the program to end by itself, as if no client had looked.
    #[track_caller]
    fn ends_well(&mut self) {
        let status = self.child.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        assert!(self.said().contains("0, 2, 4, 6, 8, 10, 12, 14"), "{}", self.said());
    }
}

const VECADD_LAUNCH: [&str; 16] = [
    "launch",
    VECADD,
    "--kernel",
    "vecadd",
    "--grid",
    "128",
    "--block",
    "64",
    "--arg",
    "buf:f32:128:iota",
    "--arg",
    "buf:f32:128:iota",
    "--arg",
    "buf:f32:128:zero",
    "--arg",
    "u32:128",
];

/// Checks that a text has parts, one after the other.
#[track_caller]
fn has(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in the rest of:\n{said}"));
        rest = &rest[at + part.len()..];
    }
}

#[track_caller]
fn endless_is_found_stopped_and_let_go(options: &[&str]) {
    let mut run = Run::endless(&[&["--inspect"], options].concat());
    run.until("its waves are seen", || run.try_ask("waves").is_ok_and(|waves| waves["all"] == 4));
    let socket = run.folder.path().join("belfry").join(format!("{}.sock", run.child.0.id()));
    assert!(socket.exists(), "the socket has the number of the program, which exec has become");
    let pc = run.ask("waves")["waves"][0]["pc"].as_str().unwrap().to_owned();
    run.ask(&format!("break pc {pc}"));
    let status = run.ask("wait 60");
    assert_eq!((&status["halted"], &status["why"]), (&true.into(), &format!("pc {pc}").into()), "{status}");
    let wave = status["wave"].as_str().unwrap().to_owned();
    assert!(run.ask(&format!("wave {wave} v0 3"))["vgprs"][0][1][0].is_string());
    run.ask("unbreak all");
    assert_eq!(run.ask("continue")["was_halted"], true);
    let executed = || run.ask("overview")["wave_instructions"].as_u64().unwrap();
    let before = executed();
    run.until("its waves run on", || executed() > before);
    // A program that is killed leaves its socket, which the next look removes.
    run.child.0.kill().unwrap();
    run.child.0.wait().unwrap();
    // Its companion, if it has one, ends a moment later and has the socket until then.
    run.until("nobody answers", || run.try_ask("waves").is_err_and(|said| said.contains("no process")));
    assert!(!socket.exists());
}

#[test]
fn program_is_found_its_wave_stopped_and_let_go() {
    endless_is_found_stopped_and_let_go(&[]);
}

#[test]
fn program_with_a_companion_is_found_its_wave_stopped_and_let_go() {
    endless_is_found_stopped_and_let_go(&["--debuggable"]);
}

#[track_caller]
fn vecadd_is_debugged(options: &[&str]) {
    let mut run = Run::vecadd(&[&["--gdb", "./gdb.sock"], options].concat());
    let said = run.gdb(&[
        "break vecadd.cl:7",
        "continue",
        "set $lane = 9",
        "print sum",
        "print a[i]",
        "delete",
        "continue",
    ]);
    has(&said, &["hit Breakpoint 1, vecadd (", "vecadd.cl:7", "$1 = 18", "$2 = 9", "exited normally"]);
    run.ends_well();
    assert!(!run.gdb_socket().exists(), "the socket goes with the program");
}

#[test]
fn kernel_of_a_program_is_debugged_at_its_source() {
    vecadd_is_debugged(&[]);
}

#[test]
fn kernel_of_a_program_with_a_companion_is_debugged_at_its_source() {
    vecadd_is_debugged(&["--debuggable"]);
}

/// The kernel's code object is in the program's own file, and the runtime tells where.
#[test]
fn hip_program_is_debugged_at_its_source_without_symbols_being_named() {
    rootfs::rocm(&Progress::new()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("add").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/look/add.hip");
    let mut hipcc = Command::new(belfry());
    hipcc.args(["exec", "--quiet", "--image", "rocm", "--", "hipcc", "--offload-arch=gfx1100", "-g", "-O1"]);
    let output = hipcc.args([source, "-o", &program]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut run = Run::start_any(&["--image", "rocm", "--gdb", "./gdb.sock"], &[&program]);
    run.until("the stub listens", || run.gdb_socket().exists());
    let said =
        run.gdb(&["break add.hip:8", "continue", "monitor lane 9", "monitor where", "delete", "continue"]);
    has(&said, &["hit Breakpoint 1", "add.hip:8", "lane 9", "add.hip:8, lane 9, in ", "exited normally"]);
    let status = run.child.0.wait().unwrap();
    assert!(status.success() && run.said().contains("18\n"), "{status}: {}", run.said());
}

#[test]
fn program_ends_with_its_socket_removed() {
    let mut run = Run::start(&["--inspect"], &VECADD_LAUNCH);
    run.ends_well();
    let left = fs::read_dir(run.folder.path().join("belfry")).unwrap().count();
    assert_eq!(left, 0);
}

#[test]
fn what_cannot_be_is_said_and_the_program_goes_on() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let mut run = Run::start(&["--gdb", &at], &VECADD_LAUNCH);
    run.ends_well();
    has(&run.said(), &["goes on without: GDB's stub cannot listen at", &at]);

    let refused = |options: &[&str], program: &[&str]| {
        let output =
            Command::new(belfry()).arg("exec").args(options).arg("--").args(program).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    has(
        &refused(&["--symbols", VECADD], &["true"]),
        &["--symbols is for --gdb, --inspect, --profile and --sanitize"],
    );
    has(&refused(&["--inspect", "--image", "rocm"], &["hip-suite"]), &["a suite is many"]);
    let many: Vec<String> = (0..100).map(|number| format!("kernel {}{number}", "k".repeat(60))).collect();
    let breaks = many.iter().flat_map(|words| ["--break", words.as_str()]);
    let options: Vec<&str> = ["--inspect"].into_iter().chain(breaks).collect();
    has(&refused(&options, &["true"]), &["do not reach the program"]);
}
