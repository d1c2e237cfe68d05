//! A network card (virtio 1.2 section 5.1), whose network is at the other end of a stream socket.
//!
//! The stream carries Ethernet frames, each after its length in 4 bytes, big-endian, as QEMU's `-netdev stream` and
//! passt speak. The card takes no work off the guest: no checksums, no segmentation.
//!
//! | end | effect on the other side |
//! | --- | --- |
//! | the guest has no buffers | the frames stay in the socket, where TCP notices |
//! | the socket is full | the guest's frames stay in their queue |
//! | a frame is too short, too long, or has no room | it is lost, as on a wire |
//! | the stream ends | the guest's frames are lost, and none come |

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, RawFd};
use std::os::unix::net::UnixStream;

use virtio_bindings::virtio_ids::VIRTIO_ID_NET;
use virtio_bindings::virtio_net::{VIRTIO_NET_F_MAC, VIRTIO_NET_F_MTU};
use vmm_sys_util::epoll::EventSet;

use super::chain::Chain;
use super::ring::Rings;
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress};

/// Network controller, Ethernet.
const CLASS: u32 = 0x02_0000;
const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;
const QUEUES: [u16; 2] = [256, 256];

/// An address of QEMU's, which QEMU also gives to its first card.
const ADDRESS: [u8; 6] = [0x52, 0x54, 0x00, 0x12, 0x34, 0x56];
/// The largest packet of a frame.
const MTU: u16 = 1500;
/// `struct virtio_net_hdr_v1`, and the part of it that counts buffers.
const HEADER: usize = 12;
const BUFFERS: usize = 10;
/// Bytes of a guest's frame: its two addresses and its kind; those, a VLAN's tag, and the packet.
const FRAME: std::ops::RangeInclusive<usize> = 14..=18 + MTU as usize;
/// Bytes of a length in the stream, and the longest frame of the host's.
const LENGTH: usize = 4;
const LONGEST: usize = 65_535 + 14;

/// The device.
#[derive(Debug)]
pub struct Network {
    stream: Option<UnixStream>,
    /// A frame of the guest's on its way: its length and its bytes, and the number of them that the stream has taken.
    outgoing: Vec<u8>,
    written: usize,
    /// The start of a frame of the host's, or all of it.
    incoming: Vec<u8>,
    /// True while the host takes no more bytes.
    blocked: bool,
    /// True while the host has no bytes.
    hungry: bool,
}

