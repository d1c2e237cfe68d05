//! The side that asks.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::places::{Running, running};
use super::{InspectError, MAX_ANSWER};

/// An answer as it is sent.
#[derive(Deserialize)]
struct Answer {
    answer: Option<Value>,
    error: Option<String>,
}

/// A connection to the GPU of a process.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to a process, or to the only one that there is.
    ///
    /// # Errors
    ///
    /// None, several, or one that does not listen.
    pub fn connect(pid: Option<u32>) -> Result<Self, InspectError> {
        let all = running()?;
        let found = match pid {
            Some(pid) => all.iter().find(|running| running.pid == pid).ok_or(InspectError::NoProcess(pid))?,
            None => match &all[..] {
                [] => return Err(InspectError::None),
                [one] => one,
                several => {
                    let pids: Vec<String> = several.iter().map(|running| running.pid.to_string()).collect();
                    return Err(InspectError::Several(pids.join(", ")));
                }
            },
        };
        let Running { socket, .. } = found;
        Self::at(socket)
    }

    /// Connects to a socket.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn at(path: &Path) -> Result<Self, InspectError> {
        let stream = UnixStream::connect(path);
        let stream = stream.map_err(|source| InspectError::Socket { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// The process refuses the question, or has ended.
    pub fn ask(&mut self, query: &str) -> Result<Value, InspectError> {
        let mut line = json!({ "query": query }).to_string();
        line.push('\n');
        let foreign = |_| InspectError::Foreign;
        self.stream.get_mut().write_all(line.as_bytes()).map_err(foreign)?;
        let mut bytes = Vec::new();
        let most = MAX_ANSWER as u64;
        self.stream.by_ref().take(most).read_until(b'\n', &mut bytes).map_err(foreign)?;
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|_| InspectError::Foreign)?;
        match answer {
            Answer { error: Some(error), .. } => Err(InspectError::Refused(error)),
            Answer { answer: Some(answer), .. } => Ok(answer),
            _ => Err(InspectError::Foreign),
        }
    }
}
