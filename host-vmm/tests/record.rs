//! `belfry run --record`, `belfry serve --record` and `belfry replay` as a user runs them.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn belfry(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_belfry")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn succeed(arguments: &[&str]) -> (String, String) {
    let output = belfry(arguments);
    let said = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{arguments:?}\n{}{}", said.0, said.1);
    said
}

/// The status and the words of a command that fails.
#[track_caller]
fn fail(arguments: &[&str]) -> (i32, String) {
    let output = belfry(arguments);
    assert!(!output.status.success(), "{arguments:?}");
    let error = text(&output.stderr);
    assert!(!error.contains("panicked"), "{error}");
    (output.status.code().unwrap(), error)
}

/// Runs an example hosted and records it.
#[track_caller]
fn record(path: &Path, more: &[&str], program: &[&str]) -> String {
    let mut arguments = vec!["run", "--mode", "hosted", "--record", path.to_str().unwrap()];
    arguments.extend(more);
    arguments.push("--");
    arguments.extend(program);
    let (_, said) = succeed(&arguments);
    assert!(said.contains("belfry: recorded"), "{said}");
    said
}

/// The number of events and the digest of memory of a replay.
#[track_caller]
fn end(said: &str) -> (u64, String) {
    let line = said.lines().find(|line| line.starts_with("the same")).unwrap_or_else(|| panic!("{said}"));
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let at = |name| words.iter().position(|word| *word == name).unwrap();
    (words[at("events") - 1].parse().unwrap(), words[at("memory") + 1].to_owned())
}

#[test]
fn runs_of_every_chip_replay_ten_times_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for model in belfry_device::chip::MODELS {
        let chip = model.name;
        for program in [&["vector-add"][..], &["many-queues", "8"]] {
            let path = folder.path().join(format!("{chip}-{}", program[0]));
            record(&path, &["--chip", chip], program);
            let (said, _) = succeed(&["replay", "--times", "10", path.to_str().unwrap()]);
            let (events, _) = end(&said);
            assert!(said.contains("10 times") && events > 20, "{chip} {program:?}: {said}");
        }
    }
}

#[test]
fn gpus_of_one_machine_replay_as_one() {
    let folder = tempfile::tempdir().unwrap();
    for (name, gpus) in [
        ("bus", &["--gpus", "2"][..]),
        ("hive", &["--chip", "gfx942", "--gpus", "3"]),
        ("mixed", &["--chip", "gfx1100", "--chip", "gfx942:vram=512M"]),
    ] {
        let path = folder.path().join(name);
        record(&path, gpus, &["peers", "3001"]);
        let path = path.to_str().unwrap();
        let (said, _) = succeed(&["replay", "--times", "3", path]);
        let (events, _) = end(&said);
        assert!(said.contains("3 times") && events > 100, "{name}: {said}");
        let (there, _) = succeed(&["replay", "--until", "dispatch:3", path]);
        assert!(there.matches("Gpu {").count() >= 2, "{name}: {there}");
        let (back, _) = succeed(&["replay", "--back", "7", path]);
        assert!(back.starts_with(&format!("event {} in operation", events - 7)), "{name}: {back}");
    }
    let (_, error) =
        fail(&["replay", "--inspect", "--gpu", "3", folder.path().join("hive").to_str().unwrap()]);
    assert!(error.contains("--gpu 3: 3 GPUs"), "{error}");
}

#[test]
fn faults_strike_again_in_a_replay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults");
    let file = path.to_str().unwrap();
    for (plan, program) in [
        (
            &["--fault", "interrupt-late@2", "--fault", "signal-late@1,for:3ms"][..],
            &["vector-add", "4096"][..],
        ),
        (&["--fault", "doorbell-late@2,for:2ms"], &["many-queues", "4"]),
        (&["--chaos", "5:0.02"], &["vector-add", "4096"]),
        (&["--fault", "function-reset@40"], &["vector-add", "256"]),
        (&["--fault", "removal@40"], &["vector-add", "256"]),
    ] {
        let run = ["run", "--mode", "hosted", "--record", file, "--timeout", "120"];
        let output = belfry(&[&run[..], plan, &["--"], program].concat());
        let said = text(&[output.stdout, output.stderr].concat());
        assert!(said.contains("belfry: recorded"), "{plan:?}: {said}");
        let (replayed, _) = succeed(&["replay", "--times", "3", file]);
        let strikes =
            |said: &str| said.lines().filter(|line| line.contains(" at ") && line.contains(" ms: ")).count();
        assert!(strikes(&replayed) > 0, "{plan:?}: {said}\n{replayed}");
        // A program that fails has no summary.
        if output.status.success() {
            assert_eq!(strikes(&replayed), strikes(&said), "{plan:?}: {said}\n{replayed}");
        } else {
            assert!(
                plan[1].contains("removal") || plan[1].contains("reset") || plan[0] == "--chaos",
                "{plan:?}: {said}"
            );
        }
        assert!(replayed.contains("the same, 3 times: "), "{replayed}");
    }
    let refused =
        ["run", "--mode", "hosted", "--record", file, "--fault", "vram-exhausted", "--", "vector-add"];
    let (_, said) = fail(&refused);
    assert!(said.contains("a device that is recorded has no faults of its driver"), "{said}");
}

