//! `--gdb` as a user has it: Debian's stock `gdb-multiarch` in batch mode, and clients that mean harm.

#![expect(unreachable_pub, reason = "one test program, several files")]

mod run;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use belfry_image::{Cache, Freshness, Progress, tools};
use run::{Run, has};

const VECADD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/vecadd.gfx1100.hsaco");
const GFX942: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/vecadd.gfx942.hsaco");
const GFX1201: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/vecadd.gfx1201.hsaco");
const ENDLESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/endless.gfx1100.hsaco");

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A packet of GDB's remote protocol.
fn packet(text: &str) -> Vec<u8> {
    let sum = text.bytes().fold(0_u8, u8::wrapping_add);
    format!("${text}#{sum:02x}").into_bytes()
}

#[test]
fn kernel_is_stopped_at_its_source_looked_at_lane_by_lane_stepped_and_let_go() {
    let mut run = Run::vecadd(&[], VECADD);
    let said = run.gdb(&[
        "break vecadd",
        "continue",
        "info threads",
        "monitor lane 5",
        "next",
        "print i",
        "set $lane = 7",
        "print i",
        "print $v1.u32[5]",
        "next",
        "next",
        "next",
        "print a[i]",
        "print sum",
        "info locals",
        "monitor where",
        "monitor print sum",
        "backtrace",
        "stepi",
        "print $exec",
        "delete",
        "continue",
    ]);
    has(
        &said,
        &[
            "hit Breakpoint 1, vecadd (a=0x",
            "at ./vecadd.cl:3",
            "(wave 0:0,0,0:0 of vecadd: runs)",
            "lane 5",
            "$1 = 5",
            "$2 = 7",
            "$4 = 7",
            "$5 = 14",
            "i = 7",
            "sum = 14",
            "vecadd.cl:7, lane 7, in vecadd of vecadd",
            "sum = 14",
            "#0  vecadd (",
            "$6 = 4294967295",
            "exited normally",
        ],
    );
    assert!(!said.contains("#1 "), "a kernel has no caller: {said}");
    run.ends_well();
}

#[test]
fn source_lines_stop_every_wave_and_only_those_that_are_asked_for() {
    let mut run = Run::vecadd(&[], VECADD);
    let said = run.gdb(&[
        "break vecadd.cl:7",
        "continue",
        "monitor thread 1",
        "monitor thread 2",
        "print sum",
        "continue",
        "continue",
        "monitor lane 1",
        "print i",
        "print sum",
        "monitor break line vecadd.cl:7",
        "continue",
        "monitor disassemble",
        "delete",
        "monitor unbreak",
        "continue",
    ]);
    // Four waves of 32 lanes: each comes to the line once.
    has(
        &said,
        &[
            "hit Breakpoint 1",
            "\"1\" is no thread",
            "vecadd.cl:7, lane 0, in vecadd",
            "hit Breakpoint 1",
            "hit Breakpoint 1",
            "lane 1",
        ],
    );
    has(&said, &["set\n", "vecadd.cl:7", "exited normally"]);
    run.ends_well();
}

#[test]
fn kernels_of_other_chips_and_wave64_have_lines_and_variables() {
    for (chip, code) in [("gfx942", GFX942), ("gfx1201", GFX1201)] {
        let mut run = Run::vecadd(&["--chip", chip], code);
        let said = run.gdb(&[
            "break vecadd.cl:7",
            "continue",
            "set $lane = 9",
            "print i",
            "print sum",
            "delete",
            "continue",
        ]);
        has(&said, &["hit Breakpoint 1, vecadd (", "vecadd.cl:7", "$1 = 9", "$2 = 18", "exited normally"]);
        run.ends_well();
    }
}

#[test]
fn kernel_without_symbols_is_stopped_at_an_address_and_let_go() {
    let run = Run::endless();
    let said = run.gdb(&["monitor step 0:0,0,0:0", "monitor kernels", "monitor where", "detach"]);
    has(&said, &["use its own commands", "\"name\": \"endless\"", "no wave has stopped", "detached"]);
    run.runs_on();
    let pc = run.ask("waves")["waves"][0]["pc"].as_str().unwrap().to_owned();
    let said = run.gdb(&[
        &format!("break *{pc}"),
        "continue",
        "x/2xw $pc",
        "print $pc",
        "monitor waves",
        "stepi",
        "monitor print i",
        "delete",
    ]);
    has(
        &said,
        &["hit Breakpoint 1, 0x", &pc, "of endless", "4 waves of 1 dispatches", "no variables are known"],
    );
    run.runs_on();
}

