//! The binary as a user runs it, in both modes.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Both ways to run a program.
const MODES: [&str; 2] = ["hosted", "qemu"];
const VECADD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/vecadd.gfx1100.hsaco");

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> String {
    let output = belfry(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}\n{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}

#[test]
fn default_program_verifies_and_is_summed_up_in_json_in_both_modes() {
    for mode in MODES {
        let stdout = succeed(&["run", "--mode", mode, "--json"]);
        let summary: Value = serde_json::from_str(&stdout).unwrap();
        assert_eq!(summary["mode"], mode);
        assert_eq!(summary["program"], "vector-add");
        assert_eq!(summary["exit_status"], 0);
        assert_eq!(summary["waves"], (1 << 20) / 32);
        for count in ["dispatches", "wave_instructions", "interrupts"] {
            assert!(summary[count].as_u64().unwrap() > 0, "{mode}: {count} in {stdout}");
        }
        for field in ["boot_ms", "driver_ms", "program_ms", "doorbells"] {
            assert!(!summary[field].is_null(), "{mode}: {field} in {stdout}");
        }
    }
}

#[test]
fn launch_carries_files_both_ways_in_both_modes() {
    for mode in MODES {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
        let words =
            |factor: f32| (0..1000).flat_map(|i| (i as f32 * factor).to_le_bytes()).collect::<Vec<u8>>();
        std::fs::write(path("a.bin"), words(2.0)).unwrap();
        let (input, output) = (
            format!("buf:f32:1000:file:{}", path("a.bin")),
            format!("buf:f32:1000:zero:out={}", path("c.bin")),
        );
        let arguments = [
            "run",
            "--mode",
            mode,
            "--",
            "launch",
            VECADD,
            "--kernel",
            "vecadd",
            "--grid",
            "1024,1,1",
            "--block",
            "256,1,1",
            "--arg",
            &input,
            "--arg",
            "buf:f32:1000:iota",
            "--arg",
            &output,
            "--arg",
            "u32:1000",
        ];
        succeed(&arguments);
        assert_eq!(std::fs::read(path("c.bin")).unwrap(), words(3.0), "{mode}");
    }
}

#[test]
fn a_programs_status_and_its_errors_come_back_in_both_modes() {
    for mode in MODES {
        let output = belfry(&[
            "run", "--mode", mode, "--", "launch", VECADD, "--kernel", "nothing", "--grid", "1", "--block",
            "1",
        ]);
        assert_ne!(output.status.code(), Some(0), "{mode}");
        assert!(text(&output.stderr).contains("nothing"), "{mode}: {}", text(&output.stderr));
    }
}

#[test]
fn static_program_by_path_runs_in_a_guest_and_is_refused_hosted() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("seven.c");
    let program = directory.path().join("seven");
    std::fs::write(&source, "#include <stdio.h>\nint main(void) { puts(\"from the guest\"); return 7; }\n")
        .unwrap();
    assert!(
        Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&program).status().unwrap().success()
    );
    let path = program.to_str().unwrap();
    let output = belfry(&["run", "--mode", "qemu", "--", path]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("from the guest"), "{}", text(&output.stdout));
    let output = belfry(&["run", "--mode", "hosted", "--", path]);
    assert_eq!(output.status.code(), Some(125));
    assert!(!output.stderr.is_empty());
}

#[test]
fn unknown_program_is_refused_with_what_there_is() {
    for mode in MODES {
        let output = belfry(&["run", "--mode", mode, "--", "no-such-example"]);
        assert_eq!(output.status.code(), Some(125), "{mode}");
        assert!(text(&output.stderr).contains("vector-add"), "{mode}: {}", text(&output.stderr));
    }
}

#[test]
fn what_is_not_modelled_is_listed_on_request() {
    let stdout = succeed(&["run", "--mode", "hosted", "--unmodelled"]);
    assert!(stdout.contains("registers without behaviour"), "{stdout}");
}

