//! Child processes that never outlive us.
#![expect(unsafe_code, reason = "prctl between fork and exec")]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

/// Makes the kernel kill the child when the thread that starts it ends, however that happens.
pub fn die_with_parent(command: &mut Command) {
    let parent = std::process::id();
    // SAFETY: prctl and getppid are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The signal is for ends to come: if the parent ended before, the child has another parent by now.
            if libc::getppid().cast_unsigned() != parent {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            Ok(())
        });
    }
}

/// Takes `CAP_FSETID` (capabilities(7)) from the child: without it, a change of a file by root clears the file's
/// set-user-ID and set-group-ID bits. For a child that changes files of this machine for another user.
pub fn forgo_set_id(command: &mut Command) {
    /// `CAP_FSETID`, `include/uapi/linux/capability.h`.
    const CAP_FSETID: libc::c_ulong = 4;
    // SAFETY: prctl is async-signal-safe and touches no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            // Who may not take it from the bounding set does not have it either.
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_FSETID, 0, 0, 0);
            Ok(())
        });
    }
}

/// Gives the child a descriptor of ours, under the same number; no other child gets it, and dropping the command closes it
/// here.
pub fn inherit(command: &mut Command, descriptor: OwnedFd) {
    // SAFETY: fcntl is async-signal-safe and touches no memory of the parent.
    unsafe {
        command.pre_exec(move || match libc::fcntl(descriptor.as_raw_fd(), libc::F_SETFD, 0) {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::path::Path;

    /// Makes the test below the parent that dies; the value is the file its child would write.
    const ROLE: &str = "BELFRY_TEST_DYING_PARENT";

    /// Starts a child, and is dead before that comes to `die_with_parent`'s part.
    fn be_the_dying_parent(file: &Path) -> ! {
        let parent = std::process::id();
        let mut command = Command::new("touch");
        command.arg(file);
        // SAFETY: kill, getppid and sched_yield are async-signal-safe and touch no memory of the parent.
        unsafe {
            command.pre_exec(move || {
                libc::kill(parent.cast_signed(), libc::SIGKILL);
                while libc::getppid().cast_unsigned() == parent {
                    libc::sched_yield();
                }
                Ok(())
            });
        }
        die_with_parent(&mut command);
        let _ = command.status();
        unreachable!("the child has killed this process");
    }

    #[test]
    fn descriptor_is_the_childs_alone() {
        let (mut reader, writer) = io::pipe().unwrap();
        let writer = OwnedFd::from(writer);
        let mut command = Command::new("sh");
        // By its path: some shells know descriptors of one digit alone.
        command.args(["-c", &format!("echo mine >/proc/self/fd/{}", writer.as_raw_fd())]);
        inherit(&mut command, writer);
        assert!(command.status().unwrap().success());
        drop(command);
        let mut said = String::new();
        reader.read_to_string(&mut said).unwrap();
        assert_eq!(said, "mine\n");
    }

    #[test]
    fn child_of_a_parent_that_is_dead_already_does_not_start() {
        if let Some(file) = std::env::var_os(ROLE) {
            be_the_dying_parent(Path::new(&file));
        }
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("started");
        // The other end of this pipe is open as long as a process lives, and none writes to it.
        let (mut reader, writer) = io::pipe().unwrap();
        let mut parent = Command::new(std::env::current_exe().unwrap());
        parent.args(["--exact", "child::tests::child_of_a_parent_that_is_dead_already_does_not_start"]);
        parent
            .env(ROLE, &file)
            .stdin(writer.try_clone().unwrap())
            .stdout(writer.try_clone().unwrap())
            .stderr(writer);
        let status = parent.status().unwrap();
        drop(parent);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGKILL));
        let mut said = Vec::new();
        reader.read_to_end(&mut said).unwrap();
        assert!(!file.exists(), "the orphan has started its program");
    }

    #[test]
    fn child_that_forgoes_it_keeps_no_rights_of_owners() {
        let mut command = Command::new("grep");
        command.args(["-h", "^Cap[EP]", "/proc/self/status"]);
        forgo_set_id(&mut command);
        let output = command.output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let sets: Vec<u64> = text
            .lines()
            .map(|line| u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap())
            .collect();
        assert_eq!(sets.len(), 2, "{text}");
        assert!(sets.iter().all(|set| set & 1 << 4 == 0), "{text}");
    }
}
