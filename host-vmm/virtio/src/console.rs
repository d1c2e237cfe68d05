//! A console with one named port, connected to a stream socket of the host (virtio 1.2 section 5.3).
//!
//! Flow is controlled both ways: the host's bytes stay in the socket until the guest has buffers for them, and the
//! guest's buffers stay in their queue until the socket takes them. The device itself keeps one piece of bounded
//! size.
//!
//! | end | effect on the other side |
//! | --- | --- |
//! | the host closes its end | the port is closed: reads end, writes are thrown away |
//! | a guest's process closes the port | none: another process may open it, and gets the bytes that were sent
//! meanwhile |
//! | the machine ends | what the guest had sent, then the end of the stream |

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use virtio_bindings::virtio_ids::VIRTIO_ID_CONSOLE;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::EventSet;

use super::chain::Chain;
use super::frames::Frames;
use super::ring::Rings;
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress, another_kind};
use crate::saved::Unsaved;
use crate::saved::{SavedConsole, SavedDevice, StateError};

const F_MULTIPORT: u64 = 1 << 1;
/// Communication controller, other.
const CLASS: u32 = 0x07_8000;

/// Number of the port; other machines keep number 0 for a console.
const PORT: u32 = 1;
const PORTS: u32 = 2;
/// Queues: receive and transmit of port 0, control, then those of the port.
const CONTROL_RECEIVE: usize = 2;
const CONTROL_TRANSMIT: usize = 3;
const RECEIVE: usize = 4;
const TRANSMIT: usize = 5;
const QUEUES: [u16; 6] = [128, 128, 32, 32, 128, 128];

/// Bytes that are moved at a time.
const PIECE: usize = 64 << 10;
/// Bytes of a control message (`struct virtio_console_control`), without a name.
const CONTROL: usize = 8;

const DEVICE_READY: u16 = 0;
const PORT_ADD: u16 = 1;
const PORT_READY: u16 = 3;
const PORT_OPEN: u16 = 6;
const PORT_NAME: u16 = 7;

/// Messages that the guest still has to get; a set, so that a guest that asks again and again cannot fill memory.
#[derive(Clone, Copy, Debug, Default)]
struct ToTell {
    add: bool,
    name: bool,
    open: bool,
}

/// Bytes that the guest has sent and the host has not taken.
#[derive(Debug, Default)]
struct Outgoing {
    chain: Option<Chain>,
    piece: Vec<u8>,
    written: usize,
}

/// The device.
#[derive(Debug)]
pub struct Console {
    name: &'static str,
    stream: Option<UnixStream>,
    to_tell: ToTell,
    guest_open: bool,
    /// True once the port has been announced, and the guest has taken it.
    ready: bool,
    outgoing: Outgoing,
    /// True while the host takes no more bytes.
    blocked: bool,
    /// True while the guest has buffers, but the host has no bytes for them.
    hungry: bool,
    incoming: Vec<u8>,
    /// Frames that have passed to the host, and to the guest.
    passed: [Frames; 2],
}

