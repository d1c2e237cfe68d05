//! `belfry exec --debuggable`: programs that a debugger stops, and their view of the process that their GPU is in.
//!
//! The debugger is `tests/programs/debugger/traps.c`: ptrace, and DBG_TRAP without a library. `cargo xtask rocm --only
//! debugger-exec` runs ROCdbgapi.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use belfry_image::{Progress, rootfs};
use belfry_tests::suite;

fn belfry() -> &'static Path {
    static BELFRY: OnceLock<PathBuf> = OnceLock::new();
    BELFRY.get_or_init(|| suite::belfry().unwrap())
}

/// A command that `belfry exec OPTIONS --image rocm -- PROGRAM...` is.
fn command(options: &[&str], program: &[&str]) -> Command {
    static IMAGE: OnceLock<()> = OnceLock::new();
    IMAGE.get_or_init(|| drop(rootfs::rocm(&Progress::new()).unwrap()));
    let mut command = Command::new(belfry());
    command.args(["exec", "--quiet", "--vram", "256M"]).args(options);
    command.args(["--image", "rocm", "--"]).args(program).stdin(Stdio::null());
    command
}

#[track_caller]
fn assert_ok(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (said, errors) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{said}{errors}", output.status);
    said
}

/// The debugger and its program, compiled in the image.
struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    fn get() -> &'static Self {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(|| {
            let folder = tempfile::tempdir().unwrap();
            let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/debugger");
            let source = |name: &str| sources.join(name).to_str().unwrap().to_owned();
            let result = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
            let hip = [
                "hipcc",
                "--offload-arch=gfx1100",
                "-O1",
                &source("debugged.hip"),
                "-o",
                &result("debugged"),
            ];
            assert_ok(&command(&[], &hip).output().unwrap());
            let c = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", &source("traps.c"), "-o", &result("traps")];
            assert_ok(&command(&[], &c).output().unwrap());
            Self { folder }
        })
    }

    fn run(&self, options: &[&str], case: &str) -> Output {
        let path = |name: &str| self.folder.path().join(name).to_str().unwrap().to_owned();
        command(options, &[&path("traps"), case, &path("debugged")]).output().unwrap()
    }
}

#[track_caller]
fn case(name: &str) {
    assert_eq!(assert_ok(&Programs::get().run(&["--debuggable"], name)), "ok\n");
}

#[test]
fn running_program_is_stopped_looked_at_and_let_go() {
    case("running_program");
}

#[test]
fn program_is_debugged_from_before_it_has_a_gpu() {
    case("program_without_a_gpu");
}

#[test]
fn who_does_not_trace_a_program_does_not_debug_it() {
    case("others_may_not");
}

#[test]
fn queues_of_a_killed_debugger_go_on() {
    case("killed_debugger");
}

#[test]
fn killed_program_is_known_no_more() {
    case("killed_program");
}

/// The answer to the debugger comes before the end that it allows. That is a race, so there are several rounds.
#[test]
fn program_that_ends_does_not_take_the_answer_with_it() {
    for _ in 0..8 {
        case("program_that_ends");
    }
}

#[test]
fn option_is_named_where_it_is_missing() {
    let output = Programs::get().run(&[], "not_debuggable");
    assert_eq!(assert_ok(&output), "ok\n");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("start it with `belfry exec --debuggable`"), "{said}");
}

/// Python that opens the GPU, and finds the process that it is in.
const OPEN: &str = "
import fcntl, os, signal, sys, time
def use():
    fd = os.open('/dev/kfd', os.O_RDWR)
    assert fcntl.ioctl(fd, 0x80084b01, bytes(8))[0] == 1
    return fd
def companion(of):
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            status = dict(line.split(':\\t', 1) for line in open(f'/proc/{pid}/status').read().splitlines() if ':\\t' in line)
        except OSError:
            continue
        if status['PPid'] == str(of) and status['Name'] == 'belfry-driver':
            return int(pid)
def is_gone(pid):
    for _ in range(1000):
        try:
            if open(f'/proc/{pid}/stat').read().rsplit(')')[1].split()[0] == 'Z':
                return True
        except OSError:
            return True
        time.sleep(0.01)
";

fn python(text: &str) -> Output {
    command(&["--debuggable"], &["python3", "-c", &format!("{OPEN}{text}")]).output().unwrap()
}

#[test]
fn program_sees_no_process_of_the_gpu() {
    let text = "
import subprocess
use()
assert companion(os.getpid())
names = sorted(open(f'/proc/self/task/{task}/comm').read().strip() for task in os.listdir('/proc/self/task'))
assert names == ['belfry-parent', 'python3'], names
try:
    raise SystemExit(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    pass
assert subprocess.run(['true']).returncode == 0
child = os.fork()
if not child:
    use()
    os._exit(0 if companion(os.getpid()) else 1)
assert os.waitpid(child, 0) == (child, 0)
try:
    raise SystemExit(os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print('alone')
";
    assert_eq!(assert_ok(&python(text)), "alone\n");
}

/// However a program ends, the process of its GPU ends with it.
#[test]
fn process_of_the_gpu_ends_with_the_program() {
    let text = "
def ends(how, status):
    ready, told = os.pipe()
    child = os.fork()
    if not child:
        use()
        os.write(told, str(companion(os.getpid())).encode())
        how()
        time.sleep(60)
    gpu = int(os.read(ready, 16))
    if status == signal.SIGKILL:
        os.kill(child, signal.SIGKILL)
    _, found = os.waitpid(child, 0)
    assert found == status, (found, status)
    assert is_gone(gpu), how
    os.close(ready)
    os.close(told)
ends(lambda: os._exit(3), 3 << 8)
ends(lambda: time.sleep(60), signal.SIGKILL)
ends(lambda: os.abort(), signal.SIGABRT)
ends(lambda: os.execlp('true', 'true'), 0)
def other_user():
    if os.geteuid() == 0:
        os.setresuid(65534, 65534, 65534)
    os._exit(4)
ends(other_user, 4 << 8)
print('all')
";
    let said = assert_ok(&python(text));
    assert_eq!(said, "all\n");
}

#[test]
fn program_ends_like_the_process_of_its_gpu() {
    let text = "
use()
os.kill(companion(os.getpid()), signal.SIGKILL)
time.sleep(60)
";
    let started = Instant::now();
    let output = python(text);
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(output.status.signal(), Some(libc::SIGKILL), "{}", output.status);
    assert!(started.elapsed() < Duration::from_secs(50), "it has slept on");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("the process with the GPU's driver has ended"), "{said}");
}
