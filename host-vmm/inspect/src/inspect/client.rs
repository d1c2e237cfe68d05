//! The side that asks.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::places::only;
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
        Self::at(&only(pid)?.socket)
    }

    /// Connects to a socket.
    ///
    /// # Errors
    ///
    /// An address at which no server listens.
    pub fn at(path: &Path) -> Result<Self, InspectError> {
        let stream = UnixStream::connect(path);
        let stream = stream.map_err(|source| InspectError::Socket { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// A twin of the connection, whose shutdown ends a question that waits for its answer.
    ///
    /// # Errors
    ///
    /// No descriptor is left.
    pub fn twin(&self) -> io::Result<UnixStream> {
        self.stream.get_ref().try_clone()
    }

    /// Asks and waits for the answer.
    ///
    /// # Errors
    ///
    /// The process refuses the question, has ended, or answers something else.
    pub fn ask(&mut self, query: &str) -> Result<Value, InspectError> {
        let mut line = json!({ "query": query }).to_string();
        line.push('\n');
        let ended = |_| InspectError::Ended;
        self.stream.get_mut().write_all(line.as_bytes()).map_err(ended)?;
        let mut bytes = Vec::new();
        let most = MAX_ANSWER as u64;
        self.stream.by_ref().take(most).read_until(b'\n', &mut bytes).map_err(ended)?;
        if bytes.is_empty() {
            return Err(InspectError::Ended);
        }
        let answer: Answer = serde_json::from_slice(&bytes).map_err(|_| InspectError::Foreign)?;
        match answer {
            Answer { error: Some(error), .. } => Err(InspectError::Refused(error)),
            Answer { answer: Some(answer), .. } => Ok(answer),
            _ => Err(InspectError::Foreign),
        }
    }
}