impl Console {
    /// Makes a console whose port is called `name` and is connected to `stream`.
    ///
    /// # Errors
    ///
    /// The stream's, which cannot be set up.
    pub fn new(name: &'static str, stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            name,
            stream: Some(stream),
            to_tell: ToTell::default(),
            guest_open: false,
            ready: false,
            outgoing: Outgoing::default(),
            blocked: false,
            hungry: false,
            incoming: Vec::new(),
            passed: Default::default(),
        })
    }

    /// Closes the host's end, and tells the guest.
    fn close(&mut self, why: &str) {
        log::debug!(target: "kvm", "the host's end of port {} is closed: {why}", self.name);
        self.stream = None;
        self.to_tell.open = self.ready;
        (self.blocked, self.hungry) = (false, false);
    }

    /// Takes the guest's messages about its ports.
    fn listen(&mut self, rings: &mut Rings) -> Result<(), Broken> {
        while let Some(mut chain) = rings.pop(CONTROL_TRANSMIT)? {
            let mut message = [0; CONTROL];
            let length = chain.readable.read(rings.memory(), &mut message)?;
            rings.push(CONTROL_TRANSMIT, &chain, 0)?;
            let [a, b, c, d, event, event_high, value, value_high] = message;
            let port = u32::from_le_bytes([a, b, c, d]);
            let event = u16::from_le_bytes([event, event_high]);
            let value = u16::from_le_bytes([value, value_high]);
            match event {
                _ if length < CONTROL => {
                    log::debug!(target: "kvm", "a control message of {length} bytes is no control message");
                }
                DEVICE_READY if value == 1 => self.to_tell.add = true,
                PORT_READY if port == PORT && value == 1 => {
                    self.ready = true;
                    self.to_tell.name = true;
                    self.to_tell.open = self.stream.is_some();
                }
                PORT_OPEN if port == PORT => self.guest_open = value == 1,
                _ => {
                    log::debug!(target: "kvm", "control message {event} with {value} for port {port} means nothing here");
                }
            }
        }
        Ok(())
    }

    /// Sends the guest the messages that it has to get, as far as it has buffers for them.
    fn tell(&mut self, rings: &mut Rings) -> Result<(), Broken> {
        loop {
            let (event, value, name) = match self.to_tell {
                ToTell { add: true, .. } => (PORT_ADD, 1, ""),
                ToTell { name: true, .. } => (PORT_NAME, 1, self.name),
                ToTell { open: true, .. } => (PORT_OPEN, u16::from(self.stream.is_some()), ""),
                _ => return Ok(()),
            };
            let Some(mut chain) = rings.pop(CONTROL_RECEIVE)? else { return Ok(()) };
            let mut message = Vec::from(PORT.to_le_bytes());
            message.extend(event.to_le_bytes());
            message.extend(value.to_le_bytes());
            message.extend(name.as_bytes());
            let written = chain.writable.write(rings.memory(), &message)?;
            if written < message.len() {
                return Err(Broken(format!(
                    "queue {CONTROL_RECEIVE}: a buffer of {written} bytes is too small for a control message"
                )));
            }
            rings.push(CONTROL_RECEIVE, &chain, written as u64)?;
            match event {
                PORT_ADD => self.to_tell.add = false,
                PORT_NAME => self.to_tell.name = false,
                _ => self.to_tell.open = false,
            }
        }
    }

    /// Moves one piece from the guest to the host.
    fn transmit(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        let outgoing = &mut self.outgoing;
        if outgoing.written == outgoing.piece.len() {
            if outgoing.chain.is_none() {
                outgoing.chain = rings.pop(TRANSMIT)?;
            }
            let Some(chain) = &mut outgoing.chain else { return Ok(Progress::Idle) };
            let length = chain.readable.len().min(PIECE as u64) as usize;
            outgoing.written = 0;
            outgoing.piece.resize(length, 0);
            chain.readable.read(rings.memory(), &mut outgoing.piece)?;
            if length == 0
                && let Some(chain) = outgoing.chain.take()
            {
                rings.push(TRANSMIT, &chain, 0)?;
                return Ok(Progress::More);
            }
        }
        // Without a host, the guest's output is lost.
        let written = self.stream.as_mut().map_or(Ok(outgoing.piece.len() - outgoing.written), |stream| {
            stream.write(&outgoing.piece[outgoing.written..])
        });
        match written {
            Ok(written @ 1..) => {
                self.passed[0].pass(&outgoing.piece[outgoing.written..outgoing.written + written]);
                outgoing.written += written;
            }
            Ok(0) => self.close("it takes nothing more"),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = true;
                return Ok(Progress::Idle);
            }
            Err(error) => self.close(&error.to_string()),
        }
        Ok(Progress::More)
    }

    /// Moves one piece from the host to the guest.
    fn receive(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        let Some(stream) = self.stream.as_mut().filter(|_| self.guest_open) else {
            return Ok(Progress::Idle);
        };
        // The guest's buffer comes first: without one, the bytes stay in the socket.
        let Some(mut chain) = rings.pop(RECEIVE)? else { return Ok(Progress::Idle) };
        let room = chain.writable.len().min(PIECE as u64) as usize;
        self.incoming.resize(room, 0);
        let read = if room == 0 { Ok(0) } else { stream.read(&mut self.incoming) };
        match read {
            Ok(0) if room == 0 => rings.push(RECEIVE, &chain, 0)?,
            Ok(read @ 1..) => {
                chain.writable.write(rings.memory(), &self.incoming[..read])?;
                self.passed[1].pass(&self.incoming[..read]);
                rings.push(RECEIVE, &chain, read as u64)?;
            }
            ended => {
                if let Some(ring) = rings.get(RECEIVE) {
                    ring.put_back();
                }
                match ended {
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        self.hungry = true;
                        return Ok(Progress::Idle);
                    }
                    Err(error) => self.close(&error.to_string()),
                    Ok(_) => self.close("the end of the stream"),
                }
            }
        }
        Ok(Progress::More)
    }
}

