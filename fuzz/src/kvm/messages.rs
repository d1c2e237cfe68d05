//! The GPU's messages on their way to the processors, with a KVM that only remembers where they go.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use belfry_abi::pci::MSIX_VECTORS;
use belfry_bus::{Chips, GpuMessages, Interrupts, Message, Route, Routes, Vectors, line_of};
use belfry_device::Gpu;
use vmm_sys_util::eventfd::EventFd;

use crate::device;

/// Device numbers: the GPU's, and the other function's, which has another line.
const GPU: u8 = 1;
const OTHER: u8 = 2;

/// Returns true if this KVM takes a message. Some it refuses, so that the refusal is tested.
#[must_use]
pub fn is_taken(address: u64) -> bool {
    address >> 32 & 0xff != 0xff
}

#[derive(Debug, Default)]
struct State {
    connected: BTreeMap<u32, EventFd>,
    routes: Vec<Route>,
    lines: BTreeMap<u32, bool>,
}

#[derive(Debug, Default)]
struct Kvm(Mutex<State>);

impl Kvm {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn message(&self, gsi: u32) -> Option<(u64, u32)> {
        self.state().routes.iter().find_map(|route| match *route {
            Route::Message { gsi: number, message } if number == gsi => Some((message.address, message.data)),
            _ => None,
        })
    }
}

impl Chips for Kvm {
    fn connect(&self, eventfd: &EventFd, gsi: u32) -> io::Result<()> {
        let before = self.state().connected.insert(gsi, eventfd.try_clone()?);
        assert!(before.is_none(), "two eventfds for interrupt {gsi}");
        Ok(())
    }

    /// Refuses routes as Linux does: two messages of one number, or one that is also a pin's (`setup_routing_entry`).
    fn set_routes(&self, routes: &[Route]) -> io::Result<()> {
        let mut seen: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
        for route in routes {
            let (gsi, chip) = match *route {
                Route::Pin { gsi, chip, .. } => (gsi, Some(chip)),
                Route::Message { gsi, .. } => (gsi, None),
            };
            let others = seen.entry(gsi).or_default();
            let doubled =
                others.contains(&chip) || !others.is_empty() && (chip.is_none() || others.contains(&None));
            assert!(!doubled, "interrupt {gsi} is routed twice: {routes:x?}");
            others.push(chip);
        }
        let refused =
            |route: &Route| matches!(route, Route::Message { message, .. } if !is_taken(message.address));
        if routes.iter().any(refused) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.state().routes = routes.to_vec();
        Ok(())
    }

    fn set_line(&self, line: u32, asserted: bool) -> io::Result<()> {
        let before = self.state().lines.insert(line, asserted).unwrap_or(false);
        assert_ne!(before, asserted, "line {line} is set to what it is");
        Ok(())
    }
}

/// The GPU and its messages, and another function with some.
#[derive(Debug)]
pub struct Messages {
    /// The device.
    pub gpu: Arc<Gpu>,
    messages: GpuMessages,
    kvm: Arc<Kvm>,
    other: Arc<Vectors>,
    first: u32,
}

impl Default for Messages {
    fn default() -> Self {
        Self::new()
    }
}

impl Messages {
    /// A device as at power on.
    #[must_use]
    pub fn new() -> Self {
        let kvm = Arc::new(Kvm::default());
        let routes = Routes::new(kvm.clone()).expect("routes of pins");
        let vectors = routes.vectors(GPU, MSIX_VECTORS).expect("eventfds");
        let other = routes.vectors(OTHER, 1).expect("an eventfd");
        let first = kvm.state().connected.keys().next().copied().unwrap_or_default();
        let gpu = device::gpu(vectors.clone(), true);
        Self { messages: GpuMessages::new(gpu.clone(), vectors), gpu, kvm, other, first }
    }

    /// Writes configuration space.
    pub fn config_write(&self, offset: usize, data: &[u8]) {
        self.messages.config_write(offset, data);
    }

    /// Writes the register BAR. Returns true if the device took it.
    pub fn register_write(&self, offset: u64, data: &[u8]) -> bool {
        self.messages.register_write(offset, data).is_ok()
    }

    /// Destination of the messages of a vector of the GPU: address and data.
    #[must_use]
    pub fn route(&self, vector: u16) -> Option<(u64, u32)> {
        self.kvm.message(self.first + u32::from(vector))
    }

    /// Number of messages that a vector of the GPU has sent since the last call.
    #[must_use]
    pub fn sent(&self, vector: u16) -> u64 {
        let state = self.kvm.state();
        let eventfd = state.connected.get(&(self.first + u32::from(vector)));
        eventfd.and_then(|eventfd| eventfd.read().ok()).unwrap_or(0)
    }

    /// Returns true if the GPU's line is asserted.
    #[must_use]
    pub fn pin(&self) -> bool {
        self.kvm.state().lines.get(&line_of(GPU, 0)).copied().unwrap_or(false)
    }

    /// Sets where the message of the other function goes.
    pub fn set_other(&self, address: u64, data: u32) {
        Interrupts::route(&*self.other, &[Some(Message { address, data })]);
    }

    /// Destination of the other function's message: address and data.
    #[must_use]
    pub fn other(&self) -> Option<(u64, u32)> {
        self.kvm.message(self.first + u32::from(MSIX_VECTORS))
    }
}
