//! The common configuration: feature negotiation, the status machine, queues (virtio 1.2 sections 2.1, 2.2, 4.1.4.3).

use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET, VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{Queue, QueueT as _};
use vm_memory::{GuestAddress, GuestMemory, GuestMemoryMmap, Permissions};

use super::interrupt::Interrupt;
use super::ring::Rings;
use crate::broken::Broken;
use crate::saved::{SavedQueue, SavedVirtio, StateError, broken};

pub(super) const FEATURES_OK: u8 = VIRTIO_CONFIG_S_FEATURES_OK as u8;
pub(super) const DRIVER_OK: u8 = VIRTIO_CONFIG_S_DRIVER_OK as u8;
pub(super) const NEEDS_RESET: u8 = VIRTIO_CONFIG_S_NEEDS_RESET as u8;
const VERSION_1: u64 = 1 << VIRTIO_F_VERSION_1;
const EVENT_IDX: u64 = 1 << VIRTIO_RING_F_EVENT_IDX;
/// Features of the transport and the queues, which every device has.
const TRANSPORT: u64 = VERSION_1 | EVENT_IDX | 1 << VIRTIO_RING_F_INDIRECT_DESC;

/// Bytes of the structure.
pub(super) const SIZE: u64 = 0x3c;

/// Its fields.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Field {
    DeviceFeatureSelect,
    DeviceFeature,
    DriverFeatureSelect,
    DriverFeature,
    ConfigVector,
    NumQueues,
    DeviceStatus,
    ConfigGeneration,
    QueueSelect,
    QueueSize,
    QueueVector,
    QueueEnable,
    QueueNotifyOff,
    QueueDesc,
    QueueDriver,
    QueueDevice,
}

/// Offset and length of each field; the fields after them belong to features that are not offered, and read 0.
const FIELDS: [(Field, u64, u64); 16] = [
    (Field::DeviceFeatureSelect, 0x00, 4),
    (Field::DeviceFeature, 0x04, 4),
    (Field::DriverFeatureSelect, 0x08, 4),
    (Field::DriverFeature, 0x0c, 4),
    (Field::ConfigVector, 0x10, 2),
    (Field::NumQueues, 0x12, 2),
    (Field::DeviceStatus, 0x14, 1),
    (Field::ConfigGeneration, 0x15, 1),
    (Field::QueueSelect, 0x16, 2),
    (Field::QueueSize, 0x18, 2),
    (Field::QueueVector, 0x1a, 2),
    (Field::QueueEnable, 0x1c, 2),
    (Field::QueueNotifyOff, 0x1e, 2),
    (Field::QueueDesc, 0x20, 8),
    (Field::QueueDriver, 0x28, 8),
    (Field::QueueDevice, 0x30, 8),
];

/// Request of a write to the transport.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Action {
    /// Resets the device.
    Reset,
    /// Starts the device.
    Start,
    /// Takes the device out of service.
    Break(Broken),
}

#[derive(Clone, Debug, Default)]
pub(super) struct QueueRegisters {
    max: u16,
    pub(super) size: u16,
    pub(super) enabled: bool,
    pub(super) desc: u64,
    pub(super) driver: u64,
    pub(super) device: u64,
}

/// The registers.
#[derive(Debug)]
pub(super) struct Common {
    memory: GuestMemoryMmap,
    pub(super) offered: u64,
    pub(super) accepted: u64,
    pub(super) device_select: u32,
    pub(super) driver_select: u32,
    pub(super) status: u8,
    pub(super) queue_select: u16,
    pub(super) queues: Vec<QueueRegisters>,
}

impl Common {
    /// Makes the registers of a device with features beside those of the transport, and queues of up to these sizes.
    pub(super) fn new(memory: GuestMemoryMmap, features: u64, queues: &[u16]) -> Self {
        let queues = queues.iter().map(|&max| QueueRegisters { max, size: max, ..QueueRegisters::default() });
        Self {
            memory,
            offered: features | TRANSPORT,
            accepted: 0,
            device_select: 0,
            driver_select: 0,
            status: 0,
            queue_select: 0,
            queues: queues.collect(),
        }
    }

    pub(super) fn reset(&mut self) {
        let sizes: Vec<u16> = self.queues.iter().map(|queue| queue.max).collect();
        *self = Self::new(self.memory.clone(), self.offered, &sizes);
    }

    /// Returns true if the device may work.
    pub(super) fn running(&self) -> bool {
        self.status & (DRIVER_OK | NEEDS_RESET) == DRIVER_OK
    }

    /// Puts the device out of service; returns true if the driver has to be told.
    pub(super) fn set_needs_reset(&mut self) -> bool {
        self.status |= NEEDS_RESET;
        self.status & DRIVER_OK != 0
    }