#[test]
fn disassembly_names_kernels_and_instructions() {
    assert!(Path::new(VECADD).exists());
    let stdout = succeed(&["disasm", VECADD]);
    for part in [
        "kernel vecadd",
        "(vecadd.kd)",
        "wave        32 lanes",
        "s[0:1] arguments",
        "workgroup x",
        "v0 work-item x",
        "f32 rounded to nearest, denormals kept",
        "DX10_CLAMP",
        "(global buffer",
        "<vecadd>:",
        "s_cbranch_execz .L0",
        ".L0:",
        "s_endpgm",
    ] {
        assert!(stdout.contains(part), "no {part} in\n{stdout}");
    }
    let output = belfry(&["disasm", env!("CARGO_BIN_EXE_belfry")]);
    assert_eq!(output.status.code(), Some(125), "a program for x86 is no code object");
}

#[test]
fn bench_isa_measures_every_kernel_with_every_number_of_workers() {
    let summary: Value = serde_json::from_str(&succeed(&["bench", "isa", "--json", "--runs", "1"])).unwrap();
    assert_eq!(summary["scaling"][0]["threads"], 2, "what the machine itself gains");
    assert!(summary["scaling"][0]["streaming"].as_f64().unwrap() > 0.0);
    let targets = summary["targets"].as_array().unwrap();
    // Seven times on one worker and on two, and twelve speed-ups.
    assert_eq!(targets.len(), 7 * 2 + 12);
    assert!(targets.iter().all(|verdict| verdict["missed_by_percent"].as_f64().unwrap() >= 0.0));
    let kernels = summary["kernels"].as_array().unwrap();
    for name in ["vadd", "gemm_naive", "gemm_tiled", "reduce", "alu", "softmax", "gemm_f16", "sha256"] {
        for workers in [1, 2] {
            let row = kernels.iter().find(|row| row["name"] == name && row["workers"] == workers);
            let row = row.unwrap_or_else(|| panic!("no row for {name} with {workers}"));
            assert!(row["wave_instructions"].as_u64().unwrap() > 0);
            assert!(row["ns_per_wave_instruction"].as_f64().unwrap() > 0.0);
            assert_eq!(row["speedup"].is_f64(), workers == 2, "relative to the first number");
        }
    }
    for row in kernels.iter().filter(|row| row["name"] == "dispatch") {
        let doorbell = row["doorbell_to_signal_us"].as_f64().unwrap();
        assert!(doorbell > 0.0 && doorbell <= row["median_ms"].as_f64().unwrap() * 1e3, "part of a launch");
    }
}

/// A `belfry run` whose guest program sleeps, and the QEMU below it.
struct Sleeping {
    belfry: std::process::Child,
    qemu: u32,
    _directory: tempfile::TempDir,
}

impl Sleeping {
    fn start() -> Self {
        Self::start_in(&std::env::temp_dir())
    }

    /// Starts it with another folder for temporary files.
    fn start_in(temporary: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (source, program) = (directory.path().join("sleeper.c"), directory.path().join("sleeper"));
        let code =
            "#include <unistd.h>\nint main(void) { write(1, \"asleep\\n\", 7); sleep(1000); return 0; }\n";
        std::fs::write(&source, code).unwrap();
        assert!(
            Command::new("cc")
                .arg("-static")
                .arg(&source)
                .arg("-o")
                .arg(&program)
                .status()
                .unwrap()
                .success()
        );
        let mut belfry = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .args(["run", "--mode", "qemu", "--", program.to_str().unwrap()])
            .env("TMPDIR", temporary)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(belfry.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "asleep\n");
        let qemu = children(belfry.id())
            .into_iter()
            .find(|&pid| {
                std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                    .is_ok_and(|line| line.contains("qemu"))
            })
            .expect("belfry has a QEMU below it");
        Self { belfry, qemu, _directory: directory }
    }
}

/// Process ids of the living children of a process.
fn children(parent: u32) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid: &u32| parent_of(*pid) == Some(parent))
        .collect()
}

/// The parent of a process that is not a zombie.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    (fields.next()? != "Z").then_some(())?;
    fields.next()?.parse().ok()
}

fn send(signal: Signal, pid: u32) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

fn kill(pid: u32) {
    send(Signal::KILL, pid);
}

#[test]
fn killed_qemu_is_a_telling_error() {
    let mut run = Sleeping::start();
    kill(run.qemu);
    assert_eq!(run.belfry.wait().unwrap().code(), Some(125));
    let mut stderr = String::new();
    run.belfry.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(stderr.contains("QEMU ended"), "{stderr}");
}