#[test]
fn replays_stop_at_events_and_go_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    record(&path, &[], &["vector-add"]);
    let path = path.to_str().unwrap();
    let (at, _) = succeed(&["replay", "--until", "dispatch:1", path]);
    assert!(at.contains("dispatch start kernel_object=") && at.contains("Gpu {"), "{at}");
    let number = |said: &str| -> u64 {
        let words =
            said.lines().find_map(|line| line.strip_prefix("event ")).unwrap_or_else(|| panic!("{said}"));
        words.split(' ').next().unwrap().parse().unwrap()
    };
    let dispatch = number(&at);
    let (same, _) = succeed(&["replay", "--until", &dispatch.to_string(), path]);
    assert_eq!(same.lines().next(), at.lines().next());
    let (before, _) = succeed(&["replay", "--until", "dispatch:1", "--back", "3", path]);
    assert_eq!(number(&before), dispatch - 3, "{before}");
    let (interrupt, _) = succeed(&["replay", "--until", "interrupt:1", path]);
    assert!(number(&interrupt) > 0 && interrupt.contains("interrupt vector="), "{interrupt}");
    let (status, error) = fail(&["replay", "--until", "dispatch:1000", path]);
    assert!(status == 125 && error.contains("ends before dispatch-start:1000"), "{error}");
    let (_, error) = fail(&["replay", "--until", "9999999", path]);
    assert!(error.contains("ends before event:9999999"), "{error}");
    let (_, error) = fail(&["replay", "--until", "dispatch:1", "--back", "100000", path]);
    assert!(error.contains("before the first of"), "{error}");
    let (_, error) = fail(&["replay", "--until", "lunch:1", path]);
    assert!(error.contains("interrupt"), "{error}");
}

#[test]
fn checkpoints_change_nothing_but_how_far_back_a_replay_begins() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    record(&path, &[], &["many-queues", "4"]);
    let path = path.to_str().unwrap();
    for (until, back) in [("dispatch-end:3", "1"), ("interrupt:2", "20"), ("dispatch-end:4", "1000")] {
        let back = |checkpoints: &[&str]| {
            succeed(&[&["replay", "--until", until, "--back", back], checkpoints, &[path]].concat()).0
        };
        let with = back(&[]);
        assert!(with.starts_with("event "), "{with}");
        let line = |said: &str| said.lines().next().unwrap().to_owned();
        for checkpoints in ["0", "1M"] {
            assert_eq!(line(&back(&["--checkpoints", checkpoints])), line(&with), "{until}");
        }
    }
    let (_, error) = fail(&["replay", "--checkpoints", "many", path]);
    assert!(error.contains("many is not a size"), "{error}");
}

#[test]
fn replay_that_is_looked_at_goes_on_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("record");
    record(&path, &[], &["vector-add", "4096"]);
    let path = path.to_str().unwrap();
    let of = |until: &str| {
        let (said, _) = succeed(&["replay", "--until", until, path]);
        said.lines().next().unwrap().to_owned()
    };
    let (whole, _) = succeed(&["replay", path]);
    let (first, interrupt) = (of("dispatch:1"), of("interrupt:1"));
    let number: u64 = interrupt.split(' ').nth(1).unwrap().parse().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_belfry"))
        .args(["replay", "--until", "dispatch:1", "--inspect", path])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = "continue interrupt:1\nback 5\n\nlunch\nback 0\ncontinue dispatch:1\ncontinue dispatch:99\nback 9\ncontinue\nquit\n";
    child.stdin.take().unwrap().write_all(said.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let (out, error) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{error}");
    let places: Vec<&str> =
        out.lines().filter(|line| line.starts_with("event ") || line.starts_with("the same")).collect();
    let before = of(&(number - 5).to_string());
    let end = whole.lines().next().unwrap();
    // A refusal leaves it where it is, but for an event that it has looked for to the end.
    assert_eq!(places[..5], [&first, &interrupt, &before, &before, end], "{out}{error}");
    assert!(places[5].starts_with("event ") && places[6..] == [end], "{out}{error}");
    for why in
        ["\"lunch\" is not", "from 1 on", "behind dispatch-start:1 already", "ends before dispatch-start:99"]
    {
        assert!(error.contains(why), "{why}: {error}");
    }
}

/// A server that records, and has said where it listens.
struct Server {
    child: Child,
    stderr: Option<std::thread::JoinHandle<String>>,
}

