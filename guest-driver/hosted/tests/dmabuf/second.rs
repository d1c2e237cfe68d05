//! A second process of a test: this program once more, with a socket between the two.

use std::io::Write as _;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};

use belfry_abi::kfd::memory::AllocFlags;

use super::PATIENCE;

/// Names the socket that a second process of a test talks to the first one by.
pub(crate) const SOCKET: &str = "BELFRY_TEST_SOCKET";

/// Starts this program once more, to do what [`second_process`] says; returns it and the socket to it.
pub(crate) fn second(kind: AllocFlags, what: &str) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    // SAFETY: changes a flag of the socket made above.
    unsafe { libc::fcntl(theirs.as_raw_fd(), libc::F_SETFD, 0) };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dmabuf::second_process", "--nocapture", "--test-threads=1"])
        .env(SOCKET, format!("{} {} {what}", theirs.as_raw_fd(), kind.bits()))
        .spawn()
        .unwrap();
    (child, ours)
}

/// Sends a byte and, if there is one, a descriptor (`SCM_RIGHTS`, unix(7)).
pub(crate) fn send(socket: &UnixStream, byte: u8, fd: Option<&OwnedFd>) {
    let Some(fd) = fd else {
        (&*socket).write_all(&[byte]).unwrap();
        return;
    };
    let mut data = libc::iovec { iov_base: (&raw const byte).cast_mut().cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: all pointers are to variables of this function, with the lengths said.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(4) as usize;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as usize;
        libc::CMSG_DATA(header).cast::<i32>().write_unaligned(fd.as_raw_fd());
        assert_eq!(libc::sendmsg(socket.as_raw_fd(), &raw const message, 0), 1);
    }
}

/// Receives a byte and perhaps a descriptor; `None` when the other side has ended.
pub(crate) fn receive(socket: &UnixStream) -> Option<(u8, Option<OwnedFd>)> {
    let mut byte = 0u8;
    let mut data = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let mut control = [0u64; 4];
    // SAFETY: all pointers are to variables of this function, with the lengths said; a descriptor received is new.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut data;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        let count = loop {
            let count = libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_CMSG_CLOEXEC);
            let error = std::io::Error::last_os_error();
            // A process that ends while its parent's thread has signals blocked interrupts another thread (`SIGCHLD`).
            if count < 0 && error.kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            assert!(count >= 0, "{error}");
            break count;
        };
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        let fd = (!header.is_null())
            .then(|| OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<i32>().read_unaligned()));
        (count == 1).then_some((byte, fd))
    }
}
