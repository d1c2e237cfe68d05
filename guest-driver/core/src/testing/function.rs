//! The PCI function of [`FakeOs`]: VRAM is a vector, registers are a map.

use alloc::sync::Arc;

use belfry_abi::doorbell::DoorbellOffset;
use belfry_abi::regs::{gc, mmhub};

use super::{FakeOs, lock, registers};
use crate::errno::{Errno, Result};
use crate::os::{DeviceInfo, Function, OwnPlace};

/// Invalidation engine 17 of a hub: what is requested is acknowledged at once.
const INVALIDATE_ENGINE: u32 = 17;

/// Addresses at which the fake device finds its doorbells, and its registers.
pub(crate) const OWN_DOORBELLS: u64 = 0xd0_0000_0000;
pub(crate) const OWN_REGISTERS: u64 = 0xd8_0000_0000;
pub(crate) const OWN_VRAM: u64 = 0xe0_0000_0000;

/// The function, whose parts are where tests find them.
pub(crate) struct FakeFunction(Arc<FakeOs>);

impl FakeOs {
    /// Returns the system with its function, as a driver takes them.
    pub(crate) fn pair(self) -> (Arc<Self>, FakeFunction) {
        let os = Arc::new(self);
        (os.clone(), FakeFunction(os))
    }

    pub(crate) fn reg_read(&self, offset: u32) -> u32 {
        lock(&self.registers).get(&offset).copied().unwrap_or(0)
    }

    pub(crate) fn reg_write(&self, offset: u32, value: u32) {
        {
            let map = registers();
            let mut registers = lock(&self.registers);
            registers.insert(offset, value);
            for (request, acknowledge) in [
                (map.dword::<gc::GCVM_INVALIDATE_ENG0_REQ>(), map.dword::<gc::GCVM_INVALIDATE_ENG0_ACK>()),
                (
                    map.dword::<mmhub::MMVM_INVALIDATE_ENG0_REQ>(),
                    map.dword::<mmhub::MMVM_INVALIDATE_ENG0_ACK>(),
                ),
            ] {
                if offset == (request + INVALIDATE_ENGINE) * 4 {
                    let value = if *lock(&self.deaf) { 0 } else { value };
                    registers.insert((acknowledge + INVALIDATE_ENGINE) * 4, value);
                }
            }
        }
        if let Some(hook) = &*lock(&self.on_write) {
            hook(offset, value);
        }
    }

    pub(crate) fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        if let Some(hook) = &*lock(&self.on_doorbell) {
            hook(self, offset, value);
        }
        if offset == crate::asic::ANY.doorbells.scheduler.offset()
            && let Some(scheduler) = &mut *lock(&self.scheduler)
        {
            scheduler.serve(self, value);
        }
    }

    pub(crate) fn vram_read(&self, offset: u64, data: &mut [u8]) {
        data.copy_from_slice(&lock(&self.vram)[offset as usize..][..data.len()]);
    }

    pub(crate) fn vram_write(&self, offset: u64, data: &[u8]) {
        lock(&self.vram)[offset as usize..][..data.len()].copy_from_slice(data);
    }

    pub(crate) fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        lock(&self.vram)[offset as usize..][..len as usize].fill(byte);
    }
}

impl Function for FakeFunction {
    fn reg_read(&self, offset: u32) -> u32 {
        self.0.reg_read(offset)
    }

    fn reg_write(&self, offset: u32, value: u32) {
        self.0.reg_write(offset, value);
    }

    fn doorbell_write(&self, offset: DoorbellOffset, value: u64) {
        self.0.doorbell_write(offset, value);
    }

    fn vram_read(&self, offset: u64, data: &mut [u8]) {
        self.0.vram_read(offset, data);
    }

    fn vram_write(&self, offset: u64, data: &[u8]) {
        self.0.vram_write(offset, data);
    }

    fn vram_fill(&self, offset: u64, len: u64, byte: u8) {
        self.0.vram_fill(offset, len, byte);
    }

    fn device_info(&self) -> DeviceInfo {
        DeviceInfo::default()
    }

    fn own_bus_address(&self, place: OwnPlace) -> u64 {
        match place {
            OwnPlace::Doorbells(offset) => OWN_DOORBELLS + offset,
            OwnPlace::Flushes(offset) => OWN_REGISTERS + offset,
            OwnPlace::Vram(offset) => OWN_VRAM + offset,
        }
    }

    fn doorbell_size(&self) -> u64 {
        2 << 20
    }

    fn vram_size(&self) -> u64 {
        lock(&self.0.vram).len() as u64
    }

    fn write_barrier(&self) {}

    fn reset_function(&self) -> Result<()> {
        Err(Errno::EOPNOTSUPP)
    }
}
