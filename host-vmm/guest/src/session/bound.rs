//! The driver that has taken a guest's GPUs.

use super::Guest;
use crate::console::Console;
use crate::error::GuestError;

/// Number of the first render node.
const FIRST_RENDER: usize = 128;

impl Guest {
    /// Checks that the driver `amdgpu` has taken every GPU: each has a render node of it.
    ///
    /// A module loads without an error even if its driver takes no device. [`Self::load_driver`] must have been called.
    ///
    /// # Errors
    ///
    /// [`GuestError::NotBound`] with the end of the kernel's log, all of which is kept in a file; otherwise as
    /// [`Self::get_file`].
    pub fn check_bound(&mut self) -> Result<(), GuestError> {
        for gpu in 0..self.gpus().len() {
            let node = FIRST_RENDER + gpu;
            let uevent = match self.get_file(&format!("/sys/class/drm/renderD{node}/device/uevent")) {
                Ok(uevent) => uevent,
                Err(GuestError::Refused { .. }) => Vec::new(),
                Err(error) => return Err(error),
            };
            if !String::from_utf8_lossy(&uevent).lines().any(|line| line == "DRIVER=amdgpu") {
                let log = self.kernel_log()?;
                return Err(GuestError::NotBound { gpu, log: Console::keep(log.as_bytes(), &self.logs) });
            }
        }
        Ok(())
    }
}
