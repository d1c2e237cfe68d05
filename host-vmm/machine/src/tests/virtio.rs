//! Tests of a virtio function beside the GPU: found, sized, moved, placed over the GPU's BARs, notified, and with
//! messages that have no route.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use belfry_bus::{ECAM, Routes};
use belfry_virtio::{Console, Device as _, VirtioFunction};
use kvm_ioctls::VmFd;
use vm_memory::{Bytes as _, GuestAddress, GuestMemoryMmap};

use super::{Bus, DOORBELLS_AT, REGISTERS_AT};
use crate::config::HugePages;
use crate::memory;

const SELF_ECAM: u64 = ECAM + (2 << 15);
const AT: u64 = 0xc400_0000;
const ELSEWHERE: u64 = 0xc500_0000;
const BAR: u64 = 16 << 10;
/// Structures in the BAR.
const STATUS: u64 = 0x14;
const DEVICE_CONFIG: u64 = 0x1000;
const TABLE: u64 = 0x3000;
/// The queue that a guest's process writes to, in memory.
const TRANSMIT: u64 = 5;
const QUEUE: u64 = 0x10_0000;
const ENTRIES: u64 = 128;
const TEXT: u64 = 0x20_0000;

/// Makes the channel as a function, and the host's end of it.
pub(super) fn channel(vm: &Arc<VmFd>, routes: &Arc<Routes>) -> (UnixStream, VirtioFunction) {
    let (host, stream) = UnixStream::pair().unwrap();
    host.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let device = Console::new("org.example.0", stream).unwrap();
    let vectors = routes.vectors(2, device.profile().queues.len() as u16 + 1).unwrap();
    let function = VirtioFunction::new(Box::new(device), 2, ram(), vectors, Some(Arc::clone(vm)));
    (host, function.and_then(VirtioFunction::start).unwrap())
}

/// Makes memory with a request in it: `hello` on its way to the host.
fn ram() -> GuestMemoryMmap {
    let memory = memory::ram(4 << 20, HugePages::Off).unwrap();
    let put = |at: u64, bytes: &[u8]| memory.write_slice(bytes, GuestAddress(at)).unwrap();
    put(TEXT, b"hello");
    put(QUEUE, &TEXT.to_le_bytes());
    put(QUEUE + 8, &5u32.to_le_bytes());
    put(QUEUE + 16 * ENTRIES + 2, &1u16.to_le_bytes());
    memory
}

impl Bus {
    fn put(&self, offset: u64, value: u32) {
        assert!(self.bus.write(SELF_ECAM + offset, &value.to_le_bytes()));
    }

    fn store(&self, address: u64, data: &[u8]) {
        assert!(self.bus.write(address, data), "nothing is at {address:#x}");
    }

    /// Makes a bus whose channel decodes, too.
    fn with_channel() -> Self {
        let bus = Self::placed();
        bus.put(0x10, AT as u32);
        bus.put(0x04, 6);
        bus
    }
}

#[test]
fn the_function_is_found_and_sized_and_moved() {
    let bus = Bus::with_channel();
    assert_eq!(bus.read(SELF_ECAM), Some(0x1043_1af4));
    assert_eq!(bus.read(AT + DEVICE_CONFIG + 4), Some(2));
    bus.put(0x10, !0);
    assert_eq!(bus.read(SELF_ECAM + 0x10), Some(!(BAR as u32 - 1)));
    assert_eq!(bus.read(AT + DEVICE_CONFIG + 4), None);
    bus.put(0x10, ELSEWHERE as u32);
    assert_eq!((bus.read(AT), bus.read(ELSEWHERE + DEVICE_CONFIG + 4)), (None, Some(2)));
    assert!(!bus.bus.read(ELSEWHERE + BAR, &mut [0; 4]));
    bus.put(0x04, 0);
    assert_eq!(bus.read(ELSEWHERE), None);
}

#[test]
fn over_the_gpus_bars_the_gpu_answers_until_one_of_them_moves() {
    let bus = Bus::with_channel();
    bus.store(AT + STATUS, &[1]);
    for over in [REGISTERS_AT, DOORBELLS_AT, DOORBELLS_AT + (1 << 20)] {
        let before = bus.read(over + DEVICE_CONFIG + 4);
        bus.put(0x10, over as u32);
        assert_eq!(bus.read(over + DEVICE_CONFIG + 4), before, "{over:#x}");
        bus.store(over + STATUS, &[0; 4]);
        bus.put(0x10, AT as u32);
        assert_eq!(bus.read(AT + STATUS), Some(1), "{over:#x}");
    }
    // The GPU is moved over it, and away again.
    bus.config_write(0x24, &(AT as u32).to_le_bytes());
    assert_ne!(bus.read(AT + DEVICE_CONFIG + 4), Some(2));
    bus.config_write(0x24, &(REGISTERS_AT as u32).to_le_bytes());
    assert_eq!(bus.read(AT + DEVICE_CONFIG + 4), Some(2));
}

#[test]
fn a_notification_reaches_the_device_wherever_its_bar_is() {
    for at in [AT, ELSEWHERE] {
        let mut bus = Bus::with_channel();
        bus.put(0x10, at as u32);
        let set = |offset: u64, data: &[u8]| bus.store(at + offset, data);
        set(STATUS, &[3]);
        set(8, &1u32.to_le_bytes());
        set(12, &1u32.to_le_bytes());
        set(STATUS, &[11]);
        set(0x16, &(TRANSMIT as u16).to_le_bytes());
        set(0x20, &QUEUE.to_le_bytes());
        set(0x28, &(QUEUE + 16 * ENTRIES).to_le_bytes());
        set(0x30, &(QUEUE + 0x1000).to_le_bytes());
        set(0x1c, &1u16.to_le_bytes());
        set(STATUS, &[15]);
        set(0x2000 + 4 * TRANSMIT, &(TRANSMIT as u16).to_le_bytes());
        let mut text = [0; 5];
        bus.host.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"hello");
    }
}

#[test]
fn messages_to_nowhere_leave_the_gpus_alone() {
    let bus = Bus::with_channel();
    for (address, data) in [(0u64, 0u32), (!0, !0), (0x1234_5678_9abc_def0, 0xff), (0xfee0_0000, 0x40)] {
        for vector in 0..8 {
            let entry = AT + TABLE + vector * 16;
            bus.store(entry, &address.to_le_bytes());
            bus.store(entry + 8, &data.to_le_bytes());
            bus.store(entry + 12, &[0; 4]);
        }
        // The first capability is MSI-X.
        bus.store(SELF_ECAM + 0x42, &[0x06, 0x80]);
        bus.store(SELF_ECAM + 0x42, &[0x06, 0x00]);
    }
}

#[test]
fn configuration_writes_of_every_width_anywhere_leave_the_function_what_it_is() {
    let bus = Bus::with_channel();
    for fill in [0xff, 0, 0xa5] {
        for width in [1, 2, 4, 8] {
            for offset in (0..0x110u64).chain(0xff8..0x1000) {
                bus.bus.write(SELF_ECAM + offset, &vec![fill; width]);
                bus.bus.read(SELF_ECAM + offset, &mut vec![0; width]);
            }
        }
    }
    assert_eq!((bus.read(SELF_ECAM), bus.read(SELF_ECAM + 8)), (Some(0x1043_1af4), Some(0x0780_0001)));
}
