//! Interrupt routing: the board's own lines, and the messages of the functions, through irqfds.
//!
//! Messages: PCI 3.0 section 6.8 (MSI, MSI-X); routes: Linux `Documentation/virt/kvm/api.rst`, `KVM_SET_GSI_ROUTING`.

use std::fmt::Debug;
use std::io;
use std::sync::{Arc, PoisonError};

use belfry_device::InterruptSink;
use belfry_lock::{Mutex, rank};
use belfry_pci::Message;
use kvm_bindings::{
    KVM_IRQ_ROUTING_IRQCHIP, KVM_IRQ_ROUTING_MSI, KVM_IRQCHIP_IOAPIC, KVM_IRQCHIP_PIC_MASTER,
    KVM_IRQCHIP_PIC_SLAVE, KvmIrqRouting, kvm_irq_routing_entry, kvm_irq_routing_irqchip,
    kvm_irq_routing_msi,
};
use kvm_ioctls::VmFd;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::message::Interrupts;

/// Pins of the I/O APIC; messages have the numbers after them.
const PINS: u32 = 24;

/// Number of pins for functions, from pin 16 on: no device of the AT bus uses these pins.
const LINES: u8 = 8;

/// Returns the pin of the I/O APIC that pin 0 to 3 (INTA to INTD) of a device is connected to.
#[must_use]
pub fn line_of(device: u8, pin: u8) -> u32 {
    16 + u32::from(device.wrapping_add(pin) % LINES)
}

/// Destination of the interrupts of a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Route {
    /// To a pin of an interrupt controller.
    Pin {
        /// Number of the interrupt.
        gsi: u32,
        /// Number of the controller.
        chip: u32,
        /// The pin.
        pin: u32,
    },
    /// To the processor that a message names.
    Message {
        /// Number of the interrupt.
        gsi: u32,
        /// The message.
        message: Message,
    },
}

impl Route {
    fn entry(&self) -> kvm_irq_routing_entry {
        match *self {
            Self::Pin { gsi, chip, pin } => {
                let mut entry =
                    kvm_irq_routing_entry { gsi, type_: KVM_IRQ_ROUTING_IRQCHIP, ..Default::default() };
                entry.u.irqchip = kvm_irq_routing_irqchip { irqchip: chip, pin };
                entry
            }
            Self::Message { gsi, message } => {
                let mut entry =
                    kvm_irq_routing_entry { gsi, type_: KVM_IRQ_ROUTING_MSI, ..Default::default() };
                entry.u.msi = kvm_irq_routing_msi {
                    address_lo: message.address as u32,
                    address_hi: (message.address >> 32) as u32,
                    data: message.data,
                    ..Default::default()
                };
                entry
            }
        }
    }
}

/// Carrier of interrupts to the processors: KVM.
pub trait Chips: Debug + Send + Sync {
    /// Makes an eventfd raise the interrupt of a number.
    ///
    /// # Errors
    ///
    /// KVM's.
    fn connect(&self, eventfd: &EventFd, gsi: u32) -> io::Result<()>;
    /// Replaces the routes of all numbers.
    ///
    /// # Errors
    ///
    /// KVM's.
    fn set_routes(&self, routes: &[Route]) -> io::Result<()>;
    /// Sets the level of a pin.
    ///
    /// # Errors
    ///
    /// KVM's.
    fn set_line(&self, line: u32, asserted: bool) -> io::Result<()>;
}

impl Chips for VmFd {
    fn connect(&self, eventfd: &EventFd, gsi: u32) -> io::Result<()> {
        Ok(self.register_irqfd(eventfd, gsi)?)
    }

    fn set_routes(&self, routes: &[Route]) -> io::Result<()> {
        let entries: Vec<_> = routes.iter().map(Route::entry).collect();
        let routing =
            KvmIrqRouting::from_entries(&entries).map_err(|error| io::Error::other(format!("{error:?}")))?;
        Ok(self.set_gsi_routing(&routing)?)
    }

    fn set_line(&self, line: u32, asserted: bool) -> io::Result<()> {
        Ok(self.set_irq_line(line, asserted)?)
    }
}

/// The routes of one VM.
#[derive(Debug)]
pub struct Routes {
    chips: Arc<dyn Chips>,
    /// Messages of all functions, numbered from [`PINS`] on.
    messages: Mutex<Vec<Option<Message>>, rank::RoutesMessages>,
    /// Functions that assert each pin, as a bit mask: pins are shared.
    asserted: Mutex<[u32; PINS as usize], rank::RoutesAsserted>,
}

