//! The trace of this process's GPU: a ring in the directory that `belfry exec --trace` has named.
#![expect(unsafe_code, reason = "takes a file's room, and reads the clock")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::sync::Arc;

use belfry_device::trace::{Ring, Tracer};
use belfry_kfd_hosted::prepared::RING_ENDING;

use crate::settings::TraceTo;
use crate::{companion, new_file, notice};

/// Makes the ring; `None` if it cannot be made, of which the user is told.
pub(crate) fn ring(to: &TraceTo) -> Option<Arc<Ring>> {
    let made = file(&to.directory, to.size)
        .and_then(|file| Ring::in_file(file, to.size).map_err(|error| io::Error::other(error.to_string())));
    match made {
        Ok(ring) => Some(Arc::new(ring.named(&program()).of_process(companion::process() as u32))),
        Err(error) => {
            let directory = to.directory.display();
            notice::say(format_args!(
                "this process is not in the trace: {} bytes in {directory}: {error}",
                to.size
            ));
            None
        }
    }
}

/// A new file with room for a ring, all of it: a disk that is full later must not end the program.
fn file(directory: &Path, size: usize) -> io::Result<File> {
    let pid = companion::process();
    let (file, path) = new_file::create(directory, |number| format!("{pid}-{number}.{RING_ENDING}"))?;
    // SAFETY: an open descriptor and numbers.
    let result = unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, size as libc::off_t) };
    if result != 0 {
        let error = io::Error::last_os_error();
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok(file)
}

/// Name of this process: the last part of the path that it was started by.
pub(crate) fn program() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let path = line.split(|&byte| byte == 0).next().unwrap_or_default();
    let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Says in the ring when the device's time began.
pub(crate) fn note_begin(ring: &Ring, tracer: &Tracer) {
    let Some(time) = tracer.time() else { return };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is this function's own.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) } == 0 {
        let now = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        ring.set_begin(now.saturating_sub(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)));
    }
}
