//! The targets of a vCPU's exits: the ports of the board, and the bus.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, TryLockError};

use belfry_bus::RootBus;
use belfry_lock::{Mutex, MutexGuard, rank};
use belfry_snapshot::{SavedBoard, SavedSerial};
use vm_superio::serial::{SerialEvents, SerialState};
use vm_superio::{I8042Device, Serial, Trigger};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::cmos::{self, Cmos};
use super::console::ConsoleWriter;
use super::power::{Power, RESET_CONTROL};
use crate::ending::{End, Ending};

/// The first serial port, and its line.
const COM1: u16 = 0x3f8;
pub(super) const COM1_IRQ: u32 = 4;
/// The keyboard controller's ports.
const I8042: [u16; 2] = [0x60, 0x64];
/// A byte written here ends the machine and is its status, as QEMU's `isa-debug-exit` sits at this port.
const DEBUG_EXIT: u16 = 0xf4;
/// Firmware's progress codes. Drivers write to this port for the delay of the write.
const POST: u16 = 0x80;
/// An eventfd as vm-superio wants it.
#[derive(Debug)]
pub(super) struct Line(pub(super) EventFd);

impl Trigger for Line {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

/// Signals that the serial port has room for more input.
#[derive(Debug)]
struct Wanted(EventFd);

impl SerialEvents for Wanted {
    fn buffer_read(&self) {}

    fn out_byte(&self) {}

    fn tx_lost_byte(&self) {}

    fn in_buffer_empty(&self) {
        // If the counter is full, it has been signalled.
        let _ = self.0.write(1);
    }
}

/// The keyboard controller's reset line.
#[derive(Debug)]
struct ResetLine(Arc<Ending>);

impl Trigger for ResetLine {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.end(End::Reset);
        Ok(())
    }
}

struct Ports {
    serial: Serial<Line, Wanted, ConsoleWriter>,
    keyboard: I8042Device<ResetLine>,
    clock: Cmos,
    power: Power,
}

fn saved_serial(state: SerialState) -> SavedSerial {
    SavedSerial {
        registers: [
            state.baud_divisor_low,
            state.baud_divisor_high,
            state.interrupt_enable,
            state.interrupt_identification,
            state.line_control,
            state.line_status,
            state.modem_control,
            state.modem_status,
            state.scratch,
        ],
        typed: state.in_buffer,
    }
}

fn serial_state(saved: &SavedSerial) -> SerialState {
    let [low, high, enable, identification, line_control, line_status, control, status, scratch] =
        saved.registers;
    SerialState {
        baud_divisor_low: low,
        baud_divisor_high: high,
        interrupt_enable: enable,
        interrupt_identification: identification,
        line_control,
        line_status,
        modem_control: control,
        modem_status: status,
        scratch,
        in_buffer: saved.typed.clone(),
    }
}

/// The board.
pub(super) struct Board {
    ports: Mutex<Ports, rank::BoardPorts>,
    /// Ready when the guest has read all typed input.
    pub(super) wanted: EventFd,
    pub(super) bus: RootBus,
    ending: Arc<Ending>,
    exits: AtomicU64,
    stray: AtomicU64,
}

impl Board {
    /// Makes a board with a bus; its serial port writes to `console`, and has its interrupt at `line`. A saved board
    /// goes on as it was.
    pub(super) fn new(
        bus: RootBus,
        console: ConsoleWriter,
        line: Line,
        ending: Arc<Ending>,
        saved: Option<&SavedBoard>,
    ) -> io::Result<Self> {
        let wanted = EventFd::new(EFD_NONBLOCK)?;
        let events = Wanted(wanted.try_clone()?);
        let serial = match saved {
            None => Serial::with_events(line, events, console),
            Some(saved) => Serial::from_state(&serial_state(&saved.serial), line, events, console)
                .map_err(|error| io::Error::other(format!("the serial port that was saved: {error:?}")))?,
        };
        let ports = Ports {
            serial,
            keyboard: I8042Device::new(ResetLine(Arc::clone(&ending))),
            clock: saved.map_or_else(Cmos::new, |saved| Cmos::restored(&saved.clock)),
            power: saved.map_or_else(Power::new, |saved| Power::restored(saved.power)),
        };
        if let Some(saved) = saved {
            bus.restore(saved.address);
        }
        let (exits, stray) = (AtomicU64::new(0), AtomicU64::new(0));
        Ok(Self { ports: Mutex::new(ports), wanted, bus, ending, exits, stray })
    }

