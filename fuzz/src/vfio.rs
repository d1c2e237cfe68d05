//! A vfio-user client that sends any message, valid or not, and the server that it sends them to.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belfry_abi::pci;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use vm_memory::{Bytes as _, GuestAddressSpace as _, GuestMemoryBackend as _, GuestMemoryRegion as _};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap, MemoryRegionAddress};

use belfry_vfio_user::{Function, Irqs, Regions, Server, SetupError};

/// Bytes of a header.
pub const HEADER: usize = 16;
/// Most descriptors a message can carry here; one more than the server takes.
pub const MAX_FDS: usize = 17;
/// Longest time an answer may take.
const PATIENCE: Duration = Duration::from_secs(15);

/// Bytes of the regions: BARs 0 to 5, expansion ROM, configuration space.
pub const SIZES: [u64; 8] = [0x1_0000, 0, 0x2000, 0, 0, 0x1000, 0, pci::CONFIG_SPACE_SIZE as u64];

/// Device of the server: regions that store, and a look at all memory that is given.
#[derive(Debug)]
struct Card {
    regions: [Mutex<Vec<u8>>; 8],
    memory: GuestMemoryAtomic<GuestMemoryMmap>,
}

impl Card {
    fn region<R>(&self, region: u8, operation: impl FnOnce(&mut [u8]) -> R) -> R {
        operation(&mut self.regions[usize::from(region)].lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn clear(&self) {
        for region in 0..8 {
            self.region(region, |bytes| bytes.fill(0));
        }
    }
}

/// The region of a base address register, or of the expansion ROM.
fn of_bar(bar: u8) -> u8 {
    if bar == pci::BAR_ROM { 6 } else { bar }
}

impl Function for Card {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        self.region(7, |bytes| data.copy_from_slice(&bytes[offset..][..data.len()]));
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        self.region(7, |bytes| bytes[offset..][..data.len()].copy_from_slice(data));
    }

    fn bar_read(&self, bar: u8, offset: u64, data: &mut [u8]) -> Result<(), i32> {
        self.region(of_bar(bar), |bytes| data.copy_from_slice(&bytes[offset as usize..][..data.len()]));
        Ok(())
    }

    fn bar_write(&self, bar: u8, offset: u64, data: &[u8]) -> Result<(), i32> {
        // The registers take writes of four bytes alone.
        if bar == pci::BAR_REGISTERS && data.len() != 4 {
            return Err(libc::EIO);
        }
        self.region(of_bar(bar), |bytes| bytes[offset as usize..][..data.len()].copy_from_slice(data));
        Ok(())
    }

    fn memory_changed(&self) {
        for region in self.memory.memory().iter() {
            for at in [0, region.len() - 1] {
                let byte: u8 =
                    region.read_obj(MemoryRegionAddress(at)).expect("memory that was given can be read");
                region.write_obj(byte, MemoryRegionAddress(at)).expect("and written");
            }
        }
    }

    fn reset(&self) {
        self.region(7, |bytes| bytes.fill(0));
    }

    fn client_left(&self, _regions: &mut Regions) -> Result<(), SetupError> {
        self.clear();
        Ok(())
    }
}

/// A server that runs as long as the process, on a thread of its own.
#[derive(Debug)]
pub struct Service {
    path: PathBuf,
    /// Guest memory as the server publishes it.
    pub memory: GuestMemoryAtomic<GuestMemoryMmap>,
}

impl Default for Service {
    fn default() -> Self {
        Self::new()
    }
}

impl Service {
    /// Starts it.
    #[must_use]
    pub fn new() -> Self {
        let directory = tempfile::Builder::new().prefix("belfry-fuzz").tempdir().expect("a directory").keep();
        let path = directory.join("gpu.sock");
        let memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
        let irqs = Arc::new(Irqs::new(pci::MSIX_VECTORS).expect("vectors"));
        let vram = rustix::fs::memfd_create("vram", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
        let regions = Regions::new((SIZES[0], Some(vram)), (SIZES[2], None), SIZES[5]);
        let storage = SIZES.map(|size| Mutex::new(vec![0; size as usize]));
        let card = Arc::new(Card { regions: storage, memory: memory.clone() });
        let mut server = Server::bind(&path, card, regions, irqs, memory.clone()).expect("a server");
        std::thread::spawn(move || server.run().expect("the server runs"));
        Self { path, memory }
    }

    /// Connects; the server has forgotten the client before once it answers.
    #[must_use]
    pub fn connect(&self) -> Client {
        let stream = UnixStream::connect(&self.path).expect("the server listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket");
        Client { stream, id: 0 }
    }
}

/// Answer to a message.
#[derive(Debug)]
pub struct Reply {
    /// The errno, or 0.
    pub error: i32,
    /// Bytes after the header.
    pub payload: Vec<u8>,
    /// Descriptors that came along.
    pub fds: Vec<OwnedFd>,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    id: u16,
}

impl Client {
    /// Sends bytes with descriptors; false if the server has hung up.
    pub fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)), "room for descriptors");
        }
        let mut sent = 0;
        while sent < bytes.len() {
            let slices = [std::io::IoSlice::new(&bytes[sent..])];
            match rustix::net::sendmsg(&self.stream, &slices, &mut ancillary, SendFlags::NOSIGNAL) {
                Ok(count) => sent += count,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => return false,
                Err(errno) => panic!("the server does not take messages: {errno}"),
            }
            ancillary.clear();
        }
        true
    }

    /// Ends the connection.
    pub fn hang_up(&self) {
        // It may have ended already.
        let _ended = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// Sends a command; its number is the next one.
    pub fn command(&mut self, command: u16, flags: u32, payload: &[u8], fds: &[BorrowedFd<'_>]) -> bool {
        self.id = self.id.wrapping_add(1);
        let mut bytes = Vec::with_capacity(HEADER + payload.len());
        bytes.extend_from_slice(&self.id.to_le_bytes());
        bytes.extend_from_slice(&command.to_le_bytes());
        bytes.extend_from_slice(&((HEADER + payload.len()) as u32).to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&0u32.to_le_bytes());
        bytes.extend_from_slice(payload);
        self.send(&bytes, fds)
    }

    fn fill(&self, bytes: &mut [u8], fds: &mut Vec<OwnedFd>) -> bool {
        let mut done = 0;
        while done < bytes.len() {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
            let mut ancillary = RecvAncillaryBuffer::new(&mut space);
            let slices = &mut [IoSliceMut::new(&mut bytes[done..])];
            match rustix::net::recvmsg(self.stream.as_fd(), slices, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Ok(received) if received.bytes == 0 => return false,
                Ok(received) => done += received.bytes,
                Err(rustix::io::Errno::INTR) => continue,
                Err(rustix::io::Errno::CONNRESET) => return false,
                Err(errno) => panic!("the server does not answer: {errno}"),
            }
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    fds.extend(rights);
                }
            }
        }
        true
    }

    /// The reply to the last command, which has to be one; nothing once the server has hung up.
    pub fn reply(&self, command: u16) -> Option<Reply> {
        let mut head = [0; HEADER];
        let mut fds = Vec::new();
        if !self.fill(&mut head, &mut fds) {
            return None;
        }
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        assert_eq!((half(0), half(2)), (self.id, command), "what is answered");
        let (size, flags, error) = (word(4) as usize, word(8), word(12));
        assert!((HEADER..HEADER + (1 << 20) + 4096).contains(&size), "a reply of {size} bytes");
        assert_eq!(flags & !(1 << 5), 1, "a reply with flags {flags:#x}");
        assert_eq!(flags >> 5 & 1 == 1, error != 0, "flags {flags:#x} and error {error}");
        let mut payload = vec![0; size - HEADER];
        assert!(self.fill(&mut payload, &mut fds), "a whole reply");
        assert!(error == 0 || payload.is_empty() && fds.is_empty(), "an error with {} bytes", payload.len());
        Some(Reply { error: error.cast_signed(), payload, fds })
    }

    /// A command and its reply.
    pub fn call(&mut self, command: u16, payload: &[u8], fds: &[BorrowedFd<'_>]) -> Option<Reply> {
        self.command(command, 0, payload, fds).then(|| self.reply(command)).flatten()
    }
}
