//! Registers of a block that keep their written values.

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::{Access, Description, Offset, Register};

use super::Run;

/// One value for each register a block declares, by offset.
pub(crate) struct Storage {
    registers: &'static [Description],
    values: Box<[AtomicU32]>,
    /// Values after reset that differ from the table.
    resets: &'static [(Offset, u32)],
}

/// Shows the registers that differ from their values after reset, by name.
impl std::fmt::Debug for Storage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(named(self.registers, |at| self.read(at), |register| self.reset_value(register)))
            .finish()
    }
}

/// A name without quotes.
struct Name(&'static str);

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// The bits of a register.
struct Bits(u32);

impl std::fmt::Debug for Bits {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

/// The registers of a table by name, with the values that `read` returns, if they differ from `usual`.
pub(crate) fn named(
    registers: &'static [Description],
    read: impl Fn(Offset) -> u32,
    usual: impl Fn(&Description) -> u32,
) -> impl Iterator<Item = (impl std::fmt::Debug, impl std::fmt::Debug)> {
    let values = registers.iter().map(move |register| (register, read(register.at)));
    let told = values.filter(move |(register, value)| *value != usual(register));
    told.map(|(register, value)| (Name(register.name), Bits(value)))
}

impl Storage {
    /// Registers with their values after reset; the table is sorted by offset, as every `ALL` is.
    pub(crate) fn new(registers: &'static [Description]) -> Self {
        let values = registers.iter().map(|register| AtomicU32::new(register.reset)).collect();
        Self { registers, values, resets: &[] }
    }

    /// Registers with other values after reset for some of them.
    pub(crate) fn with_resets(registers: &'static [Description], resets: &'static [(Offset, u32)]) -> Self {
        let storage = Self { resets, ..Self::new(registers) };
        storage.reset();
        storage
    }

    fn reset_value(&self, register: &Description) -> u32 {
        self.resets.iter().find(|(at, _)| *at == register.at).map_or(register.reset, |&(_, value)| value)
    }

    /// A run for each register.
    pub(crate) fn claims(&self) -> Vec<Run> {
        self.registers.iter().map(|register| Run { first: register.at, count: 1 }).collect()
    }

    fn position(&self, at: Offset) -> Option<usize> {
        self.registers.binary_search_by_key(&at, |register| register.at).ok()
    }

    /// Returns true if it is one of the registers.
    pub(crate) fn has(&self, at: Offset) -> bool {
        self.position(at).is_some()
    }

    /// Value of a register; 0 if there is none.
    pub(crate) fn read(&self, at: Offset) -> u32 {
        self.position(at).map_or(0, |position| self.values[position].load(Ordering::Acquire))
    }

    /// Value of a register.
    pub(crate) fn get<R: Register>(&self) -> R {
        R::from_bits(self.read(R::AT))
    }

    /// Writes a register as a driver does: a read-only one keeps its value.
    pub(crate) fn write(&self, at: Offset, value: u32) {
        if let Some(position) = self.position(at)
            && self.registers[position].access == Access::Rw
        {
            self.values[position].store(value, Ordering::Release);
        }
    }

    /// Gives a register a value, read-only or not.
    pub(crate) fn set<R: Register>(&self, register: R) {
        if let Some(position) = self.position(R::AT) {
            self.values[position].store(register.bits(), Ordering::Release);
        }
    }

    /// Every value, in the order of the table.
    pub(crate) fn kept(&self) -> Vec<&AtomicU32> {
        self.values.iter().collect()
    }

    /// Returns to the values after reset.
    pub(crate) fn reset(&self) {
        for (value, register) in self.values.iter().zip(self.registers) {
            value.store(self.reset_value(register), Ordering::Release);
        }
    }
}
