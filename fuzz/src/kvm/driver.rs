//! A virtio device without its thread, and a driver that can be as wrong as it likes.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use belfry_bus::{Function as _, Interrupts, Message};
use belfry_virtio::{Block, Console, Device, DiskConfig, Network, Progress, Share, VirtioFunction};
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::access::Access;

/// RAM: two pieces, with nothing between them and nothing after them.
pub const RAM: [(u64, usize); 2] = [(0, 0x1_0000), (0x2_0000, 0x8000)];
/// Free memory for buffers.
pub const BUFFERS: u64 = 0xd000;
/// Addresses of the queues.
const QUEUES: u64 = 0x1000;
const QUEUE: u64 = 0x2000;
/// Flags of descriptors.
pub const NEXT: u16 = 1;
/// The device writes.
pub const WRITE: u16 = 2;
/// The device has been taken out of service.
pub const NEEDS_RESET: u8 = 64;

const STATUS: u64 = 0x14;
const NOTIFY: u64 = 0x2000;
/// More steps than any input can ask for.
const STEPS: u32 = 1 << 20;

/// Receiver of a device's interrupts, which checks them.
#[derive(Debug)]
struct Sink {
    vectors: u16,
    pin: Mutex<bool>,
}

impl Interrupts for Sink {
    fn route(&self, messages: &[Option<Message>]) {
        assert_eq!(messages.len(), usize::from(self.vectors), "routes of all vectors");
    }

    fn raise(&self, vector: u16) {
        assert!(vector < self.vectors, "vector {vector} does not exist");
    }

    fn set_pin(&self, asserted: bool) {
        let before =
            std::mem::replace(&mut *self.pin.lock().unwrap_or_else(PoisonError::into_inner), asserted);
        assert_ne!(before, asserted, "the pin is set to what it is");
    }
}

/// A device and its driver.
#[derive(Debug)]
pub struct Driver {
    function: VirtioFunction,
    memory: GuestMemoryMmap,
    sizes: Vec<u16>,
}

impl Driver {
    fn new(device: Box<dyn Device>) -> Self {
        let ranges = RAM.map(|(at, size)| (GuestAddress(at), size));
        let memory = GuestMemoryMmap::from_ranges(&ranges).expect("memory for the guest");
        let sizes = device.profile().queues;
        let sink = Arc::new(Sink { vectors: sizes.len() as u16 + 1, pin: Mutex::new(false) });
        let function = VirtioFunction::new(device, 2, memory.clone(), sink, None).expect("a function");
        Self { function, memory, sizes }
    }

    /// A disk with a raw image.
    #[must_use]
    pub fn block(image: &Path) -> Self {
        Self::new(Box::new(Block::new(&DiskConfig::new(image), 0).expect("a disk")))
    }

    /// A console, and the host's end of it.
    #[must_use]
    pub fn console() -> (Self, UnixStream) {
        let (host, stream) = UnixStream::pair().expect("sockets");
        host.set_nonblocking(true).expect("a socket that does not wait");
        (Self::new(Box::new(Console::new("org.example.0", stream).expect("a console"))), host)
    }

    /// A folder that keeps few files open.
    #[must_use]
    pub fn share(folder: &Path, read_only: bool) -> Self {
        Self::new(Box::new(Share::new("fuzzed", folder, read_only, 16).expect("a folder")))
    }

    /// A network card, and the other end of its network.
    #[must_use]
    pub fn network() -> (Self, UnixStream) {
        let (host, stream) = UnixStream::pair().expect("sockets");
        host.set_nonblocking(true).expect("a socket that does not wait");
        (Self::new(Box::new(Network::new(stream).expect("a card"))), host)
    }

    /// A step of a driver that knows no rules.
    pub fn act(&self, access: &Access) {
        let data = access.data();
        match access.kind & 15 {
            0 | 1 => self.function.write(0, access.offset & 0x3fff, data),
            2 => self.function.read(0, access.offset & 0x3fff, &mut vec![0; data.len()]),
            3 => self.function.config_write(access.offset as usize & 0xff, data),
            4 => self.function.config_read(access.offset as usize & 0x1ff, &mut vec![0; data.len()]),
            5 => self.start(access.offset | u64::from(access.kind >> 4) << 32),
            6 | 7 => self.describe_any(access),
            8 => self.offer(access.offset as usize % self.sizes.len(), u16::from(access.kind >> 4)),
            9 => {
                // Outside of memory there is nothing to write to.
                let _ = self.memory.write_slice(data, GuestAddress(access.offset & 0x2_ffff));
            }
            _ => {}
        }
        self.run();
    }