#[test]
fn dispatches_of_a_kernel_are_stopped_at_while_another_one_runs() {
    let mut run = Run::start(&[], &["stop-endless"]);
    let said = run.gdb(&[
        "monitor break kernel vecadd",
        "continue",
        "info threads",
        "monitor waves",
        "monitor unbreak",
        "monitor break fault",
        "monitor unbreak",
        "continue",
    ]);
    has(
        &said,
        &[
            "break kernel vecadd: set",
            "SIGTRAP",
            "of endless: ",
            "of endless at 0x",
            "1 removed",
            "exited normally",
        ],
    );
    let status = run.child.0.wait().unwrap();
    assert!(status.success() && run.said().contains("work beside and after verified"), "{}", run.said());
}

#[test]
fn kernel_of_a_guest_is_stopped_at_its_source_and_let_go() {
    let mut run = Run::vecadd(&["--mode", "qemu"], VECADD);
    let commands = ["break vecadd.cl:7", "continue", "set $lane = 9", "print sum", "delete", "continue"];
    has(&run.gdb(&commands), &["hit Breakpoint 1, vecadd (", "vecadd.cl:7", "$1 = 18", "exited normally"]);
    run.ends_well();
}

#[test]
fn variables_of_optimised_code_are_those_of_registers() {
    let llvm = tools::llvm(&Cache::open().unwrap(), Freshness::Cached, &Progress::silent()).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let code = folder.path().join("vecadd.hsaco");
    let mut clang = Command::new(llvm.join("clang-19"));
    clang.args(["-x", "cl", "-cl-std=CL2.0", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx1100"]);
    clang.args(["-mcode-object-version=5", "-nogpulib", "-g", "-O1"]);
    clang.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/vecadd.cl")).arg("-o").arg(&code);
    assert!(clang.status().unwrap().success());
    let mut run = Run::vecadd(&[], code.to_str().unwrap());
    let said = run.gdb(&[
        "break vecadd.cl:5",
        "continue",
        "set $lane = 6",
        "print i",
        "monitor print i",
        "print sum",
        // From the sum on, the variable is in a register.
        "while sum == 0",
        "stepi",
        "end",
        "print sum",
        "monitor print sum",
        "monitor locals",
        "delete",
        "continue",
    ]);
    has(
        &said,
        &["hit Breakpoint 1, vecadd (a=<optimized out>", "$1 = 6", "i = 6", "$2 = 0", "$3 = 12", "sum = 12"],
    );
    has(&said, &["a: it is optimised out here", "exited normally"]);
    run.ends_well();
}

#[test]
fn stores_are_watched_and_variables_registers_and_memory_are_changed() {
    let mut run = Run::vecadd(&[], VECADD);
    let said = run.gdb(&[
        "break vecadd.cl:7",
        "continue",
        "delete",
        // A variable in private memory, a register, and memory of the process.
        "set $lane = 5",
        "set var sum = 50",
        "print sum",
        "set $vcc = 3",
        "print $vcc",
        "set $m0 = 9",
        "print $m0",
        "print $v1.u32[3]",
        "set $v1.u32[3] = 77",
        "print $v1.u32[3]",
        "set $v1.u32[3] = $4",
        "set $exec = $exec",
        "print b[100] = 1000",
        "watch -l c[5]",
        "continue",
        "print c[5]",
        "delete",
        "continue",
    ]);
    has(&said, &["hit Breakpoint 1", "$1 = 50", "$2 = 3", "$3 = 9", "$5 = 77", "= 1000"]);
    has(&said, &["Hardware watchpoint 2: -location c[5]", "New value = 50", "= 50", "exited normally"]);
    let status = run.child.0.wait().unwrap();
    assert!(status.success() && run.said().contains("0, 2, 4, 6, 8, 50, 12, 14"), "{}", run.said());
}

#[test]
fn fault_is_told_with_its_line_and_lanes() {
    let mut run = Run::vecadd_of("65536", &[], VECADD);
    let said = run.gdb(&[
        "monitor break fault",
        "continue",
        "monitor where",
        "print i > 127",
        "monitor unbreak",
        "continue",
    ]);
    has(
        &said,
        &["received signal SIGSEGV", "at ./vecadd.cl:", "vecadd.cl:", ", lane ", "in vecadd of vecadd"],
    );
    has(&said, &["fault: ", "NotPresent", "$1 = 1", "exited with code 01"]);
    assert_eq!(run.child.0.wait().unwrap().code(), Some(1));
}

#[test]
fn inspector_and_trace_have_source_lines_too() {
    let mut run = Run::vecadd(&["--inspect"], VECADD);
    run.until("its dispatch waits", || run.ask("status")["halted"] == true);
    assert_eq!(run.ask("break line vecadd.cl:6")["breakpoints"].as_array().map(Vec::len), Some(1));
    assert!(run.ask("break line vecadd.cl:600").is_null() && run.ask("break line other.cl:6").is_null());
    assert_eq!(run.ask("continue")["was_halted"], true);
    run.until("a wave comes to the line", || run.ask("status")["source"] == "vecadd.cl:6");
    let status = run.ask("status");
    let wave = status["wave"].as_str().unwrap();
    let source = run.ask(&format!("source {wave}"));
    assert_eq!((&source["line"], &source["function"]), (&6.into(), &"vecadd".into()), "{source}");
    let details = run.ask(&format!("wave {wave}"));
    let next = details["code"].as_array().unwrap().iter().find(|line| line["next"] == true).unwrap();
    assert_eq!(next["source"], "vecadd.cl:6", "{next}");
    run.ask("unbreak all");
    run.ask("continue");
    run.ends_well();

    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.args([
        "run",
        "--mode",
        "hosted",
        &format!("--trace-isa={}", trace.display()),
        "--",
        "launch",
        VECADD,
    ]);
    command.args(["--kernel", "vecadd", "--grid", "64", "--block", "64"]);
    for argument in ["buf:f32:64:iota", "buf:f32:64:iota", "buf:f32:64:zero", "u32:64"] {
        command.args(["--arg", argument]);
    }
    assert!(command.stdout(Stdio::null()).status().unwrap().success());
    let traced = fs::read_to_string(trace).unwrap();
    has(&traced, &["0:0,0,0:0 vecadd.cl:2 ", "0:0,0,0:0 vecadd.cl:7 ", "global_store_b32", "vecadd.cl:9 "]);
}

#[test]
fn clients_that_send_garbage_stall_or_leave_harm_nothing() {
    let run = Run::endless();
    // The first one says nothing: the dispatch waits on.
    drop(run.connect());
    // A client that begins, and leaves without a word.
    let mut client = run.connect();
    client.write_all(&packet("?")).unwrap();
    let mut answer = [0; 64];
    assert!(client.read(&mut answer).unwrap() > 0);
    drop(client);
    run.runs_on();

    // A client that interrupts, as Ctrl-C does in GDB.
    let mut client = run.connect();
    for bytes in [packet("vCont;c"), vec![3]] {
        client.write_all(&bytes).unwrap();
    }
    let mut told = Vec::new();
    while !String::from_utf8_lossy(&told).contains("T02") {
        let read = client.read(&mut answer).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&told));
        told.extend_from_slice(&answer[..read]);
    }
    assert_eq!(run.ask("status")["halted"], true);
    drop(client);
    run.runs_on();

    for garbage in [
        vec![b'$'; 1 << 20],
        vec![0xff; 4096],
        packet(&"m".repeat(5000)),
        packet("qRcmd,ff"),
        packet("vCont;s:p1.ffff"),
    ] {
        let mut client = run.connect();
        let _ = client.write_all(&garbage);
        let _ = client.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = client.read_to_end(&mut rest);
        drop(client);
        run.runs_on();
    }
    // A client that does not end its packet is dropped.
    let mut client = run.connect();
    client.write_all(b"$qSupp").unwrap();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
    run.runs_on();
    // A client that floods and takes no answers.
    let mut client = run.connect();
    client.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let flood = packet("qXfer:features:read:target.xml:0,3000").repeat(100);
    while client.write_all(&flood).is_ok() {}
    drop(client);
    run.runs_on();
}

