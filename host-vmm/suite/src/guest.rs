//! Cases in a guest that is up: programs are carried in, and run one after the other.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use belfry_guest::{Guest, GuestError, Stream};

use crate::process::{Ended, Outcome};
use crate::runner::Runner;

/// Folder of the guest that has the programs.
const PROGRAMS: &str = "/tmp/suite";
/// Environment of the programs. From version 6.2 on ROCr then shares memory of processes by DMA-bufs, which Linux has,
/// instead of ioctls, which it has not.
const ENVIRONMENT: [&str; 3] =
    ["PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/tmp", "HSA_ENABLE_IPC_MODE_LEGACY=0"];
const SIGKILL: i32 = 9;

/// A guest with a root file system and the driver loaded, as a runner.
///
/// A guest cannot change threads, and runs one case at a time.
#[derive(Debug)]
pub struct Booted<'a> {
    guest: RefCell<&'a mut Guest>,
}

impl<'a> Booted<'a> {
    /// Puts the programs into the guest.
    ///
    /// # Errors
    ///
    /// Programs that cannot be read, a guest that does not take them.
    pub fn new(guest: &'a mut Guest, programs: &[PathBuf]) -> Result<Self> {
        for program in programs {
            let content = std::fs::read(program).with_context(|| program.display().to_string())?;
            guest.put_file(&in_guest(program)?, 0o755, &content)?;
        }
        Ok(Self { guest: RefCell::new(guest) })
    }
}

impl Runner for Booted<'_> {
    fn run_on(&self, gpus: u8, argv: &[String], limit: Duration) -> Result<Outcome> {
        let there = self.guest.try_borrow().context("the guest runs another case")?.gpus().len();
        ensure!(usize::from(gpus) <= there, "the case needs {gpus} GPUs, and the guest has {there}");
        self.run(argv, limit)
    }

    fn run(&self, argv: &[String], limit: Duration) -> Result<Outcome> {
        let mut guest = self.guest.try_borrow_mut().context("the guest runs another case")?;
        let mut command = argv.to_vec();
        // A program of the suite is named by its path on this machine.
        if let Some(path) = command.first_mut().filter(|path| path.starts_with('/')) {
            *path = in_guest(Path::new(path.as_str()))?;
        }
        let id = guest.spawn(&command, &ENVIRONMENT.map(str::to_owned), "/tmp")?;
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut output = |stream, data: &[u8]| match stream {
            Stream::Stdout => stdout.extend_from_slice(data),
            Stream::Stderr => stderr.extend_from_slice(data),
        };
        let ended = match guest.wait(id, limit, &mut output) {
            Ok(exit) if exit.status > 128 => Ended::Signal(exit.status - 128),
            Ok(exit) => Ended::Status(exit.status),
            Err(GuestError::Timeout { .. }) => {
                guest.kill(id, SIGKILL)?;
                guest.wait(id, limit, &mut output)?;
                Ended::TimedOut(limit)
            }
            Err(error) => return Err(error.into()),
        };
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(Outcome { ended, stdout: text(stdout), stderr: text(stderr) })
    }
}

/// Path in the guest of a program of this machine.
fn in_guest(program: &Path) -> Result<String> {
    let name = program.file_name().context("a program without a name")?;
    Ok(format!("{PROGRAMS}/{}", name.to_string_lossy()))
}
