//! A connection that reads whole messages only.
//!
//! Every message is read in full, within a limit of size, before any part of it is used, so that an unknown command
//! cannot shift the stream. A message that has begun has to end within a time limit, and a reply has to be taken
//! within that limit; between messages a client may be silent.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};

use super::protocol::{HEADER_SIZE, Header, MAX_FDS, MAX_PAYLOAD, Message, Reply, encode};

/// Reason why a connection ended.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The socket failed, or the peer left in the middle of a message.
    #[error("connection lost: {0}")]
    Io(#[from] io::Error),
    /// A header has a size that no message can have.
    #[error("message {command} of {size} bytes")]
    Size {
        /// The command.
        command: u16,
        /// The size in its header.
        size: u32,
    },
    /// More file descriptors than were negotiated.
    #[error("more than {MAX_FDS} file descriptors in one message")]
    TooManyFds,
    /// The client began a step and did not end it.
    #[error("it has not {what} within {limit:?}")]
    Slow {
        /// Step that the client should have ended.
        what: &'static str,
        /// Time limit of that step.
        limit: Duration,
    },
}

/// Result of waiting for a message.
#[derive(Debug)]
pub enum Incoming {
    /// A message.
    Message(Message),
    /// The client has closed the connection.
    Closed,
    /// The eventfd of the connection was signalled.
    Woken,
}

/// A connected client.
#[derive(Debug)]
pub struct Connection {
    stream: UnixStream,
    wake: Arc<OwnedFd>,
    limit: Duration,
    held: Vec<u8>,
}

impl Connection {
    /// Wraps an accepted socket.
    ///
    /// `wake`, an eventfd, ends the wait for a message; `limit` is the time that the client has for each of its own
    /// steps.
    #[must_use]
    pub fn new(stream: UnixStream, wake: Arc<OwnedFd>, limit: Duration) -> Self {
        Self { stream, wake, limit, held: Vec::new() }
    }

    /// Returns true if the next message, or a part of it, is there already.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN)];
        matches!(poll(&mut fds, Some(&Timespec::default())), Ok(1))
    }

    /// Reads the next message; with `silence`, its first byte has to come within that time.
    ///
    /// # Errors
    ///
    /// A failed socket, an end within a message, a size that no message has, too many descriptors, and a
    /// client that is too slow.
    pub fn receive(&mut self, silence: Option<Duration>) -> Result<Incoming, ConnectionError> {
        let first =
            silence.map(|limit| Deadline { at: Instant::now() + limit, limit, what: "said anything" });
        let mut head = [0; HEADER_SIZE];
        let mut fds = Vec::new();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let wake = self.wake.as_fd();
            if self.wait(PollFlags::IN, Some(wake), first.as_ref())? {
                return Ok(Incoming::Woken);
            }
            let result = rustix::net::recvmsg(
                &self.stream,
                &mut [IoSliceMut::new(&mut head)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
            );
            match result {
                Err(Errno::INTR | Errno::AGAIN) => {}
                other => break other.map_err(io::Error::from)?,
            }
        };
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        if received.bytes == 0 {
            return Ok(Incoming::Closed);
        }
        if received.flags.contains(rustix::net::ReturnFlags::CTRUNC) {
            return Err(ConnectionError::TooManyFds);
        }
        let end = Deadline { at: Instant::now() + self.limit, limit: self.limit, what: "ended its message" };
        self.read_exact(&mut head[received.bytes..], &end)?;
        let header = Header::parse(&head);
        let length = usize::try_from(header.size)
            .ok()
            .and_then(|size| size.checked_sub(HEADER_SIZE))
            .filter(|length| *length <= MAX_PAYLOAD)
            .ok_or(ConnectionError::Size { command: header.command, size: header.size })?;
        let mut payload = vec![0; length];
        self.read_exact(&mut payload, &end)?;
        Ok(Incoming::Message(Message { header, payload, fds }))
    }

    /// Fills `bytes` before the deadline; they may come in any pieces.
    fn read_exact(&self, mut bytes: &mut [u8], deadline: &Deadline) -> Result<(), ConnectionError> {
        while !bytes.is_empty() {
            match rustix::net::recv(&self.stream, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok((count, _)) => bytes = &mut bytes[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.wait(PollFlags::IN, None, Some(deadline))?;
                }
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
            // A client that sends byte after byte never reaches the wait, which has the other check.
            deadline.left()?;
        }
        Ok(())
    }

    /// Waits until the socket is ready for `flags`; returns true if `wake` was signalled instead.
    fn wait(
        &self,
        flags: PollFlags,
        wake: Option<BorrowedFd<'_>>,
        deadline: Option<&Deadline>,
    ) -> Result<bool, ConnectionError> {
        let mut fds = vec![PollFd::new(&self.stream, flags)];
        fds.extend(wake.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)));
        loop {
            let left = deadline.map(Deadline::left).transpose()?;
            match poll(&mut fds, left.as_ref()) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(fds.get(1).is_some_and(|wake| !wake.revents().is_empty())),
                Err(errno) => return Err(io::Error::from(errno).into()),
            }
        }
    }

    /// Answers `request` with `payload`, or with an errno.
    ///
    /// Nothing is sent if the request asked for no reply: the caller logs an error then.
    ///
    /// # Errors
    ///
    /// A failed socket, or a client that does not take the reply in time.
    pub fn reply(&mut self, request: &Header, answer: Result<Reply<'_>, i32>) -> Result<(), ConnectionError> {
        if request.no_reply() {
            return Ok(());
        }
        let fds = answer.as_ref().map(|reply| reply.fds.clone()).unwrap_or_default();
        self.send(&encode(request, answer), &fds)
    }

    /// Answers as [`Self::reply`] does, but only at the next [`Self::release`]; descriptors cannot be sent in this
    /// way.
    pub fn hold(&mut self, request: &Header, answer: Result<Reply<'_>, i32>) {
        if !request.no_reply() {
            self.held.extend_from_slice(&encode(request, answer));
        }
    }

    /// Sends the replies that were held back.
    ///
    /// # Errors
    ///
    /// A failed socket, or a client that does not take the replies in time.
    pub fn release(&mut self) -> Result<(), ConnectionError> {
        let held = std::mem::take(&mut self.held);
        self.send(&held, &[])
    }

    fn send(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ConnectionError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL).into());
        }
        let taken = Deadline { at: Instant::now() + self.limit, limit: self.limit, what: "taken its reply" };
        let mut sent = 0;
        while sent < bytes.len() {
            let result = rustix::net::sendmsg(
                &self.stream,
                &[IoSlice::new(&bytes[sent..])],
                &mut ancillary,
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            );
            match result {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.wait(PollFlags::OUT, None, Some(&taken))?;
                }
                Err(errno) => return Err(io::Error::from(errno).into()),
                Ok(count) => {
                    sent += count;
                    ancillary.clear();
                }
            }
            taken.left()?;
        }
        Ok(())
    }
}

/// Time at which the client must have ended its step.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    limit: Duration,
    what: &'static str,
}

impl Deadline {
    /// Returns the time left for a wait; an error once there is none.
    fn left(&self) -> Result<Timespec, ConnectionError> {
        let left = self.at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ConnectionError::Slow { what: self.what, limit: self.limit });
        }
        Ok(Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: i64::from(left.subsec_nanos()) })
    }
}
