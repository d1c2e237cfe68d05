//! Typed input: from a file, a pipe, or a terminal that is raw for as long as the machine runs.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};

use super::terminal::{Escape, RawTerminal};

/// A source of keys.
#[derive(Debug)]
pub(super) struct Input {
    file: File,
    terminal: Option<RawTerminal>,
    escape: Escape,
    waited_for: bool,
    always_ready: bool,
    done: bool,
}

impl Input {
    /// Takes a file; if it is a terminal, it is raw until this is dropped.
    pub(super) fn new(file: File) -> io::Result<Self> {
        let terminal = file.is_terminal().then(|| RawTerminal::new(&file)).transpose()?;
        let (waited_for, always_ready, done) = (false, false, false);
        Ok(Self { file, terminal, escape: Escape::default(), waited_for, always_ready, done })
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Reads at most `room` keys.
    pub(super) fn read(&mut self, room: usize) -> Vec<u8> {
        if self.done || room == 0 {
            return Vec::new();
        }
        let mut data = vec![0; room];
        match self.file.read(&mut data) {
            Ok(0) => self.done = true,
            Ok(read) => {
                data.truncate(read);
                return if self.terminal.is_some() { self.escape.filter(&data) } else { data };
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => {
                log::warn!(target: "kvm", "nothing more is typed: {error}");
                self.done = true;
            }
        }
        Vec::new()
    }

    /// Returns true if the user has asked for the end of the machine.
    pub(super) fn quit(&self) -> bool {
        self.escape.quit()
    }

    /// Returns true if no more input will come.
    pub(super) fn is_done(&self) -> bool {
        self.done
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.waited_for
    }

    pub(super) fn set_waited_for(&mut self, waited_for: bool) {
        self.waited_for = waited_for;
    }

    /// Returns true if reading never blocks.
    pub(super) fn is_always_ready(&self) -> bool {
        self.always_ready
    }

    pub(super) fn set_always_ready(&mut self) {
        self.always_ready = true;
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::OwnedFd;

    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::{LocalModes, tcgetattr};

    use super::*;

    /// Makes a terminal: the side that types, and the machine's.
    fn terminal() -> (File, File) {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let path = std::path::Path::new(name.to_str().unwrap()).to_owned();
        let file = File::options().read(true).write(true).open(path).unwrap();
        (File::from(keyboard), file)
    }

    fn is_raw(file: &File) -> bool {
        !tcgetattr(file)
            .unwrap()
            .local_modes
            .intersects(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG)
    }

    #[test]
    fn terminal_is_raw_until_the_input_goes_also_by_a_panic() {
        let (_keyboard, file) = terminal();
        let other = file.try_clone().unwrap();
        assert!(!is_raw(&other));
        let input = Input::new(file.try_clone().unwrap()).unwrap();
        assert!(is_raw(&other));
        drop(input);
        assert!(!is_raw(&other));
        let result = std::panic::catch_unwind(move || {
            let _input = Input::new(file).unwrap();
            panic!("on purpose");
        });
        assert!(result.is_err() && !is_raw(&other));
    }

    #[test]
    fn keys_go_through_but_for_the_escape() {
        let (mut keyboard, file) = terminal();
        let mut input = Input::new(file).unwrap();
        // Ctrl-C is a key like any other.
        keyboard.write_all(b"a\x03\r\x01\x01").unwrap();
        assert_eq!(input.read(64), b"a\x03\r\x01");
        keyboard.write_all(b"\x01").unwrap();
        assert_eq!((input.read(64), input.quit()), (vec![], false));
        keyboard.write_all(b"xy").unwrap();
        assert_eq!((input.read(64), input.quit()), (b"y".to_vec(), true));
    }

    #[test]
    fn pipes_have_no_escape_and_an_end() {
        let (reader, mut writer) = io::pipe().unwrap();
        let mut input = Input::new(File::from(OwnedFd::from(reader))).unwrap();
        writer.write_all(b"\x01x12345").unwrap();
        assert_eq!(
            (input.read(4), input.read(0), input.read(64)),
            (b"\x01x12".to_vec(), vec![], b"345".to_vec())
        );
        drop(writer);
        assert_eq!((input.read(64), input.is_done(), input.quit()), (vec![], true, false));
    }
}