impl Routes {
    /// Connects the board's pins; there are no messages yet.
    ///
    /// # Errors
    ///
    /// KVM's.
    pub fn new(chips: Arc<impl Chips + 'static>) -> io::Result<Arc<Self>> {
        let routes = Self { chips, messages: Mutex::default(), asserted: Mutex::default() };
        routes.install(&[])?;
        Ok(Arc::new(routes))
    }

    /// Takes `count` numbers for the messages of the function of a device; they have no route yet.
    ///
    /// # Errors
    ///
    /// KVM's, and those of eventfds.
    pub fn vectors(self: &Arc<Self>, device: u8, count: u16) -> io::Result<Arc<Vectors>> {
        let eventfds = (0..count).map(|_| EventFd::new(EFD_NONBLOCK)).collect::<io::Result<Vec<_>>>()?;
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let first = messages.len();
        for (gsi, eventfd) in (PINS + first as u32..).zip(&eventfds) {
            self.chips.connect(eventfd, gsi)?;
        }
        messages.resize(first + usize::from(count), None);
        Ok(Arc::new(Vectors { routes: Arc::clone(self), device, first, eventfds }))
    }

    fn install(&self, messages: &[Option<Message>]) -> io::Result<()> {
        let mut routes = Vec::new();
        for gsi in 0..PINS {
            match gsi {
                0..8 => routes.push(Route::Pin { gsi, chip: KVM_IRQCHIP_PIC_MASTER, pin: gsi }),
                8..16 => routes.push(Route::Pin { gsi, chip: KVM_IRQCHIP_PIC_SLAVE, pin: gsi - 8 }),
                _ => {}
            }
            // The timer, line 0, is at pin 2; line 2 is the second 8259 and is used by no device.
            match gsi {
                0 => routes.push(Route::Pin { gsi, chip: KVM_IRQCHIP_IOAPIC, pin: 2 }),
                2 => {}
                _ => routes.push(Route::Pin { gsi, chip: KVM_IRQCHIP_IOAPIC, pin: gsi }),
            }
        }
        let sent =
            |(gsi, message): (u32, &Option<Message>)| message.map(|message| Route::Message { gsi, message });
        routes.extend((PINS..).zip(messages).filter_map(sent));
        self.chips.set_routes(&routes)
    }
}

/// The messages of one function.
#[derive(Debug)]
pub struct Vectors {
    routes: Arc<Routes>,
    device: u8,
    first: usize,
    eventfds: Vec<EventFd>,
}

impl Vectors {
    /// Returns the eventfds that KVM has, and the numbers of their interrupts.
    pub fn connected(&self) -> impl Iterator<Item = (&EventFd, u32)> {
        self.eventfds.iter().zip(PINS + self.first as u32..)
    }

    /// Returns the pin of the I/O APIC that the function's own pin is connected to.
    #[must_use]
    pub fn line(&self) -> u32 {
        line_of(self.device, 0)
    }
}

impl Interrupts for Vectors {
    fn route(&self, messages: &[Option<Message>]) {
        let mut all = self.routes.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.first..self.first + self.eventfds.len();
        let Some(current) = all.get_mut(own.clone()) else { return };
        let changed = current.iter().zip(messages).any(|(current, message)| current != message);
        if !changed {
            return;
        }
        for (current, message) in current.iter_mut().zip(messages) {
            *current = *message;
        }
        if let Err(error) = self.routes.install(&all) {
            // A message without a route in KVM reaches no processor; those of other functions still do.
            log::debug!(target: "kvm", "interrupts of {messages:x?} go nowhere: {error}");
            if let Some(current) = all.get_mut(own) {
                current.fill(None);
            }
            if let Err(error) = self.routes.install(&all) {
                log::error!(target: "kvm", "interrupts are not routed: {error}");
            }
        }
    }

    fn set_pin(&self, asserted: bool) {
        let line = self.line();
        let mut pins = self.routes.asserted.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(pin) = pins.get_mut(line as usize) else { return };
        let (before, own) = (*pin, 1 << self.device);
        *pin = if asserted { before | own } else { before & !own };
        if (*pin != 0) != (before != 0)
            && let Err(error) = self.routes.chips.set_line(line, *pin != 0)
        {
            log::error!(target: "kvm", "line {line} of device {} cannot be set: {error}", self.device);
        }
    }

    fn raise(&self, vector: u16) {
        if let Some(eventfd) = self.eventfds.get(usize::from(vector)) {
            // If the counter is full, KVM has not read it yet: the interrupt is pending anyway.
            let _ = eventfd.write(1);
        }
    }
}

impl InterruptSink for Vectors {
    fn raise(&self, vector: u16) {
        Interrupts::raise(self, vector);
    }

    fn set_pin(&self, asserted: bool) {
        Interrupts::set_pin(self, asserted);
    }
}
