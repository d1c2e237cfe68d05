//! The PCI transport of virtio 1.2 (section 4.1): one BAR with the structures, and the capabilities that point to
//! them.

mod save;
mod worker;

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_bus::{Bar, Function};
use belfry_bus::{Interrupts, line_of};
use belfry_lock::{Mutex, MutexGuard, rank};
use belfry_pci::{BarLayout, ConfigSpace, Identity, MSIX_ENTRY, show_interrupt};
use kvm_ioctls::{IoEventAddress, NoDatamatch, VmFd};
use virtio_queue::Queue;
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::common::{self, Action, Common};
use super::interrupt::Interrupt;
use super::ring::Rings;
use crate::broken::Broken;
use crate::device::{Device, Profile, Progress};

use worker::Worker;

/// Red Hat's number, which virtio devices have.
const VENDOR: u16 = 0x1af4;
/// Number of a device that is not transitional: the sum of this and its virtio number.
const DEVICE: u16 = 0x1040;
const SUBSYSTEM: u16 = 0x1100;
const CAP_VENDOR: u8 = 0x09;

/// The only BAR, and the offsets of the structures in it. They are far apart, as address space is cheap.
const BAR: u8 = 0;
const BAR_SIZE: u64 = 16 << 10;
const COMMON: u64 = 0;
const ISR: u64 = 0x800;
const DEVICE_CONFIG: u64 = 0x1000;
const NOTIFY: u64 = 0x2000;
const TABLE: u64 = 0x3000;
const PENDING: u64 = 0x3800;
const STRUCTURE: u64 = 0x800;
/// Bytes between the notification addresses of two queues.
const NOTIFY_MULTIPLIER: u64 = 4;

/// `struct virtio_pci_cap`: types, and lengths with number and link.
const CFG_COMMON: u8 = 1;
const CFG_NOTIFY: u8 = 2;
const CFG_ISR: u8 = 3;
const CFG_DEVICE: u8 = 4;
const CFG_PCI: u8 = 5;
const CAP_LEN: usize = 16;
const CAP_LEN_LONG: usize = 20;

/// Number of log lines about the driver's mistakes, for one device.
const COMPLAINTS: u32 = 8;

/// A device at work.
#[derive(Debug)]
pub(super) struct Engine {
    pub(super) device: Box<dyn Device>,
    pub(super) rings: Option<Rings>,
}

/// State that vCPUs and the device's thread share. Locks are taken in the order engine, registers, interrupt.
#[derive(Debug)]
pub(crate) struct Shared {
    name: String,
    pub(super) memory: GuestMemoryMmap,
    engine: Mutex<Engine, rank::VirtioEngine>,
    registers: Mutex<Common, rank::VirtioRegisters>,
    pub(super) interrupt: Arc<Interrupt>,
    /// Notifications of the queues.
    pub(super) kicks: Vec<EventFd>,
    /// True while the guest waits for the device to stop.
    pause: Arc<AtomicBool>,
    /// True while the machine stands still to be saved.
    pub(super) held: AtomicBool,
    pub(super) bus_master: AtomicBool,
    complaints: AtomicU32,
}

