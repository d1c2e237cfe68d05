//! Child processes that never outlive us.
#![expect(unsafe_code, reason = "prctl between fork and exec")]

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Makes the kernel kill the child when the thread that starts it ends, however that happens.
pub fn die_with_parent(command: &mut Command) {
    // SAFETY: prctl and getppid are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        });
    }
}

/// A child that is killed and reaped when dropped.
#[derive(Debug)]
pub struct KillOnDrop(pub Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
