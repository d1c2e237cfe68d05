//! The user's terminal: raw while a guest has it, with a key to end the machine.

use std::fs::File;
use std::io;

use rustix::termios::{OptionalActions, OutputModes, Termios, tcgetattr, tcsetattr};

/// Ctrl-A: the next key is for the machine. `x` ends it, and a second Ctrl-A goes to the guest as one.
const ESCAPE: u8 = 0x01;
const QUIT: u8 = b'x';

/// Finds the keys that are for the machine: Ctrl-A x, as QEMU has it.
#[derive(Debug, Default)]
pub struct Escape {
    armed: bool,
    quit: bool,
}

impl Escape {
    /// Returns the keys of `typed` that are for the guest.
    pub fn filter(&mut self, typed: &[u8]) -> Vec<u8> {
        let mut keys = Vec::with_capacity(typed.len());
        for &key in typed {
            match (std::mem::take(&mut self.armed), key) {
                (false, ESCAPE) => self.armed = true,
                (true, QUIT) => self.quit = true,
                _ => keys.push(key),
            }
        }
        keys
    }

    /// Returns true if the user has asked for the end of the machine.
    #[must_use]
    pub fn quit(&self) -> bool {
        self.quit
    }
}

/// A terminal that passes every key on; its old state returns when this is dropped.
#[derive(Debug)]
pub struct RawTerminal {
    file: File,
    before: Termios,
}

impl RawTerminal {
    /// Makes the terminal `file` raw.
    ///
    /// # Errors
    ///
    /// The file is not a terminal.
    pub fn new(file: &File) -> io::Result<Self> {
        let file = file.try_clone()?;
        let before = tcgetattr(&file)?;
        let mut raw = before.clone();
        raw.make_raw();
        // Lines of Belfry's own still end at the left margin.
        raw.output_modes |= before.output_modes & (OutputModes::OPOST | OutputModes::ONLCR);
        tcsetattr(&file, OptionalActions::Now, &raw)?;
        Ok(Self { file, before })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(&self.file, OptionalActions::Now, &self.before) {
            log::warn!(target: "kvm", "the terminal stays raw ({error}); `reset` mends it");
        }
    }
}