#[test]
fn killed_belfry_takes_its_guest_along() {
    let mut run = Sleeping::start();
    kill(run.belfry.id());
    run.belfry.wait().unwrap();
    for _ in 0..500 {
        if parent_of(run.qemu).is_none() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    kill(run.qemu);
    panic!("QEMU {} outlived belfry", run.qemu);
}

#[test]
fn folder_of_a_killed_run_is_gone_after_the_next_run() {
    let temporary = tempfile::tempdir().unwrap();
    let left = || std::fs::read_dir(temporary.path()).unwrap().count();
    let mut run = Sleeping::start_in(temporary.path());
    let next_run = || {
        let mut next = Command::new(env!("CARGO_BIN_EXE_belfry"));
        next.args(["run", "--mode", "hosted"]).env("TMPDIR", temporary.path());
        assert!(next.output().unwrap().status.success());
    };
    next_run();
    assert_eq!(left(), 1, "the folder of a run that lives is left alone");
    kill(run.belfry.id());
    run.belfry.wait().unwrap();
    assert_eq!(left(), 1, "nobody could remove it");
    next_run();
    assert_eq!(left(), 0);
}

#[test]
fn signals_end_the_server_without_its_socket() {
    for signal in [Signal::TERM, Signal::INT] {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("gpu.sock");
        // A test run in the background of a shell has inherited that SIGINT is ignored, which belfry would respect.
        let mut server = Command::new("env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_belfry")])
            .args(["serve", "--socket", socket.to_str().unwrap()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("listening on"), "{line}");
        // With a client attached, too.
        let _client = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        send(signal, server.id());
        assert_eq!(server.wait().unwrap().code(), Some(128 + signal.as_raw()), "{signal:?}");
        assert!(!socket.exists(), "{signal:?} leaves the socket behind");
    }
}

#[test]
fn server_whose_output_cannot_be_written_serves_all_the_same() {
    for (what, stdout) in unwritable() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("gpu.sock");
        let server = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .args(["serve", "--socket", socket.to_str().unwrap()])
            .stdout(stdout)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let connected = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(20));
            std::os::unix::net::UnixStream::connect(&socket).is_ok()
        });
        send(Signal::TERM, server.id());
        let output = server.wait_with_output().unwrap();
        let stderr = text(&output.stderr);
        assert!(connected && !stderr.contains("panicked"), "{what}: {stderr}");
        assert_eq!(output.status.code(), Some(128 + 15), "{what}: {stderr}");
    }
}