impl Shared {
    pub(super) fn engine(&self) -> MutexGuard<'_, Engine, rank::VirtioEngine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn registers(&self) -> MutexGuard<'_, Common, rank::VirtioRegisters> {
        self.registers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a mistake of the driver, up to a limit.
    fn complain(&self, what: std::fmt::Arguments<'_>) {
        if self.complaints.fetch_add(1, Ordering::Relaxed) < COMPLAINTS {
            log::warn!(target: "kvm", "{}: {what}", self.name);
        } else {
            log::debug!(target: "kvm", "{}: {what}", self.name);
        }
    }

    /// Takes the device out of service.
    pub(super) fn fail(&self, broken: &Broken) {
        self.complain(format_args!("{broken}; it is out of service until its driver resets it"));
        self.engine().rings = None;
        if self.registers().set_needs_reset() {
            self.interrupt.config();
        }
    }

    /// Does one step of the device's work, if it may work at all.
    pub(crate) fn work(&self) -> Progress {
        while self.pause.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        let mut engine = self.engine();
        let Engine { device, rings: Some(rings) } = &mut *engine else { return Progress::Idle };
        if !self.bus_master.load(Ordering::Acquire) || self.held.load(Ordering::SeqCst) {
            return Progress::Idle;
        }
        match device.work(rings) {
            Ok(progress) => progress,
            Err(broken) => {
                drop(engine);
                self.fail(&broken);
                Progress::Idle
            }
        }
    }

    /// Returns the file of the host that the device waits for, and its events.
    pub(super) fn host(&self) -> Option<(RawFd, EventSet)> {
        let engine = self.engine();
        let works = engine.rings.is_some() && !self.held.load(Ordering::SeqCst);
        works.then(|| engine.device.host()).flatten()
    }

    /// Takes the notification of a queue.
    pub(super) fn take_kick(&self, queue: usize) {
        if let Some(kick) = self.kicks.get(queue) {
            // An error means that another thread has read it.
            let _ = kick.read();
        }
    }

    pub(super) fn kick(&self, queue: u64) {
        if let Some(kick) = self.kicks.get(queue as usize) {
            // If the counter is full, it has been signalled.
            let _ = kick.write(1);
        }
    }

    fn reset(&self) {
        self.pause.store(true, Ordering::Release);
        let mut engine = self.engine();
        engine.rings = None;
        engine.device.reset();
        self.registers().reset();
        self.interrupt.reset();
        self.pause.store(false, Ordering::Release);
    }

    /// Makes the running queues of their registers.
    pub(super) fn rings(&self, queues: Vec<Option<Queue>>) -> Rings {
        Rings::new(queues, &self.memory, &self.interrupt, Arc::clone(&self.pause))
    }

    fn start(&self) {
        let mut engine = self.engine();
        let queues = {
            let registers = self.registers();
            // Another vCPU may have reset the device in between.
            if !registers.running() {
                return;
            }
            registers.queues()
        };
        match queues {
            Ok(queues) => {
                engine.rings = Some(self.rings(queues));
                drop(engine);
                self.kick(0);
            }
            Err(broken) => {
                drop(engine);
                self.fail(&broken);
            }
        }
    }
}

/// Addresses at which notifications come in without an exit.
#[derive(Debug)]
struct Placement {
    vm: Option<Arc<VmFd>>,
    base: Option<u64>,
}

/// A virtio device as a function of the root bus.
#[derive(Debug)]
pub struct VirtioFunction {
    bars: [BarLayout; 1],
    pub(super) config: Mutex<ConfigSpace, rank::VirtioConfig>,
    /// Offset of the capability that opens a window from configuration space into the BAR.
    window: usize,
    device_config: Vec<u8>,
    placement: Mutex<Placement, rank::VirtioPlacement>,
    pub(crate) shared: Arc<Shared>,
    /// Stopped before the other fields are dropped.
    worker: Option<Worker>,
}

impl VirtioFunction {
    /// Makes the function of device number `number`, which does nothing before it is started. Without a VM,
    /// notifications are exits.
    ///
    /// # Errors
    ///
    /// An eventfd that cannot be made.
    pub fn new(
        device: Box<dyn Device>,
        number: u8,
        memory: GuestMemoryMmap,
        interrupts: Arc<dyn Interrupts>,
        vm: Option<Arc<VmFd>>,
    ) -> io::Result<Self> {
        let profile = device.profile();
        let queues = profile.queues.len();
        let bars = [BarLayout { number: BAR, size: BAR_SIZE, wide: false }];
        let (config, window) = config_space(&profile, number, &bars);
        let kicks = (0..queues).map(|_| EventFd::new(EFD_NONBLOCK)).collect::<io::Result<_>>()?;
        let shared = Arc::new(Shared {
            name: profile.name.clone(),
            registers: Mutex::new(Common::new(memory.clone(), profile.features, &profile.queues)),
            memory,
            engine: Mutex::new(Engine { device, rings: None }),
            interrupt: Arc::new(Interrupt::new(queues, interrupts)),
            kicks,
            pause: Arc::default(),
            held: AtomicBool::new(false),
            bus_master: AtomicBool::new(false),
            complaints: AtomicU32::new(0),
        });
        Ok(Self {
            bars,
            config: Mutex::new(config),
            window,
            device_config: profile.config,
            placement: Mutex::new(Placement { vm, base: None }),
            shared,
            worker: None,
        })
    }

