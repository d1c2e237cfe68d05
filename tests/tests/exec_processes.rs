//! `belfry exec` and processes as a whole: several at once, other root trees, namespaces, its summary and its
//! errors.
//!
//! Cases inside one process are the group `process` of the suite, in `tests/programs/process`.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use belfry_image::{Cache, Freshness, Progress, rootfs};
use belfry_tests::suite;

/// A root tree of the cache, made if it is not there.
fn tree(name: &str) -> PathBuf {
    let cache = Cache::open().unwrap();
    rootfs::obtain(&cache, name, Freshness::Cached, &Progress::new()).unwrap().path
}

fn belfry() -> &'static Path {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    BELFRY.get_or_init(|| suite::belfry().unwrap())
}

/// `belfry exec OPTIONS --root TREE -- PROGRAM...`.
fn exec(options: &[&str], tree: &Path, program: &[&str]) -> Command {
    let mut command = Command::new(belfry());
    command.args(["exec", "--quiet"]).args(options).arg("--root").arg(tree).arg("--").args(program);
    command.stdin(Stdio::null()).current_dir("/");
    command
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Uses the driver without any library of ROCm, and checks its version.
const USE: &str = "import fcntl, os
def use():
    fd = os.open('/dev/kfd', os.O_RDWR)
    answer = fcntl.ioctl(fd, 0x80084b01, bytes(8))
    assert answer[0] == 1, answer
    return fd
";

/// Runs a user's first commands, with any distribution's C library, coreutils and Python.
fn tree_shows_and_opens_the_gpu(name: &str) {
    let tree = tree(name);
    let shell = "set -e; test -c /dev/kfd; test -c /dev/dri/renderD128; ls -l /dev/dri | grep -q '226, 128'
        test \"$(stat -c %F /dev/kfd)\" = 'character special file'; cd /dev/dri; test -c renderD128
        test $(cat /sys/class/kfd/kfd/topology/nodes/1/gpu_id) -gt 0
        test \"$(find /dev/dri -type c | wc -l)\" = 2";
    stdout(&exec(&[], &tree, &["sh", "-c", shell]).output().unwrap());
    let python = format!(
        "{USE}
import glob, pathlib, stat, subprocess, sys
use()
assert stat.S_ISCHR(os.stat('/dev/dri/renderD128').st_mode)
assert sorted(os.listdir('/dev/dri')) == ['card0', 'renderD128']
assert glob.glob('/dev/dri/render*') == ['/dev/dri/renderD128']
assert os.path.realpath('/sys/class/kfd/kfd') == '/sys/devices/virtual/kfd/kfd'
assert any(path.name == 'gpu_id' for path in pathlib.Path('/sys/class/kfd/kfd/topology').rglob('*'))
child = 'import os; os.open(\"/dev/kfd\", os.O_RDWR)'
subprocess.run([sys.executable, '-c', child], check=True, env={{}})
print('seen')
"
    );
    assert_eq!(stdout(&exec(&[], &tree, &["python3", "-c", &python]).output().unwrap()), "seen\n");
}

#[test]
fn glibc_2_36_shows_and_opens_the_gpu() {
    tree_shows_and_opens_the_gpu("debian12");
}

#[test]
fn newest_glibc_shows_and_opens_the_gpu() {
    tree_shows_and_opens_the_gpu("sid");
}

/// UCX writes jumps over the C library's functions of memory when it is loaded.
#[test]
fn ucx_runs_with_its_functions_in_place_of_the_c_librarys() {
    let said = stdout(&exec(&[], &tree("rocm-sid"), &["ucx_info", "-v"]).output().unwrap());
    assert!(said.contains("Library version"), "{said}");
}

#[test]
fn summary_has_a_line_for_each_process_that_used_the_gpu() {
    let python = format!(
        "{USE}
use()
for child in range(3):
    if os.fork() == 0:
        if child < 2:
            use()
        os._exit(0)
for child in range(3):
    os.wait()
os.system('true')
os._exit(5)
"
    );
    let output = exec(&["--json"], &tree("rocm"), &["python3", "-c", &python]).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let mut pids: Vec<_> =
        report["processes"].as_array().unwrap().iter().map(|one| one["pid"].as_i64()).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 3, "{report}");
    assert_eq!(report["exit_status"], 5);
}

#[test]
fn summary_tells_what_a_process_has_cost() {
    let python = "
import ctypes
hip = ctypes.CDLL('libamdhip64.so.5')
memory = ctypes.c_void_p()
assert hip.hipMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20)) == 0
for turn in range(20):
    assert hip.hipMemset(memory, turn, ctypes.c_size_t(1 << 20)) == 0
