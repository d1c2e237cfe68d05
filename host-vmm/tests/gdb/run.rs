//! A run that GDB debugs.

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use belfry_image::{Cache, Progress, tools};
use belfry_process::child::{KillOnDrop, die_with_parent};

use super::{ENDLESS, PATIENCE};

/// A hosted run whose first dispatch waits for GDB.
pub struct Run {
    pub child: KillOnDrop,
    pub folder: tempfile::TempDir,
}

impl Run {
    pub fn vecadd(options: &[&str], code: &str) -> Self {
        Self::vecadd_of("128", options, code)
    }

    /// Runs vecadd with another number of work-items, for vectors of 128.
    pub fn vecadd_of(count: &str, options: &[&str], code: &str) -> Self {
        let floats = "buf:f32:128:iota";
        let arguments =
            ["--kernel", "vecadd", "--grid", count, "--block", "64", "--arg", floats, "--arg", floats];
        let more = ["--arg", "buf:f32:128:zero", "--arg", &format!("u32:{count}")];
        Self::launch(options, &[&[code], &arguments[..], &more].concat())
    }

    pub fn endless() -> Self {
        let arguments = ["--kernel", "endless", "--grid", "128", "--block", "64", "--arg", "buf:u32:4:zero"];
        Self::launch(&["--inspect"], &[&[ENDLESS], &arguments[..]].concat())
    }

    pub fn launch(options: &[&str], program: &[&str]) -> Self {
        Self::start(options, &[&["launch"], program].concat())
    }

    pub fn start(options: &[&str], program: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let out = fs::File::create(folder.path().join("out")).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        let mode = if options.contains(&"--mode") { &[][..] } else { &["--mode", "hosted"] };
        command.env("XDG_RUNTIME_DIR", folder.path()).args(["run", "--timeout", "600"]).args(mode);
        // With a socket of its own, or one that is named.
        if !options.contains(&"--gdb") {
            command.arg("--gdb").arg(folder.path().join("gdb.sock"));
        }
        command.args(options).arg("--").args(program);
        command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
        die_with_parent(&mut command);
        let run = Self { child: KillOnDrop(command.spawn().unwrap()), folder };
        run.until("the stub listens", || run.socket().exists());
        run
    }

    pub fn socket(&self) -> PathBuf {
        let own = self.folder.path().join(format!("belfry/gdb-{}.sock", self.child.0.id()));
        if own.exists() { own } else { self.folder.path().join("gdb.sock") }
    }

    pub fn said(&self) -> String {
        fs::read_to_string(self.folder.path().join("out")).unwrap()
    }

    #[track_caller]
    pub fn until(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "{what}: {}", self.said());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has GDB carry out commands; its output.
    pub fn gdb(&self, commands: &[&str]) -> String {
        let gdb = tools::gdb(&Cache::open().unwrap(), &Progress::silent()).unwrap();
        let script = self.folder.path().join("commands");
        let first = [
            "set confirm off",
            "set pagination off",
            "set breakpoint pending on",
            "set width 0",
            &format!("target remote {}", self.socket().display()),
        ]
        .join("\n");
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

    /// The program ends as if no debugger had looked.
    #[track_caller]
    pub fn ends_well(&mut self) {
        let status = self.child.0.wait().unwrap();
        assert!(status.success(), "{status}: {}", self.said());
        assert!(self.said().contains("0, 2, 4, 6, 8, 10, 12, 14"), "{}", self.said());
    }

    pub fn ask(&self, question: &str) -> serde_json::Value {
        let mut command = Command::new(env!("CARGO_BIN_EXE_belfry"));
        command
            .env("XDG_RUNTIME_DIR", self.folder.path())
            .args(["inspect", "--json"])
            .args(question.split(' '));
        serde_json::from_slice(&command.output().unwrap().stdout).unwrap_or_default()
    }

    pub fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(self.socket()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Waves run on, after anything that the last client has done.
    #[track_caller]
    pub fn runs_on(&self) {
        self.until("the wave's kernel begins", || self.ask("waves")["all"] == 4);
        let executed = || self.ask("overview")["wave_instructions"].as_u64().unwrap_or(0);
        let before = executed();
        self.until("its waves run", || executed() > before);
        let status = self.ask("status");
        assert_eq!(
            (&status["halted"], status["breakpoints"].as_array().map(Vec::len)),
            (&false.into(), Some(0))
        );
    }
}

/// Checks that a text has parts, one after the other.
#[track_caller]
pub fn has(said: &str, parts: &[&str]) {
    let mut rest = said;
    for part in parts {
        let at = rest.find(part).unwrap_or_else(|| panic!("no {part:?} in the rest of:\n{said}"));
        rest = &rest[at + part.len()..];
    }
}
