//! The terminal of an interactive guest: keys go to its first serial port, and the port's output is shown.

use std::fs::File;
use std::io::{self, IsTerminal as _, PipeWriter, Read as _, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use belfry_machine::terminal::{Escape, RawTerminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::termios::tcgetwinsize;

/// Byte that ends the input of a program that reads lines (Ctrl-D).
const END_OF_INPUT: u8 = 0x04;
/// Rows and columns if the output is no terminal.
const USUAL_SIZE: (u16, u16) = (24, 80);

/// The user's side of a guest's console: a terminal, or any two files.
#[derive(Debug)]
pub struct Terminal {
    input: File,
    output: File,
}

impl Terminal {
    /// Takes keys from `input` and shows on `output`; a terminal is raw while programs have it.
    #[must_use]
    pub fn new(input: File, output: File) -> Self {
        Self { input, output }
    }

    /// Takes copies of this process's standard input and output.
    ///
    /// # Errors
    ///
    /// One of them is closed, or there are too many descriptors.
    pub fn standard() -> io::Result<Self> {
        let copy = |descriptor: BorrowedFd<'_>| descriptor.try_clone_to_owned().map(File::from);
        Ok(Self { input: copy(io::stdin().as_fd())?, output: copy(io::stdout().as_fd())? })
    }

    /// Returns rows and columns.
    pub(super) fn size(&self) -> (u16, u16) {
        match tcgetwinsize(&self.output) {
            Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row, size.ws_col),
            _ => USUAL_SIZE,
        }
    }

    /// Shows the guest's output. A reader that has left does not disturb the guest.
    pub(super) fn show(&self, data: &[u8]) {
        let _ = (&self.output).write_all(data);
    }
}

/// Keys on their way into a guest, as long as this lives.
#[derive(Debug)]
pub(super) struct Typing {
    quit: Arc<AtomicBool>,
    _raw: Option<RawTerminal>,
    /// Its end tells the thread to end.
    _stop: PipeWriter,
}

impl Typing {
    /// Passes keys on to `guest` from now on.
    pub(super) fn start(terminal: Arc<Terminal>, mut guest: UnixStream) -> io::Result<Self> {
        let is_terminal = terminal.input.is_terminal();
        let raw = is_terminal.then(|| RawTerminal::new(&terminal.input)).transpose()?;
        let (stopped, stop) = io::pipe()?;
        let quit = Arc::new(AtomicBool::new(false));
        let wants_out = Arc::clone(&quit);
        std::thread::Builder::new().name("terminal".into()).spawn(move || {
            let mut escape = Escape::default();
            let mut keys = [0; 256];
            loop {
                let mut both =
                    [PollFd::new(&terminal.input, PollFlags::IN), PollFd::new(&stopped, PollFlags::IN)];
                match poll(&mut both, None) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(_) => return,
                    Ok(_) if !both[1].revents().is_empty() => return,
                    Ok(_) => {}
                }
                let typed = match (&terminal.input).read(&mut keys) {
                    Ok(0) => {
                        let _ = guest.write_all(&[END_OF_INPUT]);
                        return;
                    }
                    Ok(count) => &keys[..count],
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                let passed = if is_terminal { escape.filter(typed) } else { typed.to_vec() };
                if guest.write_all(&passed).is_err() {
                    return;
                }
                if escape.quit() {
                    wants_out.store(true, Ordering::Relaxed);
                    return;
                }
            }
        })?;
        Ok(Self { quit, _raw: raw, _stop: stop })
    }

    /// Returns true if the user wants the machine to end.
    pub(super) fn quit(&self) -> bool {
        self.quit.load(Ordering::Relaxed)
    }
}

/// Shows the output of `guest` until its end.
pub(super) fn show(terminal: Arc<Terminal>, mut guest: UnixStream) -> io::Result<()> {
    std::thread::Builder::new().name("console".into()).spawn(move || {
        let mut data = [0; 4096];
        loop {
            match guest.read(&mut data) {
                Ok(0) => return,
                Ok(count) => terminal.show(&data[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn keys_of_a_pipe_are_passed_on_with_their_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let (shown, screen) = io::pipe().unwrap();
        let file = |descriptor: OwnedFd| File::from(descriptor);
        let terminal = Arc::new(Terminal::new(file(reader.into()), file(screen.into())));
        assert_eq!(terminal.size(), USUAL_SIZE);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        show(Arc::clone(&terminal), ours.try_clone().unwrap()).unwrap();
        let typing = Typing::start(terminal, ours).unwrap();
        // In a pipe, the escape key is an ordinary byte.
        writer.write_all(b"echo \x01x\n").unwrap();
        drop(writer);
        let mut typed = [0; 9];
        theirs.read_exact(&mut typed).unwrap();
        assert_eq!((&typed, typing.quit()), (b"echo \x01x\n\x04", false));
        theirs.write_all(b"answer").unwrap();
        let mut answer = [0; 6];
        File::from(OwnedFd::from(shown)).read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"answer");
    }

    #[test]
    fn thread_ends_with_the_guest_though_nothing_is_typed() {
        let (reader, _writer) = io::pipe().unwrap();
        let screen = File::options().write(true).open("/dev/null").unwrap();
        let terminal = Arc::new(Terminal::new(File::from(OwnedFd::from(reader)), screen));
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        drop(Typing::start(terminal, ours).unwrap());
        // The thread has the last copy of the stream.
        assert_eq!(theirs.read(&mut [0]).unwrap(), 0);
    }
}