impl Network {
    /// Makes a card on the network at the other end of `stream`.
    ///
    /// # Errors
    ///
    /// The stream's, which cannot be set up.
    pub fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: Some(stream),
            outgoing: Vec::new(),
            written: 0,
            incoming: Vec::new(),
            blocked: false,
            hungry: false,
        })
    }

    /// Closes the stream: there is no network any more.
    fn close(&mut self, why: &str) {
        log::warn!(target: "kvm", "the guest's network has ended: {why}");
        self.stream = None;
        (self.blocked, self.hungry) = (false, false);
    }

    /// Takes the frame of a request for the stream, if the request holds one.
    fn take(&mut self, rings: &mut Rings, mut chain: Chain) -> Result<(), Broken> {
        let length = (chain.readable.len() as usize).wrapping_sub(HEADER);
        if FRAME.contains(&length) {
            chain.readable.read(rings.memory(), &mut [0; HEADER])?;
            self.outgoing.clear();
            self.outgoing.extend((length as u32).to_be_bytes());
            self.outgoing.resize(LENGTH + length, 0);
            chain.readable.read(rings.memory(), &mut self.outgoing[LENGTH..])?;
            self.written = 0;
        } else {
            log::debug!(target: "kvm", "a request of {} bytes has no frame", chain.readable.len());
        }
        rings.push(TRANSMIT, &chain, 0)
    }

    /// Moves one frame from the guest to the host, or a part of a frame.
    fn transmit(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        if self.written == self.outgoing.len() {
            let Some(chain) = rings.pop(TRANSMIT)? else { return Ok(Progress::Idle) };
            self.take(rings, chain)?;
        }
        let rest = &self.outgoing[self.written..];
        // Without a network, the guest's frames are lost.
        let written = self.stream.as_mut().map_or(Ok(rest.len()), |stream| stream.write(rest));
        match written {
            Ok(0) if !rest.is_empty() => self.close("it takes nothing more"),
            Ok(written) => self.written += written,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.blocked = true;
                return Ok(Progress::Idle);
            }
            Err(error) => self.close(&error.to_string()),
        }
        Ok(Progress::More)
    }

    /// Returns the bytes of the host's next frame and its length, as far as they are known.
    fn expected(&self) -> usize {
        match self.incoming.first_chunk::<LENGTH>() {
            Some(length) => LENGTH + u32::from_be_bytes(*length) as usize,
            None => LENGTH,
        }
    }

    /// Moves one frame from the host to the guest, or reads a part of a frame into this device.
    fn receive(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        if self.incoming.len() > LENGTH && self.incoming.len() == self.expected() {
            // The frame waits for a buffer of the guest's.
            let Some(mut chain) = rings.pop(RECEIVE)? else { return Ok(Progress::Idle) };
            let length = self.incoming.len() - LENGTH + HEADER;
            if chain.writable.len() < length as u64 {
                log::debug!(target: "kvm", "a frame does not fit into {} bytes", chain.writable.len());
                if let Some(ring) = rings.get(RECEIVE) {
                    ring.put_back();
                }
            } else {
                let mut header = [0; HEADER];
                header[BUFFERS] = 1;
                chain.writable.write(rings.memory(), &header)?;
                chain.writable.write(rings.memory(), &self.incoming[LENGTH..])?;
                rings.push(RECEIVE, &chain, length as u64)?;
            }
            self.incoming.clear();
            return Ok(Progress::More);
        }
        let wanted = self.expected();
        let Some(stream) = &mut self.stream else { return Ok(Progress::Idle) };
        let have = self.incoming.len();
        self.incoming.resize(wanted, 0);
        let read = stream.read(&mut self.incoming[have..]);
        self.incoming.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => self.close("the end of the stream"),
            Ok(_) => {
                let expected = self.expected();
                if self.incoming.len() >= LENGTH && !(LENGTH + 1..=LENGTH + LONGEST).contains(&expected) {
                    self.incoming.clear();
                    self.close(&format!("a frame of {} bytes is none", expected - LENGTH));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.hungry = true;
                return Ok(Progress::Idle);
            }
            Err(error) => self.close(&error.to_string()),
        }
        Ok(Progress::More)
    }
}

impl Device for Network {
    fn profile(&self) -> Profile {
        // struct virtio_net_config: mac, status, max_virtqueue_pairs, mtu
        let mut config = ADDRESS.to_vec();
        config.extend([0; 4]);
        config.extend(MTU.to_le_bytes());
        Profile {
            name: "virtio-net".into(),
            id: VIRTIO_ID_NET as u16,
            class: CLASS,
            features: 1 << VIRTIO_NET_F_MAC | 1 << VIRTIO_NET_F_MTU,
            queues: QUEUES.to_vec(),
            config,
        }
    }

    fn reset(&mut self) {
        // The rest of a half-sent frame still goes into the stream: without it, the host would take the next frame
        // for that rest.
        (self.blocked, self.hungry) = (false, false);
    }

    fn work(&mut self, rings: &mut Rings) -> Result<Progress, Broken> {
        (self.blocked, self.hungry) = (false, false);
        let transmitted = self.transmit(rings)?;
        let received = self.receive(rings)?;
        let idle = transmitted == Progress::Idle && received == Progress::Idle;
        Ok(if idle { Progress::Idle } else { Progress::More })
    }

    fn host(&self) -> Option<(RawFd, EventSet)> {
        let stream = self.stream.as_ref()?;
        let mut events = EventSet::empty();
        events.set(EventSet::OUT, self.blocked);
        events.set(EventSet::IN, self.hungry);
        (!events.is_empty()).then(|| (stream.as_raw_fd(), events))
    }
}