    /// Does one step of the device's work, if it may work at all: for a function without a thread.
    #[must_use]
    pub fn work(&self) -> Progress {
        self.shared.work()
    }

    /// Starts the thread that works for the device.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    pub fn start(mut self) -> io::Result<Self> {
        self.worker = Some(Worker::start(Arc::clone(&self.shared), &self.shared.name)?);
        Ok(self)
    }

    /// Returns the number of interrupt vectors of a device: one for each queue, one for its configuration.
    #[must_use]
    pub fn vectors(device: &dyn Device) -> u16 {
        device.profile().queues.len() as u16 + 1
    }

    pub(super) fn config(&self) -> MutexGuard<'_, ConfigSpace, rank::VirtioConfig> {
        self.config.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the access that the window in configuration space stands for, if it is a valid one.
    fn window(&self) -> Option<(u64, usize)> {
        let mut cap = [0; CAP_LEN];
        self.config().read(self.window, &mut cap);
        let word = |at: usize| u32::from_le_bytes([cap[at], cap[at + 1], cap[at + 2], cap[at + 3]]);
        let (bar, offset, length) = (cap[4], u64::from(word(8)), word(12));
        let fits = bar == BAR && matches!(length, 1 | 2 | 4) && offset.is_multiple_of(length.into());
        (fits && offset + u64::from(length) <= BAR_SIZE).then_some((offset, length as usize))
    }

    /// Returns true if an access reaches the window's data.
    fn at_window(&self, offset: usize, length: usize) -> bool {
        let data = self.window + CAP_LEN;
        offset < data + 4 && data < offset.saturating_add(length)
    }

    fn register(&self, vm: &VmFd, base: u64, add: bool) {
        for (queue, kick) in (0u64..).zip(&self.shared.kicks) {
            let address = IoEventAddress::Mmio(base + NOTIFY + queue * NOTIFY_MULTIPLIER);
            let done = if add {
                vm.register_ioevent(kick, &address, NoDatamatch)
            } else {
                vm.unregister_ioevent(kick, &address, NoDatamatch)
            };
            if let Err(error) = done {
                // Notifications then arrive as exits.
                log::debug!(target: "kvm", "{}: notifications at {base:#x}: {error}", self.shared.name);
            }
        }
    }
}

/// Returns the configuration space of a device, and the offset of the window in it.
fn config_space(profile: &Profile, number: u8, bars: &[BarLayout]) -> (ConfigSpace, usize) {
    let mut config = ConfigSpace::new(
        belfry_pci::CONVENTIONAL,
        &Identity {
            vendor: VENDOR,
            device: DEVICE + profile.id,
            class: profile.class,
            revision: 1,
            subsystem_vendor: VENDOR,
            subsystem: SUBSYSTEM,
        },
    );
    for bar in bars {
        config.bar(bar);
    }
    config.interrupt_pin(line_of(number, 0) as u8);
    let queues = profile.queues.len() as u64;
    config.msix(queues as u16 + 1, BAR, TABLE as u32, PENDING as u32);
    // struct virtio_pci_cap without the link: cap_len, cfg_type, bar, id, two bytes of padding, offset, length
    let cap = |cfg_type: u8, cap_len: usize, offset: u64, length: u64, rest: &[u8]| {
        let mut body = vec![cap_len as u8, cfg_type, BAR, 0, 0, 0];
        body.extend((offset as u32).to_le_bytes());
        body.extend((length as u32).to_le_bytes());
        body.extend(rest);
        body
    };
    let notify = cap(
        CFG_NOTIFY,
        CAP_LEN_LONG,
        NOTIFY,
        queues * NOTIFY_MULTIPLIER,
        &(NOTIFY_MULTIPLIER as u32).to_le_bytes(),
    );
    config.capability(CAP_VENDOR, &cap(CFG_COMMON, CAP_LEN, COMMON, common::SIZE, &[]));
    config.capability(CAP_VENDOR, &notify);
    config.capability(CAP_VENDOR, &cap(CFG_ISR, CAP_LEN, ISR, 1, &[]));
    let length = profile.config.len() as u64;
    if length > 0 {
        config.capability(CAP_VENDOR, &cap(CFG_DEVICE, CAP_LEN, DEVICE_CONFIG, length, &[]));
    }
    let window = config.capability(CAP_VENDOR, &cap(CFG_PCI, CAP_LEN_LONG, 0, 0, &[0; 4]));
    config.allow(window + 4, &[0xff]);
    config.allow(window + 8, &[0xff; 12]);
    (config, window)
}

