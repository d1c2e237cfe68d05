//! A client: its packets, and the limits of its effects on the run.
//!
//! A client halts the device with its first packet, and its changes are undone when it leaves: its breakpoints go, and
//! the device goes on. A client is dropped if it says nothing after it has connected, does not end a packet or does not
//! take an answer. A client rests after a packet for as long as the answer took.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use gdbstub::common::Signal;
use gdbstub::conn::Connection;
use gdbstub::stub::state_machine::GdbStubStateMachine;
use gdbstub::stub::{GdbStub, GdbStubBuilder, MultiThreadStopReason};

use super::server::{Shared, Stream};
use super::target::{DEVICE, Waves};

/// Longest time a client may take to begin, to end a packet that it has begun, or to take its answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Longest wait for a packet before the end of the program is looked for.
const GLANCE: Duration = Duration::from_millis(50);
/// Longest wait for a packet while the device runs.
const BRIEF: Duration = Duration::from_millis(1);
/// The longest that a client waits after a packet.
const LONGEST_REST: Duration = Duration::from_millis(50);
/// Bytes of a packet at most.
const MAX_PACKET: usize = 16 << 10;
/// Bytes of answers that wait to be sent, at most.
const MAX_PENDING: usize = 1 << 16;

/// The side of the connection that is written to.
struct Out {
    stream: Stream,
    pending: Vec<u8>,
}

impl Connection for Out {
    type Error = io::Error;

    fn write(&mut self, byte: u8) -> io::Result<()> {
        self.write_all(&[byte])
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= MAX_PENDING { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.stream.write_all(&self.pending);
        self.pending.clear();
        sent
    }
}

type Machine<'a> = GdbStubStateMachine<'a, Waves, Out>;

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

/// Serves a client until it leaves or the program ends. `first` is the breakpoint at which the first dispatch waits for one.
pub(super) fn serve(mut stream: Stream, shared: &Arc<Shared>, first: &mut Option<u32>) -> io::Result<()> {
    let Some(gpu) = shared.gpu.upgrade() else { return Ok(()) };
    // Nothing is halted for a client that sends nothing.
    let mut bytes = [0; 4096];
    let Some(read) = first_bytes(&mut stream, &mut bytes, shared)? else {
        return Err(io::Error::other("nothing came"));
    };
    let mut waves = Waves::attach(gpu, Arc::clone(&shared.symbols)).map_err(failed)?;
    if let Some(first) = first.take() {
        waves.forget(first);
    }
    let out = Out { stream, pending: Vec::new() };
    let builder: GdbStubBuilder<'_, Waves, Out> = GdbStub::builder(out).packet_buffer_size(MAX_PACKET);
    let stub = builder.build().map_err(failed)?;
    let mut machine = stub.run_state_machine(&mut waves).map_err(failed)?;
    let mut fed = Fed { begun: Instant::now(), inside: false, left: 0 };
    machine = fed.feed(machine, &bytes[..read], &mut waves)?;
    loop {
        let closing = shared.closing.load(Ordering::SeqCst);
        machine = match machine {
            GdbStubStateMachine::Disconnected(_) => return Ok(()),
            _ if closing => return end(machine, &mut waves, shared),
            GdbStubStateMachine::CtrlCInterrupt(inner) => {
                let stopped = waves.interrupt();
                inner.interrupt_handled(&mut waves, Some(stopped)).map_err(failed)?
            }
            GdbStubStateMachine::Running(mut inner) => {
                let came = inner.borrow_conn().stream.read(&mut bytes, BRIEF)?;
                match came {
                    Some(0) => return Ok(()),
                    Some(read) => fed.feed(inner.into(), &bytes[..read], &mut waves)?,
                    None => match waves.turn() {
                        Some(stop) => inner.report_stop(&mut waves, stop).map_err(failed)?,
                        None => inner.into(),
                    },
                }
            }
            GdbStubStateMachine::Idle(mut inner) => {
                match inner.borrow_conn().stream.read(&mut bytes, GLANCE)? {
                    Some(0) => return Ok(()),
                    Some(read) => fed.feed(inner.into(), &bytes[..read], &mut waves)?,
                    None => inner.into(),
                }
            }
        };
        if fed.inside && fed.begun.elapsed() >= PATIENCE {
            return Err(io::Error::other("a packet was begun and not ended"));
        }
    }
}

/// The first bytes of a client; nothing if none come, or the program ends.
fn first_bytes(stream: &mut Stream, bytes: &mut [u8], shared: &Shared) -> io::Result<Option<usize>> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !shared.closing.load(Ordering::SeqCst) {
        if let Some(read) = stream.read(bytes, GLANCE)? {
            return Ok((read > 0).then_some(read));
        }
    }
    Ok(None)
}

/// State of the bytes fed to the stub: `inside` of a packet, whose checksum has `left` digits left.
struct Fed {
    begun: Instant,
    inside: bool,
    left: u8,
}

impl Fed {
    fn feed<'a>(
        &mut self,
        mut machine: Machine<'a>,
        bytes: &[u8],
        waves: &mut Waves,
    ) -> io::Result<Machine<'a>> {
        for &byte in bytes {
            let asked = Instant::now();
            machine = match machine {
                GdbStubStateMachine::Idle(inner) => inner.incoming_data(waves, byte).map_err(failed)?,
                GdbStubStateMachine::Running(inner) => inner.incoming_data(waves, byte).map_err(failed)?,
                GdbStubStateMachine::CtrlCInterrupt(inner) => {
                    let stopped = waves.interrupt();
                    let machine = inner.interrupt_handled(waves, Some(stopped)).map_err(failed)?;
                    match machine {
                        GdbStubStateMachine::Idle(inner) => {
                            inner.incoming_data(waves, byte).map_err(failed)?
                        }
                        other => other,
                    }
                }
                gone @ GdbStubStateMachine::Disconnected(_) => return Ok(gone),
            };
            match (byte, self.left) {
                (b'$', 0) if !self.inside => (self.inside, self.begun) = (true, Instant::now()),
                (b'#', 0) if self.inside => self.left = 2,
                (_, 2) => self.left = 1,
                (_, 1) => {
                    (self.inside, self.left) = (false, 0);
                    std::thread::sleep(asked.elapsed().min(LONGEST_REST));
                }
                _ => {}
            }
        }
        Ok(machine)
    }
}

/// Tells a client that waits for the device that the program has ended.
fn end(machine: Machine<'_>, waves: &mut Waves, shared: &Shared) -> io::Result<()> {
    if let GdbStubStateMachine::Running(inner) = machine {
        let status = u8::try_from(shared.status.load(Ordering::SeqCst));
        let stop = match status {
            Ok(status) => MultiThreadStopReason::Exited(status),
            // The way in which it ended is not known.
            Err(_) => MultiThreadStopReason::SignalWithThread { tid: DEVICE, signal: Signal::SIGHUP },
        };
        inner.report_stop(waves, stop).map_err(failed)?;
    }
    Ok(())
}
