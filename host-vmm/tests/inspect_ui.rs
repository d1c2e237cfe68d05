//! `belfry inspect` on a terminal, as a user has it: in tmux, whose panes are read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use belfry_image::tools::{self, Tool};
use belfry_image::{Cache, Progress};
use belfry_process::child::{KillOnDrop, die_with_parent};
use serde_json::Value;

const ENDLESS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../guest-runtime/kernels/endless.gfx1100.hsaco");
const BELFRY: &str = env!("CARGO_BIN_EXE_belfry");

/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal of tmux, in which a shell runs. All that runs in it ends with it, and it ends with this process.
struct Terminal {
    tool: Tool,
    folder: tempfile::TempDir,
    _server: KillOnDrop,
}

impl Terminal {
    /// A terminal with the given columns and rows.
    fn start((columns, rows): (u16, u16)) -> Self {
        let (tool, terminfo) = tools::tmux(&Cache::open().unwrap(), &Progress::silent()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let runtime = folder.path().join("runtime");
        fs::create_dir(&runtime).unwrap();
        let mut command = Command::new(&tool.program);
        command.args(&tool.arguments).arg("-S").arg(folder.path().join("tmux"));
        // The server itself is the child: as a daemon it would outlive this process.
        command
            .args(["-D", "-f", "/dev/null"])
            .env("TERMINFO_DIRS", terminfo)
            .env("XDG_RUNTIME_DIR", runtime);
        command.env("SHELL", "/bin/sh").env_remove("TMUX").stdin(Stdio::null()).stdout(Stdio::null());
        die_with_parent(&mut command);
        let server = KillOnDrop(command.spawn().unwrap());
        let terminal = Self { tool, folder, _server: server };
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let begun = Instant::now();
        let begin = ["new-session", "-d", "-x", &columns, "-y", &rows, "env PS1=ready: sh"];
        loop {
            let output = terminal.tmux(&begin);
            if output.status.success() {
                break;
            }
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(begun.elapsed() < PATIENCE, "tmux does not start: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
        terminal.wait("ready:");
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(&self.tool.program);
        // The server is the one above: `-N` starts no other, which would be a daemon.
        command.args(&self.tool.arguments).arg("-N").arg("-S").arg(self.folder.path().join("tmux"));
        command.args(arguments).env_remove("TMUX").output().unwrap()
    }

    /// Text on the screen.
    fn screen(&self) -> String {
        let output = self.tmux(&["capture-pane", "-p"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Waits until something holds for the screen.
    #[track_caller]
    fn until(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let screen = self.screen();
            if holds(&screen) {
                return screen;
            }
            assert!(begun.elapsed() < PATIENCE, "{what}:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the screen has a text.
    #[track_caller]
    fn wait(&self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    /// Types a text as it is.
    fn text(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", text]).status.success());
    }

    /// Presses a key by tmux's name.
    fn key(&self, key: &str) {
        assert!(self.tmux(&["send-keys", key]).status.success());
    }

    /// Starts the inspector of a process, and tells its status once it has ended.
    fn inspect(&self, pid: u32) {
        self.text(&format!(
            "clear; {BELFRY} inspect {pid}; echo status $?, $(stty -a | grep -c -w -- -icanon) raw"
        ));
        self.key("Enter");
    }

    fn socket(&self, pid: u32) -> PathBuf {
        self.folder.path().join("runtime/belfry").join(format!("{pid}.sock"))
    }

    /// A hosted run of an endless kernel, once it runs.
    fn endless(&self) -> KillOnDrop {
        let arguments = ["--kernel", "endless", "--grid", "128", "--block", "64", "--arg", "buf:u32:4:zero"];
        self.run(&[], &[&["launch", ENDLESS], &arguments[..]].concat(), |run| run.ask("waves")["all"] == 4)
    }

    /// A hosted run that can be inspected, once something holds for it; its output is in `run.out`.
    fn run(&self, options: &[&str], program: &[&str], holds: impl Fn(&Asked<'_>) -> bool) -> KillOnDrop {
        let mut command = Command::new(BELFRY);
        command.env("XDG_RUNTIME_DIR", self.folder.path().join("runtime"));
        command.args(["run", "--mode", "hosted", "--inspect", "--timeout", "600"]).args(options);
        let out = fs::File::create(self.folder.path().join("run.out")).unwrap();
        command.arg("--").args(program).stdout(out.try_clone().unwrap()).stderr(out);
        die_with_parent(&mut command);
        let run = KillOnDrop(command.spawn().unwrap());
        let begun = Instant::now();
        let asked = Asked { terminal: self, pid: run.0.id() };
        while !(self.socket(asked.pid).exists() && holds(&asked)) {
            assert!(begun.elapsed() < PATIENCE, "{program:?} does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        run
    }
}

/// A process that scripts ask beside the user.
struct Asked<'a> {
    terminal: &'a Terminal,
    pid: u32,
}

impl Asked<'_> {
    fn ask(&self, question: &str) -> Value {
        let mut command = Command::new(BELFRY);
        command.env("XDG_RUNTIME_DIR", self.terminal.folder.path().join("runtime"));
        let output = command.args(["inspect", &self.pid.to_string(), "--json", question]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }
}

/// The value after a text, up to the next space.
fn behind<'a>(screen: &'a str, text: &str) -> Option<&'a str> {
    screen.split(text).nth(1)?.split_whitespace().next()
}

/// The address of a branch backwards in the listing on the screen.
fn loop_on(screen: &str) -> Option<String> {
    screen.lines().find_map(|line| {
        let (left, target) = line.split_once(" -> 0x")?;
        let address = left.split("0x").nth(1)?.split(' ').next()?;
        let number = |text: &str| u64::from_str_radix(text.trim(), 16).ok();
        (number(target)? <= number(address)?).then(|| address.to_owned())
    })
}

#[test]
fn wave_of_stop_endless_is_found_stopped_at_its_branch_looked_at_and_let_go() {
    let terminal = Terminal::start((80, 24));
    // The program dispatches vecadd while its endless kernel runs: there it waits for an onlooker.
    let mut run = terminal
        .run(&["--break", "kernel vecadd"], &["stop-endless"], |run| run.ask("status")["halted"] == true);
    let asked = Asked { terminal: &terminal, pid: run.0.id() };
    terminal.inspect(asked.pid);
    terminal.wait("HALTED at breakpoint 1: kernel vecadd");
    terminal.key("3");
    let screen = terminal.until("the wave and its loop", |screen| {
        screen.contains("0:0,0,0:0 endless 0x") && loop_on(screen).is_some()
    });
    let branch = loop_on(&screen).unwrap();

    terminal.key("b");
    terminal.wait("break at pc ADDRESS");
    terminal.key("C-u");
    terminal.text(&format!("pc 0x{branch}"));
    terminal.key("Enter");
    terminal.wait("breakpoint 2 is set");
    terminal.key("c");
    let screen = terminal.until("it stops there", |screen| {
        screen.contains(&format!("HALTED at breakpoint 2: pc 0x{branch}"))
            && screen.contains(&format!("*> 0x{branch}"))
    });
    let wave = behind(&screen, ", wave ").unwrap().to_owned();

    terminal.key("g");
    terminal.wait("or vN [LANE]");
    terminal.text("v0 3");
    terminal.key("Enter");
    let screen = terminal.until("lane 3 of v0", |screen| {
        behind(screen, "v0 lane 3 = ").is_some_and(|value| value.starts_with("0x"))
    });
    let told = asked.ask(&format!("wave {wave} v0 3"));
    assert_eq!(behind(&screen, "v0 lane 3 = "), told["vgprs"][0][1][0].as_str(), "{screen}");

    terminal.key("d");
    terminal.text("all");
    terminal.key("Enter");
    terminal.wait("removed");
    terminal.key("c");
    // It goes on, finds its results right and ends.
    let status = run.0.wait().unwrap();
    let said = fs::read_to_string(terminal.folder.path().join("run.out")).unwrap();
    assert!(status.success() && said.contains("work beside and after verified"), "{status}: {said}");
    terminal.wait("NO MORE ANSWERS");
    terminal.key("q");
    // The shell's screen is back, with lines that are edited.
    let screen = terminal.wait("status 0, 0 raw");
    assert!(!screen.contains("endless"), "{screen}");
}

#[test]
fn running_wave_is_paused_stepped_and_let_go() {
    let terminal = Terminal::start((130, 40));
    let run = terminal.endless();
    let asked = Asked { terminal: &terminal, pid: run.0.id() };
    terminal.inspect(asked.pid);
    terminal.wait("wave instructions");
    terminal.key("3");
    terminal.until("the wave and its loop", |screen| loop_on(screen).is_some());
    terminal.key("p");
    terminal.wait("HALTED: paused");
    let instructions = |asked: &Asked<'_>| asked.ask("wave 0:0,0,0:0")["instructions"].as_u64().unwrap();
    let before = instructions(&asked);
    terminal.key("s");
    terminal.until("it has stepped", |screen| {
        screen.lines().last().is_some_and(|line| line.starts_with("at 0x"))
    });
    assert_eq!(instructions(&asked), before + 1);
    terminal.key("c");
    terminal.wait(&format!("runs: process {}", asked.pid));
    terminal.key("q");
    terminal.wait("status 0, 0 raw");
    let before = instructions(&asked);
    assert!(instructions(&asked) > before, "it goes on");
}

#[test]
fn small_terminal_and_one_that_changes_its_size_are_drawn() {
    let terminal = Terminal::start((20, 10));
    let run = terminal.endless();
    terminal.inspect(run.0.id());
    for (page, name) in
        ["overview", "queues", "waves", "tables", "regs", "ints", "bells", "memory", "kernels"]
            .iter()
            .enumerate()
    {
        terminal.key(&(page + 1).to_string());
        terminal.wait(&format!("{}/9 {name}", page + 1));
    }
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait("8 memory 9 kernels");
    terminal.tmux(&["resize-window", "-x", "2", "-y", "1"]);
    terminal.tmux(&["resize-window", "-x", "80", "-y", "24"]);
    terminal.wait("8 memory 9 kernels");
    terminal.key("C-c");
    terminal.wait("status 0, 0 raw");
}

#[test]
fn server_that_stalls_or_ends_is_told_and_the_terminal_is_given_back() {
    let terminal = Terminal::start((80, 24));
    // A server that takes questions and never answers.
    let pid = 4_000_000;
    let path = terminal.socket(pid);
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::set_permissions(path.parent().unwrap(), fs::Permissions::from_mode(0o700)).unwrap();
    let listener = UnixListener::bind(&path).unwrap();
    terminal.inspect(pid);
    terminal.wait("by process 4000000");
    terminal.key("?");
    terminal.wait("remove a breakpoint, or all");
    terminal.key("q");
    terminal.wait("status 0, 0 raw");
    drop(listener);
    fs::remove_file(&path).unwrap();

    // A process that is killed.
    let mut run = terminal.endless();
    terminal.inspect(run.0.id());
    terminal.wait("wave instructions");
    run.0.kill().unwrap();
    let screen = terminal.wait("NO MORE ANSWERS");
    assert!(screen.contains("wave instructions"), "what was told last stays: {screen}");
    terminal.key("q");
    terminal.wait("status 0, 0 raw");
}

#[test]
fn terminal_is_given_back_after_a_signal() {
    let terminal = Terminal::start((80, 24));
    let run = terminal.endless();
    // The shell tells its own number, and the inspector gets it by exec.
    let pid = run.0.id();
    terminal.text(&format!(
        "clear; sh -c 'echo $$ > $XDG_RUNTIME_DIR/ui; exec {BELFRY} inspect {pid}'; echo status $?, $(stty -a | grep -c -w -- -icanon) raw"
    ));
    terminal.key("Enter");
    terminal.wait("wave instructions");
    let ui = fs::read_to_string(terminal.folder.path().join("runtime/ui")).unwrap();
    assert!(Command::new("kill").args(["-TERM", ui.trim()]).status().unwrap().success());
    let screen = terminal.wait("status 143, 0 raw");
    assert!(!screen.contains("wave instructions"), "{screen}");
}

#[test]
fn user_interface_ends_with_its_terminal() {
    let terminal = Terminal::start((80, 24));
    let run = terminal.endless();
    let pid = run.0.id();
    terminal.text(&format!("sh -c 'echo $$ > $XDG_RUNTIME_DIR/ui; exec {BELFRY} inspect {pid}'"));
    terminal.key("Enter");
    terminal.wait("wave instructions");
    let ui = fs::read_to_string(terminal.folder.path().join("runtime/ui")).unwrap();
    let process = PathBuf::from("/proc").join(ui.trim());
    let its = || fs::read_to_string(process.join("cmdline")).is_ok_and(|line| line.contains("inspect"));
    assert!(its());
    drop(terminal);
    let begun = Instant::now();
    while its() {
        assert!(begun.elapsed() < PATIENCE, "it has outlived its terminal");
        std::thread::sleep(Duration::from_millis(20));
    }
}