#[test]
fn options_of_a_guest_that_make_no_sense_are_refused_by_name() {
    let cases: [(&[&str], &str); 4] = [
        (&["run", "--mode", "hosted", "--append", "quiet"], "--append"),
        (&["run", "--mode", "kvm", "--guest", "bare-metal", "--append", "quiet"], "--append"),
        (&["run", "--mode", "qemu", "--file", "/etc/hostname:../../init"], "leaves the guest's root"),
        (&["run", "--mode", "qemu", "--file", "/etc/hostname:/init"], "reserved for the guest's init"),
    ];
    for (arguments, part) in cases {
        let output = belfry(arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
}

const PROBE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/kernels/probe.gfx1100.hsaco");

/// Runs the racing kernel with a seed: the trace of every wave, and the wave of each ticket.
fn race(directory: &Path, seed: &str, run: u32) -> (Vec<u8>, Vec<u8>) {
    let path = |name: &str| directory.join(format!("{name}-{seed}-{run}")).to_str().unwrap().to_owned();
    let (trace, order) = (format!("--trace-isa={}", path("trace")), path("order"));
    let output = format!("buf:u32:128:zero:out={order}");
    succeed(&[
        "run",
        "--mode",
        "hosted",
        "--deterministic",
        seed,
        &trace,
        "--trace-wave",
        "all",
        "--",
        "launch",
        PROBE,
        "--kernel",
        "race",
        "--grid",
        "1024",
        "--block",
        "64",
        "--arg",
        "buf:u32:1:zero",
        "--arg",
        &output,
    ]);
    (std::fs::read(path("trace")).unwrap(), std::fs::read(order).unwrap())
}

#[test]
fn deterministic_runs_repeat_to_the_byte_and_seeds_differ() {
    let directory = tempfile::tempdir().unwrap();
    let first = race(directory.path(), "1", 1);
    assert!(first.0.len() > 10_000, "{} bytes of trace", first.0.len());
    let again = race(directory.path(), "1", 2);
    assert!(first.0 == again.0, "the traces of one seed differ");
    assert_eq!(first.1, again.1, "the tickets of one seed differ");
    let others: Vec<_> = ["2", "3", "4"].iter().map(|seed| race(directory.path(), seed, 1)).collect();
    assert!(others.iter().all(|other| other.0 != first.0), "another seed has the same trace");
    assert!(others.iter().any(|other| other.1 != first.1), "no seed changes who wins the race");
    // All the same, each of the sixteen workgroups has its eight tickets.
    for order in others.iter().map(|other| &other.1).chain([&first.1]) {
        let mut groups: Vec<u32> =
            order.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        groups.sort_unstable();
        assert_eq!(groups, (0..128).map(|ticket| ticket / 8).collect::<Vec<_>>());
    }
}

#[test]
fn trace_shows_a_waves_instructions_and_what_they_change() {
    let arguments = ["run", "--mode", "hosted", "--trace-isa", "--", "vector-add"];
    let output = belfry(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let trace = text(&output.stderr);
    let lines: Vec<&str> = trace.lines().collect();
    assert!(lines.iter().all(|line| line.starts_with("0:0,0,0:0 ")), "{trace}");
    let shows = |what: &str| assert!(lines.iter().any(|line| line.contains(what)), "no {what} in\n{trace}");
    shows("s_load_b");
    shows("s_waitcnt lgkmcnt(0)");
    shows("v_add_f32_e32");
    shows(" ; v");
    shows(" ; s");
    assert!(lines.last().unwrap().ends_with("s_endpgm"), "{trace}");
    // The listing is the disassembler's, in the order of execution.
    let listing = succeed(&["disasm", VECADD]);
    for line in &lines {
        let (_, rest) = line.split_once(": ").unwrap();
        let instruction = rest.split_once(": ").map_or(rest, |(_, text)| text);
        let instruction = instruction.split(" ; ").next().unwrap();
        let mnemonic = instruction.split(' ').next().unwrap();
        assert!(listing.contains(mnemonic), "{mnemonic} is not in the listing");
    }
    let output =
        belfry(&["run", "--mode", "hosted", "--trace-isa", "--trace-wave", "0:5:7", "--", "vector-add"]);
    assert!(text(&output.stderr).lines().all(|line| line.starts_with("0:5,0,0:7 ")));
    assert!(!output.stderr.is_empty());
}

/// Standard output that takes nothing: the end of a pipe whose reader has left, or a full device.
fn unwritable() -> [(&'static str, Stdio); 2] {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    [("a closed pipe", writer.into()), ("a full device", full.into())]
}

#[test]
fn output_that_cannot_be_written_panics_nowhere() {
    // What the status is when output is lost: a program's own for `run`, a failure of belfry elsewhere.
    let cases: [(&[&str], i32); 8] = [
        (&["run", "--mode", "hosted", "--", "all"], 0),
        (&["run", "--mode", "hosted", "--json", "--unmodelled"], 0),
        (&["disasm", VECADD], 125),
        (&["doctor"], 125),
        (&["image"], 125),
        (&["bench", "isa", "--runs", "1", "--workers", "1", "--kernels", "vadd"], 125),
        (&["--help"], 125),
        (&["--version"], 125),
    ];
    for (arguments, status_when_lost) in cases {
        for (what, stdout) in unwritable() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
            let output = command.args(arguments).stdout(stdout).output().unwrap();
            let stderr = text(&output.stderr);
            assert!(!stderr.contains("panicked"), "{arguments:?} into {what}:\n{stderr}");
            let lost = what == "a full device";
            assert_eq!(output.status.code(), Some(if lost { status_when_lost } else { 0 }), "{stderr}");
            let told = stderr.lines().filter(|line| line.contains("cannot write to standard output")).count();
            assert_eq!(told, usize::from(lost), "{arguments:?} into {what}:\n{stderr}");
        }
    }
}

#[test]
fn errors_that_cannot_be_written_panic_nowhere() {
    for arguments in
        [&["run", "--mode", "hosted", "--", "nothing"] as &[_], &["disasm", "/nothing"], &["--nothing"]]
    {
        for (what, stderr) in unwritable() {
            let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
            let status = command.args(arguments).stderr(stderr).status().unwrap();
            assert_eq!(status.code(), Some(125), "{arguments:?} into {what}");
        }
    }
}
