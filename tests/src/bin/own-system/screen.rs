//! A terminal with belfry at it, on which tests type and read.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use belfry_process::child::{KillOnDrop, die_with_parent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::LIMIT;

/// The terminal, and the process at it, which ends with this.
pub(super) struct Screen {
    terminal: File,
    text: String,
    deadline: Instant,
    belfry: KillOnDrop,
}

impl Screen {
    /// Starts belfry at a new terminal.
    pub(super) fn start(belfry: &Path, arguments: &[&str]) -> Result<Self> {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&keyboard)?;
        unlockpt(&keyboard)?;
        let name = ptsname(&keyboard, Vec::new())?;
        let terminal = File::options().read(true).write(true).open(name.to_str()?)?;
        let mut command = Command::new(belfry);
        command.args(arguments);
        command.stdin(terminal.try_clone()?).stdout(terminal.try_clone()?).stderr(terminal);
        die_with_parent(&mut command);
        let belfry = KillOnDrop(command.spawn()?);
        // The command has the last copies of the terminal, so that its end is seen here.
        drop(command);
        let deadline = Instant::now() + LIMIT;
        Ok(Self { terminal: File::from(keyboard), text: String::new(), deadline, belfry })
    }

    /// Waits for each text after the last one seen, and types the keys that go with it.
    pub(super) fn play(&mut self, dialogue: &[(&str, &str)]) -> Result<()> {
        for (prompt, keys) in dialogue {
            self.wait_for(prompt)?;
            self.terminal.write_all(keys.as_bytes())?;
        }
        Ok(())
    }

    /// Waits for belfry's end.
    pub(super) fn end(mut self) -> Result<ExitStatus> {
        Ok(self.belfry.0.wait()?)
    }

    fn wait_for(&mut self, wanted: &str) -> Result<()> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = self.text.find(wanted) {
                self.text.drain(..at + wanted.len());
                return Ok(());
            }
            if Instant::now() > self.deadline {
                bail!("no {wanted:?} on the console: {}", self.text);
            }
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            if poll(&mut [PollFd::new(&self.terminal, PollFlags::IN)], Some(&second))? == 0 {
                continue;
            }
            // The other side is closed: there is no more output.
            let count =
                self.terminal.read(&mut buffer).with_context(|| format!("no {wanted:?}: {}", self.text))?;
            self.text.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    }
}
