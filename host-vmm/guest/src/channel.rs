//! The host's end of the guest channel: a thread that reads frames, so that waiting can have a limit.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use belfry_channel::{ChannelError, Event, Request};

/// Largest number of frames that wait; a guest that sends more is held back, not buffered.
const BACKLOG: usize = 64;

/// The channel to one guest.
#[derive(Debug)]
pub(super) struct Channel {
    stream: Option<UnixStream>,
    connected: Receiver<UnixStream>,
    events: Receiver<Next>,
}

/// Result of waiting.
#[derive(Debug)]
pub(super) enum Next {
    /// The guest sent an event.
    Event(Event),
    /// Nothing came before the deadline.
    Nothing,
    /// The guest's end is closed.
    Closed,
    /// The guest sent bytes that are no frame.
    Malformed(String),
}

impl Channel {
    /// Takes the one connection that QEMU makes to `listener`, and reads from it.
    pub(super) fn listen(listener: UnixListener) -> io::Result<Self> {
        let (events_out, events) = sync_channel(BACKLOG);
        let (connected_out, connected) = sync_channel(1);
        std::thread::Builder::new().name("guest-channel".into()).spawn(move || {
            // The accept ends when QEMU connects, or with the process: it cannot be cancelled.
            let Ok((mut stream, _)) = listener.accept() else { return };
            let Ok(writer) = stream.try_clone() else { return };
            if connected_out.send(writer).is_ok() {
                read(&mut stream, &events_out);
            }
        })?;
        Ok(Self { stream: None, connected, events })
    }

    /// Reads from a stream that is connected already.
    pub(super) fn over(mut stream: UnixStream) -> io::Result<Self> {
        let (events_out, events) = sync_channel(BACKLOG);
        let (connected_out, connected) = sync_channel(1);
        // The receiver still exists in this function, and the channel has room for one.
        let _ = connected_out.send(stream.try_clone()?);
        let thread = std::thread::Builder::new().name("guest-channel".into());
        thread.spawn(move || read(&mut stream, &events_out))?;
        Ok(Self { stream: None, connected, events })
    }

    /// Sends one request.
    pub(super) fn send(&mut self, request: &Request) -> io::Result<()> {
        if self.stream.is_none() {
            self.stream = self.connected.recv_timeout(Duration::from_secs(10)).ok();
        }
        let stream = self.stream.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        belfry_channel::send(stream, request)
    }

    /// Waits for the next event until `deadline`.
    pub(super) fn next(&self, deadline: Instant) -> Next {
        match self.events.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(next) => next,
            Err(RecvTimeoutError::Timeout) => Next::Nothing,
            Err(RecvTimeoutError::Disconnected) => Next::Closed,
        }
    }
}

fn read(stream: &mut UnixStream, events: &SyncSender<Next>) {
    loop {
        let next = match belfry_channel::receive::<Event>(stream) {
            Ok(Some(event)) => Next::Event(event),
            Ok(None) | Err(ChannelError::Io(_)) => return,
            Err(error @ ChannelError::Malformed(_)) => Next::Malformed(error.to_string()),
        };
        let stop = matches!(next, Next::Malformed(_));
        if events.send(next).is_err() || stop {
            return;
        }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
