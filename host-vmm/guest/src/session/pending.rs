//! Output and ends of a guest's programs, kept until a caller waits for them.

use std::collections::HashMap;

use crate::program::{Exit, ProgramId, Stream};

/// Largest number of bytes of output that wait, with the overhead of each piece.
const MOST: usize = 256 << 20;
/// Overhead of a piece in bytes, at least.
const PIECE: usize = 64;

/// The output and the ends of programs that no caller has waited for yet.
#[derive(Debug, Default)]
pub(super) struct Pending {
    output: HashMap<ProgramId, Vec<(Stream, Vec<u8>)>>,
    exits: HashMap<ProgramId, Exit>,
    /// Bytes of all output, with overhead.
    taken: usize,
}

impl Pending {
    /// Keeps the output of a program; the error is the limit, if there is too much output.
    pub(super) fn wrote(&mut self, id: ProgramId, stream: Stream, data: Vec<u8>) -> Result<(), usize> {
        self.taken += data.len() + PIECE;
        if self.taken > MOST {
            return Err(MOST);
        }
        self.output.entry(id).or_default().push((stream, data));
        Ok(())
    }

    pub(super) fn ended(&mut self, id: ProgramId, exit: Exit) {
        self.exits.insert(id, exit);
    }

    /// Takes a program's output since the last call.
    pub(super) fn output(&mut self, id: ProgramId) -> Vec<(Stream, Vec<u8>)> {
        let output = self.output.remove(&id).unwrap_or_default();
        self.taken -= output.iter().map(|(_, data)| data.len() + PIECE).sum::<usize>();
        output
    }

    /// Takes a program's end, if it has ended.
    pub(super) fn exit(&mut self, id: ProgramId) -> Option<Exit> {
        self.exits.remove(&id)
    }
}

/// The output of one program, from its start to its end.
#[derive(Debug, Default)]
pub(super) struct Collected {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// True once a program has written more than [`MOST`]: it runs on, but nothing of its output is kept.
    is_too_much: bool,
}

impl Collected {
    pub(super) fn add(&mut self, stream: Stream, data: &[u8]) {
        self.is_too_much |= self.stdout.len() + self.stderr.len() + data.len() > MOST;
        if self.is_too_much {
            (self.stdout, self.stderr) = (Vec::new(), Vec::new());
            return;
        }
        match stream {
            Stream::Stdout => self.stdout.extend_from_slice(data),
            Stream::Stderr => self.stderr.extend_from_slice(data),
        }
    }

    /// Returns standard output and standard error; the error is the limit, if there was too much.
    pub(super) fn texts(self) -> Result<(String, String), usize> {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        if self.is_too_much { Err(MOST) } else { Ok((text(self.stdout), text(self.stderr))) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: ProgramId = ProgramId(1);

    #[test]
    fn output_waits_up_to_a_bound_for_all_programs_together() {
        let mut pending = Pending::default();
        let megabyte = || vec![7; 1 << 20];
        for number in 0..4 * (MOST >> 20) {
            assert_eq!(pending.wrote(PROGRAM, Stream::Stdout, megabyte()), Ok(()));
            if number % 100 == 99 {
                assert_eq!(pending.output(PROGRAM).len(), 100);
            }
        }
        pending.output(PROGRAM);
        let fits = (0..).take_while(|&id| pending.wrote(ProgramId(id), Stream::Stderr, megabyte()).is_ok());
        assert_eq!(fits.count(), (MOST >> 20) - 1);
    }

    #[test]
    fn pieces_without_bytes_count() {
        let mut pending = Pending::default();
        let fits = (0..=MOST).take_while(|_| pending.wrote(PROGRAM, Stream::Stdout, Vec::new()).is_ok());
        assert_eq!(fits.count(), MOST / PIECE);
    }

    #[test]
    fn output_is_collected_up_to_a_bound() {
        let mut collected = Collected::default();
        collected.add(Stream::Stdout, b"out");
        collected.add(Stream::Stderr, b"err");
        assert_eq!(collected.texts(), Ok(("out".to_owned(), "err".to_owned())));
        let mut collected = Collected::default();
        let megabyte = vec![7; 1 << 20];
        for _ in 0..2 * (MOST >> 20) {
            collected.add(Stream::Stdout, &megabyte);
            assert!(collected.stdout.len() <= MOST);
        }
        assert_eq!(collected.texts(), Err(MOST));
    }
}
