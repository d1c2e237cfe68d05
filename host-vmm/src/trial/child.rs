//! A child that runs trials, started anew when it dies or does not answer.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use belfry_process::child::{KillOnDrop, die_with_parent};

use super::finding::Finding;

/// The hidden option that makes a child.
pub(crate) const CHILD: &str = "--child";
/// Bytes that are kept of the standard error of a child that died.
const KEPT: usize = 2000;

/// Reason for having no child.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// The process cannot be started.
    #[error("cannot start a child of this program: {0}")]
    Start(#[source] io::Error),
    /// A thread of this process panicked.
    #[error("a thread that has a child panicked")]
    Thread,
}

/// A process that answers lines, each with the verdict on a trial.
pub(crate) struct Child {
    live: Live,
    limit: Duration,
    words: Words,
}

/// The command line that children are started with: the words after the program's name.
type Words = Vec<std::ffi::OsString>;

struct Live {
    process: KillOnDrop,
    answers: Receiver<String>,
    errors: Receiver<String>,
}

impl Live {
    fn start(words: &Words) -> Result<Self, ChildError> {
        let mut command = Command::new(std::env::current_exe().map_err(ChildError::Start)?);
        // The child gets this command line too, so that it has the same GPU and program.
        let mut arguments = words.iter();
        command.args(arguments.by_ref().take(1)).arg(CHILD).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        die_with_parent(&mut command);
        let mut process = KillOnDrop(command.spawn().map_err(ChildError::Start)?);
        let missing = || ChildError::Start(io::ErrorKind::BrokenPipe.into());
        let stdout = process.0.stdout.take().ok_or_else(missing)?;
        let stderr = process.0.stderr.take().ok_or_else(missing)?;
        let (answer, answers) = channel();
        let (error, errors) = channel();
        std::thread::spawn(move || {
            BufReader::new(stdout).lines().map_while(Result::ok).try_for_each(|line| answer.send(line))
        });
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let mut part = [0; 4096];
            let mut stderr = stderr;
            while let Ok(count @ 1..) = stderr.read(&mut part) {
                text.extend_from_slice(&part[..count]);
                text.drain(..text.len().saturating_sub(KEPT));
            }
            error.send(String::from_utf8_lossy(&text).into_owned())
        });
        Ok(Self { process, answers, errors })
    }
}

impl Child {
    /// Starts a child with this time limit for a trial.
    pub(crate) fn start(limit: Duration) -> Result<Self, ChildError> {
        let words: Words = std::env::args_os().skip(1).collect();
        Ok(Self { live: Live::start(&words)?, limit, words })
    }

    /// Starts a child with the GPU and the program of another command line, which begins with the command.
    pub(crate) fn start_as(limit: Duration, words: &[String]) -> Result<Self, ChildError> {
        let words: Words = words.iter().map(Into::into).collect();
        Ok(Self { live: Live::start(&words)?, limit, words })
    }

    /// Returns the child's answer to a line. Without an answer, the error says why, and the next line gets another
    /// child.
    pub(crate) fn ask<T: serde::de::DeserializeOwned>(&mut self, text: &str) -> Result<T, Vec<Finding>> {
        let asked = match &mut self.live.process.0.stdin {
            Some(stdin) => writeln!(stdin, "{text}").and_then(|()| stdin.flush()).is_ok(),
            None => false,
        };
        let answer = if asked {
            self.live.answers.recv_timeout(self.limit)
        } else {
            Err(RecvTimeoutError::Disconnected)
        };
        let finding = match answer {
            Ok(line) => match serde_json::from_str(&line) {
                Ok(verdict) => return Ok(verdict),
                Err(error) => Finding::Died(format!("it answers {line:?}: {error}")),
            },
            Err(RecvTimeoutError::Timeout) => Finding::Hang,
            Err(RecvTimeoutError::Disconnected) => {
                let status = self
                    .live
                    .process
                    .0
                    .wait()
                    .map_or_else(|error| error.to_string(), |status| status.to_string());
                let text = self.live.errors.recv_timeout(self.limit).unwrap_or_default();
                Finding::Died(format!("{status}: {}", text.trim()))
            }
        };
        let mut findings = vec![finding];
        match Live::start(&self.words) {
            Ok(live) => self.live = live,
            Err(error) => findings.push(Finding::Died(error.to_string())),
        }
        Err(findings)
    }

    /// Starts another child in its place, as this one ends with an answer.
    pub(crate) fn replace(&mut self) -> Result<(), ChildError> {
        self.live = Live::start(&self.words)?;
        Ok(())
    }
}