impl Server {
    fn start(socket: &Path, record: &str) -> Self {
        // A test run in the background of a shell has inherited that SIGINT is ignored, which belfry would respect.
        let mut child = Command::new("env")
            .args(["--default-signal", env!("CARGO_BIN_EXE_belfry")])
            .args(["serve", "--socket", socket.to_str().unwrap(), "--record", record])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.next().unwrap().unwrap().starts_with("listening on "));
        // The others are read, so that nothing waits for room.
        std::thread::spawn(move || lines.for_each(drop));
        let stderr = child.stderr.take().unwrap();
        let stderr = std::thread::spawn(move || std::io::read_to_string(stderr).unwrap());
        Self { child, stderr: Some(stderr) }
    }

    /// Ends it by a signal: its status and its output.
    fn end(mut self, signal: rustix::process::Signal) -> (Option<i32>, String) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        let status = self.child.wait().unwrap();
        (status.code(), self.stderr.take().unwrap().join().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Uses a card as a guest's firmware does: it looks at it, lets it be master of the bus, and leaves a word in VRAM.
fn use_card(socket: &Path, word: u32) -> vfio_user::Client {
    let mut client = vfio_user::Client::new(socket).unwrap();
    let mut vendor = [0; 4];
    client.region_read(7, 0, &mut vendor).unwrap();
    assert_eq!(vendor[..2], [0x02, 0x10]);
    client.region_write(7, 4, &[6, 0]).unwrap();
    let (mut before, mut after) = ([1; 4], [0; 4]);
    client.region_read(0, 0x1000, &mut before).unwrap();
    client.region_write(0, 0x1000, &word.to_le_bytes()).unwrap();
    client.region_read(0, 0x1000, &mut after).unwrap();
    assert_eq!((before, after), ([0; 4], word.to_le_bytes()), "the client before has left nothing");
    client.region_read(5, 0, &mut after).unwrap();
    client
}

#[test]
fn server_that_a_signal_ends_has_written_its_record() {
    use rustix::process::Signal;
    let folder = tempfile::tempdir().unwrap();
    let (socket, file) = (folder.path().join("socket"), folder.path().join("record"));
    let file = file.to_str().unwrap();
    // No client comes; one client that is there at the end; several that have left, by a shutdown or not.
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        for clients in 0..4 {
            let server = Server::start(&socket, file);
            let mut there = None;
            for client in 0..clients {
                there = Some(use_card(&socket, client + 1));
                if client == 1 {
                    there.as_mut().unwrap().reset().unwrap();
                    there.take().unwrap().shutdown().unwrap();
                } else if client + 1 < clients {
                    there = None;
                }
            }
            let (code, said) = server.end(signal);
            drop(there);
            assert_eq!(code, Some(status), "{said}");
            assert!(said.contains("belfry: recorded"), "{clients} clients: {said}");
            let (replayed, _) = succeed(&["replay", "--times", "2", file]);
            assert!(end(&replayed).0 >= u64::from(clients.min(1)), "{clients} clients: {replayed}");
        }
    }
}

#[test]
fn servers_that_cannot_record_say_so() {
    use rustix::process::Signal;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let server = Server::start(&socket, "/dev/full");
    drop(use_card(&socket, 1));
    let (code, said) = server.end(Signal::TERM);
    assert!(code == Some(143) && said.contains("/dev/full ends early"), "{said}");
    let serve = ["serve", "--socket", socket.to_str().unwrap(), "--record"];
    let (status, error) = fail(&[&serve[..], &["/nowhere/file"]].concat());
    assert!(status == 125 && error.contains("/nowhere/file"), "{error}");
    let never = folder.path().join("never");
    for option in ["--inspect", "--gdb", "--trace-isa"] {
        let (_, error) = fail(&[&serve[..], &[never.to_str().unwrap(), option]].concat());
        assert!(error.contains(option) && error.contains("--record"), "{error}");
    }
    assert!(!never.exists() && !socket.exists());
}

#[test]
fn what_is_no_whole_record_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("record");
    record(&whole, &[], &["vector-add"]);
    let bytes = std::fs::read(&whole).unwrap();
    let path = folder.path().join("damaged");
    let with = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        fail(&["replay", path.to_str().unwrap()]).1
    };
    assert!(with(b"a text").contains("no record"));
    assert!(with(&[]).contains("no record"));
    assert!(with(&bytes[..bytes.len() - 1]).contains("ends after"));
    let mut other = bytes.clone();
    other[8] = 99;
    assert!(with(&other).contains("version 99"));
    let mut other = bytes.clone();
    let middle = other.len() / 2;
    other[middle] ^= 1;
    assert!(with(&other).contains("damaged"));
    assert!(with(&[&bytes[..], b"more"].concat()).contains("behind its end"));
    assert!(fail(&["replay", "/nowhere/record"]).1.contains("/nowhere/record"));
    assert!(fail(&["replay", folder.path().to_str().unwrap()]).1.contains("folder"));
}

#[test]
fn records_that_cannot_be_written_leave_the_run_alone() {
    // A device that is full.
    let arguments = ["run", "--mode", "hosted", "--record", "/dev/full", "--", "vector-add"];
    let (_, said) = succeed(&arguments);
    assert!(said.contains("/dev/full ends early") && said.contains("not affected"), "{said}");
    let (status, error) = fail(&["run", "--mode", "hosted", "--record", "/nowhere/file", "--", "vector-add"]);
    assert!(status == 125 && error.contains("/nowhere/file"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let never = folder.path().join("never");
    let (_, error) = fail(&["run", "--mode", "hosted", "--record", never.to_str().unwrap(), "--sanitize"]);
    assert!(error.contains("--sanitize"), "{error}");
    assert!(!never.exists());
}