#[test]
fn without_a_place_it_is_a_socket_of_this_users_that_goes_with_the_run() {
    let mut run = Run::vecadd(&["--gdb"], VECADD);
    let socket = run.socket();
    has(&run.said(), &[&format!("target remote {}", socket.display())]);
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    has(
        &run.gdb(&["break vecadd.cl:7", "continue", "delete", "continue"]),
        &["hit Breakpoint 1", "exited normally"],
    );
    run.ends_well();
    assert!(!socket.exists());
}

#[test]
fn places_and_symbols_that_cannot_be_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("text");
    fs::write(&file, "no code").unwrap();
    let told = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.args(["run", "--mode", "hosted"]).args(options).args(["--", "vector-add"]);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let text = file.to_str().unwrap();
    has(
        &told(&["--symbols", text]),
        &["--symbols is for --gdb, --inspect, --profile, --sanitize and --trace-isa"],
    );
    has(&told(&["--gdb", "nowhere"]), &["nowhere", "neither ADDR:PORT nor a path"]);
    has(&told(&["--gdb", "203.0.113.1:9"]), &["cannot listen at 203.0.113.1:9"]);
    has(&told(&["--gdb", "127.0.0.1:0", "--symbols", text]), &[text, "no code object of an AMD GPU"]);
    has(&told(&["--gdb", "127.0.0.1:0", "--symbols", "/nowhere"]), &["--symbols /nowhere"]);
}
