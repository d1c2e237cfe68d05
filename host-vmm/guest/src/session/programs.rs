//! Programs of a guest: their start, their output and their end.

use std::time::{Duration, Instant};

use belfry_channel::Request;

use super::pending::Collected;
use super::{Guest, Typing};
use crate::error::{GuestError, failed};
use crate::program::{Exit, ProgramId, Stream};

impl Guest {
    /// Starts a program; [`Self::wait`] returns its end.
    ///
    /// # Errors
    ///
    /// The channel to the guest has failed. A program that cannot be started is reported by [`Self::wait`].
    pub fn spawn(
        &mut self,
        argv: &[String],
        env: &[String],
        directory: &str,
    ) -> Result<ProgramId, GuestError> {
        self.start_program(argv, env, directory, None)
    }

    /// Starts a program on the configured terminal; from then on, keys go to the guest.
    ///
    /// # Errors
    ///
    /// A guest without a terminal, or whose terminal is gone.
    pub fn spawn_on_terminal(
        &mut self,
        argv: &[String],
        env: &[String],
        directory: &str,
    ) -> Result<ProgramId, GuestError> {
        let terminal = self.terminal.clone().ok_or(GuestError::NoTerminal)?;
        let id = self.start_program(argv, env, directory, Some(terminal.size()))?;
        let keyboard = self.host.keyboard().ok_or(GuestError::NoTerminal)?;
        let typing = keyboard.and_then(|keyboard| Typing::start(terminal, keyboard));
        self.typing = Some(typing.map_err(failed("the terminal"))?);
        Ok(id)
    }

    fn start_program(
        &mut self,
        argv: &[String],
        env: &[String],
        directory: &str,
        terminal: Option<(u16, u16)>,
    ) -> Result<ProgramId, GuestError> {
        let id = ProgramId(self.next_id);
        self.next_id += 1;
        let (argv, env, directory) = (argv.to_vec(), env.to_vec(), directory.to_owned());
        self.send("starting a program", &Request::Run { id: id.0, argv, env, directory, terminal })?;
        Ok(id)
    }

    /// Waits for a program, and passes its output on as it comes.
    ///
    /// Output of other programs that comes meanwhile is kept for their own wait.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, or the program has not ended within `limit`.
    pub fn wait(
        &mut self,
        id: ProgramId,
        limit: Duration,
        output: &mut dyn FnMut(Stream, &[u8]),
    ) -> Result<Exit, GuestError> {
        let started = Instant::now();
        loop {
            for (stream, data) in self.pending.output(id) {
                output(stream, &data);
            }
            if let Some(exit) = self.pending.exit(id) {
                return Ok(exit);
            }
            let event = self.next_event_since("running a program", started, limit)?;
            if let Some(event) = self.note("running a program", event)? {
                return Err(self.unexpected("running a program", &event));
            }
        }
    }

    /// Runs a program to its end and collects its output.
    ///
    /// # Errors
    ///
    /// As for [`Self::spawn`] and [`Self::wait`], and more output than is collected.
    pub fn run(&mut self, argv: &[&str], limit: Duration) -> Result<(Exit, String, String), GuestError> {
        let argv: Vec<String> = argv.iter().map(|&argument| argument.to_owned()).collect();
        let id = self.spawn(&argv, &[], "/root")?;
        let mut collected = Collected::default();
        let exit = self.wait(id, limit, &mut |stream, data| collected.add(stream, data))?;
        let (stdout, stderr) = collected.texts().map_err(|most| {
            let what = format!("more than {} MiB of output", most >> 20);
            GuestError::Protocol { during: "running a program", what }
        })?;
        Ok((exit, stdout, stderr))
    }

    /// Sends a signal to a program.
    ///
    /// # Errors
    ///
    /// The guest's machine has ended, its kernel has panicked, it does not answer in time, or it refuses the
    /// request.
    pub fn kill(&mut self, id: ProgramId, signal: i32) -> Result<(), GuestError> {
        self.request("sending a signal", &Request::Kill { id: id.0, signal })
    }
}
