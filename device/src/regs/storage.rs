//! Registers of a block that keep what is written to them.

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::{Access, Description, Offset, Register};

use super::Run;

/// One value for each register a block declares, by offset.
#[derive(Debug)]
pub(crate) struct Storage {
    registers: &'static [Description],
    values: Box<[AtomicU32]>,
}

impl Storage {
    /// Registers with their values after reset; the table is sorted by offset, as every `ALL` is.
    pub(crate) fn new(registers: &'static [Description]) -> Self {
        Self { registers, values: registers.iter().map(|register| AtomicU32::new(register.reset)).collect() }
    }

    /// A run for each register.
    pub(crate) fn claims(&self) -> Vec<Run> {
        self.registers.iter().map(|register| Run { first: register.at, count: 1 }).collect()
    }

    fn position(&self, at: Offset) -> Option<usize> {
        self.registers.binary_search_by_key(&at, |register| register.at).ok()
    }

    /// Value of a register; 0 where there is none.
    pub(crate) fn read(&self, at: Offset) -> u32 {
        self.position(at).map_or(0, |position| self.values[position].load(Ordering::Acquire))
    }

    /// Value of a register.
    pub(crate) fn get<R: Register>(&self) -> R {
        R::from_bits(self.read(R::AT))
    }

    /// Writes a register as a driver does: one that is read-only keeps its value.
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

    /// Back to the values after reset.
    pub(crate) fn reset(&self) {
        for (value, register) in self.values.iter().zip(self.registers) {
            value.store(register.reset, Ordering::Release);
        }
    }
}
