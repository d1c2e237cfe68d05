//! `--inspect` and `belfry inspect` as a user runs them, and clients that mean harm.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const ENDLESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/endless.gfx1100.hsaco");

/// A kernel with debug information.
const VECADD: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/vecadd.gfx1100.hsaco");

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A process with an endless kernel on its GPU, and the folder that has its socket.
struct Run {
    child: Child,
    folder: tempfile::TempDir,
}

impl Run {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_belfry"))
            .env("XDG_RUNTIME_DIR", folder.path())
            .args(["run", "--mode", "hosted", "--inspect", "--timeout", "600", "--", "launch", ENDLESS])
            .args(["--kernel", "endless", "--grid", "128", "--block", "64", "--arg", "buf:u32:4:zero"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let run = Self { child, folder };
        run.until("the kernel begins", |run| run.waves() == Some(4));
        run
    }

    /// Waits until something is so.
    #[track_caller]
    fn until(&self, what: &str, mut is: impl FnMut(&Self) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            assert!(begun.elapsed() < PATIENCE, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn waves(&self) -> Option<u64> {
        if !self.socket().exists() {
            return None;
        }
        let output = self.belfry(&["inspect", "--json", "waves"]);
        serde_json::from_slice::<Value>(&output.stdout).ok()?["all"].as_u64()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("belfry").join(format!("{}.sock", self.child.id()))
    }

    fn belfry(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.env("XDG_RUNTIME_DIR", self.folder.path()).args(arguments).output().unwrap()
    }

    /// The answer to a question, by the process's number.
    #[track_caller]
    fn ask(&self, question: &str) -> Value {
        let pid = self.child.id().to_string();
        let mut arguments = vec!["inspect", pid.as_str(), "--json"];
        arguments.extend(question.split(' '));
        let output = self.belfry(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{question}: {said}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Error of a question that is refused.
    #[track_caller]
    fn refused(&self, question: &str) -> String {
        let mut arguments = vec!["inspect", "--json"];
        arguments.extend(question.split(' '));
        let output = self.belfry(&arguments);
        assert_eq!(output.status.code(), Some(125), "{question}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }

    fn connect(&self) -> BufReader<UnixStream> {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        BufReader::new(stream)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(client: &mut BufReader<UnixStream>) -> Value {
    let mut line = String::new();
    client.read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"))
}

/// An address in hexadecimal.
fn address(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().strip_prefix("0x").unwrap(), 16).unwrap()
}

#[test]
fn endless_kernel_is_found_stopped_at_its_branch_looked_at_and_let_go() {
    let run = Run::start();
    let waves = run.ask("waves");
    assert_eq!(waves["dispatches"][0]["kernel"], "endless");
    let wave = waves["waves"][0]["wave"].as_str().unwrap().to_owned();
    let details = run.ask(&format!("wave {wave}"));
    let code = details["code"].as_array().unwrap();
    assert!(code.iter().any(|line| line["next"] == true), "{details}");
    let back =
        |line: &&Value| !line["target"].is_null() && address(&line["target"]) <= address(&line["address"]);
    let branch = code.iter().find(back).unwrap_or_else(|| panic!("no loop in {code:?}"));
    assert!(branch["text"].as_str().unwrap().starts_with("s_"), "{branch}");

    let at = branch["address"].as_str().unwrap();
    let number = run.ask(&format!("break pc {at}"))["breakpoint"].clone();
    let status = run.ask("wait 60");
    assert_eq!((&status["halted"], &status["breakpoint"]), (&Value::Bool(true), &number));
    let stopped = status["wave"].as_str().unwrap().to_owned();
    let lane = run.ask(&format!("wave {stopped} v0 3"));
    assert_eq!(lane["pc"], branch["address"]);
    let vgprs = lane["vgprs"].as_array().unwrap();
    assert_eq!((vgprs.len(), &vgprs[0][0]), (1, &Value::from("v0")));
    assert_eq!(vgprs[0][1].as_array().unwrap().len(), 1);
    address(&vgprs[0][1][0]);

    // A second person looks while the first does.
    let instructions = run.ask("overview")["wave_instructions"].as_u64().unwrap();
    assert_eq!(run.ask("overview")["wave_instructions"].as_u64(), Some(instructions), "it stands still");
    let stepped = run.ask(&format!("step {stopped}"));
    assert_ne!(stepped["pc"], lane["pc"]);
    assert_eq!(run.ask("unbreak all")["removed"], true);
    assert_eq!(run.ask("continue")["was_halted"], true);
    let begun = Instant::now();
    while run.ask("overview")["wave_instructions"].as_u64() <= Some(instructions + 1) {
        assert!(begun.elapsed() < PATIENCE, "it does not go on");
    }
}

#[test]
fn each_page_has_its_question() {
    let run = Run::start();
    let queues = run.ask("queues");
    let mine = queues.as_array().unwrap().iter().find(|queue| queue["packets"] == "aql").unwrap();
    let doorbell = mine["doorbell"].as_u64().unwrap();
    let queue = run.ask(&format!("queue {doorbell}"));
    assert_eq!(queue["next"][0]["kind"], "KERNEL_DISPATCH", "{queue}");
    assert_eq!(queue["next"][0]["fields"]["kernel"], "endless");
    let (pasid, object) = (&mine["pasid"], queue["next"][0]["fields"]["kernel_object"].as_str().unwrap());
    let walk = run.ask(&format!("walk {pasid} {object}"));
    assert!(walk["memory"].is_string() && walk["levels"].as_array().unwrap().len() > 1, "{walk}");
    let backwards = run.ask(&format!("backwards {}", walk["memory"].as_str().unwrap()));
    assert!(backwards["mapped"].as_array().unwrap().iter().any(|mapped| mapped[1] == object), "{backwards}");
    let descriptor = run.ask(&format!("memory {pasid} {object} 64 as descriptors"));
    assert!(descriptor[0]["fields"][1]["entry"].is_string(), "{descriptor}");
    assert!(run.ask("kernels").as_array().unwrap().iter().any(|kernel| kernel["name"] == "endless"));
    assert!(run.ask("registers GC").as_array().unwrap().iter().any(|register| register["changed"] == true));
    assert!(run.ask("interrupts")[0]["enabled"] == true);
    let doorbells = run.ask("doorbells");
    assert!(doorbells.as_array().unwrap().iter().any(|rung| rung["doorbell"] == doorbell), "{doorbells}");
    assert!(run.ask("unmodelled").is_array() && run.ask("status")["halted"] == false);
    assert!(run.ask("help").as_array().unwrap().len() > 10);
    assert_eq!(run.ask("pause")["why"], "paused");
    assert_eq!(run.ask("continue")["was_halted"], true);

    for (question, why) in [
        ("nonsense", "is no question"),
        ("queue 1", "no queue has doorbell 0x1"),
        ("wave 99:0,0,0:0", "no wave 99:0,0,0:0"),
        ("walk 0x7777 0", "no queue of a process"),
        ("memory 0 0 1000000000", "more than"),
        ("step 0:0,0,0:0", "the device runs"),
        ("registers XYZ", "there are GC, MMHUB, MP0, MP1, NBIF"),
        ("break register XYZ", "no register with a model"),
    ] {
        let said = run.refused(question);
        assert!(said.contains(why), "{question}: {said}");
    }
    let listed = run.belfry(&["inspect", "--list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.starts_with(&format!("{}  gfx1100, ", run.child.id())), "{listed}");
    let nowhere = run.belfry(&["inspect"]);
    assert_eq!(nowhere.status.code(), Some(125));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("needs a terminal"), "{nowhere:?}");
    let none = run.belfry(&["inspect", "1", "--json", "overview"]);
    assert!(String::from_utf8_lossy(&none.stderr).contains("process 1 has no GPU"));
}

#[test]
fn breakpoint_from_the_start_halts_and_one_that_is_none_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.env("XDG_RUNTIME_DIR", folder.path()).args(["run", "--mode", "hosted"]).args(arguments);
        let output = command.args(["--", "vector-add"]).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, said) = run(&["--inspect", "--break", "nonsense"]);
    assert!(
        status == Some(125) && said.contains("--break \"nonsense\": break pc ADDRESS"),
        "{status:?}: {said}"
    );
    let (status, said) = run(&["--break", "fault"]);
    assert!(status == Some(125) && said.contains("--inspect"), "{status:?}: {said}");
    let (status, said) = run(&["--inspect", "--break", "kernel nobody", "--break", "fault"]);
    assert_eq!(status, Some(0), "{said}");
    let inner = folder.path().join("belfry");
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0, "a run that is refused leaves no socket");
}

/// `launch` of a kernel with debug information, with more arguments of `run`.
fn vecadd(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.env("XDG_RUNTIME_DIR", folder).args([
        "run",
        "--mode",
        "hosted",
        "--inspect",
        "--symbols",
        VECADD,
    ]);
    command
        .args(arguments)
        .args(["--", "launch", VECADD, "--kernel", "vecadd", "--grid", "64", "--block", "64"]);
    for argument in ["buf:f32:64:iota", "buf:f32:64:iota", "buf:f32:64:zero", "u32:64"] {
        command.args(["--arg", argument]);
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

#[test]
fn line_whose_code_is_not_there_yet_halts_once_it_has_come() {
    let folder = tempfile::tempdir().unwrap();
    let child = vecadd(folder.path(), &["--break", "line vecadd.cl:6"]).spawn().unwrap();
    let mut run = Run { child, folder };
    let status = |run: &Run| {
        let output = run.belfry(&["inspect", "--json", "status"]);
        serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
    };
    run.until("a wave comes to the line", |run| status(run)["halted"] == true);
    let halted = run.ask("status");
    assert_eq!((&halted["source"], &halted["breakpoint"]), (&"vecadd.cl:6".into(), &1.into()), "{halted}");
    assert!(halted["why"].as_str().unwrap().starts_with("pc 0x"), "{halted}");
    assert_eq!(halted["breakpoints"].as_array().map(Vec::len), Some(1), "{halted}");
    run.ask("unbreak 1");
    run.ask("continue");
    assert_eq!(run.child.wait().unwrap().code(), Some(0));

    // Code that no file has cannot come; and code that never comes harms nothing.
    let folder = tempfile::tempdir().unwrap();
    let output = vecadd(folder.path(), &["--break", "line vecadd.cl:600"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code() == Some(125) && said.contains("no code is known to be of vecadd.cl:600"),
        "{said}"
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
    command.env("XDG_RUNTIME_DIR", folder.path()).args(["run", "--mode", "hosted", "--inspect"]);
    command.args(["--symbols", VECADD, "--break", "line vecadd.cl:6", "--", "many-queues", "4"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn clients_that_send_garbage_flood_stall_or_leave_hurt_nobody() {
    let run = Run::start();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(run.socket().parent().unwrap()), 0o700);

    let mut garbage = run.connect();
    garbage.get_mut().write_all(b"\xff\x00{]\n{}\n{\"query\": 3}\n\n").unwrap();
    for _ in 0..4 {
        assert!(line(&mut garbage)["error"].is_string());
    }
    garbage.get_mut().write_all(b"{\"query\": \"overview\"}\n").unwrap();
    assert!(line(&mut garbage)["answer"].is_object(), "it may ask on");

    // A line without an end is refused when it is too long, and dropped when it takes too long.
    let mut long = run.connect();
    long.get_mut().write_all(&[b'x'; 4096]).unwrap();
    assert!(line(&mut long)["error"].as_str().unwrap().contains("at most 4096 bytes"));
    let mut half = run.connect();
    half.get_mut().write_all(b"{\"query\"").unwrap();
    // A client that never reads the answers it has asked for, until nothing more fits.
    let stalled = run.connect();
    stalled.get_ref().set_write_timeout(Some(Duration::from_secs(20))).unwrap();
    let flood = b"{\"query\": \"registers GC\"}\n".repeat(64);
    while stalled.get_ref().write_all(&flood).is_ok() {}
    let mut rest = Vec::new();
    half.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty(), "nothing is answered to half a line");

    // More than are served at once.
    let mut many: Vec<_> = (0..20).map(|_| run.connect()).collect();
    let last = many.last_mut().unwrap();
    assert!(line(last)["error"].as_str().unwrap().contains("clients are served already"));
    drop(many);
    drop(garbage);
    run.until("others are served again", |run| run.waves() == Some(4));
    let before = run.ask("overview")["wave_instructions"].as_u64();
    assert!(run.ask("overview")["wave_instructions"].as_u64() > before, "the kernel has run on");
}

#[test]
fn folder_that_others_may_enter_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let inner = folder.path().join("belfry");
    std::fs::create_dir(&inner).unwrap();
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o755)).unwrap();
    let belfry = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command.env("XDG_RUNTIME_DIR", folder.path()).args(arguments).output().unwrap()
    };
    for arguments in [&["run", "--mode", "hosted", "--inspect"][..], &["inspect", "--list"]] {
        let output = belfry(arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("others may enter it"), "{said}");
    }
    std::fs::set_permissions(&inner, std::fs::Permissions::from_mode(0o700)).unwrap();
    let output = belfry(&["run", "--mode", "hosted", "--inspect"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_dir(&inner).unwrap().count(), 0, "the socket is gone with its process");
}