    /// Returns the queues that the driver has enabled, ready for use.
    pub(super) fn queues(&self) -> Result<Vec<Option<Queue>>, Broken> {
        (0..).zip(&self.queues).map(|(number, queue)| self.queue(number, queue)).collect()
    }

    fn queue(&self, number: u16, registers: &QueueRegisters) -> Result<Option<Queue>, Broken> {
        if !registers.enabled {
            return Ok(None);
        }
        let (size, max) = (registers.size, registers.max);
        if !size.is_power_of_two() || size > max {
            return Err(Broken(format!(
                "queue {number} has {size} entries; must be a power of two up to {max}"
            )));
        }
        let entries = usize::from(size);
        for (what, address, align, length) in [
            ("descriptor table", registers.desc, 16, 16 * entries),
            ("available ring", registers.driver, 2, 6 + 2 * entries),
            ("used ring", registers.device, 4, 6 + 8 * entries),
        ] {
            let access = Permissions::ReadWrite;
            let memory = GuestMemory::check_range(&self.memory, GuestAddress(address), length, access);
            // A queue that was never set up has address 0.
            if !memory || address == 0 || !address.is_multiple_of(align) {
                return Err(Broken(format!(
                    "the {what} of queue {number} is {length:#x} bytes at {address:#x}; must be memory, aligned to {align}"
                )));
            }
        }
        let failed = |error: virtio_queue::Error| Broken(format!("queue {number}: {error}"));
        let mut queue = Queue::new(max).map_err(failed)?;
        queue.try_set_size(size).map_err(failed)?;
        queue.try_set_desc_table_address(GuestAddress(registers.desc)).map_err(failed)?;
        queue.try_set_avail_ring_address(GuestAddress(registers.driver)).map_err(failed)?;
        queue.try_set_used_ring_address(GuestAddress(registers.device)).map_err(failed)?;
        queue.set_event_idx(self.accepted & EVENT_IDX != 0);
        queue.set_ready(true);
        Ok(Some(queue))
    }

    /// Reads bytes of the structure; bytes after its end read 0.
    pub(super) fn read(&self, offset: u64, data: &mut [u8], interrupt: &Interrupt) {
        data.fill(0);
        for (field, at, length) in touched(offset, data.len()) {
            let bytes = self.get(field, interrupt).to_le_bytes();
            for (byte, position) in bytes.iter().zip(at..at + length) {
                if let Some(target) = position.checked_sub(offset).and_then(|to| data.get_mut(to as usize)) {
                    *target = *byte;
                }
            }
        }
    }

    /// Writes bytes of the structure, field by field: a field that is written in part keeps the rest.
    pub(super) fn write(&mut self, offset: u64, data: &[u8], interrupt: &Interrupt) -> Vec<Action> {
        let mut actions = Vec::new();
        for (field, at, length) in touched(offset, data.len()) {
            let mut bytes = self.get(field, interrupt).to_le_bytes();
            for (byte, position) in bytes.iter_mut().zip(at..at + length) {
                if let Some(&source) = position.checked_sub(offset).and_then(|from| data.get(from as usize)) {
                    *byte = source;
                }
            }
            actions.extend(self.set(field, u64::from_le_bytes(bytes), interrupt));
        }
        actions
    }

    fn selected(&self) -> Option<&QueueRegisters> {
        self.queues.get(usize::from(self.queue_select))
    }

    fn get(&self, field: Field, interrupt: &Interrupt) -> u64 {
        let half = |features: u64, select: u32| match select {
            0 => features & 0xffff_ffff,
            1 => features >> 32,
            _ => 0,
        };
        // A queue that does not exist has size 0.
        let queue = |get: fn(&QueueRegisters) -> u64| self.selected().map_or(0, get);
        match field {
            Field::DeviceFeatureSelect => self.device_select.into(),
            Field::DeviceFeature => half(self.offered, self.device_select),
            Field::DriverFeatureSelect => self.driver_select.into(),
            Field::DriverFeature => half(self.accepted, self.driver_select),
            Field::ConfigVector => interrupt.vector(None).into(),
            Field::NumQueues => self.queues.len() as u64,
            Field::DeviceStatus => self.status.into(),
            Field::ConfigGeneration => 0,
            Field::QueueSelect => self.queue_select.into(),
            Field::QueueSize => queue(|queue| queue.size.into()),
            Field::QueueVector => interrupt.vector(Some(self.queue_select)).into(),
            Field::QueueEnable => queue(|queue| queue.enabled.into()),
            Field::QueueNotifyOff => self.selected().map_or(0, |_| self.queue_select.into()),
            Field::QueueDesc => queue(|queue| queue.desc),
            Field::QueueDriver => queue(|queue| queue.driver),
            Field::QueueDevice => queue(|queue| queue.device),
        }
    }

