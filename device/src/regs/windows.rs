//! Windows of the bus interface: VRAM and registers through MM_INDEX/MM_DATA, registers near and far through
//! two more index/data pairs, and the place to which the driver has moved the flush of the host data path.

use std::sync::atomic::{AtomicU32, Ordering};

use belfry_abi::regs::nbio::{
    self, MM_DATA, MM_INDEX, MM_INDEX_HI, PCIE_DATA2, PCIE_INDEX2, REMAP_HDP_MEM_FLUSH_CNTL, RSMU_DATA,
    RSMU_INDEX,
};
use belfry_abi::regs::{Offset, Register};

use crate::chip::{Chip, RegisterBar};

/// A data register that opens a window.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Window {
    /// MM_DATA: VRAM, or registers.
    Memory,
    /// RSMU_DATA: registers by byte address.
    Rsmu,
    /// PCIE_DATA2: registers by byte address.
    Pcie,
}

/// Current target of a window.
pub(super) enum Target {
    /// VRAM at a byte offset.
    Vram(u64),
    /// A register of the BAR, by absolute dword index.
    Register(u32),
    /// A register outside of the BAR, by byte address.
    Far(u32),
    Nothing,
}

/// The index registers, and the places of the data registers.
#[derive(Debug)]
pub(crate) struct Windows {
    /// Absolute dword indices of the data registers.
    data: [(Option<u32>, Window); 3],
    mm_index: AtomicU32,
    mm_index_hi: AtomicU32,
    rsmu_index: AtomicU32,
    pcie_index: AtomicU32,
    memory_flush: AtomicU32,
    bar: RegisterBar,
}

impl Windows {
    pub(crate) fn new(chip: &dyn Chip, bar: RegisterBar) -> Self {
        let dword = |at: Offset| chip.dword(nbio::IP, 0, at);
        Self {
            data: [
                (dword(MM_DATA::AT), Window::Memory),
                (dword(RSMU_DATA::AT), Window::Rsmu),
                (dword(PCIE_DATA2::AT), Window::Pcie),
            ],
            mm_index: AtomicU32::default(),
            mm_index_hi: AtomicU32::default(),
            rsmu_index: AtomicU32::default(),
            pcie_index: AtomicU32::default(),
            memory_flush: AtomicU32::default(),
            bar,
        }
    }

    /// Registers that the BAR decodes.
    pub(super) fn registers(&self) -> u32 {
        self.bar.registers()
    }

    fn register(&self, at: Offset) -> Option<&AtomicU32> {
        Some(match at {
            MM_INDEX::AT => &self.mm_index,
            MM_INDEX_HI::AT => &self.mm_index_hi,
            RSMU_INDEX::AT => &self.rsmu_index,
            PCIE_INDEX2::AT => &self.pcie_index,
            REMAP_HDP_MEM_FLUSH_CNTL::AT => &self.memory_flush,
            _ => return None,
        })
    }

    /// Reads a register of the bus interface, if the windows have it.
    pub(crate) fn read(&self, at: Offset) -> Option<u32> {
        self.register(at).map(|register| register.load(Ordering::Acquire))
    }

    /// Writes a register of the bus interface; `false` if the windows do not have it.
    pub(crate) fn write(&self, at: Offset, value: u32) -> bool {
        self.register(at).map(|register| register.store(value, Ordering::Release)).is_some()
    }

    /// The window that the register at an absolute dword index opens, if it does.
    pub(super) fn open(&self, dword: u32) -> Option<Window> {
        self.data.iter().find(|(at, _)| *at == Some(dword)).map(|&(_, window)| window)
    }

    /// The current target of a window.
    pub(super) fn target(&self, window: Window) -> Target {
        let index = match window {
            Window::Memory => {
                let index = MM_INDEX::from_bits(self.mm_index.load(Ordering::Acquire));
                if index.mm_aper() {
                    let high = u64::from(self.mm_index_hi.load(Ordering::Acquire));
                    return Target::Vram(high << 31 | u64::from(index.mm_offset() & !3));
                }
                index.bits()
            }
            Window::Rsmu => self.rsmu_index.load(Ordering::Acquire),
            Window::Pcie => self.pcie_index.load(Ordering::Acquire),
        };
        match index {
            // A window onto a window: hardware would not do that, and it could have no end.
            byte if self.open(byte / 4).is_some() => Target::Nothing,
            byte if u64::from(byte) < self.bar.size => Target::Register(byte / 4),
            byte => Target::Far(byte & !3),
        }
    }

    /// Absolute dword index of the register whose write flushes what the host wrote to VRAM.
    pub(super) fn memory_flush(&self) -> u32 {
        match self.memory_flush.load(Ordering::Acquire) {
            0 => (self.bar.hdp_remap / 4) as u32,
            offset => offset / 4,
        }
    }

    /// The index registers, and the place of the flush.
    pub(super) fn kept(&self) -> [&AtomicU32; 5] {
        [&self.mm_index, &self.mm_index_hi, &self.rsmu_index, &self.pcie_index, &self.memory_flush]
    }

    pub(super) fn reset(&self) {
        for register in self.kept() {
            register.store(0, Ordering::Release);
        }
    }
}