    fn ports(&self) -> MutexGuard<'_, Ports, rank::BoardPorts> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the ports.
    pub(super) fn save(&self) -> SavedBoard {
        let ports = self.ports();
        SavedBoard {
            serial: saved_serial(ports.serial.state()),
            clock: ports.clock.save(),
            power: ports.power.save(),
            address: self.bus.address(),
        }
    }

    /// Returns the number of accesses that left the guest.
    pub(super) fn exits(&self) -> u64 {
        self.exits.load(Ordering::Relaxed)
    }

    /// Passes on the typed input that `read` returns, and returns the number of bytes that there is room for then;
    /// [`wanted`](Self::wanted) signals when another try is worth while.
    ///
    /// Does nothing while a vCPU is at the ports: it may be waiting for the caller to take its output.
    pub(super) fn typed(&self, read: impl FnOnce(usize) -> Vec<u8>) -> Option<usize> {
        let mut ports = match self.ports.try_lock() {
            Ok(ports) => ports,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let data = read(ports.serial.fifo_capacity());
        if let Err(error) = ports.serial.enqueue_raw_bytes(&data) {
            log::debug!(target: "kvm", "input is lost: {error:?}");
        }
        Some(ports.serial.fifo_capacity())
    }

    /// Counts an access without a target, and logs the first ones.
    fn stray(&self, what: &str, address: u64, len: usize) {
        if self.stray.fetch_add(1, Ordering::Relaxed) < 32 {
            log::debug!(target: "kvm", "{what} of {len} bytes at {address:#x}: nothing is there");
        }
    }

    pub(super) fn port_read(&self, port: u16, data: &mut [u8]) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        data.fill(0xff);
        match (port, &mut *data) {
            (RESET_CONTROL, [byte]) => *byte = 0,
            (COM1..=0x3ff, [byte]) => *byte = self.ports().serial.read((port - COM1) as u8),
            (_, [byte]) if I8042.contains(&port) => {
                *byte = self.ports().keyboard.read((port - I8042[0]) as u8);
            }
            (cmos::INDEX | cmos::DATA, [byte]) => *byte = self.ports().clock.read(port),
            _ if RootBus::has_port(port) => self.bus.port_read(port, data),
            _ if let Some(at) = Power::find(port) => self.ports().power.read(at, data),
            _ => self.stray("port read", port.into(), data.len()),
        }
    }

    pub(super) fn port_write(&self, port: u16, data: &[u8]) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        match (port, data) {
            (DEBUG_EXIT, [status, ..]) => self.ending.end(End::Exit(*status)),
            (RESET_CONTROL, [byte]) => Power::reset_control(*byte, &self.ending),
            (COM1..=0x3ff, [byte]) => {
                if let Err(error) = self.ports().serial.write((port - COM1) as u8, *byte) {
                    log::debug!(target: "kvm", "output is lost: {error:?}");
                }
            }
            (_, [byte]) if I8042.contains(&port) => {
                // The controller's reset line cannot fail.
                let _ = self.ports().keyboard.write((port - I8042[0]) as u8, *byte);
            }
            (POST, _) => {}
            (cmos::INDEX | cmos::DATA, [byte]) => self.ports().clock.write(port, *byte),
            _ if RootBus::has_port(port) => self.bus.port_write(port, data),
            _ if let Some(at) = Power::find(port) => self.ports().power.write(at, data, &self.ending),
            _ => self.stray("port write", port.into(), data.len()),
        }
    }

    pub(super) fn memory_read(&self, address: u64, data: &mut [u8]) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        if !self.bus.read(address, data) {
            data.fill(0xff);
            self.stray("read", address, data.len());
        }
    }

    pub(super) fn memory_write(&self, address: u64, data: &[u8]) {
        self.exits.fetch_add(1, Ordering::Relaxed);
        if !self.bus.write(address, data) {
            self.stray("write", address, data.len());
        }
    }
}