    fn set(&mut self, field: Field, value: u64, interrupt: &Interrupt) -> Option<Action> {
        match field {
            Field::DeviceFeatureSelect => self.device_select = value as u32,
            Field::DriverFeatureSelect => self.driver_select = value as u32,
            Field::DriverFeature => self.accept(value),
            Field::ConfigVector => interrupt.set_vector(None, value as u16),
            Field::DeviceStatus => return self.set_status(value as u8),
            Field::QueueSelect => self.queue_select = value as u16,
            Field::QueueVector => interrupt.set_vector(Some(self.queue_select), value as u16),
            Field::DeviceFeature | Field::NumQueues | Field::ConfigGeneration | Field::QueueNotifyOff => {}
            Field::QueueSize
            | Field::QueueEnable
            | Field::QueueDesc
            | Field::QueueDriver
            | Field::QueueDevice => return self.set_queue(field, value),
        }
        None
    }

    fn accept(&mut self, value: u64) {
        // Negotiated features stay.
        if self.status & FEATURES_OK != 0 {
            return;
        }
        match self.driver_select {
            0 => self.accepted = self.accepted & !0xffff_ffff | value,
            1 => self.accepted = self.accepted & 0xffff_ffff | value << 32,
            _ => {}
        }
    }

    fn set_status(&mut self, value: u8) -> Option<Action> {
        if value == 0 {
            return Some(Action::Reset);
        }
        // Only a reset clears bits, and only the device sets NEEDS_RESET.
        let mut added = value & !self.status & !NEEDS_RESET;
        if added & FEATURES_OK != 0 && (self.accepted & !self.offered != 0 || self.accepted & VERSION_1 == 0)
        {
            log::debug!(target: "kvm", "features {:#x} are not a choice of {:#x}", self.accepted, self.offered);
            added &= !FEATURES_OK;
        }
        if (self.status | added) & FEATURES_OK == 0 {
            added &= !DRIVER_OK;
        }
        self.status |= added;
        (added & DRIVER_OK != 0 && self.running()).then_some(Action::Start)
    }

    fn set_queue(&mut self, field: Field, value: u64) -> Option<Action> {
        let number = self.queue_select;
        let started = self.status & DRIVER_OK != 0;
        let queue = self.queues.get_mut(usize::from(number))?;
        if queue.enabled || started {
            return None;
        }
        match field {
            Field::QueueSize => queue.size = value as u16,
            Field::QueueDesc => queue.desc = value,
            Field::QueueDriver => queue.driver = value,
            Field::QueueDevice => queue.device = value,
            _ => queue.enabled = value == 1,
        }
        let queue = self.queues.get(usize::from(number))?;
        if let Err(broken) = self.queue(number, queue) {
            self.queues.get_mut(usize::from(number))?.enabled = false;
            return Some(Action::Break(broken));
        }
        None
    }
}

/// Lists the fields that an access reaches.
fn touched(offset: u64, length: usize) -> impl Iterator<Item = (Field, u64, u64)> {
    let end = offset.saturating_add(length as u64);
    FIELDS.into_iter().filter(move |&(_, at, size)| at < end && offset < at + size)
}

impl Common {
    pub(super) fn save_queues(&self, rings: Option<&Rings>) -> Vec<SavedQueue> {
        let of = |(at, queue): (usize, &QueueRegisters)| SavedQueue {
            size: queue.size,
            enabled: queue.enabled,
            desc: queue.desc,
            driver: queue.driver,
            device: queue.device,
            next: rings.and_then(|rings| rings.next(at)).unwrap_or_default(),
            vector: 0,
        };
        self.queues.iter().enumerate().map(of).collect()
    }

    pub(super) fn restore(&mut self, saved: &SavedVirtio) -> Result<(), StateError> {
        if saved.queues.len() != self.queues.len() {
            return broken("number of queues", saved.queues.len() as u64);
        }
        if saved.accepted & !self.offered != 0 {
            return broken("set of features", saved.accepted);
        }
        self.accepted = saved.accepted;
        (self.device_select, self.driver_select) = saved.selects;
        (self.status, self.queue_select) = (saved.status, saved.queue_select);
        for (queue, saved) in self.queues.iter_mut().zip(&saved.queues) {
            queue.size = saved.size;
            queue.enabled = saved.enabled;
            (queue.desc, queue.driver, queue.device) = (saved.desc, saved.driver, saved.device);
        }
        Ok(())
    }
}