assert hip.hipDeviceSynchronize() == 0
";
    for costs in [false, true] {
        let options =
            if costs { &["--json", "--tier", "1", "--costs"][..] } else { &["--json", "--tier", "1"] };
        let output = exec(options, &tree("rocm"), &["python3", "-c", python]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let process = &report["processes"][0];
        let times = &process["processor_ms"];
        let [program, waits, workers, device] =
            ["program", "waits", "workers", "device"].map(|part| times[part].as_f64().unwrap());
        assert!(program > waits && waits > 0.0 && workers > 0.0 && device > 0.0, "{times}");
        assert!(process["peak_bytes"].as_u64().unwrap() > 16 << 20, "{process}");
        let (all, code) = (process["wave_instructions"].as_u64().unwrap(), &process["code"]);
        assert_eq!(code.is_object(), costs, "{process}");
        if costs {
            let compiled = code["instructions"].as_u64().unwrap();
            assert!(compiled > 0 && compiled <= all, "{compiled} of {all}");
            assert!(code["ms"].as_f64().unwrap() > 0.0, "{code}");
        }
    }
}

#[test]
fn summary_tells_how_a_process_has_ended() {
    // What the program does; then its status, and the end, the signal and whether the counters are the last ones of each
    // process that has used the GPU.
    type Told<'a> = (&'a str, Option<i32>, bool);
    let rows: [(&str, i32, &[Told<'_>]); 10] = [
        ("ctypes.string_at(0)", 139, &[("signalled", Some(11), true)]),
        ("os.abort()", 134, &[("signalled", Some(6), true)]),
        ("os.kill(os.getpid(), 15)", 143, &[("signalled", Some(15), true)]),
        ("signal.alarm(1); time.sleep(20)", 142, &[("signalled", Some(14), true)]),
        ("os.kill(os.getpid(), 9)", 137, &[("signalled", Some(9), false)]),
        // A handler of the program's that puts back the handler before it.
        ("faulthandler.enable(); ctypes.string_at(0)", 139, &[("signalled", Some(11), true)]),
        (
            "signal.signal(15, lambda *_: sys.exit(7)); os.kill(os.getpid(), 15); time.sleep(20)",
            7,
            &[("exited", None, true)],
        ),
        (
            "assert signal.signal(15, signal.SIG_IGN) == signal.SIG_DFL; os.kill(os.getpid(), 15)",
            0,
            &[("exited", None, true)],
        ),
        // A child of vfork, which shares this memory, sets SIGPIPE to its default action; it stays ignored (1) here.
        (
            "subprocess.run(['true'])
action = ctypes.create_string_buffer(152)
ctypes.CDLL(None).sigaction(13, None, action)
os._exit(action[0][0])",
            1,
            &[("exited", None, true)],
        ),
        (
            "
for number in [11, 9]:
    if os.fork() == 0:
        use()
        os.kill(os.getpid(), number)
        time.sleep(20)
    os.wait()
",
            0,
            &[("signalled", Some(11), true), ("lost", None, false), ("exited", None, true)],
        ),
    ];
    for (what, status, expected) in rows {
        let python =
            format!("{USE}\nimport ctypes, faulthandler, signal, subprocess, sys, time\nuse()\n{what}\n");
        let output = exec(&["--json"], &tree("rocm"), &["python3", "-c", &python]).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(status), "{what}: {report}");
        let signal = (status > 128).then(|| i64::from(status) - 128);
        assert_eq!((&report["exit_status"], report["signal"].as_i64()), (&status.into(), signal), "{what}");
        let told: Vec<_> = report["processes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|process| {
                let signal = process["signal"].as_i64().map(|signal| signal as i32);
                (process["end"].as_str().unwrap(), signal, process["counted"].as_bool().unwrap())
            })
            .collect();
        assert_eq!(told, expected, "{what}: {report}");
    }
}

#[test]
fn programs_start_others_with_a_card_and_a_summary() {
    let shell = "/bin/true && sh -c 'exit 3'; echo $?";
    let mut command = exec(&["--json"], &tree("rocm"), &["sh", "-c", shell]);
    let output = command.env("BELFRY_EXEC_CARD", "another").output().unwrap();
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.lines().any(|line| line == "3"), "{said}");
}