impl Function for VirtioFunction {
    fn config_read(&self, offset: usize, data: &mut [u8]) {
        if self.at_window(offset, data.len())
            && let Some((at, length)) = self.window()
        {
            let mut content = [0; 4];
            self.read(BAR, at, &mut content[..length]);
            self.config().put(self.window + CAP_LEN, &content);
        }
        self.config().read(offset, data);
        if self.shared.interrupt.pending() {
            show_interrupt(offset, data);
        }
    }

    fn config_write(&self, offset: usize, data: &[u8]) {
        let (control, bus_master) = {
            let mut config = self.config();
            config.write(offset, data);
            (config.interrupt_control(), config.bus_master())
        };
        self.shared.interrupt.set_control(control);
        if bus_master != self.shared.bus_master.swap(bus_master, Ordering::AcqRel) && bus_master {
            self.shared.kick(0);
        }
        if self.at_window(offset, data.len())
            && let Some((at, length)) = self.window()
        {
            let mut content = [0; 4];
            self.config().read(self.window + CAP_LEN, &mut content);
            self.write(BAR, at, &content[..length]);
        }
    }

    fn bars(&self) -> &[BarLayout] {
        &self.bars
    }

    fn place(&self, bars: &[Bar]) {
        let mut placement = self.placement.lock().unwrap_or_else(PoisonError::into_inner);
        let base = bars.first().map(|bar| bar.base);
        let before = std::mem::replace(&mut placement.base, base);
        if let Some(vm) = placement.vm.as_ref().filter(|_| base != before) {
            if let Some(before) = before {
                self.register(vm, before, false);
            }
            if let Some(base) = base {
                self.register(vm, base, true);
            }
        }
    }

    fn read(&self, _bar: u8, offset: u64, data: &mut [u8]) {
        data.fill(0);
        let interrupt = &self.shared.interrupt;
        match (offset / STRUCTURE) * STRUCTURE {
            COMMON => self.shared.registers().read(offset - COMMON, data, interrupt),
            ISR if offset == ISR => {
                if let Some(byte) = data.first_mut() {
                    *byte = interrupt.take_isr();
                }
            }
            DEVICE_CONFIG => {
                for (at, byte) in ((offset - DEVICE_CONFIG) as usize..).zip(data) {
                    *byte = self.device_config.get(at).copied().unwrap_or(0);
                }
            }
            TABLE => interrupt.read_table(offset - TABLE, data),
            PENDING => interrupt.read_pending(offset - PENDING, data),
            _ => {}
        }
    }

    fn write(&self, _bar: u8, offset: u64, data: &[u8]) {
        let shared = &self.shared;
        match (offset / STRUCTURE) * STRUCTURE {
            COMMON => {
                let actions = shared.registers().write(offset - COMMON, data, &shared.interrupt);
                for action in actions {
                    match action {
                        Action::Reset => shared.reset(),
                        Action::Start => shared.start(),
                        Action::Break(broken) => shared.fail(&broken),
                    }
                }
            }
            NOTIFY => shared.kick((offset - NOTIFY) / NOTIFY_MULTIPLIER),
            TABLE => shared.interrupt.write_table(offset - TABLE, data),
            // All other parts are read only.
            _ => {}
        }
    }
}

impl Drop for VirtioFunction {
    fn drop(&mut self) {
        self.place(&[]);
    }
}

const _: () = assert!(64 * MSIX_ENTRY <= PENDING - TABLE, "the table runs into the pending bits");
