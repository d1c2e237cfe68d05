//! The device, by its BARs.

use belfry_abi::doorbell::DoorbellIndex;
use belfry_abi::pci::HDP_REMAP_OFFSET;
use belfry_abi::regs::{Register, gc};

use crate::memory::{poke, read32, write32};
use crate::registers;

/// Addresses of the BARs.
#[derive(Debug)]
pub struct Gpu {
    /// Registers.
    pub registers: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// Video memory.
    pub vram: u64,
}

impl Gpu {
    /// Reads a register.
    pub fn read<R: Register>(&self) -> R {
        R::from_bits(read32(self.registers + registers::offset::<R>()))
    }

    /// Writes a register.
    pub fn write<R: Register>(&self, value: R) {
        write32(self.registers + registers::offset::<R>(), value.bits());
    }

    /// Writes two registers that hold one value, the low half first.
    pub fn write_pair<L: Register, H: Register>(&self, value: u64) {
        self.write(L::from_bits(value as u32));
        self.write(H::from_bits((value >> 32) as u32));
    }

    /// Selects the bank of registers that each queue, or each VMID, has one of.
    pub fn select(&self, me: u32, pipe: u32, vmid: u32) {
        let mut bank = gc::GRBM_GFX_CNTL::from_bits(0);
        bank.set_meid(me);
        bank.set_pipeid(pipe);
        bank.set_vmid(vmid);
        self.write(bank);
    }

    /// Makes data that was written to VRAM reach it, before the device is to find it there.
    pub fn flush(&self) {
        write32(self.registers + HDP_REMAP_OFFSET, 0);
    }

    /// Rings a doorbell.
    pub fn ring(&self, doorbell: DoorbellIndex, value: u64) {
        poke(self.doorbells + doorbell.offset().bytes(), value);
    }
}