#[test]
fn devices_of_two_configurations_run_at_once() {
    let tree = tree("rocm");
    let python = format!(
        "{USE}
import time
use()
open('/tmp/' + os.environ['OWN'], 'w').close()
while not os.path.exists('/tmp/' + os.environ['OTHER']):
    time.sleep(0.01)
for line in open('/sys/class/kfd/kfd/topology/nodes/1/properties'):
    if line.startswith('simd_count'):
        print(line.split()[1])
for line in open('/sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties'):
    if line.startswith('size_in_bytes'):
        print(line.split()[1])
"
    );
    let folder = tempfile::tempdir().unwrap();
    let name = |one: &str| folder.path().join(one).strip_prefix("/tmp").unwrap().to_str().unwrap().to_owned();
    let start = |options: &[&str], own: &str, other: &str| {
        let mut command = exec(options, &tree, &["timeout", "60", "python3", "-c", &python]);
        command.env("OWN", name(own)).env("OTHER", name(other)).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let one = start(&["--cus", "4", "--vram", "64M"], "one", "two");
    let two = start(&["--cus", "16", "--vram", "512M"], "two", "one");
    let (one, two) = (stdout(&one.wait_with_output().unwrap()), stdout(&two.wait_with_output().unwrap()));
    let numbers = |text: &str| text.lines().map(|line| line.parse::<u64>().unwrap()).collect::<Vec<_>>();
    for (text, simds, vram) in [(one, 8, 64 << 20), (two, 32, 512 << 20)] {
        let numbers = numbers(&text);
        // The driver keeps a little for itself.
        assert!(numbers[0] == simds && (vram - (16 << 20)..=vram).contains(&numbers[1]), "{text}");
    }
}

/// Uses a card from two containers.
const SHARED_CARD: &str = include_str!("../programs/python/shared_card.py");

#[test]
fn containers_that_share_a_card_see_the_memory_of_both() {
    let tree = tree("rocm");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("shared_card.py");
    std::fs::write(&program, SHARED_CARD).unwrap();
    // A user without rights has them in a namespace.
    let script = "user=; test $(id -u) = 0 || user='--user --map-root-user'; exec unshare $user --mount python3 \"$@\"";
    for (prepared, expected) in [(None, "of both: True \n"), (Some("container"), "of both: True 1\n")] {
        let program = program.to_str().unwrap();
        let argv: Vec<&str> = ["sh", "-c", script, "sh", program].into_iter().chain(prepared).collect();
        // Other tests use the card without a name.
        let output = exec(&[], &tree, &argv).env("BELFRY_EXEC_CARD", folder.path()).output().unwrap();
        assert_eq!(stdout(&output), expected);
    }
}

/// Copies between two GPUs.
const SEVERAL: &str = include_str!("../programs/python/several_gpus.py");

#[test]
fn several_gpus_are_agents_that_reach_each_other() {
    let tree = tree("rocm");
    let agents = |options: &[&str]| {
        let text = stdout(&exec(options, &tree, &["rocminfo"]).output().unwrap());
        text.lines().filter(|line| line.split_whitespace().eq(["Device", "Type:", "GPU"])).count()
    };
    assert_eq!((agents(&["--gpus", "3"]), agents(&[])), (3, 1));
    for chip in ["gfx1100", "gfx942"] {
        let options = ["--gpus", "2", "--chip", chip];
        let said = stdout(&exec(&options, &tree, &["python3", "-c", SEVERAL]).output().unwrap());
        assert_eq!(said, "65536 words verified each way\n", "{chip}");
    }
}

#[test]
fn static_program_reads_the_topology_in_a_namespace() {
    let shell = "set -e; place=$(mktemp -d); trap 'rm -r $place' EXIT; cat > $place/main.c <<'END'
#include <stdio.h>
int main(void) {
    char text[64];
    FILE* file = fopen(\"/sys/class/kfd/kfd/topology/nodes/1/gpu_id\", \"r\");
    return !file || !fgets(text, sizeof text, file) || puts(text) < 0;
}
END
cc -static $place/main.c -o $place/main; $place/main";
    let tree = tree("rocm");
    let output = exec(&["--namespace"], &tree, &["sh", "-c", shell]).output().unwrap();
    assert!(stdout(&output).trim().parse::<u32>().unwrap() > 0);
    let output = exec(&[], &tree, &["sh", "-c", shell]).output().unwrap();
    assert!(!output.status.success(), "without a namespace, it is not there");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("main is statically linked"), "{said}");
}

#[test]
fn image_is_a_root_file_system_by_name() {
    let exec = |image: &str| {
        let mut command = Command::new(belfry());
        command.args(["exec", "--quiet", "--image", image, "--", "rocminfo"]);
        command.stdin(Stdio::null()).current_dir("/").output().unwrap()
    };
    assert!(stdout(&exec("rocm")).contains("gfx1100"));
    let output = exec("rocm/../..");
    assert_eq!(output.status.code(), Some(125));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("rocm/../..") && error.contains("rocm, rocm-sid"), "{error}");
}

