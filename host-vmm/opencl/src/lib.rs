//! Messages to and from the program that runs kernels on the processor through OpenCL.
//!
//! OpenCL is a shared library, and `belfry` is linked without any. So a program of its own loads it: it reads a [`Request`] at
//! a time from its standard input and writes an [`Answer`] to each on its standard output, and it ends when its input does.
//! Each message is preceded by its length, a little-endian `u32`.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// The longest message, in bytes.
pub const LONGEST: usize = 1 << 30;

/// Request to the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Takes a number of processors and compiles the sources: the first request.
    Open {
        /// Processors to run on.
        processors: usize,
        /// Sources in OpenCL C.
        sources: Vec<String>,
    },
    /// Takes a kernel, which replaces the last one.
    Prepare(Kernel),
    /// Launches the kernel and waits for its end.
    Run,
    /// Gives the output.
    Output,
}

/// A kernel, its launches and its data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// The source's number in [`Request::Open`].
    pub source: usize,
    /// Its name.
    pub name: String,
    /// Work-items of the grid.
    pub grid: [usize; 2],
    /// Work-items of a workgroup.
    pub block: [usize; 2],
    /// Launches of one run, one after the other.
    pub repeats: u32,
    /// Its arguments.
    pub args: Vec<Arg>,
    /// The inputs.
    pub inputs: [Vec<f32>; 2],
    /// Elements of the output.
    pub output: usize,
}

/// An argument of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Arg {
    /// The output.
    Output,
    /// An input.
    Input(usize),
    /// A number.
    Number(u32),
}

/// Answer of the program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// The request is done.
    Done,
    /// Nanoseconds that a run took.
    Took(u64),
    /// The output.
    Output(Vec<f32>),
    /// The request cannot be done.
    Failed(Failure),
}

/// Why something cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Failure {
    /// No OpenCL, or none of PoCL's.
    #[error(
        "comparing with the processor takes PoCL, which is not installed ({0}): apt install pocl-opencl-icd ocl-icd-libopencl1"
    )]
    Missing(String),
    /// PoCL offers fewer processors than asked for.
    #[error("PoCL runs on {available} processors, fewer than the {wanted} workers to compare with")]
    Processors {
        /// Processors there are.
        available: usize,
        /// Processors wanted.
        wanted: usize,
    },
    /// A call failed.
    #[error("PoCL: {what} failed: {error}")]
    Call {
        /// Name of the call.
        what: String,
        /// Error of OpenCL.
        error: String,
    },
    /// A request came out of its order, or names something that is not there.
    #[error("the program that loads OpenCL cannot do this now: {0}")]
    Order(String),
}

/// Writes a message.
///
/// # Errors
///
/// A failed write, and a message that is too long.
pub fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let bytes = postcard::to_allocvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).ok().filter(|_| bytes.len() <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("a message is too long"))?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// Reads a message; `None` at the end.
///
/// # Errors
///
/// A failed read, an end within a message, and a message that is too long or of another type.
pub fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read(&mut length[..1])? {
        0 => return Ok(None),
        _ => from.read_exact(&mut length[1..])?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other("a message is too long"));
    }
    let mut bytes = Vec::new();
    if from.take(length as u64).read_to_end(&mut bytes)? < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_out_as_they_went_in() {
        let kernel = Kernel {
            source: 1,
            name: "vadd".into(),
            grid: [64, 1],
            block: [32, 1],
            repeats: 3,
            args: vec![Arg::Output, Arg::Input(1), Arg::Number(7)],
            inputs: [vec![1.0, -0.0], Vec::new()],
            output: 2,
        };
        let mut bytes = Vec::new();
        send(&mut bytes, &Request::Prepare(kernel.clone())).unwrap();
        send(&mut bytes, &Request::Run).unwrap();
        let mut from = &bytes[..];
        assert_eq!(receive(&mut from).unwrap(), Some(Request::Prepare(kernel)));
        assert_eq!(receive(&mut from).unwrap(), Some(Request::Run));
        assert_eq!(receive::<Request>(&mut from).unwrap(), None);
    }

    #[test]
    fn messages_that_break_off_or_are_too_long_are_errors() {
        let mut bytes = Vec::new();
        send(&mut bytes, &Answer::Output(vec![1.0; 8])).unwrap();
        for length in [2, 10, bytes.len() - 1] {
            let error = receive::<Answer>(&mut &bytes[..length]).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{length}");
        }
        assert!(receive::<Answer>(&mut &[0xff; 8][..]).is_err());
        assert!(receive::<Answer>(&mut &[1, 0, 0, 0, 0x7f][..]).is_err());
    }
}