    /// Works until there is nothing to do.
    pub fn run(&self) {
        for _ in 0..STEPS {
            if self.function.work() == Progress::Idle {
                return;
            }
        }
        panic!("the device works without end");
    }

    fn set(&self, offset: u64, data: &[u8]) {
        self.function.write(0, offset, data);
    }

    /// Value of the status register.
    #[must_use]
    pub fn status(&self) -> u8 {
        let mut status = [0];
        self.function.read(0, STATUS, &mut status);
        status[0]
    }

    /// Resets the device and brings it up as virtio 1.2 section 3.1.1 has it, with features of `mask`, all queues empty.
    pub fn start(&self, mask: u64) {
        self.function.config_write(4, &[6, 0]);
        self.set(STATUS, &[0]);
        assert_eq!(self.status(), 0, "a reset clears the status");
        self.set(STATUS, &[1]);
        self.set(STATUS, &[3]);
        for half in 0..2u32 {
            self.set(0, &half.to_le_bytes());
            let mut offered = [0; 4];
            self.function.read(0, 4, &mut offered);
            // VIRTIO_F_VERSION_1 is no choice.
            let mask = (mask >> (32 * half)) as u32 | half;
            self.set(8, &half.to_le_bytes());
            self.set(12, &(u32::from_le_bytes(offered) & mask).to_le_bytes());
        }
        self.set(STATUS, &[11]);
        for (number, &size) in (0u16..).zip(&self.sizes) {
            let desc = QUEUES + QUEUE * u64::from(number);
            self.put(desc, &[0; QUEUE as usize]);
            self.set(0x16, &number.to_le_bytes());
            self.set(0x18, &size.to_le_bytes());
            self.set(0x20, &desc.to_le_bytes());
            self.set(0x28, &self.avail(number.into()).to_le_bytes());
            self.set(0x30, &self.used(number.into()).to_le_bytes());
            self.set(0x1c, &[1, 0]);
        }
        self.set(STATUS, &[15]);
        assert_eq!(self.status(), 15, "a device that was reset comes up");
    }

    fn avail(&self, queue: usize) -> u64 {
        QUEUES + QUEUE * queue as u64 + 16 * u64::from(self.sizes[queue])
    }

    fn used(&self, queue: usize) -> u64 {
        (self.avail(queue) + 6 + 2 * u64::from(self.sizes[queue])).next_multiple_of(4)
    }

    fn describe_any(&self, access: &Access) {
        let [flags, next, len @ ..] = *access.data().first_chunk::<5>().unwrap_or(&[0; 5]);
        let index = u16::from(access.kind >> 4);
        let length = u32::from_le_bytes([len[0], len[1], len[2], 0]);
        // Mostly near memory.
        let address = if flags & 0x80 == 0 { access.offset & 0x2_ffff } else { access.offset };
        let queue = usize::from(flags >> 3) % self.sizes.len();
        self.describe(queue, index, (address, length, u16::from(flags & 7)), u16::from(next & 0x1f));
    }

    /// Writes a descriptor: address, length, flags; and which goes on.
    pub fn describe(&self, queue: usize, index: u16, buffer: (u64, u32, u16), next: u16) {
        let at = QUEUES + QUEUE * queue as u64 + 16 * u64::from(index);
        self.put(at, &buffer.0.to_le_bytes());
        self.put(at + 8, &buffer.1.to_le_bytes());
        self.put(at + 12, &buffer.2.to_le_bytes());
        self.put(at + 14, &next.to_le_bytes());
    }

    /// Makes the chain at a descriptor available, and notifies.
    pub fn offer(&self, queue: usize, head: u16) {
        let avail = self.avail(queue);
        let index = self.word(avail + 2);
        self.put(avail + 4 + 2 * u64::from(index % self.sizes[queue]), &head.to_le_bytes());
        self.put(avail + 2, &index.wrapping_add(1).to_le_bytes());
        self.set(NOTIFY + 4 * queue as u64, &(queue as u16).to_le_bytes());
    }

    /// Number of requests of a queue that have come back since it was started.
    #[must_use]
    pub fn returned(&self, queue: usize) -> u16 {
        self.word(self.used(queue) + 2)
    }

    fn word(&self, address: u64) -> u16 {
        self.memory.read_obj(GuestAddress(address)).expect("a queue in memory")
    }

    /// Writes guest memory.
    pub fn put(&self, address: u64, data: &[u8]) {
        self.memory.write_slice(data, GuestAddress(address)).expect("memory of the driver's");
    }

    /// Reads guest memory.
    #[must_use]
    pub fn take(&self, address: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        self.memory.read_slice(&mut data, GuestAddress(address)).expect("memory of the driver's");
        data
    }
}
