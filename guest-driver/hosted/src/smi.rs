//! Descriptors that give events: one end of a pair of sockets, which reads and polls as KFD's own does.
//!
//! A program writes its masks to the socket; they are looked at before anything else happens to the client. What waits in the
//! socket is more than a client of Linux has room for. Other than there, a write that is no mask is taken without an error.
#![expect(unsafe_code, reason = "makes and uses descriptors")]

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

use belfry_kfd_core::errno::{Errno, Result};
use belfry_kfd_core::os::{SmiClient, SmiFile, Task};
use belfry_lock::{Mutex, rank};

use crate::sync::lock;

/// Bytes of a mask.
const MASK: usize = size_of::<u64>();

/// The driver's end.
pub struct Smi(Mutex<State, rank::HostedSmi>);

impl std::fmt::Debug for Smi {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Smi").finish_non_exhaustive()
    }
}

struct State {
    /// `None` once the program has closed its end.
    client: Option<Arc<dyn SmiClient>>,
    fd: RawFd,
    /// Inode of the socket: a program that closes descriptors of this library may get its number for another file.
    inode: u64,
    /// The beginning of a mask.
    mask: [u8; MASK],
    len: usize,
}

fn last() -> Errno {
    Errno::from_raw(io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO))
}

fn inode(fd: RawFd) -> Option<u64> {
    // SAFETY: all zeros are a value of the structure.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the structure is this function's own.
    let result = unsafe { libc::fstat(fd, &raw mut stat) };
    (result == 0 && stat.st_mode & libc::S_IFMT == libc::S_IFSOCK).then_some(stat.st_ino)
}

impl Smi {
    /// Makes the pair; the program's end is the number that is returned.
    pub(crate) fn open(client: Arc<dyn SmiClient>) -> Result<(Self, i32)> {
        let mut ends = [-1; 2];
        let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: there is room for two descriptors.
        if unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) } != 0 {
            return Err(last());
        }
        let [fd, program] = ends;
        // KFD's is not closed by exec.
        // SAFETY: the descriptor was made just now.
        unsafe { libc::fcntl(program, libc::F_SETFD, 0) };
        let state =
            State { client: Some(client), fd, inode: inode(fd).unwrap_or(0), mask: [0; MASK], len: 0 };
        Ok((Self(Mutex::new(state)), program))
    }
}

impl State {
    /// Returns true if the descriptor is still the socket.
    fn is_ours(&self) -> bool {
        inode(self.fd) == Some(self.inode)
    }

    fn close(&mut self) {
        self.client = None;
        if self.is_ours() {
            // SAFETY: the descriptor is this one's own, as was seen just now.
            unsafe { libc::close(self.fd) };
        }
        self.fd = -1;
    }
}

impl SmiFile for Smi {
    fn sync(&self) {
        let mut state = lock(&self.0);
        loop {
            if state.client.is_none() {
                return;
            }
            if !state.is_ours() {
                state.client = None;
                return;
            }
            let (fd, have) = (state.fd, state.len);
            let room = &mut state.mask[have..];
            // SAFETY: the room is as long as it says.
            let count = unsafe { libc::recv(fd, room.as_mut_ptr().cast(), room.len(), libc::MSG_DONTWAIT) };
            match usize::try_from(count) {
                Ok(0) => return state.close(),
                Ok(count) => state.len += count,
                Err(_) => match last() {
                    Errno::EINTR => {}
                    Errno::EAGAIN => return,
                    // The other end was closed with lines in it.
                    _ => return state.close(),
                },
            }
            if state.len == MASK {
                state.len = 0;
                let mask = state.mask;
                let _ = state.client.as_ref().map(|client| client.write(&mask));
            }
        }
    }

    fn wake(&self) {
        let state = lock(&self.0);
        let Some(client) = state.client.as_ref().filter(|_| state.is_ours()) else { return };
        let mut bytes = [0; 1024];
        while let Ok(len) = client.read(&mut bytes) {
            let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
            // What does not fit is dropped, as from a client's queue.
            // SAFETY: the bytes are as many as it says.
            unsafe { libc::send(state.fd, bytes.as_ptr().cast(), len, flags) };
        }
    }
}

impl Drop for Smi {
    fn drop(&mut self) {
        lock(&self.0).close();
    }
}

/// The calling thread.
pub(crate) fn task() -> Task {
    let mut name = [0u8; 16];
    // SAFETY: there is room for the name and its end, 16 bytes (PR_GET_NAME).
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    // SAFETY: takes nothing.
    Task { id: unsafe { libc::gettid() } as u32, name }
}