impl Device for Console {
    fn profile(&self) -> Profile {
        // cols, rows, max_nr_ports, emerg_wr
        let mut config = vec![0; 4];
        config.extend(PORTS.to_le_bytes());
        config.extend([0; 4]);
        Profile {
            name: "virtio-console".into(),
            id: VIRTIO_ID_CONSOLE as u16,
            class: CLASS,
            features: F_MULTIPORT,
            queues: QUEUES.to_vec(),
            config,
        }
    }

    fn reset(&mut self) {
        self.to_tell = ToTell::default();
        self.outgoing = Outgoing::default();
        self.passed = Default::default();
        (self.guest_open, self.ready, self.blocked, self.hungry) = (false, false, false, false);
    }

    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        (self.blocked, self.hungry) = (false, false);
        self.listen(rings)?;
        let transmitted = self.transmit(rings)?;
        let received = self.receive(rings)?;
        self.tell(rings)?;
        let idle = transmitted == Progress::Idle && received == Progress::Idle;
        Ok(if idle { Progress::Idle } else { Progress::More })
    }

    /// Saves the bytes of an unfinished frame that the host has taken; they are sent again to the host of the machine
    /// that goes on. Bytes that the host has sent must have reached the guest, in whole frames: they are not sent
    /// again.
    fn save(&self) -> Result<SavedDevice, Unsaved> {
        let stream = self.stream.as_ref().ok_or(Unsaved::Refused("a guest channel that is closed"))?;
        let lost = Unsaved::Refused("a guest channel with something else than frames");
        let [begun, to_guest] = self.passed.each_ref().map(|passed| passed.begun().ok_or(lost));
        if !to_guest?.is_empty() || rustix::io::ioctl_fionread(stream).is_ok_and(|left| left > 0) {
            return Err(Unsaved::Busy);
        }
        let Outgoing { chain, piece, written } = &self.outgoing;
        let ToTell { add, name, open } = self.to_tell;
        Ok(SavedDevice::Console(SavedConsole {
            to_tell: (add, name, open),
            guest_open: self.guest_open,
            ready: self.ready,
            outgoing: chain.as_ref().map(Chain::save),
            piece: [begun?, &piece[*written..]].concat(),
        }))
    }

    fn restore(&mut self, saved: &SavedDevice, memory: &GuestMemoryMmap) -> Result<(), StateError> {
        let SavedDevice::Console(saved) = saved else { return Err(another_kind()) };
        let (add, name, open) = saved.to_tell;
        self.to_tell = ToTell { add, name, open };
        (self.guest_open, self.ready) = (saved.guest_open, saved.ready);
        let chain = saved.outgoing.as_ref().map(|chain| Chain::restored(chain, memory)).transpose()?;
        self.outgoing = Outgoing { chain, piece: saved.piece.clone(), written: 0 };
        Ok(())
    }

    fn host(&self) -> Option<(RawFd, EventSet)> {
        let stream = self.stream.as_ref()?;
        let mut events = EventSet::empty();
        events.set(EventSet::OUT, self.blocked);
        events.set(EventSet::IN, self.hungry);
        (!events.is_empty()).then(|| (stream.as_raw_fd(), events))
    }
}
