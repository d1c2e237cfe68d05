//! Descriptors that give events: what driver and operating system are to each other.

use crate::errno::Result;

/// A thread of a program, for people who look at events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// Its identity.
    pub id: u32,
    /// Its name, with zeros behind it.
    pub name: [u8; 16],
}

impl Task {
    /// Returns the name as text; what is none is left out.
    pub fn name(&self) -> &str {
        let len = self.name.iter().position(|&byte| byte == 0).unwrap_or(self.name.len());
        let name = self.name.get(..len).unwrap_or_default();
        match core::str::from_utf8(name) {
            Ok(name) => name,
            Err(error) => {
                name.get(..error.valid_up_to()).and_then(|name| core::str::from_utf8(name).ok()).unwrap_or("")
            }
        }
    }
}

/// The driver's side of a descriptor that gives events; the operating system drops it when the descriptor is closed.
pub trait SmiClient: Send + Sync {
    /// Takes what the program has written; returns how much of it that was.
    ///
    /// # Errors
    ///
    /// `EFAULT` for less than a mask.
    fn write(&self, bytes: &[u8]) -> Result<usize>;

    /// Gives what waits for the program, as much as there is room for.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when nothing waits.
    fn read(&self, to: &mut [u8]) -> Result<usize>;

    /// Returns whether anything waits.
    fn ready(&self) -> bool;
}

/// The operating system's side of it. The driver may be told of a write or of the close late, and asks here first.
pub trait SmiFile: Send + Sync {
    /// Passes on what the program has done with the descriptor by now.
    fn sync(&self);

    /// Something waits for the program.
    fn wake(&self);
}
