//! Steps of a fuzzed vfio-user client: messages that are well-formed but for the odd parts, with real
//! descriptors.

use std::fs::File;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileExt as _;

use arbitrary::Arbitrary;
use rustix::fs::{MemfdFlags, SealFlags};

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// Input of a client.
#[derive(Arbitrary, Debug)]
pub struct Input {
    /// Steps of the client, in order.
    pub steps: Vec<Step>,
}

/// A step of a client.
#[derive(Arbitrary, Debug)]
#[expect(missing_docs, reason = "the fields are those of the messages they are named after")]
pub enum Step {
    Map { place: Place, file: Memory, offset: u8, flags: u8, quiet: bool, odd: Odd },
    Unmap { place: Place, flags: u8, odd: Odd },
    DeviceInfo,
    RegionInfo { argsz: u8, index: u8 },
    IrqInfo { index: u8 },
    Irqs { flags: u8, index: u8, start: u8, count: u8, events: Vec<u8>, data: [u8; 4] },
    Read { region: u8, offset: Offset, count: u16 },
    Write { region: u8, offset: Offset, data: [u8; 8], count: u8, quiet: bool },
    WriteMany { writes: Vec<(u8, Offset, u8)>, claimed: Option<u64> },
    Reset,
    Version { major: u16, minor: u16, text: Vec<u8> },
    Raw { command: u8, flags: u8, payload: Vec<u8>, fds: u8 },
    Broken { size: u32, sent: Vec<u8> },
    Hang,
}

/// A range of addresses: mostly pages out of few, so that they meet.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "ranges of the form they are named after")]
pub enum Place {
    Pages { first: u8, count: u8 },
    Bytes { start: u16, size: u16 },
    High { back: u8, count: u8 },
    Any { start: u64, size: u64 },
}

/// Descriptor that is given for memory.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "files of the form they are named after")]
pub enum Memory {
    None,
    File { pages: u8, extra: u8, seals: u8 },
    Huge,
    ReadOnly { pages: u8 },
    Event,
    Twice,
}

/// Fault in the shape of a message.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "payloads shorter and longer than they should be")]
pub enum Odd {
    Nothing,
    Fine,
    Short(u8),
    Long(u8),
}

/// A place in a region.
#[derive(Arbitrary, Clone, Copy, Debug)]
#[expect(missing_docs, reason = "places of the form they are named after")]
pub enum Offset {
    Low(u16),
    /// From the end of the region.
    End(u8),
    Any(u64),
}

impl Place {
    /// First address and bytes.
    #[must_use]
    pub fn range(self) -> (u64, u64) {
        match self {
            Place::Pages { first, count } => (u64::from(first % 32) * PAGE, u64::from(count % 16) * PAGE),
            Place::Bytes { start, size } => (start.into(), size.into()),
            Place::High { back, count } => {
                (0u64.wrapping_sub(u64::from(back % 16) * PAGE), u64::from(count % 16) * PAGE)
            }
            Place::Any { start, size } => (start, size),
        }
    }
}

impl Odd {
    /// Changes a payload. Returns true if it is as long as it has to be.
    #[must_use]
    pub fn apply(self, payload: &mut Vec<u8>) -> bool {
        match self {
            Odd::Short(by) if by > 0 => {
                payload.truncate(payload.len().saturating_sub(by.into()));
                false
            }
            Odd::Long(by) => {
                payload.extend(std::iter::repeat_n(0x55, by.into()));
                true
            }
            _ => true,
        }
    }
}

/// A descriptor for a mapping, and the bytes that can be mapped of it.
#[derive(Debug)]
pub struct Descriptor {
    /// Descriptors to send.
    pub fds: Vec<OwnedFd>,
    /// Bytes that can be mapped for reading and writing.
    pub mappable: Option<u64>,
    /// Its pages begin with their [`tag`].
    pub tagged: bool,
}

/// Makes the descriptor that a message is to carry.
#[must_use]
pub fn memory(file: Memory) -> Descriptor {
    let make = |size: u64| {
        let fd = rustix::fs::memfd_create("fuzz", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .expect("a file");
        rustix::fs::ftruncate(&fd, size).expect("a size");
        fd
    };
    match file {
        Memory::None => Descriptor { fds: Vec::new(), mappable: None, tagged: false },
        Memory::File { pages, extra, seals } => {
            let size = u64::from(pages % 32) * PAGE + u64::from(extra);
            let fd = File::from(make(size));
            for page in 0..u64::from(pages % 32) {
                fd.write_all_at(&tag(page).to_le_bytes(), page * PAGE).expect("the file has room");
            }
            let seals = SealFlags::from_bits_truncate(u32::from(seals) & 0xf);
            rustix::fs::fcntl_add_seals(&fd, seals).expect("nothing is mapped yet");
            let mappable = (!seals.contains(SealFlags::WRITE)).then_some(size);
            Descriptor { fds: vec![fd.into()], mappable, tagged: true }
        }
        Memory::Huge => Descriptor { fds: vec![make(1 << 40)], mappable: Some(1 << 40), tagged: false },
        Memory::ReadOnly { pages } => {
            let fd = make(u64::from(pages) * PAGE);
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let fd = rustix::fs::open(path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
                .expect("the file");
            Descriptor { fds: vec![fd], mappable: None, tagged: false }
        }
        Memory::Event => Descriptor { fds: vec![event()], mappable: None, tagged: false },
        Memory::Twice => Descriptor { fds: vec![make(PAGE), make(PAGE)], mappable: None, tagged: false },
    }
}

/// An eventfd that does not block.
#[must_use]
pub fn event() -> OwnedFd {
    rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).expect("an eventfd")
}

/// First word of a page of a file.
#[must_use]
pub fn tag(page: u64) -> u64 {
    0xfeed_0000_0000 | page << 8 | 0x5a
}
