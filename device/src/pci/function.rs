//! Configuration space, and the permissions that it gives the function.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError};

use belfry_abi::pci;
use belfry_lock::{Mutex, MutexGuard, rank};

use super::config::ConfigSpace;

/// Permissions of the function in configuration space: bus mastering, and the state of its interrupts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Control(u8);

impl Control {
    const BUS_MASTER: u8 = 1 << 0;
    const MSIX_ENABLED: u8 = 1 << 1;
    const MSIX_MASKED: u8 = 1 << 2;
    const MSI_ENABLED: u8 = 1 << 3;
    const PIN_DISABLED: u8 = 1 << 4;

    fn of(space: &ConfigSpace) -> Self {
        let interrupts = space.interrupt_control();
        let bits = [
            (space.bus_master(), Self::BUS_MASTER),
            (interrupts.msix_enabled, Self::MSIX_ENABLED),
            (interrupts.msix_masked, Self::MSIX_MASKED),
            (interrupts.msi_enabled, Self::MSI_ENABLED),
            (interrupts.intx_disabled, Self::PIN_DISABLED),
        ];
        Self(bits.into_iter().filter(|(set, _)| *set).fold(0, |all, (_, bit)| all | bit))
    }

    fn has(self, bit: u8) -> bool {
        self.0 & bit != 0
    }

    /// Returns true if the function may read and write memory, and send messages.
    pub(crate) fn bus_master(self) -> bool {
        self.has(Self::BUS_MASTER)
    }

    pub(crate) fn msix_enabled(self) -> bool {
        self.has(Self::MSIX_ENABLED)
    }

    pub(crate) fn msix_masked(self) -> bool {
        self.has(Self::MSIX_MASKED)
    }

    pub(crate) fn msi_enabled(self) -> bool {
        self.has(Self::MSI_ENABLED)
    }

    pub(crate) fn pin_disabled(self) -> bool {
        self.has(Self::PIN_DISABLED)
    }
}

/// The [`Control`] of a function, for parts that read it all the time; only [`Function`] writes it.
#[derive(Debug, Default)]
pub(crate) struct SharedControl(AtomicU8);

impl SharedControl {
    pub(crate) fn get(&self) -> Control {
        Control(self.0.load(Ordering::SeqCst))
    }

    /// Returns true if the function may read and write memory.
    pub(crate) fn bus_master(&self) -> bool {
        self.get().bus_master()
    }
}

/// Effects of a write to configuration space on the rest of the device.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Written {
    /// A function level reset was asked for.
    pub(crate) reset: bool,
    /// Bus mastering or the state of the interrupts may have changed.
    pub(crate) control: bool,
    /// New state of bus mastering, if it has changed.
    pub(crate) bus_master: Option<bool>,
    /// Addresses of BARs may have changed.
    pub(crate) bars: bool,
}

/// The function's configuration space.
#[derive(Debug)]
pub(crate) struct Function {
    space: Mutex<ConfigSpace, rank::ConfigSpace>,
    control: Arc<SharedControl>,
}

impl Function {
    pub(crate) fn new(space: ConfigSpace, control: Arc<SharedControl>) -> Self {
        let function = Self { space: Mutex::new(space), control };
        function.publish(&function.lock());
        function
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, ConfigSpace, rank::ConfigSpace> {
        self.space.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes the permissions of the space. The caller holds its lock, so that the last state published is
    /// the last one written.
    pub(super) fn publish(&self, space: &ConfigSpace) -> Control {
        let now = Control::of(space);
        Control(self.control.0.swap(now.0, Ordering::SeqCst))
    }

    pub(crate) fn read(&self, offset: usize, data: &mut [u8]) {
        self.lock().read(offset, data);
    }

    pub(crate) fn write(&self, offset: usize, data: &[u8]) -> Written {
        let mut space = self.lock();
        let effect = space.write(offset, data);
        // A state that the reset undoes is never published.
        if effect.reset || !effect.control {
            return Written { reset: effect.reset, bars: effect.bars, ..Written::default() };
        }
        let before = self.publish(&space);
        let now = space.bus_master();
        let bus_master = (before.bus_master() != now).then_some(now);
        Written { reset: false, control: true, bus_master, bars: effect.bars }
    }

    /// Address of VRAM on the bus.
    pub(crate) fn vram_at(&self) -> Option<u64> {
        self.lock().bar_at(pci::BAR_VRAM)
    }

    /// Address of the doorbells on the bus.
    pub(crate) fn doorbells_at(&self) -> Option<u64> {
        self.lock().bar_at(pci::BAR_DOORBELLS)
    }

    /// Address of the registers on the bus.
    pub(crate) fn registers_at(&self) -> Option<u64> {
        self.lock().bar_at(pci::BAR_REGISTERS)
    }

    /// Replaces the space with that of a function that was just powered on.
    pub(crate) fn reset(&self, space: ConfigSpace) {
        let mut old = self.lock();
        *old = space;
        self.publish(&old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GpuConfig;
    use crate::chip::gfx1100;

    fn space() -> ConfigSpace {
        ConfigSpace::new(&gfx1100::chip(8), &GpuConfig::default())
    }

    #[test]
    fn control_is_what_was_written_last() {
        let control = Arc::new(SharedControl::default());
        let function = Function::new(space(), Arc::clone(&control));
        assert_eq!(control.get(), Control::default());
        assert_eq!(
            function.write(4, &[6]),
            Written { reset: false, control: true, bus_master: Some(true), bars: true }
        );
        assert!(control.bus_master());
        assert_eq!(
            function.write(5, &[4]),
            Written { reset: false, control: true, bus_master: None, bars: true }
        );
        assert!(control.bus_master() && control.get().pin_disabled());
        assert_eq!(
            function.write(4, &[2]),
            Written { reset: false, control: true, bus_master: Some(false), bars: true }
        );
        assert!(!control.bus_master());
        function.write(4, &[6]);
        function.reset(space());
        assert_eq!(control.get(), Control::default());
    }

    #[test]
    fn bars_are_where_they_were_put_while_the_function_answers_there() {
        let function = Function::new(space(), Arc::default());
        let put = |at: usize, value: u32| function.write(at, &value.to_le_bytes()).bars;
        assert!(put(0x18, 0xe000_000c) && put(0x1c, 0x12) && put(0x24, 0xfe80_0000));
        assert_eq!((function.doorbells_at(), function.registers_at()), (None, None), "no access to memory");
        function.write(4, &[6]);
        assert_eq!(function.doorbells_at(), Some(0x12_e000_0000));
        assert_eq!(function.registers_at(), Some(0xfe80_0000));
        assert!(!put(0x3c, 5), "the interrupt line is no BAR");
        function.reset(space());
        assert_eq!((function.doorbells_at(), function.registers_at()), (None, None));
    }

    #[test]
    fn control_of_racing_writers_is_that_of_the_space() {
        let control = Arc::new(SharedControl::default());
        let function = Function::new(space(), Arc::clone(&control));
        for _ in 0..200 {
            std::thread::scope(|scope| {
                for command in [6, 2, 6] {
                    let function = &function;
                    scope.spawn(move || function.write(4, &[command]));
                }
            });
            assert_eq!(control.bus_master(), function.lock().bus_master());
        }
    }
}
