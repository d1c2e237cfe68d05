//! The driver's side, for tests: registers through the BAR, queues in guest memory.

use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use belfry_bus::Function as _;
use belfry_bus::Recorder;
use virtio_bindings::virtio_ring::{VRING_DESC_F_NEXT, VRING_DESC_F_WRITE};
use virtio_queue::desc::{RawDescriptor, split};
use vm_memory::{ByteValued, Bytes as _, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::epoll::{ControlOperation, Epoll, EpollEvent, EventSet};

use super::transport::VirtioFunction;
use crate::device::Device;
use crate::saved::{SavedVirtio, StateError};

/// Bytes of guest memory.
pub(super) const RAM: u64 = 16 << 20;
/// Address of the queues, each in a part of its own.
const QUEUES: u64 = 1 << 20;
const QUEUE: u64 = 1 << 16;
/// Free memory for buffers.
pub(super) const BUFFERS: u64 = 4 << 20;
pub(super) const WRITE: u16 = VRING_DESC_F_WRITE as u16;
pub(super) const NEXT: u16 = VRING_DESC_F_NEXT as u16;

pub(super) const ACKNOWLEDGE: u8 = 1;
pub(super) const DRIVER: u8 = 2;
pub(super) const DRIVER_OK: u8 = 4;
pub(super) const FEATURES_OK: u8 = 8;
pub(super) const NEEDS_RESET: u8 = 64;

/// Registers of the common configuration.
pub(super) const STATUS: u64 = 0x14;
pub(super) const QUEUE_SELECT: u64 = 0x16;
pub(super) const QUEUE_SIZE: u64 = 0x18;
pub(super) const QUEUE_VECTOR: u64 = 0x1a;
pub(super) const QUEUE_ENABLE: u64 = 0x1c;
pub(super) const QUEUE_DESC: u64 = 0x20;
pub(super) const QUEUE_DRIVER: u64 = 0x28;
pub(super) const QUEUE_DEVICE: u64 = 0x30;
pub(super) const NOTIFY: u64 = 0x2000;

/// Guest addresses of the parts of a queue.
pub(super) struct Addresses {
    pub(super) desc: u64,
    pub(super) avail: u64,
    pub(super) used: u64,
}

/// A device and its driver.
pub(super) struct Driver {
    pub(super) function: VirtioFunction,
    pub(super) memory: GuestMemoryMmap,
    pub(super) interrupts: Arc<Recorder>,
    sizes: Vec<u16>,
}

impl Driver {
    /// Makes a function that may use the bus; nothing is negotiated yet.
    pub(super) fn new(device: impl Device + 'static) -> Self {
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), RAM as usize)]).unwrap();
        let interrupts = Arc::new(Recorder::default());
        let sizes = device.profile().queues;
        let function = VirtioFunction::new(Box::new(device), 2, memory.clone(), interrupts.clone(), None);
        let function = function.and_then(VirtioFunction::start).unwrap();
        function.config_write(4, &[6, 0]);
        Self { function, memory, interrupts, sizes }
    }

    /// Makes a device that goes on from a saved one, on that one's memory.
    pub(super) fn restored(
        device: impl Device + 'static,
        memory: GuestMemoryMmap,
        saved: &SavedVirtio,
    ) -> Result<Self, StateError> {
        let interrupts = Arc::new(Recorder::default());
        let sizes = device.profile().queues;
        let function = VirtioFunction::new(Box::new(device), 2, memory.clone(), interrupts.clone(), None);
        let function = function.unwrap().restored(saved)?.start().unwrap();
        Ok(Self { function, memory, interrupts, sizes })
    }

    /// Makes a device with everything it offers, and all its queues.
    pub(super) fn started(device: impl Device + 'static) -> Self {
        let driver = Self::new(device);
        driver.start(!0);
        driver
    }

    pub(super) fn get(&self, offset: u64, width: usize) -> u64 {
        let mut data = [0; 8];
        self.function.read(0, offset, &mut data[..width]);
        u64::from_le_bytes(data)
    }

    pub(super) fn set(&self, offset: u64, width: usize, value: u64) {
        self.function.write(0, offset, &value.to_le_bytes()[..width]);
    }

    pub(super) fn status(&self) -> u8 {
        self.get(STATUS, 1) as u8
    }

    pub(super) fn offered(&self) -> u64 {
        self.set(0, 4, 1);
        let high = self.get(4, 4);
        self.set(0, 4, 0);
        high << 32 | self.get(4, 4)
    }

    pub(super) fn accept(&self, features: u64) {
        for half in 0..2u64 {
            self.set(8, 4, half);
            self.set(12, 4, features >> (32 * half) & 0xffff_ffff);
        }
    }

    /// Goes through initialisation as virtio 1.2 section 3.1.1 has it, with the features of `mask` that are offered.
    pub(super) fn start(&self, mask: u64) {
        self.set(STATUS, 1, 0);
        assert_eq!(self.status(), 0);
        self.set(STATUS, 1, ACKNOWLEDGE.into());
        self.set(STATUS, 1, (ACKNOWLEDGE | DRIVER).into());
        self.accept(self.offered() & mask);
        self.set(STATUS, 1, (ACKNOWLEDGE | DRIVER | FEATURES_OK).into());
        assert_eq!(self.status(), ACKNOWLEDGE | DRIVER | FEATURES_OK);
        for number in 0..self.sizes.len() {
            self.enable(number);
        }
        self.set(STATUS, 1, (ACKNOWLEDGE | DRIVER | FEATURES_OK | DRIVER_OK).into());
    }

    /// Sets one queue up.
    pub(super) fn enable(&self, number: usize) {
        let start = QUEUES + QUEUE * number as u64;
        self.memory.write_slice(&[0; QUEUE as usize], GuestAddress(start)).unwrap();
        let rings = self.rings(number);
        self.set(QUEUE_SELECT, 2, number as u64);
        for (register, address) in
            [(QUEUE_DESC, rings.desc), (QUEUE_DRIVER, rings.avail), (QUEUE_DEVICE, rings.used)]
        {
            self.set(register, 4, address & 0xffff_ffff);
            self.set(register + 4, 4, address >> 32);
        }
        self.set(QUEUE_VECTOR, 2, number as u64);
        self.set(QUEUE_ENABLE, 2, 1);
    }

    /// Returns the addresses of a queue's parts.
    pub(super) fn rings(&self, number: usize) -> Addresses {
        let desc = QUEUES + QUEUE * number as u64;
        let size = u64::from(self.sizes[number]);
        let avail = desc + 16 * size;
        Addresses { desc, avail, used: (avail + 6 + 2 * size).next_multiple_of(4) }
    }

    pub(super) fn store<T: ByteValued>(&self, address: u64, value: T) {
        self.memory.write_obj(value, GuestAddress(address)).unwrap();
    }

    fn load<T: ByteValued>(&self, address: u64) -> T {
        self.memory.read_obj(GuestAddress(address)).unwrap()
    }

    /// Writes descriptors to the table, from `first` on, each linked to the next one, and makes them available.
    pub(super) fn add(&self, number: usize, first: u16, buffers: &[(u64, u32, u16)]) {
        let last = buffers.len() - 1;
        for (at, &(address, length, flags)) in buffers.iter().enumerate() {
            let next = if at < last { NEXT } else { 0 };
            self.describe(number, first + at as u16, (address, length, flags | next), first + at as u16 + 1);
        }
        self.offer(number, first);
    }

    /// Writes one descriptor.
    pub(super) fn describe(&self, number: usize, index: u16, buffer: (u64, u32, u16), next: u16) {
        let (address, length, flags) = buffer;
        let descriptor = RawDescriptor::from(split::Descriptor::new(address, length, flags, next));
        self.store(self.rings(number).desc + 16 * u64::from(index), descriptor);
    }

    /// Makes the chain at `head` available and notifies the device.
    pub(super) fn offer(&self, number: usize, head: u16) {
        let avail = self.rings(number).avail;
        let index: u16 = self.load(avail + 2);
        self.store(avail + 4 + 2 * u64::from(index % self.sizes[number]), head);
        self.memory.store(index.wrapping_add(1), GuestAddress(avail + 2), Ordering::Release).unwrap();
        self.notify(number);
    }

    /// Waits until the device's thread has gone through all the work that it finds now.
    ///
    /// The thread takes notifications before it works: once it has taken a second one, it has worked after the first.
    pub(super) fn worked(&self, number: usize) {
        let epoll = Epoll::new().unwrap();
        let kick = self.function.shared.kicks[number].as_raw_fd();
        epoll.ctl(ControlOperation::Add, kick, EpollEvent::new(EventSet::IN, 0)).unwrap();
        for _ in 0..2 {
            self.notify(number);
            let is_taken = || epoll.wait(0, &mut [EpollEvent::default()]).unwrap() == 0;
            wait(is_taken, &format!("a notification of queue {number} to be taken"));
        }
    }

    pub(super) fn notify(&self, number: usize) {
        self.set(NOTIFY + 4 * number as u64, 2, number as u64);
    }

    /// Returns the number of requests of a queue that have come back.
    pub(super) fn used_index(&self, number: usize) -> u16 {
        self.memory.load(GuestAddress(self.rings(number).used + 2), Ordering::Acquire).unwrap()
    }

    /// Waits until `count` requests of a queue have come back; returns descriptor and length of the last one.
    pub(super) fn used(&self, number: usize, count: u16) -> (u32, u32) {
        wait(|| self.used_index(number) == count, &format!("{count} requests used of queue {number}"));
        let slot = u64::from(count.wrapping_sub(1) % self.sizes[number]);
        let element = self.rings(number).used + 4 + 8 * slot;
        (self.load(element), self.load(element + 4))
    }

    pub(super) fn put(&self, address: u64, data: &[u8]) {
        self.memory.write_slice(data, GuestAddress(address)).unwrap();
    }

    pub(super) fn take(&self, address: u64, length: usize) -> Vec<u8> {
        let mut data = vec![0; length];
        self.memory.read_slice(&mut data, GuestAddress(address)).unwrap();
        data
    }

    /// Waits until the device says that it needs a reset.
    pub(super) fn wait_for_needs_reset(&self, what: &str) {
        wait(|| self.status() & NEEDS_RESET != 0, &format!("a device that needs a reset: {what}"));
    }
}

/// Waits for another thread.
pub(super) fn wait(done: impl Fn() -> bool, what: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_micros(200));
    }
}