#[test]
fn program_that_this_machine_has_not_runs_in_the_root_file_system_that_fits_the_chip() {
    tree("rocm");
    let empty = tempfile::tempdir().unwrap();
    let exec = |program: &[&str]| {
        let mut command = Command::new(belfry());
        command.args(["exec", "--chip", "gfx942:xccs=2", "--"]).args(program).env("PATH", empty.path());
        command.stdin(Stdio::null()).current_dir("/").output().unwrap()
    };
    let output = exec(&["rocminfo"]);
    let named = stdout(&output);
    assert!(named.lines().any(|line| line.split_whitespace().eq(["Name:", "gfx942"])), "{named}");
    let said = String::from_utf8_lossy(&output.stderr);
    for part in
        ["rocminfo is not on this machine", "(--image rocm)", "gfx942 with 8 CUs on 2 XCCs and 1024 MiB"]
    {
        assert!(said.contains(part), "{part} in {said}");
    }
    let output = exec(&["hip-suite", "--exact", "memset_8"]);
    assert!(stdout(&output).ends_with("\n1 passed, 0 failed, 0 absent\n"), "{}", stdout(&output));
    // A path is a path of this machine.
    let output = exec(&["/nowhere/rocminfo"]);
    assert_eq!(output.status.code(), Some(125));
}

#[test]
fn root_without_namespaces_is_one_error_that_says_what_to_do() {
    let tree = tree("rocm");
    for options in [&[][..], &["--json"]] {
        let mut command = Command::new("unshare");
        // Limits of a user namespace of its own: nothing of this machine changes.
        let script = "echo 0 > /proc/sys/user/max_user_namespaces; echo 0 > /proc/sys/user/max_mnt_namespaces; exec \"$@\"";
        command.args(["--user", "--map-root-user", "sh", "-c", script, "sh"]).arg(belfry());
        command.args(["exec", "--quiet"]).args(options).arg("--root").arg(&tree).args(["--", "true"]);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("no user namespace") && said.contains("leave --root out"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// Monitors find the processes that use a GPU by their descriptors.
#[test]
fn descriptors_of_another_exec_lead_to_the_nodes() {
    let tree = tree("debian12");
    let script = "exec 5</dev/kfd 6</dev/dri/renderD128; echo $$; read end; true";
    let mut user = exec(&[], &tree, &["sh", "-c", script]);
    let mut user = user.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pid = String::new();
    BufReader::new(user.stdout.as_mut().unwrap()).read_line(&mut pid).unwrap();
    let pid = pid.trim();
    let script =
        format!("readlink /proc/{pid}/fd/5 /proc/{pid}/fd/6; ls -l /proc/{pid}/fd | grep -c ' -> /dev/[kd]'");
    let seen = exec(&[], &tree, &["sh", "-c", &script]).output().unwrap();
    let other = exec(&["--cus", "4"], &tree, &["readlink", &format!("/proc/{pid}/fd/5")]).output().unwrap();
    drop(user.stdin.take());
    assert!(user.wait().unwrap().success());
    assert_eq!(stdout(&seen), "/dev/kfd\n/dev/dri/renderD128\n2\n");
    assert_ne!(stdout(&other), "/dev/kfd\n", "the user's device is another one");
}

/// A thread that waits actively for a signal; another one changes the signal after half a second.
const WAITING: &str = "import ctypes, threading, time
rocr = ctypes.CDLL('libhsa-runtime64.so.1')
assert rocr.hsa_init() == 0
signal = ctypes.c_uint64()
assert rocr.hsa_signal_create(ctypes.c_int64(1), 0, None, ctypes.byref(signal)) == 0
wait = rocr.hsa_signal_wait_scacquire
wait.restype = ctypes.c_int64
threading.Timer(0.5, lambda: rocr.hsa_signal_store_screlease(signal, ctypes.c_int64(7))).start()
before = time.thread_time()
value = wait(signal, 1, ctypes.c_int64(1), ctypes.c_uint64(2**64 - 1), 1)
print(value, 'slept' if time.thread_time() - before < 0.25 else 'spun')
";

#[test]
fn threads_that_wait_for_signals_sleep_on_request() {
    let said = exec(&["--wait", "block"], &tree("rocm"), &["python3", "-c", WAITING]).output().unwrap();
    assert_eq!(stdout(&said), "7 slept\n");
    // Beside other work it may seem to sleep here, too.
    let said = exec(&["--wait=spin"], &tree("rocm"), &["python3", "-c", WAITING]).output().unwrap();
    assert!(stdout(&said).starts_with("7 s"));
}
